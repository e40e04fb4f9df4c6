"""What a sandbox is given and what it is not: descriptors, limits, keyrings, kernel files."""
import json
import os
import re
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Server, events_of, text_of, wait_until  # noqa: E402
from terminal import Terminal  # noqa: E402

# Paths of the kernel that say nothing inside: what container runtimes cover as well.
EMPTY = ["acpi", "asound", "kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug", "scsi",
         "interrupts"]
READ_ONLY = ["bus", "fs", "irq", "sys", "sysrq-trigger"]
# Counts how many inotify instances there are to be had, and keeps them for a while.
INSTANCES = """python3 -c "
import ctypes, time
libc = ctypes.CDLL(None)
count = 0
while count < 2000 and libc.inotify_init1(0) >= 0:
    count += 1
print(count, flush=True)
time.sleep({seconds})
" """


# Without listing the directory, which takes a descriptor of its own.
LIST = """python3 -c '
import os
for n in range(1024):
    if os.path.lexists(f"/proc/self/fd/{n}"):
        print(n, os.readlink(f"/proc/self/fd/{n}"))
' """
PIPES = r"^(/dev/null|pipe:\[\d+\])$"


def session_keyrings(uid):
    keys = subprocess.run(["cat", "/proc/keys"], user=uid, group=uid, extra_groups=[], capture_output=True,
                          text=True, check=True).stdout
    return set(re.findall(rf"^(\w+) .*\b{uid}\b.*keyring\s+_ses", keys, re.MULTILINE))


class Confined(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keyrings = {uid: session_keyrings(uid) for uid in range(0x20000000, 0x20000000 + 64 * 65536, 65536)}
        cls.server = Server()
        cls.server.__enter__()
        cls.box = cls.server.create()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def call(self, path, body, status=200):
        answer = self.box.request("POST", path, json.dumps(body))
        self.assertEqual(answer.status, status, answer)
        return answer

    def check_descriptors(self, lines, allowed):
        """0, 1 and 2, and of the allowed kind."""
        found = dict(line.split(" ", 1) for line in lines)
        self.assertEqual(set(found), {"0", "1", "2"}, found)
        for number, target in found.items():
            self.assertRegex(target, allowed, f"descriptor {number}")

    def test_descriptors_of_a_command(self):
        self.check_descriptors(self.box.output(f"exec {LIST}").splitlines(), PIPES)

    def test_descriptors_of_an_argv_command(self):
        events = events_of(self.call("/command", {"argv": ["/bin/sh", "-c", f"exec {LIST}"]}).body)
        self.check_descriptors(text_of(events), PIPES)

    def test_descriptors_of_a_session(self):
        session = self.call("/session", {}).json()["session_id"]
        events = events_of(self.call(f"/session/{session}/run", {"command": LIST}).body)
        self.check_descriptors(text_of(events), PIPES)
        self.box.request("DELETE", f"/session/{session}")

    def test_descriptors_of_a_terminal(self):
        self.box.output(f"cat >/tmp/list.sh <<'TEXT'\n{LIST}\nTEXT\n")
        session = self.call("/pty", {"cols": 200}, 201).json()["session_id"]
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as sock:
            terminal = Terminal(None, session, "", sock, prefix=self.box.prefix, headers=self.box.headers).greeted()
            terminal.type("echo be''gin; sh /tmp/list.sh; echo en''d\n")
            terminal.expect(b"begin\r\n")
            seen = terminal.expect(b"end\r\n").decode()
        lines = [line for line in seen.splitlines() if re.match(r"\d+ /", line)]
        self.check_descriptors(lines, r"^/dev/pts/\d+$")
        self.box.request("DELETE", f"/pty/{session}")

    def test_descriptors_of_execd(self):
        """No directory of the host; a file of the host only as something to execute."""
        box = self.server.create()
        kinds = r"^(/dev/null|(socket|pipe):\[\d+\]|anon_inode:\[(eventpoll|eventfd|timerfd|signalfd|pidfd)\]" \
                r"|.*/cgroup\.procs|/memfd:.*|/tmp/.*\(deleted\)|/proc.*)$"
        pid = box.execd_pid()
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
        self.assertGreater(len(entries), 3)
        for entry in entries:
            info = Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text()
            flags = int(re.search(r"^flags:\s+(\d+)", info, re.MULTILINE).group(1), 8)
            if not (flags & os.O_PATH and entry.is_file()):
                self.assertRegex(os.readlink(entry), kinds, f"descriptor {entry.name} of execd")
        box.delete()

    def test_programs_of_the_host_cannot_be_looked_at(self):
        """Those that are started by descriptor: neither their place on the host nor the file itself."""
        box = self.server.create()
        told = box.output("for f in /proc/[0-9]*/exe; do readlink $f || true; done 2>/dev/null")
        self.assertNotIn(str(self.server.state), told)
        self.assertNotIn("launcher", told)
        box.delete()

    def test_core_dumps_are_off_and_stay_off(self):
        limits = "grep -i 'core file' /proc/self/limits | tr -s ' '"
        for change in ("true", "ulimit -c 0", "ulimit -c unlimited", "prlimit --core=0 --pid $$"):
            with self.subTest(change):
                self.assertEqual(self.box.output(f"{change} 2>/dev/null; {limits}"), "Max core file size 1 1 bytes ")
        self.assertEqual(self.box.output("mkdir /tmp/core; cd /tmp/core; sh -c 'kill -SEGV $$' 2>/dev/null; ls -A"), "")

    def test_no_real_time(self):
        self.assertEqual(self.box.output("chrt -f 1 true 2>/dev/null || nice -n -1 true 2>&1 | grep -c nice"), "1")

    def test_own_session_keyring(self):
        """The kernel tells a user which keyrings are his: a sandbox brings a new session keyring."""
        uid = int(Path(f"/proc/{self.box.execd_pid()}/uid_map").read_text().split()[1])
        self.assertTrue(session_keyrings(uid) - self.keyrings[uid])

    def test_kernel_says_so(self):
        status = self.box.output("grep -E '^(NoNewPrivs|Seccomp|Seccomp_filters|CapInh|CapAmb):' /proc/self/status")
        facts = dict(line.replace("\t", "").split(":") for line in status.splitlines())
        self.assertEqual(facts, {"NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "1",
                                 "CapInh": "0" * 16, "CapAmb": "0" * 16})

    def test_covered_kernel_files(self):
        for name in EMPTY:
            with self.subTest(name):
                path = f"/proc/{name}"
                self.assertEqual(self.box.output(f"if [ -d {path} ]; then ls -A {path}; "
                                                 f"elif [ -e {path} ]; then head -c 1 {path}; fi"), "")
        mounts = self.box.output("cat /proc/self/mounts").splitlines()
        options = {line.split()[1]: line.split()[3].split(",") for line in mounts}
        for name in READ_ONLY:
            if Path(f"/proc/{name}").exists():
                self.assertIn("ro", options[f"/proc/{name}"], name)
        self.assertIn("ro", options["/sys"])

    def test_inotify_is_counted_by_sandbox(self):
        """One that takes all it gets leaves the others, and the host, with theirs."""
        other = self.server.create()
        answer = other.request("POST", "/command", json.dumps(
            {"command": INSTANCES.format(seconds=60), "background": True}))
        command = events_of(answer.body)[0]["text"]
        log = f"/command/{command}/logs"
        wait_until(lambda: other.request("GET", log).body.strip(), what="the greedy one has all")
        taken = int(other.request("GET", log).body)
        self.assertGreater(taken, 1)
        try:
            self.assertEqual(int(self.box.output(INSTANCES.format(seconds=0))), taken)
            child = subprocess.run([sys.executable, "-c", "import ctypes, sys; "
                                    "sys.exit(ctypes.CDLL(None).inotify_init1(0) < 0)"], check=False)
            self.assertEqual(child.returncode, 0, "the host's root has none left")
        finally:
            other.delete()


if __name__ == "__main__":
    unittest.main()
