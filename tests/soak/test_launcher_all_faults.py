"""The launcher killed ten times as often, at every system call, and every call failing with every error."""
import os
import sys
import unittest

os.environ.setdefault("OSB_KILLS", "5000")
os.environ.setdefault("OSB_ALL_STEPS", "1")
os.environ.setdefault("OSB_FAULT_ROUNDS", "6")
TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "integration"), os.path.join(TESTS, "support")]
from test_launcher_faults import Faults, FaultsToOrder, FaultsWithoutPool  # noqa: E402,F401
from test_launcher_kill import Random, Steps, StepsToOrder, StepsWithoutPool  # noqa: E402,F401

if __name__ == "__main__":
    unittest.main()
