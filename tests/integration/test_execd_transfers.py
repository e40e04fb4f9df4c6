"""Uploads and downloads of execd: any size in little memory, ranges, conditions, clients that stop or leave."""

import json
import os
import shutil
import socket
import sys
import tempfile
import unittest
import urllib.parse
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from execd import END, SANITIZED, WAIT, Execd, ExecdCase, metadata, multipart, wait_until  # noqa: E402

MEMORY_MAX_KIB = 16 * 1024
PIECE = os.urandom((1 << 20) + 4093)  # a length that no buffer size divides
HUGE = 4 << 30


def pieces(size):
    while size > 0:
        yield PIECE[:size]
        size -= len(PIECE)


def checksum(size):
    crc = 0
    for piece in pieces(size):
        crc = zlib.crc32(piece, crc)
    return crc


def roomy_folder(size):
    """Where a file of this size may lie for a while: in memory if that is plenty, else on the disk."""
    with open("/proc/meminfo", encoding="ascii") as file:
        available = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
    for folder, limit in (("/dev/shm", available // 2), (tempfile.gettempdir(), size + (4 << 30))):
        if os.path.isdir(folder) and size < limit and shutil.disk_usage(folder).free > size + (1 << 30):
            return folder
    return None


class Sizes(ExecdCase):
    def upload(self, execd, path, size):
        head = metadata(path) + (b'--BoUnDaRy\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n'
                                 b"Content-Type: application/octet-stream\r\n\r\n")
        tail = b"\r\n" + END
        sock = self.connect(execd)
        sock.sendall(b"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=BoUnDaRy"
                     b"\r\nContent-Length: %d\r\n\r\n" % (len(head) + size + len(tail)) + head)
        for piece in pieces(size):
            sock.sendall(piece)
        sock.sendall(tail)
        answer = sock.recv(4096)
        sock.close()
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK\r\n"), answer)

    def connect(self, execd):
        if execd.path:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(execd.path)
        else:
            sock = socket.create_connection(("127.0.0.1", execd.port))
        sock.settimeout(60)
        return sock

    def download(self, execd, path):
        """(length announced, bytes received, their checksum)"""
        sock = self.connect(execd)
        sock.sendall(f"GET /files/download?path={path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        buffer = bytearray(1 << 20)
        view = memoryview(buffer)
        text = b""
        while b"\r\n\r\n" not in text:
            piece = sock.recv(4096)
            self.assertTrue(piece)
            text += piece
        head, rest = text.split(b"\r\n\r\n", 1)
        self.assertTrue(head.startswith(b"HTTP/1.1 200 OK\r\n"), head)
        announced = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
        crc, received = zlib.crc32(rest), len(rest)
        while (n := sock.recv_into(buffer)) > 0:
            crc = zlib.crc32(view[:n], crc)
            received += n
        sock.close()
        return announced, received, crc

    def check(self, size, unix=False, folder=None):
        folder = tempfile.mkdtemp(prefix="osb-execd-test-", dir=folder or roomy_folder(size))
        self.addCleanup(shutil.rmtree, folder, True)
        path = os.path.join(folder, "file")
        execd = Execd(unix=unix)
        try:
            self.upload(execd, path, size)
            self.assertEqual(os.listdir(folder), ["file"])
            self.assertEqual(os.stat(path).st_size, size)
            self.assertEqual(self.download(execd, path), (size, size, checksum(size)))
            if not SANITIZED:
                self.assertLess(execd.memory_kib("VmHWM"), MEMORY_MAX_KIB)
        finally:
            execd.stop()
            shutil.rmtree(folder)

    def test_empty(self):
        self.check(0)

    def test_18_kib(self):
        self.check(18 << 10)

    def test_33_mib(self):
        self.check(33 << 20)
        self.check(33 << 20, unix=True)

    def test_33_mib_on_disk(self):
        self.check(33 << 20, folder=tempfile.gettempdir())

    @unittest.skipIf(SANITIZED, "takes too long with sanitizers")
    @unittest.skipUnless(roomy_folder(HUGE), "there is no room for 4 GiB")
    def test_4_gib(self):
        self.check(HUGE)


class Ranges(ExecdCase):
    def get(self, name, **headers):
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.execd.request("GET", "/files/download?path=" + urllib.parse.quote(self.file(name)), None, named)

    def test_table(self):
        data = os.urandom(3_000_001)
        self.write("x", data)
        size = len(data)
        connection = self.execd.connect()
        for text, first, last in (
                ("bytes=0-0", 0, 0), ("bytes=0-", 0, size - 1), ("bytes=-1", size - 1, size - 1),
                ("bytes=-99999999", 0, size - 1), (f"bytes={size - 1}-", size - 1, size - 1),
                ("bytes=1000000-2500000", 1_000_000, 2_500_000), ("bytes=5-99999999999999999999", 5, size - 1),
                ("bytes=1-2,5-6", 1, 2), ("BYTES= 1-2", 1, 2)):
            status, response, got = self.execd.request("GET", "/files/download?path=" + self.file("x"), None,
                                                       {"Range": text}, connection)
            self.assertEqual((status, got == data[first:last + 1]), (206, True), text)
            self.assertEqual(response.getheader("Content-Range"), f"bytes {first}-{last}/{size}")
            self.assertEqual(response.getheader("Content-Length"), str(last - first + 1))
            self.assertEqual(response.getheader("Content-Type"), "application/octet-stream")
        connection.close()

    def test_bad_ones(self):
        self.write("x", b"0123456789")
        self.write("empty", b"")
        connection = self.execd.connect()
        for name, text, size in (
                ("x", "bytes=10-", 10), ("x", "bytes=5-2", 10), ("x", "bytes=-0", 10), ("x", "bytes=", 10),
                ("x", "bytes=-", 10), ("x", "bytes=a-b", 10), ("x", "bytes=1-2-3", 10), ("x", "bytes=--1", 10),
                ("x", "lines=1-2", 10), ("x", "0-5", 10), ("x", "bytes=18446744073709551616-", 10),
                ("empty", "bytes=0-", 0), ("empty", "bytes=-5", 0)):
            status, response, body = self.execd.request("GET", "/files/download?path=" + self.file(name), None,
                                                        {"Range": text}, connection)
            self.assertEqual(status, 416, text)
            self.assertEqual(response.getheader("Content-Range"), f"bytes */{size}")
            self.assertEqual(response.getheader("Content-Type"), "application/json")
            self.assertEqual(response.getheader("Content-Length"), str(len(body)))
            self.assertEqual(set(json.loads(body)), {"code", "message"})
        connection.close()

    def test_conditions(self):
        self.write("x", b"0123456789")
        os.utime(self.file("x"), ns=(0, 784111777_500_000_000))
        before, exact, after = (f"Sun, 06 Nov 1994 08:49:{s} GMT" for s in (36, 37, 38))
        _, response, _ = self.get("x")
        tag = response.getheader("ETag")
        self.assertEqual(response.getheader("Last-Modified"), exact)
        self.assertRegex(tag, r'^"[0-9a-f-]+"$')
        for headers, expected in (
                ({"If_Modified_Since": before}, 200), ({"If_Modified_Since": exact}, 304),
                ({"If_Modified_Since": after}, 304), ({"If_Modified_Since": "x"}, 200),
                ({"If_Unmodified_Since": before}, 412), ({"If_Unmodified_Since": exact}, 200),
                ({"If_None_Match": tag}, 304), ({"If_None_Match": '"x"'}, 200), ({"If_Match": tag}, 200),
                ({"If_Match": '"x"'}, 412), ({"Range": "bytes=1-2", "If_Range": exact}, 206),
                ({"Range": "bytes=1-2", "If_Range": before}, 200), ({"Range": "bytes=1-2", "If_Range": tag}, 206),
                ({"Range": "bytes=1-2", "If_Range": '"x"'}, 200), ({"Range": "bytes=1-2", "If_Match": '"x"'}, 412)):
            status, response, body = self.get("x", **headers)
            self.assertEqual(status, expected, headers)
            if status == 304:
                self.assertEqual((body, response.getheader("ETag"), response.getheader("Content-Length")),
                                 (b"", tag, None))
            elif status == 412:
                self.assertEqual(set(json.loads(body)), {"code", "message"})
            else:
                self.assertEqual(body, b"12" if status == 206 else b"0123456789")
        self.write("x", b"01234567x9")
        self.assertNotEqual(self.get("x")[1].getheader("ETag"), tag)


class Clients(ExecdCase):
    def start(self, path, rest=""):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        sock.settimeout(WAIT)
        sock.connect(("127.0.0.1", self.execd.port))
        sock.sendall(f"GET /files/download?path={path} HTTP/1.1\r\nHost: x\r\n{rest}\r\n".encode())
        return sock

    def open_files(self):
        return len(os.listdir(f"/proc/{self.execd.process.pid}/fd"))

    def test_one_that_stops_and_goes_on(self):
        """The socket fills, the download waits, and what comes then is what belongs there."""
        data = os.urandom(1 << 20) * 8
        path = self.write("x", data)
        sock = self.start(path, "Connection: close\r\n")
        self.assertTrue(sock.recv(100).startswith(b"HTTP/1.1 200"))
        for _ in range(20):  # others are served meanwhile
            self.assertEqual(self.execd.request("GET", "/ping")[0], 200)
        got = b""
        while piece := sock.recv(1 << 16):
            got += piece
        sock.close()
        self.assertEqual(got[-len(data):], data)

    def test_one_that_leaves(self):
        path = self.write("x", b"x" * (20 << 20))
        before = self.open_files()
        for _ in range(10):
            sock = self.start(path)
            sock.recv(100)
            sock.close()
        wait_until(lambda: self.open_files() == before, "closing of the file")

    def test_keep_alive_after_a_file(self):
        path = self.write("x", b"x" * 3_000_000)
        connection = self.execd.connect()
        for _ in range(3):
            status, _, data = self.execd.request("GET", "/files/download?path=" + path, connection=connection)
            self.assertEqual((status, len(data)), (200, 3_000_000))
            self.assertEqual(self.execd.request("GET", "/ping", connection=connection)[0], 200)
        connection.close()

    def test_pair_limit(self):
        files = [(self.file("x"), b"", {})]
        body = multipart(files)[0][:-len(END)] * 5_001 + END
        status, _, data = self.execd.request("POST", "/files/upload", body, multipart(files)[1])
        self.assert_error((status, json.loads(data)), 400, "INVALID_FILE", "10000")
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
