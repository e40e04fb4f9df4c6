"""Starts a real opensandbox-execd on a free port or an inherited unix socket and talks raw HTTP to it.

OSB_BIN_DIR names the folder of the binary (default: build/bin of this checkout)."""

import http.client
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.join(os.environ.get("OSB_BIN_DIR", os.path.join(ROOT, "build", "bin")), "opensandbox-execd")
WAIT = 20  # seconds until a test gives up on something that should come at once


def inspect_binary():
    """Is it built with sanitizers, and does it need a dynamic loader (a PT_INTERP header)?"""
    with open(BINARY, "rb") as file:
        data = file.read()
    offset, size, count = (struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54))
    kinds = [struct.unpack_from("<I", data, offset + i * size)[0] for i in range(count)]
    return b"__asan_init" in data, 3 not in kinds


SANITIZED, STATIC = inspect_binary()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=WAIT)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def parse_events(text):
    """The stream as the strictest published client reads it: one JSON line, then an empty line."""
    events = []
    for block in text.split("\n\n")[:-1]:
        assert "\n" not in block, block
        event = json.loads(block)
        assert isinstance(event["timestamp"], int) and event["type"], event
        events.append(event)
    assert text == "" or text.endswith("\n\n"), text[-80:]
    return events


def texts(events, kind):
    return [e["text"] for e in events if e["type"] == kind]


class Execd:
    """A running execd: on a free TCP port, or on a unix socket that it inherits."""

    def __init__(self, *args, unix=False, env=None, command=(BINARY,), cwd="/", pass_fds=()):
        self.directory = tempfile.mkdtemp(prefix="osb-execd-")
        self.stderr_path = os.path.join(self.directory, "stderr")
        self.path = os.path.join(self.directory, "socket") if unix else None
        command = [*command, *args]
        fds = tuple(pass_fds)
        if unix:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(self.path)
            listener.listen(64)
            os.set_inheritable(listener.fileno(), True)
            fds += (listener.fileno(),)
            command += ["--listen-fd", str(listener.fileno())]
        else:
            command += ["--port", "0"]
        environment = dict(os.environ if env is None else env)
        if SANITIZED:
            environment.setdefault("ASAN_OPTIONS", "detect_leaks=1")
        with open(self.stderr_path, "wb") as stderr:
            self.process = subprocess.Popen(command, pass_fds=fds, env=environment, cwd=cwd, stderr=stderr,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if unix:
            listener.close()
            self.port = None
        else:
            self.port = self._wait_for_port()

    def _wait_for_port(self):
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            match = re.search(r"listening on port (\d+)", self.stderr())
            if match:
                return int(match.group(1))
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        raise AssertionError("execd did not start: " + self.stderr())

    def stderr(self):
        with open(self.stderr_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def connect(self):
        if self.path:
            return UnixConnection(self.path)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)

    def request(self, method, path, body=None, headers=None, connection=None):
        own = connection is None
        connection = connection or self.connect()
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response, response.read()
        finally:
            if own:
                connection.close()

    def json(self, method, path, value=None, **kwargs):
        body = None if value is None else json.dumps(value)
        status, _, data = self.request(method, path, body, **kwargs)
        return status, json.loads(data)

    def run(self, command, connection=None, **fields):
        status, response, body = self.request("POST", "/command", json.dumps({"command": command, **fields}),
                                              connection=connection)
        assert status == 200, body
        assert response.getheader("Content-Type") == "text/event-stream"
        return parse_events(body.decode("utf-8"))

    def open_stream(self, command, **fields):
        """A raw socket on which the command runs; nothing is read from it yet."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT)
        body = json.dumps({"command": command, **fields}).encode()
        sock.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return sock

    def memory_kib(self, field="VmRSS"):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(field + r":\s+(\d+) kB", file.read()).group(1))

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            code = self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        text = self.stderr()
        shutil.rmtree(self.directory, ignore_errors=True)
        assert "Sanitizer" not in text and "runtime error" not in text, text
        return code


def wait_until(condition, message):
    deadline = time.monotonic() + WAIT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("never happened: " + message)
        time.sleep(0.01)


def is_alive(pid):
    """Running, that is: a zombie waiting for its parent is not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class ExecdCase(unittest.TestCase):
    """One execd for all tests of a class, and a scratch folder for each."""

    @classmethod
    def setUpClass(cls):
        cls.execd = Execd()

    @classmethod
    def tearDownClass(cls):
        code = cls.execd.stop()
        assert code == 0, code

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="osb-execd-test-")
        os.chmod(self.folder, 0o755)
        self.addCleanup(shutil.rmtree, self.folder, True)

    def file(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.file(name), "wb") as file:
            file.write(data)
        return self.file(name)

    def read(self, name):
        with open(self.file(name), "rb") as file:
            return file.read()

    def assert_error(self, answer, status, code, part=""):
        got, body = answer
        self.assertEqual((got, body.get("code")), (status, code), body)
        self.assertEqual(set(body), {"code", "message"})
        self.assertIn(part, body["message"])


def part(name, filename, content, content_type="application/json", quote='"'):
    head = f"Content-Disposition: form-data; name={quote}{name}{quote}"
    if filename is not None:
        head += f"; filename={quote}{filename}{quote}"
    if content_type is not None:
        head += f"\r\nContent-Type: {content_type}"
    return b"--BoUnDaRy\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


HEADERS = {"Content-Type": "multipart/form-data; boundary=BoUnDaRy"}
END = b"--BoUnDaRy--\r\n"


def metadata(path, **fields):
    return part("metadata", "metadata", json.dumps({"path": path, **fields}).encode())


def content(data, filename="file"):
    return part("file", filename, data, "application/octet-stream")


def multipart(files):
    return b"".join(metadata(path, **more) + content(data) for path, data, more in files) + END, HEADERS
