"""The benchmark of a command's round trip works: every row is there with its figures. No time is asserted."""
import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("OSB_BUILD_DIR", str(ROOT / "build")))
os.environ.setdefault("OSB_BIN_DIR", str(BUILD / "bin"))
sys.path.insert(0, str(ROOT / "tests/support"))
from execd import Execd  # noqa: E402


class BenchCommand(unittest.TestCase):
    def test_prints_percentiles_and_ratios_for_both_pacings(self):
        execd = Execd()
        try:
            done = subprocess.run([BUILD / "bin/bench-command", "127.0.0.1", str(execd.port), "20", "5", "100"],
                                  capture_output=True, text=True, check=False)
        finally:
            execd.stop()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print("".join(f"# {line}\n" for line in done.stdout.splitlines()), end="", flush=True)
        numbers = r"\s+[0-9.]+\s+[0-9.]+\s+[0-9.]+"
        for pacing in ("back to back", "after 100 ms idle"):
            self.assertRegex(done.stdout, rf"{pacing}\s+execd\s+\d+{numbers}\s+ms")
            self.assertRegex(done.stdout, rf"{pacing}\s+fork\+exec\s+\d+{numbers}\s+ms")
            self.assertRegex(done.stdout, rf"{pacing}\s+ratio{numbers}")


if __name__ == "__main__":
    unittest.main()
