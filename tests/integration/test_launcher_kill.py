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
from launcher import (BY_SIGNAL, CREATE, DEADLINE, EXITED, FREEZE, FROZEN, KILL, LIMITS, OK, REMOVE, RUNNING,
                      THAW, create_body, deadline_body, id_body, set_limits_body)
from launcher_state import NOT_NETWORK, SweptLauncher, Trouble, WatchedLauncher, keep_only

SEED = int(os.environ.get("OSB_SEED", random.SystemRandom().randrange(1 << 32)))
ALL_STEPS = os.environ.get("OSB_ALL_STEPS") == "1"
STRIDE = 7 if SANITIZED else 1  # with sanitizers every seventh step
KILLS = int(os.environ.get("OSB_KILLS", 25 if SANITIZED else 500))
STATES = {KILL: EXITED, FREEZE: FROZEN, THAW: RUNNING}  # after the answer
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

    def __init__(self, name, limits, network):
        self.id = name
        self.network = network
        self.exists = False
        self.state = RUNNING
        self.limits = limits
        self.deadline = 0
        self.asked = None  # the kind of a request without an answer
        self.wanted = None  # the value it carries

    def ask(self, kind, wanted=None):
        """The body of the request."""
        self.asked, self.wanted = kind, wanted
        if kind == CREATE:
            return create_body(self.id, network=self.network, **self.limits)
        if kind == LIMITS:
            return set_limits_body(self.id, **wanted)
        return deadline_body(self.id, wanted) if kind == DEADLINE else id_body(self.id)

    def answered(self, result):
        asked, self.asked = self.asked, None
        if result.code != OK:
            raise Trouble(f"{asked} of {self.id}: {result.code} {result.message}")
        if asked in (CREATE, REMOVE):
            self.exists = asked == CREATE
        elif asked in STATES:
            self.state = STATES[asked]
        elif asked == LIMITS:
            self.limits = self.wanted
        elif asked == DEADLINE:
            self.deadline = self.wanted

    def check(self, listed):
        """What was found after a restart; what was asked may have happened or not."""
        if self.asked not in (CREATE, REMOVE) and self.exists != (listed is not None):
            raise Trouble(f"{self.id} {'exists' if listed else 'does not exist'}; it was told otherwise")
        if listed is None:
            return
        allowed = {self.state, EXITED if self.asked == REMOVE else STATES.get(self.asked, self.state)}
        if listed.state not in allowed:
            raise Trouble(f"{self.id} is in state {listed.state} (reason {listed.reason}), "
                          f"not {allowed}, asked {self.asked}")

    def check_values(self, limits, deadline):
        """Limits are the old ones or the new ones, never some of each."""
        if limits not in (self.limits, self.wanted if self.asked == LIMITS else self.limits):
            raise Trouble(f"{self.id} has {limits}, not {self.limits}; asked {self.asked} {self.wanted}")
        if deadline not in (self.deadline, self.wanted if self.asked == DEADLINE else self.deadline):
            raise Trouble(f"{self.id} has the deadline {deadline}, not {self.deadline}; "
                          f"asked {self.asked} {self.wanted}")

    def accept(self, listed, limits, deadline):
        """From now on the truth is what was found."""
        self.asked = None
        self.exists = listed is not None
        if listed is not None:
            self.state, self.limits, self.deadline = listed.state, limits, deadline


class Random(WatchedLauncher):
    """Many clients' requests under way, and the launcher killed at a random moment of it."""
    slots = 3
    crowd = 10      # sandboxes there are, about
    together = 6    # requests under way
    longest = 0.05  # seconds until the kill, at most
    kills = KILLS

    @staticmethod
    def new_limits(chance, **more):
        return {"memory": chance.randint(64, 512) << 20, "cpu": chance.choice((250, 500, 2000)),
                "pids": chance.randint(50, 200), **more}

    def choose(self, boxes, chance):
        """The next request: which sandbox and what."""
        idle = [box for box in boxes if box.exists and box.asked is None]
        if not idle or chance.random() < 0.4 - 0.35 * min(len(boxes) / (2 * self.crowd), 1):
            more = {"disk": 32 << 20} if chance.random() < 0.2 else {}
            box = Box(str(uuid.UUID(int=chance.getrandbits(128), version=4)),
                      self.new_limits(chance, **more), self.network)
            boxes.append(box)
            return box, CREATE, box.ask(CREATE)
        box = chance.choice(idle)
        if box.state == EXITED:
            kind = REMOVE
        else:
            kind = chance.choice((KILL, REMOVE, REMOVE, LIMITS, LIMITS, DEADLINE) +
                                 ((THAW,) * 3 if box.state == FROZEN else (FREEZE,) * 3))
        wanted = None
        if kind == LIMITS:
            wanted = self.new_limits(chance, **{k: v for k, v in box.limits.items() if k == "disk"})
        elif kind == DEADLINE:
            wanted = int(time.time() + chance.randint(3600, 7200)) * 1000
        return box, kind, box.ask(kind, wanted)

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

    def limits_of(self, box):
        """As the kernel has them."""
        cpu = self.group_value(box.id, "cpu/cpu.cfs_quota_us", "cpu.max").split()[0]
        return {"memory": int(self.memory_limit(box.id)), "cpu": int(cpu) // 100,
                "pids": int(self.pids_limit(box.id)),
                **{k: v for k, v in box.limits.items() if k == "disk"}}

    def compare(self, boxes, chance):
        """LIST against what clients were told; then the machine against LIST."""
        client = self.clients[-1]
        found = {one.id: one for one in client.list()}
        for box in boxes:
            box.check(found.get(box.id))
        unknown = set(found) - {box.id for box in boxes}
        if unknown:
            raise Trouble(f"nobody asked for {unknown}")
        self.check(found)
        for box in boxes:
            listed = found.get(box.id)
            limits, deadline = box.limits, box.deadline
            if listed and listed.state != EXITED:
                limits, deadline = self.limits_of(box), int(self.record(box.id)["deadline"])
                box.check_values(limits, deadline)
            box.accept(listed, limits, deadline)
        boxes[:] = [box for box in boxes if box.exists]
        for box in boxes:
            if box.state == FROZEN and chance.random() < 0.3:
                box.ask(THAW)
                box.answered(client.ask(THAW, id_body(box.id)))
                self.check(found)

    def test_kills_at_random_moments(self):
        print(f"# OSB_SEED={SEED}, {self.kills} kills", flush=True)
        chance = random.Random(SEED)
        boxes = []
        self.start()
        self.connect()
        self.settle()
        for number in range(self.kills):
            try:
                self.work_until(time.monotonic() + chance.uniform(0, self.longest), boxes, chance)
                self.again()
                self.compare(boxes, chance)
                reap_orphans(self.process.pid)
            except (Trouble, OSError) as error:
                raise Trouble(f"kill {number} of OSB_SEED={SEED}: {error}\n{self.log}") from error


class AnyCall:
    """Stands for a sweep with gaps, of which it is not known which calls it met."""

    def __contains__(self, _):
        return True


class Steps(SweptLauncher):
    """Each process that takes part is killed before each of its system calls in turn."""
    last_steps = ("renameat",)  # one of these a create must have come to

    # Those that change nothing that anybody else could see: to be killed before one of them is to be
    # killed before the next.
    never = () if ALL_STEPS else (
        "rt_sigaction", "rt_sigprocmask", "fcntl", "dup3", "close", "close_range", "read", "umask", "prctl",
        "prlimit64", "capget", "fsopen", "fsconfig", "faccessat2", "newfstatat", "getdents64", "getrandom",
        "getpriority", "setpriority")

    def sweep(self, role, kind, before, allowed, body=None):
        """`before` makes the sandbox; `allowed` says which outcomes are right for an answer."""
        calls = []
        for number in range(1, 2000, STRIDE):
            sandbox = before()
            self.settle()
            bytes_sent = body(sandbox) if body else self.body(kind, sandbox)
            hit, result = self.step(role, number, "before", kind, bytes_sent)
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
        return calls if STRIDE == 1 else AnyCall()

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
        calls = self.sweep("launcher", CREATE, self.new_name, self.created)
        self.assertTrue(any(call in calls for call in self.last_steps), calls)

    def test_launcher_in_remove(self):
        self.assertIn("renameat", self.sweep("launcher", REMOVE, self.running, self.removed))

    def test_launcher_in_remove_of_an_ended_one(self):
        self.assertIn("renameat", self.sweep("launcher", REMOVE, self.exited, self.removed))

    def test_new_slot_in_create(self):
        self.assertIn("execveat", self.sweep("slot", CREATE, self.new_name, self.created))

    def test_worker_in_remove(self):
        self.assertIn("unlinkat", self.sweep("worker", REMOVE, self.running, self.removed))


    # Changes: the one before or the one after, and it can be used and changed again.

    def change(self, kind, before, values, body=None):
        def allowed(listed, result, _):
            value = listed and self.value(listed)
            return value == values[1] or (value == values[0] and result is None)
        calls = self.sweep("launcher", kind, before, allowed, body)
        self.assertIn("renameat", calls)

    def value(self, listed):
        return (listed.state, self.memory_limit(listed.id), self.pids_limit(listed.id),
                self.record(listed.id)["deadline"])

    def limited(self):
        return self.clients[-1].create(memory=64 << 20, pids=50)[0]

    def frozen(self):
        sandbox = self.limited()
        self.assertEqual(self.clients[-1].ask(FREEZE, id_body(sandbox)).code, OK)
        return sandbox

    plain = (RUNNING, str(64 << 20), "50", "0")

    def test_launcher_in_freeze(self):
        self.change(FREEZE, self.limited, (self.plain, (FROZEN, *self.plain[1:])))

    def test_launcher_in_thaw(self):
        self.change(THAW, self.frozen, ((FROZEN, *self.plain[1:]), self.plain))

    def test_launcher_in_limits(self):
        self.change(LIMITS, self.limited, (self.plain, (RUNNING, str(96 << 20), "70", "0")),
                    lambda sandbox: set_limits_body(sandbox, memory=96 << 20, pids=70))

    def test_launcher_in_deadline(self):
        later = int(time.time() + 7200) * 1000
        self.change(DEADLINE, self.limited, (self.plain, (*self.plain[:3], str(later))),
                    lambda sandbox: deadline_body(sandbox, later))


class StepsToOrder(Steps):
    """A disk limit: the slot is made for the sandbox, and its file system is a loop device. It is ready between
    any two steps of the launcher's, so that the same number is not always the same call."""
    last_steps = ("renameat", "linkat")

    @staticmethod
    def body(kind, sandbox):
        return create_body(sandbox, disk=16 << 20) if kind == CREATE else id_body(sandbox)

    def running(self):
        return self.clients[-1].create(disk=16 << 20)[0]


class StepsWithoutPool(Steps):
    """Every sandbox waits for a slot that is made for it."""
    slots = 0

    def test_new_slot_in_create(self):
        calls = self.sweep("slot", CREATE, self.new_name, self.created)
        self.assertIn("pivot_root", calls)
        self.assertIn("execveat", calls)


class StepsWithNat(Steps):
    """Every sandbox has a device in the network: what is half made goes as well."""
    network = 1
    slots = 0

    def test_new_slot_in_create(self):
        if not ALL_STEPS:  # the rest is what other slots do
            self.never = tuple({*self.never, *NOT_NETWORK})
        calls = self.sweep("slot", CREATE, self.new_name, self.created)
        self.assertIn("setns", calls)
        self.assertIn("recvfrom", calls)


class RandomWithNat(Random):
    """Devices and their numbers, with whatever else is under way."""
    network = 1
    kills = KILLS // 20 or 1


# A slot without a pool makes the same steps as one to order, which has some more.
keep_only(StepsWithoutPool, "test_launcher_in_create", *(["test_new_slot_in_create"] if ALL_STEPS else []))
keep_only(StepsWithNat, "test_launcher_in_remove", "test_new_slot_in_create")
keep_only(StepsToOrder, "test_launcher_in_create", "test_new_slot_in_create", "test_launcher_in_remove",
          "test_worker_in_remove")


if __name__ == "__main__":
    unittest.main(verbosity=2)
