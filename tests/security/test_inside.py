"""What root inside a sandbox must not be able to do. Each attempt prints PWNED when it works."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Machine, Server, text_of  # noqa: E402

# name: shell command; Python ones get `import ctypes, os, socket` and libc.
SHELL = {
    "mount": "mount -t tmpfs none /mnt && echo PWNED",
    "remount": "mount -o remount,rw /proc/sys && echo PWNED",
    "unmount_mask": "umount /proc/sys && echo PWNED",
    "user_namespace": "unshare -U true && echo PWNED",
    "mount_namespace": "unshare -m true && echo PWNED",
    "device_node": "mknod /tmp/vda b 254 0 && echo PWNED",
    "environment_of_execd": "cat /proc/1/environ && echo PWNED",
    "memory_of_execd": "dd if=/proc/1/mem bs=1 count=1 skip=4194304 && echo PWNED",
    "files_of_execd": "ls /proc/1/fd/ && echo PWNED",
    "root_of_execd": "ls /proc/1/root/ && echo PWNED",
    "program_of_execd": "cat /proc/1/exe >/dev/null && echo PWNED",
    "kernel_settings": "echo 1 > /proc/sys/kernel/panic && echo PWNED",
    "core_pattern": "echo '|/tmp/x' > /proc/sys/kernel/core_pattern && echo PWNED",
    "hostname": "hostname other && echo PWNED",
    "cgroup_limits": "echo -1 > /sys/fs/cgroup/memory/memory.limit_in_bytes && echo PWNED; "
                     "echo max > /sys/fs/cgroup/memory.max && echo PWNED",
    "oom_score": "echo -1000 > /proc/self/oom_score_adj && echo PWNED",
    "kernel_log": "dmesg && echo PWNED",
    "kernel_memory": "head -c 16 /proc/kcore | grep -q . && echo PWNED",
}
PYTHON = {
    "raw_socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "packet_socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)",
    "netlink_other": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)",
    "trace_execd": "assert libc.ptrace(16, 1, 0, 0) == 0",
    "bpf": "assert libc.syscall(321, 5, 0, 0) >= 0 or ctypes.get_errno() not in (1, 38)",
    "io_uring": "assert libc.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0",
    "userfaultfd": "assert libc.syscall(323, 0) >= 0",
    "perf_event": "assert libc.syscall(298, ctypes.create_string_buffer(128), 0, -1, -1, 0) >= 0",
    "add_key": "assert libc.syscall(248, b'user', b'k', b'v', 1, -3) >= 0",
    "open_by_handle": "assert libc.syscall(304, 3, ctypes.create_string_buffer(64), 0) >= 0 or "
                      "ctypes.get_errno() not in (1, 38)",
    "clone3": "assert libc.syscall(435, ctypes.create_string_buffer(88), 88) >= 0 or "
              "ctypes.get_errno() != 38",
    "setns": "assert libc.setns(os.open('/proc/self/ns/net', 0), 0) == 0",
    "pidfd_getfd_of_execd": "assert libc.syscall(438, os.pidfd_open(1), 3, 0) >= 0",
    "terminal_injection": "import fcntl, pty; a, b = pty.openpty(); fcntl.ioctl(b, 0x5412, b'x')",
}
PRELUDE = "import ctypes, os, socket; libc = ctypes.CDLL(None, use_errno=True); "


class Inside(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.before = Machine.snapshot()
        cls.server = Server()
        cls.server.__enter__()
        cls.box = cls.server.create(resourceLimits={"memory": "256Mi", "pids": "64"})

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        left = Machine.difference(cls.before, Machine.snapshot())
        assert not left, left

    def attempt(self, command):
        events = self.box.run(command + "; true", timeout=20000)
        self.assertNotIn("PWNED", "\n".join(text_of(events)), events)

    def test_control_a_harmless_thing_works(self):
        self.assertEqual(self.box.output("true && echo PWNED"), "PWNED")
        self.assertEqual(self.box.output(f"python3 -c \"{PRELUDE}assert libc.getpid() > 1; "
                                         "print('PWNED')\""), "PWNED")

    def test_shell(self):
        for name, command in SHELL.items():
            with self.subTest(name):
                self.attempt(command)

    def test_python(self):
        for name, code in PYTHON.items():
            with self.subTest(name):
                self.attempt(f"python3 - <<'CODE'\n{PRELUDE}\n{code}\nprint('PWNED')\nCODE\n")

    def test_memory_limit_holds_and_execd_answers(self):
        events = self.box.run("python3 -c \"x = bytearray(400 << 20); print('PWNED')\"")
        self.assertNotIn("PWNED", "\n".join(text_of(events)))
        self.assertEqual(events[-1]["type"], "error", events)
        self.assertEqual(self.box.output("echo here"), "here")

    def test_fork_bomb_stays_inside(self):
        self.box.run("for i in $(seq 200); do sleep 5 & done 2>/dev/null; wait", timeout=4000)
        wait = self.box.run("pkill sleep; sleep 0.2; echo here")
        self.assertTrue(wait, wait)
        other = self.server.create()
        self.assertEqual(other.output("echo here"), "here")
        other.delete()


if __name__ == "__main__":
    unittest.main()
