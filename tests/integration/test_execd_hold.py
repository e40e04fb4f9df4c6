#!/usr/bin/env python3
"""execd that waits in a pool, and the program it runs for the entrypoint that only waits."""
import contextlib
import os
import shutil
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from execd import WAIT, Execd  # noqa: E402
from harness import wait_until  # noqa: E402


class Hold(unittest.TestCase):
    def setUp(self):
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(WAIT)
        self.folder = tempfile.mkdtemp(prefix="osb-hold-")
        self.file = os.path.join(self.folder, "file")  # in place of the socket's
        name = os.open(self.file, os.O_WRONLY | os.O_CREAT, 0o600)
        os.close(name)
        name = os.open(self.file, os.O_PATH)
        self.execd = Execd("--pid1", "--hold-fd", str(theirs.fileno()), "--name-fd", str(name), unix=True,
                           pass_fds=[theirs.fileno(), name])
        theirs.close()
        os.close(name)

    def tearDown(self):
        self.ours.close()
        if self.execd.process.poll() is None:
            self.execd.stop()
        shutil.rmtree(self.execd.directory, ignore_errors=True)
        shutil.rmtree(self.folder)

    def publish(self):
        os.link(self.file, os.path.join(self.folder, "published"))

    def held(self):
        """Whether it still has the file, and the socket with it."""
        folder = f"/proc/{self.execd.process.pid}/fd"
        links = []
        for number in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                links.append(os.readlink(f"{folder}/{number}"))
        return self.file in links

    def test_says_that_it_serves(self):
        self.assertEqual(self.ours.recv(16), b"\0")
        self.assertEqual(self.execd.request("GET", "/ping")[0], 200)

    def test_nobody_wants_it(self):
        self.ours.recv(16)
        self.ours.close()
        self.assertEqual(self.execd.process.wait(WAIT), 0)

    def test_the_launcher_is_killed_before_it_serves(self):
        self.ours.close()  # with what it says, or will say, unread
        self.assertIn(self.execd.process.wait(WAIT), (0, 1))

    def test_wanted_it_lives_on_alone(self):
        self.ours.recv(16)
        self.publish()
        self.ours.close()
        wait_until(lambda: not self.held(), WAIT, "the end was seen")
        self.assertEqual(self.execd.request("GET", "/ping")[0], 200)
        self.assertIsNone(self.execd.process.poll())

    def test_a_word_alone_changes_nothing(self):
        self.ours.recv(16)
        self.ours.send(b"\0")
        self.ours.close()
        self.assertEqual(self.execd.process.wait(WAIT), 0)

    def test_what_was_taken_back_is_not_wanted(self):
        self.ours.recv(16)
        self.publish()
        os.unlink(os.path.join(self.folder, "published"))
        self.ours.close()
        self.assertEqual(self.execd.process.wait(WAIT), 0)

    def test_works_before_it_is_wanted(self):
        self.ours.recv(16)
        status, answer = self.execd.json("POST", "/internal/start", {"entrypoint": ["sleep", "1000"]})
        self.assertEqual(status, 200, answer)

    def test_neither_is_inherited(self):
        self.ours.recv(16)
        self.execd.json("POST", "/internal/start", {"entrypoint": ["sleep", "1000"]})
        events = self.execd.run("readlink /proc/self/fd/* | grep -c -e socket -e osb-hold")
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
