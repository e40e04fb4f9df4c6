"""The server with real sandboxes: keys, requests it must refuse, the life of a sandbox, restarts."""
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import uuid
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import BIN, Machine, Sandbox, Server, text_of, wait_until  # noqa: E402

SERVER_UID = 64001
CREATE = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {}}
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$")


def start_again(server):
    server.output = b""
    server.start()


def parent_of(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None  # a slot that has just ended


def launcher_of(server):
    """The launcher itself: its slots are processes of the same name, and its children."""
    pids = server.launcher_pids()
    return next(pid for pid in pids if parent_of(pid) not in (*pids, None))


class Case(unittest.TestCase):
    def expect_error(self, answer, status, code):
        self.assertEqual(answer.status, status, answer)
        body = answer.json()
        self.assertEqual(body["code"], code, answer)
        self.assertTrue(body["message"], answer)
        self.assertEqual(answer.headers["Content-Type"], "application/json")
        return body["message"]


class Shared(Case):
    """Tests that use one server and leave it as it was."""

    @classmethod
    def setUpClass(cls):
        cls.before = Machine.snapshot()
        cls.server = Server()
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        left = Machine.difference(cls.before, Machine.snapshot())
        assert not left, left

    def setUp(self):
        self.request = self.server.request

    def tearDown(self):
        self.server.delete_all()

    def create_answer(self, **fields):
        body = {**CREATE, **fields}
        return self.request("POST", "/v1/sandboxes", {k: v for k, v in body.items() if v is not ...})


class Keys(Case):
    def test_printed_once_kept_for_the_server_alone(self):
        with Server() as server:
            key = server.key
            self.assertRegex(key, r"^[A-Za-z0-9_-]{43}$")
            self.assertEqual(server.output.count(key.encode()), 1)
            path = server.state / "state/server/api-key"
            info = path.stat()
            self.assertEqual(stat.S_IMODE(info.st_mode), 0o600)
            self.assertEqual(info.st_uid, SERVER_UID)
            self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode), 0o700)
            server.restart()
            self.assertEqual(server.request("GET", "/v1/sandboxes").status, 200)
            self.assertNotIn(key.encode(), server.output)
            self.assertNotIn(key, server.log_path.read_text())
            for name in path.parent.iterdir():
                self.assertEqual(stat.S_IMODE(name.stat().st_mode) & 0o077, 0, name)

    def test_key_that_others_can_read_is_refused(self):
        with Server() as server:
            server.stop()
            (server.state / "state/server/api-key").chmod(0o644)
            with self.assertRaisesRegex(AssertionError, "others can read it.*chmod"):
                start_again(server)
            server.stop(signal.SIGKILL)
            (server.state / "state/server/api-key").chmod(0o600)
            start_again(server)

    def test_key_from_environment_and_configuration(self):
        with Server(env={"OPENSANDBOX_SERVER_API_KEY": "from-env"},
                    config='[server]\napi_key = "from-file"\n') as server:
            self.assertFalse((server.state / "state/server/api-key").exists())
            for key, status in (("from-env", 200), ("from-file", 401), ("", 401)):
                headers = {"OPEN-SANDBOX-API-KEY": key}
                self.assertEqual(server.request("GET", "/sandboxes", headers=headers).status, status)
            server.extra_env = {}
            server.restart()
            headers = {"OPEN-SANDBOX-API-KEY": "from-file"}
            self.assertEqual(server.request("GET", "/sandboxes", headers=headers).status, 200)
            server.key = "from-file"

    def test_empty_key_is_refused(self):
        server = Server(env={"OPENSANDBOX_SERVER_API_KEY": ""})
        with self.assertRaisesRegex(AssertionError, "OPENSANDBOX_SERVER_API_KEY"):
            server.__enter__()


class Start(Case):
    def run_server(self, *arguments, program=BIN / "opensandbox-server", **options):
        return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=30, **options)

    def test_help_version_and_wrong_arguments(self):
        self.assertIn("--listen", self.run_server("--help").stdout)
        self.assertRegex(self.run_server("--version").stdout, r"^opensandbox-server \d")
        for arguments in (["--nonsense"], ["extra"], ["--listen"]):
            self.assertEqual(self.run_server(*arguments).returncode, 2, arguments)
        for arguments in (["--listen", "localhost:1"], ["--state", "relative"],
                          ["--config", "/nonexistent"]):
            done = self.run_server(*arguments)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn(arguments[1].split(":")[0], done.stderr)

    def test_another_users_state_directory(self):
        """Of an ordinary user, who may otherwise start a server: see test_rootless.py."""
        # A copy, since the checkout may lie where that user cannot go.
        folder = tempfile.mkdtemp(prefix="osb-test-")
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        program = shutil.copy(BIN / "opensandbox-server", folder)
        done = self.run_server("--state", folder, program=program, user=SERVER_UID,
                               group=SERVER_UID, extra_groups=[], cwd="/")
        self.assertEqual(done.returncode, 1)
        self.assertIn("must belong to the user who starts the server", done.stderr)

    def test_wrong_configuration_names_the_line(self):
        server = Server(config="[server]\nport = 0\nprot = 1\n")
        with self.assertRaisesRegex(AssertionError, r"config\.toml:3: .*prot"):
            server.__enter__()

    def test_no_privileges_are_left(self):
        with Server() as server:
            status = Path(f"/proc/{server.process.pid}/status").read_text()
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            self.assertEqual(fields["Uid"].split(), [str(SERVER_UID)] * 4)
            self.assertEqual(fields["Gid"].split(), [str(SERVER_UID)] * 4)
            self.assertEqual(fields["Groups"].split(), [])
            for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                self.assertEqual(int(fields[name], 16), 0, name)
            self.assertEqual(fields["NoNewPrivs"], "1")

    def test_second_instance_is_refused_and_harmless(self):
        with Server() as server:
            box = server.create()
            done = self.run_server("--listen", "127.0.0.1:0", "--state", str(server.state / "state"))
            self.assertEqual(done.returncode, 1)
            self.assertIn("another opensandbox-server", done.stderr)
            self.assertEqual(box.output("echo still here"), "still here")

    def test_two_instances_do_not_meet(self):
        with Server() as one, Server() as two:
            box = one.create()
            self.assertEqual(two.request("GET", f"/sandboxes/{box.id}").status, 404)
            self.assertEqual(two.request("GET", "/sandboxes").json()["items"], [])
            headers = {"OPEN-SANDBOX-API-KEY": one.key}
            self.assertEqual(two.request("GET", "/sandboxes", headers=headers).status, 401)


class Access(Shared):
    ROUTES = [("POST", "/sandboxes"), ("GET", "/sandboxes"), ("GET", "/sandboxes/{id}"),
              ("DELETE", "/sandboxes/{id}"), ("PATCH", "/sandboxes/{id}/metadata"),
              ("POST", "/sandboxes/{id}/pause"), ("POST", "/sandboxes/{id}/resume"),
              ("POST", "/sandboxes/{id}/renew-expiration"), ("GET", "/sandboxes/{id}/endpoints/1"),
              ("POST", "/sandboxes/{id}/snapshots"), ("GET", "/snapshots"), ("GET", "/snapshots/x"),
              ("DELETE", "/snapshots/x"), ("GET", "/sandboxes/{id}/diagnostics/logs"),
              ("GET", "/pools"), ("POST", "/pools"), ("GET", "/pools/x"), ("PUT", "/pools/x"),
              ("DELETE", "/pools/x"), ("POST", "/metrics/events"), ("GET", "/nowhere"), ("GET", "/"),
              ("GET", "/sandboxes/{id}/proxy/x"), ("GET", "/healthy"), ("POST", "/health")]

    def test_every_route_needs_the_key(self):
        box = self.server.create()
        for method, path in self.ROUTES:
            for prefix in ("", "/v1"):
                target = prefix + path.format(id=box.id)
                with self.subTest(f"{method} {target}"):
                    self.expect_error(self.request(method, target, key=False), 401, "MISSING_API_KEY")
                    for wrong in ("x", self.server.key[:-1], self.server.key + "x", ""):
                        answer = self.request(method, target,
                                              headers={"OPEN-SANDBOX-API-KEY": wrong})
                        self.expect_error(answer, 401, "INVALID_API_KEY")
        self.assertEqual(self.request("GET", f"/sandboxes/{box.id}").status, 200)

    def test_health_needs_none(self):
        answer = self.request("GET", "/health", key=False)
        self.assertEqual((answer.status, answer.json()), (200, {"status": "healthy"}))

    def test_request_id_on_every_answer(self):
        box = self.server.create()
        for method, path, key in (("GET", "/health", False), ("GET", "/sandboxes", True),
                                  ("GET", "/sandboxes", False), ("GET", "/nowhere", True),
                                  ("PUT", "/sandboxes", True), ("POST", "/sandboxes", True),
                                  ("GET", f"/sandboxes/{uuid.uuid4()}", True),
                                  ("GET", f"{box.prefix}/ping", True),
                                  ("GET", f"{box.prefix}/ping", False),
                                  ("GET", f"/sandboxes/{uuid.uuid4()}/proxy/44772/", False),
                                  ("POST", "/pools", True)):
            with self.subTest(f"{method} {path} {key}"):
                answer = self.request(method, path, headers={"X-Request-ID": "my id 7"}, key=key)
                self.assertEqual(answer.headers.get_all("X-Request-ID"), ["my id 7"])
                made = self.request(method, path, key=key).headers.get_all("X-Request-ID")
                self.assertEqual(len(made), 1)
                self.assertRegex(made[0], r"^[0-9a-f]{32}$")
        answer = self.request("GET", "/health", headers={"X-Request-ID": "x" * 129})
        self.assertRegex(answer.headers["X-Request-ID"], r"^[0-9a-f]{32}$")

    def test_ids_that_are_none(self):
        box = self.server.create()
        for bad in ("..", "../x", "%2e%2e", "%2e%2e%2f" + box.id, box.id.upper(), box.id + "%00",
                    "%00", box.id[:-1], box.id + "0", "{" + box.id + "}", box.id.replace("-", ""),
                    "x" * 5000, "%C3%A9", "%FF", "*", "%25", "'%20OR%201=1", " ".replace(" ", "%20"),
                    str(uuid.uuid1()), "0" * 36, box.id + "%0A", "%20" + box.id):
            for path in ("/sandboxes/{}", "/v1/sandboxes/{}", "/sandboxes/{}/endpoints/44772",
                         "/sandboxes/{}/proxy/44772/ping"):
                with self.subTest(path.format(bad)[:100]):
                    answer = self.request("GET", path.format(bad))
                    self.assertEqual(answer.status, 404, answer)
                    self.assertIn("code", answer.json())
            self.assertEqual(self.request("DELETE", f"/sandboxes/{bad}").status, 404)
        self.assertEqual(self.request("GET", f"/sandboxes/{box.id}").status, 200)

    def test_unknown_paths_and_methods(self):
        for path in ("/", "/v1", "/v1/", "/sandboxes/", "/v2/sandboxes", "/sandboxes/a/b", "/v1/health"):
            answer = self.request("GET", path)
            self.assertEqual(answer.status, 404, path)
            self.assertTrue(answer.json()["code"])
        answer = self.request("PUT", "/v1/sandboxes")
        self.assertEqual(answer.status, 405)
        self.assertEqual(sorted(answer.headers["Allow"].replace(" ", "").split(",")), ["GET", "POST"])
        self.assertTrue(answer.json()["code"])

    def test_calls_that_are_not_built(self):
        box = self.server.create()
        for method, path in self.ROUTES:
            if path.split("/")[-1] in ("pause", "resume", "renew-expiration", "metadata", "logs",
                                       "snapshots", "pools", "x") and "proxy" not in path:
                with self.subTest(f"{method} {path}"):
                    self.expect_error(self.request(method, "/v1" + path.format(id=box.id)), 501,
                                      "SANDBOX::API_NOT_SUPPORTED")

    def test_client_events_are_taken(self):
        answer = self.request("POST", "/v1/metrics/events", {"eventType": "sandbox.create"})
        self.assertEqual((answer.status, answer.body), (204, b""))


class Life(Shared):
    def test_create_get_list_delete(self):
        metadata = {"team": "blue", "x.io/y": ""}
        answer = self.create_answer(timeout=600, metadata=metadata, env={"A": "b"},
                                    resourceLimits={"cpu": "500m", "memory": "512Mi"},
                                    platform={"os": "linux", "arch": "amd64"})
        self.assertEqual(answer.status, 202, answer)
        made = answer.json()
        self.assertEqual(sorted(made), ["createdAt", "entrypoint", "expiresAt", "id", "metadata",
                                        "platform", "status"])
        self.assertEqual(answer.headers["Location"], f"/v1/sandboxes/{made['id']}")
        self.assertEqual(str(uuid.UUID(made["id"], version=4)), made["id"])
        self.assertEqual(made["status"]["state"], "Running")
        self.assertEqual(made["status"]["reason"], "CONTAINER_RUNNING")
        self.assertEqual(made["metadata"], metadata)
        self.assertEqual(made["entrypoint"], CREATE["entrypoint"])
        for name in ("createdAt", "expiresAt"):
            self.assertRegex(made[name], TIME)
        lasts = datetime.fromisoformat(made["expiresAt"].replace("Z", "+00:00")) \
            - datetime.fromisoformat(made["createdAt"].replace("Z", "+00:00"))
        self.assertEqual(lasts.total_seconds(), 600)

        got = self.request("GET", f"/v1/sandboxes/{made['id']}")
        self.assertEqual((got.status, got.json()), (200, {**made, "image": {"uri": "host"}}))
        self.assertEqual(self.request("GET", f"/sandboxes/{made['id']}").json(), got.json())
        listed = self.request("GET", "/v1/sandboxes").json()
        self.assertEqual(listed["items"], [got.json()])
        self.assertEqual(listed["pagination"], {"page": 1, "pageSize": 20, "totalItems": 1,
                                                "totalPages": 1, "hasNextPage": False})
        gone = self.request("DELETE", f"/v1/sandboxes/{made['id']}")
        self.assertEqual((gone.status, gone.body), (204, b""))
        for method in ("GET", "DELETE"):
            self.expect_error(self.request(method, f"/v1/sandboxes/{made['id']}"), 404,
                              "SANDBOX::SANDBOX_NOT_FOUND")
        self.assertEqual(self.request("GET", "/v1/sandboxes").json()["items"], [])

    def test_nothing_is_null(self):
        answer = self.create_answer(timeout=None, metadata=None, env=None, platform=None,
                                    networkPolicy=None, volumes=None, extensions=None,
                                    secureAccess=None, credentialProxy=None, snapshotId=None)
        self.assertEqual(answer.status, 202, answer)
        self.assertNotIn(b":null", answer.body)
        self.assertEqual(sorted(answer.json()), ["createdAt", "entrypoint", "id", "status"])
        got = self.request("GET", f"/sandboxes/{answer.json()['id']}")
        self.assertNotIn(b":null", got.body)

    def test_environment_and_entrypoint_arrive(self):
        box = self.server.create(entrypoint=["sh -c 'echo $A > /tmp/x; exec sleep 1000'"],
                                 env={"A": "a \"quoted\" é", "GONE": None})
        self.assertEqual(box.info["entrypoint"], ["sh -c 'echo $A > /tmp/x; exec sleep 1000'"])
        wait_until(lambda: box.output("cat /tmp/x 2>/dev/null; true"), what="entrypoint has run")
        self.assertEqual(box.output("cat /tmp/x"), 'a "quoted" é')
        self.assertEqual(box.output("echo $A; echo ${GONE-unset}"), 'a "quoted" é\nunset')

    def test_environment_is_stored_nowhere(self):
        secret = "s3cret" + uuid.uuid4().hex
        box = self.server.create(env={"PASSWORD": secret})
        self.assertEqual(box.output("echo $PASSWORD"), secret)
        for folder, _, names in os.walk(self.server.state):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24:
                    self.assertNotIn(secret.encode(), path.read_bytes(), path)

    def test_entrypoint_that_ends(self):
        for entrypoint, state, reason, message in (
                (["true"], "Terminated", "CONTAINER_EXITED", "successfully"),
                (["sh", "-c", "exit 7"], "Failed", "CONTAINER_EXITED_ERROR", "code 7")):
            made = self.create_answer(entrypoint=entrypoint).json()
            path = f"/sandboxes/{made['id']}"

            def ended():
                return self.request("GET", path).json()["status"]["state"] != "Running"
            wait_until(ended, what=f"{entrypoint} ended")
            status = self.request("GET", path).json()["status"]
            self.assertEqual((status["state"], status["reason"]), (state, reason))
            self.assertIn(message, status["message"])
            headers = self.request("GET", f"{path}/endpoints/44772").json()["headers"]
            self.expect_error(self.request("GET", f"{path}/proxy/44772/ping", headers=headers), 503,
                              "SANDBOX::SANDBOX_NOT_RUNNING")
            self.assertEqual(self.request("DELETE", path).status, 204)

    def test_entrypoint_that_does_not_exist(self):
        answer = self.create_answer(entrypoint=["/no/such/program"])
        message = self.expect_error(answer, 400, "SANDBOX::INVALID_PARAMETER")
        self.assertIn("/no/such/program", message)
        self.assertEqual(self.request("GET", "/sandboxes").json()["pagination"]["totalItems"], 0)

    def test_many_at_once(self):
        def cycle(number):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            headers = {"OPEN-SANDBOX-API-KEY": self.server.key}
            connection.request("POST", "/v1/sandboxes", json.dumps(CREATE), headers)
            response = connection.getresponse()
            body = json.loads(response.read())
            self.assertEqual(response.status, 202, body)
            connection.request("DELETE", f"/v1/sandboxes/{body['id']}", headers=headers)
            response = connection.getresponse()
            response.read()
            connection.close()
            return response.status, body["id"]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            results = list(pool.map(cycle, range(64)))
        self.assertEqual({status for status, _ in results}, {204})
        self.assertEqual(len({id for _, id in results}), 64)

    def test_client_that_hangs_up_leaks_nothing(self):
        """The sandbox of a client that did not wait is in the list, and can be deleted."""
        body = json.dumps({**CREATE, "metadata": {"who": "impatient"}}).encode()
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", self.server.port)) as client:
                client.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nOPEN-SANDBOX-API-KEY: "
                               + self.server.key.encode() + b"\r\nContent-Length: %d\r\n\r\n"
                               % len(body) + body)
        wait_until(lambda: self.total("metadata=who%3Dimpatient&state=Running") == 5,
                   what="sandboxes of impatient clients")
        self.server.delete_all()
        folder = self.server.state / "state/launcher/sandboxes"
        wait_until(lambda: not list(folder.iterdir()), what="files removed")

    def total(self, query):
        return self.request("GET", f"/sandboxes?{query}").json()["pagination"]["totalItems"]

    def test_filters_and_pages(self):
        made = [self.create_answer(metadata={"n": str(n), "parity": "even" if n % 2 == 0 else "odd"},
                                   entrypoint=["true"] if n == 4 else CREATE["entrypoint"])
                .json()["id"] for n in range(5)]
        wait_until(lambda: self.total("state=Terminated") == 1, what="the short one ended")

        def ids(query):
            answer = self.request("GET", f"/v1/sandboxes?{query}")
            self.assertEqual(answer.status, 200, answer)
            return [made.index(item["id"]) for item in answer.json()["items"]]

        def metadata(**labels):
            return "metadata=" + urllib.parse.quote(urllib.parse.urlencode(labels), safe="")
        self.assertEqual(ids(""), [4, 3, 2, 1, 0])
        self.assertEqual(ids("pageSize=2"), [4, 3])
        self.assertEqual(ids("pageSize=2&page=3"), [0])
        self.assertEqual(ids("pageSize=2&page=4"), [])
        self.assertEqual(ids("state=running"), [3, 2, 1, 0])
        self.assertEqual(ids("state=Terminated&state=Paused"), [4])
        self.assertEqual(ids("state="), [])
        self.assertEqual(ids(metadata(parity="even")), [4, 2, 0])
        self.assertEqual(ids(metadata(parity="even", n="2")), [2])
        self.assertEqual(ids(metadata(parity="even") + "&state=Running"), [2, 0])
        self.assertEqual(ids(metadata(parity="")), [])
        self.assertEqual(ids(metadata(parity="' OR '1'='1")), [])
        page = self.request("GET", "/sandboxes?pageSize=2&page=2").json()["pagination"]
        self.assertEqual(page, {"page": 2, "pageSize": 2, "totalItems": 5, "totalPages": 3,
                                "hasNextPage": True})
        for query, code in (("page=0", "SANDBOX::INVALID_PARAMETER"),
                            ("pageSize=201", "SANDBOX::INVALID_PARAMETER"),
                            ("page=x", "SANDBOX::INVALID_PARAMETER"),
                            ("page=%FF", "SANDBOX::INVALID_PARAMETER"),
                            ("metadata=parity%3D%FF", "INVALID_METADATA_FORMAT"),
                            ("metadata=novalue", "INVALID_METADATA_FORMAT")):
            self.expect_error(self.request("GET", f"/sandboxes?{query}"), 400, code)


class Refusals(Shared):
    def tearDown(self):
        self.assertEqual(self.request("GET", "/sandboxes").json()["pagination"]["totalItems"], 0)

    def test_bad_requests(self):
        invalid = "SANDBOX::INVALID_PARAMETER"
        for fields, code, word in (
                ({"image": {"uri": "ubuntu"}}, "SANDBOX::IMAGE_NOT_FOUND", '"host"'),
                ({"image": ...}, invalid, "image.uri"),
                ({"entrypoint": ...}, invalid, "entrypoint"),
                ({"resourceLimits": ...}, invalid, "resourceLimits"),
                ({"resourceLimits": {"memory": "lots"}}, invalid, '"lots"'),
                ({"resourceLimits": {"memory": "0"}}, invalid, "memory"),
                ({"resourceLimits": {"cpu": "-1"}}, invalid, '"-1"'),
                ({"resourceLimits": {"cpu": 1}}, invalid, "cpu"),
                ({"resourceLimits": {"disk": "some"}}, invalid, "disk"),
                ({"resourceLimits": {"disk": "1Gi", "ephemeral-storage": "2Gi"}}, invalid, "disk"),
                ({"resourceLimits": {"gpu": "1"}}, invalid, "gpu"),
                ({"timeout": 59}, invalid, "60"),
                ({"timeout": "soon"}, invalid, "timeout"),
                ({"timeout": 10 ** 30}, invalid, ""),
                ({"metadata": {"bad key": "x"}}, "SANDBOX::INVALID_METADATA_LABEL", "bad key"),
                ({"metadata": {"a": "b\n"}}, "SANDBOX::INVALID_METADATA_LABEL", ""),
                ({"metadata": {"opensandbox.io/id": "x"}}, "SANDBOX::INVALID_METADATA_LABEL", ""),
                ({"networkPolicy": {"defaultAction": "allow"}}, invalid, "networkPolicy"),
                ({"extensions": {"opensandbox.extensions.network": "host"}}, invalid, '"host"'),
                ({"volumes": [{"name": "v"}]}, "VOLUME::INVALID_MOUNT_PATH", "volumes[0].mountPath"),
                ({"secureAccess": True}, invalid, "secureAccess"),
                ({"snapshotId": "x"}, invalid, "snapshotId"),
                ({"credentialProxy": {"enabled": True}}, invalid, "credentialProxy"),
                ({"platform": {"os": "windows", "arch": "amd64"}}, invalid, "windows"),
                ({"extensions": {"poolRef": "p"}}, "SANDBOX::UNSUPPORTED_POOL_REF", "pool")):
            with self.subTest(fields):
                answer = self.create_answer(**fields)
                self.assertIn(word, self.expect_error(answer, 400, code))
                detail = answer.json()["detail"]
                self.assertEqual(sorted(detail[0]), ["loc", "msg", "type"])
                self.assertEqual(detail[0]["loc"][0], "body")

    def test_secrets_are_not_echoed(self):
        secret = "hunter2"
        for fields in ({"image": {"uri": "host", "auth": {"username": "u", "password": secret}}},
                       {"env": {"A": [secret]}}, {"env": secret},
                       {"entrypoint": [f"echo '{secret}"]}):
            answer = self.create_answer(**fields)
            self.assertEqual(answer.status, 400)
            self.assertNotIn(secret.encode(), answer.body)
        self.assertNotIn(secret, self.server.log_path.read_text())

    def test_bodies_that_are_no_json(self):
        for body in (b"", b"{", b"[]", b"null", b'{"image":1} x', b"\xff\xfe", b'{"a":1,"a":2}',
                     b"[" * 100000, b'{"a":"\\u0000"}'):
            with self.subTest(body[:20]):
                answer = self.request("POST", "/v1/sandboxes", body)
                self.expect_error(answer, 400, "SANDBOX::INVALID_PARAMETER")

    def test_body_over_the_limit(self):
        body = {**CREATE, "padding": "x" * (1024 * 1024)}
        answer = self.request("POST", "/v1/sandboxes", body)
        self.assertEqual(answer.status, 413, answer)
        self.assertTrue(answer.json()["code"])
        self.server.disconnect()


class Timeouts(Case):
    def test_maximum_of_the_operator(self):
        with Server(config="[server]\nmax_sandbox_timeout_seconds = 120\n") as server:
            server.create(timeout=120)
            answer = server.request("POST", "/sandboxes", {**CREATE, "timeout": 121})
            self.assertIn("120", self.expect_error(answer, 400, "SANDBOX::INVALID_PARAMETER"))


class Endpoints(Shared):
    def test_answers(self):
        box = self.server.create()
        path = f"/v1/sandboxes/{box.id}/endpoints"
        host = f"127.0.0.1:{self.server.port}"
        answer = self.request("GET", f"{path}/44772").json()
        self.assertEqual(answer["endpoint"], f"{host}/sandboxes/{box.id}/proxy/44772")
        self.assertEqual(list(answer["headers"]), ["X-EXECD-ACCESS-TOKEN"])
        for query in ("?use_server_proxy=true", "?use_server_proxy=false", "?use_server_proxy=True"):
            self.assertEqual(self.request("GET", f"{path}/44772{query}").json(), answer)
        for port in (18080, 8080, 1, 65535):
            other = self.request("GET", f"{path}/{port}")
            self.assertEqual((other.status, other.json()),
                             (200, {"endpoint": f"{host}/sandboxes/{box.id}/proxy/{port}"}))
        named = self.request("GET", f"{path}/44772", headers={"Host": "box.example:99"}).json()
        self.assertEqual(named["endpoint"], f"box.example:99/sandboxes/{box.id}/proxy/44772")

    def test_refusals(self):
        box = self.server.create()
        path = f"/v1/sandboxes/{box.id}/endpoints"
        for port in ("0", "65536", "x", "-1", "80x", "%20", "9" * 30):
            self.expect_error(self.request("GET", f"{path}/{port}"), 400, "SANDBOX::INVALID_PORT")
        self.expect_error(self.request("GET", f"{path}/44772?expires=99"), 400,
                          "SANDBOX::API_NOT_SUPPORTED")
        self.expect_error(self.request("GET", f"{path}/44772?use_server_proxy=maybe"), 400,
                          "SANDBOX::INVALID_PARAMETER")
        self.expect_error(self.request("GET", f"/sandboxes/{uuid.uuid4()}/endpoints/44772"), 404,
                          "SANDBOX::SANDBOX_NOT_FOUND")

    def test_tokens_differ(self):
        one, two = self.server.create(), self.server.create()
        self.assertNotEqual(one.headers, two.headers)
        answer = self.server.request("GET", f"{one.prefix}/ping", headers=two.headers, key=False)
        self.assertEqual(answer.status, 401)


class Proxy(Shared):
    def test_command_with_token(self):
        box = self.server.create()
        events = box.run("echo out; echo err >&2; exit 3")
        self.assertEqual(text_of(events), ["out"])
        self.assertEqual(text_of(events, "stderr"), ["err"])
        self.assertEqual(events[-1]["type"], "error")

    def test_who_may_pass(self):
        box = self.server.create()
        token = box.headers["X-EXECD-ACCESS-TOKEN"]
        for headers, allowed in (
                ({"X-EXECD-ACCESS-TOKEN": token}, True),
                ({"X-EXECD-ACCESS-TOKEN": self.server.key}, True),
                ({"OPEN-SANDBOX-API-KEY": self.server.key}, True),
                ({}, False),
                ({"X-EXECD-ACCESS-TOKEN": ""}, False),
                ({"X-EXECD-ACCESS-TOKEN": "x"}, False),
                ({"X-EXECD-ACCESS-TOKEN": token[:-1]}, False),
                ({"OPEN-SANDBOX-API-KEY": token}, False),
                ({"OPEN-SANDBOX-API-KEY": "x"}, False),
                ({"Authorization": f"Bearer {token}"}, False)):
            for prefix in ("", "/v1"):
                answer = self.request("GET", f"{prefix}/sandboxes/{box.id}/proxy/44772/ping",
                                      headers=headers, key=False)
                self.assertEqual(answer.status == 200, allowed, (headers, answer))
                if not allowed:
                    self.expect_error(answer, 401, "INVALID_ACCESS_TOKEN")

    def test_internal_is_refused(self):
        box = self.server.create()
        for path in ("/internal", "/internal/start", "/internal/start?x=1", "//internal/start",
                     "/%69nternal/start", "/x/../internal/start", "/x/%2e%2e/internal/start",
                     "/./internal/start", "/internal%2Fstart", "/INTERNAL/start"):
            answer = box.request("POST", path, {"entrypoint": ["touch", "/tmp/owned"]})
            self.expect_error(answer, 404, "NOT_FOUND")
        self.assertEqual(box.output("ls /tmp"), "")

    def test_other_ports_and_unknown_sandboxes(self):
        box = self.server.create()
        answer = self.request("GET", f"/sandboxes/{box.id}/proxy/18080/x", key=False)
        self.assertIn("18080", self.expect_error(answer, 501, "SANDBOX::API_NOT_SUPPORTED"))
        answer = self.request("GET", f"/sandboxes/{box.id}/proxy/8080/x", key=False)  # test_ports.py has the rest
        self.assertIn("8080", self.expect_error(answer, 502, "SANDBOX::PROXY_FAILED"))
        for port in ("0", "65536", "9" * 25):
            self.expect_error(self.request("GET", f"/sandboxes/{box.id}/proxy/{port}/", key=False),
                              400, "SANDBOX::INVALID_PORT")
        self.expect_error(self.request("GET", f"/sandboxes/{uuid.uuid4()}/proxy/44772/", key=False),
                          404, "SANDBOX::SANDBOX_NOT_FOUND")

    def test_execd_answers_pass_through(self):
        box = self.server.create()
        answer = box.request("GET", "/no/such/path")
        self.assertEqual(answer.status, 404)
        self.assertTrue(answer.json()["code"])

    def test_tokens_do_not_reach_the_sandbox(self):
        """Every process of the sandbox, execd's memory excepted, is searched for them."""
        box = self.server.create()
        token = box.headers["X-EXECD-ACCESS-TOKEN"]
        found = box.output("cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; env")
        self.assertNotIn(token, found)
        self.assertNotIn(self.server.key, found)


class Restarts(Case):
    def test_sandboxes_live_on(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number), Server() as server:
                box = server.create(metadata={"a": "b"}, timeout=3600)
                box.output("echo kept > /tmp/file")
                before = server.request("GET", f"/sandboxes/{box.id}").json()
                launcher = launcher_of(server)
                server.restart(number)
                self.assertEqual(launcher_of(server), launcher)
                self.assertEqual(server.request("GET", f"/sandboxes/{box.id}").json(), before)
                again = Sandbox(server, before)
                self.assertEqual(again.headers, box.headers)
                self.assertEqual(again.output("cat /tmp/file"), "kept")
                again.delete()

    def test_exit_while_the_server_was_away(self):
        with Server() as server:
            box = server.create(entrypoint=["sh", "-c", "while ! test -e /tmp/go; do sleep 0.05; "
                                            "done; sleep 0.3; exit 4"])
            box.output("touch /tmp/go")
            server.stop()
            time.sleep(1)  # the sandbox ends meanwhile: there is nobody to ask
            start_again(server)
            status = server.request("GET", f"/sandboxes/{box.id}").json()["status"]
            self.assertEqual((status["state"], status["reason"]),
                             ("Failed", "CONTAINER_EXITED_ERROR"))
            self.assertIn("code 4", status["message"])

    def test_what_the_database_does_not_know_is_removed(self):
        with Server() as server:
            box = server.create()
            server.stop()
            for name in (server.state / "state/server").glob("server.db*"):
                name.unlink()
            start_again(server)
            self.assertEqual(server.request("GET", f"/sandboxes/{box.id}").status, 404)
            folder = server.state / "state/launcher/sandboxes"
            wait_until(lambda: not list(folder.iterdir()), what="unknown sandbox removed")

    def test_launcher_dies_and_comes_back(self):
        with Server() as server:
            box = server.create()
            pid = launcher_of(server)
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
            os.kill(pid, signal.SIGKILL)

            def create():
                return server.request("POST", "/sandboxes", CREATE)
            wait_until(lambda: create().status == 503, what="creates refused")
            answer = create()
            self.expect_error(answer, 503, "SANDBOX::RUNTIME_UNAVAILABLE")
            self.assertTrue(answer.headers["Retry-After"])
            self.expect_error(server.request("DELETE", f"/sandboxes/{box.id}"), 503,
                              "SANDBOX::RUNTIME_UNAVAILABLE")
            self.assertIn("opensandbox-launcher --listen", server.log_path.read_text())
            # What runs goes on without the launcher.
            self.assertEqual(box.output("echo alive"), "alive")
            with open(server.log_path, "ab") as log:
                launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
            try:
                wait_until(lambda: create().status == 202, what="launcher is used again")
                self.assertEqual(box.output("echo alive"), "alive")
                self.assertEqual(server.request("DELETE", f"/sandboxes/{box.id}").status, 204)
                server.delete_all()
                server.stop()
                self.assertEqual(launcher.wait(30), 0)
            finally:
                launcher.kill()
                launcher.wait()
            start_again(server)


if __name__ == "__main__":
    unittest.main()
