"""Every command in README.md and docs/ is run; a block that no test here knows is a failure."""
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "conformance"))
import published  # noqa: E402
from harness import ROOT, Server  # noqa: E402

BUILD = os.environ.get("OSB_BUILD_DIR", str(ROOT / "build"))


def blocks(path):
    """(language, text) of each fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.server.__enter__()
        cls.readme = blocks(ROOT / "README.md")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def shell(self, text, **options):
        done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", text], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, **options)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def block(self, language, beginning):
        found = [text for lang, text in self.readme if lang == language and
                 text.startswith(beginning)]
        self.assertEqual(len(found), 1, f"README block {beginning!r}")
        return found[0].replace("/var/lib/opensandbox", str(self.server.state / "state")).replace(
            "127.0.0.1:8080", f"127.0.0.1:{self.server.port}")

    def exports(self):
        return "\n".join(line for line in self.block("sh", "export").splitlines()
                         if line.startswith("export"))

    def test_readme_make_targets_exist(self):
        for target in re.findall(r"^make (\w+)", self.block("sh", "make run"), re.MULTILINE):
            self.shell(f"make --dry-run {target} >/dev/null")

    def test_readme_python_tour(self):
        python = published.python_with_sdk()  # where `pip install opensandbox` has been done
        self.assertIn("pip install opensandbox", self.block("sh", "export"))
        code = self.block("python", "from opensandbox")
        lines = self.shell(f"{self.exports()}\n{python} - <<'CODE'\n{code}CODE").splitlines()
        self.assertTrue(lines[0].startswith("Linux "), lines)
        self.assertEqual(lines[1], "42")

    def test_readme_curl_tour(self):
        output = self.shell(self.exports() + "\n" + self.block("sh", "K="))
        self.assertIn('"text":"hello"', output)
        self.assertIn("uid=0(root)", output)
        self.assertEqual(self.server.request("GET", "/v1/sandboxes").json()["items"], [])

    def test_configuration_example_is_accepted(self):
        (text,) = [t for lang, t in blocks(ROOT / "docs/configuration.md") if lang == "toml"]
        text = text.replace("port = 8080", "port = 0")
        text = text.replace('state_dir = "/var/lib/opensandbox"\n', "")
        with Server(config=text) as server:
            server.key = "..."
            self.assertEqual(server.request("GET", "/v1/sandboxes").status, 200)

    def test_images_tour(self):
        found = blocks(ROOT / "docs/images.md")
        make, ask = [t for lang, t in found if lang == "sh"]
        (config,) = [t for lang, t in found if lang == "toml"]
        with tempfile.TemporaryDirectory(prefix="osb-test-") as folder:
            os.chmod(folder, 0o755)
            self.shell(make.replace("/srv/images", folder))
            with Server(config=config.replace("/srv/images", folder)) as server:
                env = {**os.environ, "OPEN_SANDBOX_API_KEY": server.key,
                       "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}"}
                output = self.shell(ask, env=env)
                self.assertIn("uid=1000 gid=1000", output)
                self.assertIn('"text":"/data"', output)
                self.assertIn("mine", output)
                self.assertEqual(server.request("GET", "/v1/sandboxes").json()["items"], [])

    def test_volumes_tour(self):
        found = blocks(ROOT / "docs/volumes.md")
        make, ask = [t for lang, t in found if lang == "sh"]
        (config,) = [t for lang, t in found if lang == "toml"]
        with tempfile.TemporaryDirectory(prefix="osb-test-") as folder:
            os.chmod(folder, 0o755)
            self.shell(make.replace("/srv/shared", folder))
            with Server(config=config.replace("/srv/shared", folder)) as server:
                env = {**os.environ, "OPEN_SANDBOX_API_KEY": server.key,
                       "OPEN_SANDBOX_DOMAIN": f"127.0.0.1:{server.port}"}
                output = self.shell(ask.replace("/srv/shared", folder), env=env)
                self.assertIn('"text":"hello"', output)
                self.assertRegex(output, r"6\dM\b.* /cache")
                self.assertRegex(output, r"16M\b.* /scratch")
                self.assertRegex(output, r" 1000 1000 .*/project/answer")
                self.assertEqual(server.request("GET", "/v1/sandboxes").json()["items"], [])

    def test_testing_commands(self):
        (text,) = [t for lang, t in blocks(ROOT / "docs/testing.md") if lang == "sh"]
        output = self.shell(text.replace("--build build", f"--build {BUILD}"))
        self.assertIn("0 failed", output)
        self.assertRegex(output, r"\nok 1 - \w+\.test_")

    def test_execd_tour(self):
        (text,) = [t for lang, t in blocks(ROOT / "docs/execd.md") if lang == "sh"]
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = str(probe.getsockname()[1])
        path = f"{BUILD}/bin:{os.environ['PATH']}"
        output = self.shell(text.replace("44999", port), env={**os.environ, "PATH": path})
        self.assertIn('{"bytes":12}', output.replace(" ", ""))
        self.assertIn('"text":"12"', output)
        self.assertIn("execution_complete", output)

    def test_check(self):
        (text,) = [t for lang, t in blocks(ROOT / "docs/check.md") if lang == "sh"]
        path = f"{BUILD}/bin:{os.environ['PATH']}"
        output = self.shell(text, env={**os.environ, "PATH": path})
        self.assertIn("Sandboxes can run here", output)
        self.assertRegex(output, r"(?m)^can run: True$")
        self.assertRegex(output, r"(?m)^memory-limits: (yes|no)$")

    def test_network(self):
        (text,) = [t for lang, t in blocks(ROOT / "docs/network.md") if lang == "sh"]
        output = self.shell(text, env={**os.environ, "PATH": f"{BUILD}/bin:{os.environ['PATH']}"})
        self.assertRegex(output, r"(?m)^(yes|partly|no) nat: sandboxes ")
        self.assertRegex(output, r"(?m)^(yes|no) firewall: ")

    def test_isolation_finding_what_was_refused(self):
        (text,) = [t for lang, t in blocks(ROOT / "docs/isolation.md") if lang == "sh"]
        box = self.server.create()
        self.assertRegex(box.output(text), r"unshare\(CLONE_NEWUSER\) += -1 EPERM")
        box.delete()

    def test_every_block_is_known(self):
        known = {"execd.md": {"sh": 1}, "README.md": {"sh": 3, "python": 1, "": 1}, "configuration.md": {"toml": 1},
                 "testing.md": {"sh": 1}, "architecture.md": {}, "api.md": {}, "costs.md": {},
                 "check.md": {"sh": 1, "": 1}, "isolation.md": {"sh": 1}, "limits.md": {}, "network.md": {"sh": 1},
                 "rootless.md": {}, "security.md": {}, "images.md": {"sh": 2, "console": 1, "toml": 1},
                 "volumes.md": {"sh": 2, "toml": 1}}
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            counts = {}
            for language, _ in blocks(path):
                counts[language] = counts.get(language, 0) + 1
            self.assertEqual(counts, known.get(path.name), path.name)


if __name__ == "__main__":
    unittest.main()
