"""What is on the host is not inside: files, environment, processes, mounts, network."""
import os
import secrets
import shutil
import socket
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Machine, Server  # noqa: E402

PLACES = ["/root", "/home/osb-test", "/etc", "/var/lib", "/var/tmp", "/opt", "/usr/local/share",
          "/usr/local/bin", "/srv", "/tmp", "/mnt", "/run"]


class Secrets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.before = Machine.snapshot()
        # Two halves, so that a command line that searches for it does not contain it.
        cls.half = secrets.token_hex(8)
        cls.secret = cls.half + "XX" + cls.half
        cls.pattern = cls.half + "X[X]" + cls.half
        cls.planted, cls.made = [], []
        for place in map(Path, PLACES):
            if not place.exists():
                place.mkdir(parents=True)
                cls.made.append(place)
            for path in (place / "osb-secret", place / f"osb-{cls.secret}"):
                path.write_text(cls.secret + "\n")
                path.chmod(0o644)
                cls.planted.append(path)
        cls.server = Server(env={"HOST_SECRET": cls.secret})
        cls.server.__enter__()
        cls.box = cls.server.create()

    @classmethod
    def tearDownClass(cls):
        cls.box.delete()
        cls.server.__exit__(None, None, None)
        for path in cls.planted:
            path.unlink()
        for path in cls.made:
            shutil.rmtree(path)
        left = Machine.difference(cls.before, Machine.snapshot())
        assert not left, left

    def test_control_the_search_finds_what_is_there(self):
        self.box.output(f"mkdir -p /root/control && echo {self.half}'X'X{self.half} > /root/control/f")
        found = self.box.output(f"grep -rlE '{self.pattern}' /root")
        self.assertEqual(found, "/root/control/f")
        self.box.output("rm -r /root/control")

    def test_files_by_name(self):
        for place in PLACES:
            with self.subTest(place):
                events = self.box.run(f"cat {place}/osb-secret")
                self.assertEqual(events[-1]["type"], "error", events)

    def test_files_by_search(self):
        found = self.box.output(
            f"grep -rslE --devices=skip '{self.pattern}' / --exclude-dir=proc --exclude-dir=sys "
            f"--exclude-dir=usr; find / -xdev -name 'osb-*' -not -path '/proc/*' 2>/dev/null; true")
        self.assertEqual(found, "")

    def test_usr_local_is_empty(self):
        self.assertEqual(self.box.output("find /usr/local -type f | head"), "")

    def test_environment_of_every_process(self):
        found = self.box.output(
            f"cat /proc/*/environ 2>/dev/null | grep -acE '{self.pattern}'; env | "
            f"grep -cE '{self.pattern}'; true")
        self.assertEqual(found, "0\n0")

    def test_processes(self):
        pids = self.box.output("ls /proc | grep -E '^[0-9]+$' | wc -l")
        self.assertLess(int(pids), 10)
        names = self.box.output("cat /proc/[0-9]*/comm | sort -u")
        self.assertNotIn("server", names)
        self.assertNotIn("launcher", names)
        self.assertEqual(self.box.output("cat /proc/1/comm"), "execd")

    def test_mounts(self):
        mounts = self.box.output("cat /proc/self/mountinfo")
        self.assertNotIn("/root", [line.split()[4] for line in mounts.splitlines()])
        self.assertNotIn("/dev/vda", [line.split()[4] for line in mounts.splitlines()])
        points = {line.split()[4] for line in mounts.splitlines()}
        host = {line.split()[4] for line in
                Path("/proc/self/mountinfo").read_text().splitlines()}
        self.assertIn("/", points)
        # Everything mounted inside was mounted for the sandbox.
        allowed = ("/", "/usr", "/usr/.root", "/proc", "/dev", "/sys", "/etc/resolv.conf", "/etc/hosts", "/tmp")
        for point in points:
            with self.subTest(point):
                self.assertTrue(point in allowed or point.startswith(("/proc/", "/dev/", "/sys/")),
                                f"unexpected mount {point}; host has {sorted(host)}")

    def test_state_directory_is_not_named(self):
        # The overlay's options would tell where on the host the sandbox lives.
        mounts = self.box.output("cat /proc/self/mountinfo /proc/mounts")
        self.assertNotIn(str(self.server.state), mounts)

    def test_network(self):
        interfaces = self.box.output("ls /sys/class/net 2>/dev/null || "
                                     "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")
        self.assertEqual(interfaces.split(), ["lo"])
        routes = self.box.output("tail -n +2 /proc/net/route | wc -l")
        self.assertEqual(routes, "0")

    def test_host_service_on_loopback(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 5):  # control: it listens
            pass
        events = self.box.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
        self.assertEqual(events[-1]["type"], "error", events)

    def test_host_abstract_socket(self):
        name = "osb-test-" + secrets.token_hex(4)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind("\0" + name)
        listener.listen()
        code = (f"import socket;s=socket.socket(socket.AF_UNIX);s.connect('\\0{name}');print('in')")
        events = self.box.run(f'python3 -c "{code}"')
        self.assertEqual(events[-1]["type"], "error", events)

    def test_hostname_is_not_the_hosts(self):
        self.assertNotEqual(self.box.output("cat /proc/sys/kernel/hostname"), os.uname().nodename)

    def test_nothing_inherited(self):
        # Only standard streams in a command; whatever execd holds stays with execd.
        names = self.box.output("find /proc/self/fd -type l -printf '%l\\n'").splitlines()
        self.assertGreaterEqual(len(names), 3)
        for name in names:
            self.assertTrue(name.startswith(("pipe:", "/dev/null", "/proc/", "/")), names)
            self.assertFalse(name.startswith(("socket:", "anon_inode:")), names)


if __name__ == "__main__":
    unittest.main()
