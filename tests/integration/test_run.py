"""`make run` as the README promises it, with a state directory and a port of the test's own."""
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import BIN, Machine, ROOT, pids_with_argument, wait_until  # noqa: E402


class MakeRun(unittest.TestCase):
    def setUp(self):
        self.before = Machine.snapshot()
        self.folder = Path(tempfile.mkdtemp(prefix="osb-test-"))
        self.state = self.folder / "state"
        self.folder.chmod(0o755)

    def tearDown(self):
        wait_until(lambda: not pids_with_argument(str(self.state)), what="programs end")
        shutil.rmtree(self.folder)
        self.assertEqual(Machine.difference(self.before, Machine.snapshot()), [])

    def run_once(self):
        env = {**os.environ, "OSB_LISTEN": "127.0.0.1:0", "OSB_STATE": str(self.state)}
        env.pop("OPENSANDBOX_SERVER_API_KEY", None)
        done = subprocess.run(["python3", ROOT / "scripts/run.py", BIN, "--once"], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_first_and_second_start(self):
        first = self.run_once()
        key = (self.state / "server/api-key").read_text().strip()
        self.assertEqual((self.state / "server/api-key").stat().st_mode & 0o777, 0o600)
        self.assertEqual(first.count(key), 1, "the key is printed once, at the first start")
        self.assertRegex(first, r"hello from Linux \S+, I am root on \S+")
        self.assertIn("2 to the 100th is 1267650600228229401496703205376", first)
        self.assertRegex(first, r"created in [0-9.]+ ms")
        self.assertIn("curl -s -X POST http://127.0.0.1:", first)
        self.assertIn("pip install opensandbox", first)
        second = self.run_once()
        self.assertNotIn(key, second)
        self.assertIn("1267650600228229401496703205376", second)

    def test_stays_in_the_foreground_until_interrupted(self):
        env = {**os.environ, "OSB_LISTEN": "127.0.0.1:0", "OSB_STATE": str(self.state)}
        process = subprocess.Popen(["python3", ROOT / "scripts/run.py", BIN], env=env, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        text = ""
        while "until you press Ctrl-C" not in text:
            line = process.stdout.readline()
            self.assertTrue(line, text)
            text += line
        self.assertIsNone(process.poll())
        address = re.search(r"goes on at http://(\S+)", text).group(1)
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request("GET", "/health")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 0)


if __name__ == "__main__":
    unittest.main()
