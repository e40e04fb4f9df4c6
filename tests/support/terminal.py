"""A client of execd's terminals (/pty), for tests."""

import json
import socket

from execd import WAIT, ExecdCase
from websocket import BINARY, TEXT, Closed, WebSocket

STDOUT, STDERR, REPLAY = 1, 2, 3


def connect(execd):
    if execd.path:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(WAIT)
        sock.connect(execd.path)
        return sock
    return socket.create_connection(("127.0.0.1", execd.port), timeout=WAIT)


class Terminal:
    """Attached to a session; collects what comes."""

    def __init__(self, execd, session, query="", sock=None, prefix="", **kwargs):
        self.ws = WebSocket(sock or connect(execd), f"{prefix}/pty/{session}/ws{query}", **kwargs)
        self.output = b""  # stdout, from the end of what expect() found last
        self.errors = b""  # stderr
        self.replay = None  # (offset, bytes)
        self.messages = []  # JSON

    def step(self):
        """Take one message in; returns it when it was JSON."""
        opcode, payload = self.ws.read()
        if opcode == TEXT:
            self.messages.append(json.loads(payload))
            return self.messages[-1]
        assert opcode == BINARY and payload, (opcode, payload)
        if payload[0] == REPLAY:
            assert self.replay is None and not self.messages, "replay comes first, and once"
            self.replay = (int.from_bytes(payload[1:9], "big"), payload[9:])
            return None
        assert self.messages, "output before `connected`"
        assert len(payload) <= 32 * 1024, len(payload)
        if payload[0] == STDOUT:
            self.output += payload[1:]
        else:
            assert payload[0] == STDERR
            self.errors += payload[1:]
        return None

    def expect_message(self, kind):
        while True:
            message = self.step()
            if message is not None:
                assert message["type"] == kind, message
                return message

    def greeted(self):
        """Wait for `connected`; returns self."""
        self.expect_message("connected")
        return self

    def expect(self, wanted):
        """Wait for these bytes of output; what was before them is returned and forgotten."""
        while wanted not in self.output:
            self.step()
        before, self.output = self.output.split(wanted, 1)
        return before

    def expect_error(self, code):
        message = self.expect_message("error")
        assert message["code"] == code and message["error"], message
        return message["error"]

    def type(self, text):
        self.ws.send_stdin(text.encode() if isinstance(text, str) else text)

    def send(self, **message):
        self.ws.send_json(message)

    def end(self):
        """Read to the end: (the exit message, or None; the close code)."""
        try:
            while True:
                self.step()
        except Closed as closed:
            last = self.messages[-1] if self.messages else {}
            self.ws.sock.close()
            return (last if last.get("type") == "exit" else None), closed.code

    def leave(self):
        self.ws.close()


class PtyCase(ExecdCase):
    def create(self, execd=None, **fields):
        status, body = (execd or self.execd).json("POST", "/pty", fields)
        self.assertEqual((status, list(body)), (201, ["session_id"]))
        self.addCleanup(self.delete, body["session_id"], execd)
        return body["session_id"]

    def delete(self, session, execd=None):
        execd = execd or self.execd
        if execd.process.poll() is None:
            execd.request("DELETE", f"/pty/{session}")

    def attach(self, session=None, query="", **fields):
        terminal = Terminal(self.execd, session or self.create(**fields), query)
        self.addCleanup(terminal.ws.drop)
        return terminal.greeted()

    def shell(self, query="", **fields):
        """An interactive shell with a prompt that echoes of what is typed cannot be taken for."""
        session = self.create(**fields)
        terminal = self.attach(session, query)
        terminal.session = session
        if "pty=0" not in query:
            terminal.type("bind 'set enable-bracketed-paste off'; PS1='<''>'\n")
            terminal.expect(b"<>")
        return terminal

    def status(self, session):
        return self.execd.json("GET", f"/pty/{session}")[1]

    def run_command(self, command, query="", **fields):
        """Everything a command writes, and how it ended."""
        terminal = self.attach(query=query, command=command, **fields)
        exit, code = terminal.end()
        self.assertEqual(code, 1000)
        return terminal, exit
