"""A thousand idle sandboxes at once: what each costs, and that nothing of them is left."""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = os.environ.get("OSB_BUILD_DIR", str(ROOT / "build"))
EACH_MIB = 1.0  # never more; 0.7 to 0.8 are measured, the goal is 0.5


class Memory(unittest.TestCase):
    def test_a_thousand_cost_what_they_may_and_leave_nothing(self):
        done = subprocess.run([sys.executable, ROOT / "bench/memory.py", "--build", BUILD], capture_output=True,
                              text=True)
        print(*(f"# {line}" for line in done.stdout.splitlines()), sep="\n", flush=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        each, *split = re.search(r"each ([0-9.]+) MiB: execd (\d+) KiB, entrypoint (\d+) KiB, kernel (\d+) KiB",
                                 done.stdout).groups()
        self.assertLessEqual(float(each), EACH_MIB)
        self.assertTrue(all(int(part) > 0 for part in split), done.stdout)
        self.assertIn("left behind: nothing", done.stdout)


if __name__ == "__main__":
    unittest.main()
