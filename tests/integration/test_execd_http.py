"""Bad and unusual HTTP against a real execd: what is answered, whether the connection goes on, and that nothing is
left of it."""

import json
import os
import socket
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from execd import SANITIZED, WAIT, Execd, wait_until  # noqa: E402

HOST = b"Host: x\r\n"
PING = b"GET /ping HTTP/1.1\r\n" + HOST + b"\r\n"
BODY = b'{"command":"echo hi"}'


def command(head, body=BODY):
    return b"POST /command HTTP/1.1\r\n" + HOST + head + b"\r\n" + body


def chunks(text, trailer=b""):
    return command(b"Transfer-Encoding: chunked\r\n", text + trailer)


WHOLE = b"%x\r\n%s\r\n" % (len(BODY), BODY)

# What is sent, the status, and whether the connection stays. All are answered as {code, message} above 399.
CASES = {
    "plain": (PING, 200, True),
    "no-version": (b"GET /ping\r\n\r\n", 400, False),
    "http-1.0": (b"GET /ping HTTP/1.0\r\n\r\n", 200, False),
    "http-1.0-keep-alive": (b"GET /ping HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, True),
    "http-1.2": (b"GET /ping HTTP/1.2\r\n" + HOST + b"\r\n", 505, False),
    "http-2.0": (b"GET /ping HTTP/2.0\r\n" + HOST + b"\r\n", 505, False),
    "http-2-preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, False),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64, 400, False),
    "close": (b"GET /ping HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n", 200, False),
    "no-host": (b"GET /ping HTTP/1.1\r\n\r\n", 400, False),
    "two-hosts": (b"GET /ping HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, False),
    "absolute-form": (b"GET http://x/ping HTTP/1.1\r\n" + HOST + b"\r\n", 400, False),
    "asterisk": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 404, True),
    "connect": (b"CONNECT x:80 HTTP/1.1\r\n" + HOST + b"\r\n", 501, False),
    "no-slash": (b"GET ping HTTP/1.1\r\n" + HOST + b"\r\n", 400, False),
    "fragment": (b"GET /ping#x HTTP/1.1\r\n" + HOST + b"\r\n", 400, False),
    "space-in-target": (b"GET /pi ng HTTP/1.1\r\n" + HOST + b"\r\n", 400, False),
    "control-in-target": (b"GET /pi\x01ng HTTP/1.1\r\n" + HOST + b"\r\n", 400, False),
    "known-method-elsewhere": (b"PATCH /ping HTTP/1.1\r\n" + HOST + b"\r\n", 405, True),
    "unknown-method": (b"FROBNICATE /ping HTTP/1.1\r\n" + HOST + b"\r\n", 501, False),
    "lower-case-method": (b"get /ping HTTP/1.1\r\n" + HOST + b"\r\n", 501, False),
    "leading-newlines": (b"\r\n\r\n" + PING, 200, True),
    "bare-newlines": (b"GET /ping HTTP/1.1\nHost: x\n\n", 400, False),
    "space-before-colon": (b"GET /ping HTTP/1.1\r\nHost : x\r\n\r\n", 400, False),
    "folded-field": (b"GET /ping HTTP/1.1\r\n" + HOST + b"X-A: b\r\n c\r\n\r\n", 400, False),
    "empty-name": (b"GET /ping HTTP/1.1\r\n" + HOST + b": b\r\n\r\n", 400, False),
    "nul-in-value": (b"GET /ping HTTP/1.1\r\n" + HOST + b"X-A: b\0c\r\n\r\n", 400, False),
    "long-target": (b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431, False),
    "long-value": (b"GET /ping HTTP/1.1\r\n" + HOST + b"X-A: " + b"x" * 70000 + b"\r\n\r\n", 431, False),
    "endless-head": (b"GET /ping HTTP/1.1\r\n" + HOST + b"X-A: b\r\n" * 100000, 431, False),
    "many-fields": (b"GET /ping HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 1000 + b"\r\n", 431, False),
    "length": (command(b"Content-Length: %d\r\n" % len(BODY)), 200, True),
    "two-lengths": (command(b"Content-Length: 21\r\nContent-Length: 22\r\n"), 400, False),
    "same-length-twice": (command(b"Content-Length: 21\r\nContent-Length: 21\r\n"), 400, False),
    "list-of-lengths": (command(b"Content-Length: 21, 21\r\n"), 400, False),
    "signed-length": (command(b"Content-Length: +21\r\n"), 400, False),
    "negative-length": (command(b"Content-Length: -1\r\n"), 400, False),
    "huge-length": (command(b"Content-Length: 99999999999999999999\r\n"), 400, False),
    "large-length": (command(b"Content-Length: 99999999999\r\n", b""), 413, False),
    "length-and-chunks": (command(b"Content-Length: 21\r\nTransfer-Encoding: chunked\r\n"), 400, False),
    "unknown-coding": (command(b"Transfer-Encoding: gzip, chunked\r\n", WHOLE + b"0\r\n\r\n"), 501, False),
    "chunked-not-last": (command(b"Transfer-Encoding: chunked, identity\r\n", WHOLE + b"0\r\n\r\n"), 400, False),
    "chunks-in-1.0": (b"POST /command HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + WHOLE + b"0\r\n\r\n", 400, False),
    "chunks": (chunks(WHOLE, b"0\r\n\r\n"), 200, True),
    "chunk-extension": (chunks(b"15;a=b\r\n" + BODY + b"\r\n0\r\n\r\n"), 200, True),
    "trailer": (chunks(WHOLE, b"0\r\nX-A: b\r\n\r\n"), 200, True),
    "bad-chunk-size": (chunks(b"zz\r\n"), 400, False),
    "negative-chunk-size": (chunks(b"-5\r\n"), 400, False),
    "huge-chunk-size": (chunks(b"fffffffffffffffffff\r\n"), 400, False),
    "chunk-too-long": (chunks(b"5\r\n" + BODY + b"\r\n0\r\n\r\n"), 400, False),
    "bare-newline-in-chunks": (chunks(b"15\n" + BODY + b"\n0\n\n"), 400, False),
    "no-body": (command(b"", b""), 400, True),
    "expect": (command(b"Content-Length: 21\r\nExpect: 100-continue\r\n"), 200, True),
}


class Answer:
    """One response from a raw socket, its body read by its own framing."""

    def __init__(self, stream):
        line = stream.readline()
        self.status = int(line.split()[1]) if line else None
        self.headers = {}
        for field in iter(stream.readline, b"\r\n"):
            if not field:
                break
            name, value = field.decode("latin-1").split(":", 1)
            self.headers[name.lower()] = value.strip()
        if self.headers.get("transfer-encoding") == "chunked":
            self.body = b""
            while size := int(stream.readline(), 16):
                self.body += stream.read(size)
                stream.readline()
            stream.readline()
        elif "content-length" in self.headers:
            self.body = stream.read(int(self.headers["content-length"]))
        else:
            self.body = b""


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.execd = Execd("--head-timeout", "400ms")

    @classmethod
    def tearDownClass(cls):
        cls.execd.stop()

    def setUp(self):
        self.socks = []

    def tearDown(self):
        for sock in self.socks:
            sock.close()

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        self.socks.append(sock)
        return sock, sock.makefile("rb")

    def fds(self):
        return len(os.listdir(f"/proc/{self.execd.process.pid}/fd"))

    @staticmethod
    def send(sock, data):
        try:
            sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent

    def check(self, name, data, status, stays):
        sock, stream = self.connect()
        self.send(sock, data)
        answer = Answer(stream)
        self.assertEqual(answer.status, status, (name, answer.body))
        if status >= 400:
            self.assertEqual(set(json.loads(answer.body)), {"code", "message"}, name)
            self.assertTrue(json.loads(answer.body)["message"], name)
        if stays:
            self.send(sock, PING)
            self.assertEqual(Answer(stream).status, 200, f"{name}: the connection goes on")
        else:
            self.assertEqual(stream.read(), b"", f"{name}: the connection ends")
        stream.close()
        sock.close()

    def test_table(self):
        self.assertEqual(self.execd.request("GET", "/ping")[0], 200)
        before = self.fds()
        for name, (data, status, stays) in CASES.items():
            with self.subTest(name):
                self.check(name, data, status, stays)
        wait_until(lambda: self.fds() <= before, "all connections are closed")

    def test_byte_by_byte(self):
        for name in ("plain", "chunks", "length", "trailer"):
            data, status, _ = CASES[name]
            sock, stream = self.connect()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(data)):
                sock.sendall(data[i:i + 1])
            self.assertEqual(Answer(stream).status, status, name)

    def test_pipelining(self):
        sock, stream = self.connect()
        sock.sendall(PING + CASES["chunks"][0] + PING + b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n" + PING * 50)
        answers = [Answer(stream) for _ in range(54)]
        self.assertEqual([a.status for a in answers], [200, 200, 200, 404] + [200] * 50)
        self.assertIn(b'"text":"hi"', answers[1].body)

    def test_nothing_after_a_bad_one_is_served(self):
        sock, stream = self.connect()
        sock.sendall(CASES["two-lengths"][0] + PING)
        self.assertEqual(Answer(stream).status, 400)
        self.assertEqual(stream.read(), b"")

    def test_incomplete_head(self):
        """Slow heads are refused after --head-timeout, however many there are; others are served meanwhile."""
        before = self.fds()
        slow = [self.connect() for _ in range(50)]
        for sock, _ in slow:
            sock.sendall(b"GET /ping HTTP/1.1\r\nHost:")
        self.assertEqual(self.execd.request("GET", "/ping")[0], 200)
        for sock, stream in slow:
            answer = Answer(stream)
            self.assertEqual((answer.status, json.loads(answer.body)["message"]),
                             (408, "the request head did not arrive in time"))
            self.assertEqual(stream.read(), b"")
            stream.close()
            sock.close()
        wait_until(lambda: self.fds() <= before, "all connections are closed")

    def test_drop_by_drop(self):
        """A head that always moves but never ends is refused as well."""
        sock, stream = self.connect()
        sock.settimeout(0.05)
        sock.sendall(b"GET /ping HTTP/1.1\r\n")
        answer = b""
        deadline = time.monotonic() + WAIT
        while not answer and time.monotonic() < deadline:
            self.send(sock, b"X: y\r\n")
            try:
                answer = sock.recv(65536)
            except TimeoutError:
                pass
        self.assertIn(b"408 ", answer.split(b"\r\n")[0] + b" ")
        stream.close()

    def test_half_closed(self):
        """An answer that is there when the client says it is done is delivered."""
        sock, stream = self.connect()
        sock.sendall(PING)
        sock.shutdown(socket.SHUT_WR)
        self.assertEqual(Answer(stream).status, 200)
        self.assertEqual(stream.read(), b"")
        for data in (b"", b"GET /pi", PING[:-2], CASES["length"][0][:-5], chunks(b"5\r\nab")):
            sock, stream = self.connect()
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            self.assertEqual(stream.read(), b"", data)

    def test_wrong_token(self):
        execd = Execd("--access-token", "secret")
        try:
            for headers in ({}, {"X-EXECD-ACCESS-TOKEN": ""}, {"X-EXECD-ACCESS-TOKEN": "secreT"},
                            {"X-EXECD-ACCESS-TOKEN": "secret, secret"}, {"Authorization": "Bearer secret"}):
                for method, path in (("GET", "/ping"), ("POST", "/command"), ("GET", "/nothing"), ("GET", "/proxy/1/"),
                                     ("POST", "/proxy/44772/command"), ("POST", "/internal/start")):
                    status, body = execd.json(method, path, headers=headers)
                    self.assertEqual((status, body["code"]), (401, "UNAUTHORIZED"))
        finally:
            execd.stop()

    @unittest.skipIf(SANITIZED, "measures the real program")
    def test_nothing_leaks(self):
        def round_of_cases():
            for name, (data, status, stays) in CASES.items():
                self.check(name, data, status, stays)
            for data in (b"GET /pi", CASES["length"][0][:-5], chunks(b"5\r\nab")):
                sock, stream = self.connect()
                sock.sendall(data)
                stream.close()
                sock.close()
        for _ in range(3):
            round_of_cases()
        before = self.execd.memory_kib("VmData")
        fds = self.fds()
        for _ in range(15):
            round_of_cases()
        wait_until(lambda: self.fds() <= fds, "all connections are closed")
        self.assertLess(self.execd.memory_kib("VmData") - before, 64)


if __name__ == "__main__":
    unittest.main()
