#!/usr/bin/env python3
"""Fuzzes every target. First a copy of the sources with planted bugs (planted.toml): each target must
find its own, which shows that it reaches the code it is meant for. Then the real sources, each target
for a while from its corpus, two at a time; what is found is kept in BUILD/fuzz/found and is a failure.

Usage: run.py [--build DIR] [--seconds N] [--planted-only] [TARGET...]
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLANTED_SECONDS = 180


def targets():
    return sorted(p.stem.removeprefix("fuzz_") for p in HERE.glob("fuzz_*.c"))


def copy_sources(tree):
    for part in ("src", "tests/fuzz", "tests/support/fault.c", "CMakeLists.txt"):
        source = ROOT / part
        (tree / part).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, tree / part)
        else:
            shutil.copy2(source, tree / part)


def read_bug(name):
    bugs = tomllib.loads((HERE / "planted.toml").read_text())
    if name not in bugs:
        raise SystemExit(f"planted.toml has no bug for {name}")
    return bugs[name]


def build_planted(name, tree, folder, place):
    """The target with its bug, at `place`; a text that is no longer there is an error. The tree is as before."""
    bug = read_bug(name)
    path = tree / bug["file"]
    text = path.read_text()
    if text.count(bug["find"]) != 1:
        raise SystemExit(f"planted.toml [{name}]: {bug['file']} does not hold the text just once")
    path.write_text(text.replace(bug["find"], bug["replace"]))
    build(tree, folder, [name])
    shutil.copy2(folder / "tests" / f"fuzz-{name}", place)
    path.write_text(text)


def build(source, folder, names):
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DOSB_FUZZ=ON",
                    "-DCMAKE_C_COMPILER=clang"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, "--quiet", *[f"fuzz-{name}" for name in names]], check=True)


def fuzz(program, name, seconds, work, found):
    """Run one target on a copy of its corpus; (exit status, output)."""
    corpus = work / name
    shutil.copytree(HERE / "corpus" / name, corpus, dirs_exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([program, f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=10",
                           "-rss_limit_mb=1024", f"-artifact_prefix={found}/{name}-", corpus],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=work)
    return done.returncode, done.stdout.decode(errors="replace")


def in_pairs(function, names):
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        yield from zip(names, pool.map(function, names))


def check_planted(names, report):
    """Everything is built once; a bug then costs one file and a link."""
    with tempfile.TemporaryDirectory(prefix="osb-fuzz-") as name_of_folder:
        folder = Path(name_of_folder)
        copy_sources(folder / "tree")
        build(folder / "tree", folder / "build", names)
        for name in names:
            build_planted(name, folder / "tree", folder / "build", folder / name)

        def find(name):
            return fuzz(folder / name, name, PLANTED_SECONDS, folder / "work", folder / "found")
        for name, (status, output) in in_pairs(find, names):
            where = read_bug(name)["function"]
            good = status != 0 and where in output
            report(name, good, None if good else
                   f"status {status}, expected a finding in {where}()\n{output[-3000:]}")


def check_real(names, seconds, build_dir, report):
    build(ROOT, build_dir / "fuzz", names)
    with tempfile.TemporaryDirectory(prefix="osb-fuzz-") as folder:
        def run(name):
            return fuzz(build_dir / "fuzz/tests" / f"fuzz-{name}", name, seconds, Path(folder),
                        build_dir / "fuzz/found")
        for name, (status, output) in in_pairs(run, names):
            runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", output)
            report(name, status == 0, output[-3000:] if status else
                   f"{seconds} s, {runs.group(1) if runs else '?'} runs without a finding")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--planted-only", action="store_true")
    parser.add_argument("targets", nargs="*")
    arguments = parser.parse_args()
    names = arguments.targets or targets()
    failures = []

    def report_as(what):
        def report(name, good, remark):
            print(f"{'ok  ' if good else 'FAIL'} {what} {name}" + (f": {remark}" if remark else ""),
                  flush=True)
            if not good:
                failures.append(name)
        return report

    def planted(name, good, remark):
        report_as("planted bug found by")(name, good, "" if good else remark)
    check_planted(names, planted)
    if not arguments.planted_only:
        check_real(names, arguments.seconds, (ROOT / arguments.build).resolve(), report_as("fuzzed"))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
