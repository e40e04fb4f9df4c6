"""Stops or fails a launcher at its n-th system call: the Python end of tests/support/fault.c.

    with Fault(process.pid) as fault:
        fault.arm("launcher", 7, errno.ENOMEM)
        ...                                     # the operation, until nothing of it is under way
        fault.disarm()                          # the call that failed, or None: it made fewer

`before` and `after` in the place of an errno kill the process at that side of the call.
"""
import os
import subprocess
from pathlib import Path

BUILD = Path(os.environ.get("OSB_BUILD_DIR", Path(__file__).resolve().parent.parent.parent / "build"))
PROGRAM = BUILD / "tests/support/fault"


class Fault:
    def __init__(self, pid, never=()):
        """`never`: calls that are left alone, as "name" or ("name", argument, value)."""
        self.process = subprocess.Popen([PROGRAM, str(pid)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.counted = 0
        for call in never:
            words = [call] if isinstance(call, str) else map(str, call)
            assert self._ask("never " + " ".join(words)) == "ok", call

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            assert self.process.wait(20) == 0
        self.process.stdout.close()

    def _ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def arm(self, role, number, how):
        answer = self._ask(f"arm {role} {number} {how}")
        assert answer == "armed", answer

    def disarm(self):
        kind, rest = self._ask("disarm").split(" ", 1)
        if kind == "hit":
            return rest
        self.counted = int(rest)
        return None
