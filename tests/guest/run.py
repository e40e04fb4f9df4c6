#!/usr/bin/env python3
"""Boots a machine with version 2 control groups and Debian's kernel under qemu and runs suites in it.

    tests/guest/run.py [--build DIR] [--match GLOB] [--tests PATTERN]    TAP; names are SUITE::TEST
    tests/guest/run.py --shell                                           a shell in it

tests/guest/suites.txt says which suites, and how many of their tests must pass.
"""
import argparse
import ctypes
import fnmatch
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
import build  # noqa: E402  (which makes tests/support known)
from fresh import source_files  # noqa: E402
from inside import MARK  # noqa: E402
from suites import read_suites  # noqa: E402

MEMORY = "3G"
STATE_BYTES = 8 << 30
SUITE_SECONDS = 900     # by the guest's clock
BOOT_SECONDS = 180      # until the first suite begins
RESULT = re.compile(r"^(not ok|ok)\s+\d+\s*(?:-\s*)?(\S.*)$")
PR_SET_PDEATHSIG = 1


def command_of(name):
    kind, rest = name.split(".", 1)
    if kind == "unit":
        return [f"build/tests/unit-{rest.replace('.', '-', 1)}"]
    return ["python3", "-B", "tests/support/tap.py", f"tests/{kind}/test_{rest}.py"]


def make_plan(suites, pattern):
    env = {"OSB_BIN_DIR": "/opt/build/bin", "OSB_BUILD_DIR": "/opt/build", "OSB_GUEST": "1",
           "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    return [{"name": suite.name, "timeout": SUITE_SECONDS, "env": env,
             "command": command_of(suite.name) + ([pattern or suite.pattern] if pattern or suite.pattern else [])}
            for suite in suites]


def make_test_disk(folder, programs, plan):
    """Our programs and tests, as a checkout has them, on a disk of their own."""
    tree = folder / "opt"
    for name in source_files():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    shutil.copytree(programs / "bin", tree / "build/bin")
    (tree / "build/tests").mkdir()
    for program in (programs / "tests").glob("unit-*"):
        shutil.copy2(program, tree / "build/tests")
    (tree / "plan.json").write_text(json.dumps(plan, indent=1))
    size = sum(p.stat().st_size for p in tree.rglob("*") if p.is_file())
    build.make_disk(tree, folder / "tests.ext4", (64 << 20) + size * 2)


def machine(folder, made, mode):
    def disk(path, options=""):
        return ["-drive", f"file={path},format=raw,if=virtio,cache=unsafe{options}"]
    return ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", MEMORY,
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", str(made / "vmlinuz"), "-initrd", str(made / "initrd"),
            "-append", f"console=ttyS0 quiet loglevel=4 panic=-1 rootwait mitigations=off osb.mode={mode}",
            *disk(made / "root.ext4", ",snapshot=on"), *disk(folder / "tests.ext4", ",readonly=on"),
            *disk(folder / "state.ext4")]


def die_with_us():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def lines_of(process, seconds):
    """What comes over the wire, line by line, until it ends or the time is up."""
    deadline = time.monotonic() + seconds
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not selector.select(1):
                continue
            data = os.read(process.stdout.fileno(), 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace").rstrip("\r")
    print(f"# the guest did not end within {seconds} s", flush=True)


class Report:
    """Puts the suites' numbers and names together to one stream of TAP."""

    def __init__(self):
        self.number = 0
        self.suite = None
        self.complete = False
        self.passed = {}
        self.failed = False
        self.failed_before = False

    def result(self, verdict, name):
        self.number += 1
        print(f"{verdict} {self.number} - {name}", flush=True)
        self.failed |= verdict != "ok"
        if verdict == "ok" and "# SKIP" not in name:
            self.passed[self.suite] = self.passed.get(self.suite, 0) + 1

    def line(self, line):
        words = line.removeprefix(MARK).split()
        if line.startswith(MARK + "begin"):
            self.suite, self.failed_before = words[1], self.failed
            print(f"# begins {self.suite}", flush=True)
        elif line.startswith(MARK + "end"):
            if words[2] != "0" and self.failed == self.failed_before:
                self.result("not ok", f"{self.suite}::ends-well")
            print(f"# ended {self.suite} with {words[2]}, {words[3]} s by the guest's clock", flush=True)
        elif line.startswith(MARK + "complete"):
            self.complete = True
        elif (match := RESULT.match(line)) and self.suite:
            name = re.sub(r"^# SKIP (\S+)", r"\1 # SKIP not possible here", match.group(2))
            skipped = "# SKIP" in name
            self.result("ok" if skipped else match.group(1), f"{self.suite}::{name}")
        else:
            print(line if line.startswith("#") else f"# {line}", flush=True)

    def conclude(self, suites):
        if not self.complete:
            self.result("not ok", "boot::completes")
        for suite in suites:
            if self.passed.get(suite.name, 0) < suite.minimum:
                self.result("not ok", f"{suite.name}::count")
                print(f"# {self.passed.get(suite.name, 0)} passed, suites.txt wants {suite.minimum}", flush=True)
        print(f"1..{self.number}", flush=True)
        return 1 if self.failed else 0


def run(arguments, suites, folder, made):
    plan = make_plan(suites, arguments.tests)
    make_test_disk(folder, arguments.build, plan)
    build.make_disk(None, folder / "state.ext4", STATE_BYTES, "-O", "quota,project", "-E", "quotatype=prjquota")
    mode = "shell" if arguments.shell else "plan"
    command = machine(folder, made, mode) + arguments.qemu.split()
    if arguments.shell:
        print("# leave it with `exit`", flush=True)
        return subprocess.run([*command, "-serial", "mon:stdio"], preexec_fn=die_with_us).returncode
    console = folder / "console"
    process = subprocess.Popen([*command, "-serial", f"file:{console}",
                                "-chardev", "stdio,id=tap,signal=off", "-serial", "chardev:tap"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=die_with_us)
    report = Report()
    try:
        for line in lines_of(process, arguments.seconds):
            report.line(line)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    status = report.conclude([] if arguments.tests else suites)
    if status and console.exists():
        for line in console.read_text(errors="replace").splitlines()[-40:]:
            print(f"# console: {line}", flush=True)
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=Path, help="build directory")
    parser.add_argument("--match", default="*", help="only suites whose name fits this glob")
    parser.add_argument("--tests", help="only tests whose name has this, and no count is wanted")
    parser.add_argument("--seconds", type=int, default=1500, help="then it is ended")
    parser.add_argument("--shell", action="store_true", help="a shell instead of the suites")
    parser.add_argument("--qemu", default="", help="further words for qemu")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    suites = [s for s in read_suites() if fnmatch.fnmatchcase(s.name, arguments.match)]
    if not suites:
        sys.exit(f"no suite of tests/guest/suites.txt fits {arguments.match}")
    made = build.ensure(lambda text: print(f"# {text}", flush=True))
    with tempfile.TemporaryDirectory(prefix="osb-guest-", dir="/var/tmp") as folder:
        sys.exit(run(arguments, suites, Path(folder), made))


if __name__ == "__main__":
    main()
