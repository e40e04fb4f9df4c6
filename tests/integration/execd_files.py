"""The file endpoints of execd; part of test_execd.py."""

import contextlib
import json
import os
import socket
import subprocess
import time
import unittest
import urllib.parse

from execd import (END, HEADERS, SANITIZED, WAIT, Execd, ExecdCase, content, metadata, multipart, part,
                   wait_until)


class Files(ExecdCase):
    def upload(self, body, headers=None, execd=None):
        return (execd or self.execd).request("POST", "/files/upload", body, headers or HEADERS)

    def assert_uploaded(self, body, headers=None):
        status, response, data = self.upload(body, headers)
        self.assertEqual((status, data), (200, b""), data)
        self.assertEqual(response.getheader("Content-Length"), "0")

    def assert_refused(self, body, status, code, text="", headers=None):
        got, _, data = self.upload(body, headers)
        self.assert_error((got, json.loads(data)), status, code, text)

    def download(self, path, query="", headers=None):
        return self.execd.request("GET", "/files/download?path=" + urllib.parse.quote(path) + query, None, headers)

    def mode(self, name):
        return os.stat(self.file(name)).st_mode & 0o7777

    def leftovers(self):
        return [name for _, folders, files in os.walk(self.folder) for name in folders + files]

    # --- upload

    def test_round_trips(self):
        for size in (0, 1, 18 * 1024, 5 * 1024 * 1024):
            data = os.urandom(size)
            body, headers = multipart([(self.file("x"), data, {})])
            self.assert_uploaded(body, headers)
            self.assertEqual(self.read("x"), data)
            status, response, got = self.download(self.file("x"))
            self.assertEqual((status, got == data), (200, True), size)
            self.assertEqual(response.getheader("Content-Length"), str(size))

    def test_content_that_looks_like_a_boundary(self):
        data = b"\r\n--BoUnDaR\r\n--BoUnDaRx--\r\n\r\n-"
        self.assert_uploaded(*multipart([(self.file("x"), data, {})]))
        self.assertEqual(self.read("x"), data)

    def test_many_pairs(self):
        files = [(self.file(f"d{i % 7}/f{i}"), b"%d" % i * (i % 50), {"mode": 640}) for i in range(300)]
        self.assert_uploaded(*multipart(files))
        for path, data, _ in files:
            with open(path, "rb") as file:
                self.assertEqual(file.read(), data)
        self.assertEqual(len(self.leftovers()), 307, "no temporary file is left")

    def test_chunked_body(self):
        body, headers = multipart([(self.file("x"), b"y" * 100000, {})])
        pieces = [body[i:i + 777] for i in range(0, len(body), 777)]
        connection = self.execd.connect()
        connection.request("POST", "/files/upload", iter(pieces), headers, encode_chunked=True)
        response = connection.getresponse()
        self.assertEqual((response.status, response.read()), (200, b""))
        connection.close()
        self.assertEqual(self.read("x"), b"y" * 100000)

    def test_unquoted_parameters_and_no_types(self):
        body = (part("metadata", "metadata", json.dumps({"path": self.file("x")}).encode(), None, "") +
                part("file", "x", b"data", None, "") + END)
        self.assert_uploaded(body, {"Content-Type": 'multipart/form-data; boundary="BoUnDaRy"'})
        self.assertEqual(self.read("x"), b"data")

    def test_nulls_in_metadata(self):
        self.assert_uploaded(*multipart([(self.file("x"), b"d", {"owner": None, "group": None, "mode": None})]))
        self.assertEqual(self.read("x"), b"d")

    def test_parts_without_filename_and_with_other_names_are_ignored(self):
        body = (part("metadata", None, b"not json") + part("other", "other", b"x" * 100000) +
                metadata(self.file("x")) + part("file", None, b"no") + content(b"yes") + END)
        self.assert_uploaded(body)
        self.assertEqual(self.read("x"), b"yes")

    def test_metadata_after_the_files(self):
        body = (content(b"one") + content(b"two") + metadata(self.file("a/1")) + metadata(self.file("2"), mode=600) +
                END)
        self.assert_uploaded(body)
        self.assertEqual((self.read("a/1"), self.read("2"), self.mode("2")), (b"one", b"two", 0o600))

    def test_all_metadata_before_the_files(self):
        body = metadata(self.file("1")) + metadata(self.file("2")) + content(b"one") + content(b"two") + END
        self.assert_uploaded(body)
        self.assertEqual((self.read("1"), self.read("2")), (b"one", b"two"))

    def test_mode(self):
        for digits, mode in ((755, 0o755), (644, 0o644), (600, 0o600), (7, 0o007), (4755, 0o755)):
            self.assert_uploaded(*multipart([(self.file("x"), b"", {"mode": digits})]))
            self.assertEqual(self.mode("x"), mode, digits)

    def test_overwriting_keeps_mode_and_owner(self):
        self.write("x", b"old and longer")
        os.chmod(self.file("x"), 0o4751)
        if os.geteuid() == 0:
            os.chown(self.file("x"), 1234, 2345)
            os.chmod(self.file("x"), 0o751)
        mode = self.mode("x")
        self.assert_uploaded(*multipart([(self.file("x"), b"new", {})]))
        self.assertEqual((self.read("x"), self.mode("x")), (b"new", mode))
        if os.geteuid() == 0:
            st = os.stat(self.file("x"))
            self.assertEqual((st.st_uid, st.st_gid), (1234, 2345))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_owner_and_group(self):
        self.assert_uploaded(*multipart([(self.file("x"), b"", {"owner": "nobody", "group": "nogroup", "mode": 644})]))
        info = self.execd.json("GET", "/files/info?path=" + self.file("x"))[1][self.file("x")]
        self.assertEqual((info["owner"], info["group"], info["mode"]), ("nobody", "nogroup", 644))
        self.assert_refused(multipart([(self.file("y"), b"", {"owner": "no-such-user"})])[0], 400,
                            "INVALID_FILE_METADATA", "no-such-user")
        self.assertFalse(os.path.exists(self.file("y")))

    def test_readers_see_the_old_file_or_the_new_one(self):
        old, new = b"o" * 300000, b"n" * 300000
        self.write("x", old)
        inode = os.stat(self.file("x")).st_ino
        body, _ = multipart([(self.file("x"), new, {})])
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        sock.sendall(b"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; "
                     b"boundary=BoUnDaRy\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:200000])
        wait_until(lambda: len(self.leftovers()) == 2, "temporary file")
        self.assertEqual(self.read("x"), old)
        sock.sendall(body[200000:])
        self.assertIn(b"200 OK", sock.recv(1000))
        sock.close()
        self.assertEqual(self.read("x"), new)
        self.assertNotEqual(os.stat(self.file("x")).st_ino, inode)

    def test_broken_off_upload_leaves_nothing(self):
        self.write("x", b"old")
        body, _ = multipart([(self.file("new/folder/y"), b"z" * 1000, {}), (self.file("x"), b"n" * 300000, {})])
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        sock.sendall(b"POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; "
                     b"boundary=BoUnDaRy\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:200000])
        wait_until(lambda: len(self.leftovers()) > 3, "temporary files")
        sock.close()
        wait_until(lambda: self.leftovers() == ["x"], "cleaning up")
        self.assertEqual(self.read("x"), b"old")

    def test_failed_pair_changes_nothing(self):
        self.write("x", b"old")
        os.mkdir(self.file("folder"))
        good = metadata(self.file("x")) + content(b"new") + metadata(self.file("made/up/y")) + content(b"new")
        self.assert_refused(good + metadata(self.file("folder")) + content(b"new") + END, 400,
                            "INVALID_FILE_METADATA", "directory")
        self.assert_refused(good + metadata(self.file("z"), mode=888) + content(b"new") + END, 400,
                            "INVALID_FILE_METADATA", "888")
        self.assert_refused(good + metadata(self.file("z")) + END, 400, "INVALID_FILE", "3")
        self.assert_refused(good, 400, "INVALID_FILE")
        self.assertEqual(sorted(self.leftovers()), ["folder", "x"])
        self.assertEqual(self.read("x"), b"old")

    def test_bad_uploads(self):
        self.assert_refused(b"{}", 400, "INVALID_FILE", headers={"Content-Type": "application/json"})
        self.assert_refused(b"", 400, "INVALID_FILE", headers={"Content-Type": "multipart/form-data"})
        self.assert_refused(END, 400, "INVALID_FILE_METADATA")
        self.assert_refused(content(b"x") + END, 400, "INVALID_FILE_METADATA")
        self.assert_refused(metadata(self.file("x")) + END, 400, "INVALID_FILE_CONTENT")
        self.assert_refused(content(b"x") + content(b"y") + metadata(self.file("x")) + END, 400, "INVALID_FILE")
        for bad in (b"", b"{", b"[]", b"{}", b'{"path":""}', b'{"path":5}', b'{"path":"$NOT_SET/x"}',
                    b'{"path":"/tmp/x","mode":"644"}', b'{"path":"/tmp/x","owner":5}', b" " * 70000):
            self.assert_refused(part("metadata", "metadata", bad) + content(b"x") + END, 400,
                                "INVALID_FILE_METADATA")
        self.assertEqual(self.leftovers(), [])

    def test_below_a_file(self):
        self.write("x", b"")
        self.assert_refused(multipart([(self.file("x/y"), b"", {})])[0], 400, "INVALID_FILE_METADATA")

    def test_through_symbolic_links(self):
        self.write("real", b"old")
        os.symlink("real", self.file("link"))
        os.symlink("link", self.file("link2"))
        os.symlink("later", self.file("dangling"))
        os.symlink("loop", self.file("loop"))
        self.assert_uploaded(*multipart([(self.file("link2"), b"new", {}), (self.file("dangling"), b"made", {})]))
        self.assertEqual((self.read("real"), self.read("later")), (b"new", b"made"))
        self.assertTrue(os.path.islink(self.file("link")) and os.path.islink(self.file("dangling")))
        self.assert_refused(multipart([(self.file("loop"), b"", {})])[0], 400, "INVALID_FILE_METADATA")

    def test_devices_are_not_replaced(self):
        os.mkfifo(self.file("fifo"))
        self.assert_refused(multipart([(self.file("fifo"), b"", {})])[0], 400, "INVALID_FILE_METADATA",
                            "not a regular file")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_file_that_is_a_mount(self):
        self.write("source", b"old")
        self.write("target", b"")
        result = subprocess.run(["mount", "--bind", self.file("source"), self.file("target")], check=False,
                                capture_output=True)
        if result.returncode != 0:
            self.skipTest("cannot mount here")
        try:
            self.assert_uploaded(*multipart([(self.file("target"), b"written in place", {})]))
            self.assertEqual(self.read("source"), b"written in place")
            self.assertEqual(sorted(self.leftovers()), ["source", "target"])
        finally:
            subprocess.run(["umount", self.file("target")], check=True)

    # --- download

    def test_head_of_a_download(self):
        self.write("x y.txt", b"hello")
        _, response, _ = self.download(self.file("x y.txt"))
        self.assertEqual(response.getheader("Content-Type"), "application/octet-stream")
        self.assertEqual(response.getheader("Content-Disposition"), 'attachment; filename="x y.txt"')
        self.assertEqual(response.getheader("Accept-Ranges"), "bytes")
        self.assertRegex(response.getheader("Last-Modified"), r"^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$")
        for name in ('ä"', "a\nb"):
            self.write(name, b"hello")
            _, response, data = self.download(self.file(name))
            encoded = urllib.parse.quote(name)
            self.assertEqual(response.getheader("Content-Disposition"),
                             f"attachment; filename=\"{encoded}\"; filename*=UTF-8''{encoded}")
            self.assertEqual(data, b"hello")

    def test_ranges(self):
        data = bytes(range(256)) * 1000
        self.write("x", data)
        size = len(data)
        for text, first, last in (("bytes=0-9", 0, 9), ("bytes=255990-", 255990, size - 1),
                                  ("bytes=-5", size - 5, size - 1), ("bytes=10-9999999", 10, size - 1),
                                  ("bytes=1-2,7-8", 1, 2)):
            status, response, got = self.download(self.file("x"), headers={"Range": text})
            self.assertEqual(status, 206)
            self.assertEqual(got, data[first:last + 1])
            self.assertEqual(response.getheader("Content-Range"), f"bytes {first}-{last}/{size}")
            self.assertEqual(response.getheader("Content-Length"), str(last - first + 1))

    def test_bad_ranges(self):
        self.write("x", b"0123456789")
        connection = self.execd.connect()
        for text in ("bytes=10-", "bytes=5-2", "bytes=x", "bytes=-0", "lines=1-2"):
            status, response, body = self.execd.request("GET", "/files/download?path=" + self.file("x"), None,
                                                        {"Range": text}, connection)
            self.assertEqual(status, 416, text)
            self.assertEqual(response.getheader("Content-Range"), "bytes */10")
            self.assertEqual(response.getheader("Content-Type"), "application/json")
            self.assertEqual(set(json.loads(body)), {"code", "message"})
        connection.close()

    def test_if_range(self):
        self.write("x", b"0123456789")
        date = self.download(self.file("x"))[1].getheader("Last-Modified")
        self.assertEqual(self.download(self.file("x"), "", {"Range": "bytes=1-2", "If-Range": date})[0], 206)
        old = "Thu, 01 Jan 1970 00:00:00 GMT"
        self.assertEqual(self.download(self.file("x"), "", {"Range": "bytes=1-2", "If-Range": old})[0], 200)

    def test_lines(self):
        self.write("x", b"one\ntwo\r\nthree\n\nfive")
        for query, expected in (("&offset=1", b"one\ntwo\nthree\n\nfive"), ("&offset=2&limit=2", b"two\nthree"),
                                ("&limit=1", b"one"), ("&offset=5&limit=10", b"five"), ("&offset=6", b"")):
            status, response, data = self.download(self.file("x"), query)
            self.assertEqual((status, data), (200, expected), query)
            self.assertEqual(response.getheader("Content-Type"), "text/plain; charset=utf-8")
        for query in ("&offset=0", "&limit=0", "&offset=-1", "&limit=x", "&offset="):
            self.assertEqual(self.download(self.file("x"), query)[0], 400, query)
        status, _, body = self.download(self.file("x"), "&offset=1", {"Range": "bytes=0-1"})
        self.assert_error((status, json.loads(body)), 400, "INVALID_REQUEST_BODY", "Range")

    def test_lines_of_a_big_file(self):
        data = b"".join(b"line %d\n" % i for i in range(1, 300001))
        self.write("x", data)
        self.assertEqual(self.download(self.file("x"), "&offset=299999")[2], b"line 299999\nline 300000")
        self.assertEqual(self.download(self.file("x"), "&offset=1")[2], data[:-1])

    def test_what_cannot_be_downloaded(self):
        os.mkfifo(self.file("fifo"))
        self.write("x", b"")

        def check(query, status, code):
            got, _, body = self.execd.request("GET", "/files/download" + query)
            self.assert_error((got, json.loads(body)), status, code)
        check("", 400, "MISSING_QUERY")
        check("?path=", 400, "MISSING_QUERY")
        check("?path=/no/such/file", 404, "FILE_NOT_FOUND")
        check("?path=" + self.file("x/y"), 404, "FILE_NOT_FOUND")
        check("?path=" + self.folder, 400, "INVALID_FILE")
        check("?path=" + self.file("fifo"), 400, "INVALID_FILE")
        check("?path=/dev/null", 400, "INVALID_FILE")
        check("?path=%00", 400, "INVALID_REQUEST_BODY")

    def test_files_of_proc(self):
        status, _, data = self.download("/proc/self/status")
        self.assertEqual(status, 200)
        self.assertIn(b"VmRSS", data)

    def test_expansion_of_paths(self):
        self.write("x", b"data")
        execd = Execd(env={"HOME": self.folder, "WHERE": self.folder}, cwd=self.folder)
        try:
            for path in ("~/x", "$WHERE/x", "${WHERE}/x", "x", "./x", self.folder + "//./x/"):
                status, _, data = execd.request("GET", "/files/download?path=" + urllib.parse.quote(path))
                self.assertEqual((status, data), (200, b"data"), path)
                info = execd.json("GET", "/files/info?path=" + urllib.parse.quote(path))[1]
                self.assertEqual(info[path]["path"], self.file("x"))
        finally:
            execd.stop()

    def test_file_that_shrinks_is_cut(self):
        self.write("x", b"x" * 50_000_000)
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        sock.sendall(f"GET /files/download?path={self.file('x')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        sock.recv(1000)
        os.truncate(self.file("x"), 20_000_000)
        response = 0
        with contextlib.suppress(ConnectionResetError):
            while True:
                piece = sock.recv(1 << 20)
                if not piece:
                    break
                response += len(piece)
        self.assertLess(response, 49_000_000)
        sock.close()

    def test_slow_download_takes_no_memory(self):
        with open(self.file("x"), "wb") as file:
            file.truncate(1 << 30)
        before = self.execd.memory_kib()
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        sock.sendall(f"GET /files/download?path={self.file('x')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        sock.recv(1000)
        time.sleep(0.3)
        if not SANITIZED:
            self.assertLess(self.execd.memory_kib() - before, 4096)
        self.assertEqual(self.execd.request("GET", "/ping")[0], 200)
        sock.close()

    # --- info

    def test_info(self):
        self.write("file", b"12345")
        os.chmod(self.file("file"), 0o640)
        os.utime(self.file("file"), ns=(0, 1_700_000_000_123_456_789))
        os.mkdir(self.file("folder"), 0o711)
        os.symlink("file", self.file("link"))
        os.mkfifo(self.file("fifo"))
        names = ["file", "folder", "link", "fifo"]
        query = "&".join("path=" + urllib.parse.quote(self.file(n)) for n in names)
        status, info = self.execd.json("GET", "/files/info?" + query)
        self.assertEqual((status, list(info)), (200, [self.file(n) for n in names]))
        self.assertEqual([info[self.file(n)]["type"] for n in names], ["file", "directory", "symlink", "other"])
        file = info[self.file("file")]
        self.assertEqual((file["size"], file["mode"], file["modified_at"]), (5, 640, "2023-11-14T22:13:20.123456789Z"))
        self.assertRegex(file["created_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
        self.assertEqual(info[self.file("folder")]["mode"], 711)
        self.assertEqual(set(file), {"path", "type", "size", "modified_at", "created_at", "owner", "group", "mode"})
        if os.geteuid() == 0:
            self.assertEqual((file["owner"], file["group"]), ("root", "root"))

    def test_info_of_nothing(self):
        self.assertEqual(self.execd.json("GET", "/files/info"), (200, {}))
        self.write("x", b"")
        self.assert_error(self.execd.json("GET", f"/files/info?path={self.file('x')}&path={self.file('y')}"), 404,
                          "FILE_NOT_FOUND", self.file("y"))
