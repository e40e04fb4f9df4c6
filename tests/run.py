#!/usr/bin/env python3
"""Runs suites of tests and ends with their count and the acceptance ledger.

Every suite is a program that prints TAP ("ok 1 - name", "not ok 2 - name", "ok 3 - name # SKIP
reason"). A suite that crashes, prints nothing or ends badly without a failed test counts as one
failed test of its own. See tests/ledger.txt for the ledger.
"""
import argparse
import concurrent.futures
import fnmatch
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/guest"))
from suites import read_suites, too_few  # noqa: E402

# cmocka writes "not ok 3 # SKIP name" for a skipped test.
TAP_LINE = re.compile(r"^(not ok|ok)\s+\d+\s*(?:-\s*|(# SKIP)\s*)?(\S+)(.*)$")
SKIP = re.compile(r"#\s*SKIP\b\s*(.*)", re.IGNORECASE)

# Which suites may run at the same time, by name; the first that fits decides.
LANES = {
    # They look at nothing but what they started themselves: two of them at a time.
    "pairs": r"(asan\.)?(lint|unit\.|fuzz\.|guest-disk|integration\.(execd_|runner|specs))",
    # A machine of its own, of which the host sees a process of qemu's and nothing else.
    "guest": r"guest$",
    # They know what is theirs by the launcher's instance, and mount nothing on the host: two of them at a time.
    "launchers": r"(asan\.)?integration\.(launcher|network)",
    # They measure, or fill the machine on purpose.
    "alone": r"bench\.|clean\.|soak\.|integration\.hogs",
    # They compare all of the machine: one of them at a time.
    "one by one": r"",
}

# How much is shown of a suite that failed.
FAILED_LINES, END_LINES = 200, 60


class Suite:
    def __init__(self, name, command, timeout=300, env=None, joint="::"):
        self.name = name
        self.joint = joint  # between it and a test's name; "." when that begins with a suite's
        self.command = [str(word) for word in command]
        self.timeout = timeout
        self.env = env or {}

    def lane(self):
        return next(lane for lane, names in LANES.items() if re.match(names, self.name))

    def tells(self, line):
        """What is shown at once of a suite that takes long."""
        return self.joint == "." and re.match(rb"# (making|ended) ", line)


class Outcome:
    def __init__(self, test, state, reason=""):
        self.test, self.state, self.reason = test, state, reason


def parse_tap(suite, text):
    outcomes = []
    for line in text.splitlines():
        match = TAP_LINE.match(line)
        if not match:
            continue
        verdict, skipped, name, rest = match.groups()
        skip = SKIP.search(rest)
        test = f"{suite.name}{suite.joint}{name}"
        if skipped:
            outcomes.append(Outcome(test, "skipped", "needs root, mounts or a malloc without sanitizer"))
        elif verdict == "not ok":
            outcomes.append(Outcome(test, "failed"))
        elif skip:
            outcomes.append(Outcome(test, "skipped", skip.group(1).strip()))
        else:
            outcomes.append(Outcome(test, "passed"))
    return outcomes


def run_suite(suite, live):
    """The suite's outcomes, its output, and how long it took. With `live` its output is shown."""
    started = time.monotonic()
    env = {**os.environ, **suite.env}
    process = subprocess.Popen(suite.command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    overdue = threading.Timer(suite.timeout, os.killpg, (process.pid, signal.SIGKILL))
    overdue.start()
    text = ""
    for line in process.stdout:
        text += line.decode("utf-8", "replace")
        if live:
            print("    " + line.decode("utf-8", "replace").rstrip("\n"), flush=True)
        elif suite.tells(line):
            print(f"    {suite.name}: {line.decode('utf-8', 'replace').strip('# ').rstrip()}", flush=True)
    status = process.wait()
    overdue.cancel()
    seconds = time.monotonic() - started
    if seconds >= suite.timeout:
        text += f"# over its {suite.timeout} s\n"
    outcomes = parse_tap(suite, text)
    failed = any(outcome.state == "failed" for outcome in outcomes)
    if not outcomes or (status != 0 and not failed):
        outcomes.append(Outcome(f"{suite.name}{suite.joint}ends-well", "failed", f"exit status {status}"))
    return outcomes, text, seconds


def unit_suites(build, prefix=""):
    asan = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    for program in sorted((build / "tests").glob("unit-*")):
        folder, name = program.name.split("-", 2)[1:]
        yield Suite(f"{prefix}unit.{folder}.{name}", [program], 120,
                    {"CMOCKA_MESSAGE_OUTPUT": "TAP", **asan})
    for program in sorted((build / "tests").glob("fuzz-*")):
        name = program.name.split("-", 1)[1]
        yield Suite(f"{prefix}fuzz.replay.{name}",
                    ["sh", "-c", '"$0" "$1" && echo "ok 1 - corpus"', program,
                     ROOT / "tests/fuzz/corpus" / name], 120, asan)


def python_suites(folder, build, prefix="", only=None, env=None, timeout=600):
    for path in sorted((ROOT / "tests" / folder).glob("test_*.py")):
        name = path.stem.removeprefix("test_")
        if only and not only(name):
            continue
        yield Suite(f"{prefix}{folder}.{name}",
                    ["python3", ROOT / "tests/support/tap.py", path], timeout,
                    {"OSB_BIN_DIR": str(build / "bin"), "OSB_BUILD_DIR": str(build), **(env or {})})


def guest_suites(build):
    """Suites in a machine of another kind, which reports the tests of all of them. Before that its disk, if
    there is none: that mounts things, which those beside the guest would take for their own."""
    yield Suite("guest-disk", ["sh", "-c", 'python3 "$0" && echo "ok 1 - made"', ROOT / "tests/guest/build.py"], 1200)
    yield Suite("guest", ["python3", ROOT / "tests/guest/run.py", "--build", build], 1800, joint=".")


def is_quick(name):
    return name in {"execd", "execd_sessions", "execd_http", "specs", "server", "launcher",
                    "launcher_changes"}


def drives_our_programs(name):
    """Integration suites that are worth running with sanitizers, too."""
    return name.startswith(("execd", "launcher")) or name in {"specs", "server", "check", "volumes", "rootless"}


def select(which, build):
    asan = build / "asan"
    lint = Suite("lint", ["python3", ROOT / "tests/lint.py", "--build", build, "--tap"], 900)
    if which == "quick":
        return [lint, *unit_suites(build), *python_suites("integration", build, only=is_quick),
                *python_suites("security", build)]
    if which == "soak":
        return [*python_suites("soak", build, timeout=7200)]
    sanitized = {"OSB_SANITIZED": "1"}
    integration = [*python_suites("integration", build),
                   *python_suites("integration", asan, "asan.", drives_our_programs, sanitized)]
    return [lint, *unit_suites(build), *unit_suites(asan, "asan."),
            *integration,
            *python_suites("security", build), *python_suites("conformance", build),
            *python_suites("bench", build), *python_suites("fuzz", build),
            *python_suites("clean", build), *guest_suites(build)]


def run_groups(groups, live, done):
    """Group after group: suites, and how many of them at a time. Each one's future is put into `done`."""
    for suites, width in groups:
        with concurrent.futures.ThreadPoolExecutor(width) as pool:
            for suite in suites:
                future = pool.submit(lambda one: (one, *run_suite(one, live)), suite)
                future.add_done_callback(done.put)


def run_all(suites, live):
    """Yields (suite, outcomes, output, seconds) as they end."""
    def lane(name):
        return [suite for suite in suites if suite.lane() == name]
    guest = [(lane("guest"), 1)]
    beside = [(lane("launchers"), 2), (lane("one by one"), 1)]
    for together in [[[(lane("pairs"), 2)]], [guest, beside], [[(lane("alone"), 1)]]]:
        done = queue.SimpleQueue()
        count = sum(len(group) for groups in together for group, _ in groups)
        with concurrent.futures.ThreadPoolExecutor(len(together)) as pool:
            for groups in together:
                pool.submit(run_groups, groups, live, done)
            for _ in range(count):
                yield done.get().result()


def read_ledger(path):
    entries = []
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            entries[-1][2].append(line.strip())
        else:
            number, title = line.split(" ", 1)
            entries.append((number, title, []))
    return entries


def judge(patterns, outcomes):
    """PASS, FAIL or SKIP, with the reason."""
    skipped = []
    for pattern in patterns:
        matching = [o for o in outcomes if fnmatch.fnmatchcase(o.test, pattern)]
        if not matching:
            return "FAIL", f"no test matches {pattern}"
        for outcome in matching:
            if outcome.state == "failed":
                return "FAIL", outcome.test
        if all(outcome.state == "skipped" for outcome in matching):
            skipped.append(matching[0].reason or "skipped")
    if skipped and len(skipped) == len(patterns):
        return "SKIP", skipped[0]
    return "PASS", ""


def telling_lines(text):
    """Each failed test with the remarks after it, then the end: what failed first may be far from it."""
    lines, failed, inside = text.splitlines(), [], False
    for line in lines[:-END_LINES]:
        inside = line.startswith("not ok") or (inside and line.startswith("#"))
        if inside:
            failed.append(line)
    return failed[:FAILED_LINES] + lines[-END_LINES:]


def show_progress(suite, outcomes, text, seconds):
    counts = {state: sum(o.state == state for o in outcomes)
              for state in ("passed", "failed", "skipped")}
    words = [f"{count} {state}" for state, count in counts.items() if count]
    print(f"{suite.name:<38} {', '.join(words):<28} {seconds:6.1f} s", flush=True)
    for outcome in outcomes:
        if outcome.state == "skipped":
            print(f"    SKIP {outcome.test}: {outcome.reason}", flush=True)
    if counts["failed"]:
        print("\n".join(f"    | {line}" for line in telling_lines(text)), flush=True)


def counts_of(outcomes):
    states = ("passed", "failed", "skipped")
    return ", ".join(f"{sum(o.state == state for o in outcomes)} {state}" for state in states)


def show_places(outcomes):
    """Counts what ran on this machine and what ran in the guest. True when too few passed in the guest."""
    guest = [o for o in outcomes if o.test.startswith("guest.")]
    passed = [o.test.removeprefix("guest.") for o in guest if o.state == "passed"]
    problems = too_few(read_suites(), passed)
    print()
    for problem in problems:
        print(f"FAILED guest {problem}")
    print(f"host: {counts_of([o for o in outcomes if o not in guest])}")
    print(f"guest: {counts_of(guest)}")
    return bool(problems)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="build directory")
    parser.add_argument("--match", help="only suites whose name fits this glob")
    parser.add_argument("which", choices=["all", "quick", "soak"])
    arguments = parser.parse_args()

    suites = select(arguments.which, (ROOT / arguments.build).resolve())
    if arguments.match:
        suites = [s for s in suites if fnmatch.fnmatchcase(s.name, arguments.match)]
    outcomes, started = [], time.monotonic()
    for suite, result, text, seconds in run_all(suites, arguments.which == "soak"):
        outcomes += result
        show_progress(suite, result, text, seconds)

    failed = [o for o in outcomes if o.state == "failed"]
    print()
    for outcome in failed:
        print(f"FAILED {outcome.test} {outcome.reason}")
    print(f"{counts_of(outcomes)} in {time.monotonic() - started:.0f} s")
    broken = False
    if arguments.which == "all" and not arguments.match:
        print("\nAcceptance ledger")
        for number, title, patterns in read_ledger(ROOT / "tests/ledger.txt"):
            verdict, reason = judge(patterns, outcomes)
            broken |= verdict == "FAIL"
            print(f"{verdict} {number} {title}{': ' + reason if reason else ''}")
        broken |= show_places(outcomes)
    sys.exit(1 if failed or broken or not outcomes else 0)


if __name__ == "__main__":
    main()
