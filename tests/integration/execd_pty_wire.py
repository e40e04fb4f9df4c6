"""What passes between a terminal and its client, and how much of it at once; part of test_execd_pty.py."""

import hashlib
import os
import struct
import threading
import time

from execd import SANITIZED, WAIT, wait_until
from terminal import PtyCase, Terminal, connect
from websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Closed, frame, request


class Flow(PtyCase):
    """More data than anybody wants to hold."""

    def memory(self):
        return self.execd.memory_kib("RssAnon")

    def test_slow_reader_gets_everything(self):
        data = b"".join(b"%07d\n" % i for i in range(1250000))  # 10 MB
        path = self.write("data", data)
        for query in ("", "?pty=0"):
            terminal = self.attach(query=query, command=f"test -t 0 && stty raw -echo; printf ready; "
                                                        f"head -c 1 >/dev/null; cat {path}")
            terminal.expect(b"ready")
            before = self.memory()
            terminal.type("x")
            time.sleep(0.3)  # everything that may be queued is queued
            held = self.memory() - before
            digest, total, step = hashlib.sha256(), 0, 0
            try:
                while True:
                    terminal.step()
                    digest.update(terminal.output)
                    total += len(terminal.output)
                    terminal.output = b""
                    if total // 2 ** 20 > step:
                        step = total // 2 ** 20
                        held = max(held, self.memory() - before)
            except Closed:
                pass
            self.assertEqual((total, digest.hexdigest()), (len(data), hashlib.sha256(data).hexdigest()))
            self.assertEqual(terminal.messages[-1], {"type": "exit", "exit_code": 0})
            if not SANITIZED:
                self.assertLess(held, 3 * 1024)  # KiB: a ring of 1 MiB, a queue, and no more

    def test_program_that_does_not_read(self):
        """Input waits with the client, not with us; then all of it arrives."""
        data = bytes(range(256)) * 32768  # 8 MiB
        go = self.file("go")
        os.mkfifo(go)
        for query in ("?pty=0", ""):
            terminal = self.attach(query=query, command=f"test -t 0 && stty raw -echo; echo ready; read x <{go}; "
                                                        f"head -c {len(data)} | sha256sum")
            terminal.expect(b"ready")
            before = self.memory()
            sent = []

            def send():
                for i in range(0, len(data), 65536):
                    terminal.type(data[i:i + 65536])
                    sent.append(i)
            thread = threading.Thread(target=send)
            thread.start()
            last = -1
            while len(sent) != last:  # until the sender stands still
                last = len(sent)
                time.sleep(0.5)
            self.assertLess(len(sent) * 65536, len(data))
            if not SANITIZED:
                self.assertLess(self.memory() - before, 3 * 1024)
            with open(go, "w", encoding="ascii") as file:
                file.write("\n")
            thread.join(WAIT)
            terminal.end()
            self.assertIn(hashlib.sha256(data).hexdigest().encode(), terminal.output)

    def test_signal_passes_while_output_is_stuck(self):
        terminal = self.attach(command="trap 'exit 9' INT; while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done")
        time.sleep(0.3)
        terminal.send(type="signal", signal="SIGINT")
        self.assertEqual(terminal.end()[0]["exit_code"], 9)

    def test_client_that_asks_without_listening(self):
        """Answers are not queued without end."""
        terminal = self.attach(command="sleep 1000")
        before = self.memory()
        terminal.ws.sock.settimeout(1)
        sent = 0
        try:
            while sent < 64 * 2 ** 20:
                sent += len(b"{}") * 1000
                terminal.ws.send_raw(frame(TEXT, b'{"type":"x"}') * 1000)
        except TimeoutError:
            pass
        self.assertLess(sent, 64 * 2 ** 20)
        if not SANITIZED:
            self.assertLess(self.memory() - before, 2 * 1024)

    def test_pings_without_listening(self):
        terminal = self.attach(command="sleep 1000")
        before = self.memory()
        pings = frame(PING, b"x" * 125) * 1000
        for _ in range(200):
            terminal.ws.send_raw(pings)
        if not SANITIZED:
            self.assertLess(self.memory() - before, 2 * 1024)
        terminal.send(type="ping")
        while terminal.ws.read_frame()[0] != TEXT:
            pass

    def test_no_fds_are_lost(self):
        def count():
            return len(os.listdir(f"/proc/{self.execd.process.pid}/fd"))
        session = self.create(command="true")
        self.attach(session).end()
        before = count()
        for query in ("", "?pty=0", "?start=0") * 5:
            self.attach(session, query).end()
        other = self.create(cwd=self.file("x"))
        os.rmdir(self.file("x"))
        for _ in range(5):
            Terminal(self.execd, other).end()
        wait_until(lambda: count() <= before, f"{count()} fds instead of {before}")


class Protocol(PtyCase):
    def test_handshake(self):
        session = self.create()
        for status, fields, without in ((426, {}, ["Upgrade"]), (426, {}, ["Connection"]),
                                        (426, {"Upgrade": "h2c"}, []), (426, {}, ["Sec-WebSocket-Version"]),
                                        (426, {"Sec-WebSocket-Version": "8"}, []), (400, {}, ["Sec-WebSocket-Key"]),
                                        (400, {"Sec-WebSocket-Key": "c2hvcnQ="}, []),
                                        (400, {"Sec-WebSocket-Key": "!" * 22 + "=="}, []),
                                        (400, {"Sec-WebSocket-Key": "A" * 24}, []),
                                        (400, {"Content-Length": "5"}, [])):
            with connect(self.execd) as sock:
                sock.sendall(request(f"/pty/{session}/ws", headers=fields, leave_out=without)
                             + (b"hello" if "Content-Length" in fields else b""))
                answer = sock.recv(65536).decode()
                self.assertIn(f" {status} ", answer.split("\r\n")[0], (fields, without))
                if status == 426:
                    self.assertIn("\r\nSec-WebSocket-Version: 13\r\n", answer)
                    self.assertIn("\r\nUpgrade: websocket\r\n", answer)
        self.assertFalse(self.status(session)["running"])
        self.assertEqual(self.execd.json("POST", f"/pty/{session}/ws")[0], 405)

    def test_garbage_before_the_upgrade(self):
        with connect(self.execd) as sock:
            sock.sendall(frame(BINARY, b"\0x") + request(f"/pty/{self.create()}/ws"))
            self.assertIn(b" 400 ", sock.recv(65536).split(b"\r\n")[0])

    def test_refused_upgrade_leaves_the_connection(self):
        with connect(self.execd) as sock:
            sock.sendall(request("/pty/nobody/ws") + b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
            data = b""
            while data.count(b"HTTP/1.1 ") < 2 or not data.endswith(b"\r\n\r\n"):
                data += sock.recv(65536)
            self.assertIn(b"HTTP/1.1 404", data)
            self.assertIn(b"HTTP/1.1 200", data)

    def test_frames_behind_the_request(self):
        terminal = Terminal(self.execd, self.create(), early=frame(BINARY, b"\0echo $((41+1)); exit\n"))
        terminal.greeted().expect(b"42\r\n")
        self.assertEqual(terminal.end()[1], 1000)

    def assert_closes(self, data, code):
        session = self.create(command="sleep 1000")
        terminal = self.attach(session)
        terminal.ws.send_raw(data)
        self.assertEqual(terminal.end(), (None, code), data[:40])
        wait_until(lambda: not self.status(session)["attached"], "detached")
        self.assertTrue(self.status(session)["running"])
        self.delete(session)

    def test_bad_frames(self):
        big = b"x" * (2 ** 20 + 1)
        for data, code in ((frame(BINARY, b"\0x", masked=False), 1002), (frame(BINARY, b"\0x", rsv=4), 1002),
                           (frame(BINARY, b"\0x", rsv=1), 1002), (frame(3, b"x"), 1002), (frame(11), 1002),
                           (frame(PING, b"x", fin=False), 1002), (frame(CONTINUATION, b"x"), 1002),
                           (frame(TEXT, b"x", fin=False) + frame(TEXT, b"x"), 1002),
                           (frame(BINARY, b"\0x", length=struct.pack(">BH", 126, 2)), 1002),
                           (frame(PING, b"x" * 126), 1002), (frame(CLOSE, struct.pack(">H", 1005)), 1002),
                           (frame(CLOSE, b"x"), 1002), (frame(CLOSE, struct.pack(">H", 999)), 1002),
                           (frame(CLOSE, b"\x03\xe8\xff"), 1007), (frame(TEXT, b"\xff"), 1007),
                           (frame(TEXT, b"\xe2\x82", fin=False) + frame(CONTINUATION, b"("), 1007),
                           (frame(BINARY, big), 1009), (frame(BINARY, big[:2 ** 19], fin=False)
                                                        + frame(CONTINUATION, big[:2 ** 19 + 1]), 1009),
                           (frame(BINARY, b"", length=b"\x7f" + b"\x7f" + b"\xff" * 7), 1009),
                           (b"GET / HTTP/1.1\r\n\r\n", 1002), (os.urandom(0) + b"\0" * 100, 1002),
                           # And the good ones are answered alike.
                           (frame(CLOSE), 1005), (frame(CLOSE, struct.pack(">H", 1000) + b"bye"), 1000),
                           (frame(CLOSE, struct.pack(">H", 4999)), 4999)):
            self.assert_closes(data, code)

    def test_fragments_and_pings_between(self):
        terminal = self.attach(command="read -r line; echo \"[$line]\"; sleep 1000")
        terminal.ws.send_raw(frame(BINARY, b"\0he", fin=False) + frame(PING, b"now") + frame(CONTINUATION, b"ll",
                             fin=False) + frame(CONTINUATION, b"", fin=False) + frame(CONTINUATION, b"o\n"))
        self.assertEqual(terminal.ws.read_frame(), (PONG, b"now"))
        terminal.expect(b"[hello]\r\n")

    def test_byte_by_byte(self):
        terminal = self.attach(command="read -r line; echo \"[$line]\"")
        for byte in frame(BINARY, b"\0slow\n"):
            terminal.ws.send_raw(bytes([byte]))
        terminal.expect(b"[slow]\r\n")

    def test_messages(self):
        terminal = self.attach(command="stty -echo; echo ready; read -r line; echo \"[$line]\"")
        terminal.expect(b"ready\r\n")
        for ignored in (frame(BINARY), frame(BINARY, b"\1no"), frame(BINARY, b"\7"), frame(BINARY, b"\0"),
                        frame(TEXT), frame(TEXT, b"{"), frame(TEXT, b"[1]"), frame(TEXT, b'"ping"'),
                        frame(TEXT, b'{"type":"stdin"}'), frame(TEXT, b'{"type":"stdin","data":null}')):
            terminal.ws.send_raw(ignored)
        for message, part in (({"type": "nothing"}, "nothing"), ({}, "type"), ({"type": 5}, "type"),
                              ({"type": "resize"}, "cols"), ({"type": "resize", "cols": 0, "rows": 5}, "cols"),
                              ({"type": "resize", "cols": 5, "rows": 10001}, "10000"),
                              ({"type": "resize", "cols": 5.5, "rows": 5}, "cols"),
                              ({"type": "signal", "signal": "SIGSEGV"}, "SIGSEGV"), ({"type": "signal"}, "SIGINT"),
                              ({"type": "signal", "signal": 9}, "signal"), ({"type": "stdin", "data": 5}, "data"),
                              ({"type": "\u20ac" * 100}, "\\xe2")):
            terminal.send(**message)
            self.assertIn(part, terminal.expect_error("INVALID_FRAME"))
        terminal.send(type="ping")
        terminal.expect_message("pong")
        terminal.type("good\n")
        terminal.expect(b"[good]\r\n")
