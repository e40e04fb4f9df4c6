#!/usr/bin/env python3
"""The launcher, its slots and its deleting workers killed at any moment and at every step.

Whatever was under way, the launcher that is started next must find every sandbox either fully there and
usable or fully gone, and must end up with nothing that belongs to nobody. What a client was told must be
true: a create that was answered exists, a remove that was answered is gone.

    python3 tests/support/tap.py tests/integration/test_launcher_kill.py
    OSB_SEED=123 OSB_KILLS=50 python3 tests/support/tap.py tests/integration/test_launcher_kill.py Random
"""
import ctypes
import os
import random
import select
import signal
import time
import unittest
import uuid

from harness import SANITIZED
from launcher_state import SweptLauncher, Trouble, WatchedLauncher
from launcher import (BY_SIGNAL, CREATE, EXITED, KILL, OK, REMOVE, RUNNING, create_body, id_body)

SEED = int(os.environ.get("OSB_SEED", random.SystemRandom().randrange(1 << 32)))
ALL_STEPS = os.environ.get("OSB_ALL_STEPS") == "1"
KILLS = int(os.environ.get("OSB_KILLS", 25 if SANITIZED else 500))
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans of a killed launcher come to us


def reap_orphans(keep):
    """Those that have ended: sandboxes of killed launchers are our children."""
    while True:
        try:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if info is None or info.si_pid == keep:
            return
        os.waitpid(info.si_pid, 0)


class Box:
    """A sandbox as its client knows it: what it was told, and what it asked and was not told."""

    def __init__(self, name):
        self.id = name
        self.exists = False
        self.state = RUNNING
        self.asked = None

    def answered(self, result):
        asked, self.asked = self.asked, None
        if result.code != OK:
            raise Trouble(f"{asked} of {self.id}: {result.code} {result.message}")
        if asked == CREATE:
            self.exists = True
        elif asked == REMOVE:
            self.exists = False
        elif asked == KILL:
            self.state = EXITED

    def check(self, listed):
        """What was found after a restart; what was asked may have happened or not."""
        if self.asked not in (CREATE, REMOVE) and self.exists != (listed is not None):
            raise Trouble(f"{self.id} {'exists' if listed else 'does not exist'}; it was told otherwise")
        if listed is None:
            return
        allowed = {self.state}
        if self.asked in (KILL, REMOVE):
            allowed.add(EXITED)
        if listed.state not in allowed:
            raise Trouble(f"{self.id} is in state {listed.state} (reason {listed.reason}), "
                          f"not {allowed}, asked {self.asked}")

    def accept(self, listed):
        """From now on the truth is what was found."""
        self.asked = None
        self.exists = listed is not None
        if listed is not None:
            self.state = listed.state


class Random(WatchedLauncher):
    """Many clients' requests under way, and the launcher killed at a random moment of it."""
    slots = 3
    crowd = 10     # sandboxes there are, about
    together = 6   # requests under way
    longest = 0.05  # seconds until the kill, at most

    def choose(self, boxes, chance):
        """The next request: which sandbox and what."""
        idle = [box for box in boxes if box.exists and box.asked is None]
        if not idle or chance.random() < 0.5 - 0.45 * min(len(boxes) / (2 * self.crowd), 1):
            box = Box(str(uuid.UUID(int=chance.getrandbits(128), version=4)))
            boxes.append(box)
            return box, CREATE, create_body(box.id)
        box = chance.choice(idle)
        kind = chance.choice((KILL, REMOVE, REMOVE))
        return box, kind, id_body(box.id)

    def receive_all(self, connections, waiting, timeout):
        """Answers that are there."""
        ready = select.select([c.socket for c in connections], [], [], timeout)[0]
        for client in connections:
            if client.socket in ready:
                client.receive()
                for sequence in list(client.answers):
                    waiting.pop((client, sequence)).answered(client.answers.pop(sequence))

    def work_until(self, end, boxes, chance):
        connections = [self.connect() for _ in range(3)]
        waiting = {}
        while time.monotonic() < end:
            while len(waiting) < self.together:
                box, kind, body = self.choose(boxes, chance)
                client = chance.choice(connections)
                box.asked = kind
                waiting[client, client.send(kind, body)] = box
            self.receive_all(connections, waiting, max(0, end - time.monotonic()))
        self.process.kill()
        self.process.wait(20)
        for client in connections:
            self.drain(client, waiting)

    @staticmethod
    def drain(client, waiting):
        """What was answered before the end; the kernel first says that requests were not read."""
        while True:
            try:
                client.receive()
            except ConnectionResetError:
                continue
            except EOFError:
                break
            for sequence in list(client.answers):
                waiting.pop((client, sequence)).answered(client.answers.pop(sequence))

    def compare(self, boxes):
        """LIST against what clients were told; then the machine against LIST."""
        listed = {one.id: one for one in self.clients[-1].list()}
        for box in boxes:
            box.check(listed.pop(box.id, None))
        if listed:
            raise Trouble(f"nobody asked for {list(listed)}")
        found = self.check([one.id for one in self.clients[-1].list()])
        for box in boxes:
            box.accept(found.get(box.id))
        boxes[:] = [box for box in boxes if box.exists]

    def test_kills_at_random_moments(self):
        print(f"# OSB_SEED={SEED}, {KILLS} kills", flush=True)
        chance = random.Random(SEED)
        boxes = []
        self.start()
        self.connect()
        self.settle()
        for number in range(KILLS):
            try:
                self.work_until(time.monotonic() + chance.uniform(0, self.longest), boxes, chance)
                self.again()
                self.compare(boxes)
                reap_orphans(self.process.pid)
            except (Trouble, OSError) as error:
                raise Trouble(f"kill {number} of OSB_SEED={SEED}: {error}\n{self.log}") from error


class Steps(SweptLauncher):
    """Each process that takes part is killed before each of its system calls in turn."""

    # Those that change nothing that anybody else could see: to be killed before one of them is to be
    # killed before the next.
    never = () if ALL_STEPS else (
        "rt_sigaction", "rt_sigprocmask", "fcntl", "dup3", "close", "close_range", "read", "umask", "prctl",
        "prlimit64", "capget", "fsopen", "fsconfig", "faccessat2", "newfstatat", "getdents64", "getrandom",
        "getpriority", "setpriority")

    def sweep(self, role, kind, before, allowed):
        """`before` makes the sandbox; `allowed` says which outcomes are right for an answer."""
        calls = []
        for number in range(1, 2000):
            sandbox = before()
            self.settle()
            hit, result = self.step(role, number, "before", kind, self.body(kind, sandbox))
            words = (f"{role} killed before call {hit}, "
                     f"answered {result and (result.code, result.message)}")
            if role == "launcher" and hit:
                self.again()
            self.assertIsNone(self.process.poll(), f"{words}: {self.read_log()}")
            listed = self.listed(sandbox)
            if not allowed(listed, result, hit):
                raise Trouble(f"{words}: {listed and (listed.state, listed.reason)}\n{self.read_log()}")
            self.check([self.keeper] + ([sandbox] if listed else []), words)
            if listed:
                self.assertEqual(self.clients[-1].ask(REMOVE, id_body(sandbox)).code, OK)
            if hit is None:
                break
            calls.append(hit.split(" ")[1].split("(")[0])
        print(f"# {len(calls)} steps: " + " ".join(calls), flush=True)
        return calls

    @staticmethod
    def created(listed, result, hit):
        """There and usable or gone, as was said. A slot that was killed when it had nothing left to do but
        to execute execd is a sandbox that was killed at once."""
        if result is not None and (result.code == OK) != (listed is not None):
            return False
        last = hit and ("seccomp" in hit or "execveat" in hit)
        return not listed or listed.state == RUNNING or (last and listed.reason == BY_SIGNAL)

    @staticmethod
    def removed(listed, result, _):
        return result is None or (result.code == OK and not listed)

    def test_launcher_in_create(self):
        self.assertIn("renameat", self.sweep("launcher", CREATE, self.new_name, self.created))

    def test_launcher_in_remove(self):
        self.assertIn("renameat", self.sweep("launcher", REMOVE, self.running, self.removed))

    def test_launcher_in_remove_of_an_ended_one(self):
        self.assertIn("renameat", self.sweep("launcher", REMOVE, self.exited, self.removed))

    def test_waiting_slot_in_create(self):
        self.assertIn("execveat", self.sweep("ready", CREATE, self.new_name, self.created))

    def test_new_slot_in_create(self):
        self.assertIn("pivot_root", self.sweep("slot", CREATE, self.new_name, self.created))

    def test_worker_in_remove(self):
        self.assertIn("unlinkat", self.sweep("worker", REMOVE, self.running, self.removed))


class StepsWithoutPool(Steps):
    """Every sandbox waits for a slot that is made for it."""
    slots = 0

    def test_new_slot_in_create(self):
        calls = self.sweep("slot", CREATE, self.new_name, self.created)
        self.assertIn("pivot_root", calls)
        self.assertIn("execveat", calls)

    test_launcher_in_remove_of_an_ended_one = None
    test_waiting_slot_in_create = None
    test_worker_in_remove = None
    test_launcher_in_remove = None


if __name__ == "__main__":
    unittest.main(verbosity=2)
