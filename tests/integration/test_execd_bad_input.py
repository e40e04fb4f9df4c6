"""Wrong input to every endpoint of execd, as a table: request, documented status and code.

Each row is sent over a connection of its own, byte for byte. The answer must be the one of the row, be
documented in specs/execd.yaml, and be JSON in UTF-8 whatever bytes were sent. At the end the whole table is
sent again, and execd must have as many descriptors, children and about as much memory as before.

execd works as root on the real file system here: whatever a row asks to change lies in the scratch folder, which
is also execd's working directory, so that a fault that takes a bad path for an empty one hurts nothing else."""

import http.client
import json
import os
import shutil
import socket
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from contract import Contract, Mismatch  # noqa: E402
from execd import END, HEADERS, SANITIZED, WAIT, Execd, content, metadata, part, wait_until  # noqa: E402

CONTRACT = Contract.load()
BODY = (400, "INVALID_REQUEST_BODY")
MISSING = (400, "MISSING_QUERY")
NO_CONTEXT = (404, "CONTEXT_NOT_FOUND")
NO_FILE = (404, "FILE_NOT_FOUND")
NO_PATH = (404, "NOT_FOUND")
TOO_LARGE = (413, "REQUEST_TOO_LARGE")
MIB = 1024 * 1024


def deep(levels):
    return b"[" * levels + b"]" * levels


# What is no JSON object, or no JSON at all.
NO_OBJECT = [b"{", b"nonsense", b'"text"', b"7", b"[]", b"null", b'{"a":1} {"b":2}', b'{"a":1}x', b'{"a":1,"a":2}',
             b'{"a":' + deep(40) + b"}", b'{"a":"\xff\xfe"}', b'{"\xff":1}', b'{"a":"\\u0000"}', b'{"a":"\\ud800"}',
             b'{"a":1e999}', b'{"a":NaN}', b"{'a':1}", b"\xef\xbb\xbf{}", b"\0", b'{"a":"b\nc"}']
# What no field that holds a string takes.
NO_STRING = [7, 1.5, True, [], {}, ["x"]]
NO_NUMBER = ["7", "", -1, 1.5, True, [], {}, 2 ** 63, -2 ** 70]
NO_BOOLEAN = ["true", "", 0, 1, [], {}]
# Query values that are no number of bytes or lines.
NO_COUNT = ["-1", "x", "1.5", "99999999999999999999", "0x10", "%20", ""]


def fields(field, values, **others):
    return [json.dumps({**others, field: value}).encode() for value in values]


def rows(method, path, bodies, wanted, headers=None):
    return [(method, path, body, headers, wanted) for body in bodies]


def ids(method, before, after="", body=None):
    """Ids that name nothing, in the place between two pieces of a path."""
    made = [(method, f"{before}{unknown}{after}", body, None, NO_CONTEXT)
            for unknown in ("absent", "0" * 32, "..", "%2e%2e%2f", "%ff%fe", "%e2%82%ac", "x" * 4000, "%7B%22%5C%0A")]
    return made + [(method, f"{before}{bad}{after}", body, None, NO_PATH) for bad in ("", "%00", "%zz", "%4")]


def paths(method, endpoint, folder):
    """Paths that cannot be, in a query."""
    made = ["%00", f"{folder}/a%00b", "%zz", "%4", f"{folder}/{'x' * 5000}", "$NO_SUCH_VARIABLE_HERE", "${", "${}",
            f"{folder}/absent" + "&x=y" * 300]
    return [(method, f"{endpoint}?path={path}", None, None, BODY) for path in made]


def command_rows():
    run = ("POST", "/command")
    return [
        *rows(*run, [b"", *NO_OBJECT, b"{}", b'{"command":null}', b'{"command":""}', b'{"cmd":"true"}'], BODY),
        *rows(*run, fields("command", NO_STRING), BODY),
        *rows(*run, [json.dumps({"command": "x" * 131072}).encode()], BODY),
        *rows(*run, [b" " * (4 * MIB + 1)], TOO_LARGE),
        *rows(*run, fields("cwd", [*NO_STRING, "/absent", "/etc/passwd", "$NO_SUCH_VARIABLE_HERE", "${", "x" * 5000],
                           command="true"), BODY),
        *rows(*run, fields("timeout", NO_NUMBER, command="true"), BODY),
        *rows(*run, fields("uid", [*NO_NUMBER, 4294967295], command="true"), BODY),
        *rows(*run, fields("gid", [*NO_NUMBER, 4294967295], command="true", uid=0), BODY),
        *rows(*run, fields("gid", [0, 1000], command="true"), BODY),
        *rows(*run, fields("background", NO_BOOLEAN, command="true"), BODY),
        *rows(*run, fields("stdin", NO_BOOLEAN, command="true"), BODY),
        *rows(*run, fields("offsets", NO_BOOLEAN, command="true"), BODY),
        *rows(*run, fields("envs", [7, "A=B", [], ["A=B"], {"A": 7}, {"A": True}, {"A": ["x"]}, {"": "x"}, {"A=B": "x"},
                                    {"A": "x" * 131072}, {f"V{n}": "" for n in range(1025)}], command="true"), BODY),
        *rows("DELETE", "/command", [None], MISSING),
        *rows("DELETE", "/command?id=", [None], MISSING),
        *rows("DELETE", "/command?di=x", [None], MISSING),
        *rows("DELETE", "/command?id=%00", [None], BODY),
        *[("DELETE", f"/command?id={unknown}", None, None, NO_CONTEXT)
          for unknown in ("absent", "%ff%fe", "..", "x" * 4000, "%22%5C%0A")],
        *ids("GET", "/command/status/"),
        *ids("GET", "/command/", "/logs"),
        *ids("GET", "/command/", "/stream"),
        *ids("POST", "/command/", "/stdin", b"x"),
        *ids("DELETE", "/command/", "/stdin"),
    ]


def session_rows():
    return [
        *rows("POST", "/session", [b for b in NO_OBJECT if b != b"null"], BODY),
        *rows("POST", "/session", fields("cwd", [*NO_STRING, "$NO_SUCH_VARIABLE_HERE", "x" * 5000]), BODY),
        *rows("POST", "/session", fields("uid", [*NO_NUMBER, 4294967295]), BODY),
        *rows("POST", "/session", fields("gid", [0]), BODY),
        *rows("POST", "/session", fields("envs", [7, [], {"A": 7}, {"": "x"}, {"A=B": "x"}]), BODY),
        *ids("POST", "/session/", "/run", b'{"command":"true"}'),
        *ids("DELETE", "/session/"),
    ]


def terminal_rows():
    return [
        *rows("POST", "/pty", [b for b in NO_OBJECT if b != b"null"], BODY),
        *rows("POST", "/pty", fields("cwd", [*NO_STRING, "$NO_SUCH_VARIABLE_HERE", "x" * 5000]), BODY),
        *rows("POST", "/pty", fields("command", NO_STRING), BODY),
        *rows("POST", "/pty", fields("cols", [*NO_NUMBER, 0, 10001]), BODY),
        *rows("POST", "/pty", fields("rows", [*NO_NUMBER, 0, 10001]), BODY),
        *rows("POST", "/pty", fields("uid", [*NO_NUMBER, 4294967295]), BODY),
        *rows("POST", "/pty", fields("gid", [0]), BODY),
        *rows("POST", "/pty", fields("envs", [7, [], {"A": 7}, {"": "x"}, {"A=B": "x"}]), BODY),
        *ids("GET", "/pty/"), *ids("DELETE", "/pty/"), *ids("GET", "/pty/", "/ws"),
    ]


def reading_rows(folder):
    one = "/files/download?path=/etc/passwd"
    return [
        *paths("GET", "/files/info", folder),
        *[("GET", f"/files/info?path={path}", None, None, NO_FILE)
          for path in ("/absent", "/etc/passwd/x", "/tmp/%22%0A%5C", "/etc&path=/absent")],
        *[("GET", f"/files/info?path={path}", None, None, BODY) for path in ("", "/" + "x" * 300, "%ff%fe", "/%c0%af")],
        *rows("GET", "/files/download", [None], MISSING),
        *rows("GET", "/files/download?path=", [None], MISSING),
        *rows("GET", "/files/download?Path=/etc/passwd", [None], MISSING),
        *paths("GET", "/files/download", folder),
        *[("GET", f"/files/download?path={path}", None, None, NO_FILE)
          for path in ("/absent", "/etc/passwd/x", "%ff%fe", "/tmp/%22%0A%5C")],
        *[("GET", f"/files/download?path={path}", None, None, (400, "INVALID_FILE"))
          for path in ("/", "/dev/null", "/" + "x" * 300)],
        *[("GET", f"{one}&offset={value}", None, None, BODY) for value in [*NO_COUNT, "0"]],
        *[("GET", f"{one}&limit={value}", None, None, BODY) for value in [*NO_COUNT, "0"]],
        ("GET", one + "&offset=1", None, {"Range": "bytes=0-1"}, BODY),
        *[("GET", one, None, {"Range": value}, (416, "UNKNOWN"))
          for value in ("bytes=", "bytes=x-", "bytes=5-4", "bytes=-", "bytes=-0", "lines=1-2", "bytes=99999999-",
                        "bytes=99999999999999999999-", "bytes 0-1")],
        *rows("GET", "/files/search", [None], MISSING),
        *paths("GET", "/files/search", folder),
        ("GET", "/files/search?path=/absent", None, None, NO_FILE),
        ("GET", "/files/search?path=%ff", None, None, NO_FILE),
        *[("GET", f"/files/search?path=/tmp&pattern={pattern}", None, None, BODY)
          for pattern in ("%00", "[", "{a", "!(a", "x" * 1025)],
        *rows("GET", "/directories/list", [None], MISSING),
        *paths("GET", "/directories/list", folder),
        ("GET", "/directories/list?path=/absent", None, None, NO_FILE),
        *[("GET", f"/directories/list?path=/tmp&depth={value}", None, None, BODY)
          for value in ("-1", "x", "1.5", "99999999999999999999", "%00")],
    ]


def changing_rows(folder):
    def wrong(path, value):
        return json.dumps({path: value}).encode()

    def move(src, dest):
        return json.dumps([{"src": src, "dest": dest}]).encode()
    victim, absent = os.path.join(folder, "victim"), os.path.join(folder, "absent")
    per_path = [7, "x", [], True]
    permissions = [{"mode": value} for value in ("755", 888, -1, 1.5, 77777, True)] + [
        {"owner": value} for value in (7, True, [])] + [{"group": value} for value in (7, True, [])]
    objects = [b"", *[body for body in NO_OBJECT if body != b"null"]]
    return [
        *rows("POST", "/files/mv", [b"", b"{", b"{}", b'"x"', b"7", b"[7]", b'["x"]', b"[[]]", b"[{}]",
                                    move(victim, None), move(None, absent), move("", absent), move(victim, ""),
                                    move(7, absent), move(victim, []), move(victim + "\0", absent),
                                    move(victim, absent + "\0"), move(victim, "$NO_SUCH_VARIABLE_HERE"),
                                    b'[{"src":"/\xff","dest":"x"}]'], BODY),
        *rows("POST", "/files/mv", [move(absent, victim + "2")], NO_FILE),
        *rows("POST", "/files/permissions", objects, BODY),
        *rows("POST", "/files/permissions", [wrong(victim, v) for v in [*per_path, *permissions]], BODY),
        *rows("POST", "/files/permissions", [wrong("$NO_SUCH_VARIABLE_HERE", {"mode": 700})], BODY),
        *rows("POST", "/files/permissions", [wrong(absent, {"mode": 644})], NO_FILE),
        *rows("POST", "/files/replace", objects, BODY),
        *rows("POST", "/files/replace", [wrong(victim, v) for v in [
            *per_path, {}, {"new": "x"}, {"old": "", "new": "x"}, {"old": 7, "new": "x"},
            {"old": "x", "new": []}]], BODY),
        *rows("POST", "/files/replace", [wrong(absent, {"old": "a", "new": "b"})], NO_FILE),
        *rows("POST", "/directories", objects, BODY),
        *rows("POST", "/directories", [wrong(absent, v) for v in [*per_path, *permissions]], BODY),
        *rows("POST", "/files/replace?verbose=maybe", [wrong(absent, {"old": "a", "new": "b"})], BODY),
        *paths("DELETE", "/files", folder),
        *paths("DELETE", "/directories", folder),
    ]


def upload_rows(folder):
    up = ("POST", "/files/upload")
    file, meta, shape = (400, "INVALID_FILE_CONTENT"), (400, "INVALID_FILE_METADATA"), (400, "INVALID_FILE")
    target = os.path.join(folder, "target")

    def raw_metadata(text):
        return part("metadata", "metadata", text) + content(b"x") + END
    return [
        *rows(*up, [b"", b"x"], shape),
        *rows(*up, [b"x"], shape, {"Content-Type": "application/json"}),
        *rows(*up, [b"x"], shape, {"Content-Type": "multipart/form-data"}),
        *rows(*up, [b"x"], shape, {"Content-Type": "multipart/form-data; boundary=" + "b" * 300}),
        *rows(*up, [b"", b"garbage", metadata(target)[:-10], metadata(target) + b"--BoUnDaRy\r\nno colon\r\n\r\n"],
              shape, HEADERS),
        *rows(*up, [metadata(target) + END], file, HEADERS),
        *rows(*up, [content(b"x") + END, END], meta, HEADERS),
        *rows(*up, [metadata(target) + content(b"x") + metadata(target + "2") + END], shape, HEADERS),
        *rows(*up, [raw_metadata(text) for text in [
            b"", b"{", b"[]", b"7", b"{}", b'{"path":""}', b'{"path":7}', b'{"path":"/a\\u0000b"}', b'{"path":"/\xff"}',
            json.dumps({"path": "/" + "x" * 5000}).encode(), b'{"path":"$NO_SUCH_VARIABLE_HERE/x"}',
            json.dumps({"path": target, "x": "y" * 70000}).encode()]], meta, HEADERS),
        *rows(*up, [raw_metadata(json.dumps({"path": target, field: value}).encode()) for field, value in [
            ("mode", "755"), ("mode", 888), ("mode", -1), ("mode", 1.5), ("mode", 77777), ("owner", 7), ("group", []),
            ("owner", "no-such-user"), ("group", "no-such-group")]], meta, HEADERS),
    ]


def other_rows():
    return [
        *[("GET", path, None, None, NO_PATH) for path in ("/", "/nothing", "/ping/", "//ping", "/%70ing", "/ping%00")],
        *[(method, path, None, None, (405, "METHOD_NOT_ALLOWED"))
          for method, path in (("POST", "/ping"), ("GET", "/command"), ("PUT", "/files"), ("POST", "/metrics"),
                               ("GET", "/session"), ("PATCH", "/directories"), ("DELETE", "/commands"))],
        *[("GET", f"/proxy/{port}/x", None, None, (400, "INVALID_PORT"))
          for port in ("0", "65536", "x", "-1", "80x", "99999999999999999999", "%38%30x")],
        ("GET", "/proxy/1/x", None, None, (502, "PROXY_FAILED")),
        *[(method, path, body, None, (501, "NOT_SUPPORTED")) for method, path, body in (
            ("POST", "/code", b"{"), ("DELETE", "/code", None), ("POST", "/code/context", b""),
            ("GET", "/code/contexts", None), ("DELETE", "/code/contexts", None), ("GET", "/code/contexts/x", None),
            ("DELETE", "/code/contexts/x", None))],
        ("POST", "/internal/start", b'{"entrypoint":["true"]}', None, NO_PATH),
    ]


def send(port, request, method="GET"):
    """These bytes; (status, headers, body)."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as sock:
        try:
            sock.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all was sent; the answer is there
        response = http.client.HTTPResponse(sock, method=method)
        response.begin()
        return response.status, response.headers, response.read()


def exchange(port, method, path, body, headers):
    """One request, byte for byte; (status, headers, body)."""
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    for name, value in (headers or {}).items():
        head += f"{name}: {value}\r\n"
    if body is not None:
        head += f"Content-Length: {len(body)}\r\n"
    return send(port, head.encode("latin-1") + b"\r\n" + (body or b""), method)


# What is no request at all: bytes, status and code.
NO_REQUEST = [
    *[(text, 400, "INVALID_REQUEST") for text in (
        b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n", b"GET /ping\r\n\r\n", b"GET ping HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x/ping HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /ping HTTP/1.1\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", b"GET /ping HTTP/1.1\nHost: x\n\n",
        b"GET /ping HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", b"GET /ping HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n", b"GET /pi\xffng\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /command HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")],
    (b"POST /command HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "NOT_IMPLEMENTED"),
    (b"GET /ping HTTP/2.0\r\nHost: x\r\n\r\n", 505, "HTTP_VERSION_NOT_SUPPORTED"),
    (b"GET /ping HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * 300000 + b"\r\n\r\n", 431, "HEADERS_TOO_LARGE"),
    (b"GET /ping HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 3000 + b"\r\n", 431, "HEADERS_TOO_LARGE"),
    (b"GET /" + b"x" * 300000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431, "HEADERS_TOO_LARGE"),
]


def describe(row):
    method, path, body, headers, _ = row
    return f"{method} {path[:120]} {(body or b'')[:160]!r} {headers or ''}"


class BadInput(unittest.TestCase):
    """One execd for all; what the rows need to exist is made first."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="osb-execd-test-")
        cls.victim = os.path.join(cls.folder, "victim")
        with open(cls.victim, "w", encoding="ascii") as file:
            file.write("untouched")
        os.chmod(cls.victim, 0o600)
        cls.execd = Execd(cwd=cls.folder)

    @classmethod
    def tearDownClass(cls):
        code = cls.execd.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)
        assert code == 0, code

    def problem(self, row):
        """What is wrong with the answer to a row, or None."""
        method, path, body, headers, (status, code) = row
        got, response_headers, data = exchange(self.execd.port, method, path, body, headers)
        try:
            answer = json.loads(data.decode("utf-8"))
        except ValueError:
            return f"{got} {data[:200]!r} is not JSON in UTF-8"
        if (got, answer.get("code") if isinstance(answer, dict) else None) != (status, code):
            return f"{got} {data[:300].decode()}, not {status} {code}"
        try:
            if CONTRACT.find(method, path)[1] is not None:
                CONTRACT.check_answer(method, path, got, response_headers, data)
        except Mismatch as mismatch:
            return str(mismatch)
        return None

    def check(self, table):
        problems = [f"{describe(row)}\n      {text}" for row in table for text in [self.problem(row)] if text]
        self.assertGreater(len(table), 5)
        self.assertFalse(problems, f"{len(problems)} of {len(table)} rows:\n  " + "\n  ".join(problems))

    def check_untouched(self):
        self.assertEqual(os.listdir(self.folder), ["victim"])
        self.assertEqual(os.stat(self.victim).st_mode & 0o7777, 0o600)
        with open(self.victim, encoding="ascii") as file:
            self.assertEqual(file.read(), "untouched")

    def json(self, method, path, body=None):
        return json.loads(exchange(self.execd.port, method, path, body, None)[2])

    def test_commands(self):
        self.check(command_rows())

    def test_sessions(self):
        self.check(session_rows())

    def test_terminals(self):
        self.check(terminal_rows())

    def test_reading_files(self):
        self.check(reading_rows(self.folder))

    def test_changing_files(self):
        self.check(changing_rows(self.folder))
        self.check_untouched()

    def test_uploads(self):
        self.check(upload_rows(self.folder))
        self.check_untouched()

    def test_no_requests(self):
        problems = []
        for request, status, code in NO_REQUEST:
            got, headers, data = send(self.execd.port, request)
            if (got, json.loads(data).get("code")) != (status, code) or headers["Connection"] != "close":
                problems.append(f"{request[:80]!r}: {got} {data[:200]!r}, not {status} {code}")
        self.assertFalse(problems, "\n".join(problems))

    def test_token(self):
        execd = Execd("--access-token", "secret")
        self.addCleanup(execd.stop)
        for path in ("/ping", "/command", "/proxy/1/x", "/nothing", "/code/contexts"):
            for headers in (None, {"X-EXECD-ACCESS-TOKEN": ""}, {"X-EXECD-ACCESS-TOKEN": "secre"},
                            {"X-EXECD-ACCESS-TOKEN": "secret2"}, {"Authorization": "secret"}):
                status, _, data = exchange(execd.port, "GET", path, None, headers)
                self.assertEqual((status, json.loads(data)["code"]), (401, "UNAUTHORIZED"), (path, headers))
        self.assertEqual(exchange(execd.port, "GET", "/ping", None, {"X-EXECD-ACCESS-TOKEN": "secret"})[0], 200)

    def test_other_paths(self):
        self.check(other_rows())

    def known_command(self, **fields):
        body = json.dumps({"command": "sleep 1000", "background": True, **fields}).encode()
        events = exchange(self.execd.port, "POST", "/command", body, None)[2]
        command = json.loads(events.split(b"\n")[0])["text"]
        self.addCleanup(exchange, self.execd.port, "DELETE", f"/command?id={command}", None, None)
        return command

    def test_known_command(self):
        command = self.known_command()
        self.check([
            *[("GET", f"/command/{command}/logs?cursor={value}", None, None, BODY)
              for value in ("-1", "99999999999999999999", "%00", "%zz")],
            *[("GET", f"/command/{command}/stream?offset={value}", None, None, BODY) for value in [*NO_COUNT, "%00"]],
            ("POST", f"/command/{command}/stdin", b"x", None, (409, "RUNTIME_ERROR")),
            ("DELETE", f"/command/{command}/stdin", None, None, (409, "RUNTIME_ERROR")),
        ])

    def test_known_command_with_stdin(self):
        command = self.known_command(stdin=True)
        self.check([("POST", f"/command/{command}/stdin?close={value}", b"x", None, BODY)
                    for value in ("maybe", "2", "%00", "%zz", "TRUE!", "-1")])

    def test_known_session(self):
        session = self.json("POST", "/session", b"")["session_id"]
        path = f"/session/{session}/run"
        self.addCleanup(exchange, self.execd.port, "DELETE", f"/session/{session}", None, None)
        self.check([
            *rows("POST", path, [b"", *NO_OBJECT, b"{}", b'{"command":null}', b'{"command":""}'], BODY),
            *rows("POST", path, fields("command", NO_STRING), BODY),
            *rows("POST", path, fields("timeout", NO_NUMBER, command="true"), BODY),
            *rows("POST", path, fields("cwd", [*NO_STRING, "/absent", "/etc/passwd", "$NO_SUCH_VARIABLE_HERE"],
                                       command="true"), BODY),
        ])

    def test_known_terminal(self):
        terminal = self.json("POST", "/pty", b"")["session_id"]
        self.addCleanup(exchange, self.execd.port, "DELETE", f"/pty/{terminal}", None, None)
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        path = f"/pty/{terminal}/ws"
        required, invalid = (426, "UPGRADE_REQUIRED"), (400, "INVALID_REQUEST")
        self.check([
            ("GET", path, None, None, required),
            *[("GET", path, None, {k: v for k, v in upgrade.items() if k != missing}, required)
              for missing in ("Upgrade", "Connection", "Sec-WebSocket-Version")],
            ("GET", path, None, {**upgrade, "Sec-WebSocket-Version": "12"}, required),
            ("GET", path, None, {k: v for k, v in upgrade.items() if k != "Sec-WebSocket-Key"}, invalid),
            *[("GET", path, None, {**upgrade, "Sec-WebSocket-Key": key}, invalid)
              for key in ("short", "x" * 24, "=" * 24)],
        ])

    def state(self):
        """Children, and what execd says it has."""
        pid = self.execd.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = file.read().split()
        return (children, self.json("GET", "/sessions"), self.json("GET", "/pty"))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.execd.process.pid}/fd"))

    def test_nothing_is_left(self):
        table = [*command_rows(), *session_rows(), *terminal_rows(), *reading_rows(self.folder),
                 *changing_rows(self.folder), *upload_rows(self.folder), *other_rows()]

        def send_all():
            for method, path, body, headers, _ in table:
                exchange(self.execd.port, method, path, body, headers)
            for request, _, _ in NO_REQUEST:
                send(self.execd.port, request)
        send_all()
        before, descriptors, memory = self.state(), self.descriptors(), self.execd.memory_kib()
        for _ in range(3):
            send_all()
        wait_until(lambda: self.state() == before, f"back to {before}")
        # Fewer is well: a connection that is being closed may have been among those before.
        wait_until(lambda: self.descriptors() <= descriptors, f"back to {descriptors} descriptors")
        if not SANITIZED:
            self.assertLess(self.execd.memory_kib(), memory + 512)


if __name__ == "__main__":
    unittest.main()
