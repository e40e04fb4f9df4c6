"""Ports of a sandbox: web servers inside, reached through the server's proxy, without any network."""

import hashlib
import http.client
import os
import socket
import subprocess
import sys
import threading
import unittest
from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "support")]
import launcher  # noqa: E402
from harness import SLOW, Server, wait_until, walk_cgroups  # noqa: E402
from websocket import CLOSE, TEXT, WebSocket  # noqa: E402

INSIDE = (Path(HERE).parent / "support/inside_server.py").read_text()
PIECE = bytes(range(256)) * 256
NETWORK = "opensandbox.extensions.network"


def start_inside(server, name, *addresses, network="none"):
    """A sandbox whose entrypoint is the web server, once it answers."""
    box = server.create(entrypoint=["python3", "-c", INSIDE, name, *addresses], extensions={NETWORK: network})
    for address in addresses:
        wait_until(lambda: get(server, box, address.rpartition(":")[2], "/name").status == 200, 20 * SLOW)
    return box


def get(server, box, port, path="/", method="GET", body=None, headers=None, prefix=""):
    return server.request(method, f"{prefix}/sandboxes/{box.id}/proxy/{port}{path}", body, headers, key=False)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.server.__enter__()
        try:
            cls.box = start_inside(cls.server, "one", "127.0.0.1:8000", "0.0.0.0:80", "::1:8001", "127.0.0.1:65535")
        except BaseException:
            cls.server.__exit__(None, None, None)
            raise

    @classmethod
    def tearDownClass(cls):
        instance = cls.server.instance()
        cls.server.__exit__(None, None, None)
        left = [folder for folder in walk_cgroups() if instance in folder]
        assert not left, left

    def get(self, path="/", port=8000, **options):
        return get(self.server, self.box, port, path, **options)

    def expect_error(self, answer, status, code, *words):
        self.assertEqual((answer.status, answer.json()["code"]), (status, code), answer)
        self.assertEqual(set(answer.json()), {"code", "message"})
        self.assertIn("X-Request-ID", answer.headers)
        for word in words:
            self.assertIn(word, answer.json()["message"])

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.server.port), timeout=30 * SLOW)
        self.addCleanup(sock.close)
        return sock

    def raw(self, request):
        """All that comes back for these bytes."""
        sock = self.connect()
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65536), b""))


class Requests(Case):
    def test_several_ports_and_both_families(self):
        for port in (8000, 80, 8001, 65535):
            for prefix in ("", "/v1"):
                answer = self.get("/name", port, prefix=prefix)
                self.assertEqual((answer.status, answer.body), (200, b"one"), port)
        self.assertEqual(answer.headers.get_all("Set-Cookie"), ["a=1", "b=2"])

    def test_python_http_server(self):
        self.box.output("mkdir -p /tmp/www && echo hello > /tmp/www/page && seq 1000000 > /tmp/www/numbers")
        self.box.run("cd /tmp/www && exec python3 -m http.server --bind 127.0.0.1 8123", background=True)
        wait_until(lambda: self.get("/page", 8123).status == 200, 20 * SLOW)
        self.assertEqual(self.get("/page", 8123).body, b"hello\n")
        self.assertEqual(self.get("/numbers", 8123).body, b"".join(b"%d\n" % i for i in range(1, 1000001)))
        self.assertIn(b'href="page"', self.get("/", 8123).body)
        self.assertEqual(self.get("/none", 8123).status, 404)

    def test_target_and_methods(self):
        for asked, sent in (("", "/"), ("?x=1", "/?x=1"), ("/a/../b//c%2F%00?d=%20", "/a/../b//c%2F%00?d=%20"),
                            ("/internal/start", "/internal/start")):
            self.assertTrue(self.get(asked).body.startswith(f"GET {sent} HTTP/1.1".encode()), asked)
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
            answer = self.get("/m", method=method, body=b"body")
            self.assertTrue(answer.body.startswith(f"{method} /m HTTP/1.1".encode()), answer)
            self.assertIn(b"Content-Length: 4", answer.body)
        answer = self.get("/h", method="HEAD")
        self.assertEqual((answer.status, answer.headers["Content-Length"], answer.body), (200, "12", b""))
        self.assertEqual(self.get("/", method="CONNECT").status, 501)

    def test_secrets_stay_outside(self):
        """Whoever sends them; what belongs to the program inside passes."""
        token = self.box.headers["X-EXECD-ACCESS-TOKEN"]
        sent = {"OPEN-SANDBOX-API-KEY": self.server.key, "X-EXECD-ACCESS-TOKEN": token, "open-sandbox-api-key": "k",
                "OpenSandbox-Secure-Access": "secure", "OPENSANDBOX-EGRESS-AUTH": "egress"}
        kept = {"Authorization": "Bearer mine", "Cookie": "c=d", "X-Mine": "a  b"}
        head = self.get("/x", headers={**sent, **kept}).body.decode()
        for name, value in kept.items():
            self.assertIn(f"{name}: {value}\r\n", head + "\r\n")
        for name in sent:
            self.assertNotIn(name.lower(), head.lower())
        self.assertIn("X-Forwarded-For: 127.0.0.1", head)
        self.get("/x", method="POST", body=b"x", headers=sent)
        WebSocket(self.connect(), f"/sandboxes/{self.box.id}/proxy/8000/ws", sent).send(CLOSE)
        seen = self.get("/seen").body.decode()
        for secret in (self.server.key, token, "secure", "egress"):
            self.assertNotIn(secret, seen)
        self.assertNotIn(self.server.key, self.box.output("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' ' '"))

    def test_big_bodies(self):
        data = os.urandom(1 << 20) * 32
        answer = self.get("/sum", method="POST", body=data)
        self.assertEqual(answer.body.decode(), f"{len(data)} {hashlib.sha256(data).hexdigest()}")
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60 * SLOW)
        self.addCleanup(client.close)
        client.request("PUT", f"/sandboxes/{self.box.id}/proxy/8000/sum", iter([data[:100], data[100:]]),
                       encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        self.assertEqual(client.getresponse().read().decode(), f"{len(data)} {hashlib.sha256(data).hexdigest()}")
        answer = self.get("/big?512")
        self.assertEqual(hashlib.sha256(answer.body).digest(), hashlib.sha256(PIECE * 512).digest())

    def test_answers_are_streamed(self):
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30 * SLOW)
        self.addCleanup(client.close)
        client.request("GET", f"/sandboxes/{self.box.id}/proxy/8000/two-steps")
        response = client.getresponse()
        self.assertEqual(response.read(3), b"one")
        self.get("/go-on")
        self.assertEqual(response.read(), b"two")

    def test_connections_are_used_again(self):
        self.get("/name")
        before = int(self.get("/connections").body)
        for _ in range(20):
            self.get("/name")
        self.assertEqual(int(self.get("/connections").body), before)
        self.assertEqual(self.get("/until-close").body, b"old")

    def test_many_at_once(self):
        wrong = []

        def work():
            client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60 * SLOW)
            for _ in range(10):
                client.request("GET", f"/sandboxes/{self.box.id}/proxy/8000/name")
                answer = client.getresponse()
                if (answer.status, answer.read()) != (200, b"one"):
                    wrong.append(answer.status)
            client.close()
        threads = [threading.Thread(target=work) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Upgrades(Case):
    def test_websocket(self):
        socket_ = WebSocket(self.connect(), f"/v1/sandboxes/{self.box.id}/proxy/8000/ws?x=1")
        for text in (b"hello", b"x" * 60000, b""):
            socket_.send(TEXT, text)
            first, second = socket_._take(2)
            size = second if second < 126 else int.from_bytes(socket_._take(2), "big")
            self.assertEqual((first, socket_._take(size)), (0x81, text))
        socket_.send(CLOSE, b"\x03\xe8")
        self.assertEqual(socket_._take(4), b"\x88\x02\x03\xe8")

    def test_any_protocol(self):
        sock = self.connect()
        sock.sendall(f"GET /sandboxes/{self.box.id}/proxy/8000/raw HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                     "Upgrade: echo/1\r\n\r\n".encode() + b"early")
        data = b""
        while not data.endswith(b"early"):
            data += sock.recv(65536)
        self.assertTrue(data.startswith(b"HTTP/1.1 101 "), data)
        self.assertIn(b"Upgrade: echo/1\r\n", data)
        big = os.urandom(4 << 20)
        threading.Thread(target=sock.sendall, args=(big,)).start()
        data = b""
        while len(data) < len(big):
            data += sock.recv(1 << 20)
        self.assertEqual(data, big)
        sock.shutdown(socket.SHUT_WR)
        self.assertEqual(sock.recv(1), b"")

    def test_end_with_the_sandbox(self):
        box = start_inside(self.server, "short", "127.0.0.1:8000")
        socket_ = WebSocket(self.connect(), f"/sandboxes/{box.id}/proxy/8000/ws")
        box.delete()
        self.assertEqual(socket_.sock.recv(10), b"")


class Failures(Case):
    def test_nobody_listens(self):
        for port in (1, 8002, 44771, 65534):
            self.expect_error(self.get("/x", port), 502, "SANDBOX::PROXY_FAILED", f"port {port} ", self.box.id)
        self.expect_error(self.get("/x", 8002, method="POST", body=b"x" * 100000), 502, "SANDBOX::PROXY_FAILED")
        self.assertEqual(self.get("/name").status, 200)

    def test_ports_of_the_server(self):
        """Its own loopback is another one."""
        self.expect_error(self.get("/health", self.server.port), 502, "SANDBOX::PROXY_FAILED")

    def test_egress_port(self):
        self.expect_error(self.get("/policy", 18080), 501, "SANDBOX::API_NOT_SUPPORTED", "18080")

    def test_no_answer_and_nonsense(self):
        for path in ("/hang-up", "/nonsense"):
            self.expect_error(self.get(path), 502, "SANDBOX::PROXY_FAILED")

    def test_more_than_said_reaches_nobody(self):
        for _ in range(5):
            self.assertEqual(self.get("/more-than-said").body, b"ok")
            self.assertEqual(self.get("/name").body, b"one")

    def test_ambiguous_requests_are_refused(self):
        start = f"POST /sandboxes/{self.box.id}/proxy/8000/smuggled HTTP/1.1\r\nHost: x\r\n"
        for fields in ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 3\r\nContent-Length: 4\r\n",
                       "Transfer-Encoding: chunked, identity\r\n", "Content-Length: +3\r\n"):
            answer = self.raw((start + fields + "\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n").encode())
            self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)
        self.assertNotIn(b"/smuggled", self.get("/seen").body)

    def test_ended_and_unknown(self):
        box = start_inside(self.server, "short", "127.0.0.1:8000")
        box.run("kill -9 $(pgrep -f 127.0.0.1:8000 | head -n 1); sleep 1000", background=True)
        wait_until(lambda: get(self.server, box, 8000).status == 503, 20 * SLOW)
        self.expect_error(get(self.server, box, 8000), 503, "SANDBOX::SANDBOX_NOT_RUNNING")
        box.delete()
        self.expect_error(get(self.server, box, 8000), 404, "SANDBOX::SANDBOX_NOT_FOUND")

    def test_frozen(self):
        """The kernel takes the connection; the answer comes when the sandbox moves again."""
        client = launcher.Client(str(self.server.state / "state/run/launcher.sock"))
        self.addCleanup(client.close)
        client.greet()
        box = start_inside(self.server, "cold", "127.0.0.1:8000")
        self.assertEqual(client.ask(launcher.FREEZE, launcher.id_body(box.id)).code, launcher.OK)
        given_up, waiting = self.connect(), self.connect()
        request = f"GET /sandboxes/{box.id}/proxy/8000/name HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        for sock in (given_up, waiting):
            sock.sendall(request)
        waiting.settimeout(0.5)
        with self.assertRaises(TimeoutError):
            waiting.recv(1)
        given_up.close()
        self.assertEqual(client.ask(launcher.THAW, launcher.id_body(box.id)).code, launcher.OK)
        waiting.settimeout(30 * SLOW)
        self.assertTrue(waiting.recv(65536).startswith(b"HTTP/1.1 200 "))

    def test_a_full_backlog_holds_up_nobody_else(self):
        """Connections that are never accepted: those beyond the bound are refused, others go on."""
        code = ("import socket,time; s=socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen(0); "
                "[socket.socket().connect_ex(('127.0.0.1', 8000)) for _ in range(1)]; time.sleep(1000)")
        box = self.server.create(entrypoint=["python3", "-c", code], extensions={NETWORK: "none"})
        wait_until(lambda: "0100007F:1F40" in box.output("cat /proc/net/tcp"), 20 * SLOW)
        request = f"GET /sandboxes/{box.id}/proxy/8000/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        socks = [self.connect() for _ in range(200)]
        for sock in socks:
            sock.sendall(request)
        self.assertEqual(self.get("/name").body, b"one")
        refused = 0
        for sock in socks:
            sock.settimeout(0.01)
            try:
                answer = sock.recv(65536)
            except TimeoutError:
                continue
            self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
            self.assertIn(b"\r\nRetry-After: 1\r\n", answer)
            refused += 1
        self.assertGreater(refused, 0)
        self.assertLess(refused, 200)
        for sock in socks:
            sock.close()
        box.delete()
        self.assertEqual(self.get("/name").body, b"one")


class Sandboxes(unittest.TestCase):
    def test_same_port_of_two_and_a_restart(self):
        with Server() as server:
            names = ["first", "second", "third"]
            boxes = [start_inside(server, name, "127.0.0.1:8000") for name in names]

            def ask():
                return [get(server, box, 8000, "/name").body.decode() for box in boxes]
            for _ in range(5):
                self.assertEqual(ask(), names)
            boxes[1].delete()
            boxes[1] = start_inside(server, "second", "127.0.0.1:8000")
            self.assertEqual(ask(), names)
            server.restart()
            self.assertEqual(ask(), names)
            self.assertEqual(get(server, boxes[0], 9).status, 502)

    def test_launcher_away(self):
        """A connection there is goes on; a new one cannot be made, and can again when it is back."""
        with Server() as server:
            box = start_inside(server, "one", "127.0.0.1:8000", "127.0.0.1:8001")
            get(server, box, 8000, "/name")
            [pid] = server.launcher_pids()
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
            os.kill(pid, 9)
            wait_until(lambda: not server.launcher_pids(), 20 * SLOW)
            wait_until(lambda: get(server, box, 9, "/").status == 503, 20 * SLOW)
            answer = get(server, box, 9, "/")
            self.assertEqual(answer.json()["code"], "SANDBOX::PROXY_FAILED")
            self.assertEqual(answer.headers["Retry-After"], "1")
            self.assertEqual(get(server, box, 8000, "/name").body, b"one")
            again = launch_again(words, server)
            self.addCleanup(again.wait)
            wait_until(lambda: get(server, box, 9, "/").status == 502, 20 * SLOW)
            self.assertEqual(get(server, box, 8001, "/name").body, b"one")


class Networks(unittest.TestCase):
    """Which network a sandbox gets, where the configuration says none; test_network.py and test_rootless.py have
    the others."""

    def test_choice(self):
        with Server() as server:
            client = launcher.Client(str(server.state / "state/run/launcher.sock"))
            welcome = client.greet()
            client.close()
            box = server.create()
            status = server.request("GET", f"/sandboxes/{box.id}").json()["status"]
            self.assertEqual(box.info["status"], status)
            self.assertEqual((status["state"], status["reason"]), ("Running", "CONTAINER_RUNNING"))
            self.assertEqual(status["message"], "Sandbox is running.")
            for fields in ({"networkPolicy": {"defaultAction": "deny"}},
                           {"networkPolicy": {"defaultAction": "deny", "egress": [{"action": "deny", "target": "a"}]}},
                           {"extensions": {NETWORK: "none"}}):
                alone = server.create(**fields)
                self.assertEqual(alone.info["status"]["message"], "Sandbox is running.")
                self.assertEqual(alone.output("ls /sys/class/net 2>/dev/null || cut -d: -f1 /proc/net/dev | tail -n +3")
                                 .split(), ["lo"])
            body = {"image": {"uri": "host"}, "entrypoint": ["true"], "resourceLimits": {}, "extensions": {NETWORK: "nat"}}
            answer = server.request("POST", "/v1/sandboxes", body)
            self.assertEqual((answer.status, answer.json()["code"]), (400, "SANDBOX::INVALID_PARAMETER"))
            self.assertIn("network.mode", answer.json()["message"])
            server.restart()
            self.assertEqual(server.request("GET", f"/sandboxes/{box.id}").json()["status"], status)


def launch_again(words, server):
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=open(server.log_path, "ab"))


if __name__ == "__main__":
    unittest.main()
