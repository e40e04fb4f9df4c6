#!/usr/bin/env python3
"""What an idle sandbox costs in memory, all counted: the machine's available memory before and after
many are alive with the entrypoint clients send by default, page caches dropped and the pool refilled
both times. Then all are removed, and the machine is compared with what it was before."""
import argparse
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def available_kib():
    """After everything that can be dropped is dropped: twice, since the first round frees what pins more."""
    for _ in range(3):
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        time.sleep(0.5)
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def kib_of(pid):
    """Private memory and page tables of a process; None when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    wanted = {"RssAnon", "VmPTE"}
    return sum(int(line.split()[1]) for line in lines if line.split(":")[0] in wanted)


def processes_below(pids):
    """Every process with its first word, whose ancestor is one of these."""
    parents, words = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                words[int(entry.name)] = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
            except OSError:
                continue
    for pid, word in words.items():
        above = pid
        while above in parents and above not in pids:
            above = parents[above]
        if above in pids and pid not in pids:
            yield pid, word


def split(server):
    """KiB of all execds and of all entrypoints."""
    found = list(processes_below(set(server.launcher_pids())))
    execd = sum(kib_of(pid) or 0 for pid, word in found if "opensandbox-execd" in word)
    entrypoint = sum(kib_of(pid) or 0 for pid, word in found if word == "tail")
    return execd, entrypoint


def settle(server):
    """Wait until the pool is full again: the number of execds stands still."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < 1.5:
        now = sum(1 for _ in processes_below(set(server.launcher_pids())))
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.1)


def measure(server, count):
    """KiB per sandbox: all, execd, entrypoint, the rest."""
    settle(server)
    before, before_split = available_kib(), split(server)
    for made in range(count):
        server.create()
        if made % 100 == 99:
            print(f"  {made + 1} alive", flush=True)
    settle(server)
    after, after_split = available_kib(), split(server)
    each = (before - after) / count
    execd, entrypoint = ((b - a) / count for a, b in zip(before_split, after_split))
    return each, execd, entrypoint, each - execd - entrypoint


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()
    os.environ.setdefault("OSB_BIN_DIR", str((ROOT / arguments.build).resolve() / "bin"))
    sys.path.insert(0, str(ROOT / "tests/support"))
    from harness import Machine, Server

    before = Machine.snapshot()
    with Server(slots=None) as server:
        print(f"memory of {arguments.count} idle sandboxes", flush=True)
        each, execd, entrypoint, kernel = measure(server, arguments.count)
    left = Machine.difference(before, Machine.snapshot())
    print(f"each {each / 1024:.3f} MiB: execd {execd:.0f} KiB, entrypoint {entrypoint:.0f} KiB, "
          f"kernel {kernel:.0f} KiB")
    print("left behind: " + ("; ".join(left) if left else "nothing"), flush=True)
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
