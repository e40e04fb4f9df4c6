#!/usr/bin/env python3
"""What network mode nat costs: bytes per second of one TCP stream between the world and a sandbox's network, beside a
plain veth pair between the same two programs, in turns. The ratio is that of the networks: in both the program is
outside of any sandbox, with the sandbox's network or the plain one. What it is from inside of the sandbox, which is
slower, is told with a ratio of its own. Runs in network namespaces of its own; nothing leaves them."""
import argparse
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PORT = 9000
CLIENT = """
import socket, sys, time
address, way, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
one = socket.create_connection((address, %d), 30)
block = bytearray(1 << 20)
began, left = time.monotonic(), count
one.sendall((way + str(count) + "\\n").encode())
if way == "D":
    while left > 0:
        got = one.recv_into(block)
        if got == 0: sys.exit("cut short")
        left -= got
else:
    while left > 0:
        one.sendall(block[:left] if left < len(block) else block)
        left -= len(block)
    assert one.recv(2) == b"ok"
print(count / (time.monotonic() - began))
""" % PORT


def answer(peer):
    with peer, peer.makefile("rb", buffering=0) as reader:
        line = reader.readline().decode()
        left, block = int(line[1:]), bytearray(1 << 20)
        while left > 0 and line[0] == "D":
            peer.sendall(block[:left] if left < len(block) else block)
            left -= len(block)
        while left > 0:
            got = peer.recv_into(block)
            if got == 0:
                return
            left -= got
        if line[0] == "U":
            peer.sendall(b"ok")


def serve(listener):
    """In a process of its own, so that it is measured and not this one's threads. Returns its pid."""
    pid = os.fork()
    if pid == 0:
        while True:
            answer(listener.accept()[0])
    return pid


class Nat:
    """A launcher in the host's namespace, and one sandbox."""

    def __init__(self, net, launcher):
        self.launcher = launcher
        self.folder = tempfile.TemporaryDirectory(prefix="osb-bench-", dir="/tmp")
        path = self.folder.name + "/socket"
        self.process = subprocess.Popen(
            [*net.host.enter, launcher.LAUNCHER, "--listen", path, "--state", self.folder.name + "/state", "--execd",
             launcher.probe(), "--slots", "1", "--network", "nat", "--log-level", "warn"])
        assert launcher.eventually(lambda: os.path.exists(path)), "the launcher did not start"
        self.client = launcher.Client(path)
        self.client.greet()
        self.id, self.socket = self.client.create(network=1)
        pid = launcher.record_of(self.folder.name + "/state", self.id)["pid"]
        self.enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "sh", "-c"]

    def run_beside(self, command):
        """With its network, but not in it otherwise."""
        return subprocess.run([*self.enter, command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              check=True).stdout

    def run(self, command):
        said, status = self.launcher.inside(self.socket, command)
        assert status == 0, said
        return said

    def close(self):
        self.client.ask(self.launcher.REMOVE, self.launcher.id_body(self.id))
        self.client.close()
        self.process.wait(30)
        self.folder.cleanup()


def measure(run, address, way, count):
    return float(run(f"/usr/bin/python3 -SEI - {address} {way} {count} <<'END'\n{CLIENT}\nEND\n"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--mebibytes", type=int, default=128, help="of each transfer")
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    os.environ["OSB_BIN_DIR"] = str((ROOT / arguments.build).resolve() / "bin")
    sys.path.insert(0, str(ROOT / "tests/support"))
    import launcher
    from testnet import OUTSIDE, TestNet

    with TestNet() as net:
        plain = net.namespace()
        net.outside.ip_all(f"link add plain type veth peer name eth0 netns {plain.holder.pid}", "link set plain up",
                           "address add 10.200.0.1/24 dev plain")
        plain.ip_all("link set eth0 up", "address add 10.200.0.2/24 dev eth0")
        server = serve(net.outside.listen("0.0.0.0", PORT, socket.SOCK_STREAM))
        nat = Nat(net, launcher)
        try:
            ends = {"plain": (lambda command: plain.run("sh", "-c", command), "10.200.0.1"),
                    "nat": (nat.run_beside, OUTSIDE), "inside": (nat.run, OUTSIDE)}
            count = arguments.mebibytes << 20
            for way, name in (("D", "to a sandbox"), ("U", "from a sandbox")):
                speeds = {kind: [] for kind in ends}
                for turn in range(arguments.rounds + 1):  # the first warms up
                    for kind, (run, address) in ends.items():
                        speed = measure(run, address, way, count)
                        if turn > 0:
                            speeds[kind].append(speed)
                # the fastest: whatever else the machine does can only take away from it
                best = {kind: max(values) / (1 << 20) for kind, values in speeds.items()}
                print(f"network, {name}: nat {best['nat']:.0f} MiB/s, plain veth {best['plain']:.0f} MiB/s, ratio"
                      f" {best['nat'] / best['plain']:.2f}; from inside {best['inside']:.0f} MiB/s,"
                      f" {best['inside'] / best['plain']:.2f}", flush=True)
        finally:
            nat.close()
            os.kill(server, 9)
            os.waitpid(server, 0)


if __name__ == "__main__":
    main()
