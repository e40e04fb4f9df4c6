#!/usr/bin/env python3
"""All benchmarks, each against a server or execd started for the run. Figures are ratios beside a peer in one run."""
import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def machine():
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown cpu")
    return f"{os.cpu_count()} x {cpu}, Linux {os.uname().release}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--idle-count", type=int, default=50)
    parser.add_argument("--idle-ms", type=int, default=200)
    arguments = parser.parse_args()
    build = (ROOT / arguments.build).resolve()
    os.environ["OSB_BIN_DIR"] = str(build / "bin")
    sys.path.insert(0, str(ROOT / "tests/support"))
    from execd import Execd
    from harness import Server

    print(f"machine: {machine()}\n", flush=True)
    with Server() as server:
        subprocess.run([build / "bin/bench-create", "127.0.0.1", str(server.port), server.key,
                        str(arguments.count), str(arguments.idle_count), str(arguments.idle_ms)],
                       check=True)
    execd = Execd()
    try:
        subprocess.run([build / "bin/bench-command", "127.0.0.1", str(execd.port), str(2 * arguments.count),
                        str(arguments.idle_count), "100"], check=True)
    finally:
        execd.stop()


if __name__ == "__main__":
    main()
