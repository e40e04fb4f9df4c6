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
from suites import read_suites, too_few  # noqa: E402

MEMORY = "3G"
STATE_BYTES = 8 << 30
SUITE_SECONDS = 900     # by the guest's clock
RESULT = re.compile(r"^(not ok|ok)\s+\d+\s*(?:-\s*)?(\S.*)$")
PR_SET_PDEATHSIG = 1


def command_of(name):
    kind, rest = name.split(".", 1)
    if kind == "unit":
        return [f"build/tests/unit-{rest.replace('.', '-', 1)}"]
    return ["python3", "-B", "tests/support/tap.py", f"tests/{kind}/test_{rest}.py"]


def make_plan(suites, pattern):
    env = {"OSB_BIN_DIR": "/opt/build/bin", "OSB_BUILD_DIR": "/opt/build", "OSB_SLOW": "4",
           "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    return [{"name": suite.name, "timeout": SUITE_SECONDS, "env": {**env, **suite.env},
             "command": command_of(suite.name) + ([pattern] if pattern else suite.patterns)}
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
    if (programs / "tests/support").exists():
        shutil.copytree(programs / "tests/support", tree / "build/tests/support")
    (tree / "plan.json").write_text(json.dumps(plan, indent=1))
    size = sum(p.stat().st_size for p in tree.rglob("*") if p.is_file())
    build.make_disk(tree, folder / "tests.ext4", (64 << 20) + size * 2)


def machine(disks, made, mode):
    def disk(path, options=""):
        return ["-drive", f"file={path},format=raw,if=virtio,cache=unsafe{options}"]
    return ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", MEMORY,
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", str(made / "vmlinuz"), "-initrd", str(made / "initrd"),
            "-append", f"console=ttyS0 quiet loglevel=4 panic=-1 rootwait mitigations=off osb.mode={mode}",
            *disk(made / "root.ext4", ",snapshot=on"),
            *disk(f"/dev/fd/{disks[0]}", ",readonly=on"), *disk(f"/dev/fd/{disks[1]}")]


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
        self.passed = []
        self.failed = False
        self.failed_before = False

    def result(self, verdict, name):
        self.number += 1
        print(f"{verdict} {self.number} - {name}", flush=True)
        self.failed |= verdict != "ok"
        if verdict == "ok" and "# SKIP" not in name:
            self.passed.append(name)

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
        for problem in too_few(suites, self.passed) if suites else []:
            self.result("not ok", "count::enough")
            print(f"# {problem}", flush=True)
        print(f"1..{self.number}", flush=True)
        return 1 if self.failed else 0


def make_disks(arguments, suites):
    """Descriptors of the disk with the tests, the empty one for the state, and a file for the console.
    They have no names any more: nothing is left of them, however we end."""
    with tempfile.TemporaryDirectory(prefix="osb-guest-", dir="/var/tmp") as name:
        folder = Path(name)
        make_test_disk(folder, arguments.build, make_plan(suites, arguments.tests))
        build.make_disk(None, folder / "state.ext4", STATE_BYTES, "-O", "quota,project",
                        "-E", "quotatype=prjquota")
        return [os.open(folder / file, os.O_RDWR | os.O_CREAT, 0o600)
                for file in ("tests.ext4", "state.ext4", "console")]


def run_plan(command, descriptors, seconds):
    process = subprocess.Popen([*command, "-serial", f"file:/dev/fd/{descriptors[2]}",
                                "-chardev", "stdio,id=tap,signal=off", "-serial", "chardev:tap"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=descriptors,
                               preexec_fn=die_with_us)
    report = Report()
    try:
        for line in lines_of(process, seconds):
            report.line(line)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return report


def show_console(descriptor):
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, errors="replace", closefd=False) as file:
        for line in file.read().splitlines()[-40:]:
            print(f"# console: {line}", flush=True)


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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    disks = make_disks(arguments, suites)
    command = machine(disks, made, "shell" if arguments.shell else "plan") + arguments.qemu.split()
    if arguments.shell:
        print("# leave it with `exit`", flush=True)
        sys.exit(subprocess.run([*command, "-serial", "mon:stdio"], pass_fds=disks,
                                preexec_fn=die_with_us).returncode)
    report = run_plan(command, disks, arguments.seconds)
    status = report.conclude([] if arguments.tests else suites)
    if status:
        show_console(disks[2])
    sys.exit(status)


if __name__ == "__main__":
    main()
