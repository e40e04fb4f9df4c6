#!/usr/bin/env python3
"""opensandbox-launcher killed, ended, started again and started in unusual ways.

Run as root:  OSB_BIN_DIR=build/bin python3 tests/integration/test_launcher_restart.py
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from launcher import (BY_DEADLINE, BY_KILL, CREATE, EXITED, HEADER, HELLO, KILL, LAUNCHER, LOST,
                      LauncherTest, OK, PRIVATE_MOUNTS, REMOVE, RUNNING, Result, UNSUPPORTED,
                      create_body, eventually, id_body, inside, main, packet)  # noqa: E402


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
        os.makedirs(f"{base}/sandboxes/{half}/upper")
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
            [LAUNCHER, "--fd", str(theirs.fileno()), "--state", self.state, "--execd", self.execd, "--network", "none"],
            pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
        theirs.close()
        ours.settimeout(20)
        ours.send(packet(HELLO, 1))
        self.assertEqual(len(ours.recv(1000)), 536)
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
        os.rename(self.state + "/launcher/mount", self.dir + "/mount")
        client = self.connect()
        codes = []
        for _ in range(4):
            result = client.ask(CREATE, create_body(str(uuid.uuid4())))
            codes.append(result.code)
        self.assertNotEqual(codes[-1], OK)
        self.assertIn("cannot find the place for its mounts", result.message)
        before = self.read_log().count("could not be prepared")
        time.sleep(1.5)
        # Tries, not processor time, of which an emulated machine needs more: without a rest there are hundreds.
        self.assertLess(self.read_log().count("could not be prepared") - before, 20)
        os.rename(self.dir + "/mount", self.state + "/launcher/mount")
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
             "/usr/bin/execd", "--slots", "1", "--network", "none"], stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.assertIn("serving /state", line)
        self.instance = re.search(r"instance (\w+)", line).group(1)
        client = self.connect()
        sandbox, path = client.create()
        self.assertEqual(path, f"/state/run/{sandbox}.sock")
        said, status = inside(root + path, "id -u; ls /; hostname")
        self.assertEqual(status, 0, said)
        self.assertTrue(said.startswith("0\nbin\ndev\n"), said)
        self.assertIn("\nsandbox\n", said)


if __name__ == "__main__":
    main()
