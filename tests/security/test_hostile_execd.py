"""A server whose sandboxes lie to it: what stands for execd answers garbage, floods, hangs, dies.

The server must not crash, stop serving others, or fill up; its client gets a clear error. How each sandbox lies is
told by its entrypoint: see tests/support/liar.c.
"""
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import liar  # noqa: E402
from harness import SANITIZED, SLOW, Server, wait_until  # noqa: E402
from launcher import CREATE, OK, LauncherTest, create_body, eventually  # noqa: E402

SECONDS = 60 * SLOW
# Answers of which no part can be passed on.
NONSENSE = ["garbage", "close", "nul-head", "nul-status", "nul-first", "two-lengths", "length-and-chunked",
            "negative-length", "huge-length", "unknown-coding", "unasked-101", "bare-lf", "fold", "http-09", "http-2",
            "request", "status-0", "status-99", "status-long", "split-header", "interim-17", "many-headers", "endless-head",
            "endless-line", "endless-status", "endless-interim", "upgrade-other", "dies"]
# Answers that begin well: the client must see that they did not end well.
CUT = ["short-body", "no-body", "huge-chunk", "long-chunk-size", "bad-chunk", "cut-chunk", "bad-trailer",
       "endless-extension", "endless-trailers"]
ENDLESS = ["endless-body", "endless-length", "endless-chunks"]
# As an answer to the start of the entrypoint.
REFUSALS = ["redirect", "refuse-number", "refuse-terminal", "refuse-long", "refuse-deep", "refuse-latin"]
NO_START = [*NONSENSE, *CUT, *ENDLESS, *REFUSALS, "refuse-html", "status-999"]
PATIENT = ["silent", "slow-head", "slow-body", "hold"]
MEMORY_MIB = 400 if SANITIZED else 48  # of growth, with everything going on at once


class Liars(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="osb-liar-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.server = Server(programs=liar.make_programs(cls.folder))
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        cls.good = cls.start("good", "good")
        cls.files = cls.open_files()
        # Each takes as long as the server is patient, so they wait beside all the other tests.
        cls.pool = concurrent.futures.ThreadPoolExecutor(len(PATIENT))
        cls.patient = {how: cls.pool.submit(cls.create, how) for how in PATIENT}

    # Helpers.

    @classmethod
    def ask(cls, method, path, body=None, headers=None):
        """On a connection of its own: status, fields and body. IncompleteRead: it was cut."""
        connection = http.client.HTTPConnection("127.0.0.1", cls.server.port, timeout=SECONDS)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"OPEN-SANDBOX-API-KEY": cls.server.key, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    @classmethod
    def create(cls, start, later="good"):
        status, _, body = cls.ask("POST", "/v1/sandboxes", {
            "image": {"uri": "host"}, "entrypoint": [start, later], "resourceLimits": {}})
        return status, json.loads(body)

    @classmethod
    def start(cls, start, later):
        status, body = cls.create(start, later)
        assert status == 202, body
        return body["id"]

    @classmethod
    def remove(cls, sandbox):
        assert cls.ask("DELETE", f"/v1/sandboxes/{sandbox}")[0] == 204

    @classmethod
    def open_files(cls):
        return len(os.listdir(f"/proc/{cls.server.process.pid}/fd"))

    @classmethod
    def memory_mib(cls):
        status = Path(f"/proc/{cls.server.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024

    @staticmethod
    def path(sandbox):
        return f"/sandboxes/{sandbox}/proxy/44772/x"

    @classmethod
    def token(cls, sandbox):
        return json.loads(cls.ask("GET", f"/v1/sandboxes/{sandbox}/endpoints/44772")[2])["headers"]

    def use(self, sandbox):
        return self.ask("GET", self.path(sandbox), headers=self.token(sandbox))

    def stream(self, sandbox, more=""):
        """A connection that has asked and read nothing yet."""
        peer = socket.create_connection(("127.0.0.1", self.server.port), timeout=SECONDS)
        fields = "".join(f"{name}: {value}\r\n" for name, value in self.token(sandbox).items())
        peer.sendall(f"GET {self.path(sandbox)} HTTP/1.1\r\nHost: x\r\n{fields}{more}\r\n".encode())
        return peer

    def check_good(self, times=1):
        for _ in range(times):
            status, _, body = self.use(self.good)
            self.assertEqual((status, body), (200, b'{"ok":true}'))

    def check_error(self, status, body, allowed):
        self.assertIn(status, allowed, body)
        problem = json.loads(body)
        self.assertEqual(set(problem), {"code", "message"})
        self.assertTrue(problem["message"])
        return problem["message"]

    def check_rest(self):
        """Connections of the server are gone, but those of the four that wait for a start."""
        waiting = sum(not one.done() for one in self.patient.values())
        wait_until(lambda: self.open_files() <= self.files + 2 * waiting + 8, what="descriptors are closed")

    # Tests.

    def test_nonsense(self):
        for how in NONSENSE:
            with self.subTest(how):
                sandbox = self.start("good", how)
                status, _, body = self.use(sandbox)
                self.check_error(status, body, {502})
                self.check_good()
                self.remove(sandbox)
        self.check_rest()

    def test_cut(self):
        """An answer that begins well: an error if nothing was sent yet, else no end that could be taken for one."""
        for how in CUT:
            with self.subTest(how):
                sandbox = self.start("good", how)
                with self.stream(sandbox, "Connection: close\r\n") as peer:
                    said = b""
                    while data := peer.recv(65536):
                        said += data
                head, _, body = said.partition(b"\r\n\r\n")
                if b" 502 " in head:
                    self.check_error(502, body, {502})
                else:
                    self.assertIn(b" 200 ", head)
                    self.assertFalse(body.endswith(b"0\r\n\r\n"), body)
                self.check_good()
                self.remove(sandbox)
        self.check_rest()

    def test_no_start(self):
        """A create that fails says why, and leaves no sandbox."""
        for how in NO_START:
            with self.subTest(how):
                status, problem = self.create(how)
                # What the sandbox says of the entrypoint is the client's matter, the rest is not.
                message = self.check_error(status, json.dumps(problem),
                                           {400} if how in REFUSALS else {500, 503})
                self.assertLess(len(message), 1000)
                self.check_good()
        items = json.loads(self.ask("GET", "/v1/sandboxes?pageSize=200")[2])["items"]
        self.assertEqual([item["id"] for item in items if item["status"]["state"] == "Failed"], [])
        self.check_rest()

    def test_log_is_plain(self):
        """What a sandbox says reaches the log without what commands a terminal or forges a line."""
        self.create("refuse-terminal")
        log = self.server.log_path.read_bytes()
        self.assertIn(rb"\x1b[31m\r\nforged\u202e", log)
        self.assertIsNone(re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xe2\x80\xae", log))
        self.assertIsNone(re.search(rb"^forged", log, re.MULTILINE))

    def test_second_answer_goes_to_nobody(self):
        """Unasked, at once or on a connection at rest."""
        for how in ("double", "later-double"):
            with self.subTest(how):
                sandbox = self.start("good", how)
                for _ in range(10):
                    status, _, body = self.use(sandbox)
                    self.assertEqual((status, body), (200, b'{"ok":true}'))
                    time.sleep(0.05 * SLOW if how == "later-double" else 0)
                    self.check_good()
                self.remove(sandbox)
        self.check_rest()

    def test_floods(self):
        """Clients that read nothing, and one each that reads all it gets, while others are served."""
        boxes = [self.start("good", how) for how in ENDLESS]
        before = self.memory_mib()
        idle = [self.stream(box) for box in boxes for _ in range(20)]
        busy = [self.stream(box) for box in boxes]
        for peer in busy:
            peer.setblocking(True)
        drinkers = [subprocess.Popen(["cat"], stdin=peer, stdout=subprocess.DEVNULL) for peer in busy]

        def drunk():
            return [int(re.search(r"rchar: (\d+)", Path(f"/proc/{one.pid}/io").read_text()).group(1))
                    for one in drinkers]
        try:
            wait_until(lambda: min(drunk()) > 1 << 20, what="all floods run")
            seen = drunk()
            self.check_good(times=100)
            wait_until(lambda: all(now > then for now, then in zip(drunk(), seen)), what="the floods go on")
            self.assertLess(self.memory_mib() - before, MEMORY_MIB)
        finally:
            for one in drinkers:
                one.kill()
                one.wait()
            for peer in busy + idle:
                peer.close()
        for box in boxes:
            self.remove(box)
        self.check_rest()

    def test_held_connections(self):
        """Sandboxes that never answer hold no more than the connection of whoever waits."""
        for how in ("silent", "slow-head", "slow-body", "hold"):
            with self.subTest(how):
                box = self.start("good", how)
                peers = [self.stream(box) for _ in range(50)]
                self.check_good(times=5)
                for peer in peers:
                    peer.close()
                self.check_rest()
                self.remove(box)

    def test_upgrades(self):
        asked = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" \
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        before = self.memory_mib()
        flooding = self.start("good", "upgrade-flood")
        peers = [self.stream(flooding, asked) for _ in range(20)]
        self.assertIn(b" 101 ", peers[0].recv(65536))
        self.check_good(times=20)
        self.assertLess(self.memory_mib() - before, MEMORY_MIB)
        for peer in peers:
            peer.close()
        self.check_rest()
        for how, wanted in (("good", b" 200 "), ("garbage", b" 502 "), ("close", b" 502 "), ("bare-lf", b" 502 "),
                            ("endless-head", b" 502 "), ("upgrade-other", b" 502 ")):
            with self.subTest(how):
                box = self.start("good", how)
                with self.stream(box, asked) as peer:
                    self.assertIn(wanted, peer.recv(65536).split(b"\r\n")[0])
                self.remove(box)
        self.remove(flooding)
        self.check_rest()

    def test_death(self):
        """Started, then gone: the state says so, and requests are refused."""
        box = self.start("good-dies", "good")
        path = f"/v1/sandboxes/{box}"
        wait_until(lambda: json.loads(self.ask("GET", path)[2])["status"]["state"] == "Failed",
                   what="its end is seen")
        status, _, body = self.ask("GET", self.path(box), headers={"X-EXECD-ACCESS-TOKEN": self.server.key})
        self.check_error(status, body, {503})
        self.remove(box)

    def test_deaf(self):
        """It listens no more, or does not accept what comes."""
        for how in ("good-deaf", "good-shut"):
            with self.subTest(how):
                box = self.start(how, "good")
                peers = [self.stream(box) for _ in range(200)]
                self.check_good(times=5)
                if how == "good-shut":
                    status, _, body = self.use(box)
                    self.check_error(status, body, {502})
                for peer in peers:
                    peer.close()
                self.remove(box)
                self.check_rest()

    def test_zz_patience_ends(self):
        """Last, since it waits for what setUpClass began."""
        for how, future in self.patient.items():
            with self.subTest(how):
                status, problem = future.result(SECONDS + 60)
                self.check_error(status, json.dumps(problem), {500})
        self.pool.shutdown()
        self.check_good()
        self.check_rest()
        self.assertLess(self.server.log_path.stat().st_size, 256 * 1024)


class Slots(LauncherTest):
    """An execd that never becomes one."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="osb-liar-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        super().setUpClass()
        cls.honest = cls.execd

    def build(self, *defines):
        self.execd = str(self.folder / "-".join(defines))
        liar.build(self.execd, *defines)

    def finish(self):
        self.execd = self.honest
        super().finish()

    def test_exits_at_once(self):
        """A create fails with a reason, others can be asked, and trying again does not eat the machine."""
        self.build("EXITS")
        self.start()
        client = self.connect()
        result = client.ask(CREATE, create_body("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
        self.assertNotEqual(result.code, OK)
        self.assertTrue(result.message)
        self.assertEqual(client.list(), [])
        lines = self.read_log().count("could not be prepared")
        time.sleep(1)
        self.assertLess(self.read_log().count("could not be prepared") - lines, 10, self.log)

    def test_chatters(self):
        """It says much where one byte is waited for."""
        self.build("CHATTERS")
        self.start()
        client = self.connect()
        client.ask(CREATE, create_body("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
        self.assertTrue(eventually(lambda: client.list() is not None))


if __name__ == "__main__":
    unittest.main()
