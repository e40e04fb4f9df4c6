"""A thousand sandboxes made, used and thrown away: every stream is whole, nothing is left behind."""
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Machine, Server, terminal_events, text_of, wait_until  # noqa: E402

CYCLES = int(os.environ.get("OSB_CYCLES", "1000"))
WARM_UP = 50
SLOTS = 4


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

    def settle(self, server, launcher):
        """Removal goes on after the answer: wait until files and groups of sandboxes are gone and
        only the waiting slots are left."""
        folder = server.state / "state/launcher/sandboxes"
        server.disconnect()
        wait_until(lambda: not list(folder.iterdir()), what="files removed")
        wait_until(lambda: len(children(launcher)) == SLOTS, what="only slots are left")
        hierarchies = {os.path.dirname(g) for g in server.cgroups() if os.path.basename(g).startswith("slot-")}
        wait_until(lambda: sum(os.path.basename(g).startswith("slot-") for g in server.cgroups())
                   == len(hierarchies) * SLOTS,
                   what="only groups of slots are left")

    def test_thousand_cycles_leave_nothing(self):
        before = Machine.snapshot()
        with Server(config=f"[launcher]\nslots = {SLOTS}\n") as server:
            for number in range(WARM_UP):
                self.cycle(server, number)
            launcher = launcher_pid(server)
            pids = {"server": server.process.pid, "launcher": launcher}
            self.settle(server, launcher)
            fds = {name: descriptors(pid) for name, pid in pids.items()}
            kib = {name: private_kib(pid) for name, pid in pids.items()}
            for number in range(CYCLES):
                self.cycle(server, number)
            self.settle(server, launcher)
            for name, pid in pids.items():
                wait_until(lambda: descriptors(pid) == fds[name], what=f"{name}: fds as before")
                grown = private_kib(pid) - kib[name]
                self.assertLessEqual(grown, 1024, f"{name} grew by {grown} KiB from {kib[name]}")
        self.assertEqual(Machine.difference(before, Machine.snapshot()), [])


if __name__ == "__main__":
    unittest.main()
