"""A launcher whose server is not ours any more: whatever it says, it makes and removes sandboxes and nothing else.

    OSB_SEED=123 python3 tests/support/tap.py tests/security/test_hostile_server.py
"""
import ctypes
import json
import os
import random
import re
import signal
import sys
import time
import traceback
import unittest
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from hostile_server import POOL, attack  # noqa: E402
from launcher import (CREATE, DEADLINE, INVALID, OK, REMOVE, RUNNING, Client, create_body,  # noqa: E402
                      deadline_body, eventually, id_body, inside, packet, volume_body)
from launcher_state import WatchedLauncher  # noqa: E402
from harness import SANITIZED  # noqa: E402

SEED = int(os.environ.get("OSB_SEED", random.SystemRandom().randrange(1 << 32)))
SERVER_UID = 64001
COUNTS = {"talk": 1500, "flood": 20000, "crowd": 300, "gifts": 300}
LOG_BYTES = 64 * 1024
MEMORY_KIB = 60000 if SANITIZED else 600
PTRACE_ATTACH = 16



def try_all(pid, state, sandbox):
    """What works of all that must not."""
    libc = ctypes.CDLL(None, use_errno=True)

    def trace():
        if libc.ptrace(PTRACE_ATTACH, pid, 0, 0) == -1:
            raise OSError(ctypes.get_errno(), "refused")
    ways = {
        "signal": lambda: os.kill(pid, 0),
        "trace": trace,
        "mem": lambda: os.open(f"/proc/{pid}/mem", os.O_RDONLY),
        "environ": lambda: os.open(f"/proc/{pid}/environ", os.O_RDONLY),
        "descriptors": lambda: os.listdir(f"/proc/{pid}/fd"),
        "root": lambda: os.listdir(f"/proc/{pid}/root"),
        "records": lambda: os.listdir(state + "/launcher"),
        "a name in run": lambda: os.open(state + "/run/x", os.O_CREAT | os.O_WRONLY),
        "removing a name": lambda: os.unlink(f"{state}/run/{sandbox}.sock"),
        "user 0": lambda: os.setuid(0),
    }
    worked = []
    for name, way in ways.items():
        try:
            way()
            worked.append(name)
        except OSError:
            pass
    return worked


class Process:
    """A function run as the server's user. By fork alone: Python may lie where that user cannot read it."""

    def __init__(self, function, *arguments):
        self.stdout, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self.stdout)
                os.setgroups([])
                os.setresgid(SERVER_UID, SERVER_UID, SERVER_UID)
                os.setresuid(SERVER_UID, SERVER_UID, SERVER_UID)
                os.write(write, json.dumps(function(*arguments)).encode())
                status = 0
            except BaseException:  # noqa: B902
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(write)
        self.status = None

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def outcome(self):
        """After its end; None when it failed."""
        said = os.read(self.stdout, 65536)
        os.close(self.stdout)
        return json.loads(said) if self.status == 0 else None

    def kill(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            self.status = os.waitpid(self.pid, 0)[1]
        os.close(self.stdout)


class Hostile(WatchedLauncher):
    def setUp(self):
        super().setUp()
        self.start("--server-uid", str(SERVER_UID))
        self.good = [self.connect().create()[0] for _ in range(2)]
        self.outside = Path(self.dir, "outside")
        self.outside.mkdir()
        (self.outside / "secret").write_text("kept")
        os.symlink("/", self.outside / "link")
        self.settle()
        self.host = self.look_at_host()
        print(f"# OSB_SEED={SEED}", flush=True)

    # Helpers.

    def look_at_host(self):
        """What no request may change."""
        found = {}
        for folder in (self.outside, Path("/etc"), Path("/root"), Path("/")):
            for entry in sorted(folder.iterdir()):
                status = entry.lstat()
                if folder != Path("/") or not entry.is_dir():
                    found[str(entry)] = (status.st_ino, status.st_mode, status.st_uid, status.st_size,
                                         status.st_mtime_ns if folder != Path("/") else 0)
        found["hostname"] = os.uname().nodename
        return found

    def attack(self, way, seed, count=None):
        """Goes on beside us."""
        return Process(attack, self.path, way, seed, count or COUNTS[way])

    def wait(self, process):
        """Meanwhile those of others are looked at, and the log is read: nobody else does."""
        looks = 0
        while not process.ended():
            self.drain_log()
            self.check_good(self.good[looks % 2])
            looks += 1
            time.sleep(0.05)
        outcome = process.outcome()
        self.assertIsNotNone(outcome, self.drain_log()[-2000:])
        return outcome

    def check_good(self, sandbox):
        self.assertIsNone(self.process.poll(), self.drain_log()[-4000:])
        self.assertEqual(inside(f"{self.state}/run/{sandbox}.sock", "echo $((6*7))"), ("42\n", 0))

    def clear(self):
        """Takes away what the attack left; of what it asked for last, some is still being made."""
        client = Client(self.path)
        client.greet()

        def only_good():
            left = [one.id for one in client.list() if one.id in POOL]
            for sandbox in left:
                client.ask(REMOVE, id_body(sandbox))
            self.settle()
            return not left and sorted(one.id for one in client.list()) == sorted(self.good)
        self.assertTrue(eventually(only_good), [one.id for one in client.list()])
        client.close()
        self.settle()

    def figures(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return self.fd_count(), int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def check_survival(self):
        self.clear()
        self.assertEqual(self.look_at_host(), self.host)
        for sandbox in self.good:
            self.check_good(sandbox)
        self.assertNotIn("Sanitizer", self.drain_log())

    # Tests.

    def test_messages(self):
        """Twice: what the launcher holds after the first time, it holds after the second."""
        outcome = self.wait(self.attack("talk", SEED))
        self.assertGreater(outcome["codes"].get(str(OK), 0), 50, outcome)
        self.assertGreater(outcome["codes"].get(str(INVALID), 0), 50, outcome)
        self.check_survival()
        files, memory = self.figures()
        logged = len(self.drain_log())
        for number, way in enumerate(("talk", "gifts")):
            self.wait(self.attack(way, SEED + 1 + number))
            self.check_survival()
        now_files, now_memory = self.figures()
        self.assertEqual(now_files, files, self.open_files())
        self.assertLess(now_memory - memory, MEMORY_KIB)
        self.assertLess(len(self.drain_log()) - logged, LOG_BYTES, self.log[-2000:])

    def test_connections(self):
        files, memory = self.figures()
        logged = len(self.drain_log())
        for process in [self.attack("flood", SEED), self.attack("crowd", SEED)]:
            self.wait(process)
        self.assertTrue(eventually(lambda: self.fd_count() <= files + 40))
        self.check_survival()
        now_files, now_memory = self.figures()
        self.assertLessEqual(now_files, files)  # our own connection may have been cut
        self.assertLess(now_memory - memory, MEMORY_KIB)
        self.assertLess(len(self.drain_log()) - logged, LOG_BYTES, self.log[-2000:])

    def test_a_good_server_is_served_meanwhile(self):
        """Every other connection floods; one that asks and reads gets its answers."""
        attacks = [self.attack("flood", SEED + number, 100000) for number in range(3)]
        client = self.clients[-1]
        try:
            for _ in range(20):
                sandbox, _ = client.create()
                self.assertEqual(client.state(sandbox), RUNNING)
                self.assertEqual(client.ask(REMOVE, id_body(sandbox)).code, OK)
            self.drain_log()
        finally:
            for process in attacks:
                process.kill()
        self.check_survival()

    def test_ways_out(self):
        """Names and paths that lead out of where they belong are refused, each for itself."""
        client = self.clients[-1]
        for image in ("..", "../../etc", "/etc", "host/..", "nothing", self.dir, f"../../../..{self.outside}"):
            if len(image) < 128:
                with self.subTest(image=image):
                    self.assertNotEqual(client.ask(CREATE, create_body(POOL[0], image=image)).code, OK)
        for source in ("/", "/etc", "/root", "/proc/1/root", str(self.outside), str(self.outside / "link"),
                       f"{self.outside}/../outside", f"{self.state}/launcher", f"{self.state}/server"):
            for flags in (0, 1, 2):
                with self.subTest(source=source, flags=flags):
                    body = create_body(POOL[0], volumes=[volume_body(1, "/mnt", source, flags=flags)])
                    self.assertNotEqual(client.ask(CREATE, body).code, OK)
        for name in ("..", "../../run", "/etc", "a/b", ".", "a/../../.."):
            with self.subTest(volume=name):
                body = create_body(POOL[0], volumes=[volume_body(2, "/mnt", name, flags=2)])
                self.assertNotEqual(client.ask(CREATE, body).code, OK)
        for sub_path in ("..", "../x", "/etc", "a/../../b"):
            with self.subTest(sub_path=sub_path):
                body = create_body(POOL[0], volumes=[volume_body(2, "/mnt", "data", sub_path, flags=2)])
                self.assertNotEqual(client.ask(CREATE, body).code, OK)
        for sandbox in ("../../../../etc/passwd", "..", "launcher", self.good[0] + "x"):
            with self.subTest(id=sandbox):
                self.assertNotEqual(client.ask(REMOVE, id_body(sandbox[:39])).code, OK)
        self.check_survival()

    def test_extremes(self):
        client = self.clients[-1]
        for deadline in (1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
            with self.subTest(deadline=deadline):
                sandbox = str(uuid.uuid4())
                made = client.ask(CREATE, create_body(sandbox, deadline=deadline)).code
                if made == OK:
                    client.ask(DEADLINE, deadline_body(sandbox, (1 << 64) - 1 - deadline))
                    self.assertEqual(client.ask(REMOVE, id_body(sandbox)).code, OK)
        for name in ("memory", "disk", "read_bps", "write_bps", "read_iops", "write_iops", "cpu", "pids", "files"):
            for value in (1, (1 << 32) - 1, 1 << 50, (1 << 64) - 1):
                bits = 64 if name in ("memory", "disk", "read_bps", "write_bps") else 32
                sandbox = str(uuid.uuid4())
                if value < 1 << bits and client.ask(CREATE, create_body(sandbox, **{name: value})).code == OK:
                    self.assertEqual(client.ask(REMOVE, id_body(sandbox)).code, OK)
        body = bytearray(create_body(POOL[0]))
        for count in (17, 1 << 16, (1 << 32) - 1):
            body[240:244] = count.to_bytes(4, "little")
            self.assertEqual(client.ask(CREATE, bytes(body)).code, INVALID)
        client.socket.send(packet(CREATE, 1, b"\0" * 60000))
        self.check_survival()

    def test_its_user_has_no_other_way(self):
        """Beside the socket there is nothing that the server's user could take hold of."""
        process = Process(try_all, self.process.pid, self.state, self.good[0])
        self.assertEqual(self.wait(process), [])


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(36, 1)
    unittest.main()
