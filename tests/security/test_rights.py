"""The table of docs/security.md beside the programs as they run."""
import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import ROOT, Server  # noqa: E402

NAMES = ["CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
         "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
         "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
         "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
         "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
         "CHECKPOINT_RESTORE"]


def table():
    """(program, right, reason) of each row."""
    text = (ROOT / "docs/security.md").read_text()
    section = text[text.index("## What each program keeps"):text.index("## Choices")]
    return re.findall(r"^\| (server|launcher|execd) \| (.*?) \| (.*?) \|$", section, re.MULTILINE)


def documented(program):
    return {right.removeprefix("c `CAP_").rstrip("`") for name, right, _ in table()
            if name == program and right.startswith("c `CAP_")}


def facts(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def capabilities(text):
    return {NAMES[number] for number in range(len(NAMES)) if int(text, 16) >> number & 1}


class Rights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        cls.box = cls.server.create()
        cls.pid = cls.server.process.pid
        pids = cls.server.launcher_pids()  # with slots that are just being made
        [cls.launcher] = [pid for pid in pids if int(facts(pid)["PPid"]) not in pids]

    def check_all_sets(self, status, wanted):
        for name in ("CapPrm", "CapEff", "CapBnd"):
            self.assertEqual(capabilities(status[name]), wanted, name)
        for name in ("CapInh", "CapAmb"):
            self.assertEqual(capabilities(status[name]), set(), name)

    def test_every_right_has_a_reason(self):
        rows = table()
        self.assertGreater(len(rows), 30)
        for program, right, reason in rows:
            self.assertTrue(reason.strip(), (program, right))
            if right.startswith("c `"):
                self.assertIn(right[len("c `CAP_"):-1], NAMES)

    def test_server(self):
        status = facts(self.pid)
        self.assertEqual(documented("server"), set())
        self.check_all_sets(status, set())
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual((status["Seccomp"], status["Seccomp_filters"]), ("2", "1"))
        self.assertEqual(len(set(status["Uid"].split())), 1)
        self.assertNotEqual(status["Uid"].split()[0], "0")
        self.assertEqual(status["Groups"].split(), [])
        # Owned by root although the process is another's: nobody but root may trace it.
        self.assertEqual(os.stat(f"/proc/{self.pid}/environ").st_uid, 0)

    def test_threads_of_the_server(self):
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            self.assertEqual(facts(f"{self.pid}/task/{task.name}")["Seccomp"], "2")

    def test_server_says_what_holds_it(self):
        log = self.server.log_path.read_text()
        [line] = [line for line in log.splitlines() if "confined: " in line]
        self.assertIn("system calls by seccomp", line)

    def test_files_of_the_server(self):
        """By descriptor it has what it was started with, and its own."""
        own = str(self.server.state / "state/server")
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            target = os.readlink(entry)
            if int(entry.name) > 2 and target.startswith("/"):
                self.assertTrue(target.startswith(own) or target in ("/dev/null", "/dev/urandom"), target)

    def test_launcher(self):
        status = facts(self.launcher)
        root_here = capabilities(facts("self")["CapBnd"])  # root of this machine may lack some
        self.check_all_sets(status, documented("launcher") & root_here)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Seccomp"], "0")
        self.assertEqual(status["Uid"].split(), ["0"] * 4)

    def test_execd(self):
        status = facts(self.box.execd_pid())
        self.check_all_sets(status, documented("execd"))
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual((status["Seccomp"], status["Seccomp_filters"]), ("2", "1"))
        self.assertGreaterEqual(int(status["Uid"].split()[0]), 0x20000000)

    def test_commands_have_no_more(self):
        status = self.box.output("cat /proc/self/status")
        found = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        self.assertEqual(capabilities(found["CapBnd"].strip()), documented("execd"))


if __name__ == "__main__":
    unittest.main()
