"""execd without the rest of the platform: in roots that have nothing, as anybody, under strict filters, as
process 1 of somebody else's container, and among neighbours that take all processes and all memory."""

import concurrent.futures
import contextlib
import errno
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from execd import (BINARY, ROOT, SANITIZED, STATIC, WAIT, Execd, is_alive, multipart, texts,  # noqa: E402
                   wait_until)

SUPPORT = os.path.join(os.path.dirname(HERE), "support")
BOOTSTRAP = os.path.join(ROOT, "images", "execd", "bootstrap.sh")
IS_ROOT = os.geteuid() == 0
NOBODY = 65534
NO_SHELL = "cannot execute bash or sh: No such file or directory"
NO_PROCESSORS = ("cannot tell the use of processors: there is neither a control group (/proc/self/cgroup, "
                 "/sys/fs/cgroup) nor /proc/stat to be read")


class Program:
    """Something that listens on loopback, for the proxy to find."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                with sock:
                    line = sock.recv(65536).split(b"\r\n")[0]
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(line) + line)

    def close(self):
        self.listener.close()


class Roots(unittest.TestCase):
    """The same questions everywhere; what cannot work says precisely why."""

    def setUp(self):
        self.program = Program()
        self.addCleanup(self.program.close)
        self.folder = tempfile.mkdtemp(prefix="osb-execd-root-")
        os.chmod(self.folder, 0o755)
        self.addCleanup(shutil.rmtree, self.folder, True)

    def start(self, *args, **kwargs):
        execd = Execd(*args, **kwargs)
        self.addCleanup(execd.stop)
        return execd

    def check_everywhere(self, execd, place):
        """What needs nothing of the root."""
        self.assertEqual(execd.request("GET", "/ping")[0], 200)
        body, headers = multipart([(place + "/made/file", b"data" * 1000, {})])
        self.assertEqual(execd.request("POST", "/files/upload", body, headers)[0], 200)
        self.assertEqual(execd.request("GET", f"/files/download?path={place}/made/file")[2], b"data" * 1000)
        status, info = execd.json("GET", f"/files/info?path={place}/made/file")
        self.assertEqual((status, info[place + "/made/file"]["size"]), (200, 4000))
        self.assertEqual(execd.json("GET", f"/files/info?path={place}/not-there")[0], 404)
        status, _, body = execd.request("GET", f"/proxy/{self.program.port}/x?y")
        self.assertEqual((status, body), (200, b"GET /x?y HTTP/1.1"))
        self.assertEqual(execd.request("GET", "/proxy/44772/ping")[0], 200)
        self.assertEqual(execd.json("GET", "/proxy/1/")[0], 502)

    def check_commands(self, execd):
        events = execd.run("echo out; echo err >&2; exit 7")
        self.assertEqual((texts(events, "stdout"), texts(events, "stderr")), (["out"], ["err"]))
        self.assertEqual(events[-1]["error"]["evalue"], "7")
        self.assertEqual(execd.run("sleep 1000", timeout=200)[-1]["error"]["traceback"], ["signal: killed"])

    def check_metrics(self, execd):
        status, sample = execd.json("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertGreater(sample["mem_total_mib"], 1)

    def check_no_metrics(self, execd):
        for path in ("/metrics", "/metrics/watch"):
            self.assertEqual(execd.json("GET", path), (500, {"code": "RUNTIME_ERROR", "message": NO_PROCESSORS}))

    def in_root(self, *args, **kwargs):
        shutil.copy(BINARY, os.path.join(self.folder, "execd"))
        return self.start(*args, command=["chroot", self.folder, "/execd"],
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **kwargs})

    @unittest.skipUnless(STATIC and IS_ROOT, "needs a static binary and root")
    def test_empty_root(self):
        execd = self.in_root()
        self.assertEqual(os.listdir(self.folder), ["execd"])
        self.check_everywhere(execd, "")
        self.assertEqual(execd.run("echo x")[-1]["error"]["evalue"], NO_SHELL)
        self.check_no_metrics(execd)
        # A FIFO where /proc would be stops nobody.
        os.makedirs(os.path.join(self.folder, "proc/self"))
        os.mkfifo(os.path.join(self.folder, "proc/self/cgroup"))
        os.mkfifo(os.path.join(self.folder, "proc/stat"))
        self.check_no_metrics(execd)
        self.assertEqual(execd.request("GET", "/ping")[0], 200)

    @unittest.skipUnless(STATIC and IS_ROOT, "needs a static binary and root")
    def test_bootstrap_in_an_empty_root(self):
        """An entrypoint that is execd itself, since nothing else is there: no shell is needed."""
        shutil.copy(BINARY, os.path.join(self.folder, "execd"))
        done = subprocess.run([shutil.which("chroot"), self.folder, "/execd", "--port", "0", "--bootstrap", "--", "/execd",
                               "--version"], capture_output=True, timeout=WAIT, check=False, env={})
        self.assertEqual((done.returncode, done.stdout[:18]), (0, b"opensandbox-execd "), done.stderr)
        done = subprocess.run([shutil.which("chroot"), self.folder, "/execd", "--port", "0", "--bootstrap"], capture_output=True,
                              timeout=WAIT, check=False, env={})
        self.assertEqual(done.returncode, 127)
        self.assertIn(NO_SHELL.encode(), done.stderr)

    @unittest.skipUnless(STATIC and IS_ROOT, "needs a static binary and root")
    def test_musl_root(self):
        """As in Alpine: musl's loader, busybox as sh, no bash, no glibc."""
        busybox = shutil.which("busybox")
        if not busybox or not shutil.which("musl-gcc"):
            self.fail("busybox-static and musl-tools are missing: scripts/deps.sh test installs them")
        for name in ("bin", "lib", "etc", "tmp"):
            os.mkdir(os.path.join(self.folder, name))
        shutil.copy(busybox, os.path.join(self.folder, "bin/busybox"))
        for name in ("sh", "echo", "sleep", "id", "cat"):
            os.symlink("busybox", os.path.join(self.folder, "bin", name))
        with open(os.path.join(self.folder, "etc/passwd"), "w", encoding="ascii") as file:
            file.write("root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n")
        source = os.path.join(self.folder, "hello.c")
        with open(source, "w", encoding="ascii") as file:
            file.write('#include <stdio.h>\nint main(void) { puts("hello from musl"); return 3; }\n')
        subprocess.run(["musl-gcc", "-o", os.path.join(self.folder, "bin/hello"), source], check=True, timeout=60)
        loader = subprocess.run(["readelf", "-l", os.path.join(self.folder, "bin/hello")], capture_output=True,
                                text=True, check=True).stdout
        loader = re.search(r"interpreter: (/lib/\S+)\]", loader).group(1)
        shutil.copy(os.path.realpath(loader), self.folder + loader)
        execd = self.in_root()
        self.check_everywhere(execd, "")
        self.check_commands(execd)
        self.check_no_metrics(execd)
        events = execd.run("hello; echo $? $0; id -un", uid=1000)
        self.assertEqual(texts(events, "stdout"), ["hello from musl", "3 sh", "user"])

    def test_the_hosts_own_root(self):
        execd = self.start()
        self.check_everywhere(execd, self.folder)
        self.check_commands(execd)
        self.check_metrics(execd)

    def copy_for_all(self):
        """The build folder may be closed to others."""
        path = os.path.join(self.folder, "execd")
        shutil.copy(BINARY, path)
        os.chmod(path, 0o755)
        return path

    @unittest.skipUnless(IS_ROOT, "needs root to become somebody else")
    def test_as_nobody(self):
        os.chown(self.folder, NOBODY, NOBODY)
        user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        execd = self.start(command=[*user, self.copy_for_all()])
        self.check_everywhere(execd, self.folder)
        self.check_commands(execd)
        self.check_metrics(execd)
        self.assertEqual(texts(execd.run("id -u; id -G"), "stdout"), [str(NOBODY), str(NOBODY)])
        self.assertEqual(texts(execd.run("id -u", uid=NOBODY), "stdout"), [str(NOBODY)])
        events = execd.run("id -u", uid=0)
        self.assertEqual(events[-1]["error"]["evalue"],
                         "cannot change to the user and groups asked for: Operation not permitted")
        self.assertEqual(os.stat(os.path.join(self.folder, "made/file")).st_uid, NOBODY)

    def test_strict_filters(self):
        for error in ("EPERM", "ENOSYS"):
            with self.subTest(error):
                # An open file that execd inherits is not for commands.
                execd = self.start(command=["sh", "-c", "exec \"$@\" 9</dev/null", "sh", sys.executable,
                                            os.path.join(SUPPORT, "deny_syscalls.py"), error,
                                            "pidfd_open,clone3,openat2,close_range,memfd_create", BINARY])
                self.check_everywhere(execd, self.folder)
                self.check_commands(execd)
                self.check_metrics(execd)
                self.assertEqual(texts(execd.run("ls /proc/$$/fd; true"), "stdout"), ["0", "1", "2"])
                shutil.rmtree(os.path.join(self.folder, "made"))


class CommandLine(unittest.TestCase):
    def call(self, *args, **env):
        return subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=WAIT, check=False,
                              env={**os.environ, **env})

    def test_what_other_runtimes_give(self):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            env = {**os.environ, "EXECD_API_GRACE_SHUTDOWN": "3s", "EXECD_JUPYTER_IDLE_POLL_INTERVAL": "200ms",
                   "EXECD_LOG_FILE": log, "JUPYTER_TOKEN": "t"}
            process = subprocess.Popen([BINARY, "-port=0", "-jupyter-host", "http://127.0.0.1:8888", "--log-level", "7",
                                        "-graceful-shutdown-timeout=1m30s"], env=env, stderr=subprocess.PIPE)
            try:
                wait_until(lambda: os.path.exists(log) and "listening" in open(log, encoding="utf-8").read(),
                           "it listens and says so in its log file")
                self.assertEqual(os.stat(log).st_mode & 0o777, 0o600)
            finally:
                process.terminate()
                self.assertEqual(process.communicate(timeout=WAIT)[1], b"")
            self.assertEqual(process.returncode, 0)

    def test_bad_values_are_told(self):
        for args, env, message in [
                (["--graceful-shutdown-timeout", "3"], {}, '--graceful-shutdown-timeout must be a time such as 500ms, '
                 '3s or 1m30s, not "3"'),
                ([], {"EXECD_API_GRACE_SHUTDOWN": "soon"}, 'the variable EXECD_API_GRACE_SHUTDOWN must be a time such '
                 'as 500ms, 3s or 1m30s, not "soon"'),
                ([], {"EXECD_CLONE3_COMPAT": "maybe"}, "EXECD_CLONE3_COMPAT must be"),
                (["--jupyter-host", "x"], {}, "must begin with http:// or https://"),
                (["--log-level", "8"], {}, 'must be a number from 0 to 7, not "8"')]:
            done = self.call(*args, **env)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn(message, done.stderr)

    def test_log_level_4_is_quiet(self):
        process = subprocess.Popen([BINARY, "--port", "0", "--log-level", "4"], stderr=subprocess.PIPE)
        wait_until(lambda: self.listens(process.pid), "it listens")
        process.terminate()
        self.assertEqual((process.communicate(timeout=WAIT)[1], process.returncode), (b"", 0))

    @staticmethod
    def listens(pid):
        with open(f"/proc/{pid}/net/tcp", encoding="ascii") as file:
            inodes = {line.split()[9] for line in file if line.split()[3] == "0A"}
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{name}")[8:-1] in inodes:
                    return True
        return False

    def test_clone3_answers_enosys(self):
        for value, expected in (("1", errno.ENOSYS), ("off", errno.EINVAL)):
            # Without arguments the kernel says EINVAL.
            probe = ("import ctypes; l = ctypes.CDLL(None, use_errno=True); l.syscall(435, None, 0); "
                     "print(ctypes.get_errno())")
            done = self.call("--port", "0", "--bootstrap", "--", sys.executable, "-c", probe, EXECD_CLONE3_COMPAT=value)
            self.assertEqual((done.returncode, done.stdout.strip()), (0, str(expected)), done.stderr)


class Secrets(unittest.TestCase):
    def check(self, *args, **env):
        execd = Execd(*args, env={**os.environ, **env})
        try:
            wait_until(lambda: execd.port, "it listens")
            for name in ("cmdline", "environ"):
                with open(f"/proc/{execd.process.pid}/{name}", "rb") as file:
                    text = file.read()
                self.assertNotIn(b"hidden-token", text, name)
                self.assertIn({"cmdline": b"--access-token" if args else b"--port", "environ": b"PATH="}[name], text)
            headers = {"X-EXECD-ACCESS-TOKEN": "hidden-token"}
            self.assertEqual(execd.request("GET", "/ping", headers=headers)[0], 200)
            command = json.dumps({"command": "env; tr '\\0' '\\n' </proc/$PPID/environ; cat /proc/$PPID/cmdline"})
            _, _, body = execd.request("POST", "/command", command, headers)
            self.assertNotIn(b"hidden-token", body)
        finally:
            execd.stop()

    def test_token_of_the_command_line(self):
        self.check("--access-token", "hidden-token")
        self.check("--access-token=hidden-token", EXECD_ACCESS_TOKEN="hidden-token-2")

    def test_token_of_the_environment(self):
        self.check(EXECD_ACCESS_TOKEN="hidden-token")

    @unittest.skipUnless(IS_ROOT, "needs root to become somebody else")
    @unittest.skipIf(SANITIZED, "the leak checker needs to look into the process, too")
    def test_programs_of_the_same_user_cannot_look_into_it(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            path = shutil.copy(BINARY, folder)
            user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
            for token, readable in (([], True), (["--access-token", "hidden-token"], False)):
                execd = Execd(*token, command=[*user, path])
                try:
                    self.assertEqual(execd.request("GET", "/ping")[0], 401 if token else 200)
                    for name in ("environ", "maps", "mem"):
                        done = subprocess.run([*user, "head", "-c", "0", f"/proc/{execd.process.pid}/{name}"],
                                              capture_output=True, text=True, check=False, timeout=WAIT)
                        self.assertEqual(done.returncode == 0, readable, done.stderr)
                finally:
                    execd.stop()


class Bootstrap(unittest.TestCase):
    """bootstrap.sh and --bootstrap, with output as a container's log sees it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="osb-execd-boot-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        wrapper = os.path.join(self.folder, "execd")
        with open(wrapper, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec {BINARY} --port 0 "$@"\n')
        os.chmod(wrapper, 0o755)

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("BOOTSTRAP_", "EXECD"))}
        return {**env, "OPENSANDBOX_DIR": self.folder, **more}

    def call(self, *words, stdin=None, **env):
        done = subprocess.run(["sh", BOOTSTRAP, *words], input=stdin, capture_output=True, text=True, timeout=WAIT,
                              check=False, env=self.environment(**env))
        return done.returncode, done.stdout, re.sub(r"(?m)^.*listening on port \d+\n", "", done.stderr)

    def start(self, *words, **env):
        process = subprocess.Popen(["sh", BOOTSTRAP, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment(**env))
        overdue = threading.Timer(WAIT, process.terminate)  # ends a read that would wait for ever
        overdue.start()

        def clean_up():
            overdue.cancel()
            if process.poll() is None:
                process.terminate()
            process.wait(WAIT)
            process.stdout.close()
            process.stderr.close()
        self.addCleanup(clean_up)
        return process

    def test_what_runs(self):
        show = "echo out $0 $*; echo err >&2; exit 5"
        for words, env, expected in [
                (["sh", "-c", show, "zero", "one"], {}, (5, "out zero one\n", "err\n")),
                (["-c", show, "zero", "one two"], {}, (5, "out zero one two\n", "err\n")),
                (["-c", show], {"BOOTSTRAP_SHELL": "/bin/sh"}, (5, "out /bin/sh\n", "err\n")),
                (["false"], {"BOOTSTRAP_CMD": "echo instead $*"}, (0, "instead\n", "")),
                (["true"], {}, (0, "", "")),
                (["sh", "-c", "kill -KILL $$"], {}, (137, "", ""))]:
            self.assertEqual(self.call(*words, **env), expected, words)

    def test_a_shell_without_words(self):
        self.assertEqual(self.call(stdin="echo typed; exit 6\n"), (6, "typed\n", ""))
        self.assertEqual(self.call(stdin="echo $0\n", BOOTSTRAP_SHELL="/bin/sh"), (0, "/bin/sh\n", ""))

    def test_what_cannot_run(self):
        code, _, err = self.call("no-such-program")
        self.assertEqual(code, 127)
        self.assertIn("cannot execute no-such-program: No such file or directory", err)
        code, _, err = self.call("/etc/passwd")
        self.assertEqual(code, 126)
        self.assertIn("cannot execute /etc/passwd: Permission denied", err)

    def test_surroundings(self):
        script = os.path.join(self.folder, "pre")
        with open(script, "w", encoding="ascii") as file:
            file.write("export FROM_SCRIPT=$NOT_SET_ANYWHERE-x\n")
        code, out, _ = self.call("-c", "echo $FROM_SCRIPT $EXECD_ENVS", EXECD_BOOTSTRAP_PRE_SCRIPT=script)
        self.assertEqual((code, out), (0, f"-x {self.folder}/.env\n"))
        self.assertEqual(os.stat(os.path.join(self.folder, ".env")).st_size, 0)
        other = os.path.join(self.folder, "deep/er/envs")
        self.assertEqual(self.call("-c", "echo $EXECD_ENVS", EXECD_ENVS=other)[1], other + "\n")
        self.assertTrue(os.path.exists(other))

    def port_of(self, process):
        line = process.stderr.readline()
        return int(re.search(r"listening on port (\d+)", line).group(1))

    def test_is_one_process_that_serves_and_reaps(self):
        process = self.start("sh", "-c", "echo up $PPID; exec sleep 1000")
        port = self.port_of(process)
        self.assertEqual(process.stdout.readline(), f"up {process.pid}\n")  # the shell has become execd
        execd = Execd.__new__(Execd)
        execd.port, execd.path = port, None
        self.assertEqual(texts(execd.run("echo $PPID; (setsid sleep 0.1 >/dev/null 2>&1 & echo $!)"), "stdout")[0],
                         str(process.pid))
        orphan = texts(execd.run("(setsid sleep 0.2 >/dev/null 2>&1 & echo $!)"), "stdout")[0]
        wait_until(lambda: not os.path.exists(f"/proc/{orphan}"), "orphan is reaped")
        self.assertEqual(texts(execd.run("echo $EXECD_ENVS"), "stdout"), [self.folder + "/.env"])
        with open(os.path.join(self.folder, ".env"), "w", encoding="ascii") as file:
            file.write("LATER=1\n")
        self.assertEqual(texts(execd.run("echo $LATER"), "stdout"), ["1"])
        process.terminate()
        self.assertEqual(process.wait(WAIT), 0)

    def test_signals(self):
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 42), (signal.SIGHUP, 42), (signal.SIGQUIT, 42)):
            process = self.start("sh", "-c", "trap 'echo caught; exit 42' TERM INT HUP QUIT; echo ready; "
                                             "while :; do sleep 0.05; done")
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(number)
            self.assertEqual((process.wait(WAIT), process.stdout.readline()), (code, "caught\n"), number)

    def test_entrypoint_that_is_killed(self):
        process = self.start("sleep", "1000")
        port = self.port_of(process)
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        wait_until(lambda: open(children, encoding="ascii").read().strip(), "it runs")
        os.kill(int(open(children, encoding="ascii").read()), signal.SIGKILL)
        self.assertEqual(process.wait(WAIT), 137)
        self.assertGreater(port, 0)

    def test_terminal(self):
        """With a terminal the shell has it for itself: it reads from it, and ^C goes to its job."""
        pid, master = pty.fork()
        if pid == 0:
            os.execve(BINARY, [BINARY, "--port", "0", "--bootstrap", "--", "sh", "-i"],
                      self.environment(PS1="$ ", ENV=""))
        seen = b""

        def expect(text):
            nonlocal seen
            deadline = time.monotonic() + WAIT
            while text not in seen:
                self.assertLess(time.monotonic(), deadline, seen)
                if select.select([master], [], [], 0.1)[0]:
                    seen += os.read(master, 65536)
            seen = seen[seen.index(text) + len(text):]
        try:
            expect(b"$ ")
            os.write(master, b"echo $((40 + 2)); tty | grep -c pts\n")
            expect(b"42")
            expect(b"1\r\n")
            os.write(master, b"set -o | grep monitor\n")
            expect(b"monitor\r\n")
            expect(b"on\r\n")
            os.write(master, b"sleep 1000\n")
            expect(b"sleep 1000\r\n")
            time.sleep(0.2)
            os.write(master, b"\x03")
            os.write(master, b"echo code $?\n")
            expect(b"code 130")
            os.write(master, b"exit 9\n")
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 9)
            pid = 0
        finally:
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(master)

    def test_certificate_of_the_egress_proxy(self):
        env = {"OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT": "Yes", "BOOTSTRAP_CA_WAIT": "0", "HOME": self.folder,
               "PATH": self.path_without_installers()}
        code, out, err = self.call("echo", "never", **env)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("did not appear within 0 s; not starting", err)
        ca = os.path.join(self.folder, "mitmproxy-ca-cert.pem")
        with open(ca, "w", encoding="ascii") as file:
            file.write("THE CERTIFICATE\n")
        merged = os.path.join(self.folder, "merged-ca-certificates.pem")
        code, out, _ = self.call("-c", "echo $NODE_EXTRA_CA_CERTS $REQUESTS_CA_BUNDLE $SSL_CERT_FILE", **env)
        self.assertEqual((code, out), (0, f"{ca} {merged} {merged}\n"))
        with open(merged, encoding="ascii") as file:
            self.assertTrue(file.read().endswith("THE CERTIFICATE\n"))

    def path_without_installers(self):
        """Programs that would change the machine's own trust are not found."""
        tools = os.path.join(self.folder, "tools")
        os.mkdir(tools)
        for name in ("sh", "bash", "cat", "mkdir", "sleep", "echo", "cp"):
            os.symlink(shutil.which(name), os.path.join(tools, name))
        return tools


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


@unittest.skipUnless(IS_ROOT, "needs root")
class Neighbours(unittest.TestCase):
    """In a control group together with a program that takes everything."""

    def group(self, controller, **settings):
        path = f"/sys/fs/cgroup/{controller}/osb-test-{os.getpid()}"
        try:
            os.mkdir(path)
        except OSError as error:
            self.skipTest(f"no {controller} group of version 1 can be made here: {error}")
        self.addCleanup(self.remove, path)
        for name, value in settings.items():
            with open(os.path.join(path, name.replace("_", ".", 1)), "w", encoding="ascii") as file:
                file.write(str(value))
        return path

    def remove(self, path):
        def is_empty():
            for pid in read(os.path.join(path, "cgroup.procs")).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            return not read(os.path.join(path, "cgroup.procs"))
        wait_until(is_empty, "the group is empty")
        os.rmdir(path)

    def start(self, path, *args):
        execd = Execd(*args, command=["sh", "-c", f"echo $$ >{path}/cgroup.procs && exec \"$@\"", "sh", BINARY])
        self.addCleanup(execd.stop)
        return execd

    def test_no_process_can_be_made(self):
        path = self.group("pids", pids_max=30)
        execd = self.start(path, "--pid1")
        self.assertEqual(execd.run("true")[-1]["type"], "execution_complete")
        filler = execd.open_stream("exec " + sys.executable + " -c '\n"
                                   "import os, time\n"
                                   "try:\n"
                                   "    while os.fork(): pass\n"
                                   "except BlockingIOError: print(\"full\", flush=True)\n"
                                   "time.sleep(1000)'")
        data = b""
        while b"full" not in data:
            data += filler.recv(65536)
        # Everything but new processes works, and those fail with the kernel's word for it. File work, too: its
        # threads were made in time.
        self.assertEqual(execd.json("POST", "/command", {"command": "true"}),
                         (503, {"code": "RUNTIME_ERROR",
                                "message": "cannot make a process: Resource temporarily unavailable"}))
        self.assertEqual(execd.request("GET", "/ping")[0], 200)
        with tempfile.TemporaryDirectory() as folder:
            body, headers = multipart([(folder + "/x", b"data", {})])
            self.assertEqual(execd.request("POST", "/files/upload", body, headers)[0], 200)
            self.assertEqual(execd.request("GET", f"/files/download?path={folder}/x")[2], b"data")
        self.assertEqual(execd.json("GET", "/metrics")[0], 200)
        # A shell that cannot fork says so itself; afterwards all is as before.
        for pid in read(os.path.join(path, "cgroup.procs")).split():
            if int(pid) != execd.process.pid:
                os.kill(int(pid), signal.SIGKILL)
        wait_until(lambda: read(os.path.join(path, "cgroup.procs")).split() == [str(execd.process.pid)],
                   "they are gone, and orphans reaped")
        self.assertEqual(texts(execd.run("echo again"), "stdout"), ["again"])
        filler.close()

    def test_fork_bomb(self):
        path = self.group("pids", pids_max=60)
        execd = self.start(path, "--pid1")
        sock = execd.open_stream("bomb() { bomb | bomb & }; bomb; sleep 1000", timeout=60000)
        for _ in range(100):
            self.assertEqual(execd.request("GET", "/ping")[0], 200)
            self.assertEqual(execd.json("GET", "/metrics")[0], 200)
        sock.close()

        def kill_all():
            for pid in read(os.path.join(path, "cgroup.procs")).split():
                if int(pid) != execd.process.pid:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
            return read(os.path.join(path, "cgroup.procs")).split() == [str(execd.process.pid)]
        wait_until(kill_all, "the bomb is out")
        self.assertEqual(texts(execd.run("echo again"), "stdout"), ["again"])

    def test_no_memory(self):
        path = self.group("memory", memory_limit_in_bytes=256 << 20)
        execd = self.start(path)
        for _ in range(2):
            events = execd.run("exec tail /dev/zero", timeout=60000)
            self.assertEqual(events[-1]["error"]["traceback"], ["signal: killed"])
            self.assertLess(events[-1]["timestamp"] - events[0]["timestamp"], 60000, "killed by the kernel")
            self.assertEqual(execd.request("GET", "/ping")[0], 200)
        self.assertEqual(texts(execd.run("echo again"), "stdout"), ["again"])
        self.assertGreaterEqual(int(re.search(r"oom_kill (\d+)", read(path + "/memory.oom_control")).group(1)), 2)

    def test_oom_score_is_not_inherited(self):
        own = read("/proc/self/oom_score_adj")
        execd = Execd()
        try:
            self.assertEqual(execd.request("GET", "/ping")[0], 200)
            self.assertIn(read(f"/proc/{execd.process.pid}/oom_score_adj"), ("-1000\n", own))
            self.assertEqual(texts(execd.run("cat /proc/self/oom_score_adj"), "stdout"), [own.strip()])
        finally:
            execd.stop()


@unittest.skipIf(SANITIZED, "measures the real program")
class Size(unittest.TestCase):
    def test_one_static_file(self):
        with tempfile.TemporaryDirectory() as folder:
            stripped = os.path.join(folder, "execd")
            subprocess.run(["strip", "-o", stripped, BINARY], check=True)
            size = os.stat(stripped).st_size
        print(f"# stripped: {size} bytes", flush=True)
        self.assertLess(size, 2000000)
        headers = subprocess.run(["readelf", "-lW", BINARY], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("INTERP", headers)
        self.assertIn("LOAD", headers)

    @staticmethod
    def private_kib(execd):
        """What this process alone has and the kernel cannot drop. (Private_* would count the pages of the program's
        file as well while only one execd runs, and as dirty ones when it was just built.)"""
        text = read(f"/proc/{execd.process.pid}/smaps_rollup")
        return int(re.search(r"Anonymous:\s+(\d+) kB", text).group(1))

    def test_memory_when_idle_and_after_a_burst(self):
        program = Program()
        with tempfile.TemporaryDirectory() as folder:
            execd = Execd("--keep-finished", "0")
            try:
                self.assertEqual(execd.request("GET", "/ping")[0], 200)
                idle = self.private_kib(execd)
                self.burst(execd, folder, program.port)
                wait_until(lambda: len(os.listdir(f"/proc/{execd.process.pid}/fd")) < 40, "connections are closed")
                # What stays is the heap between blocks that are still in use, and what libc keeps for its threads.
                wait_until(lambda: self.private_kib(execd) <= 512, f"small again: {self.private_kib(execd)} KiB")
                print(f"# anonymous memory: {idle} KiB at first, {self.private_kib(execd)} KiB after a burst", flush=True)
                self.assertLessEqual(idle, 256)
            finally:
                execd.stop()
                program.close()

    def burst(self, execd, folder, port):
        def one(number):
            self.assertEqual(texts(execd.run(f"seq 1 5000; echo {number}"), "stdout")[-1], str(number))
            body, headers = multipart([(f"{folder}/{number}", b"x" * 3000000, {})])
            self.assertEqual(execd.request("POST", "/files/upload", body, headers)[0], 200)
            self.assertEqual(len(execd.request("GET", f"/files/download?path={folder}/{number}")[2]), 3000000)
            self.assertEqual(execd.json("GET", "/metrics")[0], 200)
            self.assertEqual(execd.request("GET", f"/proxy/{port}/x")[0], 200)
            self.assertEqual(execd.json("POST", "/command", {"command": ""})[0], 400)
            self.assertEqual(execd.json("GET", "/files/info?path=/no")[0], 404)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for job in [pool.submit(one, i) for i in range(64)]:
                job.result()


class WorkGroup(unittest.TestCase):
    """--work-fd: every process says "0" to each of the files before it runs, or does not run."""

    def start(self, files, *args):
        opened = " ".join(f"exec {number}>>{path};" for number, path in files.items())
        numbers = [word for number in files for word in ("--work-fd", str(number))]
        execd = Execd(*numbers, *args, command=("sh", "-c", f'{opened} exec "$0" "$@"', BINARY))
        self.addCleanup(execd.stop)
        return execd

    def test_all_kinds_join(self):
        folder = tempfile.mkdtemp(prefix="osb-execd-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        execd = self.start({8: f"{folder}/a", 9: f"{folder}/b"})
        self.assertFalse({"8", "9"} & set(texts(execd.run("ls /proc/$$/fd"), "stdout")))
        session = execd.json("POST", "/session", {})[1]["session_id"]
        execd.request("POST", f"/session/{session}/run", json.dumps({"command": "true"}))
        for name in "ab":
            with open(f"{folder}/{name}", encoding="ascii") as file:
                self.assertEqual(file.read(), "00")

    def test_none_runs_outside(self):
        execd = self.start({9: "/dev/full"})
        message = "cannot join the control group of the sandbox's processes: No space left on device"
        self.assertIn(message, str(execd.run("echo outside")))
        self.assertNotIn("outside", str(texts(execd.run("echo outside"), "stdout")))
        session = execd.json("POST", "/session", {})[1]["session_id"]
        answer = execd.request("POST", f"/session/{session}/run", json.dumps({"command": "echo outside"}))[2]
        self.assertIn(message, answer.decode())
        self.assertEqual(execd.request("GET", "/ping")[0], 200)

    def test_a_number_that_is_not_open(self):
        done = subprocess.run([BINARY, "--port", "0", "--work-fd", "77"], stderr=subprocess.PIPE, timeout=WAIT,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"--work-fd 77: Bad file descriptor", done.stderr)


if __name__ == "__main__":
    unittest.main()
