"""What a server can do to its launcher when it is not ours any more: it sends whatever is well-formed enough to be
looked at, thousands of times."""
import array
import collections
import os
import random
import select
import socket
import struct
import time
import uuid

from launcher import (CREATE, DEADLINE, FREEZE, HEADER, HELLO, KILL, LIMITS, LIST, MAGIC, REMOVE, RESULT, SOCKET, STAT,
                      THAW, create_body, deadline_body, id_body, limits_body, packet, volume_body)

POOL = [str(uuid.UUID(int=number << 64 | 0x8000000000000000 | number, version=4)) for number in range(12)]
STRANGE_IDS = ["", "x", "../../../../etc/passwd", "00000000-0000-0000-0000-00000000000g", POOL[0].upper(), "." * 36]
IMAGES = ["host"] * 8 + ["", ".", "..", "../host", "/etc", "host/../../..", "nothing", "a" * 127, "host\n", "\x1b[2J", "hös"]
PATHS = ["/", "/etc", "/etc/shadow", "/proc/1/root", "/proc/self/fd", "/dev/mem", "/root/.ssh", "/var/lib/opensandbox",
         "/a/../etc", "//etc", "/etc/", "etc", "", "/mnt", "/data", "/usr/bin", "/x\ny", "/" + "a" * 250]
NAMES = ["data", "a", "a.b-c", "..", ".", "-a", "A", "a/b", "", "x" * 63, "x" * 64]
NUMBERS = [0, 1, 4095, 4096, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 1 << 30, 1 << 50, (1 << 50) + 1, (1 << 63) - 1,
           1 << 63, (1 << 64) - 1]


class Fuzzer:
    def __init__(self, path, seed):
        self.path = path
        self.random = random.Random(seed)
        self.sequence = 0
        self.sent = collections.Counter()
        self.codes = collections.Counter()
        self.cut = 0

    # Bodies.

    def number(self, bits):
        top = (1 << bits) - 1
        return self.random.choice([self.random.choice(NUMBERS) & top, self.random.getrandbits(bits),
                                   self.random.getrandbits(self.random.randrange(1, bits + 1))])

    def limits(self):
        """Mostly few, so that some are allowed."""
        names = {"memory": 64, "disk": 64, "read_bps": 64, "write_bps": 64, "read_iops": 32, "write_iops": 32,
                 "cpu": 32, "pids": 32, "files": 32, "reserved": 32}
        chosen = self.random.sample(sorted(names), self.random.choice([0, 0, 0, 1, 1, 2, 10]))
        values = {name: self.number(names[name]) for name in chosen}
        if "disk" in values and self.random.random() < 0.8:
            values["disk"] = 16 << 20
        return values

    def volumes(self):
        volumes = []
        for _ in range(self.random.choice([0, 0, 0, 0, 1, 2, 16])):
            kind = self.random.choice([1, 2, 3, self.number(32)])
            source = self.random.choice({1: PATHS, 2: NAMES}.get(kind, [""]))
            volumes.append(volume_body(kind, self.random.choice(PATHS), source[:256],
                                       self.random.choice(["", "a", "../a", "/a", "a/b"]),
                                       self.random.choice([0, 0, 1, 2, 4, 7, self.number(32)]),
                                       self.random.choice([0, 4096, self.number(64)])))
        return volumes

    def time(self):
        now = int(time.time() * 1000)
        return self.random.choice([0, 0, 1, now - 1, now, now + 50, now + 10 ** 9, (1 << 63) - 1, 1 << 63,
                                   (1 << 64) - 1, self.number(64)])

    def id(self):
        return self.random.choice(POOL if self.random.random() < 0.95 else STRANGE_IDS)

    def create(self):
        if self.random.random() < 0.6:  # a good one, so that there is something to be done to it
            return create_body(self.random.choice(POOL), flags=self.random.choice([0, 0, 1]),
                               memory=self.random.choice([0, 64 << 20]), pids=self.random.choice([0, 50]),
                               disk=self.random.choice([0, 0, 0, 16 << 20]))
        body = create_body(self.id(), image=self.random.choice(IMAGES), deadline=self.time(),
                           network=self.random.choice([0, 0, 0, 0, 1, 2, self.number(32)]),
                           flags=self.random.choice([0, 0, 0, 1, 2, self.number(32)]),
                           volumes=self.volumes(), **self.limits())
        if self.random.random() < 0.05:  # a count that says something else than the volumes
            body = body[:40 + 128 + 56 + 16] + struct.pack("=I", self.number(32)) + body[40 + 128 + 56 + 20:]
        return body

    def message(self):
        kind = self.random.choice([HELLO, CREATE, CREATE, KILL, REMOVE, REMOVE, LIST, LIMITS, LIMITS, DEADLINE, FREEZE,
                                   THAW, STAT, SOCKET, RESULT, self.random.randrange(65536)])
        body = b""
        if kind == CREATE:
            body = self.create()
        elif kind in (KILL, REMOVE, LIST, FREEZE, THAW, STAT):
            body = id_body(self.id())
        elif kind == LIMITS:
            body = id_body(self.id()) + limits_body(**self.limits())
        elif kind == DEADLINE:
            body = deadline_body(self.id(), self.time())
        elif kind == SOCKET:
            body = id_body(self.id()) + struct.pack("=II", self.random.choice([4, 6, self.number(32)]),
                                                    self.random.choice([0, 0, self.number(32)]))
        elif kind != HELLO:
            body = self.random.randbytes(self.random.randrange(200))
        self.sent[kind] += 1
        self.sequence = (self.sequence + 1) & 0xffffffff
        return packet(kind, self.sequence, body)

    # Ways.

    def connect(self, greet=True):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        peer.connect(self.path)
        peer.settimeout(30)
        if greet:
            peer.send(packet(HELLO, 1))
        return peer

    def read(self, peer, seconds=0.0):
        """All there is. False: it was cut."""
        while select.select([peer], [], [], seconds)[0]:
            try:
                data = peer.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                self.cut += 1
                return False
            magic, _, kind, _, length = HEADER.unpack(data[:HEADER.size])
            assert magic == MAGIC and length == len(data)
            if kind == RESULT:
                self.codes[struct.unpack("=I", data[HEADER.size:HEADER.size + 4])[0]] += 1
        return True

    def talk(self, count):
        """As a server does, only that it makes no sense."""
        peer = self.connect()
        for _ in range(count):
            try:
                peer.send(self.message())
            except ConnectionError:
                peer = self.connect()
            # Not always at once: answers to creates come later, and requests meet sandboxes that are half made.
            if not self.read(peer, self.random.choice([0, 0, 0, 0.005])):
                peer = self.connect()
        self.read(peer, 1)
        peer.close()

    def flood(self, count):
        """Without reading an answer, until it is cut, again and again."""
        peer = self.connect()
        for _ in range(count):
            # LIST has the largest answer for the smallest question.
            data = packet(LIST, 1, id_body("")) if self.random.random() < 0.9 else self.message()
            try:
                peer.send(data)
            except ConnectionError:
                self.cut += 1
                peer.close()
                peer = self.connect()
        peer.close()

    def crowd(self, count):
        """Many connections; most end in the middle of something."""
        peers = []
        for _ in range(count):
            try:
                peer = self.connect(greet=self.random.random() < 0.7)
                for _ in range(self.random.randrange(3)):
                    peer.send(self.random.choice([self.message, lambda: self.random.randbytes(100), lambda: b"\0"])())
                peers.append(peer)
            except (ConnectionError, BlockingIOError):  # cut, or too many wait to be accepted
                self.cut += 1
            if len(peers) > 24 or self.random.random() < 0.1:
                for peer in peers:
                    peer.close()
                peers = []

    def gifts(self, count):
        """With descriptors attached, as many as there may be."""
        null = os.open("/dev/null", os.O_RDONLY)
        peer = self.connect()
        for _ in range(count):
            fds = array.array("i", [null] * self.random.choice([1, 2, 253]))
            try:
                peer.sendmsg([self.message()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            except ConnectionError:
                peer = self.connect()
            if not self.read(peer):
                peer = self.connect()
        peer.close()


def attack(path, way, seed, count):
    """What it sent by type, what it was answered by code, and how often it was cut."""
    fuzzer = Fuzzer(path, seed)
    getattr(fuzzer, way)(count)
    return {"sent": fuzzer.sent, "codes": fuzzer.codes, "cut": fuzzer.cut}
