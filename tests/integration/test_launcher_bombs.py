#!/usr/bin/env python3
"""Sandboxes that want more than they may have, on both versions of control groups.

What only version 2 can hold, writes that go through the page cache, is refused on version 1.
"""
import os
import sys
import time
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from launcher import (CREATE, FREEZE, FROZEN, HIT_MEMORY, HIT_PIDS, LIMITS, OK, REMOVE, RUNNING,  # noqa: E402
                      THAW, UNSUPPORTED, LauncherTest, create_body, eventually, id_body, inside, main,
                      set_limits_body)

MIB = 1 << 20
V2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
ROOM = 1.1  # a limit holds within ten percent
FORK_BOMB = "(bomb() { bomb | bomb & }; bomb) >/dev/null 2>&1 </dev/null"


class BombTest(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.client = self.connect()

    def assert_answers(self, path):
        self.assertEqual(inside(path, "echo here"), ("here\n", 0))


class Memory(BombTest):
    LIMIT = 48 * MIB

    def create(self):
        return self.client.create(memory=self.LIMIT)

    def assert_held(self, sandbox, hit):
        usage = self.client.stat(sandbox)
        self.assertLessEqual(usage.peak, self.LIMIT * ROOM)
        self.assertGreater(usage.peak, self.LIMIT * 0.5)
        self.assertEqual((usage.hit & HIT_MEMORY, usage.oom > 0), (HIT_MEMORY if hit else 0, hit))

    def test_anonymous(self):
        sandbox, path = self.create()
        said, status = inside(path, "python3 -c \"x = bytearray(400 << 20); print('PWNED')\"; true")
        self.assertEqual((said, status), ("", 0))
        self.assert_held(sandbox, True)
        self.assert_answers(path)

    def test_memory_of_files(self):
        """In /dev/shm; the last word is the shell's own, since it has no room for a program."""
        sandbox, path = self.create()
        said, status = inside(path, "dd if=/dev/zero of=/dev/shm/x bs=1M count=60 2>/dev/null; echo $?; "
                                    ": > /dev/shm/x")
        self.assertEqual((said, status), ("137\n", 0))
        self.assert_held(sandbox, True)
        self.assert_answers(path)

    def test_page_cache(self):
        """Files larger than the limit are no reason to kill anybody."""
        sandbox, path = self.create()
        said, status = inside(path, "dd if=/dev/zero of=/root/x bs=1M count=150 2>/dev/null && "
                                    "cat /root/x >/dev/null && stat -c %s /root/x")
        self.assertEqual((said, status), (f"{150 * MIB}\n", 0))
        usage = self.client.stat(sandbox)
        self.assertLessEqual(usage.peak, self.LIMIT * ROOM)
        self.assertEqual(usage.oom, 0)
        self.assert_answers(path)


class Processes(BombTest):
    LIMIT = 40

    def bomb(self):
        sandbox, path = self.client.create(pids=self.LIMIT)
        inside(path, FORK_BOMB)
        self.assertTrue(eventually(lambda: self.client.stat(sandbox).pids_refused > 0))
        usage = self.client.stat(sandbox)
        self.assertLessEqual(usage.pids, self.LIMIT)
        self.assertEqual(usage.hit & HIT_PIDS, HIT_PIDS)
        return sandbox, path

    def test_a_neighbour_answers(self):
        self.bomb()
        _, path = self.client.create()
        self.assert_answers(path)

    def test_removed_while_it_forks(self):
        sandbox, _ = self.bomb()
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.list(), [])

    def test_frozen_while_it_forks(self):
        sandbox, _ = self.bomb()
        self.assertEqual(self.client.ask(FREEZE, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.state(sandbox), FROZEN)
        before = self.client.stat(sandbox)
        time.sleep(0.5)
        after = self.client.stat(sandbox)
        self.assertEqual((after.cpu_ns, after.pids), (before.cpu_ns, before.pids))
        self.assertEqual(self.client.ask(THAW, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.state(sandbox), RUNNING)
        self.assertTrue(eventually(lambda: self.client.stat(sandbox).cpu_ns > after.cpu_ns))

    def test_removed_frozen(self):
        sandbox, _ = self.bomb()
        self.assertEqual(self.client.ask(FREEZE, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.list(), [])


class Disk(BombTest):
    """A limit is a least time for so many bytes: a slow machine cannot make these fail."""
    RATE = 4 * MIB

    def assert_takes(self, seconds, path, command, then=lambda: None):
        started = time.monotonic()
        said, status = inside(path, command + " 2>&1")
        self.assertEqual(status, 0, said)
        then()
        self.assertGreaterEqual(time.monotonic() - started, seconds / ROOM, said)

    def assert_refused(self, **limits):
        result = self.client.ask(CREATE, create_body(str(uuid.uuid4()), **limits))
        self.assertEqual(result.code, UNSUPPORTED)
        self.assertIn("buffered writes", result.message)

    def test_buffered_writes(self):
        if not V2:
            return self.assert_refused(write_bps=self.RATE)
        # The root directory of a sandbox ignores fsync, so the machine is asked to write.
        sandbox, path = self.client.create(write_bps=self.RATE)
        before = self.client.stat(sandbox)
        self.assert_takes(4, path, "dd if=/dev/zero of=/root/x bs=1M count=16", then=os.sync)
        self.assertGreaterEqual(self.client.stat(sandbox).write_bytes - before.write_bytes, 16 * MIB)
        return None

    def test_buffered_writes_below_a_memory_limit(self):
        """Nothing waits for the end: the cache is full long before."""
        if not V2:
            return self.assert_refused(write_bps=self.RATE, memory=16 * MIB)
        sandbox, path = self.client.create(write_bps=self.RATE, memory=16 * MIB)
        self.assert_takes(4, path, "dd if=/dev/zero of=/root/x bs=1M count=32")
        self.assertEqual(self.client.stat(sandbox).oom, 0)
        return None

    def test_write_operations(self):
        if not V2:
            return self.assert_refused(write_iops=50)
        _, path = self.client.create(write_iops=50)
        self.assert_takes(3, path, "dd if=/dev/zero of=/root/x bs=4k count=150 oflag=direct")
        return None

    def test_reads(self):
        sandbox, path = self.client.create()
        said, status = inside(path, "dd if=/dev/zero of=/root/x bs=1M count=16 oflag=direct 2>&1")
        self.assertEqual(status, 0, said)
        result = self.client.ask(LIMITS, set_limits_body(sandbox, read_bps=self.RATE))
        if result.code == UNSUPPORTED:
            self.skipTest(result.message)
        self.assertEqual(result.code, OK, result.message)
        before = self.client.stat(sandbox)
        self.assert_takes(4, path, "dd if=/root/x of=/dev/null bs=1M iflag=direct")
        self.assertGreaterEqual(self.client.stat(sandbox).read_bytes - before.read_bytes, 16 * MIB)

    def test_read_operations(self):
        sandbox, path = self.client.create()
        said, status = inside(path, "dd if=/dev/zero of=/root/x bs=1M count=1 oflag=direct 2>&1")
        self.assertEqual(status, 0, said)
        result = self.client.ask(LIMITS, set_limits_body(sandbox, read_iops=50))
        if result.code == UNSUPPORTED:
            self.skipTest(result.message)
        self.assert_takes(3, path, "dd if=/root/x of=/dev/null bs=4k count=150 iflag=direct")


if __name__ == "__main__":
    main()
