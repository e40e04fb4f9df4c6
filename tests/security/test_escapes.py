"""Attacks of root in a sandbox: each works where the wall it attacks is missing, and fails in a sandbox.

Every attack (escape_table.py) is run three times: as its control in a sandbox of a launcher that leaves out the one
layer, or the few, that hold it (or on the host, against a process of the test's); in the same sandbox of the
launcher that is installed; and in one that a real server made, through execd.
"""
import concurrent.futures
import contextlib
import ctypes
import itertools
import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "support"))
from escape_boxes import (IMAGE, LAUNCHER, PROGRAM, WEAK, Boxes, Victim, attack, neighbour,  # noqa: E402
                          probe, probe_shell, verdicts_of)
from escape_table import ATTACKS, HOST  # noqa: E402
from execd import BINARY as EXECD, UnixConnection, multipart  # noqa: E402
from harness import Answer, Server, wait_until  # noqa: E402
from images import Images  # noqa: E402

CONTROLS_MIN = 50
AT_A_TIME = 3  # launchers, which wait for the kernel most of the time
CLONE_NEWIPC, CLONE_NEWNET = 0x08000000, 0x40000000
PWNED = "PWNED"


def enter_namespaces():
    """A network and ipc of the test's: what a sandbox without those layers reaches is nobody else's."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET | CLONE_NEWIPC) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def host_settings():
    """What attacks of the kind that works would change."""
    files = ("sys/kernel/hostname", "sys/kernel/domainname", "sys/kernel/core_pattern", "sys/kernel/panic",
             "sys/fs/suid_dumpable", "irq/default_smp_affinity", "swaps")
    return {name: Path("/proc", name).read_text() for name in files}


class Place:
    """Where a sandbox's files are outside, for attacks whose success shows only there."""

    def __init__(self, upper, image):
        self.upper, self.image = Path(upper), Path(image)

    def setid_outside(self):
        for path in (self.upper / "osb-setid", self.upper / ".root/osb-setid"):
            if path.exists():
                found = path.stat()
                return found.st_uid == 0 and bool(found.st_mode & stat.S_ISUID)
        raise AssertionError("what the attack made is not where it was looked for")

    def image_written(self):
        return (self.image / "osb-written").exists()

    def redirect_outside(self):
        for tree in (self.upper, self.upper / ".root", self.image):
            path = tree / "osb-redirect"
            if path.is_dir() and "user.overlay.redirect" in os.listxattr(path):
                return True
        return False

    def judge(self, attacks, verdicts):
        """An attack that thinks it worked, and did not outside, was held."""
        return {one.name: "held: not outside" if verdict == PWNED and one.check and not getattr(self, one.check)()
                else verdict for one, verdict in zip(attacks, verdicts)}


class Escapes(unittest.TestCase):
    """One test for each attack is added below."""

    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(cls.show)
        cls.control, cls.normal, cls.served = {}, {}, {}
        cls.before, cls.numbers = host_settings(), itertools.count()
        enter_namespaces()
        cls.dir = Path(tempfile.mkdtemp(prefix="osb-escapes-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.dir.chmod(0o755)
        images = Images().__enter__()
        cls.addClassCleanup(images.__exit__)
        cls.image = images.busybox(IMAGE)
        for name in ("proc", "dev", "sys", "tmp"):  # for the one that is mounted without anything above it
            (cls.image / name).mkdir()
        shutil.copy(PROGRAM, cls.image / "escapes")
        secret = secrets.token_hex(12)
        victim = Victim(secret)
        cls.addClassCleanup(victim.close)
        cls.facts = {**victim.facts, "path": cls.make_secret(secret), "minor": cls.make_disk()}
        cls.run_controls()
        cls.run_normal()
        cls.run_served()

    @classmethod
    def make_secret(cls, secret):
        path = cls.dir / "secret"
        path.write_bytes(secret.encode().ljust(4096, b"\n"))
        path.chmod(0o644)
        return str(path).lstrip("/")

    @classmethod
    def make_disk(cls):
        """The number of a loop device with the secret on it."""
        done = subprocess.run(["losetup", "--read-only", "--show", "--find", cls.dir / "secret"],
                              stdout=subprocess.PIPE, text=True, check=False)
        device = done.stdout.strip()
        if done.returncode != 0:
            return "none"
        cls.addClassCleanup(subprocess.run, ["losetup", "--detach", device], check=True)
        return str(os.minor(os.stat(device).st_rdev))

    @classmethod
    def words(cls, attacks, **more):
        return [one.words.format(**cls.facts, **more) for one in attacks]

    @classmethod
    def run_boxes(cls, off, attacks):
        """In sandboxes of a launcher without these layers."""
        boxes = Boxes(cls.dir / f"boxes{next(cls.numbers)}", off, cls.image, secret=cls.facts["secret"])
        try:
            sandbox, path = boxes.create()
            shell, theirs = probe_shell(path), {}
            if any("{their_" in one.words for one in attacks):
                theirs = neighbour(probe_shell(boxes.create()[1]), "/escapes", cls.facts["secret"])
            words = cls.words(attacks, image=cls.image.parent.name, socket=boxes.socket.lstrip("/"), **theirs)
            place = Place(boxes.upper(sandbox), cls.image)
            return place.judge(attacks, attack(shell, "/escapes", words))
        finally:
            boxes.close()

    @classmethod
    def run_controls(cls):
        sets = {off: [one for one in ATTACKS if one.off == off] for off in {one.off for one in ATTACKS} - {HOST}}
        probe()  # compiled before several want it
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            for verdicts in pool.map(cls.run_boxes, sets, sets.values()):
                cls.control.update(verdicts)
        here = [one for one in ATTACKS if one.off == HOST]
        said = subprocess.run([PROGRAM, "each", *cls.words(here)], stdout=subprocess.PIPE, text=True, check=True).stdout
        cls.control.update(zip((one.name for one in here), verdicts_of(said, len(here))))
        for path in (*cls.dir.glob("secret-*"), *cls.image.glob("osb-*")):
            path.rmdir() if path.is_dir() else path.unlink()

    @classmethod
    def run_normal(cls):
        cls.normal = cls.run_boxes(None, ATTACKS)

    @classmethod
    def run_served(cls):
        """The host's image, the real execd, and the program uploaded as any client would."""
        with Server() as server:
            def upload(box):
                body, headers = multipart([("/tmp/escapes", PROGRAM.read_bytes(), {"mode": 755})])
                answer = box.request("POST", "/files/upload", body, headers)
                assert answer.status == 200, answer
                return lambda command: box.output(f"{command}\ntrue")
            box, state = server.create(), server.state / "state"
            theirs = neighbour(upload(server.create()), "/tmp/escapes", cls.facts["secret"])
            socket = f"{state}/run/{box.id}.sock".lstrip("/")
            words = cls.words(ATTACKS, image=server.state.name, socket=socket, **theirs)
            upper = next(path for path in (state / "launcher/sandboxes" / box.id).rglob("upper"))
            place = Place(upper, state / "launcher/host/layer/.root")
            cls.served = place.judge(ATTACKS, attack(upload(box), "/tmp/escapes", words))

    @classmethod
    def show(cls):
        """The table, as remarks."""
        proven = [one for one in ATTACKS if cls.control.get(one.name) == PWNED]
        print(f"# {'attack':<26} {'control':<34} {'without it':<12} in a sandbox")
        for one in ATTACKS:
            control = "works" if one in proven else "no control"
            print(f"# {one.name:<26} {one.off:<34} {control:<12} {cls.normal.get(one.name)}")
        for one in ATTACKS:
            if one not in proven:
                print(f"# no control here: {one.name} ({one.rare}): {cls.control.get(one.name)}")
        print(f"# {len(ATTACKS)} attacks, {len(proven)} with a control that works here", flush=True)

    def examine(self, one):
        for verdict in (self.normal[one.name], self.served[one.name]):
            self.assertRegex(verdict, "^held: ", f"{one.name} works in a sandbox: {one.proves} no more")
        if self.control[one.name] != PWNED and one.rare:
            self.skipTest(f"no control here: {one.rare} ({self.control[one.name]})")
        self.assertEqual(self.control[one.name], PWNED, f"does not work without {one.off} either: it proves nothing")

    def test_enough_have_a_control(self):
        self.assertGreaterEqual(list(self.control.values()).count(PWNED), CONTROLS_MIN)

    def test_each_is_listed_once(self):
        self.assertEqual(len({one.name for one in ATTACKS}), len(ATTACKS))

    def test_the_host_is_as_before(self):
        """Controls do no harm, and of what they mount nothing reaches the host."""
        self.assertEqual(host_settings(), self.before)
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        self.assertEqual([line for line in mounts if self.dir.name in line or "osb-mount" in line], [])


class ThroughExecd(unittest.TestCase):
    """Execd as the accomplice: it follows a link that was laid for it and hands out what only it can open."""
    LINKS = {"its_own_program": "/proc/self/exe", "program_of_process_1": "/proc/1/exe",
             "a_program_of_the_host": "/proc/self/fd/5"}

    def downloads(self, request):
        """By name: whether a client who asks for a file in /tmp gets a program of the host."""
        got = {}
        for name, target in self.LINKS.items():
            made = request("POST", "/command", {"command": f"ln -s {target} /tmp/{name} && readlink /tmp/{name}"})
            self.assertIn(target.encode(), made.body)
            answer = request("GET", f"/files/download?path=/tmp/{name}", None)
            got[name] = answer.status == 200 and answer.body.startswith(b"\x7fELF")
        return got

    def test_files_that_only_it_could_read(self):
        with tempfile.TemporaryDirectory(prefix="osb-escapes-") as folder:
            boxes = Boxes(f"{folder}/boxes", "execd-mode", execd=EXECD)
            try:
                _, path = boxes.create()

                def request(method, where, body):
                    connection = UnixConnection(path)
                    connection.request(method, where, json.dumps(body) if body else None)
                    with contextlib.closing(connection):
                        return Answer(connection.getresponse())
                control = self.downloads(request)
            finally:
                boxes.close()
        self.assertEqual(control, dict.fromkeys(self.LINKS, True), "does not work even where they can be read")
        with Server() as server:
            self.assertEqual(self.downloads(server.create().request), dict.fromkeys(self.LINKS, False))

    def test_terminal_sequences_in_logs(self):
        """A name of the client's choice reaches the log, but does not command whoever reads it."""
        name = "/osb-" + secrets.token_hex(4)
        with Server() as server:
            server.request("POST", "/v1/sandboxes", {
                "image": {"uri": "host"}, "resourceLimits": {}, "entrypoint": [f"{name}\x1b]0;taken\x07\u202e\x9b2J"]})
            wait_until(lambda: name.encode() in server.log_path.read_bytes(), what="the name in the log")
            log = server.log_path.read_bytes()
        line = next(line for line in log.splitlines() if name.encode() in line)
        self.assertIn(b"taken", line)
        self.assertRegex(log.decode(), "^[^\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]*$")


class Installed(unittest.TestCase):
    def test_cannot_be_weakened(self):
        """Neither the option nor the names of layers are in the program."""
        for text in (b"--weaken", b"execd-mode", b"weaken_parse"):
            self.assertTrue(text in WEAK.read_bytes(), text)
            self.assertFalse(text in Path(LAUNCHER).read_bytes(), text)
        done = subprocess.run([LAUNCHER, "--weaken", "seccomp"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown option '--weaken'", done.stderr)
        self.assertEqual(list(Path(LAUNCHER).parent.glob("*weak*")), [])


def add_tests():
    for one in ATTACKS:
        def test(self, one=one):
            self.examine(one)
        setattr(Escapes, f"test_{one.name}", test)


add_tests()

if __name__ == "__main__":
    unittest.main()
