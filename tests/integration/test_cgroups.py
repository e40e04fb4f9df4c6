"""Control groups of sandboxes: who is in which, what is seen inside, and execd beyond the limits."""

import os
import re
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Server, events_of, text_of, wait_until  # noqa: E402
from terminal import Terminal  # noqa: E402

MIB = 1 << 20
LIMITED = {"cpu": "500m", "memory": "96Mi", "pids": "40"}


def groups_of(pid):
    """{"memory": path, ...}; version 2 has the name "". Paths are those of the machine."""
    groups = {}
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            groups[name] = path
    return groups


class Groups(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.server.__enter__()
        cls.v2 = "cgroup v2" in cls.server.log_path.read_text()
        if not cls.v2:
            assert "cgroup v1 (memory yes, cpu yes, pids yes" in cls.server.log_path.read_text()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None, None, None)

    def create(self, **fields):
        box = self.server.create(**fields)
        self.addCleanup(lambda: self.server.request("DELETE", f"/v1/sandboxes/{box.id}"))
        return box

    def record(self, box):
        path = self.server.state / f"state/launcher/sandboxes/{box.id}/record"
        return dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)

    def processes(self, box):
        """{pid inside: (pid outside, command line)} of everything in the sandbox."""
        own = os.readlink(f"/proc/{self.record(box)['pid']}/ns/pid")
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if os.readlink(entry / "ns/pid") == own:
                    inside = re.search(r"^NSpid:.*\t(\d+)$", (entry / "status").read_text(), re.M).group(1)
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                    found[int(inside)] = (int(entry.name), words)
            except OSError:
                continue
        return found

    def group_folder(self, box, controller, *below):
        """On the machine."""
        instance = re.search(r"instance ([0-9a-f]{8})", self.server.log_path.read_text()).group(1)
        top = Path("/sys/fs/cgroup") if self.v2 else Path("/sys/fs/cgroup") / controller
        return top.joinpath(f"opensandbox-{instance}", self.record(box)["cgroup"], *below)

    def read(self, box, controller, v1, v2):
        return self.group_folder(box, controller, "work").joinpath(v2 if self.v2 else v1).read_text().strip()

    def check_in_work(self, box, pid, what):
        slot = self.record(box)["cgroup"]
        groups = groups_of(pid)
        if self.v2:
            self.assertTrue(groups[""].endswith(f"/{slot}/work"), (what, groups))
            return
        for name in ("memory", "pids"):
            self.assertTrue(groups[name].endswith(f"/{slot}/work"), (what, name, groups))
        for name in ("cpu", "cpuacct", "blkio", "freezer"):
            if os.path.isdir(f"/sys/fs/cgroup/{name}"):
                self.assertTrue(groups[name].endswith(f"/{slot}"), (what, name, groups))

    def answers(self, box):
        """execd, without starting a process, and with threads of its own."""
        self.assertEqual(box.request("GET", "/ping").status, 200)
        self.assertEqual(box.request("GET", "/files/info?path=/etc/passwd").status, 200)
        self.assertEqual(box.request("GET", "/files/search?path=/etc&pattern=host*").status, 200)

    # --- who is where ---

    def test_process_1_is_beside_the_rest(self):
        box = self.create()
        slot = self.record(box)["cgroup"]
        groups = groups_of(self.record(box)["pid"])
        if self.v2:
            self.assertTrue(groups[""].endswith(f"/{slot}/init"), groups)
            return
        for name in ("memory", "cpu", "cpuacct", "pids", "blkio", "freezer"):
            if os.path.isdir(f"/sys/fs/cgroup/{name}"):
                self.assertTrue(groups[name].endswith(f"/{slot}"), (name, groups))

    def test_everything_started_is_in_work(self):
        box = self.create(entrypoint=["sleep", "1001"])
        events_of(box.request("POST", "/command", {"command": "sleep 1002", "background": True}).body)
        session = box.request("POST", "/session", {}).json()["session_id"]
        box.request("POST", f"/session/{session}/run", {"command": "sleep 1003 & sh -c 'sleep 1004' & :"})
        pty = box.request("POST", "/pty", {}).json()["session_id"]
        sock = socket.create_connection(("127.0.0.1", self.server.port), timeout=20)
        self.addCleanup(sock.close)
        terminal = Terminal(None, pty, "", sock, prefix=box.prefix, headers=box.headers).greeted()
        terminal.type("sleep 1005\n")

        def sleepers():
            return {n for n in range(1001, 1006) for _, words in self.processes(box).values()
                    if words == f"sleep {n}"}
        wait_until(lambda: sleepers() == set(range(1001, 1006)), what="all of them run")
        processes = self.processes(box)
        self.assertGreaterEqual(len(processes), 8)  # the shells of session and terminal, too
        for inside, (pid, words) in processes.items():
            if inside != 1:
                self.check_in_work(box, pid, words)

    # --- what is seen ---

    def test_seen_inside(self):
        box = self.create(resourceLimits=LIMITED)
        lines = dict(line.split(":", 2)[1:] for line in box.output("cat /proc/self/cgroup").splitlines())
        for name in [""] if self.v2 else ["memory", "pids"]:
            self.assertEqual(lines[name], "/")
        folder = "/sys/fs/cgroup"
        files = {
            f"{folder}/memory.max": "100663296", f"{folder}/pids.max": "40", f"{folder}/cpu.max": "50000 100000",
        } if self.v2 else {
            f"{folder}/memory/memory.limit_in_bytes": "100663296", f"{folder}/pids/pids.max": "40",
            f"{folder}/cpu/cpu.cfs_quota_us": "50000", f"{folder}/cpu/cpu.cfs_period_us": "100000",
        }
        for path, value in files.items():
            self.assertEqual(box.output(f"cat {path}"), value)
        first = next(iter(files))
        self.assertNotEqual(text_of(box.run(f"echo 1 > {first}; echo $?"))[-1], "0")
        self.assertNotEqual(text_of(box.run(f"mkdir {os.path.dirname(first)}/x; echo $?"))[-1], "0")
        if not self.v2:
            used = int(box.output(f"cat {folder}/cpuacct/cpuacct.usage"))
            self.assertGreater(used, 0)

    def test_metrics_are_those_of_the_group(self):
        box = self.create(resourceLimits=LIMITED)
        sample = box.request("GET", "/metrics").json()
        self.assertEqual((sample["cpu_count"], sample["mem_total_mib"]), (1, 96))
        held = "import sys\nx = bytearray(48 << 20)\nprint('held', flush=True)\nsys.stdin.read()"
        events = events_of(box.request("POST", "/command", {"command": f"python3 -c \"{held}\"", "background": True,
                                                            "stdin": True}).body)
        wait_until(lambda: box.request("GET", "/metrics").json()["mem_used_mib"] >= 48, what="it is seen")
        self.assertLessEqual(box.request("GET", "/metrics").json()["mem_used_mib"], 96)
        box.request("POST", f"/command/{events[0]['text']}/stdin?close=true", b"")

    # --- beyond the limits ---

    def test_memory_hog_is_killed_alone(self):
        box = self.create(resourceLimits=LIMITED)
        pid = self.record(box)["pid"]
        for _ in range(3):
            events = box.run("exec python3 -c 'x = bytearray(1 << 30)'")
            self.assertEqual(events[-1]["error"]["traceback"], ["signal: killed"], events)
            self.answers(box)
        self.assertEqual(box.output("echo fine"), "fine")
        self.assertEqual(self.record(box)["pid"], pid)
        peak = self.read(box, "memory", "memory.max_usage_in_bytes", "memory.peak") if not self.v2 or \
            self.group_folder(box, "memory", "work", "memory.peak").exists() else 96 * MIB
        self.assertLessEqual(int(peak), 96 * MIB)
        kills = self.read(box, "memory", "memory.oom_control", "memory.events")
        self.assertEqual(int(re.search(r"^oom_kill (\d+)$", kills, re.M).group(1)), 3)

    def test_files_in_memory_count(self):
        """What lies in /dev/shm stays when its writer is killed: execd, beside it, can still delete it."""
        box = self.create(resourceLimits={"memory": "32Mi"})
        events = box.run("exec head -c 60M /dev/zero > /dev/shm/bomb")
        self.assertEqual(events[-1]["error"]["traceback"], ["signal: killed"], events)
        self.answers(box)
        self.assertLessEqual(int(self.read(box, "memory", "memory.usage_in_bytes", "memory.current")), 32 * MIB)
        self.assertEqual(box.request("DELETE", "/files?path=/dev/shm/bomb").status, 200)
        wait_until(lambda: int(self.read(box, "memory", "memory.usage_in_bytes", "memory.current")) < 16 * MIB,
                   what="the memory is free again")
        self.assertEqual(box.output("echo fine"), "fine")

    def test_fork_bomb(self):
        box = self.create(resourceLimits={"pids": "40"})
        bomb = ("import os, time\n"
                "for _ in range(500):\n"
                "    try:\n"
                "        if os.fork() == 0: time.sleep(1000)\n"
                "    except BlockingIOError: break\n"
                "print('full', flush=True)\n"
                "time.sleep(1000)\n")
        events = events_of(box.request("POST", "/command", {
            "command": f"exec python3 -c \"{bomb}\"", "background": True}).body)
        command = events[0]["text"]
        wait_until(lambda: self.read(box, "pids", "pids.current", "pids.current") == "40", what="the limit is reached")
        self.answers(box)
        # One that execd starts does not slip past the limit, and says why it was not started.
        refused = box.run("echo one more")
        self.assertEqual(refused[-1]["type"], "error", refused)
        self.assertIn("as many as its limit allows", str(refused[-1]))
        self.assertEqual(self.read(box, "pids", "pids.current", "pids.current"), "40")
        self.assertEqual(box.request("DELETE", f"/command?id={command}").status, 200)
        wait_until(lambda: self.read(box, "pids", "pids.current", "pids.current") != "40", what="it is killed")
        self.assertEqual(box.output("echo fine"), "fine")

    def test_groups_are_gone(self):
        box = self.create(resourceLimits=LIMITED)
        box.run("sleep 1000 & sleep 1001 &")
        folders = [self.group_folder(box, name) for name in
                   ("memory", "cpu", "cpuacct", "pids", "blkio", "freezer")]
        folders = [folder for folder in folders if folder.exists()]
        self.assertTrue(folders)
        box.delete()
        wait_until(lambda: not any(folder.exists() for folder in folders), what="its groups are gone")


class Quick(unittest.TestCase):
    def test_hierarchy_is_there_while_the_launcher_is(self):
        """And not a moment longer, mounted nowhere: nothing is left of it."""
        release = tuple(int(n) for n in os.uname().release.split(".")[:2])
        if release < (6, 0):
            self.skipTest("favordynmods is of Linux 6.0")
        with Server() as server:
            server.create().delete()
            self.assertIn(":name=opensandbox:/", Path("/proc/self/cgroup").read_text())
            self.assertNotIn("name=opensandbox", Path("/proc/self/mountinfo").read_text())
            # Another launcher on this machine may have it, too: this one holds it itself.
            self.assertTrue(any(self.is_root_of_hierarchy(f"/proc/{pid}/fd/{fd}")
                                for pid in server.launcher_pids() for fd in os.listdir(f"/proc/{pid}/fd")))
        others = [entry for entry in Path("/proc").glob("[0-9]*/comm") if self.is_launcher(entry)]
        if not others:
            wait_until(lambda: ":name=opensandbox:" not in Path("/proc/self/cgroup").read_text(),
                       what="the hierarchy is gone")

    @staticmethod
    def is_root_of_hierarchy(path):
        if os.readlink(path) != "/":
            return False
        kind = subprocess.run(["stat", "-f", "-L", "-c", "%t", path], stdout=subprocess.PIPE, check=True, text=True)
        return kind.stdout.strip() == "27e0eb"  # CGROUP_SUPER_MAGIC

    @staticmethod
    def is_launcher(comm):
        try:
            return comm.read_text().startswith("opensandbox-lau")
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main()
