"""A web server that a test runs inside of a sandbox: it shows what has reached it.

    python3 inside_server.py NAME ADDRESS:PORT...

It uses nothing but sockets, so that the bytes are those that came and those that were meant.
"""

import base64
import hashlib
import socket
import sys
import threading

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
NAME = sys.argv[1]
PIECE = bytes(range(256)) * 256
connections = []
seen = []  # every head, in the order of their coming
go_on = threading.Event()


def answer(stream, body, fields=b""):
    stream.write(b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def read_chunks(stream):
    while True:
        size = int(stream.readline().split(b";")[0], 16)
        if size == 0:
            stream.readline()
            return
        yield stream.read(size)
        stream.readline()


def read_body(stream, fields):
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        yield from read_chunks(stream)
        return
    left = int(fields.get(b"content-length", 0))
    while left > 0:
        data = stream.read(min(left, 65536))
        if not data:
            return
        left -= len(data)
        yield data


def switch(stream, fields):
    """Two protocols: WebSocket, whose frames go back as they came but unmasked, and one that returns bytes."""
    protocol = fields[b"upgrade"]
    extra = b""
    if protocol.lower() == b"websocket":
        digest = hashlib.sha1(fields[b"sec-websocket-key"] + GUID).digest()
        extra = b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n"
    stream.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + b"\r\n" +
                 extra + b"\r\n")
    stream.flush()
    while protocol.lower() == b"websocket":
        head = stream.read(2)
        if len(head) < 2:
            return
        size = head[1] & 127
        if size > 125:
            size = int.from_bytes(stream.read(2 if size == 126 else 8), "big")
        mask = stream.read(4) * (size // 4 + 1)
        data = bytes(a ^ b for a, b in zip(stream.read(size), mask))
        length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2, "big")
        stream.write(head[:1] + length + data)
        stream.flush()
        if head[0] & 15 == 8:
            return
    for data in iter(lambda: stream.read1(65536), b""):
        stream.write(data)
        stream.flush()


def serve(stream, head):
    line = head.split(b"\r\n")[0].split(b" ")
    fields = {}
    for field in head.split(b"\r\n")[1:]:
        name, _, value = field.partition(b": ")
        fields[name.lower()] = value
    method, path = line[0], line[1].split(b"?")[0]
    if b"upgrade" in fields:
        switch(stream, fields)
        return False
    if path == b"/sum":
        digest, size = hashlib.sha256(), 0
        for data in read_body(stream, fields):
            digest.update(data)
            size += len(data)
        answer(stream, b"%d %s" % (size, digest.hexdigest().encode()))
    elif path == b"/big":
        stream.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(int(line[1].split(b"?")[1])):
            stream.write(b"%x\r\n" % len(PIECE) + PIECE + b"\r\n")
        stream.write(b"0\r\n\r\n")
    elif path == b"/until-close":
        stream.write(b"HTTP/1.0 200 OK\r\n\r\nold")
        return False
    elif path == b"/two-steps":
        stream.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        stream.flush()
        go_on.wait()
        stream.write(b"3\r\ntwo\r\n0\r\n\r\n")
    elif path == b"/go-on":
        go_on.set()
        answer(stream, b"")
    elif path == b"/hang-up":
        return False
    elif path == b"/nonsense":
        stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd")
    elif path == b"/more-than-said":
        stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    elif path == b"/name":
        answer(stream, NAME.encode(), b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n")
    elif path == b"/connections":
        answer(stream, b"%d" % len(connections))
    elif path == b"/seen":
        answer(stream, b"\n\n".join(seen))
    elif method == b"HEAD":
        stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")
    else:
        for _ in read_body(stream, fields):
            pass
        answer(stream, head)
    return True


def one(sock):
    connections.append(sock)
    with sock, sock.makefile("rwb") as stream:
        try:
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = stream.readline()
                    if not line:
                        return
                    head += line
                seen.append(head)
                if not serve(stream, head[:-4]):
                    return
                stream.flush()
        except OSError:
            pass


def listen(address):
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, int(port)), family=family, backlog=128)
    while True:
        threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()


for address in sys.argv[2:]:
    threading.Thread(target=listen, args=(address,), daemon=True).start()
threading.Event().wait()
