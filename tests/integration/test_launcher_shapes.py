#!/usr/bin/env python3
"""Slots that opensandbox-launcher makes to order, beside and between those of its pool.

Run as root:  OSB_BIN_DIR=build/bin python3 tests/integration/test_launcher_shapes.py
"""
import contextlib
import os
import signal
import sys
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from launcher import (CONFLICT, CREATE, LauncherTest, NOT_FOUND, OK, READ_ONLY_ROOT, REMOVE,
                      create_body, eventually, id_body, inside, main, record_of)  # noqa: E402


class Shapes(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.client = self.connect()

    def ask_all(self, shapes):
        """CREATEs without waiting for an answer; ids and sequences."""
        asked = []
        for flags in shapes:
            sandbox = str(uuid.uuid4())
            asked.append((sandbox, self.client.send(CREATE, create_body(sandbox, flags=flags))))
        return asked

    def test_what_was_ordered_is_what_one_gets(self):
        ordered, path = self.client.create(flags=READ_ONLY_ROOT, memory=64 << 20, files=100)
        self.assertNotEqual(inside(path, "touch /x 2>&1")[1], 0)
        self.assertEqual(inside(path, "ulimit -n"), ("100\n", 0))
        self.assertEqual(self.memory_limit(ordered), str(64 << 20))
        self.assertEqual(record_of(self.state, ordered)["read-only"], "1")
        pool, path = self.client.create()
        self.assertEqual(inside(path, "touch /x")[1], 0)
        self.assertEqual(record_of(self.state, pool)["read-only"], "0")

    def test_without_a_pool(self):
        self.crash()
        self.start("--slots", "0")
        self.client = self.connect()
        _, path = self.client.create(flags=READ_ONLY_ROOT)
        self.assertEqual(inside(path, "id -u"), ("0\n", 0))
        self.assertEqual(len(self.our_processes()), 1)

    def pool_is_made(self):
        """Two that have become execd. A slot is in its group, and so counted, long before it has mounted
        anything; what fails then is the pool's."""
        pool = [pid for pid, _ in self.our_processes()]
        return len(pool) == 2 and not any(map(self.is_launcher, pool))

    def test_the_pool_is_not_used_up(self):
        self.assertTrue(eventually(self.pool_is_made), self.our_processes())
        pool = {pid for pid, _ in self.our_processes()}
        for _ in range(3):
            self.client.create(flags=READ_ONLY_ROOT)
        self.assertLessEqual(pool, {pid for pid, _ in self.our_processes()})

    def test_a_mixed_burst(self):
        """A hundred, of both shapes: each is made, and nobody is passed by much later ones."""
        asked = self.ask_all([READ_ONLY_ROOT if n % 2 else 0 for n in range(100)])
        for sandbox, sequence in asked:
            self.assertEqual(self.client.wait(sequence).code, OK)
        made = {one.id: one.created for one in self.client.list()}
        order = sorted(range(100), key=lambda n: made[asked[n][0]])
        late = max(abs(place - n) for place, n in enumerate(order))
        self.assertLess(late, 30, "the order in which they were made is that of the queue")
        for n, (sandbox, _) in enumerate(asked[:10]):
            path = f"{self.state}/run/{sandbox}.sock"
            self.assertEqual(inside(path, "touch /x 2> /dev/null")[1] == 0, n % 2 == 0)

    def test_removed_while_it_is_made(self):
        for _ in range(5):
            [(sandbox, create)] = self.ask_all([READ_ONLY_ROOT])
            removal = self.client.send(REMOVE, id_body(sandbox))
            codes = self.client.wait(create).code, self.client.wait(removal).code
            self.assertIn(codes, ((CONFLICT, OK), (OK, OK)))
            self.assertEqual(self.client.list(), [])

    def test_both_there_before_it_reads(self):
        sandbox = str(uuid.uuid4())
        self.process.send_signal(signal.SIGSTOP)
        create = self.client.send(CREATE, create_body(sandbox, flags=READ_ONLY_ROOT))
        removal = self.client.send(REMOVE, id_body(sandbox))
        self.process.send_signal(signal.SIGCONT)
        answer = self.client.wait(create)
        self.assertEqual((answer.code, self.client.wait(removal).code), (CONFLICT, OK))
        self.assertIn("removed before it was made", answer.message)

    def test_an_image_that_is_not_there(self):
        answer = self.client.ask(CREATE, create_body(str(uuid.uuid4()), image="ubuntu"))
        self.assertEqual(answer.code, NOT_FOUND)

    def test_failures_go_to_who_asked(self):
        """Those of ordered slots do not make the pool rest, and its ready slots go on serving."""
        self.assertTrue(eventually(self.pool_is_made), self.our_processes())
        os.rename(self.state + "/launcher/mount", self.dir + "/mount")
        for _ in range(7):
            answer = self.client.ask(CREATE, create_body(str(uuid.uuid4()), flags=READ_ONLY_ROOT))
            self.assertNotEqual(answer.code, OK)
            self.assertIn("cannot find the place for its mounts", answer.message)
        self.client.create()
        os.rename(self.dir + "/mount", self.state + "/launcher/mount")
        self.client.create(flags=READ_ONLY_ROOT)

    def test_killed_while_it_is_made(self):
        """Whoever kills it: it is made again, once."""
        self.crash()
        self.start("--slots", "0")
        self.client = self.connect()
        for _ in range(10):
            [(sandbox, create)] = self.ask_all([READ_ONLY_ROOT])
            for _ in range(100):
                preparing = [pid for pid in self.children() if self.is_launcher(pid)]
                if preparing:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(preparing[0], signal.SIGKILL)
                    break
                time.sleep(0.0005)
            answer = self.client.wait(create)
            self.assertEqual(answer.code, OK, answer.message)
            self.client.ask(REMOVE, id_body(sandbox))
            self.client.wait_exit(sandbox)

    @staticmethod
    def is_launcher(pid):
        """Not become another program yet."""
        try:
            with open(f"/proc/{pid}/comm") as file:
                return file.read().startswith("opensandbox-lau")
        except OSError:
            return False

    def children(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return [int(pid) for pid in file.read().split()]

    def test_a_kill_of_the_launcher_leaves_none(self):
        self.ask_all([READ_ONLY_ROOT] * 20)
        time.sleep(0.03)
        self.crash()
        self.start()
        self.client = self.connect()
        for one in self.client.list():
            if one.state == 1:
                self.assertEqual(inside(one.socket, "id -u"), ("0\n", 0))


if __name__ == "__main__":
    main()
