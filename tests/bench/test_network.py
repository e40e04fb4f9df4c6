"""How fast sandboxes of network mode nat are beside a plain veth pair."""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = os.environ.get("OSB_BUILD_DIR", str(ROOT / "build"))
RATIO = 0.8


class Network(unittest.TestCase):
    def test_nat_beside_a_plain_pair(self):
        done = subprocess.run([sys.executable, ROOT / "bench/network.py", "--build", BUILD], capture_output=True,
                              text=True)
        print(*(f"# {line}" for line in done.stdout.splitlines()), sep="\n", flush=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        ratios = [float(found) for found in re.findall(r"ratio ([0-9.]+)", done.stdout)]
        self.assertEqual(len(ratios), 2, done.stdout)
        self.assertGreaterEqual(min(ratios), RATIO, done.stdout)


if __name__ == "__main__":
    unittest.main()
