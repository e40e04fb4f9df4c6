"""Sessions of opensandbox-execd over raw HTTP: one living bash each."""

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
from execd import (BINARY, SANITIZED, STATIC, WAIT, Execd, ExecdCase, is_alive, parse_events,  # noqa: E402
                   texts, wait_until)

KILLED = ("-1", "signal: killed")
STOP = 61  # EXECD_SESSION_STOP_SIGNAL


class Session:
    def __init__(self, execd, **fields):
        self.execd = execd
        status, body = execd.json("POST", "/session", fields)
        assert status == 200, body
        self.id = body["session_id"]

    def run(self, command, connection=None, **fields):
        fields = {"command": command, "timeout": WAIT * 1000, **fields}  # nothing waits for ever
        status, response, body = self.execd.request("POST", f"/session/{self.id}/run", json.dumps(fields),
                                                    connection=connection)
        assert status == 200, body
        assert response.getheader("Content-Type") == "text/event-stream"
        events = parse_events(body.decode("utf-8"))
        assert events[0]["type"] == "init" and events[0]["text"] == self.id, events[0]
        ends = [e["type"] for e in events if e["type"] in ("error", "execution_complete")]
        assert len(ends) == 1 and ends[0] == events[-1]["type"], events
        return events

    def out(self, command, **fields):
        """Standard output of a run that succeeds and says nothing on standard error."""
        events = self.run(command, **fields)
        assert events[-1]["type"] == "execution_complete", events[-6:]
        assert not texts(events, "stderr"), texts(events, "stderr")[-6:]
        return texts(events, "stdout")

    def open_stream(self, command, **fields):
        """A raw socket on which the command runs; nothing is read from it yet."""
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        body = json.dumps({"command": command, **fields}).encode()
        sock.sendall(b"POST /session/%s/run HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                     % (self.id.encode(), len(body)) + body)
        return sock

    def pid(self):
        return int(self.out("echo $$")[0])

    def delete(self):
        return self.execd.request("DELETE", f"/session/{self.id}")[0]


def read_until(sock, mark):
    data = b""
    while mark not in data:
        piece = sock.recv(65536)
        assert piece, data
        data += piece
    return data


def read_events(sock):
    response = http.client.HTTPResponse(sock)
    response.begin()
    events = parse_events(response.read().decode())
    sock.close()
    return events


class SessionCase(ExecdCase):
    def setUp(self):
        super().setUp()
        self.session = Session(self.execd)
        self.addCleanup(self.session.delete)

    def assert_fails(self, events, value, traceback=None):
        self.assertEqual(events[-1]["type"], "error", events)
        self.assertEqual(events[-1]["error"]["ename"], "CommandExecError")
        self.assertEqual(events[-1]["error"]["evalue"], value)
        self.assertEqual(events[-1]["error"]["traceback"], [traceback or f"exit status {value}"])


class Basics(SessionCase):
    def test_events(self):
        events = self.session.run("echo out; echo err >&2")
        self.assertEqual([e["type"] for e in events][:2], ["init", "ping"])
        self.assertEqual((texts(events, "stdout"), texts(events, "stderr")), (["out"], ["err"]))
        self.assertRegex(self.session.id, r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")

    def test_lines(self):
        self.assertEqual(self.session.out(r"printf 'a\n\nb\r\nc\rd'"), ["a", "\n", "b", "c", "d"])

    def test_exit_codes(self):
        self.assert_fails(self.session.run("false"), "1")
        self.assertEqual(self.session.out("echo $?"), ["1"])
        self.assert_fails(self.session.run("(exit 255)"), "255")
        self.assert_fails(self.session.run("sh -c 'kill -9 $$'"), "137")
        events = self.session.run("no-such-program-here")
        self.assertEqual(texts(events, "stderr"), ["bash: no-such-program-here: command not found"])
        self.assert_fails(events, "127")

    def test_body_of_create_is_optional(self):
        for body in (None, "", "{}", '{"cwd":null}', '{"other":1}'):
            status, _, data = self.execd.request("POST", "/session", body, {"Content-Type": "application/json"})
            self.assertEqual(status, 200, data)
            session = json.loads(data)
            self.assertEqual(list(session), ["session_id"])
            self.assertEqual(self.execd.request("DELETE", "/session/" + session["session_id"])[0], 200)

    def test_bad_create(self):
        for body in ("{", "[]", '{"cwd":5}', '{"envs":[]}', '{"envs":{"A":1}}', '{"uid":-1}', '{"gid":1}',
                     '{"cwd":"$NOT_SET_ANYWHERE"}', '{"cwd":"/etc/passwd"}', '{"cwd":"/etc/passwd/x"}', '{"cwd":"a\\u0000b"}'):
            status, _, data = self.execd.request("POST", "/session", body)
            self.assertEqual((status, json.loads(data)["code"]), (400, "INVALID_REQUEST_BODY"), body)

    def test_bad_run(self):
        path = f"/session/{self.session.id}/run"
        for body in ("", "{", "[]", "{}", '{"command":""}', '{"command":5}', '{"command":null}',
                     '{"command":"a\\u0000b"}', '{"command":"x","timeout":-1}', '{"command":"x","timeout":"5"}',
                     '{"command":"x","cwd":5}', '{"command":"x","cwd":"/no/such/folder"}',
                     '{"command":"x","cwd":"/etc/passwd"}', '{"command":"x","cwd":"$NOT_SET_ANYWHERE"}'):
            status, _, data = self.execd.request("POST", path, body)
            self.assertEqual((status, json.loads(data)["code"]), (400, "INVALID_REQUEST_BODY"), body)
        self.assert_error(self.execd.json("POST", path, {"command": "x" * (2 << 20) + "x"}), 400,
                          "INVALID_REQUEST_BODY", "2097152")
        self.assertEqual(self.execd.request("POST", path, b" " * ((4 << 20) + 1))[0], 413)
        self.assertEqual(self.session.out("echo still here"), ["still here"])

    def test_unknown_session(self):
        for call in (("POST", "/session/no-such/run", {"command": "true"}), ("DELETE", "/session/no-such", None)):
            self.assert_error(self.execd.json(*call), 404, "CONTEXT_NOT_FOUND", "no-such")

    def test_list_and_delete(self):
        def listed():
            return {s["session_id"]: s for s in self.execd.json("GET", "/sessions")[1]["sessions"]}
        session = Session(self.execd, cwd=self.folder)
        self.assertEqual({k: v for k, v in listed()[session.id].items() if k != "created_at"},
                         {"session_id": session.id, "running": False, "queued": 0, "cwd": self.folder})
        self.assertRegex(listed()[session.id]["created_at"], r"^20\d\d-\d\d-\d\dT[0-9:.]+Z$")
        sock = session.open_stream("cd /; sleep 100")
        wait_until(lambda: listed()[session.id]["running"], "the run shows")
        status, response, body = self.execd.request("DELETE", f"/session/{session.id}")
        self.assertEqual((status, body, response.getheader("Content-Length")), (200, b"", "0"))
        self.assert_fails(read_events(sock), *KILLED)
        self.assertNotIn(session.id, listed())
        self.assertEqual(session.delete(), 404)
        self.assert_error(self.execd.json("POST", f"/session/{session.id}/run", {"command": "true"}), 404,
                          "CONTEXT_NOT_FOUND")

    def test_cwd(self):
        session = Session(self.execd, cwd=self.file("made/for/it"), envs={"HERE": self.folder})
        self.assertEqual(session.out("pwd"), [self.file("made/for/it")])
        self.assertEqual(session.out("pwd", cwd="$HERE"), [self.folder])
        self.assertEqual(session.out("pwd; cd made"), [self.folder])
        self.assertEqual(session.out("pwd", cwd="for"), [self.file("made/for")])
        self.assertEqual(session.out("pwd"), [self.file("made/for")])
        session.delete()

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_user(self):
        session = Session(self.execd, uid=54321, gid=65432, cwd=self.file("own"))
        os.chmod(self.folder, 0o755)
        self.assertEqual(session.out("id -u; id -g; touch x && echo made"), ["54321", "65432", "made"])
        os.mkdir(self.file("secret"), 0o700)
        events = session.run("echo not here", cwd=self.file("secret"))
        self.assertIn("Permission denied", texts(events, "stderr")[0])
        self.assertEqual(texts(events, "stdout"), [])
        self.assert_fails(events, "1")
        self.assertEqual(session.out("pwd"), [self.file("own")])
        session.delete()

    def test_envs(self):
        session = Session(self.execd, envs={"A": "1 2\n3", "PS1": "$ ", "PROMPT_COMMAND": "echo prompt"})
        self.assertEqual(session.out("printf '%s\n' \"$A\"; sh -c 'echo $A'"), ["1 2", "3", "1 2 3"])
        self.assertEqual(session.out("echo \"$PS1\" \"$PROMPT_COMMAND\""), ["$  echo prompt"])
        session.delete()

    def test_syntax_errors(self):
        for text in ("echo 'a", "if", "if then", "(", "echo $(", "case x in", "cat <<E\nfoo", "done", "}", "a() {",
                     "echo \\", "#", "  \n\n", "`", "${", "&&"):
            self.session.run(text)
            self.assertEqual(self.session.out("echo fine"), ["fine"], text)
        self.assert_fails(self.session.run("if"), "2")
        self.assertEqual(texts(self.session.run("cat <<E\nfoo"), "stdout"), ["foo"])

    def test_odd_endings(self):
        for text in ("return 3", "break", "continue", "exec 3</dev/null", "set -o vi", "set -o emacs; set -H",
                     "set -o history", "PS1='$(echo x >&2)>'; PROMPT_COMMAND='echo p; sleep 100'", "PS4='>'; set -x",
                     "set +x", "shopt -s extdebug", "shopt -u extdebug", "set -k", "set +k", "set -t; set +t",
                     "trap 'echo debug >&2' DEBUG", "trap - DEBUG", "exec >&- 2>&-", "exec </dev/zero", "set -f -u",
                     "IFS=1", "IFS=$' \\t\\n'", "ulimit -c 0", "trap '' INT TERM HUP", "trap - INT TERM HUP",
                     "read x", "cat", "set -v", "set +v", "LC_ALL=C", "unset LC_ALL PATH", "PATH=/usr/bin:/bin",
                     "set -o posix", "set +o posix", "unset HOME", "enable -n printf; enable printf", "alias echo=echo",
                     "eval() { false; }; read() { false; }; unset() { false; }", "unset -f eval read unset 2>/dev/null",
                     "x=(", "history -c", "fc -l", "jobs -x true", "disown -a", "logout"):
            for run in (text, "echo fine"):
                events = self.session.run(run)
                self.assertNotEqual(events[-1].get("error", {}).get("evalue"), "-1", text)
            self.assertEqual(texts(events, "stdout"), ["fine"], text)

    def test_stdin_is_empty(self):
        self.assertEqual(self.session.out("cat; read x; echo $?; wc -c"), ["1", "0"])

    def test_redirections_end_with_the_run(self):
        self.session.run(f"exec >{self.file('log')}; echo to the log; exec 7>{self.file('other')}")
        self.assertEqual(self.session.out("echo here; echo there >&7"), ["here"])
        self.assertEqual((self.read("log"), self.read("other")), (b"to the log\n", b"there\n"))

    def test_large_commands(self):
        for size in (100 << 10, 1 << 20, (2 << 20) - 100):
            text = "v='" + ("x\"$`\\\n!%" * (size // 8)) + "'\\'; echo ${#v}"
            expected = 8 * (size // 8) + 1
            self.assertLessEqual(len(text), 2 << 20)
            self.assertEqual(self.session.out(text), [str(expected)])
        self.assertEqual(self.session.out("echo ${#v}; unset v"), [str(expected)])

    def test_background_output_between_runs_is_nobodys(self):
        self.session.out(f"(sleep 0.1; echo late; touch {self.file('late')}) &")
        wait_until(lambda: os.path.exists(self.file("late")), "the job writes")
        self.assertEqual(self.session.out("echo mine"), ["mine"])

    def test_background_job_that_floods_holds_up_nothing(self):
        events = self.session.run("yes & echo pid $!; sleep 0.02")
        pid = next(t for t in texts(events, "stdout") if t.startswith("pid "))[4:]
        events = self.session.run("kill $!; wait; true")
        self.assertEqual(events[-1]["type"], "execution_complete")
        self.assertFalse(is_alive(pid))
        self.assertEqual(self.session.out("echo quiet"), ["quiet"])

    def test_output_in_the_pipe_at_the_end_is_delivered(self):
        for _ in range(20):
            events = self.session.run("head -c 60000 /dev/zero | tr '\\0' 'x'; echo; echo last >&2")
            self.assertEqual(sum(map(len, texts(events, "stdout"))), 60000)
            self.assertEqual(texts(events, "stderr"), ["last"])


class State(SessionCase):
    def test_everything_stays_over_1000_runs(self):
        odd = "a'b\"c$d`e\\f\tg!h*?[~] ä€\U0001f600 #"
        session = self.session
        session.out("set -- one 'two words' \"$(printf 'a\\nb')\"; cd /usr; umask 027; shopt -s extglob nullglob")
        session.out("plain='p  q'; export EXPORTED='e  f'; declare -i number=41; declare -r fixed=9; "
                    "list=(a 'b c' $'d\\ne'); declare -A map=([k]='v w' [$'\\n']=newline); declare -n ref=plain")
        session.out("binary=$'\\001\\002\\037\\177\\200\\377\\xc3\\x28end'; lines=$'1\\n2\\n\\n3\\n'")
        session.out("odd=" + "'" + odd.replace("'", "'\\''") + "'")
        session.out("f() { echo \"f($plain,$1)\"; }; g() { case $1 in +(x)) echo xs ;; *) f \"$1\" ;; esac; }")
        session.out("alias hello='echo hello from an alias'; trap 'echo usr1' USR1; set -o pipefail")
        session.out("sleep 1000 & disown_me=$!; exec 8>&1 8>/dev/null")
        connection = self.execd.connect()
        for i in range(1000):
            events = session.run(f"count=$((count + 1)); last='{i} $'; echo $count", connection)
            self.assertEqual(texts(events, "stdout"), [str(i + 1)])
        connection.close()
        self.assertEqual(session.out("printf '<%s>' \"$plain\" \"$EXPORTED\" $number $fixed \"${list[@]}\""),
                         ["<p  q><e  f><41><9><a><b c><d", "e>"])
        self.assertEqual(session.out("number+=1; echo $number; ref=changed; echo $plain; sh -c 'echo $EXPORTED'"),
                         ["42", "changed", "e f"])
        self.assertEqual(session.out("echo \"${map[k]}\" \"${map[$'\\n']}\" ${#map[@]}"), ["v w newline 2"])
        self.assertEqual(session.out("printf %s \"$binary\" | od -An -tx1")[0].split(),
                         "01 02 1f 7f 80 ff c3 28 65 6e 64".split())
        self.assertEqual(session.out("printf %s \"$lines\""), ["1", "2", "\n", "3"])
        self.assertEqual(session.out("printf '%s\\n' \"$odd\" \"$last\""), [odd, "999 $"])
        self.assertEqual(session.out("f 1; g xxx; g y; hello"),
                         ["f(changed,1)", "xs", "f(changed,y)", "hello from an alias"])
        self.assertEqual(session.out("echo $# \"$2\" \"$3\"; pwd; umask; shopt -q extglob && echo extglob"),
                         ["3 two words a", "b", "/usr", "0027", "extglob"])
        self.assertEqual(session.out("kill -USR1 $$; case :$SHELLOPTS: in *:pipefail:*) echo pipefail; esac"),
                         ["usr1", "pipefail"])
        self.assertEqual(session.out("jobs; kill %1; wait 2>/dev/null; echo waited")[-1], "waited")

    def test_a_new_shell_has_the_state_of_the_old_one(self):
        session = self.session
        session.out("set -- 1 '2 2' ''; cd /usr; umask 027; shopt -s extglob; set -o noglob; list=(a $'b\\nc' '*'); "
                    "declare -A map=([k]='v $x `y`'); declare -ir number=5; binary=$'\\001\\177\\200\\377'; export E=1")
        session.out("f() { case $1 in +(x)) echo xs ;; esac; }; g() { echo g; }; export -f g; alias a='echo alias'; trap 'echo usr' USR1; "
                    "unset HOME; declare -n ref=E; __mine='odd '$'\\t'; secret=$'q\\'uote\\\\'")
        before = session.pid()
        self.assert_fails(session.run("exit 7"), "7")
        self.assertEqual(session.out("echo $?"), ["7"])
        self.assertNotEqual(session.pid(), before)
        self.assertEqual(session.out("echo $# \"$2\"; pwd; umask; printf '<%s>' \"${list[@]}\"; echo \"${map[k]}\" $-"),
                         ["3 2 2", "/usr", "0027", "<a><b", "c><*>v $x `y` fhiBs"])
        self.assertEqual(session.out("f xxx; a; kill -USR1 $$; echo ${HOME-none} $ref \"$secret\" \"$__mine\" ${number@a}"),
                         ["xs", "alias", "usr", "none 1 q'uote\\ odd \t ir"])
        self.assertEqual(session.out("bash -c 'g; echo $E'; printf %s \"$binary\" | od -An -tx1"),
                         ["g", "1", " 01 7f 80 ff"])

    def test_what_ends_a_shell_saves_its_state(self):
        for number, (text, value, out) in enumerate([
                ("exit 3", "3", []),
                ("set -e; false; echo no", "1", []),
                ("set -e; f() { local inner=1; false; }; f; echo no", "1", []),
                ("f() { exit 4; }; f arg", "4", []),
                ("trap 'echo bye' EXIT; exit 5", "5", ["bye"]),
                ("exit 6", "6", ["bye"]),
                ("set -e; false", "1", ["bye"]),
                ("trap 'late=1; echo ciao >&2; exit 9' EXIT; set -e; false", "9", []),
                ("trap - EXIT; exit 2", "2", []),
                ("( trap 'echo sub' EXIT; exit 1 ); exit 8", "8", ["sub"]),
                ("eval 'exit 11'", "11", []),
                ("unset -f f; builtin exit 12", "12", [])]):
            before = self.session.pid()
            events = self.session.run(f"saved={number}; {text}")
            self.assert_fails(events, value)
            self.assertEqual(texts(events, "stdout"), out, text)
            self.assertEqual(self.session.out("set +e; echo $saved ${inner-none}; shopt -q expand_aliases"),
                             [f"{number} none"], text)
            self.assertNotEqual(self.session.pid(), before)

    def test_exit_in_the_first_run(self):
        for text in ("exit 3", "trap 'echo bye' EXIT; exit 3"):
            session = Session(self.execd)
            self.assert_fails(session.run("x=1; " + text), "3")
            self.assertEqual(session.out("echo $x"), ["1"])
            session.delete()

    def test_exit_trap_of_a_sourced_file(self):
        with open(self.file("rc"), "w", encoding="ascii") as file:
            file.write("trap 'echo from the file' EXIT\n[ -z \"$PS1\" ] || echo unseen >/dev/null\nset -o vi\n")
        self.session.out(f"source {self.file('rc')}")
        events = self.session.run("after=1; exit 3")
        self.assertEqual(texts(events, "stdout"), ["from the file"])
        self.assertEqual(self.session.out("echo $after"), ["1"])

    def test_what_dies_without_saving_goes_on_with_the_state_before(self):
        self.session.out("kept=1")
        self.assert_fails(self.session.run("lost=1; kill -9 $$"), *KILLED)
        self.assertEqual(self.session.out("echo $kept ${lost-none}"), ["1 none"])
        events = self.session.run("lost=1; exec sh -c 'echo other; exit 4'")
        self.assertEqual(texts(events, "stdout"), ["other"])
        self.assert_fails(events, "4")
        self.assertEqual(self.session.out("echo $kept ${lost-none}"), ["1 none"])
        self.assert_fails(self.session.run("kill -SEGV $$"), "-1", "signal: segmentation fault")
        self.assertEqual(self.session.out("echo $kept"), ["1"])

    def test_shell_that_is_killed_between_runs(self):
        self.session.out("kept=1")
        for _ in range(5):
            pid = self.session.pid()
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(self.session.out("echo $kept"), ["1"])

    def test_jobs_of_a_shell_that_exits_live_on_and_end_with_the_session(self):
        session = Session(self.execd)
        events = session.run("sleep 1000 & echo $!; (sleep 1000 & echo $!); exit 1")
        pids = texts(events, "stdout")
        session.out("true")
        for pid in pids:
            self.assertTrue(is_alive(pid))
        session.delete()
        for pid in pids:
            wait_until(lambda p=pid: not is_alive(p), f"end of {pid}")

    def test_state_that_is_too_large_is_not_saved(self):
        self.session.out("small=1")
        self.session.out("big=$(head -c 5000000 /dev/zero | tr '\\0' x)")
        self.assertEqual(self.session.out("small=2; echo ${#big}"), ["5000000"])
        self.assert_fails(self.session.run("exit 1"), "1")
        self.assertEqual(self.session.out("echo $small ${#big}"), ["1 0"])

    def test_directory_that_is_gone(self):
        session = Session(self.execd, cwd=self.file("gone"))
        session.out("x=1")
        os.rmdir(self.file("gone"))
        self.assert_fails(session.run("exit 1"), "1")
        self.assertEqual(session.out("echo $x"), ["1"])
        session.delete()


class Stopping(SessionCase):
    BLOCKERS = ("sleep 1000; echo after", "while :; do :; done; echo after", "sleep 1000 | cat; echo after",
                "f() { while :; do sleep 1000; done; }; f; echo after", "y=$(sleep 1000); echo after",
                "(sleep 1000; echo after); echo after", "sleep 1000 & wait; echo after",
                "bash -c 'trap \"\" INT TERM; sleep 1000 & wait; sleep 1000'; echo after",
                "trap '' INT; sleep 1000; echo after", "trap 'echo mine' INT; sleep 1000; echo after",
                "read y < <(sleep 1000); echo after", "for i in 1 2 3; do sleep 1000 || true; done; echo after",
                "set -m; sleep 1000; echo after", "set +m; until false; do true; done; echo after")

    def test_timeout(self):
        self.session.out("x=0; sleep 999 & job=$!")
        for number, text in enumerate(self.BLOCKERS):
            events = self.session.run(f"x={number}; {text}", timeout=200)
            self.assert_fails(events, *KILLED)
            self.assertEqual(texts(events, "stdout"), [], text)
            self.assertEqual(self.session.out("echo $x; kill -0 $job && echo job"), [str(number), "job"], text)
        self.assertEqual(self.session.out("trap - INT; jobs -r | grep -c 'sleep 999'"), ["1"])

    def test_timeout_ends_what_the_run_started_and_nothing_else(self):
        early = self.session.out("sleep 1000 & echo $!; (sleep 1000 & echo $!); (while :; do sleep 0.05; done) & echo $!")
        events = self.session.run("sleep 1000 & echo $!; (sleep 1000 & echo $!; wait) & echo $!; "
                                  "sleep 0.05; (sleep 1000 & echo $!); sleep 1000", timeout=500)
        self.assert_fails(events, *KILLED)
        late = texts(events, "stdout")
        self.assertEqual(len(late), 4)
        for pid in late:
            wait_until(lambda p=pid: not is_alive(p), f"end of {pid}")
        for pid in early:
            self.assertTrue(is_alive(pid), pid)

    def interrupt(self):
        status, _, body = self.execd.request("DELETE", f"/command?id={self.session.id}")
        self.assertEqual((status, body), (200, b""))

    def test_interrupt(self):
        self.session.out("x=0; sleep 999 & job=$!")
        for number, text in enumerate(self.BLOCKERS):
            sock = self.session.open_stream(f"x={number}; echo begun; {text}")
            read_until(sock, b"begun")
            self.interrupt()
            data = read_until(sock, b"0\r\n\r\n")
            sock.close()
            self.assertIn(b'"evalue":"-1","traceback":["signal: interrupt"]', data, text)
            self.assertNotIn(b"after", data, text)
            events = self.session.run("echo $x; kill -0 $job && echo job")
            self.assertEqual(events[-1]["type"], "execution_complete", f"after {text}: {events[-6:]}")
            self.assertEqual(texts(events, "stdout"), [str(number), "job"], text)

    def test_signals_while_bash_saves_its_state(self):
        """It has sent the end and now saves a lot: a late signal of a stop may come just then."""
        bash = self.session.pid()
        self.session.out("PS1='# '; for i in {1..2000}; do eval v$i=$i; done")
        for number, late in enumerate((signal.SIGINT, STOP, signal.SIGINT, STOP)):
            sock = self.session.open_stream(f"x={number}; echo begun; sleep 1000")
            read_until(sock, b"begun")
            self.interrupt()
            read_until(sock, b"0\r\n\r\n")
            sock.close()
            os.kill(bash, late)
            self.assertEqual(self.session.out("echo $x $v2000 \"$PS1\" $$"), [f"{number} 2000 #  {bash}"])

    def test_interrupt_of_a_program_that_ignores_it(self):
        """No signal comes while bash saves its state, which takes long here: the next run waits for that."""
        sessions = [Session(self.execd) for _ in range(10)]
        socks = []
        for session in sessions:
            session.out("x=1; for i in {1..2000}; do eval v$i=$i; done")
            socks.append(session.open_stream("bash -c 'trap \"\" INT TERM; echo begun; while :; do sleep 1000; done'"))
        for session, sock in zip(sessions, socks):
            read_until(sock, b"begun")
            self.execd.request("DELETE", f"/command?id={session.id}")
        for session, sock in zip(sessions, socks):
            self.assertIn(b"signal: interrupt", read_until(sock, b"0\r\n\r\n"))
            sock.close()
            self.assertEqual(session.out("echo $x"), ["1"])

    def test_interrupt_lets_programs_clean_up(self):
        sock = self.session.open_stream("bash -c 'trap \"echo cleaned; exit 3\" INT; echo begun; sleep 1000 & wait'")
        read_until(sock, b"begun")
        self.interrupt()
        self.assertIn(b"cleaned", read_until(sock, b"0\r\n\r\n"))
        sock.close()

    def test_timeout_that_is_not_reached(self):
        self.assertEqual(self.session.out("echo x", timeout=60000), ["x"])

    def test_timeout_of_what_took_the_place_of_the_shell(self):
        self.session.out("x=1")
        self.assert_fails(self.session.run("exec sleep 1000", timeout=200), *KILLED)
        self.assertEqual(self.session.out("echo $x"), ["1"])

    def test_bash_that_cannot_be_stopped_is_killed(self):
        self.session.out("x=1")
        # Opening a FIFO for which nobody comes, with every signal ignored that can be.
        os.mkfifo(self.file("fifo"))
        events = self.session.run(f"trap '' 61 INT; x=2; read y <{self.file('fifo')}", timeout=100)
        self.assert_fails(events, *KILLED)
        self.assertEqual(self.session.out("echo $x"), ["1"])

    def test_no_run_is_lost_when_it_ends_as_its_timeout_comes(self):
        for i in range(40):
            events = self.session.run(f"sleep 0.0{i % 8 + 1}", timeout=45)
            self.assertIn(events[-1]["type"], ("error", "execution_complete"))
        self.assertEqual(self.session.out("echo fine"), ["fine"])

    def test_slow_start_of_a_run_that_is_timed_out(self):
        for _ in range(10):
            session = Session(self.execd)
            self.assert_fails(session.run("sleep 1000", timeout=1), *KILLED)
            self.assertEqual(session.out("echo fine"), ["fine"])
            session.delete()


class Protocol(SessionCase):
    def test_programs_have_no_files_of_ours(self):
        self.assertEqual(self.session.out("ls /proc/self/fd"), ["0", "1", "2", "3"])
        self.assertEqual(self.session.out("(exec ls /proc/self/fd); ls /proc/self/fd | cat"), ["0", "1", "2", "3"] * 2)
        self.assertEqual(self.session.out("env | grep -c __execd || true"), ["0"])
        self.session.out("set -a")
        self.assertEqual(self.session.out("a=1; env | grep -c __execd || true; env | grep ^a=; set +a"), ["0", "a=1"])

    def test_program_that_speaks_for_the_shell(self):
        script = self.write("spoof.py", b"""
import os
frames = b''.join(kind + nonce + tail for kind in (b'B', b'E', b'S') for nonce in (b'0' * 32, b'')
                  for tail in (b'\\0', b' 0 /\\0', b' x=1\\0', b'\\n'))
for fd in range(256):
    try:
        os.write(fd, frames)
    except OSError:
        pass
os.write(1, b'end\\n')
""")
        events = self.session.run(f"{sys.executable} {script}; (exit 42)")
        self.assertEqual(texts(events, "stdout")[-1], "end")
        self.assert_fails(events, "42")
        self.assertEqual(self.session.out("echo $?"), ["42"])

    def test_shell_that_writes_to_every_file_it_has_harms_only_itself(self):
        self.session.out("x=1")
        other = Session(self.execd)
        events = self.session.run("y=1; for i in {3..255}; do echo nonsense >&$i; done 2>/dev/null; sleep 100")
        self.assertEqual(events[-1]["type"], "error")
        self.assertIn("killed", events[-1]["error"]["evalue"])
        self.assertEqual(self.session.out("echo $x ${y-none}"), ["1 none"])
        self.assertEqual(other.out("echo fine"), ["fine"])
        other.delete()

    def test_frames_without_the_secret_of_the_run_end_nothing(self):
        self.session.out("x=1")
        for frame in ("E%032d 0 /\\0", "B%032d\\0", "S%032d y=1\\0"):
            events = self.session.run(f"printf '{frame}' 0 >&90; sleep 100")
            self.assertIn("killed", events[-1]["error"]["evalue"], frame)
            self.assertEqual(self.session.out("echo $x ${y-none}"), ["1 none"])

    def test_shell_that_closes_every_file_it_has(self):
        self.session.out("x=1")
        for text in ("for i in {3..255}; do eval \"exec $i>&-\"; done", "exec 90>/dev/null", "exec 90>&- 89<&-"):
            self.session.run(text)  # it ends, though nobody can say how
            self.assertEqual(self.session.out("echo $x"), ["1"], text)

    def test_shell_that_unsets_what_is_ours(self):
        self.session.run("unset ${!__execd_@}; unset -f $(compgen -A function)", timeout=3000)
        self.assertEqual(texts(self.session.run("echo fine", timeout=5000), "stdout"), ["fine"])


class Clients(SessionCase):
    def test_runs_of_one_session_wait_for_each_other(self):
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            jobs = [pool.submit(self.session.out, "n=$((n + 1)); a=$n; sleep 0.02; echo $a $n") for _ in range(12)]
            lines = sorted(int(a) for (a, b) in (job.result()[0].split() for job in jobs) if a == b)
        self.assertEqual(lines, list(range(1, 13)))

    def test_runs_of_one_session_keep_their_order(self):
        socks = []
        for i in range(10):
            socks.append(self.session.open_stream(f"order+={i}; sleep 0.02"))
            read_until(socks[-1], b"pong")
        self.assertEqual(self.session.out("echo $order"), ["0123456789"])
        for sock in socks:
            sock.close()

    def test_queue_is_bounded(self):
        session = Session(self.execd)
        first = session.open_stream("sleep 1000")
        read_until(first, b"pong")
        waiting = []
        for _ in range(16):
            sock = session.open_stream("echo never")
            read_until(sock, b"pong")
            waiting.append(sock)
        self.assert_error(self.execd.json("POST", f"/session/{session.id}/run", {"command": "true"}), 503,
                          "RUNTIME_ERROR", "16")
        session.delete()
        for sock in waiting:
            rest = read_until(sock, b"0\r\n\r\n")
            self.assertIn(b"signal: killed", rest)
            self.assertNotIn(b"never", rest)
            sock.close()
        read_until(first, b"signal: killed")
        first.close()

    def test_sessions_are_independent(self):
        sessions = [Session(self.execd) for _ in range(12)]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for turn in range(5):
                jobs = [pool.submit(s.out, f"echo ${{v-0}}; v={i}{turn}; sleep 0.05") for i, s in enumerate(sessions)]
                for i, job in enumerate(jobs):
                    self.assertEqual(job.result(), ["0" if turn == 0 else f"{i}{turn - 1}"])
        for session in sessions:
            session.delete()

    def test_client_that_goes_away(self):
        sock = self.session.open_stream(f"x=1; sleep 0.2; seq 1 100000; echo done >{self.file('done')}")
        read_until(sock, b"pong")
        sock.close()
        wait_until(lambda: os.path.exists(self.file("done")), "the run goes on to its end")
        self.assertEqual(self.session.out("echo $x"), ["1"])

    def test_stopped_reader_stops_the_writer_and_gets_everything_in_the_end(self):
        sock = self.session.open_stream("seq 1 1000000; exit 9")
        read_until(sock, b"pong")
        sizes = []
        for _ in range(4):
            time.sleep(0.2)
            sizes.append(self.execd.memory_kib())
        if not SANITIZED:
            self.assertLess(max(sizes), 24 * 1024, "memory stays bounded")
        sock.close()
        self.assertEqual(self.session.out("echo after"), ["after"])
        sock = self.session.open_stream("seq 1 200000; exit 9")
        time.sleep(0.3)
        events = read_events(sock)
        self.assertEqual(texts(events, "stdout"), [str(i) for i in range(1, 200001)])
        self.assert_fails(events, "9")

    def test_100_megabytes(self):
        size = 20 if SANITIZED else 100
        sock = self.session.open_stream(f"head -c {size}000000 /dev/zero | tr '\\0' x | fold -w 1000; echo; echo end")
        total = 0
        data = b""
        while b'"text":"end"' not in data[-4096:] or not data.endswith(b"0\r\n\r\n"):
            piece = sock.recv(1 << 20)
            self.assertTrue(piece)
            total += piece.count(b"x")
            data = data[-4096:] + piece
        sock.close()
        self.assertGreaterEqual(total, size * 1000000)
        if not SANITIZED:
            self.assertLess(self.execd.memory_kib("VmHWM"), 40 * 1024, "and memory stays bounded")

    def test_delete_while_the_reader_is_stopped(self):
        session = Session(self.execd)
        sock = session.open_stream("yes")
        read_until(sock, b"pong")
        time.sleep(0.2)
        self.assertEqual(session.delete(), 200)
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            data = data[-4096:] + sock.recv(1 << 20)
        self.assertIn(b"signal: killed", data)
        sock.close()

    def test_delete_lets_jobs_clean_up(self):
        session = Session(self.execd)
        session.out(f"(trap 'touch {self.file('cleaned')}; exit' TERM; touch {self.file('ready')}; sleep 1000 & wait) &")
        wait_until(lambda: os.path.exists(self.file("ready")), "the job is ready")
        session.delete()
        wait_until(lambda: os.path.exists(self.file("cleaned")), "the job has cleaned up")

    def test_delete_ends_every_process(self):
        session = Session(self.execd)
        ready = self.file("ready")  # what a job says after the run's end is nobody's
        pids = session.out("echo $$; sleep 1000 & echo $!; "
                           f"(trap '' HUP TERM; sleep 1000 & echo $!; touch {ready}; wait) & echo $!; "
                           "(trap '' TERM; set -m; sleep 1000 & echo $!); "
                           f"until [ -e {ready} ]; do sleep 0.01; done")
        self.assertEqual(len(pids), 5)
        self.assertEqual(session.delete(), 200)
        for pid in pids:
            wait_until(lambda p=pid: not is_alive(p), f"end of {pid}")


class Limits(unittest.TestCase):
    def setUp(self):
        self.execd = Execd()
        self.addCleanup(self.execd.stop)

    def test_number_of_sessions(self):
        sessions = [Session(self.execd) for _ in range(64)]
        status, body = self.execd.json("POST", "/session", {})
        self.assertEqual((status, body["code"]), (503, "RUNTIME_ERROR"), body)
        self.assertIn("64", body["message"])
        sessions.pop().delete()
        wait_until(lambda: self.execd.json("POST", "/session", {})[0] == 200, "room for another one")

    def test_nothing_is_left_behind(self):
        def count():
            return len(os.listdir(f"/proc/{self.execd.process.pid}/fd"))

        def children():
            with open(f"/proc/{self.execd.process.pid}/task/{self.execd.process.pid}/children", encoding="ascii") as f:
                return len(f.read().split())
        warm = Session(self.execd)
        warm.out("true")
        warm.delete()
        wait_until(lambda: children() == 0, "the end of the first")
        before = count()
        memory = self.execd.memory_kib()
        for _ in range(30):
            session = Session(self.execd)
            session.out("x=$(head -c 100000 /dev/zero | tr '\\0' x); sleep 1000 &")
            session.run("exit 1")
            session.run("sleep 1000", timeout=20)
            session.delete()
        wait_until(lambda: children() == 0, "the end of all shells")
        wait_until(lambda: count() <= before, f"{count()} fds instead of {before}")
        if not SANITIZED:
            self.assertLess(self.execd.memory_kib() - memory, 2048)

    def test_terminated_while_sessions_run(self):
        sessions = [Session(self.execd) for _ in range(3)]
        pids = [pid for s in sessions for pid in s.out("echo $$; (trap '' HUP TERM; sleep 1000) & echo $!")]
        sock = sessions[0].open_stream("echo started; sleep 1000")
        read_until(sock, b"started")
        self.execd.process.terminate()
        data = b""
        while True:
            piece = sock.recv(65536)
            if not piece:
                break
            data += piece
        self.assertIn(b"signal: killed", data)
        self.assertEqual(self.execd.process.wait(WAIT), 0)
        for pid in pids:
            wait_until(lambda p=pid: not is_alive(p), f"end of {pid}")


class Images(unittest.TestCase):
    """Roots that have little."""

    def start(self, root, *programs):
        shutil.copy(BINARY, os.path.join(root, "execd"))
        for program in programs:
            for path in [program, *re.findall(r"(/\S+) \(0x", subprocess.run(
                    ["ldd", program], capture_output=True, text=True, check=False).stdout)]:
                os.makedirs(root + os.path.dirname(path), exist_ok=True)
                shutil.copy(path, root + path)
        execd = Execd(command=["chroot", root, "/execd"], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        self.addCleanup(execd.stop)
        return execd

    @unittest.skipUnless(STATIC and os.geteuid() == 0, "needs a static binary and root")
    def test_no_bash(self):
        with tempfile.TemporaryDirectory() as root:
            execd = self.start(root)
            status, body = execd.json("POST", "/session", {})
            self.assertEqual((status, body["code"]), (500, "RUNTIME_ERROR"))
            self.assertIn("bash", body["message"])
            self.doCleanups()

    @unittest.skipUnless(STATIC and os.geteuid() == 0, "needs a static binary and root")
    def test_nothing_but_bash(self):
        with tempfile.TemporaryDirectory() as root:
            session = Session(self.start(root, os.path.realpath("/bin/bash"), os.path.realpath("/bin/sleep")))
            self.assertEqual(session.out("x=1; echo $x; read y; echo $?; pwd"), ["1", "1", "/"])
            events = session.run("exit 3")
            self.assertEqual(events[-1]["error"]["evalue"], "3")
            self.assertEqual(session.out("echo $x"), ["1"])
            # Without /proc what a run has started cannot be told from the rest: the shell goes with it.
            sleep = os.path.realpath("/bin/sleep")
            events = session.run(f"{sleep} 1000; echo after", timeout=200)
            self.assertEqual(events[-1]["error"]["traceback"], ["signal: killed"])
            self.assertEqual(texts(events, "stdout"), [])
            self.assertEqual(session.out("echo $x"), ["1"])
            self.assertFalse(os.path.exists(root + "/dev"))
            session.delete()
            self.doCleanups()


if __name__ == "__main__":
    unittest.main()
