"""Terminals of opensandbox-execd (/pty), driven through a WebSocket client of our own."""

import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from execd import BINARY as EXECD, STATIC, Execd, is_alive, wait_until  # noqa: E402
from execd_pty_wire import Flow, Protocol  # noqa: E402,F401
from terminal import PtyCase, Terminal  # noqa: E402
from websocket import BINARY, Closed, Refused, frame  # noqa: E402

VIM = shutil.which("vim.tiny") or shutil.which("vim")
ROOT = os.geteuid() == 0


class Rest(PtyCase):
    def test_life(self):
        session = self.create()
        self.assertRegex(session, r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        self.assertEqual(self.status(session), {"session_id": session, "running": False, "attached": False,
                                                "output_offset": 0, "cols": 80, "rows": 24})
        terminal = self.attach(session)
        status = self.status(session)
        self.assertEqual((status["running"], status["attached"], status["mode"]), (True, True, "pty"))
        sessions = self.execd.json("GET", "/pty")[1]["sessions"]
        self.assertIn(session, [s["session_id"] for s in sessions])
        status, response, body = self.execd.request("DELETE", f"/pty/{session}")
        self.assertEqual((status, body, response.getheader("Content-Length")), (200, b"", "0"))
        self.assertEqual(terminal.expect_error("SESSION_GONE"), "the terminal was deleted")
        exit, code = terminal.end()
        self.assertEqual((exit["exit_code"], code), (-1, 1000))
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/ws")):
            self.assert_error(self.execd.json(method, f"/pty/{session}{path}"), 404, "CONTEXT_NOT_FOUND", session)
        self.assertNotIn(session, json.dumps(self.execd.json("GET", "/pty")))

    def test_empty_body_and_nulls(self):
        for body in (None, "", "{}", '{"cwd":null,"command":null,"envs":null,"cols":null,"uid":null,"unknown":[1]}'):
            status, _, data = self.execd.request("POST", "/pty", body)
            self.assertEqual(status, 201, data)
            self.delete(json.loads(data)["session_id"])

    def test_bad_bodies_get_one_answer(self):
        path = self.write("file", b"")
        connection = self.execd.connect()
        for body, part in (("[]", "object"), ("{", "JSON"), ('{"cwd":5}', "cwd"), ('{"command":[]}', "command"),
                           ('{"command":"%s"}' % ("x" * 131072), "131072"), ('{"envs":[]}', "envs"),
                           ('{"envs":{"A":1}}', "envs.A"), ('{"envs":{"A=B":"c"}}', "A=B"), ('{"cols":0}', "cols"),
                           ('{"rows":10001}', "10000"), ('{"cols":"80"}', "cols"), ('{"gid":1}', "uid"),
                           ('{"uid":-1}', "uid"), ('{"cwd":"$NO_SUCH/x"}', "NO_SUCH"),
                           (json.dumps({"cwd": path}), "not a directory"),
                           (json.dumps({"cwd": path + "/below"}), "in the way")):
            status, _, data = self.execd.request("POST", "/pty", body, connection=connection)
            self.assert_error((status, json.loads(data)), 400, "INVALID_REQUEST_BODY", part)
        # A second body would be taken for the next answer.
        self.assertEqual(self.execd.request("GET", "/ping", connection=connection)[0], 200)
        connection.close()

    def test_cwd(self):
        folder = self.file("made/on/demand")
        terminal, _ = self.run_command("pwd", cwd=folder)
        self.assertEqual(terminal.output.strip().decode(), folder)

    def test_environment(self):
        terminal, _ = self.run_command("echo $A-$PATH", envs={"A": "b c", "PATH": "/nowhere:/usr/bin"})
        self.assertEqual(terminal.output, b"b c-/nowhere:/usr/bin\r\n")

    def test_full_table(self):
        before = len(self.execd.json("GET", "/pty")[1]["sessions"])
        sessions = [self.create(command="true") for _ in range(64 - before)]
        self.assert_error(self.execd.json("POST", "/pty", {}), 503, "RUNTIME_ERROR", "64")
        # The first whose shell has exited gives way, and those that wait for a client do not.
        for session in (sessions[5], sessions[3]):
            self.assertEqual(self.attach(session).end()[0]["exit_code"], 0)
        self.create()
        self.assertEqual(self.execd.request("GET", f"/pty/{sessions[5]}")[0], 404)
        for session in (sessions[3], sessions[0]):
            self.assertEqual(self.execd.request("GET", f"/pty/{session}")[0], 200)


class Attach(PtyCase):
    def test_exit_codes(self):
        for query in ("", "?pty=0"):
            for code in (0, 1, 7, 255):
                terminal, exit = self.run_command(f"exit {code}", query)
                self.assertEqual(exit, {"type": "exit", "exit_code": code})

    def test_signals_at_the_end(self):
        for name in ("KILL", "TERM", "SEGV"):
            session = self.create(command=f"kill -{name} $$")
            exit, _ = self.attach(session).end()
            self.assertEqual(exit, {"type": "exit", "exit_code": -1, "signal": f"SIG{name}"})
            status = self.status(session)
            self.assertEqual((status["running"], status["exit_code"], status["signal"]), (False, -1, f"SIG{name}"))

    def test_close_after_exit_says_so(self):
        terminal = self.attach(command="true")
        with self.assertRaises(Closed) as raised:
            while True:
                terminal.step()
        self.assertEqual((raised.exception.code, raised.exception.reason), (1000, "process exited"))
        self.assertTrue(terminal.ws.at_end())

    def test_terminal(self):
        terminal = self.shell(envs={"TERM": "vt100"})
        terminal.type("tty; stty size; echo $TERM; test -t 0 && test -t 1 && test -t 2; echo =$?\n")
        self.assertRegex(terminal.expect(b"=0\r\n"), rb"/dev/pts/\d+\r\n24 80\r\nvt100\r\n")
        terminal.type("exit 3\n")
        self.assertEqual(terminal.end()[0]["exit_code"], 3)

    def test_first_size(self):
        terminal, _ = self.run_command("stty size", cols=132, rows=50)
        self.assertEqual(terminal.output, b"50 132\r\n")

    def test_pipes(self):
        terminal = self.attach(query="?pty=0")
        self.assertEqual(terminal.messages[0]["mode"], "pipe")
        terminal.type("echo out; echo err >&2; test -t 0; echo =$?\n")
        terminal.expect(b"out\n=1\n")
        while b"err\n" not in terminal.errors:
            terminal.step()
        terminal.type("exit 4\n")
        self.assertEqual(terminal.end()[0]["exit_code"], 4)
        self.assertEqual((terminal.output, terminal.errors), (b"", b"err\n"))

    def test_end_of_input(self):
        for query, newline in (("?pty=0", b"\n"), ("", b"\r\n")):
            terminal = self.attach(query=query, command="sort; echo sorted")
            terminal.type("b\na\n")
            terminal.send(type="eof")
            self.assertEqual(terminal.end()[0]["exit_code"], 0)
            self.assertTrue(terminal.output.endswith(newline.join([b"a", b"b", b"sorted", b""])), terminal.output)
        terminal = self.attach(query="?pty=0", command="cat; sleep 1000")
        terminal.send(type="eof")
        terminal.type("late")
        self.assertIn("closed", terminal.expect_error("STDIN_WRITE_FAILED"))

    def test_program_that_closes_its_input(self):
        terminal = self.attach(query="?pty=0", command="exec <&-; echo closed; sleep 1000")
        terminal.expect(b"closed")
        terminal.type("x")
        terminal.expect_error("STDIN_WRITE_FAILED")

    def test_stdin_as_text(self):
        terminal = self.attach(command="read -r line; echo \"[$line]\"")
        terminal.send(type="stdin", data="ä\\b\n")
        terminal.expect("[ä\\b]\r\n".encode())

    def test_two_at_once(self):
        first, second = self.shell(), self.shell("?pty=0")
        for i in range(20):
            first.type(f"echo first $(({i}+1000))\n")
            second.type(f"echo second $(({i}+1000))\n")
        self.assertNotIn(b"second", first.expect(b"first 1019\r\n"))
        self.assertNotIn(b"first", second.expect(b"second 1019\n"))

    def test_reattach_after_exit_starts_again(self):
        session = self.create(command="echo run $$")
        first = self.attach(session)
        first.end()
        self.assertEqual(self.status(session)["output_offset"], len(first.output))
        # Only to look: nothing is started.
        looking = self.attach(session, "?start=0")
        self.assertEqual(looking.replay, (0, first.output))
        self.assertEqual(looking.end(), ({"type": "exit", "exit_code": 0}, 1000))
        # In the other mode, too: it is a new process. Offsets go on.
        second = self.attach(session, "?pty=0")
        self.assertEqual((second.replay, second.messages[0]["mode"]), ((0, first.output), "pipe"))
        second.end()
        self.assertRegex(second.output, rb"^run \d+\n$")
        self.assertNotEqual(first.output.strip(), second.output.strip())
        third = self.attach(session, f"?since={len(first.output)}")
        self.assertEqual(third.replay, (len(first.output), second.output))
        self.assertEqual(Terminal(self.execd, self.create(), "?start=0").greeted().end(), (None, 1000))

    def test_start_failures(self):
        folder = self.file("gone")
        session = self.create(cwd=folder)
        os.rmdir(folder)
        for query in ("", "?pty=0"):
            terminal = Terminal(self.execd, session, query)
            self.assertIn("working directory", terminal.expect_error("START_FAILED"))
            self.assertEqual(terminal.end()[1], 1011)
        self.assertFalse(self.status(session)["running"])
        os.mkdir(folder)
        self.attach(session)

    def test_background_process_does_not_hold_the_end(self):
        for query in ("", "?pty=0"):
            terminal, exit = self.run_command("(trap '' HUP; while :; do echo more; sleep 0.01; done) & "
                                              "echo $!; sleep 0.1; printf end", query)
            pid = int(re.search(rb"\d+", terminal.output).group())
            try:
                self.assertEqual(exit["exit_code"], 0)
                self.assertIn(b"end", terminal.output)
            finally:
                os.kill(pid, signal.SIGKILL)

    def test_output_right_before_the_exit(self):
        expected = b"".join(b"%d\r\n" % i for i in range(1, 2001)) + b"the end"
        session = self.create(command="seq 1 2000; printf 'the end'")
        offset = 0
        for turn in range(200):
            terminal = self.attach(session, f"?since={offset}")
            self.assertIsNone(terminal.replay)
            exit, _ = terminal.end()
            self.assertEqual(exit["exit_code"], 0)
            self.assertTrue(terminal.output == expected, (turn, len(terminal.output), len(expected)))
            offset += len(expected)

    def test_token_is_not_in_the_environment(self):
        execd = Execd("--access-token", "secret")
        try:
            headers = {"X-EXECD-ACCESS-TOKEN": "secret"}
            status, _, body = execd.request("POST", "/pty", '{"command":"env"}', headers)
            self.assertEqual(status, 201)
            session = json.loads(body)["session_id"]
            with self.assertRaises(Refused) as raised:
                Terminal(execd, session)
            self.assertEqual(raised.exception.status, 401)
            terminal = Terminal(execd, session, headers=headers)
            terminal.end()
            self.assertIn(b"PATH=", terminal.output)
            self.assertNotIn(b"secret", terminal.output)
        finally:
            execd.stop()

    @unittest.skipUnless(ROOT, "needs root")
    def test_user(self):
        terminal, _ = self.run_command("id -u; id -g; stat -c %u $(tty); echo x >/dev/tty; umask",
                                       uid=65534, cwd=self.file("new"))
        self.assertEqual(terminal.output, b"65534\r\n65534\r\n65534\r\nx\r\n0022\r\n")
        self.assertEqual(os.stat(self.file("new")).st_uid, 65534)

    @unittest.skipUnless(ROOT, "needs root")
    def test_image_user(self):
        execd = Execd("--pid1", unix=True)
        try:
            status, _ = execd.json("POST", "/internal/start", {"entrypoint": ["sleep", "1000"], "user": "nobody",
                                                               "env": ["A=1"], "cwd": "/usr"})
            self.assertEqual(status, 200)
            terminal = Terminal(execd, self.create(execd=execd, command="id -un; echo $A $TERM $PWD")).greeted()
            terminal.end()
            self.assertEqual(terminal.output, b"nobody\r\n1 xterm-256color /usr\r\n")
        finally:
            execd.stop()


class Keys(PtyCase):
    """What a person at the terminal does."""

    def test_control_c_and_signals_reach_the_foreground_job(self):
        terminal = self.shell()
        terminal.type("echo pid=$$\n")
        terminal.expect(b"\npid=")
        leader = int(terminal.expect(b"\r\n<>"))

        def interrupt(how, status):
            terminal.type("echo started; sleep 1000; echo \"=$?\"\n")
            terminal.expect(b"\nstarted\r\n")
            # The shell has written that before it gave the terminal to the job.
            wait_until(lambda: self.foreground(leader) == "sleep", "sleep has the terminal")
            how()
            if status is not None:
                terminal.expect(b"=%d\r\n" % status)
            terminal.expect(b"<>")
        interrupt(lambda: terminal.type(b"\x03"), None)  # the shell drops the rest of the line, too
        interrupt(lambda: terminal.send(type="signal", signal="SIGINT"), None)
        for name in ("SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1"):
            interrupt(lambda: terminal.send(type="signal", signal=name), 128 + getattr(signal, name))
        # Stopped and continued; the shell has lived through all of it.
        terminal.type("sleep 1000\n")
        wait_until(lambda: self.foreground(leader) == "sleep", "sleep has the terminal")
        terminal.send(type="signal", signal="SIGTSTP")
        terminal.expect(b"Stopped")
        terminal.type("kill %1; echo al''ive\n")
        terminal.expect(b"alive")

    def foreground(self, leader):
        """The name of the program that has the terminal of this shell."""
        try:
            with open(f"/proc/{leader}/stat", encoding="ascii") as file:
                group = file.read().rsplit(")", 1)[1].split()[5]
            with open(f"/proc/{group}/comm", encoding="ascii") as file:
                return file.read().strip()
        except FileNotFoundError:
            return None

    def test_signals_with_pipes(self):
        terminal = self.attach(query="?pty=0", command="trap 'echo got it' TERM; sh -c 'echo ready; exec sleep 1000' & "
                                                    "wait; wait")
        terminal.expect(b"ready")
        terminal.send(type="signal", signal="SIGTERM")
        terminal.expect(b"got it")  # and the sleep is of the same group
        self.assertEqual(terminal.end()[0]["exit_code"], 0)

    def test_resize(self):
        # Not a trap of bash: it forgets a signal that comes while the trap runs.
        script = self.write("watch.py", b"import os, signal\n"
                                        b"signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
                                        b"signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n"
                                        b"print('ready', flush=True)\n"
                                        b"while signal.sigwait([signal.SIGWINCH]):\n"
                                        b"    print(*reversed(os.get_terminal_size()), flush=True)\n")
        session = self.create(command=f"exec {sys.executable} {script}")
        terminal = self.attach(session)
        terminal.expect(b"ready\r\n")
        for cols, rows in ((100, 30), (1, 1), (10000, 10000)):
            terminal.send(type="resize", cols=cols, rows=rows)
            terminal.expect(b"%d %d\r\n" % (rows, cols))
        self.assertEqual([self.status(session)[key] for key in ("cols", "rows")], [10000, 10000])
        # The size stays when the shell does not.
        terminal.type(b"\x03")
        self.assertEqual(terminal.end()[0]["signal"], "SIGINT")
        again = self.attach(session)
        again.expect(b"ready\r\n")
        again.send(type="resize", cols=10000, rows=9999)
        again.expect(b"9999 10000\r\n")

    @unittest.skipUnless(VIM, "needs vim")
    def test_vim(self):
        path = self.write("file.txt", b"".join(b"line %d\n" % i for i in range(1, 101)))
        terminal = self.shell(cwd=self.folder)
        terminal.type(f"{VIM} -u NONE -n file.txt\n")
        terminal.expect(b"line 23")  # of 24 rows the last is for messages
        self.assertNotIn(b"line 30", terminal.output)
        terminal.send(type="resize", cols=90, rows=50)
        terminal.expect(b"line 49")
        terminal.type("Gofrom the ")
        terminal.type("terminal\x1b:1s/line/first/\r")
        terminal.expect(b"first 1")
        terminal.type(":wq\r")
        terminal.expect(b"<>")
        lines = self.read("file.txt").decode().splitlines()
        self.assertEqual((len(lines), lines[0], lines[-1]), (101, "first 1", "from the terminal"))
        terminal.type("echo still he''re\n")
        terminal.expect(b"still here")
        self.assertTrue(os.path.exists(path))


class Detached(PtyCase):
    def test_runs_on_and_replays(self):
        done, fifo = self.file("done"), self.file("fifo")
        os.mkfifo(fifo)
        session = self.create(command=f"echo before; read x <{fifo}; echo away; touch {done}; sleep 1000")
        terminal = self.attach(session)
        terminal.expect(b"before\r\n")
        terminal.leave()
        wait_until(lambda: not self.status(session)["attached"], "detached")
        with open(fifo, "w", encoding="ascii") as file:
            file.write("\n")
        wait_until(lambda: os.path.exists(done), "the program runs without a client")
        wait_until(lambda: self.status(session)["output_offset"] == 14, "its output is read")
        for since, offset, text in ((None, 0, b"before\r\naway\r\n"), (8, 8, b"away\r\n"), (10, 10, b"ay\r\n"),
                                    ("x", 0, b"before\r\naway\r\n"), ("-1", 0, b"before\r\naway\r\n")):
            terminal = self.attach(session, "" if since is None else f"?since={since}")
            self.assertEqual(terminal.replay, (offset, text), since)
            terminal.leave()
            wait_until(lambda: not self.status(session)["attached"], "detached")
        for since in (14, 1000, 2 ** 64 - 1):
            terminal = self.attach(session, f"?since={since}")
            self.assertIsNone(terminal.replay)
            terminal.leave()
            wait_until(lambda: not self.status(session)["attached"], "detached")

    def test_old_output_gives_way(self):
        done = self.file("done")
        expected = b"".join(b"%d\n" % i for i in range(1, 300001))
        session = self.create(command=f"read x; seq 1 300000; touch {done}; sleep 1000")
        terminal = self.attach(session, "?pty=0")
        terminal.type("\n")
        terminal.leave()
        wait_until(lambda: os.path.exists(done), "all is written")
        wait_until(lambda: self.status(session)["output_offset"] == len(expected), "all is read")
        for since in (0, len(expected) - 2 ** 20 + 5):
            terminal = self.attach(session, f"?since={since}")
            offset = max(since, len(expected) - 2 ** 20)
            self.assertEqual(terminal.replay[0], offset)
            self.assertTrue(terminal.replay[1] == expected[offset:])
            terminal.leave()
            wait_until(lambda: not self.status(session)["attached"], "detached")

    def test_only_one_client(self):
        session = self.create(envs={"TERM": "dumb"})
        terminal = self.attach(session)
        with self.assertRaises(Refused) as raised:
            Terminal(self.execd, session)
        self.assert_error(raised.exception.json(), 409, "ALREADY_CONNECTED", "takeover=1")
        # Not an upgrade: nobody is evicted.
        self.assertEqual(self.execd.request("GET", f"/pty/{session}/ws?takeover=1")[0], 426)
        terminal.type("echo $((41+1))\n")
        terminal.expect(b"\n42\r\n")

    def test_takeover(self):
        session = self.create(envs={"TERM": "dumb"})
        old = self.attach(session)
        old.type("x=$((41+1)); echo is $x\n")
        old.expect(b"\nis 42\r\n")
        for turn in range(5):
            new = self.attach(session, "?takeover=1")
            self.assertIn(b"is 42", new.replay[1])
            with self.assertRaises(Closed) as raised:
                while True:
                    old.step()
            self.assertEqual((raised.exception.code, raised.exception.reason), (4001, "TAKEN_OVER"))
            self.assertNotIn({"type": "exit"}, old.messages)
            new.type(f"echo $x {turn}''!\n")  # the same shell
            new.expect(b"\n42 %d!\r\n" % turn)
            old = new

    def test_takeover_of_a_client_that_does_not_read(self):
        session = self.create(command="yes")
        stuck = self.attach(session)
        wait_until(lambda: not self.moves(session), "the program waits for its client")
        new = self.attach(session, "?takeover=1")
        new.expect(b"y\r\n" * 1000)
        stuck.ws.drop()

    def moves(self, session):
        before = self.status(session)["output_offset"]
        time.sleep(0.1)
        return self.status(session)["output_offset"] != before

    def test_dropped_half_closed_and_reset_sockets(self):
        def half_close(sock):
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
            sock.close()

        def reset(sock):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

        def half_frame(sock):
            sock.sendall(frame(BINARY, b"\0" + b"x" * 1000)[:500])
            sock.close()
        session = self.create(envs={"TERM": "dumb"})
        self.attach(session).leave()
        for how in (lambda sock: sock.close(), half_close, reset, half_frame):
            wait_until(lambda: not self.status(session)["attached"], "detached")
            terminal = self.attach(session)
            how(terminal.ws.sock)
        wait_until(lambda: not self.status(session)["attached"], "detached")
        terminal = self.attach(session)
        terminal.type("echo $((41+1))\n")
        terminal.expect(b"\n42\r\n")


class End(unittest.TestCase):
    def setUp(self):
        self.execd = Execd()
        self.addCleanup(lambda: self.execd.process.poll() is None and self.execd.stop())

    def create(self, **fields):
        return self.execd.json("POST", "/pty", fields)[1]["session_id"]

    def test_delete_ends_the_whole_session(self):
        """Jobs in groups of their own, and those that want to stay."""
        command = ("set -m; trap '' HUP; sleep 1000 & nohup sleep 1000 >/dev/null 2>&1 & "
                   "bash -c 'trap \"\" HUP TERM; echo $$; sleep 1000; sleep 1000' & echo $(jobs -p); "
                   "echo $$; echo all; wait; wait; wait")
        for query in ("", "?pty=0"):
            session = self.create(command=command)
            terminal = Terminal(self.execd, session, query).greeted()
            pids = [int(pid) for pid in re.findall(rb"\d+", terminal.expect(b"all"))]
            self.assertGreaterEqual(len(pids), 4)
            self.assertEqual(self.execd.request("DELETE", f"/pty/{session}")[0], 200)
            wait_until(lambda: not any(is_alive(pid) for pid in pids), f"{pids} are gone")
            self.assertEqual(terminal.end(), ({"type": "exit", "exit_code": -1, "signal": "SIGKILL"}, 1000))

    def test_delete_lets_programs_clean_up(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "saved")
            session = self.create(command=f"trap 'touch {path}; exit 5' HUP; echo ready; while :; do sleep 0.05; done")
            terminal = Terminal(self.execd, session).greeted()
            terminal.expect(b"ready")
            self.assertEqual(self.execd.request("DELETE", f"/pty/{session}")[0], 200)
            self.assertTrue(os.path.exists(path))
            self.assertEqual(terminal.end(), ({"type": "exit", "exit_code": 5}, 1000))

    def test_client_of_a_delete_may_leave(self):
        session = self.create(command="trap '' HUP; echo ready; while :; do sleep 0.1; done")
        terminal = Terminal(self.execd, session).greeted()
        terminal.expect(b"ready")
        connection = self.execd.connect()
        connection.request("DELETE", f"/pty/{session}")
        wait_until(lambda: self.execd.request("GET", f"/pty/{session}")[0] == 404, "it is being deleted")
        connection.close()
        self.assertEqual(terminal.end()[0]["signal"], "SIGKILL")

    def test_shutdown(self):
        terminals = [Terminal(self.execd, self.create(command="echo $$; trap '' HUP TERM; sleep 1000"), query).greeted()
                     for query in ("", "?pty=0", "")]
        self.create()
        pids = [int(terminal.expect(b"\n")) for terminal in terminals]
        terminals[2].ws.drop()
        self.execd.process.terminate()
        for terminal in terminals[:2]:
            self.assertEqual(terminal.end(), ({"type": "exit", "exit_code": -1, "signal": "SIGKILL"}, 1000))
        self.assertEqual(self.execd.stop(), 0)
        self.assertFalse(any(is_alive(pid) for pid in pids))

    def test_shutdown_with_a_client_that_does_not_read(self):
        terminal = Terminal(self.execd, self.create(command="yes")).greeted()
        time.sleep(0.3)
        self.assertEqual(self.execd.stop(), 0)
        terminal.ws.drop()


class Roots(unittest.TestCase):
    def test_term_without_an_environment(self):
        execd = Execd(env={"PATH": os.environ["PATH"]})
        try:
            session = execd.json("POST", "/pty", {"command": "echo $TERM"})[1]["session_id"]
            for query, expected in (("", b"xterm-256color\r\n"), ("?pty=0", b"dumb\n")):
                terminal = Terminal(execd, session, query).greeted()
                terminal.end()
                self.assertEqual(terminal.output, expected)  # dumb is what bash says where there is none
        finally:
            execd.stop()

    @unittest.skipUnless(STATIC and ROOT, "needs a static binary and root")
    def test_empty_root(self):
        with tempfile.TemporaryDirectory() as root:
            shutil.copy(EXECD, os.path.join(root, "execd"))
            execd = Execd(command=["chroot", root, "/execd"], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
            try:
                session = execd.json("POST", "/pty", {})[1]["session_id"]
                for query, part in (("", "/dev/ptmx"), ("?pty=0", "cannot execute sh: No such file")):
                    terminal = Terminal(execd, session, query)
                    self.assertIn(part, terminal.expect_error("START_FAILED"))
                    self.assertEqual(terminal.end()[1], 1011)
            finally:
                execd.stop()

    @unittest.skipUnless(STATIC and ROOT, "needs a static binary and root")
    def test_root_with_sh_only_and_without_proc(self):
        with tempfile.TemporaryDirectory() as root:
            shutil.copy(EXECD, os.path.join(root, "execd"))
            libraries = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
            for path in ["/bin/sh", *re.findall(r"(/\S+)", libraries)]:
                os.makedirs(root + os.path.dirname(path), exist_ok=True)
                shutil.copy(path, root + path)
            execd = Execd(command=["chroot", root, "/execd"], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
            try:
                session = execd.json("POST", "/pty", {})[1]["session_id"]
                terminal = Terminal(execd, session, "?pty=0").greeted()
                terminal.type("echo $0 $$\n")
                terminal.expect(b"sh ")
                pid = int(terminal.expect(b"\n"))
                self.assertEqual(execd.request("DELETE", f"/pty/{session}")[0], 200)
                self.assertFalse(is_alive(pid))
                self.assertEqual(terminal.end()[0]["signal"], "SIGHUP")
            finally:
                execd.stop()


if __name__ == "__main__":
    unittest.main()
