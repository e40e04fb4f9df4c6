"""opensandbox-execd as a real process, over raw HTTP: what its clients see, and what it leaves behind.

The tests of files and of the init are in execd_files.py and execd_init.py."""

import concurrent.futures
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from execd import (BINARY, SANITIZED, STATIC, WAIT, Execd, ExecdCase, is_alive, multipart,  # noqa: E402
                   parse_events, texts, wait_until)
from execd_files import Files  # noqa: E402,F401
from execd_init import Init, PidNamespace  # noqa: E402,F401


class Basics(ExecdCase):
    def test_ping(self):
        status, response, body = self.execd.request("GET", "/ping")
        self.assertEqual((status, body, response.getheader("Content-Length")), (200, b"", "0"))

    def test_unknown_path_is_404(self):
        self.assertEqual(self.execd.json("GET", "/nothing")[0], 404)
        self.assertEqual(self.execd.json("GET", "/ping/")[0], 404)
        self.assertIn("message", self.execd.json("GET", "/nothing")[1])

    def test_wrong_method_is_405(self):
        status, response, body = self.execd.request("DELETE", "/ping")
        self.assertEqual(status, 405)
        self.assertEqual(response.getheader("Allow"), "GET")
        self.assertIn("code", json.loads(body))

    def test_known_routes_that_are_not_built_are_501(self):
        for method, path in [("POST", "/session"), ("POST", "/code"), ("GET", "/metrics"), ("POST", "/files/mv"),
                             ("GET", "/directories/list?path=/"), ("DELETE", "/command?id=x"),
                             ("GET", "/command/status/x"), ("PUT", "/proxy/80/x"), ("DELETE", "/files?path=x")]:
            self.assert_error(self.execd.json(method, path), 501, "NOT_SUPPORTED")

    def test_internal_is_not_on_tcp(self):
        self.assertEqual(self.execd.json("POST", "/internal/start", {"entrypoint": ["true"]})[0], 404)

    def test_command_line(self):
        def call(*args):
            return subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=WAIT, check=False)
        self.assertIn("--listen-fd", call("--help").stdout)
        self.assertRegex(call("--version").stdout, r"^opensandbox-execd \d")
        for bad in (["--port", "70000"], ["--port", "x"], ["--nothing"], ["extra"], ["--listen-fd", "1"]):
            result = call(*bad)
            self.assertEqual(result.returncode, 2, bad)
            self.assertTrue(result.stderr)
        self.assertEqual(call("--listen-fd", "77").returncode, 1)


class Token(unittest.TestCase):
    def check(self, *args, **kwargs):
        execd = Execd(*args, **kwargs)
        try:
            for headers in ({}, {"X-EXECD-ACCESS-TOKEN": "secre"}, {"X-EXECD-ACCESS-TOKEN": "secrets"}):
                for path in ("/ping", "/nothing"):
                    status, _, body = execd.request("GET", path, headers=headers)
                    self.assertEqual(status, 401)
                    self.assertEqual(set(json.loads(body)), {"code", "message"})
            token = {"X-EXECD-ACCESS-TOKEN": "secret"}
            self.assertEqual(execd.request("GET", "/ping", headers=token)[0], 200)
            # What runs in the sandbox must not find it.
            _, _, body = execd.request("POST", "/command", json.dumps({"command": "env"}), token)
            self.assertNotIn(b"EXECD_ACCESS_TOKEN", body)
        finally:
            execd.stop()

    def test_option(self):
        self.check("--access-token", "secret")

    def test_option_wins_over_environment(self):
        self.check("--access-token", "secret", env={**os.environ, "EXECD_ACCESS_TOKEN": "other"})

    def test_environment(self):
        self.check(env={**os.environ, "EXECD_ACCESS_TOKEN": "secret"})


class Commands(ExecdCase):
    def test_order_of_events(self):
        events = self.execd.run("echo hello")
        self.assertEqual([e["type"] for e in events], ["init", "ping", "stdout", "execution_complete"])
        self.assertRegex(events[0]["text"], r"^[0-9a-f]{32}$")
        self.assertEqual(events[1]["text"], "pong")
        self.assertEqual(events[2]["text"], "hello")

    def test_lines(self):
        events = self.execd.run(r"printf 'a\n\nb\r\nc\rd'")
        self.assertEqual(texts(events, "stdout"), ["a", "\n", "b", "c", "d"])

    def test_stderr_is_apart(self):
        events = self.execd.run("echo out; echo err >&2")
        self.assertEqual(texts(events, "stdout"), ["out"])
        self.assertEqual(texts(events, "stderr"), ["err"])

    def assert_fails(self, events, value, traceback):
        self.assertEqual(events[-1]["type"], "error")
        self.assertEqual(events[-1]["error"],
                         {"ename": "CommandExecError", "evalue": value, "traceback": [traceback]})
        self.assertEqual([e["type"] for e in events].count("execution_complete"), 0)

    def test_exit_codes(self):
        for code in (1, 7, 127, 255):
            self.assert_fails(self.execd.run(f"exit {code}"), str(code), f"exit status {code}")

    def test_unknown_program(self):
        events = self.execd.run("no-such-program-here")
        self.assertIn("no-such-program-here", texts(events, "stderr")[0])
        self.assert_fails(events, "127", "exit status 127")

    def test_signals(self):
        self.assert_fails(self.execd.run("kill -KILL $$"), "-1", "signal: killed")
        self.assert_fails(self.execd.run("kill -TERM $$"), "-1", "signal: terminated")
        self.assert_fails(self.execd.run("kill -SEGV $$"), "-1", "signal: segmentation fault")

    def test_execution_time(self):
        events = self.execd.run("sleep 0.2")
        self.assertTrue(190 <= events[-1]["execution_time"] < 2000, events)

    def test_binary_output(self):
        events = self.execd.run(r"printf 'a\377b\0c\n'; printf '\303\244\n'")
        self.assertEqual(texts(events, "stdout"), ["a\ufffdb\0c", "ä"])

    def test_output_without_newline_at_the_end_of_a_big_one(self):
        events = self.execd.run("seq 1 20000; printf tail")
        self.assertEqual(texts(events, "stdout"), [str(i) for i in range(1, 20001)] + ["tail"])

    def test_long_line_is_split(self):
        events = self.execd.run("head -c 2500000 /dev/zero | tr '\\0' x; echo; echo end")
        pieces = texts(events, "stdout")
        self.assertEqual([len(p) for p in pieces], [1 << 20, 1 << 20, 2500000 - (2 << 20), 3])

    def test_stdin_is_empty(self):
        self.assertEqual(texts(self.execd.run("cat; echo done"), "stdout"), ["done"])

    def test_is_a_process_group_of_its_own(self):
        events = self.execd.run("echo $$; cut -d' ' -f5 /proc/$$/stat")
        pid, group = texts(events, "stdout")
        self.assertEqual(pid, group)

    def test_no_fd_of_ours_is_inherited(self):
        self.assertEqual(texts(self.execd.run("ls /proc/$$/fd; true"), "stdout"), ["0", "1", "2"])

    def test_bash_is_the_shell(self):
        self.assertEqual(texts(self.execd.run("echo ${BASH_VERSION:+bash}; echo $0"), "stdout"), ["bash", "bash"])

    def test_cwd(self):
        self.assertEqual(texts(self.execd.run("pwd", cwd=self.folder), "stdout"), [self.folder])
        os.mkdir(self.file("sub"))
        self.assertEqual(texts(self.execd.run("pwd", cwd="$WHERE/sub", envs={"WHERE": self.folder}), "stdout"),
                         [self.file("sub")])
        self.assertEqual(texts(self.execd.run("pwd", cwd="~", envs={"HOME": self.folder}), "stdout"), [self.folder])
        self.assertEqual(texts(self.execd.run("pwd", cwd=None), "stdout"), ["/"])

    def refused(self, part, **fields):
        self.assert_error(self.execd.json("POST", "/command", {"command": "true", **fields}), 400,
                          "INVALID_REQUEST_BODY", part)

    def test_bad_cwd(self):
        self.refused("/no/such/folder", cwd="/no/such/folder")
        self.refused("not a directory", cwd="/etc/passwd")
        self.refused("NOT_SET_ANYWHERE", cwd="$NOT_SET_ANYWHERE/x")

    def test_bad_requests(self):
        for body in ("", "{", "[]", '"x"', "{}", '{"command":""}', '{"command":5}', '{"command":null}', "{} {}"):
            status, _, data = self.execd.request("POST", "/command", body)
            self.assertEqual((status, json.loads(data)["code"]), (400, "INVALID_REQUEST_BODY"), body)
        self.refused("timeout", timeout=-1)
        self.refused("timeout", timeout="5")
        self.refused("uid", uid=-1)
        self.refused("uid", uid=1 << 32)
        self.refused("gid", gid=5)
        self.refused("envs", envs=["A=b"])
        self.refused("envs", envs={"A": 5})
        self.refused("envs", envs={"": "x"})
        self.refused("envs", envs={"A=B": "x"})
        self.refused("1024", envs={f"N{i}": "" for i in range(1025)})
        self.refused("131071", command="true " + "x" * 131072)
        status, _, _ = self.execd.request("POST", "/command", b" " * (4 * 1024 * 1024 + 1))
        self.assertEqual(status, 413)

    def test_nulls_count_as_absent(self):
        events = self.execd.run("echo ok", cwd=None, timeout=None, uid=None, gid=None, envs=None, background=None)
        self.assertEqual(texts(events, "stdout"), ["ok"])

    def test_longest_command(self):
        command = "echo ok #"
        events = self.execd.run(command + "x" * (131071 - len(command)))
        self.assertEqual(texts(events, "stdout"), ["ok"])

    def test_background_is_not_supported(self):
        self.assert_error(self.execd.json("POST", "/command", {"command": "true", "background": True}), 501,
                          "NOT_SUPPORTED")

    def test_envs_are_for_this_command_only(self):
        self.assertEqual(texts(self.execd.run("echo $FOO", envs={"FOO": "a b\n c=d"}), "stdout"), ["a b c=d"])
        self.assertEqual(texts(self.execd.run("echo [$FOO]"), "stdout"), ["[]"])

    def test_timeout_kills_the_whole_group(self):
        started = time.monotonic()
        events = self.execd.run("sleep 1000 & echo $!; (sleep 1000 & echo $!; wait) & sleep 1000", timeout=300)
        self.assertLess(time.monotonic() - started, 5)
        self.assert_fails(events, "-1", "signal: killed")
        pids = texts(events, "stdout")
        self.assertEqual(len(pids), 2)
        for pid in pids:
            wait_until(lambda p=pid: not is_alive(p), f"end of grandchild {pid}")

    def test_timeout_that_is_not_reached(self):
        self.assertEqual(self.execd.run("true", timeout=60000)[-1]["type"], "execution_complete")

    def test_background_child_does_not_hold_the_stream(self):
        started = time.monotonic()
        events = self.execd.run("sleep 30 & echo $!; echo done")
        self.assertLess(time.monotonic() - started, 5)
        pid, done = texts(events, "stdout")
        self.assertEqual(done, "done")
        self.assertTrue(is_alive(pid), "children left behind live on")
        os.kill(int(pid), signal.SIGKILL)

    def test_background_child_that_floods_does_not_hold_the_stream(self):
        started = time.monotonic()
        events = self.execd.run("yes & echo pid $!; sleep 0.1; exit 5")
        self.assertLess(time.monotonic() - started, 10)
        self.assert_fails(events, "5", "exit status 5")
        pid = next(t for t in texts(events, "stdout") if t.startswith("pid "))[4:]
        wait_until(lambda: not is_alive(pid), "SIGPIPE for the child whose reader is gone")

    def test_output_in_the_pipe_at_the_exit_is_delivered(self):
        for _ in range(20):
            events = self.execd.run("head -c 60000 /dev/zero | tr '\\0' 'x'; echo; echo last >&2")
            self.assertEqual(sum(map(len, texts(events, "stdout"))), 60000)
            self.assertEqual(texts(events, "stderr"), ["last"])

    def test_200_in_a_row_on_one_connection(self):
        connection = self.execd.connect()
        for i in range(200):
            self.assertEqual(texts(self.execd.run(f"echo {i}", connection), "stdout"), [str(i)])
        connection.close()

    def test_20_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            jobs = [pool.submit(self.execd.run, f"sleep 0.3; echo {i}") for i in range(20)]
            started = time.monotonic()
            for i, job in enumerate(jobs):
                self.assertEqual(texts(job.result(), "stdout"), [str(i)])
            self.assertLess(time.monotonic() - started, 5, "they run side by side")

    def test_first_output_comes_at_once(self):
        sock = self.execd.open_stream("echo early; sleep 1000", timeout=5000)
        data = b""
        started = time.monotonic()
        while b"early" not in data:
            data += sock.recv(65536)
        self.assertLess(time.monotonic() - started, 1)
        sock.close()

    def test_pings(self):
        events = self.execd.run("sleep 3.5")
        self.assertEqual(len(texts(events, "ping")), 2)

    def test_client_that_goes_away(self):
        sock = self.execd.open_stream(f"echo $$; sleep 0.3; seq 1 100000; echo done >{self.file('done')}")
        sock.recv(1)
        sock.close()
        wait_until(lambda: os.path.exists(self.file("done")), "the command runs on to its end")

    def test_client_that_stops_reading_and_then_goes_away(self):
        sock = self.execd.open_stream(f"seq 1 1000000; echo done >{self.file('done')}")
        sock.recv(1)
        time.sleep(0.3)
        self.assertFalse(os.path.exists(self.file("done")), "it is held up by us")
        sock.close()
        wait_until(lambda: os.path.exists(self.file("done")), "the command runs on to its end")

    def test_stopped_reader_stops_the_writer(self):
        sock = self.execd.open_stream("exec yes 0123456789012345678901234567890123456789", timeout=60000)
        sock.settimeout(WAIT)
        data = sock.recv(300).decode()
        before = self.execd.memory_kib()
        rates = []
        for _ in range(4):
            time.sleep(0.25)
            rates.append(self.execd.memory_kib())
        if not SANITIZED:
            self.assertLess(max(rates) - before, 8 * 1024, "memory stays bounded")
        self.assertEqual(rates[-1], rates[-2], "and nothing moves any more")
        self.assertIn("init", data)
        # It goes on when we read again.
        total = 0
        while total < 8 * 1024 * 1024:
            total += len(sock.recv(1 << 20))
        sock.close()

    def test_stopped_reader_gets_everything_in_the_end(self):
        sock = self.execd.open_stream("seq 1 200000; exit 9")
        time.sleep(0.5)
        response = http.client.HTTPResponse(sock)
        response.begin()
        events = parse_events(response.read().decode())
        self.assertEqual(texts(events, "stdout"), [str(i) for i in range(1, 200001)])
        self.assert_fails(events, "9", "exit status 9")
        sock.close()

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_uid_and_gid(self):
        show = "echo $(id -u) $(id -g) $(id -G)"
        self.assertEqual(texts(self.execd.run(show, uid=54321, gid=65432), "stdout"), ["54321 65432 65432"])
        # Nobody knows this user: its group is its own number, never 0.
        self.assertEqual(texts(self.execd.run(show, uid=54321), "stdout"), ["54321 54321 54321"])
        self.assertEqual(texts(self.execd.run("id -un; id -gn", uid=65534), "stdout"), ["nobody", "nogroup"])
        self.assertEqual(texts(self.execd.run("id -u", uid=0), "stdout"), ["0"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_user_may_not_start_in_a_folder_it_cannot_enter(self):
        os.chmod(self.folder, 0o700)
        events = self.execd.run("pwd", uid=54321, cwd=self.folder)
        self.assertEqual([e["type"] for e in events], ["init", "ping", "error"])
        self.assertIn("Permission denied", events[-1]["error"]["evalue"])

    def test_shell_of_the_commands_own_path(self):
        with open(self.file("bash"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho mine $1 $2\n")
        os.chmod(self.file("bash"), 0o755)
        events = self.execd.run("x", envs={"PATH": self.folder + ":/usr/bin:/bin"})
        self.assertEqual(texts(events, "stdout"), ["mine -c x"])

    def test_no_fds_are_lost(self):
        def count():
            return len(os.listdir(f"/proc/{self.execd.process.pid}/fd"))
        self.execd.run("true")
        before = count()
        for _ in range(10):
            self.execd.run("echo x; sleep 0.1 &")
            self.execd.json("POST", "/command", {"command": "x", "cwd": "/nowhere"})
        wait_until(lambda: count() <= before, f"{count()} fds instead of {before}")


class Environment(unittest.TestCase):
    def test_env_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".env") as file:
            execd = Execd(env={**os.environ, "EXECD_ENVS": file.name, "BASE": "b"})
            try:
                self.assertEqual(texts(execd.run("echo [$FROM_FILE]"), "stdout"), ["[]"])
                file.write("# comment\nFROM_FILE=$BASE/x\nBASE=changed\n")
                file.flush()
                show = "echo $FROM_FILE $BASE"
                self.assertEqual(texts(execd.run(show), "stdout"), ["b/x changed"])
                self.assertEqual(texts(execd.run(show, envs={"BASE": "mine"}), "stdout"), ["b/x mine"])
            finally:
                execd.stop()

    @unittest.skipUnless(STATIC and os.geteuid() == 0, "needs a static binary and root")
    def test_empty_root(self):
        with tempfile.TemporaryDirectory() as root:
            shutil.copy(BINARY, os.path.join(root, "execd"))
            execd = Execd(command=["chroot", root, "/execd"], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
            try:
                events = execd.run("echo x")
                self.assertEqual([e["type"] for e in events], ["init", "ping", "error"])
                self.assertEqual(events[-1]["error"]["evalue"],
                                 "cannot execute bash or sh: No such file or directory")
                body, headers = multipart([("/made/here", b"data", {})])
                self.assertEqual(execd.request("POST", "/files/upload", body, headers)[0], 200)
                self.assertEqual(execd.request("GET", "/files/download?path=/made/here")[2], b"data")
                self.assertEqual(execd.json("GET", "/files/info?path=/made/here")[1]["/made/here"]["owner"], "0")
            finally:
                execd.stop()

    def test_terminated_while_commands_run(self):
        execd = Execd()
        sock = execd.open_stream("echo $$; sleep 1000")
        data = b""
        while b"stdout" not in data:
            data += sock.recv(65536)
        pid = re.search(rb'"stdout","text":"(\d+)"', data).group(1).decode()
        execd.process.terminate()
        while True:
            piece = sock.recv(65536)
            if not piece:
                break
            data += piece
        self.assertIn(b'"traceback":["signal: killed"]', data)
        self.assertTrue(data.endswith(b"0\r\n\r\n"))
        self.assertEqual(execd.stop(), 0)
        self.assertFalse(is_alive(pid))


if __name__ == "__main__":
    unittest.main()
