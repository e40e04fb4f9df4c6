"""/metrics and /metrics/watch of a real execd."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from execd import BINARY, WAIT, Execd, ExecdCase, wait_until  # noqa: E402

FIELDS = {"cpu_count", "cpu_used_pct", "mem_total_mib", "mem_used_mib", "timestamp",
          "cpu_used_percentage", "memory_total_in_mib", "memory_used_in_mib"}


class Watch:
    """A reader of /metrics/watch that sees the bytes as they come."""

    def __init__(self, execd):
        self.sock = socket.create_connection(("127.0.0.1", execd.port), timeout=WAIT)
        self.sock.sendall(b"GET /metrics/watch HTTP/1.1\r\nHost: x\r\n\r\n")
        self.file = self.sock.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        for line in iter(self.file.readline, b"\r\n"):
            name, value = line.decode().split(": ", 1)
            self.headers[name.lower()] = value.strip()

    def chunk(self):
        size = int(self.file.readline(), 16)
        data = self.file.read(size)
        self.file.read(2)
        return data

    def close(self):
        self.file.close()
        self.sock.close()


class Metrics(ExecdCase):
    def check(self, sample):
        self.assertEqual(set(sample), FIELDS)
        self.assertIs(type(sample["cpu_count"]), int)
        self.assertTrue(1 <= sample["cpu_count"] <= len(os.sched_getaffinity(0)))
        self.assertTrue(0 <= sample["cpu_used_pct"] <= 100)
        self.assertTrue(0 <= sample["mem_used_mib"] <= sample["mem_total_mib"])
        self.assertGreater(sample["mem_total_mib"], 1)
        self.assertIs(type(sample["timestamp"]), int)
        self.assertEqual(sample["cpu_used_percentage"], sample["cpu_used_pct"])
        self.assertEqual(sample["memory_total_in_mib"], sample["mem_total_mib"])
        self.assertEqual(sample["memory_used_in_mib"], sample["mem_used_mib"])

    def test_one_sample(self):
        status, response, body = self.execd.request("GET", "/metrics")
        self.assertEqual((status, response.getheader("Content-Type")), (200, "application/json"))
        self.check(json.loads(body))
        # Integer literals: some clients refuse 2.0.
        self.assertRegex(body, rb'"cpu_count":\d+,')
        self.assertRegex(body, rb'"timestamp":\d{13},')

    def test_many_in_a_row_do_not_wait(self):
        connection = self.execd.connect()
        for _ in range(50):  # the reference would take 50 seconds, and the suite its time-out
            status, _, body = self.execd.request("GET", "/metrics", connection=connection)
            self.assertEqual(status, 200)
            self.check(json.loads(body))
        connection.close()

    def test_the_loop_is_not_held(self):
        """While a first answer waits for its second look, others are served."""
        execd = Execd()
        try:
            slow = execd.connect()
            slow.request("GET", "/metrics")
            for _ in range(5):
                self.assertEqual(execd.request("GET", "/ping")[0], 200)
            response = slow.getresponse()
            self.check(json.loads(response.read()))
            slow.close()
        finally:
            self.assertEqual(execd.stop(), 0)

    def test_work_shows(self):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
        try:
            wait_until(lambda: self.execd.json("GET", "/metrics")[1]["cpu_used_pct"] > 60, "busy loops show")
        finally:
            for process in busy:
                process.kill()
                process.wait()

    def test_watch(self):
        watch = Watch(self.execd)
        self.assertEqual(watch.status, 200)
        self.assertEqual(watch.headers["content-type"], "text/event-stream")
        self.assertEqual(watch.headers["cache-control"], "no-cache")
        self.assertEqual(watch.headers["x-accel-buffering"], "no")
        stamps = []
        for _ in range(3):
            data = watch.chunk()
            self.assertTrue(data.endswith(b"}\n\n") and data.count(b"\n") == 2, data)
            sample = json.loads(data)
            self.check(sample)
            stamps.append(sample["timestamp"])
        watch.close()
        self.assertEqual(stamps, sorted(stamps))

    def test_watchers_that_leave_are_forgotten(self):
        def fds():
            return len(os.listdir(f"/proc/{self.execd.process.pid}/fd"))
        before = fds()
        for _ in range(100):  # more than may be there at once
            watch = Watch(self.execd)
            self.assertEqual(watch.status, 200)
            watch.close()
        wait_until(lambda: fds() <= before, "their connections are closed")

    def test_watchers_are_bounded(self):
        with contextlib.ExitStack() as stack:
            watches = []
            for _ in range(65):
                watch = Watch(self.execd)
                stack.callback(watch.close)
                watches.append(watch)
            self.assertEqual([w.status for w in watches], [200] * 64 + [503])
            error = json.loads(watches[-1].file.read(int(watches[-1].headers["content-length"])))
            self.assertEqual(error, {"code": "RUNTIME_ERROR",
                                     "message": "64 clients watch already, which is the limit"})
            self.check(self.execd.json("GET", "/metrics")[1])
            for watch in watches[:64]:
                self.check(json.loads(watch.chunk()))
        wait_until(lambda: self.try_watch() == 200, "there is room again")

    def try_watch(self):
        watch = Watch(self.execd)
        watch.close()
        return watch.status

    def test_ends_with_execd(self):
        execd = Execd()
        watch = Watch(execd)
        watch.chunk()
        execd.process.send_signal(signal.SIGTERM)
        self.assertEqual(execd.stop(), 0)
        watch.close()


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class Group(unittest.TestCase):
    """Inside a memory group with a limit, as a container has one."""

    def setUp(self):
        self.group = f"/sys/fs/cgroup/memory/osb-test-{os.getpid()}"
        try:
            os.mkdir(self.group)
        except OSError as error:
            self.skipTest(f"no memory group of version 1 can be made here: {error}")
        self.addCleanup(self.remove)

    def remove(self):
        wait_until(lambda: not self.members(), "the group is empty")
        os.rmdir(self.group)

    def members(self):
        with open(os.path.join(self.group, "cgroup.procs"), encoding="ascii") as file:
            return file.read().split()

    def write(self, name, value):
        with open(os.path.join(self.group, name), "w", encoding="ascii") as file:
            file.write(value)

    def test_limit_and_use_are_the_groups(self):
        self.write("memory.limit_in_bytes", str(300 << 20))
        join = f"echo $$ >{self.group}/cgroup.procs && exec \"$@\""
        execd = Execd(command=["sh", "-c", join, "sh", BINARY])
        try:
            before = execd.json("GET", "/metrics")[1]
            self.assertEqual(before["mem_total_mib"], 300)
            self.assertLess(before["mem_used_mib"], 150)
            sock = execd.open_stream("exec tail -c +1 /dev/zero | head -c 40000000 | tail -c 40000000 | sleep 1000")
            wait_until(lambda: execd.json("GET", "/metrics")[1]["mem_used_mib"] > before["mem_used_mib"] + 20,
                       "40 MB held in memory show")
            sock.close()
        finally:
            execd.stop()


if __name__ == "__main__":
    unittest.main()
