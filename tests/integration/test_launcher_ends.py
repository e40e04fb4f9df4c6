#!/usr/bin/env python3
"""What a launcher leaves that is killed and not started again, and slots that hang while they are made.

A killed launcher leaves its sandboxes. Everything else of it must end by itself: nobody may ever come to
clear it away.

    python3 tests/support/tap.py tests/integration/test_launcher_ends.py
    OSB_SEED=123 OSB_KILLS=50 python3 tests/support/tap.py tests/integration/test_launcher_ends.py Random
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
from launcher import (BIN, CREATE, LAUNCHER, OK, READ_ONLY_ROOT, REMOVE, SLOW, TIMEOUT, LauncherTest, create_body,
                      eventually, id_body)
from launcher_state import SweptLauncher, WatchedLauncher, read

SEED = int(os.environ.get("OSB_SEED", random.SystemRandom().randrange(1 << 32)))
KILLS = int(os.environ.get("OSB_KILLS", 10 if SANITIZED else 40))
SECONDS = 120 * SLOW  # no further kills then
STRIDE = 5 if SANITIZED else 1
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans of a killed launcher come to us


def is_alive(pid):
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] not in ([], ["Z"])


class Killed(WatchedLauncher):
    """With the true execd: it is the one that has to end."""

    @classmethod
    def setUpClass(cls):
        cls.execd = os.path.join(BIN, "opensandbox-execd")

    def left(self):
        """Whoever is there of a launcher that is not: in its groups or, before it came there, with its name."""
        found = {pid for pid, _ in self.our_processes()}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            words = read(f"/proc/{pid}/cmdline").split("\0")
            if words[0] == LAUNCHER and self.state in words and is_alive(pid):
                found.add(int(pid))
        return found

    def published(self):
        """Processes of the sandboxes that a launcher would find."""
        return {int(self.record(name.removesuffix(".sock"))["pid"]) for name in os.listdir(self.state + "/run")}

    def check_left(self, words):
        """Those and no others."""
        wanted = self.published()
        if eventually(lambda: self.left() == wanted, 20):
            return
        found = self.left()
        self.fail(f"{words}: {[(pid, read(f'/proc/{pid}/comm').strip()) for pid in found - wanted]} are left, "
                  f"{wanted - found} are missing\n{self.log}")


class Steps(SweptLauncher, Killed):
    """Killed before each system call of a create that may change something."""
    never = ("rt_sigaction", "rt_sigprocmask", "fcntl", "close", "read", "prlimit64", "faccessat2", "newfstatat",
             "getrandom", "epoll_ctl", "epoll_wait")

    def test_create(self):
        calls = []
        for number in range(1, 200, STRIDE):
            sandbox = self.new_name()
            hit, _ = self.step("launcher", number, "before", CREATE, self.body(CREATE, sandbox))
            if hit is None:
                break
            self.process.wait(20 * SLOW)
            self.check_left(f"killed before call {hit}")
            calls.append(hit.split(" ")[1].split("(")[0])
            self.again()
            if self.listed(sandbox):
                self.assertEqual(self.clients[-1].ask(REMOVE, id_body(sandbox)).code, OK)
                self.settle()
        print(f"# {len(calls)} steps: " + " ".join(calls), flush=True)
        if STRIDE == 1:
            self.assertIn("linkat", calls)


class Random(Killed):
    """Killed at any moment, with creates of several shapes under way."""

    def test_kills_at_random_moments(self):
        print(f"# OSB_SEED={SEED}, {KILLS} kills", flush=True)
        chance = random.Random(SEED)
        end = time.monotonic() + SECONDS
        for number in range(KILLS):
            if time.monotonic() > end:
                break
            self.slots = chance.choice((0, 1, 3))
            self.start()
            client = self.connect()
            for one in client.list():
                self.assertEqual(client.ask(REMOVE, id_body(one.id)).code, OK)
            time.sleep(chance.uniform(0, 0.03))
            for _ in range(chance.randint(1, 12)):
                shape = {"flags": READ_ONLY_ROOT} if chance.random() < 0.3 else {}
                client.send(CREATE, create_body(str(uuid.uuid4()), **shape))
            time.sleep(chance.uniform(0, 0.05))
            self.crash()
            self.check_left(f"kill {number} of OSB_SEED={SEED}")


class Hanging(LauncherTest):
    """A stopped process stands for one in a system call that takes for ever."""
    SECONDS = 2

    def setUp(self):
        super().setUp()
        self.stopped = []

    def start(self, *arguments, wrapper=()):
        super().start("--make-seconds", str(self.SECONDS), *arguments, wrapper=wrapper)

    @staticmethod
    def space(pid, kind):
        try:
            return os.readlink(f"/proc/{pid}/ns/{kind}")
        except OSError:
            return None

    def preparing(self):
        """Slots that have begun to make a sandbox and are not confined to it yet."""
        pid = self.process.pid
        return [int(child) for child in read(f"/proc/{pid}/task/{pid}/children").split()
                if self.space(child, "net") not in (None, self.space(pid, "net")) and
                self.space(child, "user") == self.space(pid, "user") and int(child) not in self.stopped]

    def stop_one(self, client):
        """A create whose slot was stopped while it was made: its sequence and the slot."""
        for _ in range(100):
            sandbox = str(uuid.uuid4())
            create = client.send(CREATE, create_body(sandbox, flags=READ_ONLY_ROOT))
            self.until_answered(client, create, self.stop_all)
            if create not in client.answers:
                return create, self.stopped[-1]
            self.assertEqual(client.wait(create).code, OK)
            self.assertEqual(client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.fail("slots are made too fast to be stopped")

    @staticmethod
    def until_answered(client, sequence, done):
        """Or until done() says so, which is asked all the time: a slot is made within milliseconds."""
        end = time.monotonic() + 30 * SLOW
        while sequence not in client.answers and not done() and time.monotonic() < end:
            if select.select([client.socket], [], [], 0.0002)[0]:
                client.receive()

    def stop_all(self):
        """Those that could be stopped while they were still being made."""
        before = len(self.stopped)
        for pid in self.preparing():
            os.kill(pid, signal.SIGSTOP)
            if pid in self.preparing():
                self.stopped.append(pid)
            else:
                os.kill(pid, signal.SIGCONT)
        return self.stopped[before:]

    def expect_given_up(self, answer):
        self.assertEqual(answer.code, TIMEOUT, answer.message)
        self.assertRegex(answer.message, f"not made within {self.SECONDS} s: process \\d+ still tries to [a-z]+ ")

    def test_to_order(self):
        self.start("--slots", "0")
        client = self.connect()
        for _ in range(3):
            create, slot = self.stop_one(client)
            self.expect_given_up(client.wait(create))
            self.assertTrue(eventually(lambda: not is_alive(slot)))
        client.create(flags=READ_ONLY_ROOT)
        client.create()

    def test_the_places_of_those_that_hang_are_used_again(self):
        """All may hang at once, and one of another shape comes after them."""
        self.start("--slots", "0")
        client = self.connect()
        hanging = [self.stop_one(client)[0] for _ in range(min(os.cpu_count(), 8))]
        create = client.send(CREATE, create_body(str(uuid.uuid4())))
        for one in hanging:
            self.expect_given_up(client.wait(one))
        self.assertEqual(client.wait(create).code, OK)

    def test_of_the_pool(self):
        """All that are made hang: whoever waits is told. When they do no more, all is well again."""
        self.start("--slots", "0")
        client = self.connect()
        for _ in range(50):
            create = client.send(CREATE, create_body(str(uuid.uuid4())))
            self.until_answered(client, create, lambda: self.stop_all() and False)
            answer = client.wait(create)
            if answer.code != OK:  # else one was too fast
                break
        self.expect_given_up(answer)
        self.assertIn("a sandbox could not be prepared: not made within", self.read_log())
        client.create()

    def test_a_removal_does_not_wait_for_it(self):
        self.start("--slots", "0")
        client = self.connect()
        sandbox = str(uuid.uuid4())
        create = client.send(CREATE, create_body(sandbox, flags=READ_ONLY_ROOT))
        self.until_answered(client, create, self.stop_all)
        self.assertEqual(client.ask(REMOVE, id_body(sandbox)).code, OK)
        client.wait(create)

    def test_it_ends_with_the_launcher(self):
        """Except when it is just about to become somebody else for a moment, so it is stopped later."""
        self.start("--slots", "0")
        client = self.connect()
        for _ in range(100):
            create, slot = self.stop_one(client)
            if os.listdir(self.state + "/launcher/loose"):
                break
            os.kill(slot, signal.SIGCONT)
            self.assertEqual(client.wait(create).code, OK)
        self.crash()
        self.assertTrue(eventually(lambda: not is_alive(slot)))


class Unkillable(Hanging):
    """In a frozen group of version 1 a process does not end before it is thawed, whoever kills it."""
    FREEZER = "/sys/fs/cgroup/freezer"

    def setUp(self):
        if not os.path.exists(self.FREEZER + "/cgroup.procs"):
            self.skipTest("no freezer of version 1")
        self.group = f"{self.FREEZER}/osb-test-{uuid.uuid4()}"
        super().setUp()
        os.mkdir(self.group)
        self.write("freezer.state", "FROZEN")

    def finish(self):
        self.write("freezer.state", "THAWED")
        eventually(lambda: not read(self.group + "/cgroup.procs"))
        os.rmdir(self.group)
        super().finish()

    def write(self, name, text):
        with open(f"{self.group}/{name}", "w") as file:
            file.write(text)

    def freeze_one(self, client):
        create, slot = self.stop_one(client)
        self.write("cgroup.procs", str(slot))
        return create, slot

    def test_the_launcher_goes_on_without_it(self):
        self.start("--slots", "0")
        client = self.connect()
        stuck = []
        for _ in range(min(os.cpu_count(), 8) + 1):
            create, slot = self.freeze_one(client)
            self.expect_given_up(client.wait(create))
            stuck.append(slot)
        client.create(flags=READ_ONLY_ROOT)
        client.create()
        self.assertTrue(all(map(is_alive, stuck)))
        self.write("freezer.state", "THAWED")
        self.assertTrue(eventually(lambda: not any(map(is_alive, stuck))))

    def test_neither_its_end_nor_the_next_one_waits(self):
        self.start("--slots", "0")
        client = self.connect()
        kept, _ = client.create()
        create, slot = self.freeze_one(client)
        self.expect_given_up(client.wait(create))
        self.crash(signal.SIGTERM)
        self.assertTrue(is_alive(slot))
        self.start()
        self.assertIn("does not end", self.log)
        client = self.connect()
        self.assertEqual([one.id for one in client.list()], [kept])
        client.create()


for name in [name for name in dir(Hanging) if name.startswith("test_")]:
    setattr(Unkillable, name, None)  # those are of its parent


if __name__ == "__main__":
    unittest.main(verbosity=2)
