"""Starts a real server with a state directory of its own, talks to it, and takes it all away again.

    with Server() as server:
        box = server.create()
        events = box.run("echo hello")
        box.delete()

Leaving the block deletes every sandbox, stops the server, waits for the launcher to end by itself and
removes the state directory. `Machine.snapshot()` compares what is on the machine before and after.
"""
import atexit
import contextlib
import http.client
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rootless  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("OSB_BIN_DIR", ROOT / "build/bin"))
SANITIZED = os.environ.get("OSB_SANITIZED") == "1"
SLOW = float(os.environ.get("OSB_SLOW", "1"))  # how many times slower an emulated machine may be
START_SECONDS = 30 * SLOW  # for waiting on something that must come; never a measurement


def keep_forwarding():
    """A launcher with nat, which is the default, has the machine forward, and leaves it so for others who may have
    come to rely on it."""
    path = Path("/proc/sys/net/ipv4/ip_forward")
    before = path.read_text()

    def restore():
        if path.read_text() != before:
            path.write_text(before)
    atexit.register(restore)


keep_forwarding()


def wait_until(condition, seconds=START_SECONDS, what="condition"):
    """Poll from the outside of the product until something is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


def events_of(body):
    """The events of a stream, checked for its framing: one JSON object, then an empty line."""
    text = body.decode("utf-8")
    if not text.endswith("\n\n"):
        raise AssertionError(f"stream does not end with an empty line: {text[-80:]!r}")
    events = []
    for block in text[:-2].split("\n\n"):
        event = json.loads(block)
        assert "type" in event and isinstance(event["timestamp"], int), event
        events.append(event)
    return events


def terminal_events(events):
    return [e for e in events if e["type"] in ("error", "execution_complete")]


def text_of(events, kind="stdout"):
    return [e["text"] for e in events if e["type"] == kind]


class Sandbox:
    def __init__(self, server, info):
        self.server = server
        self.info = info
        self.id = info["id"]
        endpoint = server.request("GET", f"/v1/sandboxes/{self.id}/endpoints/44772").json()
        self.prefix = endpoint["endpoint"][endpoint["endpoint"].index("/"):]
        self.headers = endpoint.get("headers", {})

    def execd_pid(self):
        """The host's pid of its process 1."""
        inode = self.output("readlink /proc/self/ns/pid")
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns/pid") == inode and \
                        b"opensandbox-execd" in (entry / "cmdline").read_bytes():
                    return int(entry.name)
            except OSError:
                continue
        raise AssertionError("execd not found")

    def request(self, method, path, body=None, headers=None):
        return self.server.request(method, self.prefix + path, body,
                                   {**self.headers, **(headers or {})}, key=False)

    def run(self, command, **options):
        """All events of a foreground command."""
        answer = self.request("POST", "/command", {"command": command, **options})
        assert answer.status == 200, answer
        return events_of(answer.body)

    def output(self, command, **options):
        """stdout of a command that must succeed."""
        events = self.run(command, **options)
        assert events[-1]["type"] == "execution_complete", events
        return "\n".join("" if t == "\n" else t for t in text_of(events))

    def delete(self):
        answer = self.server.request("DELETE", f"/v1/sandboxes/{self.id}")
        assert answer.status == 204, answer


class Server:
    def __init__(self, env=None, config=None, arguments=(), slots=4, programs=BIN):
        """slots: what it keeps prepared; None: what it does by default, which may be many. programs: the folder
        of the server and of those it starts. Sandboxes have no network unless the configuration says so: with
        one, the machine's own would be changed."""
        if "[network]" not in (config or ""):
            config = (config or "") + '\n[network]\nmode = "none"\n'
        if slots is not None and "[launcher]" not in (config or ""):
            config = (config or "") + f"\n[launcher]\nslots = {slots}\nspare_seconds = 1\n"
        self.extra_env = env or {}
        self.config = config
        self.arguments = list(arguments)
        self.programs = Path(programs)
        self.process = None
        self.connection = None
        self.key = None
        self.output = b""

    def __enter__(self):
        self.state = Path(tempfile.mkdtemp(prefix="osb-test-"))
        self.state.chmod(0o755)
        rootless.give(self.state)
        try:
            self.start()
        except BaseException:
            with contextlib.suppress(AssertionError):  # it failed, which is being told already
                self.stop()
            shutil.rmtree(self.state, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_):
        try:
            if self.process and self.process.poll() is None:
                self.delete_all()
        finally:
            try:
                self.stop()
            finally:
                self.wait_launcher_gone()
                text = self.log_path.read_text(errors="replace")
                shutil.rmtree(self.state, ignore_errors=True)
            if "Sanitizer" in text:
                raise AssertionError(f"the launcher or a sandbox said:\n{text[-8000:]}")

    def start(self):
        command = [*rootless.command(), self.program(), "--listen", "127.0.0.1:0",
                   "--state", str(self.state / "state"), *self.arguments]
        if self.config is not None:
            path = self.state / "config.toml"
            path.write_text(self.config)
            command += ["--config", str(path)]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENSANDBOX_", "SANDBOX_"))}
        self.log_path = self.state / "log"
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log, env={**env, **self.extra_env})
        self.port = int(self.wait_for(rb"listening on http://127\.0\.0\.1:(\d+)").group(1))
        key_file = self.state / "state/server/api-key"
        if self.key is None and key_file.exists():
            self.key = key_file.read_text().strip()

    def program(self):
        """Copied as a whole for another user, since it looks for the others beside itself."""
        if rootless.kind is None:
            return str(self.programs / "opensandbox-server")
        folder = Path(rootless.program(BIN / "opensandbox-server")).parent
        for name in ("opensandbox-launcher", "opensandbox-execd"):
            if not (folder / name).exists():
                shutil.copy(BIN / name, folder)
        return str(folder / "opensandbox-server")

    def wait_for(self, pattern):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            match = re.search(pattern, self.output)
            if match:
                return match
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                chunk = os.read(self.process.stdout.fileno(), 65536)
                if not chunk:
                    break
                self.output += chunk
        log = self.log_path.read_text(errors="replace")
        raise AssertionError(f"server did not start: {self.output!r}\n{log}")

    def stop(self, signal_number=signal.SIGTERM):
        self.disconnect()
        if self.process:
            if self.process.poll() is None:
                self.process.send_signal(signal_number)
            status = self.process.wait(START_SECONDS)
            self.process.stdout.close()
            self.log.close()
            self.process = None
            text = self.log_path.read_text(errors="replace")
            if "Sanitizer" in text or (signal_number == signal.SIGTERM and status != 0):
                raise AssertionError(f"server ended with {status}:\n{text[-8000:]}")

    def restart(self, signal_number=signal.SIGTERM):
        self.stop(signal_number)
        self.output = b""
        self.start()

    def instance(self):
        """In the names of what its launcher makes."""
        return "opensandbox-" + re.search(r"instance ([0-9a-f]{8})", self.log_path.read_text()).group(1)

    def cgroups(self):
        """The groups of this server's sandboxes and slots."""
        instance = self.instance()
        return [folder for folder in walk_cgroups() if instance in folder]

    def launcher_pids(self):
        return pids_with_argument(str(self.state / "state"), "opensandbox-launcher")

    def wait_launcher_gone(self):
        wait_until(lambda: not self.launcher_pids(), what="launcher ends without server and sandboxes")

    def disconnect(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def request(self, method, path, body=None, headers=None, key=True):
        headers = dict(headers or {})
        if key and self.key:
            headers.setdefault("OPEN-SANDBOX-API-KEY", self.key)
        data = body
        if body is not None and not isinstance(body, (bytes, str)):
            data = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        for attempt in (1, 2):
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60 * SLOW)
            try:
                self.connection.request(method, path, data, headers)
                return Answer(self.connection.getresponse())
            except (http.client.HTTPException, ConnectionError):
                self.disconnect()
                if attempt == 2:
                    raise

    def create(self, **fields):
        body = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"],
                "resourceLimits": {}, **fields}
        answer = self.request("POST", "/v1/sandboxes", body)
        assert answer.status == 202, answer
        return Sandbox(self, answer.json())

    def delete_all(self):
        while True:
            items = self.request("GET", "/v1/sandboxes?pageSize=200").json()["items"]
            if not items:
                return
            for item in items:
                self.request("DELETE", f"/v1/sandboxes/{item['id']}")


def pids_with_argument(argument, program=""):
    """Processes whose command line names `argument`; zombies have none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(argument.encode() in word for word in words[1:]) and program.encode() in words[0]:
                found.append(int(entry.name))
    return found


def walk_cgroups():
    """All groups of all hierarchies. They come and go while we look, which is no error."""
    for folder, _, _ in os.walk("/sys/fs/cgroup"):
        yield folder


class Machine:
    """What a test must leave as it found it."""

    @staticmethod
    def snapshot():
        return {
            "processes": sorted(Machine._processes()),
            "mounts": Path("/proc/self/mountinfo").read_text().splitlines(),
            "cgroups": sorted(folder for folder in walk_cgroups()
                              if os.path.basename(folder).startswith("opensandbox-")),
            "interfaces": sorted(p.name for p in Path("/sys/class/net").iterdir()),
            "files": sorted(p.name for p in Path("/tmp").glob("osb-test-*")),
            "loops": sorted(p.read_text().strip() for p in Path("/sys/block").glob("loop*/loop/backing_file")),
            "tables": Machine._tables(),
        }

    @staticmethod
    def _tables():
        if not shutil.which("nft"):
            return []
        return subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout.splitlines()

    @staticmethod
    def _processes():
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if b"opensandbox-" in words[0]:
                    yield words[0].decode(errors="replace")

    @staticmethod
    def difference(before, after):
        """What is left behind, or was taken from the host. (Another instance on this machine may
        end meanwhile: its processes, cgroups and files going away is not our doing.)"""
        lines = []
        for what in before:
            lines += [f"{what} new: {x}" for x in after[what] if x not in before[what]]
        for what in ("mounts", "interfaces"):
            lines += [f"{what} gone: {x}" for x in before[what] if x not in after[what]]
        return lines
