#!/usr/bin/env python3
"""Network mode nat as the launcher makes it: the device of a sandbox, its number, its counters and its end.
What can be reached over it is told by test_network.py.

Everything is in a network namespace of the test's own. Run as root:

    OSB_BIN_DIR=build/bin python3 tests/integration/test_launcher_nat.py
"""
import os
import re
import signal
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from launcher import (CREATE, EXITED, KILL, LIMIT, LauncherTest, OK, READ_ONLY_ROOT, REMOVE, UNSUPPORTED,  # noqa: E402
                      create_body, eventually, id_body, inside, main, record_of, upper_of)
from testnet import Namespace  # noqa: E402

NAT, NONE = 1, 0
DNS = "192.0.2.53"
# To an address that is refused: the answer comes from the host.
TALK = """python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.connect(("169.254.1.1", 9))
s.send(b"x" * 1000)
try: s.recv(1)
except OSError as error: print(error.errno)'"""
NETWORK = "readlink /proc/self/ns/net"


class Nat(LauncherTest):
    options = ("--slots", "0")

    def setUp(self):
        self.host = Namespace()
        self.addCleanup(self.host.close)
        super().setUp()
        self.begin()

    def begin(self, *arguments):
        self.start("--network", "nat", "--dns", DNS, *self.options, *arguments)
        self.client = self.connect()

    def start(self, *arguments, wrapper=()):
        super().start(*arguments, wrapper=(*self.host.enter, *wrapper))

    def finish(self):
        super().finish()
        self.assertTrue(eventually(lambda: not self.devices()), self.devices())

    def devices(self):
        with open(f"/proc/{self.host.holder.pid}/net/dev") as file:
            return [name for name in re.findall(r"(?m)^ *(\S+):", file.read()) if name != "lo"]

    def name(self, number):
        return f"o{self.instance}-{number:04x}"

    def number(self, sandbox):
        return int(record_of(self.state, sandbox)["network"])

    def say(self, path, command):
        said, status = inside(path, command)
        self.assertEqual(status, 0, said)
        return said.strip()

    def remove(self, sandbox):
        """And wait until its process has ended, for until then nothing of it is spare."""
        pid = record_of(self.state, sandbox)["pid"]
        self.assertEqual(self.client.ask(REMOVE, id_body(sandbox)).code, OK)
        self.assertTrue(eventually(lambda: not os.path.exists(f"/proc/{pid}")))

    def refusal(self, **wanted):
        result = self.client.ask(CREATE, create_body(str(uuid.uuid4()), **wanted))
        self.assertNotEqual(result.code, OK)
        return result


class Device(Nat):
    def test_what_is_inside(self):
        sandbox, path = self.client.create(network=NAT)
        address = f"100.64.0.{1 + self.number(sandbox)}"
        link = self.say(path, "ip -o link show eth0")
        for word in ("NOARP", "UP", "LOWER_UP", "mtu 1500"):
            self.assertIn(word, link)
        self.assertNotIn("MULTICAST", link)
        self.assertIn(f"inet {address}/32 ", self.say(path, "ip -o -4 address show dev eth0"))
        self.assertEqual(self.say(path, "ip route").split()[:5], ["default", "via", "100.64.0.1", "dev", "eth0"])
        self.assertEqual(self.say(path, "ip -o -6 address show dev eth0; ip -6 route show dev eth0"), "")
        self.assertIn("::1/128", self.say(path, "ip -o -6 address show dev lo"))
        self.assertEqual(self.say(path, "cd /proc/sys/net/ipv4/conf/eth0 && "
                                        "cat accept_redirects forwarding accept_source_route").split(), ["0"] * 3)
        self.assertIn(f"nameserver {DNS}\n", self.say(path, "cat /etc/resolv.conf") + "\n")

    def test_the_hosts_end(self):
        sandbox, path = self.client.create(network=NAT)
        name, address = self.name(self.number(sandbox)), f"100.64.0.{1 + self.number(sandbox)}"
        self.assertEqual(self.devices(), [name])
        link = self.host.ip("-o", "link", "show", name)
        for word in ("NOARP", "UP", "LOWER_UP", "mtu 1500"):
            self.assertIn(word, link)
        hardware = re.search(r"link/ether (\S+)", link).group(1)
        self.assertIn(hardware, self.say(path, "ip -o link show eth0"))
        self.assertEqual(self.host.ip("-o", "address", "show", "dev", name), "")
        self.assertIn(f"{address} scope link", self.host.ip("route", "show", "dev", name).replace("proto static  ", "").replace("proto static ", ""))
        wanted = {"ipv4": {"rp_filter": "1", "accept_redirects": "0", "send_redirects": "0", "forwarding": "1",
                           "accept_source_route": "0"}, "ipv6": {"disable_ipv6": "1"}}
        for family, settings in wanted.items():
            for setting, value in settings.items():
                got = self.host.run("cat", f"/proc/sys/net/{family}/conf/{name}/{setting}").strip()
                self.assertEqual(got, value, setting)

    def test_nobody_asks_who_is_there(self):
        """No neighbour is found out: the first packet goes out at once."""
        _, path = self.client.create(network=NAT)
        self.assertEqual(self.say(path, TALK), "113")  # EHOSTUNREACH: the host has answered
        self.assertIn("NOARP", self.say(path, "ip neighbour show nud all dev eth0"))

    def test_nothing_can_be_changed_inside(self):
        _, path = self.client.create(network=NAT)
        for command in ("ip link set eth0 down", "ip address add 100.64.0.99/32 dev eth0",
                        "ip route add 192.0.2.0/24 dev eth0", "ip link set eth0 address 02:00:00:00:00:09"):
            self.assertNotEqual(inside(path, command + " 2>/dev/null")[1], 0, command)

    def test_upper_stays_empty(self):
        """What every sandbox has is in the image; each inode in the upper layer would be made on the disk."""
        sandbox, _ = self.client.create(network=NAT)
        self.assertEqual(os.listdir(upper_of(self.state, sandbox)), [])

    def test_none_beside_it(self):
        sandbox, path = self.client.create(network=NONE)
        self.assertEqual(self.number(sandbox), 0)
        self.assertEqual(self.devices(), [])
        self.assertEqual(self.say(path, "ls /proc/sys/net/ipv4/conf"), "all\ndefault\nlo")
        self.assertNotIn("nameserver", self.say(path, "cat /etc/resolv.conf; stat -c %u:%g:%a /etc /etc/resolv.conf"))
        self.assertIn("0:0:755\n0:0:644", self.say(path, "stat -c %u:%g:%a /etc /etc/resolv.conf"))
        self.assertIn("::1", self.say(path, "cat /etc/hosts"))
        usage = self.client.stat(sandbox)
        self.assertEqual((usage.rx, usage.tx), (0, 0))

    def test_other_shapes(self):
        _, path = self.client.create(network=NAT, flags=READ_ONLY_ROOT)
        self.assertIn(DNS, self.say(path, "cat /etc/resolv.conf"))
        self.assertEqual(self.say(path, TALK), "113")
        self.assertEqual(len(self.devices()), 1)

    def test_the_pool_has_it(self):
        self.client.close()
        self.crash()
        self.begin("--slots", "3")
        self.assertTrue(eventually(lambda: len(self.devices()) == 3))
        before = set(self.devices())
        sandbox, _ = self.client.create(network=NAT)
        self.assertIn(self.name(self.number(sandbox)), before)
        self.assertTrue(eventually(lambda: len(self.devices()) == 4))

    def test_off(self):
        self.assertEqual((self.client.greet().networks, self.client.greet().network_reason), (3, ""))
        self.crash()
        self.start("--slots", "0", "--network", "none")
        self.client = self.connect()
        welcome = self.client.greet()
        self.assertEqual(welcome.networks, 1)
        self.assertIn("--network none", welcome.network_reason)
        refused = self.refusal(network=NAT)
        self.assertEqual(refused.code, UNSUPPORTED)
        self.assertIn(welcome.network_reason, refused.message)
        _, path = self.client.create()
        self.assertNotIn("nameserver", self.say(path, "cat /etc/resolv.conf"))


class Counters(Nat):
    def test_both_directions(self):
        sandbox, path = self.client.create(network=NAT)
        other, _ = self.client.create(network=NAT)
        self.say(path, TALK)
        usage = self.client.stat(sandbox)
        self.assertEqual(usage.tx, 14 + 20 + 8 + 1000)
        self.assertGreater(usage.rx, 14 + 20 + 8 + 20)
        self.assertLess(usage.rx, usage.tx)
        silent = self.client.stat(other)
        self.assertEqual((silent.rx, silent.tx), (0, 0))

    def test_loopback_does_not_count(self):
        sandbox, path = self.client.create(network=NAT)
        self.say(path, "python3 -c 'import socket; socket.socket(2, 2).sendto(b\"x\", (\"127.0.0.1\", 9))'")
        usage = self.client.stat(sandbox)
        self.assertEqual((usage.rx, usage.tx), (0, 0))

    def test_the_last_ones_are_kept(self):
        """What was sent just before the end, over a network that is gone by then, and over a restart."""
        sandbox, path = self.client.create(network=NAT)
        self.say(path, TALK)
        inside(path, "exit 3")
        self.client.wait_exit(sandbox)
        usage = self.client.stat(sandbox)
        self.assertEqual((usage.state, usage.tx), (EXITED, 1042))
        self.assertTrue(eventually(lambda: not self.devices()))
        self.crash()
        self.begin()
        again = self.client.stat(sandbox)
        self.assertEqual((again.rx, again.tx), (usage.rx, usage.tx))

    def test_over_a_restart(self):
        sandbox, path = self.client.create(network=NAT)
        self.say(path, TALK)
        self.crash()
        self.begin()
        self.say(path, TALK)
        self.assertEqual(self.client.stat(sandbox).tx, 2 * 1042)


class Life(Nat):
    def test_it_goes_with_the_sandbox(self):
        self.crash()
        self.begin("--spare-seconds", "0")
        sandbox, _ = self.client.create(network=NAT)
        ended, _ = self.client.create(network=NAT)
        self.remove(sandbox)
        self.assertTrue(eventually(lambda: self.devices() == [self.name(self.number(ended))]))
        self.client.ask(KILL, id_body(ended))
        self.client.wait_exit(ended)
        self.assertTrue(eventually(lambda: not self.devices()))
        self.assertEqual(self.number(ended), 0)

    def test_killed_launcher(self):
        """A sandbox that goes on keeps its device; its number is not given to another one."""
        sandbox, path = self.client.create(network=NAT)
        number, network = self.number(sandbox), self.say(path, NETWORK)
        self.crash(signal.SIGKILL)
        self.begin()
        self.assertEqual(self.devices(), [self.name(number)])
        self.assertEqual(self.say(path, NETWORK + "; " + TALK), f"{network}\n113")
        others = [self.client.create(network=NAT)[0] for _ in range(3)]
        numbers = [self.number(one) for one in others]
        self.assertEqual(len({number, *numbers}), 4)
        self.remove(sandbox)
        self.assertTrue(eventually(lambda: sorted(self.devices()) == sorted(map(self.name, numbers))))

    def test_killed_with_slots(self):
        """Devices of slots and of spare networks, which no launcher has any more."""
        self.crash()
        self.begin("--slots", "8")
        self.assertTrue(eventually(lambda: len(self.devices()) == 8))
        sandbox, _ = self.client.create(network=NAT)
        self.assertTrue(eventually(lambda: len(self.devices()) == 9))
        self.remove(sandbox)
        self.crash(signal.SIGKILL)
        self.begin()
        self.assertTrue(eventually(lambda: not self.devices()), self.devices())

    def test_sweep(self):
        """What somebody else keeps is deleted as well, but nothing that is not ours."""
        keeper, other = Namespace(), Namespace()
        for namespace in (keeper, other):
            self.addCleanup(namespace.close)
        sandbox, _ = self.client.create(network=NAT)
        kept = self.name(self.number(sandbox))
        strange = f"o{self.instance}-x"
        self.crash(signal.SIGKILL)
        for name, inner in ((self.name(9), "a"), ("o00000000-0001", "b"), (strange, "c")):
            self.host.ip("link", "add", name, "type", "veth", "peer", "name", inner, "netns", keeper.holder.pid)
        self.begin()
        self.assertEqual(sorted(self.devices()), sorted([kept, "o00000000-0001", strange]))
        self.assertIn(self.name(9), self.read_log())
        for name in ("o00000000-0001", strange):
            self.host.ip("link", "delete", name)

    def test_sweep_without_nat(self):
        self.crash(signal.SIGKILL)
        self.host.ip("link", "add", self.name(9), "type", "veth", "peer", "name", "other")
        self.start("--slots", "0", "--network", "none")
        self.assertEqual(self.devices(), [])

    def test_stop_and_start(self):
        sandbox, path = self.client.create(network=NAT)
        self.crash(signal.SIGTERM)
        self.begin()
        self.assertEqual(self.devices(), [self.name(self.number(sandbox))])
        self.assertEqual(self.say(path, TALK), "113")


class Spare(Nat):
    def test_one_nobody_talked_over(self):
        sandbox, path = self.client.create(network=NAT)
        before = self.number(sandbox), self.say(path, NETWORK)
        self.remove(sandbox)
        sandbox, path = self.client.create(network=NAT)
        self.assertEqual((self.number(sandbox), self.say(path, NETWORK)), before)
        self.assertEqual(self.devices(), [self.name(before[0])])
        self.assertEqual(self.say(path, TALK), "113")
        self.assertEqual(self.client.stat(sandbox).tx, 1042)

    def test_one_somebody_talked_over(self):
        sandbox, path = self.client.create(network=NAT)
        before = self.number(sandbox), self.say(path, NETWORK)
        self.say(path, TALK)
        self.remove(sandbox)
        for _ in range(2):  # the second one has what the first one had to make
            sandbox, path = self.client.create(network=NAT)
            after = self.number(sandbox), self.say(path, NETWORK)
            self.assertNotEqual(after[0], before[0])
            self.assertNotEqual(after[1], before[1])
            usage = self.client.stat(sandbox)
            self.assertEqual((usage.rx, usage.tx), (0, 0))
            self.assertTrue(eventually(lambda: self.devices() == [self.name(after[0])]), self.devices())
            self.remove(sandbox)

    def test_modes_do_not_mix(self):
        sandbox, path = self.client.create(network=NAT)
        nat = self.say(path, NETWORK)
        self.remove(sandbox)
        sandbox, path = self.client.create(network=NONE)
        none = self.say(path, NETWORK)
        self.assertNotEqual(none, nat)
        self.remove(sandbox)
        _, path = self.client.create(network=NAT)
        self.assertEqual(self.say(path, NETWORK), nat)
        _, path = self.client.create(network=NONE)
        self.assertEqual(self.say(path, NETWORK), none)


class Numbers(Nat):
    """A pool of 16 addresses: 13 networks."""
    options = ("--slots", "0", "--network-pool", "100.64.0.0/28")

    def test_all_in_use(self):
        sequences = [self.client.send(CREATE, create_body(str(uuid.uuid4()), network=NAT)) for _ in range(20)]
        results = [self.client.wait(one) for one in sequences]
        self.assertEqual(sorted(one.code for one in results), [OK] * 13 + [LIMIT] * 7)
        self.assertIn("all 13 addresses", next(one.message for one in results if one.code == LIMIT))
        sandboxes = [one.id for one in self.client.list()]
        self.assertEqual(sorted(map(self.number, sandboxes)), list(range(1, 14)))
        self.client.create(network=NONE)
        free = self.number(sandboxes[4])
        self.remove(sandboxes[4])
        sandbox, _ = self.client.create(network=NAT)  # of what was spare
        self.assertEqual(self.number(sandbox), free)
        ended = sandboxes[7]
        gone = self.name(self.number(ended))
        self.client.ask(KILL, id_body(ended))
        self.client.wait_exit(ended)
        self.assertTrue(eventually(lambda: gone not in self.devices()))
        sandbox, _ = self.client.create(network=NAT)  # though the ended one has not been removed
        self.assertEqual(self.name(self.number(sandbox)), gone)

    def test_what_is_spare_is_given_up(self):
        """When all numbers are with spare networks that cannot be used."""
        for _ in range(13):
            sandbox, path = self.client.create(network=NAT)
            self.say(path, TALK)
            self.remove(sandbox)
        self.assertTrue(eventually(self.can_create), self.read_log())

    def can_create(self):
        result = self.client.ask(CREATE, create_body(str(uuid.uuid4()), network=NAT))
        return result.code == OK

    def test_a_number_rests(self):
        self.crash()
        self.begin("--spare-seconds", "0")
        numbers = []
        for _ in range(13):
            sandbox, _ = self.client.create(network=NAT)
            numbers.append(self.number(sandbox))
            self.remove(sandbox)
        self.assertEqual(sorted(numbers), list(range(1, 14)))

    def test_a_device_that_is_still_there(self):
        """Its number is passed over, whoever keeps the device."""
        self.host.ip("link", "add", self.name(1), "type", "veth", "peer", "name", "other")
        sandbox, _ = self.client.create(network=NAT)
        self.assertEqual(self.number(sandbox), 2)
        self.assertNotIn("could not be prepared", self.read_log())
        self.host.ip("link", "delete", self.name(1))


if __name__ == "__main__":
    main()
