#!/usr/bin/env python3
"""Disk limits: that they hold, are told, can grow, and leave nothing behind.

Run as root:  OSB_BIN_DIR=build/bin python3 tests/integration/test_disk.py
By messages to a launcher first, then over HTTP. Where the file system of /tmp has project quota the
same tests run with that; those about loop devices are then skipped.
"""
import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Machine, Server  # noqa: E402
from launcher import (CONFLICT, CREATE, HIT_DISK, INVALID, LIMITS, OK, PRIVATE_MOUNTS, REMOVE,  # noqa: E402
                      RUNNING, UNSUPPORTED, LauncherTest, create_body, eventually, id_body, inside,
                      set_limits_body)

MIB = 1 << 20
LOOP_GET_STATUS64 = 0x4C05
CAP_SYS_RESOURCE = 24

# Fills and says how much went in; the shell's tools would hide the error.
FILL = r"""python3 -c '
import errno, os
done = 0
fd = os.open("/root/fill", os.O_WRONLY | os.O_CREAT)
try:
    while True:
        done += os.write(fd, b"x" * 65536)
except OSError as problem:
    print(done, errno.errorcode[problem.errno])
'"""
FILL_INODES = r"""python3 -c '
import errno, os
os.mkdir("/root/many")
done = 0
try:
    while True:
        os.close(os.open("/root/many/%d" % done, os.O_WRONLY | os.O_CREAT))
        done += 1
except OSError as problem:
    print(done, errno.errorcode[problem.errno])
'"""
FULL = ("ENOSPC", "EDQUOT")


def has_quota(path):
    """Whether limits on projects hold below it, by the mount table."""
    found = subprocess.run(["findmnt", "-n", "-o", "OPTIONS", "-T", path], capture_output=True, text=True).stdout
    return "prjquota" in found or "pquota" in found


def can_grow():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"CapEff:\s*(\w+)", status).group(1), 16) >> CAP_SYS_RESOURCE & 1


by_loop = unittest.skipIf(has_quota("/tmp"), "project quota is used here")


def our_loop_devices(instance):
    """Paths of loop devices that the launcher with this instance bound."""
    found = []
    for entry in Path("/sys/block").glob("loop*/loop"):
        device = f"/dev/{entry.parent.name}"
        with contextlib.suppress(OSError), open(device, "rb") as file:
            status = fcntl.ioctl(file, LOOP_GET_STATUS64, bytes(232))
            name = status[56:120].rstrip(b"\0").decode()
            if name == f"opensandbox-{instance}":
                found.append(device)
    return found


def within(value, limit):
    return limit * 9 // 10 <= value <= limit * 11 // 10


def filled(said):
    amount, word = said.split()
    assert word in FULL, said
    return int(amount)


class DiskTest(LauncherTest):
    """What holds in both ways."""
    loops = not has_quota("/tmp")

    def setUp(self):
        super().setUp()
        self.start()
        self.client = self.connect()
        self.addCleanup(self.check_loops_gone)  # runs before finish(): sandboxes may still be there

    def check_loops_gone(self):
        for sandbox in self.client.list():
            self.assertEqual(self.client.ask(REMOVE, id_body(sandbox.id)).code, OK)
        self.assertTrue(eventually(lambda: not our_loop_devices(self.instance)))

    def crash_and_start(self):
        self.crash()
        self.start()
        self.client = self.connect()

    def usage(self, sandbox):
        return self.client.stat(sandbox)

    def change(self, sandbox, **limits):
        return self.client.ask(LIMITS, set_limits_body(sandbox, **limits))


class BothWays:
    """Tests of whichever way the launcher takes."""

    def test_bytes(self):
        sandbox, path = self.client.create(disk=64 * MIB)
        other, other_path = self.client.create(disk=64 * MIB)
        self.assertFalse(self.usage(sandbox).hit & HIT_DISK)
        done = filled(inside(path, FILL)[0])
        self.assertTrue(within(done, 64 * MIB), done)
        usage = self.usage(sandbox)
        self.assertTrue(usage.hit & HIT_DISK)
        self.assertTrue(within(usage.disk, 64 * MIB), usage)
        # A neighbour has all of its own, and this one answers and can be emptied again.
        self.assertFalse(self.usage(other).hit & HIT_DISK)
        self.assertEqual(inside(other_path, "head -c 50000000 /dev/zero > /root/x")[1], 0)
        self.assertEqual(inside(path, "rm /root/fill && echo again > /root/y && cat /root/y"), ("again\n", 0))
        self.assertTrue(self.usage(sandbox).hit & HIT_DISK, "that it was full once is remembered")
        self.assertLess(self.usage(sandbox).disk, 8 * MIB)

    def test_usr_is_in_the_limit_too(self):
        _, path = self.client.create(disk=16 * MIB)
        said, status = inside(path, "head -c 30000000 /dev/zero > /usr/local/x; stat -c %s /usr/local/x; rm /usr/local/x")
        self.assertTrue(within(int(said.split()[-1]), 16 * MIB), said)

    def test_inodes(self):
        sandbox, path = self.client.create(disk=16 * MIB)
        done = filled(inside(path, FILL_INODES)[0])
        self.assertTrue(within(done, 16 * MIB // 8192), done)
        self.assertTrue(self.usage(sandbox).hit & HIT_DISK)
        self.assertEqual(inside(path, "rm -r /root/many && echo x > /root/y")[1], 0)

    def test_df_tells_the_truth(self):
        _, path = self.client.create(disk=64 * MIB)
        said, _ = inside(path, "df -B1 --output=size,avail / | tail -1; df --output=itotal / | tail -1")
        size, available, inodes = map(int, said.split())
        self.assertTrue(within(size, 64 * MIB), said)
        self.assertTrue(within(available, 64 * MIB), said)
        self.assertTrue(within(inodes, 64 * MIB // 8192), said)

    def test_bad_values(self):
        for value in (1, 16 * MIB - 1, (1 << 50) + 1, (1 << 64) - 1):
            result = self.client.ask(CREATE, create_body(str(uuid.uuid4()), disk=value))
            self.assertEqual(result.code, INVALID, value)
        result = self.client.ask(CREATE, create_body(str(uuid.uuid4()), disk=1 << 50))
        self.assertEqual(result.code, INVALID)
        self.assertIn("more than the file system of the state directory has", result.message)

    def test_a_limit_outlives_the_launcher(self):
        sandbox, path = self.client.create(disk=64 * MIB)
        inside(path, "echo kept > /root/kept")
        self.crash_and_start()
        self.assertEqual(inside(path, "cat /root/kept")[0], "kept\n")
        done = filled(inside(path, FILL)[0])
        self.assertTrue(within(done, 64 * MIB), done)
        self.assertTrue(self.usage(sandbox).hit & HIT_DISK)
        self.crash_and_start()
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertTrue(eventually(lambda: not our_loop_devices(self.instance)))

    def test_ended_and_full_is_told(self):
        sandbox, path = self.client.create(disk=16 * MIB)
        filled(inside(path, FILL)[0])
        inside(path, "exit 0")
        self.assertTrue(self.client.wait_exit(sandbox).hit & HIT_DISK)

    def test_grow(self):
        sandbox, path = self.client.create(disk=32 * MIB)
        filled(inside(path, FILL)[0])
        result = self.change(sandbox, disk=64 * MIB)
        if self.loops and not can_grow():
            self.assertEqual(result.code, UNSUPPORTED)
            self.assertIn("CAP_SYS_RESOURCE", result.message)
            return
        self.assertEqual(result.code, OK, result.message)
        done = filled(inside(path, FILL.replace("/root/fill", "/root/more"))[0])
        self.assertTrue(within(done, 32 * MIB), done)
        self.crash_and_start()
        result = self.change(sandbox, disk=64 * MIB, memory=64 * MIB)
        self.assertEqual(result.code, OK, "the record has the new size")

    def test_shrink(self):
        sandbox, path = self.client.create(disk=64 * MIB)
        self.assertEqual(inside(path, "head -c 40000000 /dev/zero > /root/x")[1], 0)
        result = self.change(sandbox, disk=32 * MIB)
        self.assertEqual(result.code, CONFLICT)
        self.assertIn("shrink" if self.loops else "uses", result.message)
        # Other limits can be changed when the disk's stays.
        result = self.change(sandbox, disk=64 * MIB, memory=64 * MIB)
        self.assertEqual(result.code, OK, result.message)


class LoopOnly:
    """Tests of loop files."""

    def directory(self, sandbox):
        return Path(self.state) / "launcher/sandboxes" / sandbox

    def test_a_limit_cannot_come_later(self):
        sandbox, _ = self.client.create()
        result = self.change(sandbox, disk=32 * MIB)
        self.assertEqual(result.code, CONFLICT)
        self.assertIn("without a disk limit", result.message)

    def test_what_loops_leave(self):
        sandbox, path = self.client.create(disk=64 * MIB)
        self.assertEqual(len(our_loop_devices(self.instance)), 1)
        file = self.directory(sandbox) / "disk"
        self.assertEqual(file.stat().st_size, 64 * MIB)
        self.assertLess(file.stat().st_blocks * 512, 4 * MIB, "sparse")
        self.assertEqual(inside(path, "head -c 30000000 /dev/urandom > /root/x && sync /root/x; rm /root/x")[1], 0)
        self.assertEqual(self.mount_table(), self.mounts)
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertTrue(eventually(lambda: not our_loop_devices(self.instance)))
        self.assertFalse(file.exists())

    def test_what_was_not_written_yet_is_given_up(self):
        """Deleting does not write to the host's disk first what is deleted next."""
        for _ in range(5):
            sandbox, path = self.client.create(disk=512 * MIB)
            with open(self.directory(sandbox) / "disk", "rb") as file:  # its blocks are counted afterwards
                self.assertEqual(inside(path, "head -c 30000000 /dev/urandom > /root/x")[1], 0)
                before = os.fstat(file.fileno()).st_blocks * 512
                self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
                self.assertTrue(eventually(lambda: not our_loop_devices(self.instance)))
                after = os.fstat(file.fileno()).st_blocks * 512
            if before < 10 * MIB:  # else the kernel was faster with writing it
                self.assertLess(after, before + 10 * MIB)
                return
        self.fail("the kernel writes everything at once")

    def test_killed_while_removing(self):
        """kill -9 of the launcher at any step: a sandbox that lives on has its disk."""
        for wait_ms in range(0, 16, 2):
            sandbox, path = self.client.create(disk=20 * MIB)
            self.client.send(REMOVE, id_body(sandbox))
            time.sleep(wait_ms / 1000)
            self.crash_and_start()
            eventually(lambda: sandbox not in [s.id for s in self.client.list() if s.state == RUNNING], 0.3)
            for one in self.client.list():
                if one.state == RUNNING:
                    self.assertEqual(inside(path, "echo x > /root/x")[1], 0, wait_ms)
                self.assertEqual(self.client.ask(REMOVE, id_body(one.id)).code, OK)

    def test_the_host_is_not_seen(self):
        sandbox, path = self.client.create(disk=64 * MIB)
        said, _ = inside(path, "cat /proc/self/mountinfo /proc/mounts /proc/swaps; "
                               "cat /sys/block/loop*/loop/backing_file /sys/devices/virtual/block/*/loop/* ; ls /dev")
        self.assertNotIn("launcher", said)
        self.assertNotIn(sandbox, said)
        self.assertNotIn("loop", said)

    def test_templates_are_used_again(self):
        self.client.create(disk=64 * MIB)
        self.client.create(disk=64 * MIB - 5)
        templates = Path(self.state) / "launcher/templates"
        first, = templates.iterdir()
        number = first.stat().st_ino
        self.client.create(disk=64 * MIB)
        self.assertEqual([p.stat().st_ino for p in templates.iterdir()], [number])
        os.truncate(first, 4096)
        _, path = self.client.create(disk=64 * MIB)
        self.assertEqual(inside(path, "echo x > /root/x")[1], 0)
        self.assertEqual(first.stat().st_size, 64 * MIB)

    def test_many_at_once(self):
        """The same new size by several slots at a time."""
        bodies = [create_body(str(uuid.uuid4()), disk=48 * MIB) for _ in range(12)]
        answers = [self.client.wait(n) for n in [self.client.send(CREATE, body) for body in bodies]]
        self.assertEqual([a.message for a in answers if a.code != OK], [])
        self.assertEqual(len(our_loop_devices(self.instance)), 12)
        for answer in answers:
            self.assertEqual(inside(answer.socket, "echo x > /root/x")[1], 0)
        self.assertEqual(len(list((Path(self.state) / "launcher/templates").iterdir())), 1)

    def test_killed_while_making(self):
        """kill -9 of the launcher while disks are being made: no device is left without a sandbox."""
        for wait in range(6):
            for _ in range(4):
                self.client.send(CREATE, create_body(str(uuid.uuid4()), disk=(20 + wait) * MIB))
            if wait:  # the first ones are killed at once
                eventually(lambda: len(our_loop_devices(self.instance)) >= wait - 1, 2)
            self.crash_and_start()
            there = self.client.list()
            self.assertTrue(eventually(lambda: len(our_loop_devices(self.instance)) ==
                                       len([s for s in self.client.list() if s.state == RUNNING])),
                            (our_loop_devices(self.instance), len(there)))
            for sandbox in self.client.list():
                self.assertEqual(self.client.ask(REMOVE, id_body(sandbox.id)).code, OK)

    def test_cached_pages_are_the_sandboxs(self):
        """What is written stays in memory on the sandbox's account, and so does what is read."""
        _, path = self.client.create(disk=64 * MIB, memory=512 * MIB)
        said, _ = inside(path, "head -c 40000000 /dev/zero > /root/x; cat /sys/fs/cgroup/memory/memory.stat "
                               "/sys/fs/cgroup/memory.stat 2>/dev/null | grep -E '^(total_cache|file) '")
        self.assertGreater(int(said.split()[-1]), 30 * MIB, said)


class ByMessage(BothWays, DiskTest):
    pass


@by_loop
class ByLoop(LoopOnly, DiskTest):
    pass


def load_loop_module():
    """Without udev there is no node that does it."""
    if not os.path.exists("/dev/loop-control"):
        subprocess.run(["modprobe", "loop"], check=True)


@unittest.skipUnless(has_quota("/tmp") and not has_quota("/var/tmp"), "there is no second kind of file system here")
class BesideQuota(DiskTest):
    """Where /tmp has project quota, the other way on a file system without: what differs there."""
    loops = True
    test_grow = BothWays.test_grow
    test_df_tells_the_truth = BothWays.test_df_tells_the_truth
    test_what_loops_leave = LoopOnly.test_what_loops_leave
    directory = LoopOnly.directory

    def setUp(self):
        load_loop_module()
        self.place = tempfile.mkdtemp(prefix="osb-launcher-", dir="/var/tmp")
        os.chmod(self.place, 0o755)
        self.addCleanup(shutil.rmtree, self.place)
        super().setUp()

    def start(self, *arguments, **options):
        self.state = os.path.join(self.place, "state")
        super().start(*arguments, **options)


@by_loop
class WithoutMke2fs(LauncherTest):
    """In a mount namespace in which the program is covered."""

    def test_it_is_told_what_to_install(self):
        hide = PRIVATE_MOUNTS + "for f in /usr/sbin/mke2fs /sbin/mke2fs; do mount --bind /dev/null $f; done; exec \"$@\""
        self.start(wrapper=["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", hide, "sh"])
        client = self.connect()
        result = client.ask(CREATE, create_body(str(uuid.uuid4()), disk=64 * MIB))
        self.assertEqual(result.code, UNSUPPORTED)
        self.assertIn("e2fsprogs", result.message)
        client.create()  # without a limit all is well


@by_loop
class WithoutLoops(LauncherTest):
    def test_refused_with_the_reasons(self):
        hide = PRIVATE_MOUNTS + "mount --bind /dev/null /dev/loop-control; exec \"$@\""
        self.start(wrapper=["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", hide, "sh"])
        client = self.connect()
        result = client.ask(CREATE, create_body(str(uuid.uuid4()), disk=64 * MIB))
        self.assertEqual(result.code, UNSUPPORTED)
        self.assertRegex(result.message, r"project quota: .+ loop device: .*/dev/loop-control")
        client.create()


class ByHttp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def refused(self, limits):
        body = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": limits}
        answer = self.server.request("POST", "/v1/sandboxes", body)
        self.assertEqual(answer.status, 400, answer)
        return answer.json()["message"]

    def test_fill_and_go_on(self):
        box = self.server.create(resourceLimits={"disk": "64Mi"})
        other = self.server.create(resourceLimits={"ephemeral-storage": "64Mi"})
        self.assertTrue(within(filled(box.output(FILL)), 64 * MIB))
        self.assertEqual(box.output("rm /root/fill; echo ok > /root/x; cat /root/x"), "ok")
        self.assertEqual(other.output("head -c 50000000 /dev/zero > /root/x && echo ok"), "ok")
        self.assertTrue(within(filled(other.output(FILL_INODES)), 64 * MIB // 8192))
        self.assertEqual(other.output("echo ok"), "ok", "execd answers on a full disk")

    def test_full_disk_and_files_over_http(self):
        box = self.server.create(resourceLimits={"disk": "16Mi"})
        filled(box.output(FILL))
        self.assertEqual(box.request("GET", "/ping").status, 200)
        self.assertEqual(box.output("rm /root/fill; echo ok"), "ok")

    def test_bad_values(self):
        for value in ("15Mi", "2Pi", "-1", "x", "64MB!", ""):
            with self.subTest(value=value):
                self.refused({"disk": value})
        self.refused({"disk": "64Mi", "ephemeral-storage": "65Mi"})
        self.assertIn("file system of the state directory", self.refused({"disk": "1Pi"}))

    def test_removal_leaves_nothing(self):
        instance = re.search(r"instance (\w+)", self.server.log_path.read_text()).group(1)
        devices, before = our_loop_devices(instance), Machine.snapshot()
        box = self.server.create(resourceLimits={"disk": "64Mi"})
        box.output("head -c 10000000 /dev/zero > /root/x")
        folder = self.server.state / "state/launcher/sandboxes" / box.id
        self.assertTrue(folder.exists())
        box.delete()
        self.assertTrue(eventually(lambda: our_loop_devices(instance) == devices))
        self.assertFalse(folder.exists())
        difference = Machine.difference(before, Machine.snapshot())
        self.assertEqual([line for line in difference if line.startswith("mounts")], [])

    def test_restart_of_everything(self):
        box = self.server.create(resourceLimits={"disk": "64Mi"})
        box.output("echo kept > /root/kept")
        for pid in self.server.launcher_pids():
            os.kill(pid, signal.SIGKILL)
        self.server.restart()
        self.assertEqual(box.output("cat /root/kept"), "kept")
        self.assertTrue(within(filled(box.output(FILL)), 64 * MIB))


if __name__ == "__main__":
    unittest.main()
