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
import signal
import struct
import subprocess
import sys
import unittest
import uuid
from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../support")]
from harness import Machine, Server, text_of, wait_until  # noqa: E402
from launcher import (CONFLICT, CREATE, INVALID, NOT_FOUND, OK, PRIVATE_MOUNTS, REMOVE,  # noqa: E402
                           UNSUPPORTED, LauncherTest, create_body, eventually, id_body, inside,
                           limits_body)

LIMITS, STAT = 6, 10
HIT_DISK = 4
MIB = 1 << 20
USAGE = struct.Struct("=40sII16QII")
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


def file_system_has_quota():
    """Whether limits on projects hold below /tmp, by asking the mount table."""
    found = subprocess.run(["findmnt", "-n", "-o", "FSTYPE,OPTIONS", "-T", "/tmp"], capture_output=True,
                           text=True).stdout
    return "prjquota" in found or "pquota" in found


def can_grow():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"CapEff:\s*(\w+)", status).group(1), 16) >> CAP_SYS_RESOURCE & 1


BY_LOOP = not file_system_has_quota()
by_loop = unittest.skipUnless(BY_LOOP, "project quota is used here")


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


class ByMessage(LauncherTest):
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
        # One page is enough for these tests.
        self.client.sequence += 1
        from launcher import HEADER, packet
        self.client.socket.send(packet(STAT, self.client.sequence, id_body("")))
        while True:
            data = self.client.socket.recv(65536)
            if HEADER.unpack(data[:HEADER.size])[3] == self.client.sequence:
                break
        body = data[HEADER.size + 8:]
        for at in range(0, len(body), USAGE.size):
            fields = USAGE.unpack(body[at:at + USAGE.size])
            if fields[0].rstrip(b"\0").decode() == sandbox:
                return {"hit": fields[2], "disk": fields[8]}
        self.fail("no such sandbox")

    def directory(self, sandbox):
        return Path(self.state) / "launcher/sandboxes" / sandbox

    def test_bytes(self):
        sandbox, path = self.client.create(disk=64 * MIB)
        other, other_path = self.client.create(disk=64 * MIB)
        self.assertFalse(self.usage(sandbox)["hit"] & HIT_DISK)
        done = filled(inside(path, FILL)[0])
        self.assertTrue(within(done, 64 * MIB), done)
        usage = self.usage(sandbox)
        self.assertTrue(usage["hit"] & HIT_DISK)
        self.assertTrue(within(usage["disk"], 64 * MIB), usage)
        # A neighbour has all of its own, and this one answers and can be emptied again.
        self.assertFalse(self.usage(other)["hit"] & HIT_DISK)
        self.assertEqual(inside(other_path, "head -c 50000000 /dev/zero > /root/x")[1], 0)
        self.assertEqual(inside(path, "rm /root/fill && echo again > /root/y && cat /root/y"), ("again\n", 0))
        self.assertTrue(self.usage(sandbox)["hit"] & HIT_DISK, "that it was full once is remembered")
        self.assertLess(self.usage(sandbox)["disk"], 8 * MIB)

    def test_usr_is_in_the_limit_too(self):
        _, path = self.client.create(disk=16 * MIB)
        said, status = inside(path, "head -c 30000000 /dev/zero > /usr/local/x; stat -c %s /usr/local/x; rm /usr/local/x")
        self.assertTrue(within(int(said.split()[-1]), 16 * MIB), said)

    def test_inodes(self):
        sandbox, path = self.client.create(disk=16 * MIB)
        done = filled(inside(path, FILL_INODES)[0])
        self.assertTrue(within(done, 16 * MIB // 8192), done)
        self.assertTrue(self.usage(sandbox)["hit"] & HIT_DISK)
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
        self.assertTrue(self.usage(sandbox)["hit"] & HIT_DISK)
        self.crash_and_start()
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertFalse(our_loop_devices(self.instance))

    def test_ended_and_full_is_told(self):
        sandbox, path = self.client.create(disk=16 * MIB)
        filled(inside(path, FILL)[0])
        inside(path, "exit 0")
        self.assertTrue(self.client.wait_exit(sandbox).hit & HIT_DISK)

    def test_grow(self):
        sandbox, path = self.client.create(disk=64 * MIB)
        filled(inside(path, FILL)[0])
        result = self.client.ask(LIMITS, id_body(sandbox) + limits_body(disk=256 * MIB))
        if BY_LOOP and not can_grow():
            self.assertEqual(result.code, UNSUPPORTED)
            self.assertIn("CAP_SYS_RESOURCE", result.message)
            return
        self.assertEqual(result.code, OK, result.message)
        done = filled(inside(path, FILL.replace("/root/fill", "/root/more"))[0])
        self.assertTrue(within(done, 192 * MIB), done)
        self.crash_and_start()
        result = self.client.ask(LIMITS, id_body(sandbox) + limits_body(disk=256 * MIB, memory=64 * MIB))
        self.assertEqual(result.code, OK, "the record has the new size")

    def test_shrink(self):
        sandbox, path = self.client.create(disk=64 * MIB)
        self.assertEqual(inside(path, "head -c 40000000 /dev/zero > /root/x")[1], 0)
        result = self.client.ask(LIMITS, id_body(sandbox) + limits_body(disk=32 * MIB))
        self.assertEqual(result.code, CONFLICT)
        self.assertIn("shrink" if BY_LOOP else "uses", result.message)
        # Other limits can be changed when the disk's stays.
        result = self.client.ask(LIMITS, id_body(sandbox) + limits_body(disk=64 * MIB, memory=64 * MIB))
        self.assertEqual(result.code, OK, result.message)

    @by_loop
    def test_a_limit_cannot_come_later(self):
        sandbox, _ = self.client.create()
        result = self.client.ask(LIMITS, id_body(sandbox) + limits_body(disk=32 * MIB))
        self.assertEqual(result.code, CONFLICT)
        self.assertIn("without a disk limit", result.message)

    @by_loop
    def test_what_loops_leave(self):
        sandbox, path = self.client.create(disk=64 * MIB)
        self.assertEqual(len(our_loop_devices(self.instance)), 1)
        file = self.directory(sandbox) / "disk"
        self.assertEqual(file.stat().st_size, 64 * MIB)
        self.assertLess(file.stat().st_blocks * 512, 4 * MIB, "sparse")
        self.assertEqual(inside(path, "head -c 30000000 /dev/urandom > /root/x && sync /root/x; rm /root/x")[1], 0)
        self.assertEqual(self.mount_table(), self.mounts)
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertEqual(our_loop_devices(self.instance), [])
        self.assertFalse(file.exists())

    @by_loop
    def test_the_host_is_not_seen(self):
        sandbox, path = self.client.create(disk=64 * MIB)
        said, _ = inside(path, "cat /proc/self/mountinfo /proc/mounts /proc/swaps; "
                               "cat /sys/block/loop*/loop/backing_file /sys/devices/virtual/block/*/loop/* ; ls /dev")
        self.assertNotIn("launcher", said)
        self.assertNotIn(sandbox, said)
        self.assertNotIn("loop", said)

    @by_loop
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

    @by_loop
    def test_many_at_once(self):
        """The same new size by several slots at a time."""
        bodies = [create_body(str(uuid.uuid4()), disk=48 * MIB) for _ in range(12)]
        answers = [self.client.wait(n) for n in [self.client.send(CREATE, body) for body in bodies]]
        self.assertEqual([a.message for a in answers if a.code != OK], [])
        self.assertEqual(len(our_loop_devices(self.instance)), 12)
        for answer in answers:
            self.assertEqual(inside(answer.socket, "echo x > /root/x")[1], 0)
        self.assertEqual(len(list((Path(self.state) / "launcher/templates").iterdir())), 1)

    @by_loop
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
                                       len([s for s in self.client.list() if s.state == 1])),
                            (our_loop_devices(self.instance), len(there)))
            for sandbox in self.client.list():
                self.assertEqual(self.client.ask(REMOVE, id_body(sandbox.id)).code, OK)

    @by_loop
    def test_cached_pages_are_the_sandboxs(self):
        """What is written stays in memory on the sandbox's account, and so does what is read."""
        _, path = self.client.create(disk=64 * MIB, memory=512 * MIB)
        said, _ = inside(path, "head -c 40000000 /dev/zero > /root/x; cat /sys/fs/cgroup/memory/memory.stat "
                               "/sys/fs/cgroup/memory.stat 2>/dev/null | grep -E '^(total_cache|file) '")
        self.assertGreater(int(said.split()[-1]), 30 * MIB, said)


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
        for value in ("15Mi", "2Pi", "-1", "x", "64MiB", ""):
            self.refused({"disk": value})
        self.refused({"disk": "64Mi", "ephemeral-storage": "65Mi"})
        self.assertIn("file system of the state directory", self.refused({"disk": "1Pi"}))

    def test_removal_leaves_nothing(self):
        before = Machine.snapshot()
        box = self.server.create(resourceLimits={"disk": "64Mi"})
        box.output("head -c 10000000 /dev/zero > /root/x")
        box.delete()
        log = self.server.log_path.read_text()
        instance = re.search(r"instance (\w+)", log).group(1)
        wait_until(lambda: not our_loop_devices(instance), what="loop device is free")
        after = Machine.snapshot()
        self.assertEqual([line for line in Machine.difference(before, after) if line.startswith("mounts")], [])

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
