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
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--idle-count", type=int, default=100)
    parser.add_argument("--idle-ms", type=int, default=200)
    parser.add_argument("--burst", type=int, default=100, help="sandboxes wanted at once")
    parser.add_argument("--rounds", type=int, default=5, help="of the burst")
    parser.add_argument("--memory", type=int, default=1000, help="sandboxes alive; 0: not measured")
    arguments = parser.parse_args()
    build = (ROOT / arguments.build).resolve()
    os.environ["OSB_BIN_DIR"] = str(build / "bin")
    sys.path.insert(0, str(ROOT / "tests/support"))
    from execd import Execd
    from harness import Server

    print(f"machine: {machine()}\n", flush=True)
    pacing = [str(arguments.count), str(arguments.idle_count), str(arguments.idle_ms)]
    with Server(slots=None) as server:
        address = ["127.0.0.1", str(server.port), server.key]
        socket = server.state / "state/run/launcher.sock"
        subprocess.run([build / "bin/bench-launcher", socket, *pacing], check=True)
        subprocess.run([build / "bin/bench-create", *address, *pacing], check=True)
        subprocess.run([build / "bin/bench-burst", *address, str(arguments.burst), str(arguments.rounds)],
                       check=True)
    execd = Execd()
    try:
        subprocess.run([build / "bin/bench-command", "127.0.0.1", str(execd.port), str(2 * arguments.count),
                        str(arguments.idle_count), "100"], check=True)
    finally:
        execd.stop()
    subprocess.run([sys.executable, ROOT / "bench/network.py", "--build", arguments.build], check=True)
    if arguments.memory:
        subprocess.run([sys.executable, ROOT / "bench/memory.py", "--build", arguments.build, "--count",
                        str(arguments.memory)], check=True)


if __name__ == "__main__":
    main()
