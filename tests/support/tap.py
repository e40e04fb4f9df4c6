"""Runs one unittest file and prints its outcome as TAP, one line per test.

Usage: python3 tests/support/tap.py FILE [PATTERN...]
The same protocol comes from the C unit tests, so that one runner counts them all.
"""
import importlib.util
import sys
import time
import traceback
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))


class TapResult(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.number = 0
        self.started = 0.0

    def _name(self, test):
        if hasattr(test, "_testMethodName"):
            return f"{type(test).__name__}.{test._testMethodName}"
        return str(test).replace(" ", "_")

    def _line(self, outcome, test, remark=""):
        self.number += 1
        print(f"{outcome} {self.number} - {self._name(test)}{remark}", flush=True)

    def _trouble(self, test, err):
        self._line("not ok", test)
        for line in "".join(traceback.format_exception(*err)).rstrip().split("\n"):
            print(f"# {line}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def addSuccess(self, test):
        self._line("ok", test, f" # {time.monotonic() - self.started:.2f}s")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._trouble(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._trouble(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line("ok", test, f" # SKIP {reason}")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._trouble(subtest, err)


def main():
    path = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    loader = unittest.TestLoader()
    if len(sys.argv) > 2:
        loader.testNamePatterns = [f"*{pattern}*" for pattern in sys.argv[2:]]
    suite = loader.loadTestsFromModule(module)
    result = TapResult()
    suite.run(result)
    print(f"1..{result.number}")
    sys.exit(0 if result.wasSuccessful() and result.number > 0 else 1)


if __name__ == "__main__":
    main()
