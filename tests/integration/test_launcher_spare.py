#!/usr/bin/env python3
"""What a sandbox gets that another one had before: nothing of the other can be told from it.

Run as root:  OSB_BIN_DIR=build/bin python3 tests/integration/test_launcher_spare.py
"""
import os
import re
import signal
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from launcher import (FREEZE, KILL, LauncherTest, OK, REMOVE, eventually, id_body, inside, main,
                      record_of)  # noqa: E402

MIB = 1 << 20
COUNTERS = "cd /proc/net && cat dev snmp netstat snmp6 ip6_flowlabel && head -n 1 sockstat"
LOOPBACK = """python3 -c '
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
server.accept()[0].sendall(b"x")
client.recv(1)'"""
NOWHERE = """python3 -c '
import socket
try: socket.create_connection(("192.0.2.1", 80), 1)
except OSError: pass'"""
# A lease of a flow label for whatever process wants it, which outlives the socket by its linger time.
LABEL = """python3 -c '
import socket, struct
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6, 32, socket.inet_pton(socket.AF_INET6, "::1") +
             struct.pack("!I", 4711) + struct.pack("=BBHHHI", 0, 255, 3, 60, 60, 0))'"""


class Spare(LauncherTest):
    def setUp(self):
        super().setUp()
        self.start("--slots", "0")  # made when it is asked for, of what is spare then
        self.client = self.connect()

    def networks(self):
        """The namespaces the launcher keeps."""
        links = []
        for name in os.listdir(f"/proc/{self.process.pid}/fd"):
            try:
                links.append(os.readlink(f"/proc/{self.process.pid}/fd/{name}"))
            except OSError:
                pass
        return [link for link in links if link.startswith("net:")]

    def use(self, command, **limits):
        """One that runs this and is removed; what its record said, and the network it had."""
        sandbox, path = self.client.create(**limits)
        network = inside(path, "readlink /proc/self/ns/net")[0].strip()
        inside(path, command)
        record = record_of(self.state, sandbox)
        self.remove(sandbox)
        self.assertEqual(self.networks(), [network])
        return record, network

    def remove(self, sandbox):
        """And wait until its process has ended, for until then nothing of it is spare."""
        pid = record_of(self.state, sandbox)["pid"]
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertTrue(eventually(lambda: not os.path.exists(f"/proc/{pid}")))

    def one(self):
        sandbox, path = self.client.create()
        return sandbox, path, inside(path, "readlink /proc/self/ns/net")[0].strip()

    def is_v1(self):
        return not os.path.exists("/sys/fs/cgroup/cgroup.controllers")

    def test_an_unused_network_is_used_again(self):
        _, before = self.use("true")
        _, _, after = self.one()
        self.assertEqual(after, before)
        self.assertEqual(self.networks(), [])

    def check_traces(self, command):
        _, path, _ = self.one()
        new = inside(path, COUNTERS)[0]
        for _ in range(2):  # the second one takes what the first one had to make
            _, before = self.use(command)
            sandbox, path, after = self.one()
            self.assertNotEqual(after, before)
            self.assertEqual(inside(path, COUNTERS)[0], new)
            self.remove(sandbox)
            self.assertEqual(self.networks(), [after])
            sandbox, path, again = self.one()
            self.assertEqual(again, after)
            self.assertEqual(inside(path, COUNTERS)[0], new)

    def test_traffic_is_not_passed_on(self):
        self.check_traces(LOOPBACK)

    def test_a_failed_connection_is_not_passed_on(self):
        self.check_traces(NOWHERE)

    def test_a_lease_is_not_passed_on(self):
        if not os.path.exists("/proc/net/ip6_flowlabel"):
            self.skipTest("this kernel has no IPv6")
        sandbox, path = self.client.create()
        inside(path, LABEL)
        self.assertIn("01267", inside(path, "cat /proc/net/ip6_flowlabel")[0])
        self.remove(sandbox)
        self.check_traces(LABEL)

    def test_the_network_still_works(self):
        _, before = self.use("true")
        _, path, after = self.one()
        self.assertEqual(after, before)
        self.assertEqual(inside(path, LOOPBACK)[1], 0)
        self.assertEqual(inside(path, "ping -c 1 -W 5 127.0.0.1 >/dev/null 2>&1 || [ ! -e /usr/bin/ping ]")[1], 0)

    def test_groups_are_like_new(self):
        busy = ("timeout 1 sh -c 'while :; do :; done'; python3 -c 'x = b\"x\" * (40 << 20)';"
                "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1 & done; wait; head -c 1M /usr/bin/python3 >/dev/null")
        record, _ = self.use(busy, cpu=100, memory=64 * MIB, pids=8)
        sandbox, path = self.client.create()
        if self.is_v1():
            self.assertEqual(record_of(self.state, sandbox)["cgroup"], record["cgroup"])
        usage = self.client.stat(sandbox)
        self.assertLess(usage.cpu_ns, 0.3e9)
        self.assertLess(usage.peak, 20 * MIB)
        self.assertEqual((usage.hit, usage.pids_refused, usage.throttled, usage.memory_refused, usage.oom),
                         (0, 0, 0, 0, 0))
        said, status = inside(path, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.2 & done; wait;"
                                    "python3 -c 'x = b\"x\" * (100 << 20)' && echo well")
        self.assertEqual((said.strip(), status), ("well", 0))
        self.assertEqual(self.client.stat(sandbox).throttled, 0)

    def test_a_kill_for_memory_is_forgotten(self):
        self.use("python3 -c 'x = b\"x\" * (64 << 20)'", memory=32 * MIB)
        sandbox, path = self.client.create()
        self.assertEqual(self.client.stat(sandbox).oom, 0)
        self.assertEqual(inside(path, "python3 -c 'x = b\"x\" * (64 << 20)'")[1], 0)

    def test_a_frozen_one(self):
        sandbox, _ = self.client.create()
        self.assertEqual(self.client.ask(FREEZE, id_body(sandbox)).code, OK)
        self.remove(sandbox)
        _, path, _ = self.one()
        self.assertEqual(inside(path, "echo moves")[0].strip(), "moves")

    def test_one_of_a_former_launcher(self):
        """Its process is not our child, so its number may become another's: its network is let go."""
        sandbox, _ = self.client.create()
        self.crash(signal.SIGKILL)
        self.start("--slots", "0")
        self.client = self.connect()
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertTrue(eventually(lambda: os.listdir(self.state + "/launcher/loose") == []))
        self.assertEqual(self.networks(), [])

    def test_one_that_ended_before_the_machine_did(self):
        """The name of its group is another's now, whose limits hold on."""
        old, _ = self.client.create()
        self.client.ask(KILL, id_body(old))
        self.client.wait_exit(old)
        group = record_of(self.state, old)["cgroup"]
        self.crash(signal.SIGKILL)
        path = f"{self.state}/launcher/sandboxes/{old}/record"
        with open(path) as file:
            record = file.read()
        with open(path, "w") as file:
            file.write(re.sub(r"(?m)^boot .*", f"boot {uuid.uuid4()}", record))
        for top in reversed([one for one in self.our_groups() if f"/{group}" in one]):
            os.rmdir(top)
        self.start("--slots", "0")
        self.client = self.connect()
        other, _ = self.client.create(pids=8)
        self.assertEqual(record_of(self.state, other)["cgroup"], group)
        self.assertEqual(self.client.ask(REMOVE, id_body(old)).code, OK)
        new, _ = self.client.create()
        self.assertNotEqual(record_of(self.state, new)["cgroup"], group)
        limits = [one for one in self.our_groups() if "/pids/" in one or "/work" in one]
        self.assertIn("8\n", [open(f"{one}/pids.max").read() for one in limits if f"/{group}" in one])

    def test_they_are_kept_for_a_while(self):
        self.use("true")
        self.assertTrue(eventually(lambda: self.networks() == [], 40))
        self.assertTrue(eventually(lambda: not [path for path in self.our_groups() if "slot-" in path]),
                        self.our_groups())

    def our_groups(self):
        return [os.path.join(top, name) for group in self.our_cgroups()
                for top, names, _ in os.walk(group) for name in names]


if __name__ == "__main__":
    main()
