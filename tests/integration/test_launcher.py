#!/usr/bin/env python3
"""opensandbox-launcher as a process: real sandboxes, real kernel, spoken to over its socket.

Run as root:  OSB_BIN_DIR=build/bin python3 tests/integration/test_launcher.py
Instead of execd every sandbox runs a small program, compiled here, that executes what it is told.
"""
import ctypes
import os
import random
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
BIN = os.environ.get("OSB_BIN_DIR", os.path.join(HERE, "../../build/bin"))
LAUNCHER = os.path.join(BIN, "opensandbox-launcher")

HELLO, CREATE, KILL, REMOVE, LIST = 1, 2, 3, 4, 5
RESULT, SANDBOXES, EXIT = 100, 101, 102
OK, INVALID, NOT_FOUND, CONFLICT, LIMIT, DENIED, TIMEOUT, UNAVAILABLE, UNSUPPORTED = range(9)
RUNNING, EXITED = 1, 2
BY_STATUS, BY_SIGNAL, BY_KILL, BY_DEADLINE, LOST = 1, 2, 3, 4, 5

MAGIC = 0x5842534F
HEADER = struct.Struct("=IHHII")
SANDBOX = struct.Struct("=40sIIiIQ108sI")

PROBE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 4 || strcmp(argv[1], "--pid1") || strcmp(argv[2], "--listen-fd") ||
        strcmp(argv[3], "3") || getpid() != 1)
        return 98;
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
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
        FILE *child = popen(text, "r");
        size_t got;
        char out[4096];
        while (child && (got = fread(out, 1, sizeof(out), child)) > 0)
            if (write(peer, out, got) < 0)
                break;
        int status = child ? pclose(child) : -1;
        dprintf(peer, "\n[%d]", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        close(peer);
    }
}
"""


def packet(kind, sequence, body=b"", magic=MAGIC, version=2, length=None):
    if length is None:
        length = HEADER.size + len(body)
    return HEADER.pack(magic, version, kind, sequence, length) + body


def limits_body(memory=0, disk=0, read_bps=0, write_bps=0, read_iops=0, write_iops=0, cpu=0, pids=0,
                files=0, reserved=0):
    return struct.pack("=QQQQIIIIII", memory, disk, read_bps, write_bps, read_iops, write_iops, cpu,
                       pids, files, reserved)


def create_body(sandbox, image="host", deadline=0, network=0, flags=0, **limits):
    return (struct.pack("=40s128s", sandbox.encode(), image.encode()) + limits_body(**limits) +
            struct.pack("=QII", deadline, network, flags))


def id_body(sandbox):
    return struct.pack("=40s", sandbox.encode())


def text(field):
    return field.rstrip(b"\0").decode()


class Result:
    def __init__(self, body):
        self.code, self.sys, message, path = struct.unpack("=Ii512s108s", body)
        self.message, self.socket = text(message), text(path)


class Sandbox:
    def __init__(self, body):
        (name, self.state, self.reason, self.status, self.oom, self.created, path,
         _) = SANDBOX.unpack(body)
        self.id, self.socket = text(name), text(path)


class Client:
    """One connection. Events that come between answers are kept."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.sequence = 100
        self.answers = {}
        self.exits = {}

    def greet(self):
        assert self.ask(HELLO).code == OK

    def close(self):
        self.socket.close()

    def receive(self):
        data = self.socket.recv(65536)
        if not data:
            raise EOFError
        magic, version, kind, sequence, length = HEADER.unpack(data[:HEADER.size])
        assert magic == MAGIC and version == 2 and length == len(data)
        body = data[HEADER.size:]
        if kind == EXIT:
            assert sequence == 0
            event = Sandbox(body)
            self.exits[event.id] = event
        elif kind == RESULT:
            self.answers[sequence] = Result(body)
        else:
            count, more = struct.unpack("=II", body[:8])
            items = [Sandbox(body[8 + i * SANDBOX.size:8 + (i + 1) * SANDBOX.size])
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

    def list(self):
        found, after = [], ""
        while True:
            items, more = self.ask(LIST, id_body(after))
            found += items
            if not more:
                return found
            after = items[-1].id


def inside(path, command):
    """What a shell command says inside of a sandbox, and its exit status."""
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(30)
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
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.02)


class LauncherTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tools = tempfile.mkdtemp(prefix="osb-probe-", dir="/tmp")
        cls.execd = os.path.join(cls.tools, "probe")
        subprocess.run(["cc", "-O1", "-static", "-x", "c", "-o", cls.execd, "-"],
                       input=PROBE.encode(), check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.tools)

    def setUp(self):
        self.mounts = self.mount_table()
        self.dir = tempfile.mkdtemp(prefix="osb-launcher-", dir="/tmp")
        os.chmod(self.dir, 0o755)
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
        self.assertEqual(self.process.wait(20), 0, "a launcher without server and sandbox ends")
        self.process.stderr.close()
        self.assertTrue(eventually(lambda: not self.our_processes()), self.our_processes())
        self.assertEqual(self.our_cgroups(), [])
        self.assertEqual(os.listdir(self.state + "/run"), [])
        for name in ("sandboxes", "loose", "mount"):
            self.assertEqual(os.listdir(f"{self.state}/launcher/{name}"), [], name)
        self.assertFalse(os.path.exists(self.path))
        self.assertEqual(self.mount_table(), self.mounts)
        shutil.rmtree(self.dir)

    # Helpers.

    @staticmethod
    def mount_table():
        with open("/proc/self/mountinfo") as file:
            return file.read()

    def start(self, *arguments, wrapper=()):
        self.process = subprocess.Popen(
            [*wrapper, LAUNCHER, "--listen", self.path, "--state", self.state, "--execd",
             self.execd, "--slots", "2", *arguments], stderr=subprocess.PIPE, text=True)
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
        self.process.wait(10)
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

    def fd_count(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Messages(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start()

    def test_hello_comes_first(self):
        client = self.connect(hello=False)
        self.assertEqual(client.ask(CREATE, create_body(str(uuid.uuid4()))).code, DENIED)
        self.assertEqual(client.ask(LIST, id_body("")).code, DENIED)
        self.assertEqual(client.ask(HELLO).code, OK)
        self.assertEqual(client.ask(LIST, id_body("")), ([], 0))

    def test_another_user_is_refused(self):
        os.chmod(self.path, 0o666)
        self.connect()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setgid(65534)
                os.setuid(65534)
                peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                peer.connect(self.path)
                peer.settimeout(5)
                try:
                    peer.send(packet(HELLO, 1))
                    status = 0 if peer.recv(100) == b"" else 2
                except (BrokenPipeError, ConnectionResetError):
                    status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIn("refusing a connection of user 65534", self.read_log())

    def test_the_socket_is_not_for_everybody(self):
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o660)

    def test_what_does_not_decode_is_answered(self):
        client = self.connect()
        sandbox = str(uuid.uuid4())
        bad = [
            packet(CREATE, 1, create_body("../../../../etc/passwd")),
            packet(CREATE, 1, create_body(sandbox.upper())),
            packet(CREATE, 1, create_body(sandbox, image="../x")),
            packet(CREATE, 1, create_body(sandbox, memory=1)),
            packet(CREATE, 1, create_body(sandbox, memory=2**64 - 1)),
            packet(CREATE, 1, create_body(sandbox, cpu=2**32 - 1)),
            packet(CREATE, 1, create_body(sandbox, pids=2**32 - 1)),
            packet(CREATE, 1, create_body(sandbox, network=1)),
            packet(CREATE, 1, create_body(sandbox, reserved=1)),
            packet(CREATE, 1, create_body(sandbox)[:-1]),
            packet(CREATE, 1, create_body(sandbox) + b"\0"),
            packet(CREATE, 1, create_body(sandbox), length=1),
            packet(KILL, 1, id_body("")),
            packet(REMOVE, 1, b""),
            packet(RESULT, 1, b""),
            packet(77, 1, b""),
            packet(0, 1, b""),
            packet(CREATE, 1, b"\xff" * 60000),
        ]
        for data in bad:
            client.socket.send(data)
            self.assertEqual(client.wait(1).code, INVALID, data[:80])
        self.assertEqual(client.list(), [])

    def test_what_has_no_header_ends_the_connection(self):
        self.connect()  # so that there is always one
        for data in (packet(HELLO, 1, magic=1), packet(HELLO, 1, version=1), b"x", b"OSBX" * 3):
            client = self.connect()
            client.socket.send(data)
            with self.assertRaises(EOFError):
                client.receive()
        self.connect()

    def test_mutated_packets(self):
        """Two thousand damaged packets: each is answered or ends the connection, and it serves on."""
        chance = random.Random(20)
        seeds = [packet(HELLO, 5), packet(LIST, 5, id_body("")),
                 packet(KILL, 5, id_body(str(uuid.uuid4()))),
                 packet(REMOVE, 5, id_body(str(uuid.uuid4()))),
                 packet(CREATE, 5, create_body(str(uuid.uuid4()), image="none", memory=1 << 30))]
        self.connect()  # so that there is always one
        client = self.connect()
        for _ in range(2000):
            data = bytearray(chance.choice(seeds))
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(data))
                kind = chance.randrange(4)
                if kind == 0:
                    data[at] = chance.randrange(256)
                elif kind == 1:
                    data[at] ^= 1 << chance.randrange(8)
                elif kind == 2:
                    del data[at:]
                    data = data or bytearray(b"\0")
                else:
                    data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 9)))
            client.socket.send(bytes(data))
            try:
                client.receive()
                client.answers.clear()
            except (EOFError, ConnectionResetError):
                client.close()
                client = self.connect()
        self.assertEqual(client.list(), [])

    def test_descriptors_that_are_attached_are_dropped(self):
        client = self.connect()
        self.assertTrue(eventually(lambda: len(self.our_processes()) == 2))
        before = self.fd_count()
        for _ in range(20):
            socket.send_fds(client.socket, [packet(LIST, 9, id_body(""))], [0, 1, 2])
            client.wait(9)
        self.assertEqual(self.fd_count(), before)

    def test_a_peer_that_does_not_read_is_cut(self):
        self.connect()  # so that there is always one
        deaf = self.connect()
        deaf.socket.setblocking(False)
        with self.assertRaises(OSError) as caught:
            for _ in range(100000):
                try:
                    deaf.socket.send(packet(LIST, 1, id_body("")))
                except BlockingIOError:
                    select.select([], [deaf.socket], [], 5)
        self.assertIsInstance(caught.exception, (BrokenPipeError, ConnectionResetError))
        self.assertEqual(self.connect().list(), [])

    def test_connections_are_limited(self):
        for _ in range(16):
            self.connect()
        self.assertIsNone(self.try_connect())
        for client in self.clients[:2]:
            client.close()
        self.assertIsNotNone(eventually(self.try_connect))

    def try_connect(self):
        try:
            return self.connect()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return None


class Life(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.client = self.connect()

    def test_create_list_kill_remove(self):
        sandbox, path = self.client.create()
        self.assertEqual(path, f"{self.state}/run/{sandbox}.sock")
        self.assertEqual(inside(path, "echo hello"), ("hello\n", 0))
        [listed] = self.client.list()
        self.assertEqual((listed.id, listed.state, listed.reason, listed.socket),
                         (sandbox, RUNNING, 0, path))
        self.assertLess(abs(listed.created / 1000 - time.time()), 60)
        self.assertEqual(self.client.ask(KILL, id_body(sandbox)).code, OK)
        event = self.client.wait_exit(sandbox)
        self.assertEqual((event.state, event.reason, event.status), (EXITED, BY_KILL, 9))
        [listed] = self.client.list()
        self.assertEqual((listed.state, listed.reason), (EXITED, BY_KILL))
        self.assertEqual(self.client.ask(KILL, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.list(), [])
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, NOT_FOUND)
        self.assertEqual(self.client.ask(KILL, id_body(sandbox)).code, NOT_FOUND)

    def test_removing_a_running_one(self):
        sandbox, path = self.client.create()
        inside(path, "mkdir -p /root/a/b/c; for i in $(seq 300); do echo x > /root/a/$i; done;"
                     "chmod 000 /root/a/b; ln -s / /root/out")
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.wait_exit(sandbox).reason, BY_KILL)
        self.assertFalse(os.path.exists(path))
        self.assertEqual(os.listdir(self.state + "/launcher/sandboxes"), [])

    def test_an_id_is_used_once(self):
        sandbox, _ = self.client.create()
        self.assertEqual(self.client.ask(CREATE, create_body(sandbox)).code, CONFLICT)
        self.assertEqual(len(self.client.list()), 1)
        self.client.ask(REMOVE, id_body(sandbox))
        self.client.create(sandbox)

    def test_unknown_image(self):
        result = self.client.ask(CREATE, create_body(str(uuid.uuid4()), image="ubuntu"))
        self.assertEqual(result.code, NOT_FOUND)
        self.assertIn("ubuntu", result.message)

    def test_exit_codes(self):
        for code in (0, 3, 255):
            sandbox, path = self.client.create()
            inside(path, f"exit {code}")
            event = self.client.wait_exit(sandbox)
            self.assertEqual((event.reason, event.status), (BY_STATUS, code))
        sandbox, path = self.client.create()
        inside(path, "abort")
        event = self.client.wait_exit(sandbox)
        # Process 1 is deaf to its own SIGABRT; abort() then ends it by a fault.
        self.assertEqual((event.reason, event.status), (BY_SIGNAL, signal.SIGSEGV))

    def test_every_peer_hears_of_an_exit(self):
        other, silent = self.connect(), self.connect(hello=False)
        sandbox, path = self.client.create()
        inside(path, "exit 1")
        self.client.wait_exit(sandbox)
        other.wait_exit(sandbox)
        self.assertEqual(select.select([silent.socket], [], [], 0.2)[0], [])

    def test_deadline(self):
        start = time.time()
        sandbox, _ = self.client.create(deadline=int((start + 0.4) * 1000))
        self.client.create(deadline=int((start + 3600) * 1000))
        event = self.client.wait_exit(sandbox)
        self.assertEqual(event.reason, BY_DEADLINE)
        self.assertGreater(time.time() - start, 0.39)
        self.assertLess(time.time() - start, 3)
        past, _ = self.client.create(deadline=1)
        self.assertEqual(self.client.wait_exit(past).reason, BY_DEADLINE)

    def test_a_burst_larger_than_the_pool(self):
        ids = [str(uuid.uuid4()) for _ in range(20)]
        sent = [self.client.send(CREATE, create_body(one)) for one in ids]
        results = [self.client.wait(sequence) for sequence in sent]
        self.assertEqual([r.code for r in results], [OK] * 20)
        self.assertEqual([s.id for s in self.client.list()], sorted(ids))
        self.assertEqual({inside(r.socket, "id -u")[0] for r in results}, {"0\n"})

    def test_removed_while_it_waits(self):
        ids = [str(uuid.uuid4()) for _ in range(8)]
        created = [self.client.send(CREATE, create_body(one)) for one in ids]
        removed = [self.client.send(REMOVE, id_body(one)) for one in ids]
        codes = [self.client.wait(sequence).code for sequence in removed]
        self.assertEqual(codes, [OK] * 8)
        for sequence in created:
            self.client.wait(sequence)
        self.assertEqual(self.client.list(), [])

    def test_pages(self):
        ids = []
        for _ in range(70):
            ids.append(self.client.create()[0])
        items, more = self.client.ask(LIST, id_body(""))
        self.assertEqual((len(items), more), (64, 1))
        self.assertEqual([s.id for s in self.client.list()], sorted(ids))
        for one in ids:
            self.client.ask(REMOVE, id_body(one))

    def test_no_descriptor_is_left(self):
        self.assertTrue(eventually(lambda: self.slots_waiting() == 2))
        before = self.fd_count()
        for _ in range(10):
            sandbox, _ = self.client.create()
            self.client.ask(REMOVE, id_body(sandbox))
        self.assertTrue(eventually(lambda: self.fd_count() == before), self.fd_count())

    def slots_waiting(self):
        return len(os.listdir(self.state + "/launcher/loose"))

    def test_a_killed_slot_is_replaced(self):
        self.assertTrue(eventually(lambda: len(self.our_processes()) == 2))
        for pid, _ in self.our_processes():
            os.kill(pid, signal.SIGKILL)
        self.client.create()
        self.assertTrue(eventually(lambda: len(self.our_processes()) == 3))

    def test_one_launcher_per_state_directory(self):
        other = subprocess.run([LAUNCHER, "--listen", self.path + "2", "--state", self.state,
                                "--execd", self.execd], stderr=subprocess.PIPE, text=True)
        self.assertEqual(other.returncode, 1)
        self.assertIn("another launcher", other.stderr)


class Inside(LauncherTest):
    """What a sandbox is like from within."""

    def setUp(self):
        super().setUp()
        self.start()
        self.client = self.connect()
        self.sandbox, self.execd_path = self.client.create()

    def run_inside(self, command):
        return inside(self.execd_path, command + " 2>&1")

    def says(self, command):
        said, status = self.run_inside(command)
        self.assertEqual(status, 0, f"{command}: {said}")
        return said.strip()

    def fails(self, command):
        said, status = self.run_inside(command)
        self.assertNotEqual(status, 0, f"{command}: {said}")
        return said

    def test_identity(self):
        self.assertEqual(self.says("id"), "uid=0(root) gid=0(root) groups=0(root)")
        self.assertEqual(self.says("cat /proc/self/uid_map").split()[::2], ["0", "65536"])
        self.assertEqual(self.says("hostname"), self.sandbox[:12])
        self.assertEqual(self.says("cat /etc/hostname"), self.sandbox[:12])
        self.assertIn(self.sandbox[:12], self.says("cat /etc/hosts"))
        self.assertEqual(self.says("ls -ld /usr/bin/env | cut -d' ' -f3,4"), "root root")

    def test_privileges(self):
        status = self.says("cat /proc/self/status")
        for name in ("CapPrm", "CapEff", "CapBnd"):
            self.assertIn(f"{name}:\t00000000800405fb", status)
        for name in ("CapInh", "CapAmb"):
            self.assertIn(f"{name}:\t0000000000000000", status)
        self.assertIn("NoNewPrivs:\t1", status)
        self.assertIn("Seccomp:\t2", status)

    def test_what_is_refused(self):
        for command in ("mount -t tmpfs none /mnt", "umount /proc", "unshare -U true",
                        "unshare -n true", "hostname x", "chroot /proc/1/root true",
                        "mknod /tmp/sda b 8 0", "echo 1 > /proc/sys/vm/drop_caches",
                        "echo b > /proc/sysrq-trigger", "cat /proc/1/environ", "cat /proc/1/mem",
                        "ls /proc/1/fd/", "ls /proc/1/root/", "ip link set lo down", "dmesg",
                        "echo 1 > /sys/fs/cgroup/memory/memory.limit_in_bytes",
                        "echo 1 > /sys/fs/cgroup/memory.max",
                        "echo 0 > /proc/1/oom_score_adj", "chmod u+s /proc/1/exe"):
            with self.subTest(command):
                self.fails(command)

    def test_covered_kernel_files(self):
        options = {line.split()[4]: line.split()[5].split(",") for line in
                   self.says("cat /proc/self/mountinfo").splitlines()}
        for path in ("/proc/sys", "/sys", "/sys/fs/cgroup"):
            self.assertIn("ro", options[path], path)
        for path in ("/proc/acpi", "/proc/scsi", "/sys/firmware", "/sys/kernel/debug"):
            self.assertEqual(self.says(f"ls -A {path} || true").replace("ls: cannot access", "")
                             .replace(f"'{path}': No such file or directory", "").strip(), "")
        self.assertEqual(self.says("cat /proc/interrupts"), "")

    def test_no_way_to_the_host(self):
        self.assertEqual(self.says("ls -A / | tr '\\n' ' '").split(),
                         sorted(set(self.says("ls -A /").split())))
        self.assertNotIn("work", self.says("ls /").split())
        self.assertFalse(os.path.basename(self.dir) in self.says("cat /proc/self/mountinfo"))
        self.assertNotIn("/dev/vd", self.says("cat /proc/self/mountinfo"))
        self.fails("cat /etc/shadow")
        self.fails("ls /etc/ssl/private")
        self.assertEqual(self.says("ls /usr/local/bin /usr/local/lib /usr/local/share/man"
                                   " | grep -v :").strip(), "")
        self.assertEqual(set(self.says("find / -xdev -user nobody").split()), {"/proc", "/sys"})
        # The classic: root in a chroot climbs with a second one.
        climb = ("import os\nos.chdir('/tmp'); os.makedirs('x', exist_ok=True); os.chroot('x')\n"
                 "for _ in range(50): os.chdir('..')\nos.chroot('.'); print(sorted(os.listdir('/')))")
        with open(self.dir + "/climb", "w") as file:
            file.write(climb)
        said = self.says(f"cat > /tmp/c.py <<'X'\n{climb}\nX\npython3 /tmp/c.py")
        self.assertEqual(sorted(self.says("ls -A /").split()), eval(said))

    def test_descriptors(self):
        """Process 1 has the null device three times and its socket, nothing more."""
        pid = self.host_pid()
        links = {name: os.readlink(f"/proc/{pid}/fd/{name}") for name in
                 os.listdir(f"/proc/{pid}/fd")}
        self.assertEqual(sorted(links), ["0", "1", "2", "3"])
        self.assertEqual([links[n] for n in "012"], ["/dev/null"] * 3)
        self.assertTrue(links["3"].startswith("socket:"))

    def host_pid(self):
        with open(f"{self.state}/launcher/sandboxes/{self.sandbox}/record") as file:
            return int(re.search(r"^pid (\d+)$", file.read(), re.M).group(1))

    def test_file_system(self):
        self.says("echo mine > /usr/bin/mine && echo mine > /etc/mine && rm /usr/bin/env")
        self.says("mkdir /usr/local/bin/x && touch /tmp/a && chown 1000:1000 /tmp/a")
        self.assertFalse(os.path.exists("/usr/bin/mine"))
        self.assertTrue(os.path.exists("/usr/bin/env"))
        _, other = self.client.create()
        self.assertNotEqual(inside(other, "cat /usr/bin/mine /etc/mine /tmp/a")[1], 0)
        self.assertEqual(inside(other, "ls /usr/bin/env")[1], 0)
        self.assertEqual(self.says("stat -c '%u %g' /tmp/a"), "1000 1000")
        self.assertIn("overlay", self.says("stat -f -c %T /"))

    def test_devices(self):
        self.says("echo x > /dev/null; head -c 4 /dev/urandom > /tmp/r; test -s /tmp/r")
        self.says("test -c /dev/tty && test -d /dev/shm && ls /dev/pts/ptmx")
        said = self.says("python3 -c 'import os; m, s = os.openpty(); print(os.ttyname(s))'")
        self.assertEqual(said, "/dev/pts/0")
        self.says("python3 -c 'import multiprocessing as m; m.Semaphore(1)'")

    def test_network(self):
        said = self.says("python3 -c \"import socket; s = socket.socket(); s.bind(('', 80));"
                         " s.listen(); c = socket.create_connection(('127.0.0.1', 80));"
                         " print(len(socket.if_nameindex()))\"")
        self.assertEqual(said, "1")
        self.fails("python3 -c \"import socket; socket.create_connection(('192.0.2.1', 80), 1)\"")
        self.fails("python3 -c \"import socket; socket.socket(socket.AF_PACKET)\"")

    def test_programs_of_the_host(self):
        self.says("python3 -c 'import ssl, threading, subprocess;"
                  " subprocess.run([\"true\"], check=True)'")
        for program in ("git --version", "perl -e 1", "node -e 0", "java -version",
                        "gcc --version"):
            if shutil.which(program.split()[0], path="/usr/bin"):
                with self.subTest(program):
                    self.says(program)

    def test_processes_die_together(self):
        self.says("(sleep 1000 & sleep 1000 &) >/dev/null 2>&1 </dev/null")
        before = len(self.our_processes())
        self.client.ask(KILL, id_body(self.sandbox))
        self.client.wait_exit(self.sandbox)
        self.assertTrue(eventually(lambda: len(self.our_processes()) <= before - 3))


class Limits(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.client = self.connect()

    def test_memory(self):
        sandbox, path = self.client.create(memory=64 << 20)
        said, status = inside(path, "python3 -c 'x = bytearray(200 << 20); print(len(x))' 2>&1")
        self.assertNotEqual(status, 0, said)
        inside(path, "exit 0")
        event = self.client.wait_exit(sandbox)
        self.assertEqual(event.reason, BY_STATUS)
        self.assertGreaterEqual(event.oom, 1)

    def test_smallest_memory(self):
        """So little that the machinery itself may not fit: whatever happens is said clearly."""
        result = self.client.ask(CREATE, create_body(str(uuid.uuid4()), memory=4 << 20))
        if result.code != OK:
            self.assertIn("memory limit", result.message)

    def test_pids(self):
        _, path = self.client.create(pids=12)
        said, _ = inside(path, "for i in $(seq 40); do sleep 5 & done 2>&1; jobs | wc -l")
        self.assertIn("fork", said)

    def test_cpu(self):
        _, path = self.client.create(cpu=250, memory=128 << 20, pids=77)
        said, status = inside(path, "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us"
                              " /sys/fs/cgroup/memory/memory.limit_in_bytes"
                              " /sys/fs/cgroup/pids/pids.max 2>/dev/null ||"
                              " cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max"
                              " /sys/fs/cgroup/pids.max")
        self.assertEqual(status, 0)
        self.assertEqual(said.replace(" 100000", "").split(), ["25000", str(128 << 20), "77"])

    def test_default_pids(self):
        _, path = self.client.create()
        said, _ = inside(path, "cat /sys/fs/cgroup/pids/pids.max 2>/dev/null ||"
                         " cat /sys/fs/cgroup/pids.max")
        self.assertEqual(said, "4096\n")


class Restart(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.client = self.connect()

    def test_killed_and_started_again(self):
        one, one_path = self.client.create()
        two, two_path = self.client.create(deadline=int((time.time() + 3600) * 1000))
        gone, gone_path = self.client.create()
        self.assertTrue(eventually(lambda: len(self.our_processes()) == 5))
        self.crash()
        self.assertTrue(eventually(lambda: len(self.our_processes()) == 3), "slots end by themselves")
        self.assertEqual(inside(one_path, "echo alive"), ("alive\n", 0))
        inside(gone_path, "exit 4")
        self.assertTrue(eventually(lambda: len(self.our_processes()) == 2))

        self.start()
        self.client = self.connect()
        found = {s.id: s for s in self.client.list()}
        self.assertEqual(sorted(found), sorted([one, two, gone]))
        self.assertEqual((found[one].state, found[two].state), (RUNNING, RUNNING))
        self.assertEqual((found[gone].state, found[gone].reason), (EXITED, LOST))
        self.assertEqual(inside(two_path, "echo alive"), ("alive\n", 0))
        self.assertEqual(inside(two_path, "python3 -c 'print(1)'"), ("1\n", 0))

        inside(one_path, "exit 5")
        self.assertEqual(self.client.wait_exit(one).reason, LOST)
        self.client.ask(KILL, id_body(two))
        self.assertEqual(self.client.wait_exit(two).reason, BY_KILL)
        fresh, path = self.client.create()
        self.assertEqual(inside(path, "id -u"), ("0\n", 0))

    def test_terminated(self):
        sandbox, path = self.client.create()
        self.crash(signal.SIGTERM)
        self.assertEqual(self.process.returncode, 0)
        self.assertEqual(len(self.our_processes()), 1)
        self.assertEqual(inside(path, "echo alive"), ("alive\n", 0))

    def test_deadlines_are_adopted(self):
        sandbox, _ = self.client.create(deadline=int((time.time() + 1.0) * 1000))
        self.crash()
        self.start()
        self.assertEqual(self.connect().wait_exit(sandbox).reason, BY_DEADLINE)

    def test_remains_are_cleared(self):
        sandbox, _ = self.client.create()
        self.crash()
        base = self.state + "/launcher"
        half = str(uuid.uuid4())
        os.makedirs(f"{base}/sandboxes/{half}/upper/root")
        os.makedirs(f"{base}/sandboxes/not-a-sandbox")
        os.makedirs(f"{base}/loose/{uuid.uuid4()}.77/a/b")
        os.makedirs(f"{base}/loose/what")
        with open(f"{self.state}/run/{half}.sock", "w"):
            pass
        with open(f"{base}/sandboxes/{sandbox}/record", "a") as file:
            file.write("x")
        self.start()
        self.client = self.connect()
        self.assertEqual(self.client.list(), [])
        self.assertEqual(os.listdir(base + "/sandboxes"), [])
        # What ran without a record anybody can read is killed by its group.
        self.assertTrue(eventually(lambda: len(self.our_processes()) == 2), self.our_processes())

    def test_a_recycled_pid_is_not_adopted(self):
        sandbox, path = self.client.create()
        self.crash()
        record = f"{self.state}/launcher/sandboxes/{sandbox}/record"
        with open(record) as file:
            lines = file.read()
        inside(path, "exit 0")
        with open(record, "w") as file:
            file.write(re.sub(r"^pid \d+$", f"pid {os.getpid()}", lines, flags=re.M))
        self.start()
        self.client = self.connect()
        [found] = self.client.list()
        self.assertEqual((found.state, found.reason), (EXITED, LOST))
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)  # and we live on

    def test_a_launcher_nobody_wants_ends(self):
        self.client.close()
        self.assertEqual(self.process.wait(10), 0)
        self.process.stderr.close()


class OtherWays(LauncherTest):
    def test_inherited_socket(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [LAUNCHER, "--fd", str(theirs.fileno()), "--state", self.state, "--execd", self.execd],
            pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
        theirs.close()
        ours.settimeout(20)
        ours.send(packet(HELLO, 1))
        self.assertEqual(len(ours.recv(1000)), 644)
        sandbox = str(uuid.uuid4())
        ours.send(packet(CREATE, 2, create_body(sandbox)))
        result = Result(ours.recv(1000)[HEADER.size:])
        self.assertEqual(result.code, OK, result.message)
        self.assertEqual(inside(result.socket, "id -u"), ("0\n", 0))
        ours.send(packet(REMOVE, 3, id_body(sandbox)))
        ours.recv(1000)
        ours.recv(1000)
        ours.close()
        self.assertEqual(self.process.wait(10), 0)
        self.process.stderr.close()

    def test_other_server_user(self):
        self.start("--server-uid", "65534")
        self.assertEqual(os.stat(self.path).st_uid, 65534)
        _, path = self.connect().create()
        status = os.stat(path)
        self.assertEqual((status.st_uid, status.st_mode & 0o777), (65534, 0o600))

    def test_no_slots_kept(self):
        self.start("--slots", "0")
        _, path = self.connect().create()
        self.assertEqual(inside(path, "id -u"), ("0\n", 0))
        self.assertEqual(len(self.our_processes()), 1)

    def test_a_program_that_cannot_run(self):
        broken = self.dir + "/broken"
        with open(broken, "w") as file:
            file.write("not a program")
        self.start("--execd", broken)
        client = self.connect()
        result = client.ask(CREATE, create_body(str(uuid.uuid4())))
        self.assertNotEqual(result.code, OK)
        self.assertIn("cannot execute execd: Exec format error", result.message)
        self.assertEqual(client.list(), [])

    def test_slots_that_cannot_be_made(self):
        """The reason reaches the server, and the machine is not kept busy."""
        self.start()
        os.rmdir(self.state + "/launcher/mount")
        client = self.connect()
        codes = []
        for _ in range(4):
            result = client.ask(CREATE, create_body(str(uuid.uuid4())))
            codes.append(result.code)
        self.assertNotEqual(codes[-1], OK)
        self.assertIn("cannot mount a scratch file system", result.message)
        before = self.cpu_ticks()
        time.sleep(1.5)
        self.assertLess(self.cpu_ticks() - before, 20)
        os.mkdir(self.state + "/launcher/mount")
        self.assertTrue(eventually(
            lambda: client.ask(CREATE, create_body(str(uuid.uuid4()))).code == OK))

    @unittest.skipUnless(os.path.isdir("/sys/fs/cgroup/memory"), "needs a machine with v1 groups")
    def test_groups_v2_without_controllers(self):
        """Hidden v1 hierarchies: born into a v2 group, and limits refused, not ignored."""
        prepare = (PRIVATE_MOUNTS + "umount -l -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && "
                   "exec \"$@\"")
        self.start(wrapper=("unshare", "--mount", "--propagation", "unchanged", "sh", "-c", prepare,
                            "sh"))
        self.assertIn("cgroup v2 (memory no, cpu no, pids no, io no)", self.log)
        client = self.connect()
        for limit in ({"memory": 64 << 20}, {"cpu": 100}, {"pids": 10}):
            result = client.ask(CREATE, create_body(str(uuid.uuid4()), **limit))
            self.assertEqual(result.code, UNSUPPORTED)
            self.assertIn(f"a {list(limit)[0]} limit cannot be enforced", result.message)
        sandbox, path = client.create()
        said, status = inside(path, "cat /proc/self/cgroup; ls /sys/fs/cgroup/cgroup.procs")
        self.assertEqual(status, 0, said)
        self.assertIn("0::/\n", said)
        self.assertEqual(client.ask(REMOVE, id_body(sandbox)).code, OK)

    def cpu_ticks(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            return sum(map(int, file.read().rpartition(")")[2].split()[11:15]))

    def test_plain_chroot(self):
        """A tree that is no mount, entered by chroot: there the kernel refuses user namespaces."""
        root = self.dir + "/root"
        programs = ["sh", "id", "cat", "ls", "hostname"]
        for name in ("usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "etc", "proc", "sys", "dev",
                     "tmp"):
            os.makedirs(f"{root}/{name}")
        for name in ("bin", "lib", "lib64", "sbin"):
            os.symlink("usr/" + name, f"{root}/{name}")
        needed = {os.path.realpath(LAUNCHER): "/usr/bin/launcher", self.execd: "/usr/bin/execd"}
        for name in programs:
            needed[os.path.realpath("/usr/bin/" + name)] = "/usr/bin/" + name
        for program in list(needed):
            libraries = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
            for library in re.findall(r"(/\S+) \(0x", libraries):
                needed[os.path.realpath(library)] = re.sub(r"^/(lib|lib64)/", r"/usr/\1/", library)
        for source, target in needed.items():
            os.makedirs(os.path.dirname(root + target), exist_ok=True)
            shutil.copy(source, root + target)
        prepare = (PRIVATE_MOUNTS + f"mount -t proc none {root}/proc && mount --rbind /sys {root}/sys && "
                   f"mount --rbind /dev {root}/dev && exec chroot {root} \"$@\"")
        self.path, self.state = root + "/tmp/socket", root + "/state"
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", prepare, "sh",
             "/usr/bin/launcher", "--listen", "/tmp/socket", "--state", "/state", "--execd",
             "/usr/bin/execd", "--slots", "1"], stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.assertIn("serving /state", line)
        self.instance = re.search(r"instance (\w+)", line).group(1)
        client = self.connect()
        sandbox, path = client.create()
        self.assertEqual(path, f"/state/run/{sandbox}.sock")
        said, status = inside(root + path, "id -u; ls /; hostname")
        self.assertEqual(status, 0, said)
        self.assertTrue(said.startswith("0\nbin\ndev\n"), said)
        self.assertIn(sandbox[:12], said)


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("must be run as root")
    # Orphans of a killed launcher come to us, so that none is left for a slow init.
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    unittest.main(verbosity=2)
