"""Commands after their start: background, status, logs, streams that are taken up again, standard input,
interrupts, the list, and what is left of finished ones.

The crowd of commands, and the gigabytes, are in execd_commands_many.py."""

import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from execd import (BINARY, SANITIZED, STATIC, WAIT, Execd, ExecdCase, is_alive, parse_events,  # noqa: E402
                   texts, wait_until)
from execd_commands_many import Flood, Many  # noqa: E402,F401

CURSOR = "EXECD-COMMANDS-TAIL-CURSOR"
EVICTED = "EXECD-COMMANDS-EVICTED-BYTES"
UNKNOWN = "0" * 32


class Case(ExecdCase):
    def background(self, command, **fields):
        events = self.execd.run(command, background=True, **fields)
        self.assertEqual([e["type"] for e in events], ["init", "ping", "execution_complete"])
        return events[0]["text"]

    def status(self, command_id):
        status, body = self.execd.json("GET", f"/command/status/{command_id}")
        self.assertEqual(status, 200, body)
        return body

    def wait_for_end(self, command_id):
        wait_until(lambda: not self.status(command_id)["running"], "end of the command")
        return self.status(command_id)

    def logs(self, command_id, cursor=None):
        query = "" if cursor is None else f"?cursor={cursor}"
        status, response, body = self.execd.request("GET", f"/command/{command_id}/logs{query}")
        self.assertEqual(status, 200, body)
        self.assertEqual(response.getheader("Content-Type"), "text/plain; charset=utf-8")
        return body, int(response.getheader(CURSOR)), int(response.getheader(EVICTED) or 0)

    def stream(self, command_id, offset=None):
        query = "" if offset is None else f"?offset={offset}"
        status, response, body = self.execd.request("GET", f"/command/{command_id}/stream{query}")
        self.assertEqual(status, 200, body)
        self.evicted = int(response.getheader(EVICTED) or 0)
        return parse_events(body.decode())

    def start(self, command, **fields):
        """A foreground command whose stream is open: its id, and the response."""
        self.connection = connection = self.execd.connect()
        self.addCleanup(connection.close)
        connection.request("POST", "/command", json.dumps({"command": command, **fields}))
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        return json.loads(response.readline())["text"], response

    def break_off(self, response):
        """Lose the connection of the last start()."""
        response.close()
        self.connection.close()

    def rest(self, response):
        return [json.loads(line) for line in response.read().decode().split("\n") if line]


class Background(Case):
    def test_events_and_status(self):
        command_id = self.background("echo out; echo err >&2; exit 3")
        status = self.wait_for_end(command_id)
        self.assertEqual(set(status), {"id", "content", "running", "background", "output_bytes", "exit_code", "error",
                                       "started_at", "finished_at"})
        self.assertEqual((status["id"], status["content"]), (command_id, "echo out; echo err >&2; exit 3"))
        self.assertEqual((status["exit_code"], status["error"]), (3, "exit status 3"))
        self.assertEqual((status["background"], status["output_bytes"]), (True, 8))
        time_form = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{9})?Z$"
        self.assertRegex(status["started_at"], time_form)
        self.assertRegex(status["finished_at"], time_form)
        self.assertLess(status["started_at"], status["finished_at"])
        self.assertEqual(self.logs(command_id), (b"out\nerr\n", 8, 0))

    def test_while_it_runs(self):
        command_id = self.background(f"echo one; while [ ! -e {self.file('go')} ]; do sleep 0.01; done; echo two")
        wait_until(lambda: self.logs(command_id)[0] == b"one\n", "first output")
        status = self.status(command_id)
        self.assertTrue(status["running"])
        for absent in ("exit_code", "error", "finished_at"):
            self.assertNotIn(absent, status)
        self.write("go", b"")
        status = self.wait_for_end(command_id)
        self.assertEqual(status["exit_code"], 0)
        self.assertNotIn("error", status)
        self.assertEqual(self.logs(command_id, 4), (b"two\n", 8, 0))

    def test_known_as_soon_as_it_is_named(self):
        for _ in range(30):
            sock = self.execd.open_stream("sleep 0.1", background=True)
            data = b""
            while b'"init","text":"' not in data:
                data += sock.recv(65536)
            command_id = re.search(rb'"init","text":"(\w+)"', data).group(1).decode()
            self.assertTrue(self.status(command_id)["running"])
            sock.close()

    def test_order_of_both_outputs_is_exact(self):
        command_id = self.background("for i in $(seq 500); do echo o$i; echo e$i >&2; done")
        self.wait_for_end(command_id)
        expected = "".join(f"o{i}\ne{i}\n" for i in range(1, 501)).encode()
        wait_until(lambda: len(self.logs(command_id)[0]) == len(expected), "all of the output")
        self.assertEqual(self.logs(command_id)[0], expected)

    def test_timeout(self):
        command_id = self.background("sleep 1000 & echo $!; sleep 1000", timeout=300)
        status = self.wait_for_end(command_id)
        self.assertEqual((status["exit_code"], status["error"]), (-1, "signal: killed"))
        child = self.logs(command_id)[0].decode().strip()
        wait_until(lambda: not is_alive(child), "end of the grandchild")

    def test_children_live_on_after_the_shell(self):
        command_id = self.background("sleep 1000 & echo $!")
        self.wait_for_end(command_id)
        child = self.logs(command_id)[0].decode().strip()
        self.assertTrue(is_alive(child))
        os.kill(int(child), signal.SIGKILL)

    def test_start_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o700)
            if os.geteuid() != 0:
                self.skipTest("needs root")
            events = self.execd.run("pwd", background=True, uid=54321, cwd=folder)
        self.assertEqual([e["type"] for e in events], ["init", "ping", "error"])
        self.assertIn("Permission denied", events[-1]["error"]["evalue"])
        status = self.wait_for_end(events[0]["text"])
        self.assertEqual(status["exit_code"], 255)
        self.assertIn("Permission denied", status["error"])

    def test_closes_at_once_and_connection_stays(self):
        connection = self.execd.connect()
        for _ in range(50):
            events = self.execd.run("sleep 5", connection, background=True, timeout=200)
            self.assertEqual(events[-1]["type"], "execution_complete")
        connection.close()

    def test_nobody_can_hold_it_up(self):
        command_id = self.background(f"head -c 30000000 /dev/zero | tr '\\0' '\\n'; touch {self.file('done')}")
        socks = []
        for _ in range(3):
            sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
            sock.sendall(f"GET /command/{command_id}/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            sock.recv(1)
            socks.append(sock)
        wait_until(lambda: os.path.exists(self.file("done")), "the end, while its readers are stopped")
        for sock in socks:
            sock.close()


class Status(Case):
    def test_unknown(self):
        for method, path in [("GET", "/command/status/%s"), ("GET", "/command/%s/logs"), ("DELETE", "/command?id=%s"),
                             ("GET", "/command/%s/stream"), ("POST", "/command/%s/stdin"),
                             ("DELETE", "/command/%s/stdin")]:
            for name in (UNKNOWN, "x", "%20", "zz", "0" * 33):
                self.assert_error(self.execd.json(method, path % name), 404, "CONTEXT_NOT_FOUND", "no command")

    def test_foreground(self):
        command_id = self.execd.run("echo x; exit 9")[0]["text"]
        status = self.status(command_id)
        self.assertEqual((status["exit_code"], status["error"], status["background"], status["output_bytes"]),
                         (9, "exit status 9", False, 2))
        self.assertEqual(self.logs(command_id), (b"x\n", 2, 0))

    def test_signal(self):
        status = self.status(self.execd.run("kill -TERM $$")[0]["text"])
        self.assertEqual((status["exit_code"], status["error"]), (-1, "signal: terminated"))

    def test_list(self):
        first = self.background("sleep 5", timeout=5000)
        long_text = "true " + "\u00e4" * 300
        second = self.execd.run(long_text)[0]["text"]
        status, body = self.execd.json("GET", "/commands")
        self.assertEqual(status, 200)
        ids = [c["id"] for c in body["commands"]]
        self.assertLess(ids.index(second), ids.index(first), "the newest is first")
        entry = body["commands"][ids.index(second)]
        self.assertEqual(entry.pop("content"), long_text[:5 + 125])
        full = self.status(second)
        self.assertEqual(full.pop("content"), long_text)
        self.assertEqual(entry, full)
        self.assertTrue(body["commands"][ids.index(first)]["running"])
        self.execd.request("DELETE", f"/command?id={first}")


class Logs(Case):
    def test_cursor(self):
        command_id = self.execd.run("seq 1 1000")[0]["text"]
        whole = "".join(f"{i}\n" for i in range(1, 1001)).encode()
        for cursor in (None, 0, "", "abc", "1x"):
            self.assertEqual(self.logs(command_id, cursor), (whole, len(whole), 0))
        for cursor in (1, 100, len(whole) - 1, len(whole)):
            self.assertEqual(self.logs(command_id, cursor), (whole[cursor:], len(whole), 0))
        self.assertEqual(self.logs(command_id, len(whole) + 5), (b"", len(whole) + 5, 0))
        for cursor in ("-1", "-9999999", "99999999999999999999"):
            self.assert_error(self.execd.json("GET", f"/command/{command_id}/logs?cursor={cursor}"), 400,
                              "INVALID_REQUEST_BODY", "cursor")

    def test_binary_is_as_it_was(self):
        data = bytes(random.Random(5).randrange(256) for _ in range(100000))
        self.write("data", data)
        command_id = self.execd.run(f"cat {self.file('data')}")[0]["text"]
        self.assertEqual(self.logs(command_id)[0], data)

    def test_nothing(self):
        self.assertEqual(self.logs(self.execd.run("true")[0]["text"]), (b"", 0, 0))

    def test_polling_sees_everything_once(self):
        command_id = self.background("for i in $(seq 100); do printf \"$i \"; sleep 0.002; done")
        got, cursor = b"", 0
        while True:
            running = self.status(command_id)["running"]
            piece, cursor, evicted = self.logs(command_id, cursor)
            got += piece
            self.assertEqual((len(got), evicted), (cursor, 0))
            if not running and not piece:
                break
        self.assertEqual(got.split(), [str(i).encode() for i in range(1, 101)])


class Eviction(Case):
    LIMIT = 64 * 1024

    @classmethod
    def setUpClass(cls):
        cls.execd = Execd("--spool-bytes", str(cls.LIMIT))

    def test_logs_and_stream(self):
        events = self.execd.run("seq 1 100000", offsets=True)
        command_id = events[0]["text"]
        lines = [e for e in events if e["type"] == "stdout"]
        whole = "".join(f"{i}\n" for i in range(1, 100001)).encode()
        kept, cursor, evicted = self.logs(command_id)
        self.assertEqual(cursor, len(whole))
        self.assertEqual(kept, whole[evicted:])
        self.assertTrue(self.LIMIT // 4 < len(kept) <= self.LIMIT, len(kept))
        self.assertEqual(self.logs(command_id, 1000)[2], evicted - 1000)
        self.assertEqual(self.logs(command_id, evicted)[2], 0)
        # Events: the first line may have lost its beginning, the others are as they were.
        events = self.stream(command_id, 1000)
        self.assertEqual(self.evicted, evicted - 1000)
        again = [e for e in events if e["type"] == "stdout"]
        self.assertEqual([(e["text"], e["offset"]) for e in again[1:]],
                         [(e["text"], e["offset"]) for e in lines[-len(again) + 1:]])
        self.assertTrue(lines[-len(again)]["text"].endswith(again[0]["text"]))
        self.assertEqual(texts(events, "gap"), [])
        self.stream(command_id, evicted)
        self.assertEqual(self.evicted, 0)

    def test_reader_that_falls_behind(self):
        command_id = self.background(f"while [ ! -e {self.file('go')} ]; do sleep 0.01; done; seq 1 3000000; "
                                     f"touch {self.file('done')}; echo last")
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        sock.sendall(f"GET /command/{command_id}/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        sock.recv(1, socket.MSG_PEEK)
        self.write("go", b"")
        wait_until(lambda: os.path.exists(self.file("done")), "the end of the command")
        self.wait_for_end(command_id)
        response = http.client.HTTPResponse(sock)
        response.begin()
        events = parse_events(response.read().decode())
        sock.close()
        gaps = [e for e in events if e["type"] == "gap"]
        self.assertEqual(len(gaps), 1, gaps)
        at = events.index(gaps[0])
        before, after = events[:at], events[at + 1:]
        numbers = texts(before, "stdout")
        self.assertEqual(numbers[:-1], [str(i) for i in range(1, len(numbers))])
        self.assertTrue(str(len(numbers)).startswith(numbers[-1]), "at most the beginning of the last line")
        numbers = texts(after, "stdout")
        self.assertEqual(numbers[-1], "last")
        last = int(numbers[-2])
        self.assertEqual((last, numbers[1:-1]), (3000000, [str(i) for i in range(last - len(numbers) + 3, last + 1)]))
        total = self.status(command_id)["output_bytes"]
        kept = len("\n".join(numbers)) + 1
        self.assertEqual(gaps[0]["offset"], total - kept)
        self.assertEqual(after[-1]["type"], "execution_complete")

    def test_logs_that_are_evicted_while_they_are_sent_are_cut(self):
        execd = Execd("--spool-bytes", str(8 << 20))
        self.addCleanup(execd.stop)
        events = execd.run(f"head -c 8000000 /dev/zero; while [ ! -e {self.file('go')} ]; do sleep 0.01; done; "
                           f"head -c 30000000 /dev/zero; touch {self.file('done')}", background=True)
        path = f"/command/{events[0]['text']}/"
        status = f"/command/status/{events[0]['text']}"
        wait_until(lambda: execd.json("GET", status)[1]["output_bytes"] == 8000000, "its output")
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        sock.settimeout(WAIT)
        sock.connect(("127.0.0.1", execd.port))
        sock.sendall(f"GET {path}logs HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        sock.recv(1, socket.MSG_PEEK)
        self.write("go", b"")
        wait_until(lambda: os.path.exists(self.file("done")), "more output")
        response = http.client.HTTPResponse(sock)
        response.begin()
        self.assertEqual(response.length, 8000000)
        with self.assertRaises((http.client.IncompleteRead, ConnectionResetError)):
            response.read()
        sock.close()

    def test_line_longer_than_what_is_kept(self):
        events = self.execd.run("head -c 3500000 /dev/zero | tr '\\0' x; echo; echo end", offsets=True)
        lines = [e for e in events if e["type"] == "stdout"]
        self.assertEqual([len(e["text"]) for e in lines], [1 << 20] * 3 + [3500000 - (3 << 20), 3])
        # The last piece has lost its beginning, which is told; nothing else comes twice.
        again = self.stream(events[0]["text"], lines[2]["offset"])
        self.assertEqual([e["type"] for e in again if e["type"] != "ping"],
                         ["init", "stdout", "stdout", "execution_complete"])
        self.assertEqual([e["offset"] for e in again if e["type"] == "stdout"], [e["offset"] for e in lines[3:]])
        self.assertGreater(self.evicted, 0)


def mixed_program(seed):
    """A program that writes to both outputs in the middle of lines, with every kind of line end, and the two
    texts it writes."""
    source = random.Random(seed)
    pieces = [b"abc", b"\n", b"\r", b"\r\n", b"\n\n", b"x" * 50, "ä€😀".encode(), b"\xff\xfe", b"tail", b"\x00",
              "\u2028".encode()]
    writes = []
    for _ in range(300):
        writes.append((source.choice((1, 2)), b"".join(source.choice(pieces) for _ in range(source.randrange(1, 6)))))
    writes.insert(150, (source.choice((1, 2)), b"y" * (3 << 20)))
    if seed % 3 == 0:
        writes += [(1, b"open end"), (2, b"other open end")]
    elif seed % 3 == 1:
        writes += [(1, b"open end"), (2, b"closed\n")]
    lines = ["import os, time", "def w(fd, data):", "    while data: data = data[os.write(fd, data):]"]
    for number, (fd, data) in enumerate(writes):
        text = f"b'y' * {len(data)}" if len(data) > 1000 else repr(data)
        lines.append(f"w({fd}, {text})")
        if number % 40 == 0:
            lines.append("time.sleep(0.005)")
    return "\n".join(lines)


class Reattach(Case):
    def read_some(self, command_id, offset, source):
        """Read the stream until a random place, then break the connection. Lines seen, and whether it ended."""
        connection = self.execd.connect()
        connection.request("GET", f"/command/{command_id}/stream?offset={offset}")
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        self.assertIsNone(response.getheader(EVICTED))
        events, ended = [], False
        for _ in range(source.choice((1, 3, 10, 40, 200))):
            line = response.readline()
            if not line:
                ended = True
                break
            if line != b"\n":
                events.append(json.loads(line))
        connection.sock.close() if connection.sock else None
        connection.close()
        if events:
            self.assertEqual((events[0]["type"], events[0]["text"]), ("init", command_id))
        return [e for e in events if e["type"] in ("stdout", "stderr")], ended, events[-1] if events else None

    def check(self, seed):
        source = random.Random(seed)
        program = self.write(f"program{seed}.py", mixed_program(seed).encode())
        command_id, response = self.start(f"exec {sys.executable} {program}", offsets=True)
        direct = [e for e in self.rest(response) if e["type"] in ("stdout", "stderr")]
        # The same program again, read in pieces while it runs.
        command_id, response = self.start(f"exec {sys.executable} {program}", offsets=True)
        seen, offset = [], 0
        self.break_off(response)
        for _ in range(100000):
            events, ended, last = self.read_some(command_id, offset, source)
            seen += events
            offset = seen[-1]["offset"] if seen else 0
            if ended:
                break
        self.assertEqual(last["type"], "execution_complete")
        offsets = [e["offset"] for e in seen]
        self.assertEqual(offsets, sorted(set(offsets)), "offsets grow, and no two are the same")
        for kind in ("stdout", "stderr"):
            self.assertEqual(texts(seen, kind), texts(direct, kind))
        total = self.status(command_id)["output_bytes"]
        self.assertTrue(total <= offsets[-1] + 1 and offsets[-1] <= total + 2)
        # All of it once more, now that it is over, from every kind of place.
        again = [e for e in self.stream(command_id) if e["type"] in ("stdout", "stderr")]
        self.assertEqual([(e["type"], e["text"], e["offset"]) for e in again],
                         [(e["type"], e["text"], e["offset"]) for e in seen])
        for number in {0, 1, len(seen) - 2, len(seen) - 1, *(source.randrange(len(seen)) for _ in range(10))}:
            rest = [e["offset"] for e in self.stream(command_id, offsets[number]) if e["type"] in ("stdout", "stderr")]
            self.assertEqual(rest, offsets[number + 1:])

    def test_nothing_is_lost_and_nothing_comes_twice(self):
        for seed in range(2 if SANITIZED else 6):
            with self.subTest(seed=seed):
                self.check(seed)

    def test_both_outputs_end_open(self):
        events = self.execd.run("printf out; printf err >&2", offsets=True)
        offsets = {e["type"]: e["offset"] for e in events if "offset" in e}
        self.assertEqual(offsets, {"stdout": 7, "stderr": 8})
        command_id = events[0]["text"]
        self.assertEqual(texts(self.stream(command_id, 6), "stdout"), ["out"])
        self.assertEqual([e["type"] for e in self.stream(command_id, 7)],
                         ["init", "ping", "stderr", "execution_complete"])
        self.assertEqual([e["type"] for e in self.stream(command_id, 8)], ["init", "ping", "execution_complete"])

    def test_terminal_event_is_the_same(self):
        for command in ("exit 3", "kill -KILL $$", "sleep 0.1"):
            events = self.execd.run(command)
            again = self.stream(events[0]["text"])
            for event in (events[-1], again[-1]):
                event.pop("timestamp")
            self.assertEqual(events[-1], again[-1])

    def test_offsets_only_where_asked_for(self):
        self.assertNotIn("offset", self.execd.run("echo x")[2])
        self.assertEqual(self.execd.run("echo x", offsets=True)[2]["offset"], 2)
        self.assertEqual(self.stream(self.execd.run("echo x")[0]["text"])[2]["offset"], 2)

    def test_bad_offset(self):
        command_id = self.execd.run("echo x")[0]["text"]
        for offset in ("5", "-1", "x", "", "1.0", "99999999999999999999"):
            self.assert_error(self.execd.json("GET", f"/command/{command_id}/stream?offset={offset}"), 400,
                              "INVALID_REQUEST_BODY", "offset")
        running, _ = self.start("printf abc; sleep 5", timeout=5000)
        wait_until(lambda: self.status(running)["output_bytes"] == 3, "its output")
        self.assert_error(self.execd.json("GET", f"/command/{running}/stream?offset=4"), 400, "INVALID_REQUEST_BODY")
        self.execd.request("DELETE", f"/command?id={running}")

    def test_several_readers_see_the_same(self):
        command_id, response = self.start(f"while [ ! -e {self.file('go')} ]; do sleep 0.01; done; seq 1 50000",
                                          offsets=True)
        results = []
        threads = [threading.Thread(target=lambda: results.append(self.stream(command_id))) for _ in range(10)]
        for thread in threads:
            thread.start()
        self.write("go", b"")
        direct = [(e["type"], e["text"], e["offset"]) for e in self.rest(response) if e["type"] == "stdout"]
        for thread in threads:
            thread.join()
        self.assertEqual(len(direct), 50000)
        for events in results:
            self.assertEqual([(e["type"], e["text"], e["offset"]) for e in events if e["type"] == "stdout"], direct)

    def test_too_many_readers(self):
        command_id, _ = self.start("sleep 20", timeout=20000)
        connections = []
        for _ in range(15):
            connection = self.execd.connect()
            connection.request("GET", f"/command/{command_id}/stream")
            self.assertEqual(connection.getresponse().status, 200)
            connections.append(connection)
        self.assert_error(self.execd.json("GET", f"/command/{command_id}/stream"), 503, "RUNTIME_ERROR", "16 clients")
        for connection in connections:
            connection.close()
        self.execd.request("DELETE", f"/command?id={command_id}")

    def test_foreground_runs_on_recorded_when_nobody_reads(self):
        command_id, response = self.start("seq 1 300000; exit 4")
        self.break_off(response)
        self.wait_for_end(command_id)
        events = self.stream(command_id)
        self.assertEqual(texts(events, "stdout"), [str(i) for i in range(1, 300001)])
        self.assertEqual(events[-1]["error"]["evalue"], "4")


class Stdin(Case):
    def send(self, command_id, data=b"", close=None):
        query = "" if close is None else f"?close={close}"
        status, _, body = self.execd.request("POST", f"/command/{command_id}/stdin{query}", data)
        return status, json.loads(body)

    def test_parts_and_close(self):
        command_id, response = self.start("cat; echo end", stdin=True)
        self.assertEqual(self.send(command_id, b"one\ntw"), (200, {"bytes": 6}))
        self.assertEqual(self.send(command_id), (200, {"bytes": 0}))
        self.assertEqual(self.send(command_id, b"o\nthree", "true"), (200, {"bytes": 7}))
        self.assertEqual(texts(self.rest(response), "stdout"), ["one", "two", "three" + "end"])

    def test_delete_closes(self):
        command_id, response = self.start("wc -c; sleep 5", stdin=True, timeout=5000)
        self.send(command_id, b"12345")
        status, response2, body = self.execd.request("DELETE", f"/command/{command_id}/stdin")
        self.assertEqual((status, body, response2.getheader("Content-Length")), (200, b"", "0"))
        wait_until(lambda: self.logs(command_id)[0].strip() == b"5", "its end of input")
        closed = self.execd.json("DELETE", f"/command/{command_id}/stdin")
        self.assert_error(closed, 409, "RUNTIME_ERROR", "closed")
        self.assert_error(self.send(command_id, b"x"), 409, "RUNTIME_ERROR", "closed")
        self.execd.request("DELETE", f"/command?id={command_id}")

    def test_10_mib(self):
        data = random.Random(1).randbytes(10 << 20)
        command_id, response = self.start("wc -c", stdin=True)
        self.assertEqual(self.send(command_id, data, "true"), (200, {"bytes": len(data)}))
        self.assertEqual(texts(self.rest(response), "stdout"), [str(len(data))])
        command_id = self.background(f"cat >{self.file('copy')}", stdin=True)
        for i in range(0, len(data), 3 << 20):
            part = data[i:i + (3 << 20)]
            self.assertEqual(self.send(command_id, part), (200, {"bytes": len(part)}))
        self.assertEqual(self.send(command_id, b"", "true"), (200, {"bytes": 0}))
        self.wait_for_end(command_id)
        self.assertEqual(self.read("copy"), data)

    def test_program_that_does_not_read_holds_up_its_client(self):
        command_id = self.background(f"while [ ! -e {self.file('go')} ]; do sleep 0.01; done; wc -c", stdin=True)
        data = b"z" * (4 << 20)
        before = self.execd.memory_kib()
        result = []
        thread = threading.Thread(target=lambda: result.append(self.send(command_id, data, "true")))
        thread.start()
        time.sleep(0.3)
        self.assertEqual(result, [])
        if not SANITIZED:
            self.assertLess(self.execd.memory_kib() - before, 1024)
        self.assert_error(self.send(command_id, b"x"), 409, "RUNTIME_ERROR", "another request")
        self.assert_error(self.execd.json("DELETE", f"/command/{command_id}/stdin"), 409, "RUNTIME_ERROR", "another")
        self.write("go", b"")
        thread.join()
        self.assertEqual(result, [(200, {"bytes": len(data)})])
        self.wait_for_end(command_id)
        self.assertEqual(self.logs(command_id)[0].strip(), str(len(data)).encode())

    def test_program_that_closes_its_input(self):
        command_id = self.background("head -c 5 >/dev/null; exec <&-; sleep 5", stdin=True, timeout=5000)
        status, body = self.send(command_id, b"x" * 500000)
        self.assertEqual((status, body["code"]), (409, "RUNTIME_ERROR"))
        self.assertRegex(body["message"], r"closed its standard input after \d+ bytes")
        self.assertTrue(self.status(command_id)["running"])
        self.assert_error(self.send(command_id, b"x"), 409, "RUNTIME_ERROR")
        self.execd.request("DELETE", f"/command?id={command_id}")

    def test_program_that_ends(self):
        command_id = self.background("sleep 0.3", stdin=True)
        status, body = self.send(command_id, b"x" * 500000)
        self.assertEqual((status, body["code"]), (409, "RUNTIME_ERROR"))
        # Its end of the pipe may be seen to close before its exit is.
        self.assertRegex(body["message"], r"(ended|closed its standard input) after \d+ bytes")
        self.wait_for_end(command_id)
        self.assert_error(self.send(command_id, b"x"), 409, "RUNTIME_ERROR", "not running")

    def test_writer_that_goes_away(self):
        command_id, response = self.start("wc -c", stdin=True)
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        sock.sendall(f"POST /command/{command_id}/stdin HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n12345".encode())
        wait_until(lambda: self.send(command_id)[0] == 409, "its turn")
        sock.close()
        wait_until(lambda: self.send(command_id)[0] == 200, "the end of its turn")
        self.send(command_id, b"678", "true")
        self.assertEqual(texts(self.rest(response), "stdout"), ["8"])

    def test_only_where_asked_for(self):
        command_id, _ = self.start("sleep 5", timeout=5000)
        self.assert_error(self.send(command_id, b"x"), 409, "RUNTIME_ERROR", '"stdin": true')
        self.execd.request("DELETE", f"/command?id={command_id}")
        command_id, _ = self.start("sleep 5", timeout=5000, stdin=True)
        self.assert_error(self.send(command_id, b"x", "maybe"), 400, "INVALID_REQUEST_BODY", "close")
        self.execd.request("DELETE", f"/command?id={command_id}")

    def test_it_is_an_ordinary_pipe(self):
        show = "import os, stat, fcntl; print(stat.S_ISFIFO(os.fstat(0).st_mode), fcntl.fcntl(0, 3) & os.O_NONBLOCK)"
        command_id, response = self.start(f"{sys.executable} -c '{show}'", stdin=True)
        self.assertEqual(texts(self.rest(response), "stdout"), ["True 0"])


class Interrupt(Case):
    def interrupt(self, command_id):
        status, response, body = self.execd.request("DELETE", f"/command?id={command_id}")
        self.assertEqual((status, body, response.getheader("Content-Length")), (200, b"", "0"), body)

    def test_terminates_the_group(self):
        command_id, response = self.start("sleep 1000 & echo $!; sleep 1000")
        wait_until(lambda: self.status(command_id)["output_bytes"] > 0, "its output")
        self.interrupt(command_id)
        self.assertFalse(self.status(command_id)["running"])
        events = self.rest(response)
        self.assertEqual(events[-1]["error"], {"ename": "CommandExecError", "evalue": "-1",
                                               "traceback": ["signal: terminated"]})
        child = texts(events, "stdout")[0]
        wait_until(lambda: not is_alive(child), "end of the child")
        self.assert_error(self.execd.json("DELETE", f"/command?id={command_id}"), 409, "RUNTIME_ERROR", "not running")

    def test_what_ignores_it_is_killed(self):
        command_id = self.background("trap '' TERM; echo ready; while :; do sleep 1; done")
        wait_until(lambda: self.logs(command_id)[0] == b"ready\n", "its trap")
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(
            self.execd.request("DELETE", f"/command?id={command_id}")[0])) for _ in range(4)]
        gone = socket.create_connection(("127.0.0.1", self.execd.port))
        gone.sendall(f"DELETE /command?id={command_id} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        for thread in threads:
            thread.start()
        gone.close()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [200] * 4)
        self.assertEqual(self.status(command_id)["error"], "signal: killed")

    def test_what_is_stopped_hears_of_it(self):
        command_id = self.background("echo $$; kill -STOP $$; sleep 1000")
        wait_until(lambda: self.logs(command_id)[0] != b"", "its output")
        self.interrupt(command_id)
        self.assertEqual(self.status(command_id)["error"], "signal: terminated")

    def test_own_exit_code_counts(self):
        command_id = self.background("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")
        wait_until(lambda: self.logs(command_id)[0] == b"ready\n", "its trap")
        self.interrupt(command_id)
        self.assertEqual(self.status(command_id)["exit_code"], 7)

    def test_answered_although_a_stopped_client_holds_up_the_output(self):
        sock = self.execd.open_stream("exec yes")
        data = b""
        while b"\n\n" not in data:
            data += sock.recv(200)
        command_id = re.search(rb'"init","text":"(\w+)"', data).group(1).decode()
        time.sleep(0.3)
        self.interrupt(command_id)
        self.assertEqual(self.status(command_id)["error"], "signal: terminated")
        sock.close()

    def test_missing_id(self):
        for path in ("/command", "/command?id=", "/command?x=1"):
            self.assert_error(self.execd.json("DELETE", path), 400, "MISSING_QUERY", "id")


class Keeping(unittest.TestCase):
    """What is left of finished commands, and for how long."""

    def start(self, *args, **kwargs):
        execd = Execd(*args, **kwargs)
        self.addCleanup(execd.stop)
        return execd

    def fds(self, execd):
        return len(os.listdir(f"/proc/{execd.process.pid}/fd"))

    def test_time(self):
        execd = self.start("--keep-finished", "1s")
        before = self.fds(execd)
        ids = [execd.run("head -c 100000 /dev/zero", background=True)[0]["text"] for _ in range(10)]
        wait_until(lambda: not execd.json("GET", "/commands")[1]["commands"], "all are forgotten")
        for command_id in ids:
            self.assertEqual(execd.request("GET", f"/command/status/{command_id}")[0], 404)
        wait_until(lambda: self.fds(execd) <= before, "their files are closed")

    def test_not_at_all(self):
        execd = self.start("--keep-finished", "0")
        command_id = execd.run("echo x")[0]["text"]
        self.assertEqual(execd.request("GET", f"/command/status/{command_id}")[0], 404)

    def test_attached_reader_keeps_it(self):
        execd = self.start("--keep-finished", "0")
        sock = execd.open_stream("seq 1 300000; exit 5")
        wait_until(lambda: execd.json("GET", "/commands")[1]["commands"], "it runs")
        time.sleep(0.2)
        response = http.client.HTTPResponse(sock)
        response.begin()
        events = parse_events(response.read().decode())
        self.assertEqual(texts(events, "stdout"), [str(i) for i in range(1, 300001)])
        self.assertEqual(events[-1]["error"]["evalue"], "5")
        sock.close()

    def test_count_of_files(self):
        execd = self.start()
        before = self.fds(execd)
        small = execd.run("echo small")[0]["text"]
        ids = [execd.run("head -c 10000 /dev/zero | tr '\\0' '\\n'")[0]["text"] for _ in range(70)]
        known = {c["id"] for c in execd.json("GET", "/commands")[1]["commands"]}
        self.assertEqual(known, {small, *ids[-64:]})
        self.assertLessEqual(self.fds(execd), before + 64 + 2)

    def test_count(self):
        execd = self.start()
        connection = execd.connect()
        ids = [execd.run("true", connection)[0]["text"] for _ in range(1100)]
        connection.close()
        known = [c["id"] for c in execd.json("GET", "/commands")[1]["commands"]]
        self.assertEqual(known, ids[:-1025:-1])

    def test_options(self):
        for bad in (["--spool-bytes", "100"], ["--spool-bytes", "2000000000"], ["--keep-finished", "-1"],
                    ["--keep-finished", "x"]):
            done = subprocess.run([BINARY, *bad], capture_output=True, timeout=WAIT, check=False)
            self.assertEqual(done.returncode, 2, bad)
        env = {**os.environ, "EXECD_SPOOL_BYTES": "nothing"}
        self.assertEqual(subprocess.run([BINARY], env=env, capture_output=True, timeout=WAIT,
                                        check=False).returncode, 2)
        execd = self.start(env={**os.environ, "EXECD_SPOOL_BYTES": "65536"})
        command_id = execd.run("head -c 500000 /dev/zero | tr '\\0' '\\n'")[0]["text"]
        _, response, body = execd.request("GET", f"/command/{command_id}/logs")
        self.assertEqual(len(body) + int(response.getheader(EVICTED)), 500000)


class Surroundings(unittest.TestCase):
    def start(self, *args, **kwargs):
        execd = Execd(*args, **kwargs)
        self.addCleanup(execd.stop)
        return execd

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_full_disk(self):
        # A private mount namespace in which every place for spools is a small tmpfs.
        script = ("exec 9<\"$0\" && mount --make-rprivate / && mount -t tmpfs -o size=256k none /tmp && "
                  "mount -t tmpfs -o size=256k none /var/tmp && exec /proc/self/fd/9 \"$@\"")
        execd = self.start(command=["unshare", "-m", "sh", "-c", script, BINARY],
                           env={**os.environ, "TMPDIR": "/tmp"})
        events = execd.run("seq 1 500000; exit 6", offsets=True)
        self.assertEqual(texts(events, "stdout"), [str(i) for i in range(1, 500001)])
        self.assertEqual(events[-1]["error"]["evalue"], "6")
        _, response, body = execd.request("GET", f"/command/{events[0]['text']}/logs")
        self.assertTrue(body.endswith(b"\n499999\n500000\n"))
        self.assertTrue(10000 < len(body) < 70000, len(body))
        self.assertEqual(int(response.getheader(EVICTED)) + len(body), int(response.getheader(CURSOR)))
        # The place that the file took is free again.
        self.assertEqual(texts(execd.run("head -c 200000 /dev/zero >/tmp/x && rm /tmp/x && echo ok"), "stdout"), ["ok"])

    @unittest.skipUnless(STATIC and os.geteuid() == 0, "needs a static binary and root")
    def test_nothing_to_write_to(self):
        with tempfile.TemporaryDirectory() as root:
            shutil.copy(BINARY, os.path.join(root, "execd"))
            for name in ("bin", "lib", "lib64", "usr"):
                os.mkdir(os.path.join(root, name))
            script = (f"mount --make-rprivate / && mount --bind {root} {root} && mount -o remount,ro,bind {root} && "
                      f"mount --bind /usr {root}/usr && mount --bind /bin {root}/bin && "
                      f"mount --bind /lib {root}/lib && mount --bind /lib64 {root}/lib64 && "
                      f"exec chroot {root} /execd \"$@\"")
            execd = self.start(command=["unshare", "-m", "sh", "-c", script, "sh"], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
            events = execd.run("seq 1 100000")
            self.assertEqual(len(texts(events, "stdout")), 100000)
            _, _, body = execd.request("GET", f"/command/{events[0]['text']}/logs")
            self.assertTrue(body.endswith(b"\n100000\n"))
            self.assertGreater(len(body), 10000)

    @unittest.skipUnless(STATIC and os.geteuid() == 0, "needs a static binary and root")
    def test_shells(self):
        with tempfile.TemporaryDirectory() as root:
            shutil.copy(BINARY, os.path.join(root, "execd"))
            execd = self.start(command=["chroot", root, "/execd"], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
            for background in (False, True):
                events = execd.run("echo x", background=background)
                self.assertEqual([e["type"] for e in events], ["init", "ping", "error"])
                self.assertEqual(events[-1]["error"]["evalue"], "cannot execute bash or sh: No such file or directory")
                status = execd.json("GET", f"/command/status/{events[0]['text']}")[1]
                self.assertEqual((status["running"], status["exit_code"]), (False, 255))
            # A shell of any kind under the name sh is enough: this one is execd itself, which knows --version.
            os.mkdir(os.path.join(root, "bin"))
            os.link(os.path.join(root, "execd"), os.path.join(root, "bin", "sh"))
            events = execd.run("x")
            self.assertIn("opensandbox-execd: there is no option -c", texts(events, "stderr"))

    def test_terminated_while_readers_are_attached(self):
        execd = Execd()
        events = execd.run("trap '' TERM; sleep 1000", background=True)
        sock = socket.create_connection(("127.0.0.1", execd.port), timeout=WAIT)
        sock.sendall(f"GET /command/{events[0]['text']}/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        data = b""
        while b'"ping"' not in data:
            data += sock.recv(65536)
        execd.process.terminate()
        while piece := sock.recv(65536):
            data += piece
        self.assertIn(b'"traceback":["signal: killed"]', data)
        self.assertTrue(data.endswith(b"0\r\n\r\n"))
        self.assertEqual(execd.stop(), 0)
        sock.close()


if __name__ == "__main__":
    unittest.main()
