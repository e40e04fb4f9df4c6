#!/usr/bin/env python3
"""What opensandbox-launcher says that sandboxes have used.

Run as root:  OSB_BIN_DIR=build/bin python3 tests/integration/test_launcher_usage.py
"""
import os
import signal
import sys
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from launcher import (EXITED, HIT_CPU, KILL, LauncherTest, OK, REMOVE, RUNNING, STAT, eventually,
                      id_body, inside, main, upper_of)  # noqa: E402

MIB = 1 << 20


class Usage(LauncherTest):
    METER = "1"

    def setUp(self):
        super().setUp()
        self.start("--meter-seconds", self.METER)
        self.client = self.connect()

    def restart(self, number=signal.SIGKILL):
        self.crash(number)
        self.start("--meter-seconds", self.METER)
        self.client = self.connect()

    def hold(self, sandbox, path, mebibytes):
        inside(path, f"python3 -c 'import time; x = b\"x\" * ({mebibytes} << 20);"
                     " open(\"/tmp/up\", \"w\"); time.sleep(1000)' > /dev/null 2>&1 < /dev/null &")
        up = f"{upper_of(self.state, sandbox)}/.root/tmp/up"
        self.assertTrue(eventually(lambda: os.path.exists(up)))

    def test_cpu(self):
        sandbox, path = self.client.create(cpu=100)
        before = self.client.stat(sandbox)
        inside(path, "timeout 1.5 sh -c 'while :; do :; done'")
        after = self.client.stat(sandbox)
        used = (after.cpu_ns - before.cpu_ns) / 1e9
        self.assertGreater(used, 0.05)
        self.assertLess(used, 2)
        self.assertGreater(after.throttled, 0)
        self.assertTrue(after.hit & HIT_CPU)

    def test_memory(self):
        sandbox, path = self.client.create()
        self.hold(sandbox, path, 50)
        first = self.client.stat(sandbox)
        self.assertEqual(first.state, RUNNING)
        self.assertGreater(first.memory, 45 * MIB)
        self.assertLess(first.memory, 100 * MIB)
        self.assertGreaterEqual(first.peak, first.memory)
        self.assertGreaterEqual(first.pids, 1)
        time.sleep(1.5)
        second = self.client.stat(sandbox)
        milliseconds = second.read_ms - first.read_ms
        grown = second.mib_ms - first.mib_ms
        self.assertGreater(grown, 45 * milliseconds * 0.9)
        self.assertLess(grown, 100 * milliseconds)
        self.assertEqual((second.rx, second.tx), (0, 0))

    def test_disk(self):
        """Written through to the disk, so that v1 sees it too."""
        sandbox, path = self.client.create()
        before = self.client.stat(sandbox)
        said, status = inside(path, "dd if=/dev/zero of=/root/x bs=1M count=8 oflag=direct 2>&1")
        self.assertEqual(status, 0, said)
        if not eventually(lambda: self.client.stat(sandbox).write_bytes > before.write_bytes, 5):
            self.skipTest("the disk below the state directory has no I/O accounting")
        after = self.client.stat(sandbox)
        self.assertGreaterEqual(after.write_bytes - before.write_bytes, 8 * MIB)
        self.assertGreater(after.write_ops, before.write_ops)

    def assert_goes_on(self, number):
        sandbox, path = self.client.create()
        self.hold(sandbox, path, 40)
        inside(path, "timeout 0.3 sh -c 'while :; do :; done'")
        time.sleep(1.2)
        before = self.client.stat(sandbox)
        self.restart(number)
        time.sleep(0.2)
        after = self.client.stat(sandbox)
        for old, new in zip(before.counters(), after.counters()):
            self.assertGreaterEqual(new, old)
        return before, after

    def test_over_a_graceful_restart(self):
        before, after = self.assert_goes_on(signal.SIGTERM)
        gap = after.read_ms - before.read_ms
        self.assertGreater(after.mib_ms - before.mib_ms, 38 * gap * 0.9)
        self.assertLess(after.mib_ms - before.mib_ms, 100 * gap)

    def test_over_a_kill(self):
        """What was read since the file was written is integrated again, over the gap."""
        sandbox, path = self.client.create()
        self.hold(sandbox, path, 40)
        self.restart(signal.SIGTERM)  # writes the file
        saved = self.client.stat(sandbox)
        time.sleep(1)
        self.restart(signal.SIGKILL)
        after = self.client.stat(sandbox)
        gap = after.read_ms - saved.read_ms
        self.assertGreater(after.mib_ms - saved.mib_ms, 38 * gap * 0.9)
        self.assertLess(after.mib_ms - saved.mib_ms, 100 * gap)

    def test_after_the_end(self):
        sandbox, path = self.client.create()
        self.hold(sandbox, path, 40)
        inside(path, "timeout 0.3 sh -c 'while :; do :; done'")
        before = self.client.stat(sandbox)
        self.client.ask(KILL, id_body(sandbox))
        self.client.wait_exit(sandbox)
        ended = self.client.stat(sandbox)
        self.assertEqual((ended.state, ended.memory, ended.pids), (EXITED, 0, 0))
        for old, new in zip(before.counters(), ended.counters()):
            self.assertGreaterEqual(new, old)
        time.sleep(0.1)
        self.assertEqual(self.client.stat(sandbox).counters(), ended.counters())
        self.restart()
        self.assertEqual(self.client.stat(sandbox).counters(), ended.counters())

    def test_damaged_file(self):
        sandbox, path = self.client.create()
        self.restart(signal.SIGTERM)
        self.crash()
        with open(f"{self.state}/launcher/sandboxes/{sandbox}/usage", "a") as file:
            file.write("x")
        self.start()
        self.client = self.connect()
        self.assertGreater(self.client.stat(sandbox).cpu_ns, 0)
        self.assertIn("usage is damaged", self.read_log())

    def test_read_by_itself(self):
        """Memory that is used and given back between two STATs was seen by the timer."""
        sandbox, path = self.client.create()
        before = self.client.stat(sandbox)
        inside(path, "python3 -c 'import time; x = b\"x\" * (60 << 20); time.sleep(2.5)'")
        after = self.client.stat(sandbox)
        self.assertGreater(after.mib_ms - before.mib_ms, 60 * 700)

    def test_pages(self):
        made = [self.client.create()[0] for _ in range(70)]
        items, more = self.client.ask(STAT, id_body(""))
        self.assertEqual((len(items), more), (64, 1))
        found = self.client.list(STAT)
        self.assertEqual([one.id for one in found], sorted(made))
        for one in made:
            self.assertEqual(self.client.ask(REMOVE, id_body(one)).code, OK)
        self.assertEqual(self.client.list(STAT), [])


class Unmetered(Usage):
    METER = "0"

    def test_read_by_itself(self):
        """Without the timer only the ends are seen."""
        sandbox, path = self.client.create()
        before = self.client.stat(sandbox)
        inside(path, "python3 -c 'import time; x = b\"x\" * (60 << 20); time.sleep(2.5)'")
        after = self.client.stat(sandbox)
        self.assertLess(after.mib_ms - before.mib_ms, 60 * 700)
        self.assertGreater(after.peak, 60 * MIB)

    test_pages = test_cpu = test_disk = test_after_the_end = test_damaged_file = None


if __name__ == "__main__":
    main()
