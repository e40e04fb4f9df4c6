"""Server and launcher of an ordinary user: what the kernel grants works, what is missing is told.

The applicable tests of the launcher's suites are run again with a launcher that an ordinary user has started: most
with subordinate ids ("many"), some with ids of their own for each sandbox ("own") or with one id ("one").
"""
import importlib
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE), str(HERE.parent / "conformance")]
import published  # noqa: E402
import rootless  # noqa: E402
from harness import ROOT, SANITIZED, Server, wait_until  # noqa: E402
from launcher import (BY_KILL, FREEZE, KILL, LIMITS, OK, REMOVE, RUNNING, UNSUPPORTED, CREATE, FROZEN, THAW,  # noqa: E402
                      LauncherTest, create_body, eventually, id_body, inside, record_of, set_limits_body)

MISSING_LIMITS, MISSING_IDS, MISSING_COUNTS, MISSING_OWN_IDS = 1, 2, 4, 8


class Rootless:
    """For a test case: everything it starts is an ordinary user's."""

    kind = None

    @classmethod
    def setUpClass(cls):
        if rootless.obstacle():
            raise unittest.SkipTest(rootless.obstacle())
        rootless.use(cls.kind)
        cls.addClassCleanup(rootless.use, None)
        super().setUpClass()


def again(module, case, kind, without=()):
    """A test case of another suite with another way of starting; `without` are those that need what is missing. With
    sanitizers root's own are enough: what differs is looked at below."""
    if SANITIZED:
        return
    base = getattr(importlib.import_module(module), case)
    name = f"{kind.capitalize()}_{module.removeprefix('test_')}_{case}"
    for test in without:
        assert hasattr(base, test), f"{module}.{case} has no {test}"
    globals()[name] = type(name, (Rootless, base), {"kind": kind, "__module__": __name__, **dict.fromkeys(without)})


# Those left out are the same for every user, or need control groups, another user, a chroot, the host's files as
# root's, or device nodes of a sandbox's own; what they look at is looked at below.
again("test_launcher", "Messages", "many", (
    "test_a_peer_that_does_not_read_is_cut", "test_mutated_packets", "test_connections_are_limited",
    "test_what_does_not_decode_is_answered", "test_what_has_no_header_ends_the_connection", "test_hello_comes_first"))
again("test_launcher", "Life", "many", ("test_no_descriptor_is_left", "test_pages", "test_unknown_image"))
again("test_launcher_inside", "Inside", "many", (
    "test_descriptors", "test_dev_is_in_order", "test_file_system", "test_identity", "test_locks_are_ones_own",
    "test_no_way_to_the_host"))
again("test_launcher_restart", "Restart", "many", ("test_remains_are_cleared", "test_a_launcher_nobody_wants_ends"))
again("test_launcher_restart", "OtherWays", "many", (
    "test_groups_v2_without_controllers", "test_inherited_socket", "test_other_server_user", "test_plain_chroot"))
again("test_launcher_shapes", "Shapes", "many", (
    "test_what_was_ordered_is_what_one_gets", "test_without_a_pool", "test_an_image_that_is_not_there"))
for few in ("one", "own"):
    again("test_launcher_restart", "Restart", few, (
        "test_remains_are_cleared", "test_a_recycled_pid_is_not_adopted", "test_a_launcher_nobody_wants_ends",
        "test_deadlines_are_adopted", "test_terminated"))


class Guarantees(Rootless):
    """What a sandbox has, whatever ids there are."""

    ids = missing = None

    def setUp(self):
        super().setUp()
        self.start("--network", "auto")
        self.client = self.connect()
        self.sandbox, self.execd_path = self.client.create()

    def says(self, command, path=None):
        said, status = inside(path or self.execd_path, f"({command}) 2>&1")
        self.assertEqual(status, 0, f"{command}: {said}")
        return said.strip()

    def outside_map(self, sandbox):
        """First id outside and how many, as the machine sees them."""
        pid = record_of(self.state, sandbox)["pid"]
        first, outside, count = Path(f"/proc/{pid}/uid_map").read_text().split()
        self.assertEqual(first, "0")
        return int(outside), int(count)

    def test_identity(self):
        self.assertEqual(self.says("id"), "uid=0(root) gid=0(root) groups=0(root)")
        outside, count = self.outside_map(self.sandbox)
        self.assertEqual(count, self.ids)
        self.assertTrue(outside == rootless.UID if count == 1 else outside >= rootless.FIRST, outside)
        other, _ = self.client.create()
        same = self.outside_map(other)[0] == outside
        self.assertEqual(same, bool(self.missing & MISSING_OWN_IDS))

    def test_files(self):
        self.assertEqual(self.says("stat -c %U / /etc /etc/passwd /etc/hosts /root /opt /home /usr/local"),
                         "\n".join(["root"] * 8))
        self.assertEqual(self.says("stat -c '%U:%G' /usr/bin /usr/bin/env /usr/lib"), "\n".join(["nobody:nogroup"] * 3))
        self.says("echo 127.0.2.1 other >> /etc/hosts && getent hosts other && rm /etc/hosts && mkdir /new /root/new && "
                  "echo x > /usr/local/bin/x && touch /etc/new && mv /etc/new /opt/new && ls -A /root")
        self.assertNotEqual(inside(self.execd_path, "echo x > /usr/bin/mine")[1], 0)
        self.assertNotEqual(inside(self.execd_path, "rm -f /usr/bin/env")[1], 0)
        _, other = self.client.create()
        self.says("grep -q localhost /etc/hosts && test ! -e /new && test ! -e /root/new && test ! -e /usr/local/bin/x",
                  other)

    def test_users(self):
        self.assertEqual(inside(self.execd_path, "touch /tmp/a && chown 1000:1000 /tmp/a")[1] == 0,
                         not self.missing & MISSING_IDS)
        switch = "python3 -c 'import os; os.setgid(33); os.setuid(33); print(os.getuid())'"
        if self.missing & MISSING_IDS:
            self.assertNotEqual(inside(self.execd_path, switch)[1], 0)
        else:
            self.assertEqual(self.says(switch), "33")

    def test_closed(self):
        for command in ("mount -t tmpfs none /mnt", "umount /proc", "umount /dev/null", "unshare -U true",
                        "chroot / mount -t proc none /mnt", "mknod /tmp/n c 1 3", "echo 1 > /proc/sys/vm/swappiness", "cat /proc/keys | grep ."):
            said, status = inside(self.execd_path, command + " 2>&1")
            self.assertNotEqual(status, 0, f"{command}: {said}")
        self.assertEqual(self.says("ls /proc | grep -c '^[0-9]'") < "9", True)
        self.assertNotIn(self.dir, self.says("cat /proc/self/mountinfo"))
        self.assertNotIn("/tmp/osb", self.says("cat /proc/self/mountinfo"))

    def test_welcome(self):
        welcome = self.connect(hello=False).greet()
        self.assertEqual(welcome.missing, self.missing | MISSING_LIMITS | MISSING_COUNTS)
        self.assertIn("control group", welcome.missing_reason)
        self.assertEqual("subuid" in welcome.missing_reason, bool(self.missing & MISSING_IDS), welcome.missing_reason)
        self.assertEqual(welcome.networks, 1)
        self.assertIn("root", welcome.network_reason)

    def test_what_cannot_be_enforced_is_refused(self):
        for name, limit in (("memory", {"memory": 64 << 20}), ("cpu", {"cpu": 100}), ("pids", {"pids": 10}),
                            ("I/O", {"read_bps": 1 << 20}), ("I/O", {"write_iops": 100}), ("disk", {"disk": 64 << 20})):
            answer = self.client.ask(CREATE, create_body("0" * 8 + "-0000-4000-8000-" + "0" * 12, **limit))
            self.assertEqual(answer.code, UNSUPPORTED, name)
            self.assertIn(name, answer.message)
            answer = self.client.ask(LIMITS, set_limits_body(self.sandbox, **limit))
            self.assertEqual(answer.code, UNSUPPORTED, name)
        answer = self.client.ask(FREEZE, id_body(self.sandbox))
        self.assertEqual(answer.code, UNSUPPORTED)
        self.assertIn("control group", answer.message)
        self.assertEqual(self.client.state(self.sandbox), RUNNING)
        _, path = self.client.create(files=100)
        self.assertEqual(inside(path, "ulimit -n"), ("100\n", 0))
        self.assertEqual(self.client.stat(self.sandbox).memory, 0)

    def test_killed_with_all_it_has(self):
        self.says("setsid sleep 1000 > /dev/null 2>&1 & setsid sh -c 'sleep 1000 & sleep 1000' > /dev/null 2>&1 & true")
        self.assertTrue(eventually(lambda: sum(name == "sleep" for _, name in rootless.processes()) == 3))
        self.assertEqual(self.client.ask(KILL, id_body(self.sandbox)).code, OK)
        self.assertEqual(self.client.wait_exit(self.sandbox).reason, BY_KILL)
        self.assertTrue(eventually(lambda: not any(name == "sleep" for _, name in rootless.processes())))

    def test_removed_by_the_next_launcher(self):
        """What belongs to ids that only a namespace knows."""
        self.says("mkdir -p /a/b && chmod 0 /a/b /a" if self.missing & MISSING_IDS else
                  "mkdir -p /a/b && chown -R 1000:1000 /a && chmod 0 /a/b /a")
        self.crash()
        self.start()
        self.client = self.connect()
        self.says("test -d /a")
        self.assertEqual(self.client.ask(REMOVE, id_body(self.sandbox)).code, OK)
        folder = Path(f"{self.state}/launcher/loose")
        self.assertTrue(eventually(lambda: not any(self.sandbox in path.name for path in folder.iterdir())))


class GuaranteesMany(Guarantees, LauncherTest):
    kind, ids, missing = "many", 65536, MISSING_OWN_IDS


class GuaranteesOwn(Guarantees, LauncherTest):
    kind, ids, missing = "own", 65536, 0
    test_closed = test_what_cannot_be_enforced_is_refused = test_killed_with_all_it_has = None


class GuaranteesOne(Guarantees, LauncherTest):
    kind, ids, missing = "one", 1, MISSING_IDS | MISSING_OWN_IDS
    test_what_cannot_be_enforced_is_refused = test_killed_with_all_it_has = None


def v2_mount():
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[fields.index("-") + 1] == "cgroup2":
            return Path(fields[4])
    return None


class Given(Rootless, LauncherTest):
    """A control group that was given to the user, as systemd does it."""

    kind = "many"

    def setUp(self):
        super().setUp()
        if v2_mount() is None:
            self.skipTest("version 2 of control groups is not mounted")
        self.group = v2_mount() / f"osb-test-given-{os.getpid()}"
        self.group.mkdir()
        self.addCleanup(self.remove_group)
        for name in ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
            os.chown(self.group / name, rootless.UID, rootless.UID)
        self.start()
        self.client = self.connect()

    def remove_group(self):
        for folder, _, _ in os.walk(self.group, topdown=False):
            wait_until(lambda folder=folder: self.removed(folder), what=f"{folder} is empty")

    @staticmethod
    def removed(folder):
        try:
            os.rmdir(folder)
        except OSError:
            return False
        return True

    def doCleanups(self):  # the launcher's end comes before that of its group
        self._cleanups.sort(key=lambda one: one[0] != self.remove_group)
        return super().doCleanups()

    def start(self, *arguments, wrapper=()):
        super().start(*arguments, wrapper=("sh", "-c", f"echo $$ > {self.group}/cgroup.procs; exec \"$@\"", "sh"))

    def test_freezing_and_counting(self):
        sandbox, path = self.client.create()
        self.assertEqual(inside(path, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $i")[0], "100000\n")
        self.assertGreater(self.client.stat(sandbox).cpu_ns, 10_000_000)
        self.assertEqual(self.client.ask(FREEZE, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.state(sandbox), FROZEN)
        self.assertEqual(self.client.ask(THAW, id_body(sandbox)).code, OK)
        self.assertEqual(inside(path, "cat /proc/self/cgroup | grep ^0:"), ("0::/\n", 0))
        self.assertFalse(self.connect(hello=False).greet().missing & MISSING_COUNTS)

    def test_it_is_found_again(self):
        sandbox, path = self.client.create()
        self.crash()
        self.start()
        self.client = self.connect()
        self.assertEqual(inside(path, "echo alive"), ("alive\n", 0))
        self.assertEqual(self.client.ask(FREEZE, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.ask(KILL, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.wait_exit(sandbox).reason, BY_KILL)

    def test_others_are_not_moved(self):
        """With somebody else's process in it the group is left alone, and the reason told."""
        self.crash(signal.SIGTERM)
        (self.group / "opensandbox-control").rmdir()
        other = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        (self.group / "cgroup.procs").write_text(str(other.pid))
        super().start(wrapper=("sh", "-c", f"echo $$ > {self.group}/cgroup.procs; exec \"$@\"", "sh"))
        self.client = self.connect()
        self.assertIn("other processes", self.connect(hello=False).greet().missing_reason)
        self.assertIn(str(other.pid), (self.group / "cgroup.procs").read_text().split())


SDK = """
import os
from datetime import timedelta
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.sync.sandbox import SandboxSync
config = ConnectionConfigSync(domain=os.environ["OSB_DOMAIN"], api_key=os.environ["OSB_KEY"])
try:
    SandboxSync.create("host", timeout=timedelta(minutes=10), connection_config=config)
except Exception as error:
    print("with its default limits:", error)
box = SandboxSync.create("host", timeout=timedelta(minutes=10), resource={"open-files": "1000"}, connection_config=config)
print("status:", box.get_info().status.message)
print("ran:", "".join(line.text for line in box.commands.run("id -u; ulimit -n; echo hello").logs.stdout))
box.files.write_file("/root/folder/file", "text of the file")
print("read:", box.files.read_file("/root/folder/file"))
box.kill()
box.close()
"""


class Whole(Rootless, unittest.TestCase):
    """The server of an ordinary user, with the published SDK and without."""

    kind = "many"

    def test_published_sdk(self):
        with Server() as server:
            said = published.run([published.python_with_sdk(), "-c", SDK], env={
                **os.environ, "OSB_DOMAIN": f"127.0.0.1:{server.port}", "OSB_KEY": server.key})
            self.assertRegex(said, r"with its default limits: .*limit cannot be enforced")
            self.assertRegex(said, r"status: Sandbox is running\. It does without: limits of .*control group")
            self.assertIn("ran: 01000hello", said.replace("\n", ""))
            self.assertIn("read: text of the file", said)
            self.assertEqual(server.request("GET", "/v1/sandboxes").json()["items"], [])

    def test_server_and_launcher_are_the_users(self):
        with Server() as server:
            for pid in (server.process.pid, *server.launcher_pids()):
                status = Path(f"/proc/{pid}/status").read_text()
                if f"NSpid:\t{pid}\t" in status:
                    continue  # on its way to be a sandbox
                self.assertIn(f"Uid:\t{rootless.UID}\t{rootless.UID}", status)
            self.assertIn("NoNewPrivs:\t1", Path(f"/proc/{server.process.pid}/status").read_text())
            box = server.create()
            self.assertEqual(box.output("whoami"), "root")
            self.assertEqual(box.output("id -u", uid=33), "33")
            server.restart()
            self.assertEqual(box.output("echo on"), "on")
            box.delete()

    def test_ports(self):
        with Server() as server:
            box = server.create()
            box.output("cd /root && echo found > it && (setsid python3 -m http.server 8000 >/dev/null 2>&1 &)")
            wait_until(lambda: server.request("GET", f"/v1/sandboxes/{box.id}/proxy/8000/it").status == 200)
            self.assertEqual(server.request("GET", f"/v1/sandboxes/{box.id}/proxy/8000/it").body, b"found\n")

    def test_network_that_is_not_to_be_had(self):
        """By default a sandbox would have one: its status says why it has not."""
        with Server(config='[network]\nmode = "auto"\n') as server:
            box = server.create()
            status = server.request("GET", f"/v1/sandboxes/{box.id}").json()["status"]
            self.assertRegex(status["message"], r"^Sandbox is running\. Network none: .* need a launcher that is root\. ")
            server.restart()
            self.assertEqual(server.request("GET", f"/v1/sandboxes/{box.id}").json()["status"], status)

    def test_programs_of_the_host(self):
        with Server() as server:
            box = server.create()
            box.output("cd /root && printf 'int puts(const char *); int main(void) { return puts(\"c\") < 0; }' > a.c && "
                       "gcc -o a a.c && test $(./a) = c")
            self.assertEqual(box.output("python3 -c 'import json, ssl, sqlite3; print(json.dumps(1))'"), "1")
            box.output("python3 -m venv --without-pip /root/v && /root/v/bin/python -c 'print(1)'")
            box.output("git init -q /root/g && cd /root/g && git config user.email a@b && git config user.name a && "
                       "echo 1 > f && git add f && git commit -qm one && git log --oneline | grep -q one")
            box.output("echo 'select 40+2;' | sqlite3 | grep -q 42; tar -C /etc -cf - . | tar -C /tmp -xf -; "
                       "perl -e 'print 1'; awk 'BEGIN { print 1 }'; find /usr/bin -name env | xargs ls -l")
            self.assertEqual(box.output("node -e 'console.log(6*7)'"), "42")

    def test_execd_cannot_be_looked_at(self):
        with Server() as server:
            box = server.create()
            for path in ("environ", "mem", "maps", "root/", "exe", "fd/3"):
                events = box.run(f"cat /proc/1/{path} > /dev/null && echo seen")
                self.assertEqual(events[-1]["type"], "error", (path, events))
            self.assertIn("not permitted", str(box.run("gdb -p 1 -batch 2>&1")))

    def test_default_state_directory(self):
        with Server() as server:
            home = server.state / "home"
            home.mkdir()
            rootless.give(home)
            for variable, wanted in (("HOME", home / ".local/share/opensandbox"), ("XDG_DATA_HOME", home / "opensandbox")):
                process = subprocess.Popen([*rootless.command(), server.program(), "--listen", "127.0.0.1:0"],
                                           env={"PATH": os.environ["PATH"], variable: str(home)},
                                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                self.addCleanup(process.stdout.close)
                while b"listening" not in process.stdout.readline():
                    self.assertIsNone(process.poll())
                self.assertTrue((wanted / "server/server.db").exists(), wanted)
                process.terminate()
                self.assertEqual(process.wait(20), 0)
                wait_until(lambda w=wanted: not any(str(w) in line for line in self.command_lines()))

    @staticmethod
    def command_lines():
        for pid, _ in rootless.processes():
            try:
                yield Path(f"/proc/{pid}/cmdline").read_text()
            except OSError:
                continue

    def test_blocked_by_a_setting(self):
        """The message names the setting and its value, wherever it is read."""
        block = ["python3", str(ROOT / "tests/support/block_userns.py"), "setpriv", "--reuid", str(rootless.UID),
                 "--regid", str(rootless.UID), "--clear-groups"]
        program = Server().program()
        for words in ([str(Path(program).parent / "opensandbox-launcher"), "--listen", "/tmp/osb-never.sock", "--execd",
                       "/bin/true"], [program, "--listen", "127.0.0.1:0"]):
            with self.subTest(words[0]):
                folder = Path(rootless.etc("one")) / "never"
                folder.mkdir(exist_ok=True)
                rootless.give(folder)
                done = subprocess.run([*block, *words, "--state", str(folder)], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, timeout=30)
                self.assertEqual(done.returncode, 1)
                self.assertIn("user.max_user_namespaces is 0", done.stderr)


class WholeOne(Whole):
    kind = "one"
    test_published_sdk = test_programs_of_the_host = test_default_state_directory = test_blocked_by_a_setting = None

    def test_server_and_launcher_are_the_users(self):
        with Server() as server:
            box = server.create()
            self.assertEqual(box.output("whoami"), "root")
            self.assertIn("users besides root", box.info["status"]["message"])
            self.assertIn("not permitted", str(box.run("id -u", uid=33)))


if __name__ == "__main__":
    unittest.main()
