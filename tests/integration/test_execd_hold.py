#!/usr/bin/env python3
"""execd that waits in a pool, and the program it runs for the entrypoint that only waits."""
import os
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from execd import WAIT, Execd  # noqa: E402


class Hold(unittest.TestCase):
    def setUp(self):
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(WAIT)
        self.execd = Execd("--pid1", "--hold-fd", str(theirs.fileno()), unix=True, pass_fds=[theirs.fileno()])
        theirs.close()

    def tearDown(self):
        self.ours.close()
        if self.execd.process.poll() is None:
            self.execd.stop()

    def test_says_that_it_serves(self):
        self.assertEqual(self.ours.recv(16), b"\0")
        self.assertEqual(self.execd.request("GET", "/ping")[0], 200)

    def test_nobody_wants_it(self):
        self.ours.recv(16)
        self.ours.close()
        self.assertEqual(self.execd.process.wait(WAIT), 0)

    def test_wanted_it_lives_on_alone(self):
        self.ours.recv(16)
        self.ours.send(b"\0")
        self.assertEqual(self.ours.recv(16), b"")  # it has closed its end
        self.ours.close()
        self.assertEqual(self.execd.request("GET", "/ping")[0], 200)
        self.assertIsNone(self.execd.process.poll())

    def test_wanted_by_one_that_died_at_once(self):
        self.ours.recv(16)
        self.ours.send(b"\0")
        self.ours.close()
        self.assertEqual(self.execd.request("GET", "/ping")[0], 200)
        self.assertIsNone(self.execd.process.poll())

    def test_works_before_it_is_wanted(self):
        self.ours.recv(16)
        status, answer = self.execd.json("POST", "/internal/start", {"entrypoint": ["sleep", "1000"]})
        self.assertEqual(status, 200, answer)

    def test_the_socket_is_not_inherited(self):
        self.ours.recv(16)
        self.execd.json("POST", "/internal/start", {"entrypoint": ["sleep", "1000"]})
        events = self.execd.run("readlink /proc/self/fd/* | grep -c socket")
        self.assertIn("0", [event.get("text") for event in events])


class Idle(unittest.TestCase):
    """The program is a copy of true: that it ran shows in the sandbox's end."""

    def start(self, entrypoint):
        with tempfile.TemporaryDirectory(prefix="osb-execd-") as folder:
            path = os.path.join(folder, "idle")
            with open("/bin/true", "rb") as source, open(path, "wb") as copy:
                copy.write(source.read())
            os.chmod(path, 0o755)
            fd = os.open(path, os.O_PATH)
            execd = Execd("--pid1", "--idle-fd", str(fd), unix=True, pass_fds=[fd])
            os.close(fd)
            status, answer = execd.json("POST", "/internal/start", {"entrypoint": entrypoint})
            self.assertEqual(status, 200, answer)
            return execd

    def test_runs_for_the_entrypoint_that_only_waits(self):
        self.assertEqual(self.start(["tail", "-f", "/dev/null"]).process.wait(WAIT), 0)

    def test_runs_for_no_other(self):
        execd = self.start(["tail", "-n", "0", "-f", "/dev/null"])
        try:
            self.assertIsNone(execd.process.poll())
            events = execd.run("true")
            self.assertEqual(events[-1]["type"], "execution_complete")
        finally:
            execd.stop()


if __name__ == "__main__":
    unittest.main()
