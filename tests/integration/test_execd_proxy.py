"""/proxy/{port}/... of a real execd, to small servers of the test's own that show the bytes they got."""

import base64
import hashlib
import http.client
import json
import os
import socket
import struct
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from execd import (SANITIZED, WAIT, Execd, ExecdCase, multipart, parse_events, texts,  # noqa: E402
                   wait_until)


class Upstream:
    """Accepts connections and hands each to `serve(connection, head)` once a head has arrived."""

    def __init__(self, serve, port=0):
        self.serve = serve
        self.heads = []
        self.errors = []
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(sock,), daemon=True).start()

    def _one(self, sock):
        sock.settimeout(WAIT)
        try:
            with sock, sock.makefile("rwb") as stream:
                while True:
                    head = []
                    for line in iter(stream.readline, b"\r\n"):
                        if not line:
                            return
                        head.append(line.decode("latin-1").rstrip("\r\n"))
                    self.heads.append(head)
                    self.serve(stream, head)
                    stream.flush()
        except Exception as error:  # pylint: disable=broad-except
            self.errors.append(error)

    def close(self):
        self.listener.close()


def field(head, name):
    return [line.split(": ", 1)[1] for line in head[1:] if line.lower().startswith(name.lower() + ":")]


def answer_ok(stream, head):
    body = head[0].encode()
    stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
    if not head[0].startswith("HEAD"):
        stream.write(body)


class ProxyCase(ExecdCase):
    def upstream(self, serve=answer_ok):
        server = Upstream(serve)
        self.addCleanup(server.close)
        return server


class Paths(ProxyCase):
    def test_bytes_of_the_target_are_kept(self):
        server = self.upstream()
        for asked, sent in [("", "/"), ("/", "/"), ("?x=1", "/?x=1"), ("/?", "/?"), ("/a/b", "/a/b"),
                            ("/a%2Fb%00%zz", "/a%2Fb%00%zz"), ("//x//", "//x//"), ("/../y/./z", "/../y/./z"),
                            ("/q?a=%2F&b=c/d?e", "/q?a=%2F&b=c/d?e"), ("/proxy/1/x", "/proxy/1/x"),
                            ("/internal/start", "/internal/start"), ("/~;,=:@!$&'()*+", "/~;,=:@!$&'()*+")]:
            status, _, body = self.execd.request("GET", f"/proxy/{server.port}{asked}")
            self.assertEqual((status, body.decode()), (200, f"GET {sent} HTTP/1.1"), asked)

    def test_methods(self):
        server = self.upstream()
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
            status, _, body = self.execd.request(method, f"/proxy/{server.port}/m")
            self.assertEqual((status, body.decode()), (200, f"{method} /m HTTP/1.1"))
        status, response, body = self.execd.request("HEAD", f"/proxy/{server.port}/m")
        self.assertEqual((status, response.getheader("Content-Length"), body),
                         (200, str(len("HEAD /m HTTP/1.1")), b""))

    def test_fields(self):
        server = self.upstream()
        self.execd.request("GET", f"/proxy/{server.port}/", headers={
            "Host": "my.host:81", "X-EXECD-ACCESS-TOKEN": "secret", "open-sandbox-api-key": "key",
            "OpenSandbox-Secure-Access": "s", "OPENSANDBOX-EGRESS-AUTH": "e", "Connection": "keep-alive, X-Hop",
            "X-Hop": "1", "TE": "trailers", "X-Mine": "a  b", "Cookie": "c=d"})
        head = server.heads[-1]
        for name, values in [("Host", ["my.host:81"]), ("X-EXECD-ACCESS-TOKEN", []), ("OPEN-SANDBOX-API-KEY", []),
                             ("OpenSandbox-Secure-Access", []), ("OPENSANDBOX-EGRESS-AUTH", []), ("X-Hop", []),
                             ("TE", []), ("X-Mine", ["a  b"]), ("Cookie", ["c=d"]),
                             ("X-Forwarded-For", ["127.0.0.1"]), ("X-Forwarded-Proto", ["http"]),
                             ("X-Forwarded-Host", ["my.host:81"])]:
            self.assertEqual(field(head, name), values, name)
        self.execd.request("GET", f"/proxy/{server.port}/", headers={
            "X-Forwarded-For": "10.0.0.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "outside"})
        head = server.heads[-1]
        self.assertEqual(field(head, "X-Forwarded-For"), ["10.0.0.9, 127.0.0.1"])
        self.assertEqual(field(head, "X-Forwarded-Proto"), ["https"])
        self.assertEqual(field(head, "X-Forwarded-Host"), ["outside"])

    def test_egress_proxy_sees_its_own_key(self):
        try:
            server = Upstream(answer_ok, 18080)
        except OSError as error:
            self.skipTest(f"port 18080 is taken: {error}")
        self.addCleanup(server.close)
        self.execd.request("GET", "/proxy/18080/policy", headers={"OPENSANDBOX-EGRESS-AUTH": "e",
                                                                  "X-EXECD-ACCESS-TOKEN": "secret"})
        self.assertEqual(field(server.heads[-1], "OPENSANDBOX-EGRESS-AUTH"), ["e"])
        self.assertEqual(field(server.heads[-1], "X-EXECD-ACCESS-TOKEN"), [])

    def test_connections_are_reused(self):
        server = self.upstream()
        ports = set()
        original = server.serve

        def serve(stream, head):
            ports.add(id(stream))
            original(stream, head)
        server.serve = serve
        for _ in range(10):
            self.assertEqual(self.execd.request("GET", f"/proxy/{server.port}/")[0], 200)
        self.assertEqual(len(ports), 1)

    def test_bad_ports(self):
        for port in ("0", "65536", "http", "-1", "%38%30", "80x", "99999999999999999999"):
            self.assert_error(self.execd.json("GET", f"/proxy/{port}/x"), 400, "INVALID_PORT",
                              f'from 1 to 65535, not "{port}"')
        self.assertEqual(self.execd.json("GET", "/proxy/")[0], 404)
        self.assertEqual(self.execd.json("GET", "/proxy")[0], 404)

    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        self.assert_error(self.execd.json("GET", f"/proxy/{port}/"), 502, "PROXY_FAILED", "Connection refused")
        # Bodies do not get in the way of the answer.
        self.assert_error(self.execd.json("POST", f"/proxy/{port}/", {"a": "x" * 100000}), 502, "PROXY_FAILED")

    def test_nonsense_from_the_program(self):
        for text in (b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b""):
            def serve(stream, _head, text=text):
                stream.write(text)
                stream.flush()
                stream.close()
            server = self.upstream(serve)
            self.assert_error(self.execd.json("GET", f"/proxy/{server.port}/"), 502, "PROXY_FAILED")


class Bodies(ProxyCase):
    def test_large_upload_and_download(self):
        size = 32 << 20
        block = bytes(range(256)) * 4096

        def serve(stream, head):
            left = int(field(head, "Content-Length")[0])
            digest = hashlib.sha256()
            while left:
                piece = stream.read(min(left, 1 << 20))
                digest.update(piece)
                left -= len(piece)
            stream.write(b"HTTP/1.1 200 OK\r\nX-Digest: %s\r\nContent-Length: %d\r\n\r\n" %
                         (digest.hexdigest().encode(), size))
            for _ in range(size // len(block)):
                stream.write(block)
        server = self.upstream(serve)
        connection = self.execd.connect()
        connection.request("POST", f"/proxy/{server.port}/up", (block for _ in range(size // len(block))),
                           {"Content-Length": str(size)})
        response = connection.getresponse()
        expected = hashlib.sha256()
        for _ in range(size // len(block)):
            expected.update(block)
        got = hashlib.sha256()
        total = 0
        while piece := response.read(1 << 20):
            got.update(piece)
            total += len(piece)
        connection.close()
        self.assertEqual((total, response.getheader("X-Digest"), got.hexdigest()),
                         (size, expected.hexdigest(), expected.hexdigest()))

    def test_chunks_both_ways(self):
        def serve(stream, head):
            self.assertEqual(field(head, "Transfer-Encoding"), ["chunked"])
            data = b""
            while size := int(stream.readline(), 16):
                data += stream.read(size)
                stream.readline()
            stream.readline()
            stream.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for byte in data:
                stream.write(b"1\r\n%c\r\n" % byte)
            stream.write(b"0\r\n\r\n")
        server = self.upstream(serve)
        connection = self.execd.connect()
        connection.request("PUT", f"/proxy/{server.port}/", (p for p in (b"ab", b"c" * 5000, b"d")), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})
        self.assertEqual(connection.getresponse().read(), b"ab" + b"c" * 5000 + b"d")
        connection.close()

    def test_event_stream_is_not_held_back(self):
        go_on = threading.Event()

        def serve(stream, _head):
            stream.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: one\n\n")
            stream.flush()
            go_on.wait(WAIT)
            stream.write(b"data: two\n\n")
            stream.close()
        server = self.upstream(serve)
        connection = self.execd.connect()
        connection.request("GET", f"/proxy/{server.port}/events")
        response = connection.getresponse()
        self.assertEqual(response.read1(100), b"data: one\n\n")  # while the second is not written yet
        go_on.set()
        self.assertEqual(response.read(), b"data: two\n\n")
        connection.close()

    def test_a_stopped_reader_stops_the_program(self):
        written = []

        def serve(stream, _head):
            stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
            for _ in range(1024):
                stream.write(b"x" * (1 << 20))
                stream.flush()
                written.append(1)
        server = self.upstream(serve)
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        sock.sendall(b"GET /proxy/%d/ HTTP/1.1\r\nHost: x\r\n\r\n" % server.port)
        sock.recv(1)
        before = self.execd.memory_kib()
        last = -1
        while last != len(written):  # until nothing moves any more
            last = len(written)
            time.sleep(0.3)
        self.assertLess(last, 64)
        if not SANITIZED:
            self.assertLess(self.execd.memory_kib() - before, 8 * 1024)
        sock.close()
        wait_until(lambda: server.errors, "the program is told that its reader has gone")

    def test_answer_cut_short_stays_short(self):
        def serve(stream, _head):
            stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            stream.flush()
            stream.close()
        server = self.upstream(serve)
        connection = self.execd.connect()
        connection.request("GET", f"/proxy/{server.port}/")
        with self.assertRaises(http.client.IncompleteRead):
            connection.getresponse().read()
        connection.close()

    def test_nothing_is_left(self):
        def fds():
            return len(os.listdir(f"/proc/{self.execd.process.pid}/fd"))
        server = self.upstream()
        self.execd.request("GET", f"/proxy/{server.port}/")
        before = fds()
        for _ in range(50):
            self.execd.request("GET", f"/proxy/{server.port}/")
            sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
            sock.sendall(b"POST /proxy/%d/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf" % server.port)
            sock.close()
        wait_until(lambda: fds() <= before + 2, f"{fds()} fds instead of {before}")


def websocket_accept(key):
    digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    return base64.b64encode(digest).decode()


class Upgrades(ProxyCase):
    def open(self, target, protocol="websocket", extra=b""):
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        self.addCleanup(sock.close)
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode() + extra)
        stream = sock.makefile("rb")
        self.addCleanup(stream.close)
        head = [line.decode().rstrip() for line in iter(stream.readline, b"\r\n")]
        return sock, stream, head

    def test_websocket(self):
        def serve(stream, head):
            key = field(head, "Sec-WebSocket-Key")[0]
            stream.write(("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                          f"Sec-WebSocket-Accept: {websocket_accept(key)}\r\n\r\n").encode())
            stream.flush()
            while True:  # echo text frames, unmasked
                first = stream.read(2)
                if len(first) < 2:
                    return
                length = first[1] & 127
                if length == 126:
                    length = struct.unpack(">H", stream.read(2))[0]
                mask = stream.read(4)
                data = bytes(b ^ mask[i % 4] for i, b in enumerate(stream.read(length)))
                stream.write(bytes([first[0]]) + (bytes([length]) if length < 126 else
                                                  b"\x7e" + struct.pack(">H", length)) + data)
                stream.flush()
        server = self.upstream(serve)
        sock, stream, head = self.open(f"/proxy/{server.port}/socket?a=b")
        self.assertIn("101", head[0])
        self.assertEqual(field(head, "Sec-WebSocket-Accept"), ["s3pPLMBiTxaQ9kYGzzhZRbK+xOo="])
        self.assertEqual(server.heads[-1][0], "GET /socket?a=b HTTP/1.1")
        for text in (b"hello", b"x" * 3000):
            length = bytes([128 | len(text)]) if len(text) < 126 else b"\xfe" + struct.pack(">H", len(text))
            sock.sendall(b"\x81" + length + b"\0\0\0\0" + text)
            first = stream.read(2)
            if first[1] == 126:
                stream.read(2)
            self.assertEqual(stream.read(len(text)), text)

    def test_any_other_protocol_with_early_bytes(self):
        def serve(stream, head):
            self.assertEqual(field(head, "Upgrade"), ["raw/7"])
            stream.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw/7\r\n\r\nhi ")
            stream.flush()
            stream.write(stream.read(5))
            stream.flush()
            stream.close()
        server = self.upstream(serve)
        for way in (f"/proxy/{server.port}/", f"/proxy/44772/proxy/{server.port}/"):
            _, stream, head = self.open(way, "raw/7", b"early")
            self.assertIn("101", head[0])
            self.assertEqual(stream.read(), b"hi early")

    def test_refused(self):
        def serve(stream, _head):
            stream.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        server = self.upstream(serve)
        _, stream, head = self.open(f"/proxy/{server.port}/")
        self.assertIn("403", head[0])
        self.assertEqual(stream.read(2), b"no")


class Own(ProxyCase):
    """Ports that are execd's own: served, not called."""

    def test_as_if_it_were_not_there(self):
        for port in (44772, self.execd.port):
            self.assertEqual(self.execd.request("GET", f"/proxy/{port}/ping")[0], 200)
            self.assertEqual(self.execd.json("GET", f"/proxy/{port}/nothing")[0], 404)
            self.assertEqual(self.execd.json("GET", f"/proxy/{port}")[0], 404)
            status, _, body = self.execd.request("POST", f"/proxy/{port}/command", json.dumps({"command": "echo hi"}))
            self.assertEqual(status, 200)
            self.assertEqual(texts(parse_events(body.decode()), "stdout"), ["hi"])
            body, headers = multipart([(self.file("up"), b"data" * 50000, {})])
            self.assertEqual(self.execd.request("POST", f"/proxy/{port}/files/upload", body, headers)[0], 200)
            status, _, data = self.execd.request("GET", f"/proxy/{port}/files/download?path={self.file('up')}")
            self.assertEqual((status, data), (200, b"data" * 50000))
            status, info = self.execd.json("GET", f"/proxy/{port}/files/info?path={self.file('up')}")
            self.assertEqual((status, info[self.file("up")]["size"]), (200, 200000))

    def test_no_second_hop(self):
        """A request through itself costs no further connection."""
        connection = self.execd.connect()
        self.execd.request("GET", "/proxy/44772/ping", connection=connection)
        before = self.fds()
        for _ in range(20):
            self.execd.request("GET", "/proxy/44772/ping", connection=connection)
        self.assertEqual(self.fds(), before)
        connection.close()

    def fds(self):
        return len(os.listdir(f"/proc/{self.execd.process.pid}/fd"))

    def test_nesting_is_bounded(self):
        for depth in range(1, 5):
            self.assertEqual(self.execd.request("GET", "/proxy/44772" * depth + "/ping")[0], 200, depth)
        for depth in (5, 50, 1000):
            self.assert_error(self.execd.json("GET", "/proxy/44772" * depth + "/ping"), 400, "INVALID_PORT",
                              "more than 4 times")
        server = self.upstream()
        status, _, body = self.execd.request("GET", f"/proxy/44772/proxy/{server.port}/x?y")
        self.assertEqual((status, body), (200, b"GET /x?y HTTP/1.1"))
        self.assert_error(self.execd.json("GET", "/proxy/44772/proxy/0/x"), 400, "INVALID_PORT", '"0"')

    def test_internal_is_not_reached(self):
        execd = Execd(unix=True)
        try:
            body = {"entrypoint": ["true"]}
            for path in ("/proxy/44772/internal/start", "/proxy/44772//internal/start",
                         "/proxy/44772/./internal/start", "/proxy/44772/proxy/44772/internal/start",
                         "/proxy/44772/%69nternal/start"):
                self.assertEqual(execd.json("POST", path, body)[0], 404, path)
            # And there is no TCP port at all: 44772 is served all the same.
            self.assertEqual(execd.request("GET", "/proxy/44772/ping")[0], 200)
            self.assertEqual(execd.json("POST", "/internal/start", body)[0], 200)
        finally:
            execd.stop()

    def test_token_is_asked_for_once_and_not_passed_on(self):
        execd = Execd("--access-token", "secret")
        server = self.upstream()
        try:
            for path in ("/proxy/44772/ping", f"/proxy/{server.port}/"):
                self.assertEqual(execd.request("GET", path)[0], 401)
                self.assertEqual(execd.request("GET", path, headers={"X-EXECD-ACCESS-TOKEN": "secret"})[0], 200)
            self.assertEqual(len(server.heads), 1)
            self.assertEqual(field(server.heads[0], "X-EXECD-ACCESS-TOKEN"), [])
        finally:
            execd.stop()


if __name__ == "__main__":
    unittest.main()
