"""A thousand sandboxes made, used and thrown away: every stream is whole, nothing is left behind."""
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Machine, Server, terminal_events, text_of, wait_until  # noqa: E402

CYCLES = int(os.environ.get("OSB_CYCLES", "1000"))
WARM_UP = 50


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def private_kib(pid):
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean:", "Private_Dirty:")):
            total += int(line.split()[1])
    return total


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def launcher_pid(server):
    """The launcher itself, which is the parent of its waiting slots."""
    pids = server.launcher_pids()
    return next(pid for pid in pids if children(pid) and str(pid) not in children(pid))


class Cycles(unittest.TestCase):
    def cycle(self, server, number):
        box = server.create()
        code = number % 3
        events = box.run(f"echo cycle {number}; exit {code}")
        self.assertEqual([e["type"] for e in events].count("init"), 1, events)
        self.assertEqual(events[0]["type"], "init")
        self.assertEqual(text_of(events), [f"cycle {number}"])
        ends = terminal_events(events)
        self.assertEqual(len(ends), 1, events)
        self.assertIs(ends[0], events[-1])
        if code:
            self.assertEqual(ends[0]["error"]["evalue"], str(code))
        else:
            self.assertEqual(ends[0]["type"], "execution_complete")
        box.delete()

    def settle(self, server, launcher, slots=None):
        """Removal goes on after the answer: wait for the files to be gone and the slots refilled."""
        folder = server.state / "state/launcher/sandboxes"
        server.disconnect()
        wait_until(lambda: not list(folder.iterdir()), what="files removed")
        if slots is not None:
            wait_until(lambda: len(children(launcher)) == slots, what="slots as before")

    def test_thousand_cycles_leave_nothing(self):
        before = Machine.snapshot()
        with Server(config="[launcher]\nslots = 4\n") as server:
            for number in range(WARM_UP):
                self.cycle(server, number)
            launcher = launcher_pid(server)
            pids = {"server": server.process.pid, "launcher": launcher}
            self.settle(server, launcher, slots=4)
            groups = cgroups()
            fds = {name: descriptors(pid) for name, pid in pids.items()}
            kib = {name: private_kib(pid) for name, pid in pids.items()}
            for number in range(CYCLES):
                self.cycle(server, number)
            self.settle(server, launcher, slots=4)
            for name, pid in pids.items():
                wait_until(lambda: descriptors(pid) == fds[name], what=f"{name}: fds as before")
                grown = private_kib(pid) - kib[name]
                self.assertLessEqual(grown, 1024, f"{name} grew by {grown} KiB from {kib[name]}")
            wait_until(lambda: cgroups() == groups, what="cgroups as before")
        self.assertEqual(Machine.difference(before, Machine.snapshot()), [])


def cgroups():
    """How many groups are below ours; their names change with every sandbox."""
    return sum(path.is_dir() for top in Path("/sys/fs/cgroup").rglob("opensandbox-*")
               for path in top.rglob("*"))


if __name__ == "__main__":
    unittest.main()
