"""What the tests of programs inside sandboxes share: the host has the programs, one sandbox has the host's /usr."""

import subprocess
import unittest

from harness import ROOT, Server, text_of

COMMAND_MS = 240_000  # a bound for what must end, on a machine that may be busy; never a measurement


class ProgramsCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Before the server: the host image is made when the launcher starts. Not installable is a failure.
        subprocess.run(["sh", "scripts/deps.sh", "programs"], cwd=ROOT, check=True, timeout=1200)
        cls.server = Server()
        cls.server.__enter__()
        try:
            cls.box = cls.server.create()
        except BaseException:
            cls.server.__exit__(None, None, None)
            raise

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def setUp(self):
        self.dir = f"/tmp/{self._testMethodName}"
        self.sh(f"mkdir {self.dir}", cwd="/")

    def sh(self, script, **options):
        """stdout of a bash script that must succeed, in the test's directory."""
        events = self.box.run(script, **{"cwd": self.dir, "timeout": COMMAND_MS, **options})
        told = "\n".join(text_of(events, "stdout") + text_of(events, "stderr"))
        self.assertEqual(events[-1]["type"], "execution_complete", f"{events[-1]}\n{told}")
        return "\n".join("" if text == "\n" else text for text in text_of(events))

    def write(self, name, text):
        """A file in the test's directory."""
        self.sh(f"cat >{name} <<'END OF FILE'\n{text}\nEND OF FILE\n")
