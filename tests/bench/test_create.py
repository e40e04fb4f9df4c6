"""The benchmark itself works: every row is there with its figures. No time is asserted."""
import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = os.environ.get("OSB_BUILD_DIR", str(ROOT / "build"))


def bwrap_problem():
    """Why the peer cannot run here, or None: a chroot forbids the user namespace it needs."""
    done = subprocess.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"],
                          capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()


@unittest.skipIf(bwrap_problem(), f"the peer cannot run here: {bwrap_problem()}")
class BenchCreate(unittest.TestCase):
    def test_prints_percentiles_and_ratios_for_both_pacings(self):
        done = subprocess.run([sys.executable, ROOT / "bench/run.py", "--build", BUILD, "--count", "20",
                               "--idle-count", "5", "--idle-ms", "50", "--burst", "10", "--rounds", "2",
                               "--memory", "0"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        numbers = r"\s+[0-9.]+\s+[0-9.]+\s+[0-9.]+"
        for pacing in ("back to back", "after 50 ms idle"):
            self.assertRegex(done.stdout, rf"{pacing}\s+launcher\s+\d+{numbers}\s+ms")
            self.assertRegex(done.stdout, rf"{pacing}\s+opensandbox\s+\d+{numbers}\s+ms")
            self.assertRegex(done.stdout, rf"{pacing}\s+bwrap\s+\d+{numbers}\s+ms")
            self.assertRegex(done.stdout, rf"{pacing}\s+ratio{numbers}")
        self.assertIn("bwrap --unshare-all", done.stdout)
        self.assertRegex(done.stdout, r"10 at once, each with a command answered")
        self.assertRegex(done.stdout, r"opensandbox\s+\d+\s+\d+\s+\d+  ms \(best, median, worst of 2\)")


if __name__ == "__main__":
    unittest.main()
