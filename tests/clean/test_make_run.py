"""`make run` on a machine with nothing but make: no compiler, no Python, no libraries."""
import os
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from fresh import FreshTree  # noqa: E402
from harness import Machine, pids_with_argument, wait_until  # noqa: E402


class MakeRunOnFreshDebian(unittest.TestCase):
    def test_shows_a_sandboxed_command(self):
        before = Machine.snapshot()
        with FreshTree() as fresh:
            self.assertFalse((fresh.tree / "usr/bin/gcc").exists())
            self.assertFalse((fresh.tree / "usr/bin/python3").exists())
            process = fresh.start("make", "run")
            text = ""
            try:
                while "until you press Ctrl-C" not in text:
                    line = process.stdout.readline()
                    self.assertTrue(line, text)
                    text += line
                self.assertIn("hello from Linux", text)
                self.assertIn("1267650600228229401496703205376", text)
            finally:
                for pid in pids_with_argument("scripts/run.py"):
                    self.interrupt_if_inside(pid, fresh.tree)
                rest, _ = process.communicate(timeout=60)
            wait_until(lambda: not self.inside(fresh.tree), what="programs in the tree end")
        self.assertEqual(Machine.difference(before, Machine.snapshot()), [], text + rest)

    @staticmethod
    def inside(tree):
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    # Not the whole path: a process in another mount namespace shows it from that
                    # namespace's root, which is not ours when we are in a chroot ourselves.
                    if tree.parent.name in str((entry / "root").readlink()):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def interrupt_if_inside(self, pid, tree):
        if pid in self.inside(tree):
            os.kill(pid, signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
