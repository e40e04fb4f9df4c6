"""Very many commands, and very much output; part of test_execd_commands.py and of tests/soak/."""

import asyncio
import json
import os
import random
import socket
import time
import unittest

from execd import SANITIZED, Execd, wait_until

SHORT = 600 if SANITIZED else 10000
LONG = 40 if SANITIZED else 200
CLIENTS = 16 if SANITIZED else 40


class Cut(Exception):
    """The client broke its own connection."""


async def read_events(reader, on_event):
    """One streamed answer: on_event gets each event, and may raise Cut."""
    status = int((await reader.readline()).split()[1])
    chunked = False
    while (line := await reader.readline()) != b"\r\n":
        chunked |= line.lower().startswith(b"transfer-encoding: chunked")
    assert status == 200 and chunked, status
    text = b""
    while size := int(await reader.readline(), 16):
        text += (await reader.readexactly(size + 2))[:-2]
        *whole, text = text.split(b"\n\n")
        for block in whole:
            on_event(json.loads(block))
    await reader.readexactly(2)
    assert text == b"", text


class Client:
    """One connection at a time; a third of the commands lose theirs at a random place."""

    def __init__(self, port, seed):
        self.port = port
        self.random = random.Random(seed)
        self.connection = None
        self.cuts = self.lost = self.attached = 0

    async def send(self, method, path, body=b""):
        if self.connection is None:
            self.connection = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        self.connection[1].write(head.encode() + body)
        return self.connection[0]

    def drop(self):
        if self.connection is not None:
            self.connection[1].transport.abort()
            self.connection = None

    async def stream(self, events, cut_after, method, path, body=b""):
        """Read a stream into `events`; False when it was cut."""
        first = len(events)

        def on_event(event):
            events.append(event)
            if cut_after is not None and len(events) - first > cut_after:
                raise Cut
        try:
            reader = await self.send(method, path, body)
            if cut_after == -1:
                await asyncio.sleep(self.random.random() * 0.01)
                raise Cut
            await read_events(reader, on_event)
        except Cut:
            self.drop()
            return False
        assert [e["type"] for e in events[first:]].count("init") == 1, events
        terminal = [e for e in events[first:] if e["type"] in ("error", "execution_complete")]
        assert len(terminal) == 1 and events[-1] is terminal[0], events
        return True

    async def run(self, command, lines, code):
        body = json.dumps({"command": command, "offsets": True}).encode()
        cut = self.random.randrange(-1, 5) if self.random.randrange(3) == 0 else None
        events = []
        whole = await self.stream(events, cut, "POST", "/command", body)
        if not whole:
            self.cuts += 1
            if not events:
                self.lost += 1  # nobody knows its name
                return
            await self.take_up(events[0]["text"], events)
        output = [e for e in events if e["type"] == "stdout"]
        assert [e["text"] for e in output] == lines, events
        if code == 0:
            assert events[-1]["type"] == "execution_complete", events
        else:
            assert events[-1]["error"]["evalue"] == str(code), events

    async def take_up(self, command_id, events):
        while True:
            seen = [e["offset"] for e in events if "offset" in e]
            path = f"/command/{command_id}/stream?offset={seen[-1] if seen else 0}"
            cut = self.random.randrange(0, 4) if self.random.randrange(4) == 0 else None
            self.attached += 1
            if await self.stream(events, cut, "GET", path):
                return


async def crowd(port, seed, short, long):
    numbers = iter(range(short))
    clients = [Client(port, seed * 1000 + i) for i in range(CLIENTS + long)]

    async def short_ones(client):
        for number in numbers:
            await client.run(f"echo {number}; echo b; exit {number % 5}", [str(number), "b"], number % 5)
        client.drop()

    async def long_one(client, number):
        await client.run(f"echo a; sleep 2; echo b; sleep 2; echo {number}; exit 7", ["a", "b", str(number)], 7)
        client.drop()

    await asyncio.gather(*(short_ones(c) for c in clients[:CLIENTS]),
                         *(long_one(c, i) for i, c in enumerate(clients[CLIENTS:])))
    return (sum(c.cuts for c in clients), sum(c.lost for c in clients), sum(c.attached for c in clients))


class Many(unittest.TestCase):
    def fds(self):
        return len(os.listdir(f"/proc/{self.execd.process.pid}/fd"))

    def settle(self):
        """Until nothing is left of any command."""
        deadline = time.monotonic() + 60
        while self.execd.json("GET", "/commands")[1]["commands"] or self.execd.request("GET", "/ping")[0] != 200:
            self.assertLess(time.monotonic(), deadline, "commands are forgotten")
            time.sleep(0.1)

    def run_crowds(self, turns):
        self.execd = Execd("--keep-finished", "5s")
        self.addCleanup(self.execd.stop)
        # The allocator keeps a few blocks of each size once they were used, wherever they lie.
        asyncio.run(crowd(self.execd.port, 99, SHORT // 8, 0))
        self.settle()
        memory, fds = self.execd.memory_kib(), self.fds()
        for turn in range(turns):
            cuts, lost, attached = asyncio.run(crowd(self.execd.port, turn, SHORT, LONG))
            self.assertGreater(cuts, (SHORT + LONG) // 5)
            self.assertGreater(attached, lost)
            self.settle()
            wait_until(lambda: self.fds() <= fds, f"{self.fds()} fds instead of {fds}")
            if not SANITIZED:
                wait_until(lambda: self.execd.memory_kib() <= memory + 512,
                           f"{self.execd.memory_kib()} KiB instead of {memory}")

    def test_crowd(self):
        self.run_crowds(1)


class Flood(unittest.TestCase):
    """`head -c 1G /dev/zero | base64`, to clients that take all of it and to clients that take nothing."""

    INPUT = (32 << 20) if SANITIZED else (1 << 30)
    COMMAND = f"head -c {INPUT} /dev/zero | base64"
    OUTPUT = -(-INPUT // 3) * 4 + -(-(-(-INPUT // 3) * 4) // 76)

    def setUp(self):
        self.execd = Execd()
        self.addCleanup(self.execd.stop)

    def assert_small(self):
        if not SANITIZED:
            self.assertLess(self.execd.memory_kib("VmHWM"), 16 * 1024)

    def count(self, sock):
        """Read to the end: how many bytes, and the last of them."""
        buffer, total, tail = bytearray(1 << 20), 0, b""
        while n := sock.recv_into(buffer):
            total += n
            tail = (tail + bytes(buffer[max(0, n - 400):n]))[-400:]
            if tail.endswith(b"\r\n0\r\n\r\n"):
                break
        return total, tail

    def status(self, command_id):
        return self.execd.json("GET", f"/command/status/{command_id}")[1]

    def attach(self, command_id):
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=60)
        sock.sendall(f"GET /command/{command_id}/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return sock

    def wait_for_end(self, command_id):
        deadline = time.monotonic() + 120
        while self.status(command_id)["running"]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.assertEqual(self.status(command_id)["exit_code"], 0)

    def test_foreground_to_a_fast_reader(self):
        sock = self.execd.open_stream(self.COMMAND)
        total, tail = self.count(sock)
        sock.close()
        self.assertGreater(total, self.OUTPUT)
        self.assertIn(b'"execution_complete"', tail)
        self.assertEqual(self.execd.json("GET", "/commands")[1]["commands"][0]["output_bytes"], self.OUTPUT)
        self.assert_small()

    def test_background_to_a_fast_and_a_stopped_reader(self):
        command_id = self.execd.run(self.COMMAND, background=True)[0]["text"]
        stopped, fast = self.attach(command_id), self.attach(command_id)
        _, tail = self.count(fast)
        self.assertIn(b'"execution_complete"', tail)
        self.wait_for_end(command_id)
        self.assertEqual(self.status(command_id)["output_bytes"], self.OUTPUT)
        self.assert_small()
        fast.close()
        stopped.close()

    def test_foreground_to_a_stopped_reader(self):
        sock = self.execd.open_stream(self.COMMAND)
        sock.recv(1)
        seen = []
        while len(seen) < 5 or seen[-5] != seen[-1]:
            time.sleep(0.1)
            seen.append(self.execd.json("GET", "/commands")[1]["commands"][0]["output_bytes"])
        self.assertLess(seen[-1], self.OUTPUT)
        self.assert_small()
        # Without that client it runs on to its end.
        command_id = self.execd.json("GET", "/commands")[1]["commands"][0]["id"]
        sock.close()
        self.wait_for_end(command_id)
        self.assertEqual(self.status(command_id)["output_bytes"], self.OUTPUT)
        self.assert_small()
