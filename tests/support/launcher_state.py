"""A launcher under test whose whole state can be compared with what its clients were told.

Everything is looked at from outside: LIST, the directories of the state, control groups, processes,
loop devices, network devices, and the launcher's descriptors.
"""
import glob
import os
import re
import select
import time
import uuid

from fault import Fault
from launcher import (CREATE, EXITED, KILL, OK, REMOVE, RUNNING, LauncherTest, create_body, eventually, id_body,
                      inside)
from testnet import Namespace

SETTLE_SECONDS = 30
EPOLL_CALLS = {"x86_64": ("232", "281"), "aarch64": ("22",)}[os.uname().machine]


# What a slot does besides its network.
NOT_NETWORK = (
    "prctl", "dup3", "close", "close_range", "unlinkat", "read", "pread64", "fsopen", "fsmount", "fsconfig", "capget",
    "capset", "setresgid", "setresuid", "setgroups", "mkdir", "mkdirat", "fchdir", "chdir", "move_mount",
    "mount_setattr", "mknodat", "symlinkat", "open_tree", "umount2", "pivot_root", "prlimit64", "fcntl", "seccomp",
    "fchownat", "sethostname", "bind", "listen", "newfstatat", "faccessat2", "keyctl", "setsid", "clone", "execveat")


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def system_call(pid):
    """The number and the arguments of the call a process is in; [] when it is in none."""
    words = read(f"/proc/{pid}/syscall").split()
    return words if len(words) > 2 else []


class Trouble(AssertionError):
    """The state is not what it must be."""


class WatchedLauncher(LauncherTest):
    slots = 2
    spare = 0  # seconds for which groups and networks are kept
    network = 0  # mode of the sandboxes; with 1, nat, the launcher runs in a network namespace of the test's own
    host = None  # that namespace

    def setUp(self):
        if self.network:
            self.host = Namespace()
            self.addCleanup(self.host.close)
        super().setUp()

    def start(self, *arguments, wrapper=()):
        if self.host:
            arguments, wrapper = ("--network", "nat", *arguments), (*self.host.enter, *wrapper)
        super().start("--slots", str(self.slots), "--spare-seconds", str(self.spare), *arguments, wrapper=wrapper)
        self.peers = 0

    def connect(self, hello=True):
        self.peers += 1
        return super().connect(hello)

    # Rest: nothing is under way any more.

    def own_children(self):
        """Workers, and slots that are being prepared: children that have not become another program."""
        pid = self.process.pid
        name = read(f"/proc/{pid}/comm")
        children = read(f"/proc/{pid}/task/{pid}/children").split()
        return [child for child in children if read(f"/proc/{child}/comm") == name]

    def waiting_slots(self):
        """Children that have become execd and wait for something, but are no sandbox."""
        pid = self.process.pid
        sandboxes = os.listdir(self.state + "/launcher/sandboxes")
        taken = {self.record(sandbox).get("pid") for sandbox in sandboxes}
        children = set(read(f"/proc/{pid}/task/{pid}/children").split()) - taken - set(self.own_children())
        return [child for child in children if system_call(child)]

    def is_at_rest(self):
        """It waits, its slots have become execd and wait, and there are no more directories and groups than it
        needs."""
        call = system_call(self.process.pid)
        if (not call or call[0] not in EPOLL_CALLS or self.own_children() or
                len(self.waiting_slots()) != self.slots):
            return False
        there = len(os.listdir(self.state + "/launcher/sandboxes"))
        return (len(os.listdir(self.state + "/launcher/loose")) == self.slots and
                all(len(names) == there + self.slots or self.spare for names in self.groups().values()))

    def settle(self):
        """Until the pool is full and everything removed is deleted. False: the launcher ended."""
        end = time.monotonic() + SETTLE_SECONDS
        while self.process.poll() is None:
            self.drain_log()
            # Twice: what was just woken is not in a call for a moment.
            if self.is_at_rest() and self.is_at_rest():
                return True
            if time.monotonic() > end:
                raise Trouble(f"not at rest: {system_call(self.process.pid)}, children "
                              f"{[(c, system_call(c)) for c in self.own_children()]}\n"
                              + self.read_log())
            time.sleep(0.002)
        return False

    def drain_log(self):
        """A launcher whose log nobody reads would stop in the middle of a line."""
        while select.select([self.process.stderr], [], [], 0)[0]:
            text = os.read(self.process.stderr.fileno(), 65536)
            if not text:
                break
            self.log += text.decode("utf-8", "replace")
        return self.log

    read_log = drain_log

    # The state on the machine.

    def record(self, sandbox):
        text = read(f"{self.state}/launcher/sandboxes/{sandbox}/record")
        return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)

    def groups(self):
        """Names of groups of slots and sandboxes by hierarchy."""
        return {top: {name for name in os.listdir(top) if name.startswith("slot-")}
                for top in self.group_tops()}

    def group_tops(self):
        return [top for top in glob.glob(f"/sys/fs/cgroup/opensandbox-{self.instance}") +
                glob.glob(f"/sys/fs/cgroup/*/opensandbox-{self.instance}")
                if not os.path.islink(os.path.dirname(top)) and "/cpuset/" not in top]

    def loop_files(self):
        return sorted(read(path).strip() for path in glob.glob("/sys/block/loop*/loop/backing_file")
                      if self.dir in read(path))

    def devices(self):
        """Of the launcher's in its own network."""
        text = read(f"/proc/{self.host.holder.pid}/net/dev") if self.host else ""
        return {name for name in re.findall(r"(?m)^ *(\S+):", text) if name != "lo"}

    def has_devices(self, records):
        """One for each sandbox that runs and for each slot; those of others go when the kernel has the time."""
        found = self.devices()
        wanted = {f"o{self.instance}-{int(record['network']):04x}" for record in records}
        return not self.host or (wanted <= found and len(found) == len(records) + self.slots + self.spare_networks())

    def zombies(self):
        pid = self.process.pid
        children = read(f"/proc/{pid}/task/{pid}/children").split()
        return [child for child in children
                if read(f"/proc/{child}/stat").rpartition(")")[2].split()[:1] == ["Z"]]

    def lives(self, pid):
        """As a process of ours; a zombie waits only for whoever inherited it."""
        state = read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1]
        return state not in ([], ["Z"]) and f"opensandbox-{self.instance}" in read(f"/proc/{pid}/cgroup")

    def check(self, expect, what=""):
        """At rest: exactly the sandboxes of `expect` exist in every respect. Returns those listed."""
        problems = []

        def same(name, got, wanted):
            if got != wanted:
                problems.append(f"{name}: {got}, not {wanted}")

        client = self.clients[-1]
        listed = {one.id: one for one in client.list()}
        same("LIST", sorted(listed), sorted(expect))
        base = self.state + "/launcher"
        same("sandboxes/", sorted(os.listdir(base + "/sandboxes")), sorted(listed))
        sockets = set(os.listdir(self.state + "/run"))
        ended = {f"{i}.sock" for i, one in listed.items() if one.state == EXITED}  # need none
        same("run/", sorted(sockets | ended), sorted(f"{i}.sock" for i in listed))
        same("mount/*/", glob.glob(base + "/mount/*/*"), [])
        loose = os.listdir(base + "/loose")
        same("number of loose/ " + str(loose), len(loose), self.slots)
        records = {sandbox: self.record(sandbox) for sandbox in listed}
        wanted = {r.get("cgroup") for r in records.values()}
        wanted |= {name.rpartition(".")[0] for name in loose}
        groups = self.groups()
        if self.spare:  # there may be more, and those that are not kept go at any moment
            eventually(lambda: len(set(map(frozenset, self.groups().values()))) == 1, 5)
            groups = self.groups()
        for top, names in groups.items():
            same(top, names, wanted | set.intersection(*groups.values()) if self.spare else wanted)
        ranges = [r.get("range") for r in records.values()] + [n.rpartition(".")[2] for n in loose]
        same("ranges used twice", sorted(ranges), sorted(set(ranges)))
        eventually(lambda: not self.zombies(), 5)  # a worker that found nothing to do ends at any moment
        same("zombies", self.zombies(), [])
        disks = [sandbox for sandbox in records  # elsewhere project quota limits them
                 if os.path.exists(f"{base}/sandboxes/{sandbox}/disk") and listed[sandbox].state != EXITED]
        same("loop devices " + str(self.loop_files()), len(self.loop_files()), len(disks))
        alive = {one.id for one in listed.values() if one.state != EXITED}
        same("processes 1", sorted(pid for pid in (records[i].get("pid") for i in listed) if self.lives(pid)),
             sorted(records[i].get("pid") for i in alive))
        if not eventually(lambda: self.has_devices([records[i] for i in alive]), 20):
            problems.append(f"devices {self.devices()} of networks {[records[i]['network'] for i in alive]}")
        for sandbox in alive:
            if listed[sandbox].state == RUNNING:
                self.use(listed[sandbox], problems)
        if problems:
            raise Trouble(f"{what}\n" + "\n".join(problems) + "\n" + self.read_log()[-4000:])
        return listed

    @staticmethod
    def use(sandbox, problems):
        try:
            answer = inside(sandbox.socket, "echo $((6*7))")
        except OSError as error:
            answer = str(error)
        if answer != ("42\n", 0):
            problems.append(f"{sandbox.id} cannot be used: {answer}")

    def descriptors(self):
        """Those of the launcher that belong to no sandbox, slot or connection."""
        running = sum(one.state != EXITED for one in self.clients[-1].list())
        counters = running + self.slots if self.network else 0
        return self.fd_count() - running - 2 * self.slots - self.peers - self.spare_networks() - counters

    def open_files(self):
        folder = f"/proc/{self.process.pid}/fd"
        return [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]

    def spare_networks(self):
        return sum(name.startswith("net:") for name in self.open_files())

    def again(self):
        """After the launcher's end: start another, and wait until it has cleared up."""
        self.process.wait(20)
        self.process.stderr.close()
        for one in self.clients:
            one.close()
        self.clients = []
        self.start()
        self.connect()
        if not self.settle():
            raise Trouble("the launcher ended right after its start:\n" + self.read_log())

    def remove_all(self):
        client = self.clients[-1]
        for one in client.list():
            self.assertEqual(client.ask(REMOVE, id_body(one.id)).code, OK)


class SweptLauncher(WatchedLauncher):
    """One operation done again and again, each time with something happening one system call later."""

    never = ()
    cut = (EOFError, ConnectionResetError, BrokenPipeError)

    def setUp(self):
        super().setUp()
        self.start()
        self.connect()
        self.keeper = self.clients[-1].create(network=self.network)[0]  # so that there is always one to be adopted
        self.settle()

    def request(self, kind, body):
        """The result, or None when the connection was cut instead."""
        try:
            return self.clients[-1].ask(kind, body)
        except self.cut:
            return None

    def step(self, role, number, how, kind, body):
        """The call that it happened to, if there were so many, and the result. The launcher is at rest
        or has ended."""
        with Fault(self.process.pid, self.never) as fault:
            fault.arm(role, number, how)
            try:
                result = self.request(kind, body)
                self.settle()
            except (TimeoutError, Trouble) as error:
                raise Trouble(f"{role}, {how} for call {fault.disarm()}: {error}\n{self.read_log()}") from error
            return fault.disarm(), result

    def listed(self, sandbox):
        return next((one for one in self.clients[-1].list() if one.id == sandbox), None)

    # What there must be before the operation; each returns the sandbox's id.

    @staticmethod
    def new_name():
        return str(uuid.uuid4())

    def running(self):
        return self.clients[-1].create(network=self.network)[0]

    def exited(self):
        sandbox = self.running()
        client = self.clients[-1]
        client.ask(KILL, id_body(sandbox))
        client.wait_exit(sandbox)
        return sandbox

    def body(self, kind, sandbox):
        return create_body(sandbox, network=self.network) if kind == CREATE else id_body(sandbox)


def keep_only(case, *names):
    """The other tests it inherited are those of its parent."""
    for name in dir(case):
        if name.startswith("test_") and name not in names:
            setattr(case, name, None)
