"""A WebSocket client on a raw socket, for tests: it can also do what no client should."""

import base64
import hashlib
import json
import os
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Refused(Exception):
    """The server answered something else than 101."""

    def __init__(self, status, headers, body):
        super().__init__(status, body)
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return self.status, json.loads(self.body)


class Closed(Exception):
    """The server closed: with a code, or without one (None)."""

    def __init__(self, code, reason=""):
        super().__init__(code, reason)
        self.code, self.reason = code, reason


def frame(opcode, payload=b"", fin=True, masked=True, rsv=0, length=None):
    """A frame as a client sends it; `length` overrides the encoding of the length."""
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    if length is None:
        size = len(payload)
        if size < 126:
            length = struct.pack(">B", size)
        elif size < 65536:
            length = struct.pack(">BH", 126, size)
        else:
            length = struct.pack(">BQ", 127, size)
    if not masked:
        return bytes([first]) + length + payload
    length = bytes([length[0] | 0x80]) + length[1:]
    mask = os.urandom(4)
    whole = (mask * (len(payload) // 4 + 1))[:len(payload)]
    data = (int.from_bytes(payload, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(payload), "big")
    return bytes([first]) + length + mask + data


def request(path, key=None, headers=None, leave_out=()):
    """The bytes of an upgrade request."""
    fields = {"Host": "localhost", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
              "Sec-WebSocket-Key": key or base64.b64encode(os.urandom(16)).decode(), **(headers or {})}
    lines = [f"{name}: {value}\r\n" for name, value in fields.items() if name not in leave_out]
    return (f"GET {path} HTTP/1.1\r\n" + "".join(lines) + "\r\n").encode()


class WebSocket:
    def __init__(self, sock, path, headers=None, early=b""):
        """`early` is sent together with the request, before its answer."""
        self.sock = sock
        self.buffer = b""
        self.sent_close = False
        key = base64.b64encode(os.urandom(16)).decode()
        sock.sendall(request(path, key, headers) + early)
        head = self._read_head()
        lines = head.split("\r\n")
        status = int(lines[0].split()[1])
        fields = dict((name.lower(), value) for name, value in (line.split(": ", 1) for line in lines[1:] if line))
        if status != 101:
            body = self._take(int(fields.get("content-length", 0)))
            sock.close()
            raise Refused(status, fields, body)
        expected = base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()
        assert fields["sec-websocket-accept"] == expected, head
        assert fields["upgrade"].lower() == "websocket" and fields["connection"].lower() == "upgrade", head

    def _fill(self):
        piece = self.sock.recv(65536)
        if not piece:
            raise Closed(None, "end of file")
        self.buffer += piece

    def _take(self, length):
        while len(self.buffer) < length:
            self._fill()
        data, self.buffer = self.buffer[:length], self.buffer[length:]
        return data

    def _read_head(self):
        while b"\r\n\r\n" not in self.buffer:
            self._fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        return head.decode("latin-1")

    # --- sending

    def send_raw(self, data):
        self.sock.sendall(data)

    def send(self, opcode, payload=b"", **kwargs):
        self.sock.sendall(frame(opcode, payload, **kwargs))

    def send_json(self, value):
        self.send(TEXT, json.dumps(value).encode())

    def send_stdin(self, data):
        self.send(BINARY, b"\0" + data)

    # --- receiving

    def read_frame(self):
        first, second = self._take(2)
        assert first & 0xf0 == 0x80, f"a fragment or reserved bits: {first:#x}"
        assert second < 128, "a masked frame from a server"
        size = second
        if size == 126:
            size, = struct.unpack(">H", self._take(2))
            assert size >= 126
        elif size == 127:
            size, = struct.unpack(">Q", self._take(8))
            assert size >= 65536
        return first & 15, self._take(size)

    def read(self):
        """The next message: (opcode, payload). Pings are answered, a close is answered and raised."""
        while True:
            opcode, payload = self.read_frame()
            if opcode == PING:
                self.send(PONG, payload)
            elif opcode == CLOSE:
                code = struct.unpack(">H", payload[:2])[0] if payload else 1005
                if not self.sent_close:
                    self.sent_close = True
                    self.send(CLOSE, payload[:2])
                raise Closed(code, payload[2:].decode())
            elif opcode != PONG:
                return opcode, payload

    def close(self, code=1000):
        """The closing handshake from our side, then the socket."""
        try:
            if not self.sent_close:
                self.sent_close = True
                self.send(CLOSE, struct.pack(">H", code))
            while True:
                self.read()
        except (Closed, OSError):
            pass
        self.sock.close()

    def drop(self):
        """Go without a word."""
        self.sock.close()

    def at_end(self):
        """True when the server has closed its side."""
        try:
            return self.sock.recv(65536) == b""
        except ConnectionError:
            return True
