"""The crowd of tests/integration/execd_commands_many.py, 20 times over against one execd: 200,000 commands,
after which neither memory nor open files may have grown."""
import os
import sys
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "integration"), os.path.join(TESTS, "support")]
import execd_commands_many  # noqa: E402


class Soak(execd_commands_many.Many):
    test_crowd = None

    def test_twenty_crowds(self):
        self.run_crowds(20)


if __name__ == "__main__":
    unittest.main()
