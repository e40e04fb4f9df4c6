"""The whole of `make test` on a machine with nothing but make."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from fresh import FreshTree  # noqa: E402
from harness import Machine  # noqa: E402


class MakeTestOnFreshDebian(unittest.TestCase):
    def test_passes_and_ends_with_counts_and_ledger(self):
        before = Machine.snapshot()
        with FreshTree() as fresh:
            process = fresh.start("make", "test")
            text = ""
            for line in process.stdout:
                print("# " + line.rstrip("\n"), flush=True)
                text += line
            self.assertEqual(process.wait(), 0)
        self.assertRegex(text, r"\n[0-9]+ passed, 0 failed, ")
        self.assertRegex(text, r"Acceptance ledger\n(PASS|SKIP) ")
        self.assertRegex(text, r"\nhost: [0-9]+ passed, 0 failed, .*\nguest: [0-9]+ passed, 0 failed, .*\n$")
        self.assertEqual(Machine.difference(before, Machine.snapshot()), [])


if __name__ == "__main__":
    unittest.main()
