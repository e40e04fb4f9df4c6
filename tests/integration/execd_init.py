"""execd as the init of a sandbox; part of test_execd.py."""

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from execd import BINARY, SANITIZED, STATIC, WAIT, Execd, multipart, texts, wait_until


class Init(unittest.TestCase):
    """--pid1 on an inherited unix socket, as the native runtime starts it."""

    def setUp(self):
        self.execd = Execd("--pid1", unix=True)
        self.addCleanup(self.execd.stop)

    def start(self, entrypoint, **fields):
        return self.execd.json("POST", "/internal/start", {"entrypoint": entrypoint, **fields})

    def exit_code(self):
        return self.execd.process.wait(WAIT)

    def test_start(self):
        status, body = self.start(["tail", "-f", "/dev/null"], env=["A=1", "B=x=y"], cwd="/usr")
        self.assertEqual(status, 200)
        with open(f"/proc/{body['pid']}/cmdline", "rb") as file:
            self.assertEqual(file.read(), b"tail\0-f\0/dev/null\0")
        self.assertEqual(os.getsid(body["pid"]), body["pid"])
        self.assertEqual(os.readlink(f"/proc/{body['pid']}/cwd"), "/usr")
        # Everything else now runs in the same surroundings, and in no others.
        events = self.execd.run("echo $A $B $PWD $PATH; env | wc -l")
        lines = texts(events, "stdout")
        self.assertEqual(lines[0], "1 x=y /usr /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        self.assertLess(int(lines[1]), 9)
        status, body = self.start(["true"])
        self.assertEqual(status, 409)
        self.assertEqual(self.execd.request("GET", "/ping")[0], 200)

    def test_exit_code_is_the_entrypoints(self):
        self.assertEqual(self.start(["sh", "-c", "exit 42"])[0], 200)
        self.assertEqual(self.exit_code(), 42)

    def test_end_by_signal(self):
        status, body = self.start(["sleep", "1000"])
        self.assertEqual(status, 200)
        os.kill(body["pid"], signal.SIGKILL)
        self.assertEqual(self.exit_code(), 128 + signal.SIGKILL)

    def test_many_short_entrypoints_are_all_answered(self):
        self.assertEqual(self.start(["true"])[0], 200)
        self.assertEqual(self.exit_code(), 0)
        for _ in range(20):
            execd = Execd("--pid1", unix=True)
            try:
                self.assertEqual(execd.json("POST", "/internal/start", {"entrypoint": ["true"]})[0], 200)
                self.assertEqual(execd.process.wait(WAIT), 0)
            finally:
                execd.stop()

    def test_sigterm_goes_to_the_entrypoint(self):
        with tempfile.TemporaryDirectory() as folder:
            ready = os.path.join(folder, "ready")
            self.start(["sh", "-c", f"trap 'exit 33' TERM; touch {ready}; while :; do sleep 0.05; done"])
            wait_until(lambda: os.path.exists(ready), "trap is set")
            self.execd.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.exit_code(), 33)

    def test_sigterm_before_the_start(self):
        self.assertEqual(self.execd.request("GET", "/ping")[0], 200)
        self.execd.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.exit_code(), 128 + signal.SIGTERM)

    def test_streams_end_truthfully(self):
        status, body = self.start(["sleep", "1000"])
        self.assertEqual(status, 200)
        results = []

        def run(number):
            results.append(self.execd.run(f"echo {number}; sleep 1000"))
        threads = [threading.Thread(target=run, args=(i,)) for i in range(5)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(self.children()) >= 6, "commands run")
        os.kill(body["pid"], signal.SIGTERM)
        for thread in threads:
            thread.join(WAIT)
        self.assertEqual(self.exit_code(), 128 + signal.SIGTERM)
        self.assertEqual(len(results), 5)
        for events in results:
            self.assertEqual(events[-1]["error"]["traceback"], ["signal: killed"])

    def children(self):
        with open(f"/proc/{self.execd.process.pid}/task/{self.execd.process.pid}/children", encoding="ascii") as file:
            return file.read().split()

    def test_stopped_reader_does_not_keep_it_alive(self):
        _, body = self.start(["sleep", "1000"])
        connection = self.execd.connect()
        connection.request("POST", "/command", json.dumps({"command": "yes"}))
        time.sleep(0.3)
        os.kill(body["pid"], signal.SIGTERM)
        started = time.monotonic()
        self.exit_code()
        self.assertLess(time.monotonic() - started, 5)
        connection.close()

    def test_orphans_are_reaped(self):
        self.start(["sleep", "1000"])
        events = self.execd.run("setsid sh -c 'echo $$; exec >&- 2>&-; sleep 0.2; exit 3' & wait $!; echo end")
        self.assertIn("end", texts(events, "stdout"))
        events = self.execd.run("(setsid sleep 0.2 >/dev/null 2>&1 & echo $!)")
        pid = texts(events, "stdout")[0]
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            self.assertEqual(int(file.read().rsplit(")", 1)[1].split()[1]), self.execd.process.pid)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "orphan is reaped")

    def test_bad_starts(self):
        for body in ({}, {"entrypoint": []}, {"entrypoint": [""]}, {"entrypoint": "true"}, {"entrypoint": [5]},
                     {"entrypoint": ["true"], "env": ["NOVALUE"]}, {"entrypoint": ["true"], "env": {"A": "b"}},
                     {"entrypoint": ["true"], "cwd": "/no/such"}, {"entrypoint": ["true"], "cwd": "usr"},
                     {"entrypoint": ["true"], "user": "no-such-user"}, []):
            status, answer = self.execd.json("POST", "/internal/start", body)
            self.assertEqual((status, answer["code"]), (400, "INVALID_REQUEST_BODY"), body)
        status, answer = self.start(["no-such-program", "x"])
        self.assertEqual(status, 400)
        self.assertEqual(answer["message"], "cannot execute no-such-program: No such file or directory")
        status, answer = self.start(["/etc/passwd"])
        self.assertIn("Permission denied", answer["message"])
        # After all that, a good one works.
        self.assertEqual(self.start(["sleep", "1000"])[0], 200)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_user(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            status, body = self.start(["sleep", "1000"], user="nobody")
            self.assertEqual(status, 200)
            self.assertEqual(os.stat(f"/proc/{body['pid']}").st_uid, 65534)
            self.assertEqual(texts(self.execd.run("id -un; id -gn"), "stdout"), ["nobody", "nogroup"])
            self.assertEqual(texts(self.execd.run("id -u", uid=0), "stdout"), ["0"])
            upload, headers = multipart([(folder + "/new/file", b"x", {})])
            self.assertEqual(self.execd.request("POST", "/files/upload", upload, headers)[0], 200)
            for name in ("new", "new/file"):
                st = os.stat(os.path.join(folder, name))
                self.assertEqual((st.st_uid, st.st_gid), (65534, 65534), name)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_workdir(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            with open(folder + "/file", "w", encoding="ascii"):
                pass
            for fields, part in (({"workdir": "relative"}, "absolute"), ({"workdir": folder + "/file"}, "not a directory"),
                                 ({"workdir": folder + "/file/x"}, "in the way"), ({"workdir": 5}, "workdir"),
                                 ({"workdir": "/", "cwd": "/"}, "exclude"), ({"workdir": "/" + "x" * 5000}, "absolute")):
                status, answer = self.start(["sleep", "1000"], **fields)
                self.assertEqual(status, 400, answer)
                self.assertIn(part, answer["message"])
            status, body = self.start(["sleep", "1000"], user="nobody", workdir=folder + "/a/b")
            self.assertEqual(status, 200, body)
            self.assertEqual(os.readlink(f"/proc/{body['pid']}/cwd"), folder + "/a/b")
            for name in ("a", "a/b"):
                self.assertEqual(os.stat(os.path.join(folder, name)).st_uid, 65534)
            self.assertEqual(texts(self.execd.run("pwd; echo $USER $HOME"), "stdout"),
                             [folder + "/a/b", "nobody " + os.path.expanduser("~nobody")])

    @unittest.skipIf(SANITIZED, "measures the real program")
    def test_idle_memory(self):
        self.start(["sleep", "1000"])
        self.execd.run("echo hello")
        with open(f"/proc/{self.execd.process.pid}/smaps_rollup", encoding="ascii") as file:
            dirty = int(re.search(r"Anonymous:\s+(\d+) kB", file.read()).group(1))
        self.assertLess(dirty, 256)


@unittest.skipUnless(STATIC and os.geteuid() == 0, "needs a static binary and root")
class PidNamespace(unittest.TestCase):
    """As the real PID 1 of a pid namespace."""

    def test_pid_1(self):
        if subprocess.run(["unshare", "-pf", "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("no pid namespaces here")
        # Not --mount-proc: in a chroot unshare cannot make the root directory's mount private.
        prepare = ("mount --make-rprivate / 2>/dev/null || mount --make-private /proc; "
                   "mount -t proc proc /proc && exec \"$@\"")
        execd = Execd("--pid1", unix=True, command=[
            "unshare", "-pfm", "--propagation", "unchanged", "--kill-child", "sh", "-c", prepare, "sh", BINARY])
        try:
            status, body = execd.json("POST", "/internal/start", {"entrypoint": ["sleep", "1000"]})
            self.assertEqual((status, body["pid"] > 1), (200, True))
            # Neither signals without a handler nor SIGKILL from inside end PID 1, and orphans go to it.
            events = execd.run("kill -USR1 1; kill -KILL 1; (setsid sleep 0.1 >/dev/null 2>&1 &); sleep 0.4; "
                               "ps -eo stat=,pid= | grep -c ^Z")
            self.assertEqual(texts(events, "stdout"), ["0"])
            execd.run("kill -INT 1; sleep 1000")
            wait_until(lambda: execd.process.poll() is not None, "SIGINT was passed to the entrypoint")
            self.assertEqual(execd.process.returncode, 128 + signal.SIGINT)
        finally:
            execd.stop()
