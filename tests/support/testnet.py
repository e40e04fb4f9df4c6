"""A small internet of a test's own: the machine's network is not touched and nothing leaves.

    outside (the world)                                   host (where launcher and server run)
    203.0.113.1 -------------------- uplink ------------- 203.0.113.2, default route to outside
    198.51.100.10  web server, port 80                    192.0.2.1, a second address
    198.51.100.53  name server, UDP and TCP port 53       every address listens on HOST_PORT, TCP and UDP
    169.254.169.254  metadata service, port 80

Namespaces have no names and no mounts: each is held by a process that ends with the test, however that ends.
Servers are threads of the test with sockets that were made in a namespace.
"""
import contextlib
import ctypes
import errno
import http.server
import os
import socket
import socketserver
import struct
import subprocess
import threading
import time

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)

OUTSIDE, HOST, HOST_SECOND = "203.0.113.1", "203.0.113.2", "192.0.2.1"
OUTSIDE6, HOST6 = "2001:db8::1", "2001:db8::2"
WEB, DNS, METADATA = "198.51.100.10", "198.51.100.53", "169.254.169.254"
WEB_NAME = "web.example"
HOST_PORT = 7777
POOL = "100.64.0.0/16"


def in_namespace(path, work):
    """The result of `work`, done by a thread that is in the network namespace and then ends."""
    outcome = []

    def run():
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if LIBC.setns(fd, CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            finally:
                os.close(fd)
            outcome.append((work(), None))
        except BaseException as error:  # noqa: BLE001 raised again where it is waited for
            outcome.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


class Namespace:
    """A network namespace, with `lo` up. `enter` goes before a command."""

    def __init__(self):
        # cat ends when we do
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.path = f"/proc/{self.holder.pid}/ns/net"
        self.enter = ("nsenter", f"--net={self.path}")

    def close(self):
        self.holder.stdin.close()
        self.holder.wait()
        self.holder.stdout.close()

    def run(self, *command, check=True, **options):
        """The output of a command in here."""
        done = subprocess.run([*self.enter, *map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, **options)
        assert not check or done.returncode == 0, (command, done.stdout)
        return done.stdout

    def ip(self, *words):
        return self.run("ip", *words)

    def ip_all(self, *lines):
        """Several at once: a process each takes its time."""
        subprocess.run([*self.enter, "ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)

    def call(self, work):
        return in_namespace(self.path, work)

    def open(self, kind=socket.SOCK_STREAM, family=socket.AF_INET, protocol=0):
        return self.call(lambda: socket.socket(family, kind, protocol))

    def listen(self, address, port, kind=socket.SOCK_STREAM, family=socket.AF_INET):
        one = self.open(kind, family)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind((address, port))
        if kind == socket.SOCK_STREAM:
            one.listen(512)
        return one

    def attempt(self, address, port, kind=socket.SOCK_STREAM, timeout=2, family=socket.AF_INET, source=None):
        """What a client in here gets: the server's first bytes, or the error's name ("timeout", "EHOSTUNREACH")."""
        with contextlib.closing(self.open(kind, family)) as one:
            one.settimeout(timeout)
            try:
                if source:
                    one.bind(source)
                one.connect((address, port))
                one.sendall(b"GET /me HTTP/1.0\r\n\r\n")
                said = b""
                while data := one.recv(65536):
                    said += data
                    if kind == socket.SOCK_DGRAM:
                        break
                return said.decode()
            except TimeoutError:
                return "timeout"
            except OSError as error:
                return errno.errorcode[error.errno]


    def ping(self, address, timeout):
        """Whether an echo comes back. As root, so that no setting of the namespace is needed."""
        request = struct.pack(">BBHHH", 8, 0, 0, os.getpid() & 0xffff, 7)
        total = sum(struct.unpack(">4H", request))
        total = (total & 0xffff) + (total >> 16)
        request = request[:2] + struct.pack(">H", ~((total & 0xffff) + (total >> 16)) & 0xffff) + request[4:]
        with contextlib.closing(self.open(socket.SOCK_RAW, protocol=socket.IPPROTO_ICMP)) as one:
            with contextlib.suppress(OSError):
                one.sendto(request, (address, 0))
            deadline = time.monotonic() + timeout
            while (left := deadline - time.monotonic()) > 0:
                one.settimeout(left)
                with contextlib.suppress(TimeoutError):
                    packet = one.recv(4096)
                    if packet[20] == 0 and packet[24:28] == request[4:8]:
                        return True
        return False


class Threads:
    """Threads that serve until they are closed."""

    def __init__(self):
        self.closing = []

    def serve_http(self, listener, handler):
        server = http.server.ThreadingHTTPServer(("", 0), handler, bind_and_activate=False)
        server.socket.close()
        server.socket = listener
        server.server_address, server.server_name, server.server_port = listener.getsockname()[:2], "test", 80
        self.start(server)
        return server

    def serve(self, listener, handler):
        stream = listener.type == socket.SOCK_STREAM
        kind = socketserver.ThreadingTCPServer if stream else socketserver.ThreadingUDPServer
        server = kind(("", 0), handler, bind_and_activate=False)
        server.socket.close()
        server.socket, server.daemon_threads = listener, True
        self.start(server)
        return server

    def start(self, server):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()

        def stop():
            server.shutdown()
            thread.join()
            server.server_close()
        self.closing.append(stop)

    def close(self):
        while self.closing:
            self.closing.pop()()


class Web(http.server.BaseHTTPRequestHandler):
    """/: "outside"; /me: the client's address; /bytes/N: N zeros; POST: how many bytes came."""
    name = "outside"

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        _, _, first = self.path.partition("/")
        first, _, rest = first.partition("/")
        if first == "bytes":
            self.send_response(200)
            self.send_header("Content-Length", rest)
            self.end_headers()
            left, block = int(rest), bytes(1 << 18)
            while left > 0:
                self.wfile.write(block[:left])
                left -= len(block)
        elif first == "me":
            self.answer("{} {}".format(*self.client_address).encode())
        else:
            self.answer(self.name.encode())

    def do_POST(self):
        left = length = int(self.headers["Content-Length"])
        while left > 0:
            data = self.rfile.read(min(left, 1 << 18))
            if not data:
                return
            left -= len(data)
        self.answer(str(length).encode())

    def log_message(self, *_):
        pass


class Metadata(Web):
    name = "secret of the host"


def dns_answer(question, names):
    """To one question for an address; names others than those in `names` do not exist."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode())
        at += 1 + question[at]
    end = at + 5
    kind, = struct.unpack(">H", question[at + 1:at + 3])
    address = names.get(".".join(labels).lower())
    answers = b""
    if address and kind == 1:
        answers = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(address)
    flags = 0x8180 if address else 0x8183
    return question[:2] + struct.pack(">HHHHH", flags, 1, 1 if answers else 0, 0, 0) + question[12:end] + answers


class Resolver(socketserver.BaseRequestHandler):
    names = {WEB_NAME: WEB}

    def handle(self):
        if isinstance(self.request, tuple):
            data, reply = self.request
            reply.sendto(dns_answer(data, self.names), self.client_address)
            return
        data = self.request.recv(4096)
        if len(data) > 2:
            answer = dns_answer(data[2:], self.names)
            self.request.sendall(struct.pack(">H", len(answer)) + answer)


class Said(socketserver.BaseRequestHandler):
    """Of the host: whoever hears it has come too far."""

    def handle(self):
        self.server.heard.append(self.client_address)
        with contextlib.suppress(OSError):
            if isinstance(self.request, tuple):
                self.request[1].sendto(b"the host", self.client_address)
            else:
                self.request.sendall(b"the host")


class TestNet:
    def __init__(self, mtu=1500):
        self.threads = Threads()
        self.more = []
        self.host, self.outside = Namespace(), Namespace()
        self.wire(mtu)
        self.heard = []  # who reached a listener of the host
        self.serve()

    def wire(self, mtu):
        self.host.ip_all(
            f"link add uplink type veth peer name uplink netns {self.outside.holder.pid}",
            f"link set uplink mtu {mtu} up",
            f"address add {HOST}/24 dev uplink",
            f"address add {HOST6}/64 dev uplink nodad",
            f"address add {HOST_SECOND}/32 dev lo",
            f"route add default via {OUTSIDE}",
            "route add 169.254.0.0/16 dev uplink")
        # a new namespace has the machine's setting
        self.host.run("sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_forward")
        self.outside.ip_all(
            f"link set uplink mtu {mtu} up",
            f"address add {OUTSIDE}/24 dev uplink",
            f"address add {OUTSIDE6}/64 dev uplink nodad",
            *(f"address add {address}/32 dev uplink" for address in (WEB, DNS, METADATA)),
            f"route add {POOL} via {HOST}")  # so that it could come in, were it let

    def serve(self):
        self.threads.serve_http(self.outside.listen(WEB, 80), Web)
        self.threads.serve_http(self.outside.listen(METADATA, 80), Metadata)
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            self.threads.serve(self.outside.listen(DNS, 53, kind), Resolver)
            for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
                self.threads.serve(self.host.listen(address, HOST_PORT, kind, family), Said).heard = self.heard

    def namespace(self):
        """One more, which is closed with this."""
        self.more.append(Namespace())
        return self.more[-1]

    def connected(self, name, address, gateway="100.64.0.1", mtu=1500):
        """A namespace that is connected as a sandbox is, by hand: root in it can do what a sandbox cannot."""
        inside = self.namespace()
        mac = "02:00:00:00:00:01"
        self.host.ip_all(f"link add {name} mtu {mtu} type veth peer name eth0 netns {inside.holder.pid}",
                         f"link set {name} address {mac} arp off mtu {mtu} up", f"route add {address}/32 dev {name}")
        inside.ip_all(f"link set eth0 address {mac} arp off mtu {mtu} up", f"address add {address}/32 dev eth0",
                      f"route add default via {gateway} dev eth0 onlink")
        return inside

    def tables(self):
        return self.host.run("nft", "list", "tables").split("\n")[:-1]

    def links(self):
        """Names of the interfaces in the host's namespace."""
        return {line.split()[1].rstrip(":").partition("@")[0]
                for line in self.host.ip("-o", "link", "show").splitlines()}

    def close(self):
        self.threads.close()
        for one in (*self.more, self.host, self.outside):
            one.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
