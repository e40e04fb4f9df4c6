"""Sandboxes to attack from: of the launcher as it is installed, and of one that leaves out layers."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from launcher import LAUNCHER, OK, REMOVE, SLOW, Client, eventually, id_body, inside, probe, upper_of  # noqa: E402

BUILD = Path(os.environ.get("OSB_BUILD_DIR", Path(__file__).resolve().parent.parent.parent / "build"))
WEAK = BUILD / "tests/support/opensandbox-launcher-weak"
PROGRAM = BUILD / "tests/support/escapes"
IMAGE = "hostile"
AT_ONCE = 40  # attacks in a command, which has a bound


def parse_facts(line, prefix=""):
    return {prefix + key: value for key, value in re.findall(r"(\w+)=(\S+)", line)}


class Victim:
    """A process of the host with a secret; the namespaces it is in are the test's."""

    def __init__(self, secret):
        self.process = subprocess.Popen([PROGRAM, "victim", secret], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.facts = {"secret": secret, **parse_facts(self.process.stdout.readline())}
        assert "pid" in self.facts, "the victim did not start"

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(10 * SLOW) == 0
        self.process.stdout.close()


class Boxes:
    """A launcher of its own. `off`: layers it leaves out; None: the launcher that is installed."""

    def __init__(self, folder, off=None, image=None, execd=None, secret="none"):
        self.folder = Path(folder)
        self.image = IMAGE if image else "host"
        self.state, self.socket = str(self.folder / "state"), str(self.folder / "socket")
        self.folder.mkdir()
        command = [LAUNCHER] if off is None else [WEAK, "--weaken", off]
        images = ["--image", f"{IMAGE}={image}"] if image else []
        self.process = subprocess.Popen(
            [PROGRAM, "with-key", secret, *command, "--listen", self.socket, "--state", self.state, "--slots", "0",
             "--execd", execd or probe(), "--spare-seconds", "0", *images],
            stderr=subprocess.PIPE, text=True)
        self.log = ""
        for line in self.process.stderr:
            self.log += line
            if match := re.search(r"instance (\w+)", line):
                self.instance = match.group(1)
                break
        else:
            raise AssertionError(f"launcher without {off} did not start: {self.log}")
        self.client = Client(self.socket)
        self.client.greet()

    def create(self):
        return self.client.create(image=self.image)

    def upper(self, sandbox):
        return Path(upper_of(self.state, sandbox))

    def close(self):
        """All of it must go, however little was left of the walls."""
        for sandbox in self.client.list():
            assert self.client.ask(REMOVE, id_body(sandbox.id)).code == OK
        self.client.close()
        assert self.process.wait(20 * SLOW) == 0, self.log + self.process.stderr.read()
        self.process.stderr.close()
        groups = [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if f"opensandbox-{self.instance}" in folder]
        assert not groups, groups
        for name in ("sandboxes", "loose"):
            assert os.listdir(f"{self.state}/launcher/{name}") == [], name
        shutil.rmtree(self.folder)


def verdicts_of(said, count):
    lines = said.splitlines()
    assert len(lines) == count, said
    return [line.split(" ", 1)[1] for line in lines]


def attack(execute, program, words):
    """What became of each, from a sandbox in which `execute` runs a shell command."""
    verdicts = []
    for start in range(0, len(words), AT_ONCE):
        some = words[start:start + AT_ONCE]
        verdicts += verdicts_of(execute(f"{program} each {' '.join(some)} 2>/dev/null"), len(some))
    return verdicts


def neighbour(execute, program, secret):
    """Facts about a victim in another sandbox."""
    execute(f"(sleep 600 | {program} victim {secret} >/tmp/facts) >/dev/null 2>&1 &")
    said = eventually(lambda: execute("cat /tmp/facts 2>/dev/null"))
    assert said, "the victim did not start in the sandbox"
    return parse_facts(said, "their_")


def probe_shell(path):
    return lambda command: inside(path, command)[0]
