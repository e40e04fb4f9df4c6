"""The execution API inside a real sandbox of the native runtime, through the server's proxy."""

import json
import socket
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Server, events_of, text_of  # noqa: E402
from terminal import Terminal  # noqa: E402


class Inside(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.server.__enter__()
        cls.box = cls.server.create(env={"GREETING": "hello"})

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def call(self, method, path, body=None, status=200):
        answer = self.box.request(method, path, None if body is None else json.dumps(body))
        self.assertEqual(answer.status, status, answer)
        return answer

    def terminal(self, session, query=""):
        sock = socket.create_connection(("127.0.0.1", self.server.port), timeout=20)
        self.addCleanup(sock.close)
        return Terminal(None, session, query, sock, prefix=self.box.prefix, headers=self.box.headers)

    def test_background_command_reattached(self):
        events = events_of(self.call("POST", "/command", {"command": "cat; echo $GREETING", "stdin": True,
                                                          "background": True}).body)
        command = events[0]["text"]
        self.box.request("POST", f"/command/{command}/stdin?close=true", b"to the program\n")
        events = events_of(self.call("GET", f"/command/{command}/stream").body)
        self.assertEqual(text_of(events), ["to the program", "hello"])
        self.assertEqual(events[-1]["type"], "execution_complete")
        again = events_of(self.call("GET", f"/command/{command}/stream?offset=15").body)
        self.assertEqual(text_of(again), ["hello"])

    def test_session(self):
        session = self.call("POST", "/session", {"cwd": "/work/here"}).json()["session_id"]
        run = f"/session/{session}/run"
        self.call("POST", run, {"command": "x=$GREETING; f() { echo $x $PWD; }"})
        self.assertEqual(text_of(events_of(self.call("POST", run, {"command": "f"}).body)), ["hello /work/here"])
        events = events_of(self.call("POST", run, {"command": "sleep 100", "timeout": 100}).body)
        self.assertEqual(events[-1]["error"]["traceback"], ["signal: killed"])
        events = events_of(self.call("POST", run, {"command": "exit 7"}).body)
        self.assertEqual(events[-1]["error"]["evalue"], "7")
        self.assertEqual(text_of(events_of(self.call("POST", run, {"command": "f"}).body)), ["hello /work/here"])
        self.call("DELETE", f"/session/{session}")

    def test_terminal(self):
        session = self.call("POST", "/pty", {"cols": 100}, 201).json()["session_id"]
        terminal = self.terminal(session).greeted()
        terminal.type("stty size; tty\n")
        terminal.expect(b"24 100")
        terminal.expect(b"/dev/pts/")
        terminal.type("sh -c 'echo be''gun; exec sleep 1000'\n")  # says so itself: it has the terminal then
        terminal.expect(b"begun")
        terminal.type("\x03")
        terminal.type("echo $? again\n")
        terminal.expect(b"130 again")
        terminal.ws.sock.close()
        terminal = self.terminal(session, "?takeover=1")
        terminal.greeted()
        self.assertIn(b"130 again", terminal.replay[1])
        terminal.type("exit 3\n")
        self.assertEqual(terminal.expect_message("exit")["exit_code"], 3)
        self.call("DELETE", f"/pty/{session}")

    def test_metrics_are_those_of_the_sandbox(self):
        box = self.server.create(resourceLimits={"cpu": "500m", "memory": "256Mi"})
        self.addCleanup(box.delete)
        sample = box.request("GET", "/metrics").json()
        self.assertEqual((sample["cpu_count"], sample["mem_total_mib"]), (1, 256))
        self.assertLess(sample["mem_used_mib"], 256)

    def test_port_of_a_program_inside(self):
        events = events_of(self.call("POST", "/command", {
            "command": "cd /tmp && echo page > page && exec python3 -u -m http.server --bind 127.0.0.1 8765",
            "background": True}).body)
        command = events[0]["text"]
        script = "for i in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/8765) 2>/dev/null && break; sleep 0.1; done"
        self.call("POST", "/command", {"command": script})
        self.assertEqual(self.call("GET", "/proxy/8765/page").body, b"page\n")
        self.assertEqual(self.call("GET", "/proxy/44772/ping").body, b"")
        self.call("DELETE", f"/command?id={command}")


if __name__ == "__main__":
    unittest.main()
