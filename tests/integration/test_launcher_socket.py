#!/usr/bin/env python3
"""SOCKET: TCP sockets that the launcher makes in the network of a sandbox.

Run as root:  OSB_BIN_DIR=build/bin python3 tests/integration/test_launcher_socket.py
"""
import errno
import fcntl
import os
import re
import socket
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from launcher import (CONFLICT, CREATE, FREEZE, INVALID, KILL, NOT_FOUND, OK, REMOVE, RUNNING, SOCKET, THAW,  # noqa: E402
                      LauncherTest, create_body, eventually, id_body, inside, main, record_of, socket_body)
from launcher_state import SweptLauncher  # noqa: E402

SIOCGSKNS = 0x894C
SERVE = """python3 -c '
import socket, sys
server = socket.create_server(("%s", %d), family=socket.%s)
print("up", flush=True)
while True:
    peer = server.accept()[0]
    peer.sendall(b"%s")
    peer.close()' >/tmp/up 2>&1 & while ! grep -q up /tmp/up; do sleep 0.01; done"""


def network_of(fd):
    """The namespace a socket belongs to."""
    namespace = fcntl.ioctl(fd, SIOCGSKNS)
    try:
        return os.fstat(namespace).st_ino
    finally:
        os.close(namespace)


def take(result):
    assert result.code == OK, result.message
    [fd] = result.fds
    return socket.socket(fileno=fd)


class Sockets(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.client = self.connect()

    def network_inside(self, sandbox):
        return os.stat(f"/proc/{record_of(self.state, sandbox)['pid']}/ns/net").st_ino

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def test_it_is_in_that_network_and_nowhere_else(self):
        first, first_path = self.client.create()
        second, second_path = self.client.create()
        own = os.stat(f"/proc/{self.process.pid}/ns/net").st_ino
        for path, word in ((first_path, "first"), (second_path, "second")):
            inside(path, SERVE % ("127.0.0.1", 80, "AF_INET", word))
        inside(first_path, SERVE.replace("/tmp/up", "/tmp/up6") % ("::1", 80, "AF_INET6", "six"))
        before = self.descriptors()
        for sandbox, family, address, word in ((first, 4, "127.0.0.1", b"first"), (second, 4, "127.0.0.1", b"second"),
                                               (first, 6, "::1", b"six")) * 3:
            with take(self.client.ask(SOCKET, socket_body(sandbox, family))) as sock:
                self.assertEqual(network_of(sock.fileno()), self.network_inside(sandbox))
                self.assertEqual((sock.family, sock.type), (socket.AF_INET6 if family == 6 else socket.AF_INET,
                                                            socket.SOCK_STREAM))
                self.assertTrue(os.get_blocking(sock.fileno()) is False)
                sock.settimeout(10)
                sock.connect((address, 80))
                self.assertEqual(sock.recv(10), word)
        self.assertEqual(os.stat(f"/proc/{self.process.pid}/ns/net").st_ino, own)
        self.assertEqual(self.descriptors(), before)

    def test_the_rest_of_the_launcher_stays_where_it_is(self):
        """A sandbox made after a SOCKET has a network of its own, not that of the other."""
        first, _ = self.client.create()
        take(self.client.ask(SOCKET, socket_body(first))).close()
        second, _ = self.client.create()
        self.assertNotEqual(self.network_inside(first), self.network_inside(second))

    def test_frozen(self):
        sandbox, path = self.client.create()
        inside(path, SERVE % ("127.0.0.1", 80, "AF_INET", "late"))
        self.assertEqual(self.client.ask(FREEZE, id_body(sandbox)).code, OK)
        with take(self.client.ask(SOCKET, socket_body(sandbox))) as sock:
            sock.settimeout(10)
            sock.connect(("127.0.0.1", 80))
            self.assertEqual(self.client.ask(THAW, id_body(sandbox)).code, OK)
            self.assertEqual(sock.recv(10), b"late")

    def refused(self, body, code, words):
        result = self.client.ask(SOCKET, body)
        self.assertEqual((result.code, result.fds), (code, []), result.message)
        self.assertIn(words, result.message)

    def test_refused(self):
        stranger = str(uuid.uuid4())
        self.refused(socket_body(stranger), NOT_FOUND, stranger)
        sandbox, path = self.client.create()
        for body in (socket_body(sandbox, 5), socket_body(sandbox, 0), socket_body(sandbox, 4, 1), socket_body("x")):
            self.refused(body, INVALID, "")
        self.client.ask(KILL, id_body(sandbox))
        self.client.wait_exit(sandbox)
        self.refused(socket_body(sandbox), CONFLICT, "has ended")
        self.client.ask(REMOVE, id_body(sandbox))
        self.refused(socket_body(sandbox), NOT_FOUND, sandbox)

    def test_while_it_is_made(self):
        names = [str(uuid.uuid4()) for _ in range(20)]
        made = [self.client.send(CREATE, create_body(name)) for name in names]
        asked = [self.client.send(SOCKET, socket_body(name)) for name in names]
        seen = set()
        for sequence in asked:
            result = self.client.wait(sequence)
            seen.add((result.code, re.sub(r"sandbox \S+ ", "", result.message), len(result.fds)))
            for fd in result.fds:
                os.close(fd)
        self.assertLessEqual(seen, {(OK, "", 1), (CONFLICT, "is still being made", 0)})
        self.assertIn((CONFLICT, "is still being made", 0), seen)
        for sequence in made:
            self.assertEqual(self.client.wait(sequence).code, OK)

    def test_of_an_adopted_one(self):
        sandbox, path = self.client.create()
        inside(path, SERVE % ("127.0.0.1", 80, "AF_INET", "still"))
        self.crash()
        self.start()
        self.client = self.connect()
        with take(self.client.ask(SOCKET, socket_body(sandbox))) as sock:
            sock.settimeout(10)
            sock.connect(("127.0.0.1", 80))
            self.assertEqual(sock.recv(10), b"still")

    def test_a_socket_that_is_kept_keeps_its_network_from_others(self):
        """It would reach into the next sandbox's."""
        self.crash()
        self.start("--slots", "0", "--spare-seconds", "60")
        self.client = self.connect()
        for held in (False, True):
            sandbox, _ = self.client.create()
            network = self.network_inside(sandbox)
            pid = record_of(self.state, sandbox)["pid"]
            sock = take(self.client.ask(SOCKET, socket_body(sandbox)))
            if not held:
                sock.close()
            self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
            self.assertTrue(eventually(lambda: not os.path.exists(f"/proc/{pid}")))
            after, _ = self.client.create()
            self.assertEqual(self.network_inside(after) != network, held)
            sock.close()


class SocketFaults(SweptLauncher):
    """Each system call of it fails in turn. What cannot be undone, staying in the sandbox's network, ends the
    launcher."""
    errors = [errno.ENOMEM, errno.EMFILE, errno.EPERM, errno.EIO]

    def test_every_call(self):
        sandbox = self.running()
        network = os.stat(f"/proc/{self.record(sandbox)['pid']}/ns/net").st_ino
        own = os.stat("/proc/self/ns/net").st_ino
        calls, ended = [], 0
        for number in range(1, 100):
            self.settle()
            left = self.descriptors()
            hit, result = self.step("launcher", number, self.errors[number % 4], SOCKET, socket_body(sandbox))
            if hit is None:
                take(result).close()
                break
            call = hit.split(" ")[1].split("(")[0]
            calls.append(call)
            if self.process.poll() is not None or (result is None and call == "setns"):
                self.process.wait(10)
                log = self.read_log()
                self.assertIn(call, ("setns", "epoll_wait"), f"{hit}: the launcher ended\n{log}")
                ended += call == "setns" and "cannot leave the network" in log
                self.again()
            elif result is None:
                self.clients.pop().close()
                self.peers -= 1
                self.connect()
            else:
                for fd in result.fds:
                    self.assertEqual(network_of(fd), network, hit)
                    os.close(fd)
                self.assertEqual(bool(result.fds), result.code == OK, f"{hit}: {result.message}")
                self.settle()
                self.assertEqual(self.descriptors(), left, f"{hit}: {self.open_files()}")
            self.assertEqual(os.stat(f"/proc/{self.process.pid}/ns/net").st_ino, own, hit)
            with take(self.clients[-1].ask(SOCKET, socket_body(sandbox))) as sock:
                self.assertEqual(network_of(sock.fileno()), network, hit)
            self.assertEqual(self.clients[-1].state(sandbox), RUNNING)
        print("#", " ".join(calls), flush=True)
        self.assertEqual((calls.count("setns"), calls.count("socket"), ended), (3, 1, 1))

    def test_a_peer_that_takes_none(self):
        """Sockets that wait in the queue of one that does not read are gone with it."""
        left = self.descriptors()
        other = self.connect()
        for _ in range(200):
            other.send(SOCKET, socket_body(self.keeper))
        take(self.clients[0].ask(SOCKET, socket_body(self.keeper))).close()
        self.clients.remove(other)
        other.close()
        self.peers -= 1
        self.assertTrue(eventually(lambda: self.descriptors() == left), self.open_files())
        namespace = os.stat(f"/proc/{self.record(self.keeper)['pid']}/ns/net").st_ino
        self.assertEqual([name for name in self.open_files() if str(namespace) in name], [])


if __name__ == "__main__":
    main()
