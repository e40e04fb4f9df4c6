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


def usage(server):
    pids = [server.process.pid, *server.launcher_pids()[:1]]
    return {"fds": [descriptors(p) for p in pids], "kib": [private_kib(p) for p in pids]}


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


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

    def test_thousand_cycles_leave_nothing(self):
        before = Machine.snapshot()
        with Server() as server:
            for number in range(WARM_UP):
                self.cycle(server, number)
            launcher = [p for p in server.launcher_pids() if children(p)][:1] or server.launcher_pids()[:1]
            self.settle(server)
            warm, slots = usage(server), len(children(launcher[0]))
            for number in range(CYCLES):
                self.cycle(server, number)
            self.settle(server)
            after = usage(server)
            wait_until(lambda: len(children(launcher[0])) == slots, what="slots as before")
            self.assertEqual(after["fds"], warm["fds"])
            for name, was, now in zip(("server", "launcher"), warm["kib"], after["kib"]):
                self.assertLessEqual(now, was + 1024, f"{name} grew from {was} to {now} KiB")
            self.assertEqual(list((server.state / "state/launcher/sandboxes").iterdir()), [])
        self.assertEqual(Machine.difference(before, Machine.snapshot()), [])

    def settle(self, server):
        """Removal goes on in the background after the answer: wait for its files to be gone."""
        folder = server.state / "state/launcher/sandboxes"
        wait_until(lambda: not list(folder.iterdir()), what="files removed")
        server.disconnect()


if __name__ == "__main__":
    unittest.main()
