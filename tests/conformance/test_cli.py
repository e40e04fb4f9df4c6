"""The published command line client, `osb`, against a real server: commands, sessions, files."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import published
from harness import Machine, Server

SECONDS = 120  # for one call; the program takes a second to start on a quiet machine


class Osb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = published.cli()
        cls.before = Machine.snapshot()
        cls.home = Path(tempfile.mkdtemp(prefix="osb-cli-"))
        cls.server = Server()
        cls.server.__enter__()
        try:
            cls.box = cls.json("sandbox", "create", "-i", "host", "-e", "COLOUR=teal")["id"]
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)
        shutil.rmtree(cls.home)
        left = Machine.difference(cls.before, Machine.snapshot())
        assert left == [], left

    @classmethod
    def command(cls, *words):
        env = {k: v for k, v in os.environ.items() if not k.startswith("OPEN_SANDBOX_")}
        return {"args": [cls.program, "--domain", f"127.0.0.1:{cls.server.port}", "--api-key", cls.server.key,
                         "--no-color", *words],
                "env": {**env, "HOME": str(cls.home), "COLUMNS": "500"}, "text": True,
                "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    @classmethod
    def osb(cls, *words, status=0, **options):
        done = subprocess.run(**cls.command(*words), timeout=SECONDS, check=False, **options)
        assert done.returncode == status, (words, done)
        return done

    @classmethod
    def json(cls, *words, **options):
        group, name, *rest = words
        return json.loads(cls.osb(group, name, "-o", "json", *rest, **options).stdout)

    def run_in(self, *words, **options):
        return self.osb("command", "run", "-o", "raw", self.box, "--", *words, **options)

    def test_sandbox_get_list_health_endpoint(self):
        self.assertEqual(self.json("sandbox", "get", self.box)["status"]["state"], "Running")
        self.assertEqual([b["id"] for b in self.json("sandbox", "list")["items"]], [self.box])
        self.assertIn("healthy", self.osb("sandbox", "health", self.box).stdout)
        self.assertIn("/proxy/44772", self.json("sandbox", "endpoint", self.box, "--port", "44772")["endpoint"])

    def test_sandbox_metrics(self):
        sample = self.json("sandbox", "metrics", self.box)
        self.assertGreater(sample["cpu_count"], 0)
        self.assertGreater(sample["memory_total_in_mib"], 0)

    def test_sandbox_metrics_watch(self):
        with subprocess.Popen(**self.command("sandbox", "metrics", "--watch", "-o", "raw", self.box)) as process:
            try:
                line = process.stdout.readline()
            finally:
                process.kill()
            self.assertRegex(line, r"cpu=[\d.]+% .*mem=[\d.]+/[\d.]+MiB", process.stderr.read())

    def test_command_run(self):
        self.assertEqual(self.run_in("echo", "hello   world", "$COLOUR").stdout.strip(), "hello   world $COLOUR")
        self.assertEqual(self.run_in("sh", "-c", "echo $COLOUR").stdout.strip(), "teal")
        done = self.run_in("sh", "-c", "echo out; echo err >&2; exit 3", status=1)
        self.assertIn("out", done.stdout)
        self.assertIn("err", done.stdout + done.stderr)
        self.assertIn("CommandExecError: 3", done.stderr)

    def test_command_run_options(self):
        self.assertEqual(self.osb("command", "run", "-w", "/usr", "-o", "raw", self.box, "--", "pwd").stdout, "/usr\n")
        done = self.osb("command", "run", "-t", "1s", "-o", "raw", self.box, "--", "sleep", "30", status=1)
        self.assertIn("-1", done.stderr)
        done = self.osb("command", "run", "-w", "/absent", self.box, "--", "pwd", status=1)
        self.assertIn("INVALID_REQUEST_BODY", done.stderr)

    def test_command_argv(self):
        done = self.osb("command", "run", "--argv", "-o", "raw", self.box, "--", "printf", "%s|", "$HOME", "a b", "")
        self.assertEqual(done.stdout.strip(), "$HOME|a b||")

    def test_command_background(self):
        started = self.json("command", "run", "-d", self.box, "--", "sh", "-c", "echo begun; sleep 1000")
        command = started["execution_id"]
        status = self.json("command", "status", self.box, command)
        self.assertEqual((status["running"], status["exit_code"]), (True, None))
        self.osb("command", "interrupt", self.box, command)
        logs = self.json("command", "logs", self.box, command)
        self.assertEqual((logs["content"], logs["cursor"]), ("begun\n", 6))
        self.assertEqual(self.json("command", "logs", "--cursor", "6", self.box, command)["content"], "")
        self.assertEqual(self.json("command", "status", self.box, command)["running"], False)

    def test_command_session(self):
        made = self.osb("command", "session", "create", "-w", "/usr", "-o", "json", self.box).stdout
        session = json.loads(made)["session_id"]

        def run(text, **options):
            return self.osb("command", "session", "run", self.box, session, "--", "eval", text, **options)
        run("x=kept")
        self.assertEqual(run("echo $x; pwd | tr a-z A-Z").stdout.split(), ["kept/USR"])
        self.assertIn("7", run("exit 7", status=1).stderr)
        self.assertIn("kept", run("echo $x").stdout)
        self.osb("command", "session", "delete", self.box, session)
        self.assertIn("CONTEXT_NOT_FOUND", run("true", status=1).stderr)

    def test_file_write_cat_info_chmod(self):
        self.osb("file", "write", self.box, "/tmp/w/a", "-c", "hällo", "--mode", "0640", "--owner", "nobody")
        self.assertEqual(self.osb("file", "cat", self.box, "/tmp/w/a").stdout, "hällo")
        (info,) = self.json("file", "info", self.box, "/tmp/w/a")
        self.assertEqual((info["size"], info["mode"], info["owner"]), (6, 640, "nobody"))
        self.json("file", "chmod", self.box, "/tmp/w/a", "--mode", "0600", "--owner", "root")
        (info,) = self.json("file", "info", self.box, "/tmp/w/a")
        self.assertEqual((info["mode"], info["owner"]), (600, "root"))
        self.osb("file", "write", self.box, "/tmp/w/b", input="from stdin")
        self.assertEqual(self.osb("file", "cat", self.box, "/tmp/w/b").stdout, "from stdin")

    def test_file_upload_download(self):
        data = bytes(range(256)) * 500
        local, back = self.home / "up", self.home / "down"
        local.write_bytes(data)
        self.json("file", "upload", self.box, str(local), "/tmp/u/a.bin")
        self.json("file", "download", self.box, "/tmp/u/a.bin", str(back))
        self.assertEqual(back.read_bytes(), data)

    def test_file_change_and_search(self):
        self.osb("file", "write", self.box, "/tmp/c/a.txt", "-c", "tea and tea")
        self.json("file", "replace", self.box, "/tmp/c/a.txt", "--old", "tea", "--new", "milk")
        self.json("file", "mv", self.box, "/tmp/c/a.txt", "/tmp/c/d/b.txt")
        self.assertEqual(self.osb("file", "cat", self.box, "/tmp/c/d/b.txt").stdout, "milk and milk")
        found = self.json("file", "search", self.box, "/tmp/c", "-p", "*.txt")
        self.assertEqual([f["path"] for f in found], ["/tmp/c/d/b.txt"])
        self.json("file", "rm", self.box, "/tmp/c/d/b.txt")
        self.assertIn("FILE_NOT_FOUND", self.osb("file", "cat", self.box, "/tmp/c/d/b.txt", status=1).stderr)

    def test_file_directories(self):
        self.json("file", "mkdir", self.box, "/tmp/m/a", "/tmp/m/b")
        infos = self.json("file", "info", self.box, "/tmp/m/a", "/tmp/m/b")
        self.assertEqual([i["entry_type"] for i in infos], ["directory"] * 2)
        self.json("file", "rmdir", self.box, "/tmp/m")
        self.assertIn("FILE_NOT_FOUND", self.osb("file", "info", self.box, "/tmp/m", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
