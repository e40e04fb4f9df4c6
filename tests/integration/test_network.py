"""Network mode nat: sandboxes reach the world beyond the host and nothing else, and nobody reaches them."""
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import launcher  # noqa: E402
from launcher import LauncherTest, eventually  # noqa: E402
from testnet import (DNS, HOST, HOST6, HOST_PORT, HOST_SECOND, METADATA, OUTSIDE, WEB, WEB_NAME,  # noqa: E402
                     TestNet, Web)

REFUSED = ("EHOSTUNREACH", "timeout", "ENETUNREACH", "ECONNREFUSED", "EACCES", "EPERM")


class NetworkTest(LauncherTest):
    """A launcher in the host namespace of a small internet."""

    def setUp(self):
        self.net = TestNet()
        self.addCleanup(self.net.close)
        super().setUp()

    def finish(self):
        super().finish()
        self.assertEqual(self.net.tables(), [], "the rules go with the last sandbox")
        self.assertTrue(eventually(lambda: self.net.links() <= {"lo", "uplink"}), self.net.links())

    def start(self, *arguments, wrapper=()):
        if "--network" not in arguments:
            arguments = ("--network", "nat", "--dns", DNS, *arguments)
        super().start(*arguments, wrapper=(*self.net.host.enter, *wrapper))
        self.prefix = f"o{self.instance}-"

    def hand_name(self, number):
        """One that the rules know and that no sandbox can have: a launcher deletes those that nobody has."""
        return f"{self.prefix}h{number:03x}"

    def by_hand(self, number=1):
        """A namespace whose root can do what no sandbox can, on an interface of ours."""
        return self.net.connected(self.hand_name(number), f"100.64.0.{1 + number}")

    def remove_hand_made(self):
        for name in self.net.links() - {"lo", "uplink"}:
            self.net.host.ip("link", "delete", name)


class Rules(NetworkTest):
    """Seen from hand-made interfaces, where even raw packets can be sent."""

    def setUp(self):
        super().setUp()
        self.start("--slots", "0")
        # high numbers, which no sandbox of these tests comes to
        self.one, self.two = self.by_hand(101), self.by_hand(102)
        self.addCleanup(self.remove_hand_made)

    def assert_refused(self, namespace, address, port, kind=socket.SOCK_STREAM, **options):
        got = namespace.attempt(address, port, kind, timeout=0.7 if kind == socket.SOCK_STREAM else 0.3, **options)
        self.assertIn(got, REFUSED, (address, port, kind))

    def test_the_world_is_reached(self):
        for namespace in (self.one, self.two):
            said = namespace.attempt(WEB, 80)
            self.assertIn("200 OK", said)
            self.assertIn(HOST, said.rpartition("\n")[2], "it goes out with the host's address")

    def test_the_host_is_not(self):
        for address in (HOST, HOST_SECOND, "127.0.0.1", "203.0.113.255", "255.255.255.255", "0.0.0.0"):
            self.assertIn("the host", self.net.host.attempt(HOST, HOST_PORT), "a control")
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                if address in ("127.0.0.1", "0.0.0.0"):
                    self.one.ip("route", "replace", "127.0.0.0/8", "dev", "eth0", "table", "local")
                self.assert_refused(self.one, address, HOST_PORT, kind)
        self.assertEqual({heard[0] for heard in self.net.heard}, {HOST})

    def test_nor_by_ping(self):
        self.assertTrue(self.one.ping(OUTSIDE, 2))
        for address in (HOST, HOST_SECOND, "100.64.0.1", "100.64.0.103", METADATA, "224.0.0.1"):
            self.assertFalse(self.one.ping(address, 0.3), address)

    def test_nor_link_local_the_pool_or_multicast(self):
        self.assertIn("200 OK", self.net.host.attempt(METADATA, 80), "a control")
        for address in (METADATA, "169.254.1.1", "100.64.0.1", "100.64.0.103", "100.64.200.1", "224.0.0.251",
                        "240.0.0.1"):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                self.assert_refused(self.one, address, 80, kind)

    def test_refused_quickly(self):
        """Programs learn at once, not after minutes, that they may not."""
        for address in (HOST, METADATA, "100.64.0.103"):
            self.assertEqual(self.one.attempt(address, 80, timeout=20), "EHOSTUNREACH", address)

    def test_no_other_sandbox(self):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            listener = self.two.listen("0.0.0.0", 5000, kind)
            self.addCleanup(listener.close)
            listener.settimeout(0.3)
            self.assert_refused(self.one, "100.64.0.103", 5000, kind)
            with self.assertRaises(TimeoutError):
                listener.accept() if kind == socket.SOCK_STREAM else listener.recv(100)

    def test_nobody_comes_in(self):
        listener = self.one.listen("0.0.0.0", 5000)
        self.addCleanup(listener.close)
        listener.settimeout(0.3)
        for namespace in (self.net.outside, self.net.host):
            self.assertIn(namespace.attempt("100.64.0.102", 5000, timeout=0.7), REFUSED)
            with self.assertRaises(TimeoutError):
                listener.accept()
        with contextlib.closing(self.one.listen("0.0.0.0", 5001, socket.SOCK_DGRAM)) as one:
            one.settimeout(0.3)
            for namespace in (self.net.outside, self.net.host):
                with contextlib.closing(namespace.open(socket.SOCK_DGRAM)) as other, contextlib.suppress(OSError):
                    other.sendto(b"hello", ("100.64.0.102", 5001))
            with self.assertRaises(TimeoutError):
                one.recv(100)

    def test_answers_come_in(self):
        with contextlib.closing(self.net.outside.listen(OUTSIDE, 9000, socket.SOCK_DGRAM)) as server, \
                contextlib.closing(self.one.open(socket.SOCK_DGRAM)) as client:
            for one in (server, client):
                one.settimeout(2)
            client.sendto(b"question", (OUTSIDE, 9000))
            question, sender = server.recvfrom(100)
            self.assertEqual((question, sender[0]), (b"question", HOST))
            server.sendto(b"answer", sender)
            self.assertEqual(client.recv(100), b"answer")
            # and what is no answer does not, though it goes to the same port
            with contextlib.closing(self.net.outside.listen(WEB, 9001, socket.SOCK_DGRAM)) as other:
                other.sendto(b"intruder", sender)
                client.settimeout(0.3)
                with self.assertRaises(TimeoutError):
                    client.recv(100)

    def raw(self, namespace, source, destination, payload=b"spoofed", port=9100):
        udp = struct.pack(">HHHH", 4000, port, 8 + len(payload), 0) + payload
        header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, socket.inet_aton(source),
                             socket.inet_aton(destination))
        with contextlib.closing(namespace.open(socket.SOCK_RAW, protocol=socket.IPPROTO_RAW)) as one:
            one.sendto(header + udp, (destination, 0))

    def test_only_its_own_address(self):
        with contextlib.closing(self.net.outside.listen("0.0.0.0", 9100, socket.SOCK_DGRAM)) as server:
            server.settimeout(2)
            self.raw(self.one, "100.64.0.102", OUTSIDE, b"mine")
            self.assertEqual(server.recv(100), b"mine", "a control")
            server.settimeout(0.4)
            for source in ("100.64.0.103", "100.64.7.7", HOST, HOST_SECOND, OUTSIDE, "127.0.0.1", "8.8.8.8",
                           "100.64.0.1"):
                self.raw(self.one, source, OUTSIDE, source.encode())
            with self.assertRaises(TimeoutError):
                self.fail(f"came through: {server.recv(100)}")

    def test_spoofed_does_not_reach_the_host_either(self):
        for source in ("100.64.0.102", "100.64.0.103", HOST, OUTSIDE, "127.0.0.1"):
            for target in (HOST, HOST_SECOND, "127.0.0.1"):
                self.one.ip("route", "replace", "127.0.0.0/8", "dev", "eth0", "table", "local")
                self.raw(self.one, source, target, port=HOST_PORT)
        time.sleep(0.3)
        self.assertEqual(self.net.heard, [])

    def test_only_ipv4(self):
        host, inside = self.net.host, self.one
        host.run("sysctl", "-qw", f"net.ipv6.conf.{self.hand_name(101)}.disable_ipv6=0", "net.ipv6.conf.all.forwarding=1")
        host.ip("address", "add", "2001:db8:1::1/64", "dev", self.hand_name(101), "nodad")
        inside.ip("address", "add", "2001:db8:1::2/64", "dev", "eth0", "nodad")
        inside.ip("route", "add", "default", "via", "2001:db8:1::1", "dev", "eth0")
        inside.ip("neighbour", "replace", "2001:db8:1::1", "lladdr", "02:00:00:00:00:01", "dev", "eth0")
        for address in ("2001:db8:1::1", HOST6):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                self.assertIn(inside.attempt(address, HOST_PORT, kind, 0.5, socket.AF_INET6), REFUSED)
        self.assertEqual(self.net.heard, [])

    def test_low_ports_are_not_the_hosts(self):
        for source in (600, 40000):
            said = self.one.attempt(WEB, 80, source=("100.64.0.102", source))
            port = int(said.split()[-1])
            self.assertGreaterEqual(port, 1024, "a port below 1024 speaks for the host's root")
            self.assertTrue(source < 1024 or port == source)

    def test_others_rules_do_not_open_the_host(self):
        """DNAT of somebody else's, as Docker has it for published ports, does not lead in."""
        container = self.net.connected("container0", "172.17.0.2", "172.17.0.1")
        self.net.threads.serve_http(container.listen("0.0.0.0", 80), Web)
        self.net.host.run("nft", f"""
            table ip other {{
                chain prerouting {{
                    type nat hook prerouting priority dstnat;
                    fib daddr type local tcp dport 8080 dnat to 172.17.0.2:80
                    ip daddr {OUTSIDE} tcp dport 8081 dnat to {HOST}:{HOST_PORT}
                    ip daddr {OUTSIDE} tcp dport 8082 dnat to 100.64.0.103:5000
                    ip daddr {OUTSIDE} tcp dport 8083 dnat to {METADATA}:80
                    ip daddr {OUTSIDE} tcp dport 8084 redirect to :{HOST_PORT}
                }}
            }}""")
        listener = self.two.listen("0.0.0.0", 5000)
        self.addCleanup(listener.close)
        self.assertIn("200 OK", self.net.outside.attempt(HOST, 8080), "a control")
        self.assert_refused(self.one, HOST, 8080)
        for port in (8081, 8082, 8083, 8084):
            self.assert_refused(self.one, OUTSIDE, port)
        self.assertEqual(self.net.heard, [])
        self.net.host.run("nft", "delete", "table", "ip", "other")

    def test_connections_are_bounded(self):
        """One sandbox cannot fill the machine's table of connections."""
        with contextlib.closing(self.one.open(socket.SOCK_DGRAM)) as flood:
            refused = 0
            for port in range(1, 12001):
                try:
                    flood.sendto(b"x", (OUTSIDE, port))
                except OSError:
                    refused += 1
        held = int(self.net.host.run("cat", "/proc/sys/net/netfilter/nf_conntrack_count"))
        self.assertLess(held, 4400)
        self.assertGreater(held, 3500)
        self.assertIn("200 OK", self.two.attempt(WEB, 80), "the neighbour goes on")

    def test_segments_fit_the_way(self):
        """Where packets are smaller on the way than both ends know, both ends are told."""
        self.net.host.ip("link", "set", "uplink", "mtu", "1300")
        with contextlib.closing(self.net.outside.listen(OUTSIDE, 9200)) as listener, \
                contextlib.closing(self.one.open()) as client:
            for one in (listener, client):
                one.settimeout(5)
            client.connect((OUTSIDE, 9200))
            server, _ = listener.accept()
            for one in (client, server):
                self.assertLessEqual(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG), 1260)
            server.close()

    def test_two_instances_do_not_meet(self):
        state = os.path.join(self.dir, "other")
        path = os.path.join(self.dir, "other.socket")
        command = [*self.net.host.enter, launcher.LAUNCHER, "--listen", path, "--state", state, "--execd", self.execd,
                   "--slots", "0", "--network", "nat", "--dns", DNS]
        # the same pool is not free
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"the pool 100\.64\.0\.0/16 overlaps .* 100\.64\.0\.10[23]/32 on "
                         + self.prefix)
        other = subprocess.Popen([*command, "--network-pool", "100.99.0.0/24"], stderr=subprocess.PIPE, text=True)
        with contextlib.closing(other.stderr):
            client = None
            for line in other.stderr:
                if "instance" in line:
                    instance = line.split("instance ")[1][:8]
                    client = launcher.Client(path)
                    client.greet()
                    break
            self.assertIsNotNone(client)
            self.assertEqual(len(self.net.tables()), 2)
            theirs = self.net.connected(f"o{instance}-0001", "100.99.0.2", "100.99.0.1")
            self.assertIn("200 OK", theirs.attempt(WEB, 80))
            listeners = [self.one.listen("0.0.0.0", 5000), theirs.listen("0.0.0.0", 5000)]
            self.assert_refused(self.one, "100.99.0.2", 5000)
            self.assert_refused(theirs, "100.64.0.102", 5000)
            for one in listeners:
                one.close()
            self.net.host.ip("link", "delete", f"o{instance}-0001")
            client.close()
            self.assertEqual(other.wait(20), 0)
        self.assertEqual(self.net.tables(), [f"table inet opensandbox-{self.instance}"], "only its own are removed")
        self.assertIn("200 OK", self.one.attempt(WEB, 80))


NAT = 1
# Says what a TCP client gets. Names are resolved as every program does it.
FETCH = "exec 3<>/dev/tcp/{}/{} && printf 'GET /{} HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
LISTEN = ("python3 -c 'import socket, sys; s = socket.socket(socket.AF_INET, getattr(socket, sys.argv[1]));"
          " s.bind((\"0.0.0.0\", int(sys.argv[2])));\nif sys.argv[1] == \"SOCK_STREAM\": s.listen()\n"
          "while True:\n  if sys.argv[1] == \"SOCK_STREAM\": s.accept()[0].send(b\"inside\")\n"
          "  else: s.sendto(b\"inside\", s.recvfrom(99)[1])' {} {} >/dev/null 2>&1 &")


# Asks all at once and says who answered; first the web server, by its name.
ASK = """
import select, socket, sys
with socket.create_connection(("web.example", 80), 5) as web:
    web.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
    print("web.example" if b"outside" in web.makefile("rb").read() else "no web", flush=True)
waiting = {}
for word in sys.argv[2:]:
    kind, target, port = word.split(",")
    one = socket.socket(2, 1 if kind == "tcp" else 2, 1 if kind == "ping" else 0)
    one.setblocking(False)
    try:
        one.connect((target, int(port)))
        one.send(bytes([8]) + bytes(7))
    except BlockingIOError:
        pass
    except OSError:
        continue
    waiting[one] = word.replace(",", " ")
left = float(sys.argv[1])
while waiting and left > 0:
    streams = [one for one in waiting if one.type & 1 == 1]
    ready = select.select([one for one in waiting if one not in streams], streams, [], 0.1)
    left -= 0.1
    for one in ready[0] + ready[1]:
        try:
            if one in ready[0]:
                one.recv(99)
            elif one.getsockopt(1, 4):
                raise OSError
            print(waiting[one])
        except OSError:
            pass
        del waiting[one]
"""


class Sandboxes(NetworkTest):
    """The same from sandboxes."""

    def create(self, client=None, **options):
        return (client or self.client).create(network=NAT, **options)[1]

    def inside(self, path, command):
        said, status = launcher.inside(path, f"bash -c \"$(cat <<'END'\n{command}\nEND\n)\" 2>&1")
        return said, status

    def address(self, path):
        said, _ = self.inside(path, "hostname -I 2>/dev/null || cat /proc/net/fib_trie")
        [address] = set(re.findall(r"100\.64\.\d+\.\d+", said))
        return address

    def serve(self, path, port):
        for kind in ("SOCK_STREAM", "SOCK_DGRAM"):
            self.inside(path, LISTEN.format(kind, port))
        said = eventually(lambda: "inside" in self.inside(path, FETCH.format("127.0.0.1", port, ""))[0])
        self.assertTrue(said, "a control")

    def reached(self, path, targets, seconds):
        words = " ".join(",".join(map(str, target)) for target in targets)
        said, _ = self.inside(path, f"exec /usr/bin/python3 -SEI - {seconds} {words} <<'PY'{ASK}PY")
        return said.splitlines()

    def start(self, *arguments, **options):
        super().start(*arguments, **options)
        self.client = self.connect()

    def test_two_hundred_at_once(self):
        """Each reaches the world by name; none reaches another, the host, or what is nobody's."""
        self.start("--slots", "8")
        boxes = [self.create() for _ in range(200)]
        self.assertGreaterEqual(len([name for name in self.net.links() if name.startswith(self.prefix)]), 200)
        for path in (boxes[0], boxes[199]):
            self.serve(path, 5000)
        addresses = [self.address(boxes[0]), self.address(boxes[199])]
        closed = [(HOST, HOST_PORT), (HOST_SECOND, HOST_PORT), (METADATA, 80), ("100.64.0.1", 80)]

        def visit(number):
            others = [(address, 5000) for index, address in zip((0, 199), addresses) if index != number]
            return self.reached(boxes[number], [("tcp", *target) for target in closed + others], 0.3)

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for found in pool.map(visit, range(200)):
                self.assertEqual(found, ["web.example"])
        self.assertEqual(self.net.heard, [])

    def test_what_it_sees(self):
        self.start()
        path = self.create()
        said, _ = self.inside(path, "cat /etc/resolv.conf; cat /proc/net/if_inet6;"
                              " python3 -c 'import socket; print(socket.getaddrinfo(\"web.example\", 80))'")
        self.assertIn(f"nameserver {DNS}\n", said)
        self.assertIn(f"('{WEB}', 80)", said)
        self.assertNotIn("eth0", said)
        said, _ = self.inside(path, FETCH.format(WEB, 80, "me"))
        self.assertEqual(said.split()[-2], HOST)

    def test_closed_to_udp_and_ping(self):
        self.start()
        one, two = self.create(), self.create()
        self.serve(two, 5000)
        targets = [HOST, HOST_SECOND, METADATA, "100.64.0.1", self.address(two), "224.0.0.1", "203.0.113.255"]
        tried = [(kind, target, port) for target in (OUTSIDE, *targets) for kind, port in
                 (("udp", 53), ("udp", 5000), ("udp", HOST_PORT), ("tcp", HOST_PORT), ("ping", 0))]
        self.assertEqual(self.reached(one, tried, 1), ["web.example", f"ping {OUTSIDE} 0"])
        self.assertEqual(self.net.heard, [])
        self.assertEqual(self.inside(one, "python3 -c 'import socket; socket.socket(2, 3, 255)'")[1], 1, "raw")

    def test_nobody_comes_in(self):
        self.start()
        path = self.create()
        self.serve(path, 5000)
        for namespace in (self.net.outside, self.net.host):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                self.assertIn(namespace.attempt(self.address(path), 5000, kind, timeout=0.5), REFUSED)

    def test_packets_are_as_large_as_the_uplinks(self):
        self.net.host.ip("link", "set", "uplink", "mtu", "1280")
        self.start()
        said = self.inside(self.create(), "python3 -c 'import fcntl, socket, struct; print(struct.unpack(\"16si12x\","
                           " fcntl.ioctl(socket.socket(), 0x8921, struct.pack(\"16s16x\", b\"eth0\")))[1])'")
        self.assertEqual(said, ("1280\n", 0))

    def test_big_transfers(self):
        """Also where packets are smaller on the way than both ends think."""
        self.start()
        self.net.host.ip("link", "set", "uplink", "mtu", "1300")
        path = self.create()
        size = 32 << 20
        self.assertEqual(self.inside(path, f"({FETCH.format(WEB, 80, f'bytes/{size}')}) | tail -c {size} | wc -c"),
                         (f"{size}\n", 0))
        said, _ = self.inside(path, f"exec 3<>/dev/tcp/{WEB}/80; printf 'POST / HTTP/1.0\\r\\nContent-Length: {size}"
                              f"\\r\\n\\r\\n' >&3; head -c {size} /dev/zero >&3; cat <&3")
        self.assertEqual(said.split()[-1], str(size))

    def test_launchers_come_and_go(self):
        self.start()
        path = self.create()
        for number in (signal.SIGKILL, signal.SIGTERM):
            self.crash(number)
            self.assertEqual(self.net.tables(), [f"table inet opensandbox-{self.instance}"])
            for _ in range(2):  # without a launcher, and with the next one
                self.assertIn("200 OK", self.inside(path, FETCH.format(WEB, 80, ""))[0])
                self.assertNotEqual(self.inside(path, f"timeout 0.5 bash -c 'exec 3<>/dev/tcp/{HOST}/{HOST_PORT}'")[1], 0)
                if self.process.poll() is not None:
                    self.start()
            self.assertIn("200 OK", self.inside(self.create(), FETCH.format(WEB_NAME, 80, ""))[0])
        self.assertEqual(self.net.heard, [])

    def test_a_restart_leaves_no_gap(self):
        """While rules are replaced again and again, connections go on and nothing gets through."""
        self.start()
        path = self.create()
        script = (f"import os, socket\none = socket.create_connection(('{WEB}', 80))\n"
                  "other = socket.socket(2, 2)\ncount = 0\nopen('/tmp/began', 'w')\n"
                  "while not os.path.exists('/tmp/stop'):\n    count += 1\n"
                  f"    try: other.sendto(b'x', ('{HOST}', {HOST_PORT}))\n    except OSError: pass\n"
                  "one.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')\n"
                  "print(count, one.makefile().read())\nos.rename('/tmp/saying', '/tmp/said')\n")
        self.inside(path, f"cat >/tmp/go.py <<'PY'\n{script}PY\npython3 -u /tmp/go.py >/tmp/saying 2>&1 &")
        self.assertTrue(eventually(lambda: self.inside(path, "test -e /tmp/began")[1] == 0))
        for _ in range(5):
            self.crash()
            self.start()
        self.inside(path, "touch /tmp/stop")
        self.assertTrue(eventually(lambda: self.inside(path, "test -e /tmp/said")[1] == 0))
        said, _ = self.inside(path, "cat /tmp/said")
        self.assertIn("200 OK", said)
        self.assertGreater(int(said.split()[0]), 1000)
        self.assertEqual(self.net.heard, [])

    def test_none_beside_nat(self):
        self.start()
        _, path = self.client.create(network=0)
        said, _ = self.inside(path, "cat /proc/net/dev; (" + FETCH.format(WEB, 80, "") + ")")
        self.assertNotIn("eth0", said)
        self.assertIn("unreachable", said)


class Firewalls(NetworkTest):
    """Rules of others that drop what they do not know: found by `check`, whose advice lets sandboxes through."""

    def setUp(self):
        super().setUp()
        self.start("--slots", "0")
        self.one = self.by_hand(101)
        self.addCleanup(self.remove_hand_made)

    def row(self, name="firewall"):
        done = subprocess.run([*self.net.host.enter, launcher.LAUNCHER, "check", "--state", self.state, "--dns", DNS,
                               "-o", "json"], stdout=subprocess.PIPE, timeout=60)
        [row] = [row for row in json.loads(done.stdout)["results"] if row["name"] == name]
        return row

    def try_rules(self, rules, undo, manager, advice):
        self.assertIn("200 OK", self.one.attempt(WEB, 80), "a control")
        self.net.host.run("sh", "-ec", rules)
        try:
            self.assertEqual(self.one.attempt(WEB, 80, timeout=0.5), "timeout")
            row = self.row()
            self.assertEqual(row["found"], "no", row)
            self.assertIn(manager, row["detail"])
            self.assertIn(advice, row["advice"])
            self.assertEqual(self.row("nat")["found"], "partly")
            self.net.host.run("sh", "-ec", row["advice"])
            self.assertIn("200 OK", self.one.attempt(WEB, 80), row["advice"])
            self.assertEqual(self.row()["found"], "yes", "and it is seen")
        finally:
            self.net.host.run("sh", "-ec", undo)

    def test_none(self):
        self.assertEqual(self.row()["found"], "yes")

    def test_docker(self):
        self.try_rules("iptables -N DOCKER-USER; iptables -A DOCKER-USER -j RETURN; iptables -P FORWARD DROP;"
                       "iptables -A FORWARD -j DOCKER-USER; iptables -A FORWARD -o docker0 -m conntrack --ctstate"
                       " RELATED,ESTABLISHED -j ACCEPT", "nft delete table ip filter", "Docker: chain FORWARD",
                       f"iptables -I DOCKER-USER -i {self.prefix}+ -o uplink -j ACCEPT")

    def test_iptables(self):
        self.try_rules("iptables -A FORWARD -i eth7 -j ACCEPT; iptables -A FORWARD -j DROP",
                       "nft delete table ip filter", "iptables: chain FORWARD", f"iptables -I FORWARD -i {self.prefix}+")

    def test_legacy_iptables(self):
        if not shutil.which("iptables-legacy"):
            self.skipTest("there is no iptables-legacy")
        if subprocess.run([*self.net.host.enter, "iptables-legacy", "-L"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("the kernel has no older iptables")
        # the advice says iptables, which is whichever the administrator uses
        with open(os.path.join(self.dir, "iptables"), "w") as file:
            file.write('#!/bin/sh\nexec iptables-legacy "$@"\n')
        os.chmod(file.name, 0o755)
        with unittest.mock.patch.dict(os.environ, PATH=f"{self.dir}:{os.environ['PATH']}"):
            self.try_rules("iptables -P FORWARD DROP", "iptables -P FORWARD ACCEPT; iptables -F FORWARD",
                           "iptables: chain FORWARD", f"iptables -I FORWARD -i {self.prefix}+")

    def test_nft(self):
        self.try_rules("nft 'table inet strict { chain passing { type filter hook forward priority 10; policy drop;"
                       " iifname \"eth7\" accept comment \"known\"; }; }'", "nft delete table inet strict",
                       "nft: chain passing of table inet strict", "nft 'insert rule inet strict passing")

    def test_ones_that_do_not_drop(self):
        self.net.host.run("nft", """
            table inet loose {
                chain passing {
                    type filter hook forward priority 10
                    ip daddr 192.0.2.77 drop
                    ct state invalid drop
                }
                chain input {
                    type filter hook input priority 0; policy drop;
                    ct state established accept
                }
            }""")
        self.assertEqual(self.row()["found"], "yes")
        self.assertIn("200 OK", self.one.attempt(WEB, 80))
        self.net.host.run("nft", "delete", "table", "inet", "loose")


class Start(NetworkTest):
    def refused(self, *arguments, wrapper=()):
        done = subprocess.run([*wrapper, launcher.LAUNCHER, "--listen", self.path, "--state", self.state, "--execd",
                               self.execd, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stdout

    def test_forwarding_is_turned_on(self):
        self.assertEqual(self.net.host.run("cat", "/proc/sys/net/ipv4/ip_forward"), "0\n")
        self.start()
        self.assertEqual(self.net.host.run("cat", "/proc/sys/net/ipv4/ip_forward"), "1\n")
        self.assertIn("turned on net.ipv4.ip_forward", self.log)
        self.crash()
        self.start()
        self.assertNotIn("ip_forward", self.log)

    def test_none_changes_nothing(self):
        self.start("--network", "none")
        self.assertEqual(self.net.tables(), [])
        self.assertEqual(self.net.host.run("cat", "/proc/sys/net/ipv4/ip_forward"), "0\n")

    def test_pools_that_are_not_free(self):
        self.net.host.ip("route", "add", "10.1.0.0/16", "via", OUTSIDE)
        self.net.host.ip("route", "add", "10.9.0.0/16", "via", OUTSIDE, "table", "52")
        for pool, said in (("10.0.0.0/13", "10.1.0.0/16 on uplink"), ("10.1.2.0/24", "10.1.0.0/16"),
                           ("192.0.2.0/24", f"{HOST_SECOND}/32 on lo"), ("203.0.113.0/28", "203.0.113.0/24"),
                           ("10.9.0.0/28", "10.9.0.0/16")):
            out = self.refused("--network", "nat", "--network-pool", pool, wrapper=self.net.host.enter)
            self.assertIn("network mode nat cannot be had", out)
            self.assertIn(f"the pool {pool} overlaps the machine's route to {said}", out)
            self.assertEqual(self.net.tables(), [])
        # halves of a default route are no more in the way than the whole
        self.net.host.ip("route", "add", "0.0.0.0/1", "via", OUTSIDE)
        self.start("--network", "auto", "--network-pool", "10.2.0.0/16")
        self.assertIn("network nat", self.log)
        self.crash()
        self.start("--network", "auto", "--network-pool", "10.1.2.0/24")
        self.assertIn("sandboxes have no network: the pool 10.1.2.0/24 overlaps", self.log)
        self.assertIn("network none", self.log)
        self.crash()
        self.start()  # with the rules to be removed

    def test_without_nft(self):
        hide = ("unshare", "-m", "sh", "-c", "for at in /usr/sbin /sbin; do mount --bind /dev/null $at/nft; done;"
                ' exec "$@"', "sh")
        out = self.refused("--network", "nat", wrapper=(*self.net.host.enter, *hide))
        self.assertIn("the program nft is not installed", out)
        self.start("--network", "auto", wrapper=hide)
        self.assertIn("sandboxes have no network: the program nft is not installed", self.log)

    def fake_nft(self, script):
        path = os.path.join(self.dir, "nft")
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        return ("unshare", "-m", "sh", "-c", f"mount --bind {path} /usr/sbin/nft; exec \"$@\"", "sh")

    def test_nft_that_fails(self):
        wrapper = self.fake_nft("echo /dev/stdin:7:1-20: Error: No such wonder >&2; echo more >&2; exit 1\n")
        out = self.refused("--network", "nat", wrapper=(*self.net.host.enter, *wrapper))
        self.assertIn("nft refused the rules: No such wonder", out)
        self.assertNotIn("more", out)

    def test_nft_that_fails_to_end_and_what_it_is_given(self):
        wrapper = self.fake_nft(f"set > {self.dir}/env; cat >&2; yes | head -c 1000000 >&2; kill -9 $$\n")
        out = self.refused("--network", "nat", wrapper=(*self.net.host.enter, *wrapper))
        self.assertIn("cannot run nft", out)
        with open(f"{self.dir}/env") as file:
            self.assertNotIn("HOME=", file.read())


if __name__ == "__main__":
    launcher.main()
