#!/usr/bin/env python3
"""opensandbox-launcher as a process: its messages and the life of sandboxes.

Run as root:  OSB_BIN_DIR=build/bin python3 tests/integration/test_launcher.py
"""
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from launcher import (BY_DEADLINE, BY_KILL, BY_SIGNAL, BY_STATUS, CONFLICT, CREATE, DENIED, EXITED,
                      HELLO, INVALID, KILL, LIST, LauncherTest, NOT_FOUND, OK, REMOVE,
                      RESULT, RUNNING, create_body, eventually, id_body, inside, main, packet,
                      text)  # noqa: E402


class Messages(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start()

    def test_hello_comes_first(self):
        client = self.connect(hello=False)
        self.assertEqual(client.ask(CREATE, create_body(str(uuid.uuid4()))).code, DENIED)
        self.assertEqual(client.ask(LIST, id_body("")).code, DENIED)
        client.greet()
        self.assertEqual(client.ask(LIST, id_body("")), ([], 0))

    def test_another_user_is_refused(self):
        os.chmod(self.path, 0o666)
        self.connect()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setgid(65534)
                os.setuid(65534)
                peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                peer.connect(self.path)
                peer.settimeout(5)
                try:
                    peer.send(packet(HELLO, 1))
                    status = 0 if peer.recv(100) == b"" else 2
                except (BrokenPipeError, ConnectionResetError):
                    status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIn("refusing a connection of user 65534", self.read_log())

    def test_the_socket_is_not_for_everybody(self):
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o660)

    def test_what_does_not_decode_is_answered(self):
        client = self.connect()
        sandbox = str(uuid.uuid4())
        bad = [
            packet(CREATE, 1, create_body("../../../../etc/passwd")),
            packet(CREATE, 1, create_body(sandbox.upper())),
            packet(CREATE, 1, create_body(sandbox, image="../x")),
            packet(CREATE, 1, create_body(sandbox, memory=1)),
            packet(CREATE, 1, create_body(sandbox, memory=2**64 - 1)),
            packet(CREATE, 1, create_body(sandbox, cpu=2**32 - 1)),
            packet(CREATE, 1, create_body(sandbox, pids=2**32 - 1)),
            packet(CREATE, 1, create_body(sandbox, network=2)),
            packet(CREATE, 1, create_body(sandbox, reserved=1)),
            packet(CREATE, 1, create_body(sandbox)[:-1]),
            packet(CREATE, 1, create_body(sandbox) + b"\0"),
            packet(CREATE, 1, create_body(sandbox), length=1),
            packet(KILL, 1, id_body("")),
            packet(REMOVE, 1, b""),
            packet(RESULT, 1, b""),
            packet(77, 1, b""),
            packet(0, 1, b""),
            packet(CREATE, 1, b"\xff" * 60000),
        ]
        for data in bad:
            client.socket.send(data)
            self.assertEqual(client.wait(1).code, INVALID, data[:80])
        self.assertEqual(client.list(), [])

    def test_what_has_no_header_ends_the_connection(self):
        self.connect()  # so that there is always one
        for data in (packet(HELLO, 1, magic=1), packet(HELLO, 1, version=1), b"x", b"OSBX" * 3):
            client = self.connect()
            client.socket.send(data)
            with self.assertRaises(EOFError):
                client.receive()
        self.connect()

    def test_mutated_packets(self):
        """Two thousand damaged packets: each is answered or ends the connection, and it serves on."""
        chance = random.Random(20)
        seeds = [packet(HELLO, 5), packet(LIST, 5, id_body("")),
                 packet(KILL, 5, id_body(str(uuid.uuid4()))),
                 packet(REMOVE, 5, id_body(str(uuid.uuid4()))),
                 packet(CREATE, 5, create_body(str(uuid.uuid4()), image="none", memory=1 << 30))]
        self.connect()  # so that there is always one
        client = self.connect()
        for _ in range(2000):
            data = bytearray(chance.choice(seeds))
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(data))
                kind = chance.randrange(4)
                if kind == 0:
                    data[at] = chance.randrange(256)
                elif kind == 1:
                    data[at] ^= 1 << chance.randrange(8)
                elif kind == 2:
                    del data[at:]
                    data = data or bytearray(b"\0")
                else:
                    data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 9)))
            client.socket.send(bytes(data))
            try:
                client.receive()
                client.answers.clear()
            except (EOFError, ConnectionResetError):
                client.close()
                client = self.connect()
        self.assertEqual(client.list(), [])

    def test_descriptors_that_are_attached_are_dropped(self):
        client = self.connect()
        self.assertTrue(eventually(lambda: len(self.our_processes()) == 2))
        before = self.fd_count()
        for _ in range(20):
            socket.send_fds(client.socket, [packet(LIST, 9, id_body(""))], [0, 1, 2])
            client.wait(9)
        self.assertLess(self.fd_count(), before + 10)  # of sixty

    def test_a_peer_that_does_not_read_is_cut(self):
        self.connect()  # so that there is always one
        deaf = self.connect()
        deaf.socket.setblocking(False)
        with self.assertRaises(OSError) as caught:
            for _ in range(100000):
                try:
                    deaf.socket.send(packet(LIST, 1, id_body("")))
                except BlockingIOError:
                    select.select([], [deaf.socket], [], 5)
        self.assertIsInstance(caught.exception, (BrokenPipeError, ConnectionResetError))
        self.assertEqual(self.connect().list(), [])

    def test_connections_are_limited(self):
        for _ in range(16):
            self.connect()
        self.assertIsNone(self.try_connect())
        for client in self.clients[:2]:
            client.close()
        self.assertIsNotNone(eventually(self.try_connect))

    def try_connect(self):
        try:
            return self.connect()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return None


class Life(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.client = self.connect()

    def test_create_list_kill_remove(self):
        sandbox, path = self.client.create()
        self.assertEqual(path, f"{self.state}/run/{sandbox}.sock")
        self.assertEqual(inside(path, "echo hello"), ("hello\n", 0))
        [listed] = self.client.list()
        self.assertEqual((listed.id, listed.state, listed.reason, listed.socket),
                         (sandbox, RUNNING, 0, path))
        self.assertLess(abs(listed.created / 1000 - time.time()), 60)
        self.assertEqual(self.client.ask(KILL, id_body(sandbox)).code, OK)
        event = self.client.wait_exit(sandbox)
        self.assertEqual((event.state, event.reason, event.status), (EXITED, BY_KILL, 9))
        [listed] = self.client.list()
        self.assertEqual((listed.state, listed.reason), (EXITED, BY_KILL))
        self.assertEqual(self.client.ask(KILL, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.list(), [])
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, NOT_FOUND)
        self.assertEqual(self.client.ask(KILL, id_body(sandbox)).code, NOT_FOUND)

    def test_removing_a_running_one(self):
        sandbox, path = self.client.create()
        inside(path, "mkdir -p /root/a/b/c; for i in $(seq 300); do echo x > /root/a/$i; done;"
                     "chmod 000 /root/a/b; ln -s / /root/out")
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertEqual(self.client.wait_exit(sandbox).reason, BY_KILL)
        self.assertFalse(os.path.exists(path))
        self.assertEqual(os.listdir(self.state + "/launcher/sandboxes"), [])

    def test_an_id_is_used_once(self):
        sandbox, _ = self.client.create()
        self.assertEqual(self.client.ask(CREATE, create_body(sandbox)).code, CONFLICT)
        self.assertEqual(len(self.client.list()), 1)
        self.client.ask(REMOVE, id_body(sandbox))
        self.client.create(sandbox)

    def test_unknown_image(self):
        result = self.client.ask(CREATE, create_body(str(uuid.uuid4()), image="ubuntu"))
        self.assertEqual(result.code, NOT_FOUND)
        self.assertIn("ubuntu", result.message)

    def test_exit_codes(self):
        for code in (0, 3, 255):
            sandbox, path = self.client.create()
            inside(path, f"exit {code}")
            event = self.client.wait_exit(sandbox)
            self.assertEqual((event.reason, event.status), (BY_STATUS, code))
        sandbox, path = self.client.create()
        inside(path, "abort")
        event = self.client.wait_exit(sandbox)
        # Process 1 is deaf to its own SIGABRT; abort() then ends it by a fault.
        self.assertEqual((event.reason, event.status), (BY_SIGNAL, signal.SIGSEGV))

    def test_every_peer_hears_of_an_exit(self):
        other, silent = self.connect(), self.connect(hello=False)
        sandbox, path = self.client.create()
        inside(path, "exit 1")
        self.client.wait_exit(sandbox)
        other.wait_exit(sandbox)
        self.assertEqual(select.select([silent.socket], [], [], 0.2)[0], [])

    def test_deadline(self):
        start = time.time()
        sandbox, _ = self.client.create(deadline=int((start + 0.4) * 1000))
        self.client.create(deadline=int((start + 3600) * 1000))
        event = self.client.wait_exit(sandbox)
        self.assertEqual(event.reason, BY_DEADLINE)
        self.assertGreater(time.time() - start, 0.39)
        self.assertLess(time.time() - start, 3)
        past, _ = self.client.create(deadline=1)
        self.assertEqual(self.client.wait_exit(past).reason, BY_DEADLINE)

    def test_a_burst_larger_than_the_pool(self):
        ids = [str(uuid.uuid4()) for _ in range(20)]
        sent = [self.client.send(CREATE, create_body(one)) for one in ids]
        results = [self.client.wait(sequence) for sequence in sent]
        self.assertEqual([r.code for r in results], [OK] * 20)
        self.assertEqual([s.id for s in self.client.list()], sorted(ids))
        self.assertEqual({inside(r.socket, "id -u")[0] for r in results}, {"0\n"})

    def test_removed_while_it_waits(self):
        ids = [str(uuid.uuid4()) for _ in range(8)]
        created = [self.client.send(CREATE, create_body(one)) for one in ids]
        removed = [self.client.send(REMOVE, id_body(one)) for one in ids]
        codes = [self.client.wait(sequence).code for sequence in removed]
        self.assertEqual(codes, [OK] * 8)
        for sequence in created:
            self.client.wait(sequence)
        self.assertEqual(self.client.list(), [])

    def test_pages(self):
        ids = []
        for _ in range(70):
            ids.append(self.client.create()[0])
        items, more = self.client.ask(LIST, id_body(""))
        self.assertEqual((len(items), more), (64, 1))
        self.assertEqual([s.id for s in self.client.list()], sorted(ids))
        for one in ids:
            self.client.ask(REMOVE, id_body(one))

    def test_no_descriptor_is_left(self):
        self.assertTrue(eventually(lambda: self.slots_waiting() == 2))
        before = self.fd_count()
        for _ in range(10):
            sandbox, _ = self.client.create()
            self.client.ask(REMOVE, id_body(sandbox))
        # Networks are kept for the next ones a while.
        self.assertTrue(eventually(lambda: self.fd_count() == before, 40), self.fd_count())

    def slots_waiting(self):
        return len(os.listdir(self.state + "/launcher/loose"))

    def test_a_killed_slot_is_replaced(self):
        self.assertTrue(eventually(lambda: len(self.our_processes()) == 2))
        killed = [pid for pid, _ in self.our_processes()]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        # Not by their groups, which they leave before they close their sockets.
        self.assertTrue(eventually(lambda: all(map(self.has_ended, killed))))
        self.client.create()
        self.assertTrue(eventually(lambda: len(self.our_processes()) == 3))

    @staticmethod
    def has_ended(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            return True

    def test_one_launcher_per_state_directory(self):
        other = subprocess.run(self.command(self.path + "2"), stderr=subprocess.PIPE, text=True)
        self.assertEqual(other.returncode, 1)
        self.assertIn("another launcher", other.stderr)


if __name__ == "__main__":
    main()
