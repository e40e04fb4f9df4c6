#!/usr/bin/env python3
"""What a sandbox of opensandbox-launcher looks like from inside.

Run as root:  OSB_BIN_DIR=build/bin python3 tests/integration/test_launcher_inside.py
"""
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from launcher import (BY_STATUS, CREATE, KILL, LauncherTest, OK, create_body, eventually, id_body,
                      inside, main)  # noqa: E402


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
        self.assertEqual(self.says("hostname"), "sandbox")
        self.assertEqual(self.says("cat /etc/hostname"), "sandbox")
        self.assertRegex(self.says("getent hosts sandbox"), r"^127\.0\.1\.1\s+sandbox$")
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
        for path, set_options in options.items():
            if path.startswith(("/sys", "/proc/sys")):
                self.assertIn("ro", set_options, path)
        self.assertIn("/sys", options)
        self.assertIn("/proc/sys", options)
        self.fails("touch /sys/fs/cgroup/x")
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
        """Process 1 has the null device three times, its socket, the program that only waits, and the
        doors to the group of its children, nothing more."""
        pid = self.host_pid()
        self.says("true")  # the probe has heard by now that it is wanted
        links = {name: os.readlink(f"/proc/{pid}/fd/{name}") for name in
                 os.listdir(f"/proc/{pid}/fd")}
        doors = [n for n in sorted(links) if links[n].endswith("/cgroup.procs")]
        self.assertEqual(set(links), {"0", "1", "2", "3", "5", *doors})
        self.assertEqual(os.path.basename(links["5"]), "tail")
        self.assertTrue(doors)
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

    def test_nothing_is_made_in_advance(self):
        """Not even a directory of the root: what the overlay's upper layer has is the sandbox's own doing."""
        upper, = glob.glob(f"{self.state}/launcher/sandboxes/{self.sandbox}/**/upper", recursive=True)
        self.assertEqual(os.listdir(upper), [])
        self.assertEqual(self.says("stat -c '%U %G %a %n' / /etc /etc/hosts /etc/hostname"),
                         "root root 755 /\nroot root 755 /etc\nroot root 644 /etc/hosts\n"
                         "root root 644 /etc/hostname")
        self.says("echo 127.0.2.1 other >> /etc/hosts; sed -i s/other/another/ /etc/hosts; mkdir /new")
        self.assertRegex(self.says("getent hosts another; getent hosts sandbox"),
                         r"^127\.0\.2\.1 +another\n127\.0\.1\.1 +sandbox$")
        self.assertEqual(os.listdir(upper), [".root"])
        _, other = self.client.create()
        self.assertNotEqual(inside(other, "grep another /etc/hosts")[1], 0)

    def test_devices(self):
        self.says("echo x > /dev/null; head -c 4 /dev/urandom > /tmp/r; test -s /tmp/r")
        self.says("test -c /dev/tty && test -d /dev/shm && ls /dev/pts/ptmx")
        said = self.says("python3 -c 'import os; m, s = os.openpty(); print(os.ttyname(s))'")
        self.assertEqual(said, "/dev/pts/0")
        self.says("python3 -c 'import multiprocessing as m; m.Semaphore(1)'")

    def test_dev_is_in_order(self):
        """Its nodes and links are root's; what lies below the mounts in it cannot be uncovered."""
        options = {line.split()[4]: line.split()[5].split(",") for line in
                   self.says("cat /proc/self/mountinfo").splitlines()}
        for path, wanted in (("/dev", "rw nosuid noexec"), ("/dev/shm", "rw nosuid nodev"),
                             ("/dev/pts", "rw nosuid noexec"), ("/dev/mqueue", "rw nosuid nodev noexec")):
            self.assertEqual(set(options[path]) - {"relatime"}, set(wanted.split()), path)
        self.assertEqual(self.says("cd /dev && stat -c '%U:%G %a %n' . * | LC_ALL=C sort").splitlines(), sorted(
            ["root:root 755 .", "root:root 1777 shm", "nobody:nogroup 755 pts", "nobody:nogroup 1777 mqueue"] +
            [f"root:root 666 {name}" for name in "null zero full random urandom tty".split()] +
            [f"root:root 777 {name}" for name in "fd stdin stdout stderr ptmx".split()]))
        for command in ("mv /dev/pts /dev/x", "mv /dev/mqueue /dev/x", "rmdir /dev/mqueue", "rm -rf /dev/pts",
                        "mv /dev/shm /dev/x", "touch /sys/x", "touch /proc/acpi/x", "touch /usr/.root/x",
                        "chmod 777 /sys", "rmdir /sys/fs/cgroup"):
            with self.subTest(command):
                self.fails(command)
        self.assertEqual(self.says("ls -A /dev/mqueue /dev/shm /usr/.root"), "/dev/mqueue:\n\n/dev/shm:\n\n/usr/.root:")
        self.says("cp /usr/bin/true /dev/shm/true && /dev/shm/true")

    def test_locks_are_ones_own(self):
        """No directory or node that is made for a sandbox is another's, too: a lock on it would be a message."""
        _, other = self.client.create()
        paths = ["/", "/dev", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm",
                 "/dev/pts", "/dev/pts/ptmx", "/dev/mqueue", "/sys", "/sys/devices", "/sys/kernel", "/sys/fs",
                 "/sys/fs/cgroup", "/proc", "/proc/sys", "/etc", "/etc/hosts", "/usr",
                 "/usr/.root", "/usr/bin/env"]
        script = ("import fcntl, os, sys, time\n"
                  f"files = [os.open(path, os.O_RDONLY) for path in {paths} if os.path.exists(path)]\n"
                  "for file in files: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
                  "print(len(files), flush=True)\n"
                  "if sys.argv[1:]: os.close(1); time.sleep(1000)\n")
        self.says(f"cat > /tmp/lock.py <<'X'\n{script}X\ntrue")
        inside(other, f"cat > /tmp/lock.py <<'X'\n{script}X\ntrue")
        held = self.says("(python3 /tmp/lock.py hold 2>&1 & echo) | grep -m 1 .")
        self.fails("python3 /tmp/lock.py")  # the lock works
        said, status = inside(other, "python3 /tmp/lock.py 2>&1")
        self.assertEqual((said.strip(), status), (held, 0))

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


if __name__ == "__main__":
    main()
