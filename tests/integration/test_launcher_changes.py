#!/usr/bin/env python3
"""Changing sandboxes of opensandbox-launcher while they run: limits, deadline, freezing.

Run as root:  OSB_BIN_DIR=build/bin python3 tests/integration/test_launcher_changes.py
"""
import os
import re
import resource
import signal
import sys
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from launcher import (BY_DEADLINE, BY_KILL, CONFLICT, CREATE, DEADLINE, EXITED, FREEZE, FROZEN,
                      HIT_MEMORY, HIT_PIDS, KILL, LIMITS, LauncherTest, NOT_FOUND, OK,
                      REMOVE, RUNNING, THAW, UNSUPPORTED, create_body,
                      deadline_body, eventually, id_body, inside, main, record_of,
                      set_limits_body, upper_of)  # noqa: E402

MIB = 1 << 20
COUNTER = "(while :; do echo x >> /tmp/count; sleep 0.01; done) > /dev/null 2>&1 < /dev/null &"


def now_ms(plus=0.0):
    return int((time.time() + plus) * 1000)


def may_raise_limits():
    with open("/proc/self/status") as file:
        return int(re.search(r"CapEff:\s*(\w+)", file.read()).group(1), 16) >> 24 & 1


class ChangeTest(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.client = self.connect()

    def restart(self):
        self.crash()
        self.start()
        self.client = self.connect()

    def count(self, sandbox):
        try:
            return os.stat(f"{upper_of(self.state, sandbox)}/.root/tmp/count").st_size
        except FileNotFoundError:
            return 0

    def start_counter(self, path, sandbox):
        inside(path, COUNTER)
        self.assert_counts(sandbox)

    def assert_counts(self, sandbox):
        before = self.count(sandbox)
        self.assertTrue(eventually(lambda: self.count(sandbox) > before), "the counter stands still")

    def assert_stands_still(self, sandbox):
        before = self.count(sandbox)
        time.sleep(0.3)  # thirty steps of the counter
        self.assertEqual(self.count(sandbox), before)

    def change(self, kind, sandbox):
        return self.client.ask(kind, id_body(sandbox))

    def rewrite_record(self, sandbox, name, value):
        """As a launcher that was killed between writing it and doing it left it."""
        path = f"{self.state}/launcher/sandboxes/{sandbox}/record"
        with open(path) as file:
            lines = file.read()
        lines, times = re.subn(rf"^{name} .*$", f"{name} {value}", lines, flags=re.M)
        self.assertEqual(times, 1)
        with open(path, "w") as file:
            file.write(lines)


class States(ChangeTest):
    """Every message in every state."""

    BODIES = {
        LIMITS: lambda sandbox: set_limits_body(sandbox, memory=64 * MIB),
        DEADLINE: lambda sandbox: deadline_body(sandbox, now_ms(3600)),
        FREEZE: id_body, THAW: id_body, KILL: id_body, REMOVE: id_body, CREATE: create_body,
    }
    CHANGES = (LIMITS, DEADLINE, FREEZE, THAW)

    def expect(self, state, sandbox_of, expected):
        for kind, body in self.BODIES.items():
            with self.subTest(state=state, kind=kind):
                sandbox = sandbox_of()
                answer = self.client.ask(kind, body(sandbox))
                self.assertIn(answer.code, expected[kind], answer.message)
                if answer.code != OK:
                    self.assertIn(sandbox, answer.message)
                self.client.ask(REMOVE, id_body(sandbox))

    @staticmethod
    def table(changes, kill, remove, create):
        return {**{kind: changes for kind in States.CHANGES}, KILL: kill, REMOVE: remove,
                CREATE: create}

    def test_running(self):
        self.expect("running", lambda: self.client.create()[0],
                    self.table([OK], [OK], [OK], [CONFLICT]))

    def test_frozen(self):
        def make():
            sandbox, _ = self.client.create()
            self.assertEqual(self.change(FREEZE, sandbox).code, OK)
            return sandbox
        self.expect("frozen", make, self.table([OK], [OK], [OK], [CONFLICT]))

    def test_exited(self):
        def make():
            sandbox, path = self.client.create()
            inside(path, "exit 0")
            self.client.wait_exit(sandbox)
            return sandbox
        self.expect("exited", make, self.table([CONFLICT], [OK], [OK], [CONFLICT]))

    def test_unknown(self):
        self.expect("unknown", lambda: str(uuid.uuid4()),
                    self.table([NOT_FOUND], [NOT_FOUND], [NOT_FOUND], [OK]))

    def test_queued(self):
        """Both packets are there before the launcher reads the first."""
        self.crash()
        self.start("--slots", "0")
        self.client = self.connect()
        expected = self.table(CONFLICT, CONFLICT, OK, CONFLICT)
        for kind, body in self.BODIES.items():
            with self.subTest(kind=kind):
                sandbox = str(uuid.uuid4())
                self.process.send_signal(signal.SIGSTOP)
                create = self.client.send(CREATE, create_body(sandbox))
                second = self.client.send(kind, body(sandbox))
                self.process.send_signal(signal.SIGCONT)
                self.assertEqual(self.client.wait(second).code, expected[kind])
                self.assertEqual(self.client.wait(create).code, CONFLICT if kind == REMOVE else OK)
                self.client.ask(REMOVE, id_body(sandbox))

    def test_removing(self):
        expected = self.table([CONFLICT, NOT_FOUND], [OK, NOT_FOUND], [CONFLICT, NOT_FOUND],
                              [CONFLICT, OK])
        for kind, body in self.BODIES.items():
            with self.subTest(kind=kind):
                sandbox, _ = self.client.create()
                self.process.send_signal(signal.SIGSTOP)
                removal = self.client.send(REMOVE, id_body(sandbox))
                second = self.client.send(kind, body(sandbox))
                self.process.send_signal(signal.SIGCONT)
                self.assertIn(self.client.wait(second).code, expected[kind])
                self.assertEqual(self.client.wait(removal).code, OK)
                self.client.ask(REMOVE, id_body(sandbox))

    def test_killed(self):
        """Between the signal and the end nothing can be promised any more."""
        expected = self.table([CONFLICT], [OK], [OK], [CONFLICT])
        for kind, body in self.BODIES.items():
            with self.subTest(kind=kind):
                sandbox, _ = self.client.create()
                self.process.send_signal(signal.SIGSTOP)
                kill = self.client.send(KILL, id_body(sandbox))
                second = self.client.send(kind, body(sandbox))
                self.process.send_signal(signal.SIGCONT)
                self.assertEqual(self.client.wait(kill).code, OK)
                self.assertIn(self.client.wait(second).code, expected[kind])
                self.assertEqual(self.client.wait_exit(sandbox).reason, BY_KILL)
                self.client.ask(REMOVE, id_body(sandbox))


class Freezing(ChangeTest):
    def test_stands_still_and_goes_on(self):
        sandbox, path = self.client.create()
        self.start_counter(path, sandbox)
        self.assertEqual(self.change(FREEZE, sandbox).code, OK)
        self.assertEqual(self.client.state(sandbox), FROZEN)
        self.assertEqual(self.client.stat(sandbox).state, FROZEN)
        self.assert_stands_still(sandbox)
        self.assertEqual(self.change(FREEZE, sandbox).code, OK)  # again: nothing happens
        self.assertEqual(self.change(THAW, sandbox).code, OK)
        self.assertEqual(self.client.state(sandbox), RUNNING)
        self.assert_counts(sandbox)
        self.assertEqual(inside(path, "echo hello"), ("hello\n", 0))
        self.assertEqual(self.change(THAW, sandbox).code, OK)

    def test_many_processes(self):
        sandbox, path = self.client.create()
        inside(path, "for i in $(seq 40); do (while :; do sleep 0.1; done) > /dev/null 2>&1 & done")
        for _ in range(5):
            self.assertEqual(self.change(FREEZE, sandbox).code, OK)
            before = self.client.stat(sandbox).cpu_ns
            time.sleep(0.1)
            self.assertEqual(self.client.stat(sandbox).cpu_ns, before)
            self.assertEqual(self.change(THAW, sandbox).code, OK)

    def test_two_at_once(self):
        """A freeze and a thaw of many, sent without waiting: each is answered."""
        sandboxes = [self.client.create()[0] for _ in range(4)]
        asked = [self.client.send(kind, id_body(one)) for one in sandboxes
                 for kind in (FREEZE, THAW, FREEZE)]
        codes = {self.client.wait(one).code for one in asked}
        self.assertLessEqual(codes, {OK, CONFLICT})
        for one in sandboxes:
            self.assertIn(self.client.state(one), (RUNNING, FROZEN))

    def test_killing_a_frozen_one(self):
        sandbox, path = self.client.create()
        self.start_counter(path, sandbox)
        self.change(FREEZE, sandbox)
        self.assertEqual(self.change(KILL, sandbox).code, OK)
        event = self.client.wait_exit(sandbox)
        self.assertEqual((event.state, event.reason, event.status), (EXITED, BY_KILL, 9))
        self.assertEqual(record_of(self.state, sandbox)["frozen"], "0")

    def test_removing_a_frozen_one(self):
        sandbox, path = self.client.create()
        self.start_counter(path, sandbox)
        self.change(FREEZE, sandbox)
        self.assertEqual(self.change(REMOVE, sandbox).code, OK)
        self.assertEqual(self.client.wait_exit(sandbox).reason, BY_KILL)
        self.assertEqual(self.client.list(), [])

    def test_deadline_of_a_frozen_one(self):
        sandbox, path = self.client.create(deadline=now_ms(1))
        self.change(FREEZE, sandbox)
        self.assertEqual(self.client.wait_exit(sandbox).reason, BY_DEADLINE)

    def test_killed_launcher(self):
        sandbox, path = self.client.create()
        self.start_counter(path, sandbox)
        self.change(FREEZE, sandbox)
        self.restart()
        self.assertEqual(self.client.state(sandbox), FROZEN)
        self.assert_stands_still(sandbox)
        self.assertEqual(self.change(THAW, sandbox).code, OK)
        self.assert_counts(sandbox)
        self.restart()
        self.assertEqual(self.client.state(sandbox), RUNNING)
        self.assert_counts(sandbox)

    def test_killed_between_record_and_freeze(self):
        sandbox, path = self.client.create()
        self.start_counter(path, sandbox)
        self.crash()
        self.rewrite_record(sandbox, "frozen", 1)
        self.start()
        self.client = self.connect()
        self.assertTrue(eventually(lambda: self.client.state(sandbox) == FROZEN))
        self.assert_stands_still(sandbox)
        self.crash()
        self.rewrite_record(sandbox, "frozen", 0)
        self.start()
        self.client = self.connect()
        self.assertEqual(self.client.state(sandbox), RUNNING)
        self.assert_counts(sandbox)

    def test_frozen_one_ends_at_a_deadline_that_passed_meanwhile(self):
        sandbox, path = self.client.create(deadline=now_ms(1.5))
        self.change(FREEZE, sandbox)
        self.crash()
        time.sleep(1.6)
        self.start()
        self.client = self.connect()
        # By LIST: it may have ended before we were there to be told.
        self.assertTrue(eventually(lambda: self.client.state(sandbox) == EXITED))
        self.assertEqual([one.reason for one in self.client.list()], [BY_DEADLINE])


class Deadlines(ChangeTest):
    def set(self, sandbox, deadline):
        return self.client.ask(DEADLINE, deadline_body(sandbox, deadline))

    def test_moved(self):
        sandbox, path = self.client.create(deadline=now_ms(1))
        self.assertEqual(self.set(sandbox, now_ms(3600)).code, OK)
        time.sleep(1.2)
        self.assertEqual(inside(path, "echo alive"), ("alive\n", 0))
        self.assertEqual(self.set(sandbox, now_ms(0.3)).code, OK)
        self.assertEqual(self.client.wait_exit(sandbox).reason, BY_DEADLINE)

    def test_lifted(self):
        sandbox, path = self.client.create(deadline=now_ms(1))
        self.assertEqual(self.set(sandbox, 0).code, OK)
        time.sleep(1.2)
        self.assertEqual(inside(path, "echo alive"), ("alive\n", 0))

    def test_in_the_past(self):
        sandbox, _ = self.client.create()
        self.assertEqual(self.set(sandbox, 1).code, OK)
        self.assertEqual(self.client.wait_exit(sandbox).reason, BY_DEADLINE)

    def test_survives_a_kill(self):
        one, path = self.client.create(deadline=now_ms(1))
        two, _ = self.client.create()
        self.set(one, now_ms(3600))
        self.set(two, now_ms(1.5))
        self.crash()
        time.sleep(1.6)
        self.start()
        self.client = self.connect()
        self.assertEqual(self.client.wait_exit(two).reason, BY_DEADLINE)
        self.assertEqual(inside(path, "echo alive"), ("alive\n", 0))


class Limits(ChangeTest):
    def set(self, sandbox, **limits):
        return self.client.ask(LIMITS, set_limits_body(sandbox, **limits))

    def hold(self, path, mebibytes):
        return inside(path, f"python3 -c 'x = b\"x\" * ({mebibytes} << 20); print(len(x))' 2>&1")

    def test_raised_and_lowered(self):
        sandbox, path = self.client.create(memory=64 * MIB, pids=50)
        self.assertNotEqual(self.hold(path, 100)[1], 0)
        self.assertEqual(self.set(sandbox, memory=256 * MIB, pids=60, cpu=500).code, OK)
        self.assertEqual(self.memory_limit(sandbox), str(256 * MIB))
        self.assertEqual(self.pids_limit(sandbox), "60")
        self.assertEqual(self.hold(path, 100)[1], 0)
        quota = self.group_value(sandbox, "cpu/cpu.cfs_quota_us", "cpu.max")
        self.assertEqual(quota.split()[0], "50000")
        self.assertEqual(self.set(sandbox, memory=64 * MIB).code, OK)
        self.assertEqual(self.memory_limit(sandbox), str(64 * MIB))
        self.assertEqual(self.pids_limit(sandbox), "4096")  # the default
        quota = self.group_value(sandbox, "cpu/cpu.cfs_quota_us", "cpu.max")
        self.assertIn(quota.split()[0], ("-1", "max"))
        self.assertNotEqual(self.hold(path, 100)[1], 0)

    def test_lifted(self):
        sandbox, path = self.client.create(memory=32 * MIB)
        self.assertEqual(self.set(sandbox).code, OK)
        self.assertEqual(self.hold(path, 100)[1], 0)

    def test_of_a_frozen_one(self):
        sandbox, path = self.client.create(memory=64 * MIB)
        self.change(FREEZE, sandbox)
        self.assertEqual(self.set(sandbox, memory=256 * MIB).code, OK)
        self.assertEqual(self.memory_limit(sandbox), str(256 * MIB))
        self.change(THAW, sandbox)
        self.assertEqual(self.hold(path, 100)[1], 0)

    def test_refused_values_leave_the_old(self):
        """A disk limit comes too late, or there is more in it already: that depends on how it is held."""
        sandbox, path = self.client.create(memory=64 * MIB, pids=50, files=1024)
        self.assertEqual(inside(path, "head -c 40000000 /dev/zero > /root/x"), ("", 0))
        before = record_of(self.state, sandbox)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        refused = [({"memory": 128 * MIB, "disk": 32 * MIB}, (UNSUPPORTED, CONFLICT), "disk"),
                   ({"memory": 128 * MIB, "files": 1048576}, (UNSUPPORTED,), "open-files")]
        for limits, codes, word in refused:
            if word == "open-files" and (may_raise_limits() or limit >= 1048576):
                continue
            with self.subTest(limits):
                answer = self.set(sandbox, **limits)
                self.assertIn(answer.code, codes)
                self.assertIn(word, answer.message)
                self.assertEqual(record_of(self.state, sandbox), before)
                self.assertEqual(self.memory_limit(sandbox), str(64 * MIB))
        self.assertEqual(inside(path, "ulimit -n"), ("1024\n", 0))

    def test_memory_in_use_cannot_be_taken_away(self):
        sandbox, path = self.client.create(memory=256 * MIB)
        inside(path, "python3 -c 'import time; x = b\"x\" * (100 << 20); open(\"/tmp/up\", \"w\");"
                     " time.sleep(1000)' > /dev/null 2>&1 < /dev/null &")
        up = f"{upper_of(self.state, sandbox)}/.root/tmp/up"
        self.assertTrue(eventually(lambda: os.path.exists(up)))
        before = record_of(self.state, sandbox)
        answer = self.set(sandbox, memory=8 * MIB)
        if answer.code == OK:  # v2 ends what does not fit
            self.assertEqual(self.memory_limit(sandbox), str(8 * MIB))
            return
        self.assertEqual(answer.code, CONFLICT, answer.message)
        self.assertIn(str(8 * MIB), answer.message)
        self.assertEqual(self.memory_limit(sandbox), str(256 * MIB))
        self.assertEqual(record_of(self.state, sandbox), before)

    def test_survive_a_kill(self):
        sandbox, path = self.client.create(memory=64 * MIB, files=1024)
        self.assertEqual(self.set(sandbox, memory=256 * MIB, pids=60, files=512).code, OK)
        self.restart()
        self.assertEqual(self.memory_limit(sandbox), str(256 * MIB))
        self.assertEqual(self.pids_limit(sandbox), "60")
        self.assertEqual(self.set(sandbox, memory=128 * MIB, files=512).code, OK)
        self.assertEqual(self.memory_limit(sandbox), str(128 * MIB))

    def test_killed_after_the_record(self):
        sandbox, path = self.client.create(memory=64 * MIB, files=1024)
        self.crash()
        self.rewrite_record(sandbox, "memory", 256 * MIB)
        self.rewrite_record(sandbox, "pids", 60)
        self.rewrite_record(sandbox, "open-files", 512)
        self.start()
        self.client = self.connect()
        self.assertEqual(self.memory_limit(sandbox), str(256 * MIB))
        self.assertEqual(self.pids_limit(sandbox), "60")
        self.assertEqual(inside(path, "ulimit -n"), ("512\n", 0))

    def test_killed_before_the_record(self):
        """The kernel has new limits, the record the old ones: those count."""
        sandbox, path = self.client.create(memory=64 * MIB)
        self.assertEqual(self.set(sandbox, memory=256 * MIB).code, OK)
        self.crash()
        self.rewrite_record(sandbox, "memory", 64 * MIB)
        self.start()
        self.client = self.connect()
        self.assertEqual(self.memory_limit(sandbox), str(64 * MIB))

    def test_records_of_version_1(self):
        """A sandbox of a launcher that recorded no limits keeps what the kernel has."""
        sandbox, path = self.client.create(memory=64 * MIB, deadline=now_ms(3600))
        self.crash()
        record = f"{self.state}/launcher/sandboxes/{sandbox}/record"
        new = record_of(self.state, sandbox)
        old = ["id", "pid", "start", "boot", "range", "cgroup", "created", "deadline", "reason",
               "status", "oom"]
        with open(record, "w") as file:
            file.write("opensandbox-record 1\n" + "".join(f"{key} {new[key]}\n" for key in old))
        self.start()
        self.client = self.connect()
        self.assertEqual(self.client.state(sandbox), RUNNING)
        self.assertEqual(self.memory_limit(sandbox), str(64 * MIB))
        self.assertEqual(self.client.ask(DEADLINE, deadline_body(sandbox, 0)).code, OK)
        self.restart()
        self.assertEqual(self.memory_limit(sandbox), str(64 * MIB))
        self.assertEqual(self.set(sandbox, memory=128 * MIB).code, OK)
        self.assertEqual(self.memory_limit(sandbox), str(128 * MIB))

    def test_hits_are_reported(self):
        sandbox, path = self.client.create(memory=64 * MIB, pids=20)
        self.assertEqual(self.client.stat(sandbox).hit, 0)
        self.hold(path, 200)
        inside(path, "for i in $(seq 40); do sleep 2 & done 2>&1")
        usage = self.client.stat(sandbox)
        self.assertEqual(usage.hit, HIT_MEMORY | HIT_PIDS)
        self.assertGreaterEqual(usage.oom, 1)
        self.assertGreaterEqual(usage.pids_refused, 1)
        [listed] = self.client.list()
        self.assertEqual((listed.hit, listed.oom > 0), (HIT_MEMORY | HIT_PIDS, True))
        self.change(KILL, sandbox)
        event = self.client.wait_exit(sandbox)
        self.assertEqual((event.hit, event.oom > 0), (HIT_MEMORY | HIT_PIDS, True))
        self.restart()
        [listed] = self.client.list()
        self.assertEqual((listed.hit, listed.oom), (event.hit, event.oom))


class OpenFiles(ChangeTest):
    def set(self, sandbox, **limits):
        return self.client.ask(LIMITS, set_limits_body(sandbox, **limits))

    def test_at_creation(self):
        _, path = self.client.create(files=100)
        self.assertEqual(inside(path, "ulimit -Sn; ulimit -Hn"), ("100\n100\n", 0))
        said, _ = inside(path, "python3 -c '\nfiles = []\ntry:\n while True:"
                               " files.append(open(\"/dev/null\"))\nexcept OSError as e:\n"
                               " print(e.errno, len(files) < 100)'")
        self.assertEqual(said, "24 True\n")

    def test_default(self):
        _, path = self.client.create()
        said, _ = inside(path, "ulimit -Hn")
        self.assertLessEqual(int(said), 65536)
        self.assertGreaterEqual(int(said), min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    def test_more_than_there_is(self):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if may_raise_limits() or limit >= 1048576:
            self.skipTest("this machine allows everything that can be asked for")
        answer = self.client.ask(CREATE, create_body(str(uuid.uuid4()), files=limit + 1))
        self.assertEqual(answer.code, UNSUPPORTED)
        self.assertIn(f"{limit} at most", answer.message)
        self.client.create(files=limit)

    def test_lowered(self):
        """Process 1, those that run, those that fork all the time and those that come later."""
        sandbox, path = self.client.create(files=1024)
        inside(path, "(while :; do (sleep 0.01); done) > /dev/null 2>&1 < /dev/null &"
                     " (ulimit -n 70; sleep 1000) > /dev/null 2>&1 < /dev/null &"
                     " sleep 1000 > /dev/null 2>&1 < /dev/null &")
        self.assertTrue(eventually(lambda: 70 in self.limits_of(sandbox)))
        self.assertEqual(self.set(sandbox, files=128).code, OK)
        self.assertEqual(inside(path, "ulimit -Sn; ulimit -Hn"), ("128\n128\n", 0))
        time.sleep(0.1)
        self.assertEqual(set(self.limits_of(sandbox)), {70, 128})

    def test_raised(self):
        sandbox, path = self.client.create(files=128)
        answer = self.set(sandbox, files=256, memory=64 * MIB)
        if may_raise_limits():
            self.assertEqual(answer.code, OK, answer.message)
            self.assertEqual(inside(path, "ulimit -Hn"), ("256\n", 0))
        else:
            self.assertEqual(answer.code, UNSUPPORTED)
            self.assertIn("CAP_SYS_RESOURCE", answer.message)
            self.assertEqual(inside(path, "ulimit -Hn"), ("128\n", 0))
            self.assertEqual(record_of(self.state, sandbox)["memory"], "0")

    def limits_of(self, sandbox):
        group = record_of(self.state, sandbox)["cgroup"]
        found = []
        for pid, _ in self.our_processes():
            try:
                with open(f"/proc/{pid}/cgroup") as file:
                    ours = re.search(rf"/{group}(/|$)", file.read(), re.M)
                with open(f"/proc/{pid}/limits") as file:
                    files = int(re.search(r"Max open files\s+\d+\s+(\d+)", file.read()).group(1))
            except (OSError, AttributeError):
                continue
            if ours:
                found.append(files)
        return found


if __name__ == "__main__":
    main()
