"""A client of opensandbox-launcher, and a test case that starts one and sees that it leaves nothing.

Instead of execd every sandbox runs a small program, compiled here, that executes what it is told.
"""
import atexit
import ctypes
import functools
import glob
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import rootless  # noqa: E402

BIN = os.environ.get("OSB_BIN_DIR", os.path.join(HERE, "../../build/bin"))
LAUNCHER = os.path.join(BIN, "opensandbox-launcher")
SLOW = float(os.environ.get("OSB_SLOW", "1"))  # how many times slower an emulated machine may be

HELLO, CREATE, KILL, REMOVE, LIST, LIMITS, DEADLINE, FREEZE, THAW, STAT, SOCKET = range(1, 12)
RESULT, SANDBOXES, EXIT, USAGE, WELCOME = range(100, 105)
OK, INVALID, NOT_FOUND, CONFLICT, LIMIT, DENIED, TIMEOUT, UNAVAILABLE, UNSUPPORTED = range(9)
RUNNING, EXITED, FROZEN = 1, 2, 3
BY_STATUS, BY_SIGNAL, BY_KILL, BY_DEADLINE, LOST = 1, 2, 3, 4, 5
HIT_MEMORY, HIT_PIDS, HIT_DISK, HIT_CPU = 1, 2, 4, 8
READ_ONLY_ROOT = 1

MAGIC = 0x5842534F
HEADER = struct.Struct("=IHHII")
SANDBOX = struct.Struct("=40sIIiIQ108sI")
USED = struct.Struct("=40sII16QII")
CREATE_BYTES = 264 + 16 * 784

PROBE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int work[8], works;

/* As execd does it: what it runs leaves process 1's control groups. */
static pid_t run(const char *text, int out)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    for (int i = 0; i < works; i++)
        if (write(work[i], "0", 1) != 1)
            _exit(97);
    dup2(out, 1);
    execl("/bin/sh", "sh", "-c", text, NULL);
    _exit(96);
}

static int serve(int peer, const char *text)
{
    int pipes[2], status = 0;
    char out[4096];
    ssize_t got;
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return 95;
    pid_t pid = run(text, pipes[1]);
    close(pipes[1]);
    while ((got = read(pipes[0], out, sizeof(out))) > 0 || (got < 0 && errno == EINTR))
        if (got > 0 && write(peer, out, got) < 0)
            break;
    close(pipes[0]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return 94;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    if (argc < 4 || strcmp(argv[1], "--pid1") || strcmp(argv[2], "--listen-fd") ||
        strcmp(argv[3], "3") || getpid() != 1)
        return 98;
    int hold = -1, name = -1;
    for (int i = 4; i + 1 < argc && works < 8; i += 2) {
        int fd = atoi(argv[i + 1]);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (strcmp(argv[i], "--hold-fd") == 0)
            hold = fd;
        else if (strcmp(argv[i], "--name-fd") == 0)
            name = fd;
        else if (strcmp(argv[i], "--work-fd") == 0)
            work[works++] = fd;
        else if (strcmp(argv[i], "--idle-fd") != 0)
            return 98;
    }
    signal(SIGPIPE, SIG_IGN);
    if (write(hold, "", 1) != 1)
        return 98;
    for (;;) {
        /* Until the launcher is gone it waits for that, too. */
        struct pollfd waiting[] = {{3, POLLIN, 0}, {hold, POLLIN, 0}};
        poll(waiting, 2, -1);
        if (waiting[1].revents != 0) {
            struct stat st;
            if (fstat(name, &st) < 0 || st.st_nlink < 2)
                return 0;
            close(hold);
            close(name);
            hold = -1;
        }
        if (waiting[0].revents == 0)
            continue;
        int peer = accept4(3, NULL, NULL, SOCK_CLOEXEC);
        if (peer < 0)
            return 99;
        char text[8192];
        ssize_t n = read(peer, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        if (strncmp(text, "exit ", 5) == 0)
            _exit(atoi(text + 5));
        if (strcmp(text, "abort") == 0)
            abort();
        dprintf(peer, "\n[%d]", serve(peer, text));
        close(peer);
    }
}
"""


def packet(kind, sequence, body=b"", magic=MAGIC, version=3, length=None):
    if length is None:
        length = HEADER.size + len(body)
    return HEADER.pack(magic, version, kind, sequence, length) + body


def limits_body(memory=0, disk=0, read_bps=0, write_bps=0, read_iops=0, write_iops=0, cpu=0, pids=0,
                files=0, reserved=0):
    return struct.pack("=QQQQIIIIII", memory, disk, read_bps, write_bps, read_iops, write_iops, cpu,
                       pids, files, reserved)


def volume_body(kind, mount_path, source="", sub_path="", flags=0, size=0):
    return struct.pack("=IIQ256s256s256s", kind, flags, size, source.encode(), sub_path.encode(),
                       mount_path.encode())


def create_body(sandbox, image="host", deadline=0, network=0, flags=0, volumes=(), **limits):
    body = (struct.pack("=40s128s", sandbox.encode(), image.encode()) + limits_body(**limits) +
            struct.pack("=QIIII", deadline, network, flags, len(volumes), 0) + b"".join(volumes))
    return body.ljust(CREATE_BYTES - HEADER.size, b"\0")


def set_limits_body(sandbox, **limits):
    return id_body(sandbox) + limits_body(**limits)


def deadline_body(sandbox, deadline):
    return id_body(sandbox) + struct.pack("=Q", deadline)


def socket_body(sandbox, family=4, reserved=0):
    return id_body(sandbox) + struct.pack("=II", family, reserved)


def id_body(sandbox):
    return struct.pack("=40s", sandbox.encode())


def text(field):
    return field.rstrip(b"\0").decode()


class Result:
    def __init__(self, body):
        self.code, self.sys, message, path = struct.unpack("=Ii512s108s", body)
        self.message, self.socket = text(message), text(path)
        self.fds = []  # that came along; whoever asked closes them


class Welcome:
    def __init__(self, body):
        self.networks, self.missing, network, missing = struct.unpack("=II256s256s", body)
        self.network_reason, self.missing_reason = text(network), text(missing)


class Sandbox:
    def __init__(self, body):
        (name, self.state, self.reason, self.status, self.oom, self.created, path,
         self.hit) = SANDBOX.unpack(body)
        self.id, self.socket = text(name), text(path)


class Usage:
    def __init__(self, body):
        (name, self.state, self.hit, self.read_ms, self.cpu_ns, self.memory, self.peak, self.mib_ms,
         self.disk, self.read_bytes, self.write_bytes, self.read_ops, self.write_ops, self.rx,
         self.tx, self.oom, self.memory_refused, self.pids_refused, self.throttled, self.pids,
         reserved) = USED.unpack(body)
        self.id = text(name)
        assert reserved == 0

    def counters(self):
        """What must never fall."""
        return (self.read_ms, self.cpu_ns, self.peak, self.mib_ms, self.read_bytes,
                self.write_bytes, self.read_ops, self.write_ops, self.rx, self.tx, self.oom,
                self.memory_refused, self.pids_refused, self.throttled)


class Client:
    """One connection. Events that come between answers are kept."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20 * SLOW)
        with rootless.acting():
            self.socket.connect(path)
        self.sequence = 100
        self.answers = {}
        self.exits = {}

    def greet(self):
        answer = self.ask(HELLO)
        assert isinstance(answer, Welcome), answer.message
        return answer

    def close(self):
        self.socket.close()

    def receive(self):
        data, fds, _, _ = socket.recv_fds(self.socket, 65536, 4)
        if not data:
            raise EOFError
        magic, version, kind, sequence, length = HEADER.unpack(data[:HEADER.size])
        assert magic == MAGIC and version == 3 and length == len(data)
        body = data[HEADER.size:]
        if kind == EXIT:
            assert sequence == 0
            event = Sandbox(body)
            self.exits[event.id] = event
        elif kind == RESULT:
            self.answers[sequence] = Result(body)
            self.answers[sequence].fds = fds
        elif kind == WELCOME:
            self.answers[sequence] = Welcome(body)
        else:
            form, layout = (Sandbox, SANDBOX) if kind == SANDBOXES else (Usage, USED)
            count, more = struct.unpack("=II", body[:8])
            items = [form(body[8 + i * layout.size:8 + (i + 1) * layout.size])
                     for i in range(count)]
            self.answers[sequence] = (items, more)

    def wait(self, sequence):
        while sequence not in self.answers:
            self.receive()
        return self.answers.pop(sequence)

    def send(self, kind, body=b""):
        self.sequence += 1
        self.socket.send(packet(kind, self.sequence, body))
        return self.sequence

    def ask(self, kind, body=b""):
        return self.wait(self.send(kind, body))

    def wait_exit(self, sandbox):
        while sandbox not in self.exits:
            self.receive()
        return self.exits.pop(sandbox)

    def create(self, sandbox=None, **limits):
        sandbox = sandbox or str(uuid.uuid4())
        result = self.ask(CREATE, create_body(sandbox, **limits))
        assert result.code == OK, result.message
        return sandbox, result.socket

    def list(self, kind=LIST):
        found, after = [], ""
        while True:
            items, more = self.ask(kind, id_body(after))
            found += items
            if not more:
                return found
            after = items[-1].id

    def stat(self, sandbox):
        [found] = [one for one in self.list(STAT) if one.id == sandbox]
        return found

    def state(self, sandbox):
        [found] = [one.state for one in self.list() if one.id == sandbox]
        return found


def record_of(state, sandbox):
    """The record of a sandbox as a dictionary."""
    with open(f"{state}/launcher/sandboxes/{sandbox}/record") as file:
        return dict(line.split(" ", 1) for line in file.read().splitlines())


def upper_of(state, sandbox):
    """The directory of what a sandbox wrote; a level deeper where there is project quota."""
    folder = f"{state}/launcher/sandboxes/{sandbox}"
    return f"{folder}/project/upper" if os.path.isdir(f"{folder}/project") else f"{folder}/upper"


def inside(path, command):
    """What a shell command says inside of a sandbox, and its exit status."""
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(30 * SLOW)
    peer.connect(path)
    peer.sendall(command.encode())
    said = b""
    while True:
        try:
            data = peer.recv(65536)
        except ConnectionResetError:
            break
        if not data:
            break
        said += data
    peer.close()
    match = re.search(rb"\n\[(\d+)\]$", said)
    if not match:
        return said.decode(), None
    return said[:match.start()].decode(), int(match.group(1))


# Said by hand, since unshare fails where the root directory is no mount (a chroot).
PRIVATE_MOUNTS = "mount --make-rprivate / 2>/dev/null; "


def eventually(condition, seconds=10):
    end = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.02)


@functools.cache
def probe():
    """The path of the program; a file for all classes, since an emulated machine compiles slowly."""
    tools = tempfile.mkdtemp(prefix="osb-probe-", dir="/tmp")
    atexit.register(shutil.rmtree, tools)
    path = os.path.join(tools, "probe")
    subprocess.run(["cc", "-O1", "-static", "-x", "c", "-o", path, "-"], input=PROBE.encode(), check=True)
    os.chmod(tools, 0o755)
    return path


class LauncherTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.execd = probe()

    def setUp(self):
        self.mounts = self.mount_table()
        self.dir = tempfile.mkdtemp(prefix="osb-launcher-", dir="/tmp")
        os.chmod(self.dir, 0o755)
        rootless.give(self.dir)
        self.state = os.path.join(self.dir, "state")
        self.path = os.path.join(self.dir, "socket")
        self.process = None
        self.clients = []
        self.instance = None
        self.addCleanup(self.finish)

    def finish(self):
        """Whatever a test did, nothing of it may be left: this is a test of its own."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        client = self.connect()
        for sandbox in client.list():
            self.assertEqual(client.ask(REMOVE, id_body(sandbox.id)).code, OK)
        for one in self.clients:
            one.close()
        self.assertEqual(self.process.wait(20 * SLOW), 0, "a launcher without server and sandbox ends")
        self.process.stderr.close()
        self.assertTrue(eventually(lambda: not self.our_processes()), self.our_processes())
        self.assertEqual(self.our_cgroups(), [])
        self.assertEqual(os.listdir(self.state + "/run"), [])
        for name in ("sandboxes", "loose"):
            self.assertEqual(os.listdir(f"{self.state}/launcher/{name}"), [], name)
        self.assertEqual(glob.glob(f"{self.state}/launcher/mount/*/*"), [])
        self.assertFalse(os.path.exists(self.path))
        self.assertEqual(self.mount_table(), self.mounts)
        shutil.rmtree(self.dir)

    # Helpers.

    @staticmethod
    def mount_table():
        with open("/proc/self/mountinfo") as file:
            return file.read()

    def command(self, path):
        return [*rootless.command(), rootless.program(LAUNCHER), "--listen", path, "--state", self.state,
                "--execd", self.execd]

    def start(self, *arguments, wrapper=()):
        self.process = subprocess.Popen(
            [*wrapper, *self.command(self.path), "--slots", "2", "--network", "none", *arguments],
            stderr=subprocess.PIPE, text=True)
        self.log = ""
        for line in self.process.stderr:
            self.log += line
            match = re.search(r"instance (\w+)", line)
            if match:
                self.instance = match.group(1)
                return
        self.fail("launcher did not start: " + self.log)

    def read_log(self):
        while select.select([self.process.stderr], [], [], 0.1)[0]:
            line = self.process.stderr.readline()
            if not line:
                break
            self.log += line
        return self.log

    def connect(self, hello=True):
        client = Client(self.path)
        self.clients.append(client)
        if hello:
            client.greet()
        return client

    def crash(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(10 * SLOW)
        self.process.stderr.close()
        for one in self.clients:
            one.close()
        self.clients = []

    def our_cgroups(self):
        found = []
        for top, names, _ in os.walk("/sys/fs/cgroup"):
            if f"opensandbox-{self.instance}" in names:
                found.append(os.path.join(top, f"opensandbox-{self.instance}"))
            names[:] = [name for name in names if top.count("/") < 5]
        return found

    def our_processes(self):
        if rootless.kind is not None:
            return rootless.processes(inside_only=True)
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cgroup") as file:
                    groups = file.read()
                with open(f"/proc/{pid}/stat") as file:
                    state = file.read().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if f"opensandbox-{self.instance}" in groups and state != "Z":
                found.append((int(pid), state))
        return found

    def group_value(self, sandbox, v1, v2):
        """What a file of its control group says; v1 is "controller/file"."""
        group = record_of(self.state, sandbox)["cgroup"]
        controller, _, rest = v1.partition("/")
        paths = [f"/sys/fs/cgroup/{controller}/opensandbox-{self.instance}/{group}/{rest}",
                 f"/sys/fs/cgroup/opensandbox-{self.instance}/{group}/{v2}"]
        for path in paths:
            if os.path.exists(path):
                with open(path) as file:
                    return file.read().strip()
        self.fail(f"none of {paths} is there")

    def memory_limit(self, sandbox):
        return self.group_value(sandbox, "memory/memory.limit_in_bytes", "work/memory.max")

    def pids_limit(self, sandbox):
        return self.group_value(sandbox, "pids/pids.max", "work/pids.max")

    def fd_count(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def main():
    if os.geteuid() != 0:
        sys.exit("must be run as root")
    # Orphans of a killed launcher come to us, so that none is left for a slow init.
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    unittest.main(verbosity=2)
