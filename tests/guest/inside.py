"""PID 1 of the guest after its set-up: runs the suites of /opt/plan.json one after the other.

What they print goes out over the second serial port line by line. Lines of our own begin with MARK:
"begin SUITE", "end SUITE STATUS SECONDS", and "complete" when all have run.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tty

MARK = "osb-guest: "
POWER_OFF = 0x4321FEDC


def run_suite(suite, out):
    out.write(f"{MARK}begin {suite['name']}\n")
    started = time.monotonic()
    process = subprocess.Popen(suite["command"], cwd="/opt", env={**os.environ, **suite["env"]},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True)
    overdue = threading.Timer(suite["timeout"], os.killpg, (process.pid, signal.SIGKILL))
    overdue.start()
    for line in process.stdout:
        out.write(line if line.endswith("\n") else line + "\n")
    status = process.wait()
    overdue.cancel()
    seconds = time.monotonic() - started
    if seconds >= suite["timeout"]:
        out.write(f"# over its {suite['timeout']} s\n")
    out.write(f"{MARK}end {suite['name']} {status} {seconds:.0f}\n")


def run_plan():
    with open("/opt/plan.json") as file:
        plan = json.load(file)
    descriptor = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
    tty.setraw(descriptor)
    with open(descriptor, "w", buffering=1) as out:
        for suite in plan:
            run_suite(suite, out)
        out.write(f"{MARK}complete\n")
        import termios
        termios.tcdrain(descriptor)


def run_shell():
    descriptor = os.open("/dev/ttyS0", os.O_RDWR | os.O_NOCTTY)
    for number in (0, 1, 2):
        os.dup2(descriptor, number)
    os.environ.update(TERM="linux", PS1="guest:\\w# ", OSB_BIN_DIR="/opt/build/bin", OSB_BUILD_DIR="/opt/build")
    os.chdir("/opt")
    subprocess.run(["setsid", "--ctty", "bash", "--norc"])


def main():
    child = os.fork()
    if child == 0:
        try:
            run_shell() if sys.argv[1:] == ["shell"] else run_plan()
        finally:
            sys.stdout.flush()
            os._exit(0)
    while os.wait()[0] != child:  # orphans come to us, and must not stay as zombies
        pass
    os.sync()
    ctypes.CDLL(None).reboot(POWER_OFF)


if __name__ == "__main__":
    main()
