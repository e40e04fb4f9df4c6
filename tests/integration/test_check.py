"""`opensandbox-launcher check`: true on this machine, true where something is missing, and without a trace."""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import BIN, ROOT, Machine, Server, pids_with_argument, wait_until, walk_cgroups  # noqa: E402

BLOCK = ["python3", str(ROOT / "tests/support/block_userns.py")]
DENY = ["python3", str(ROOT / "tests/support/deny_syscalls.py")]
TOP_KEYS = ["state", "cgroup_parent", "can_run", "everything", "missing", "off", "results"]
ROW_KEYS = ["section", "name", "weight", "found", "detail", "effect", "advice"]
NAMES = {
    "root", "capabilities", "kernel", "pidfd", "close-range", "openat2", "seccomp", "landlock", "mount-api",
    "ns-mount", "ns-pid", "ns-ipc", "ns-uts", "ns-net", "ns-cgroup", "ns-user", "ns-time", "ns-settings",
    "id-map", "id-ranges", "state-directory", "overlay", "idmap-host", "idmap-state", "disk-space",
    "project-quota", "loop-devices", "mke2fs", "disk-limits", "cgroup-mode", "cgroup-groups", "clone3",
    "memory-limits", "swap-limits", "cpu-limits", "pids-limits", "io-read-limits", "io-write-limits",
    "freezing", "cpu-usage", "cgroup-kill", "favordynmods", "nft", "veth", "nft-rules", "forwarding",
    "network-pool", "name-servers", "firewall", "nat", "memory", "overcommit",
    "open-files", "processes", "inotify", "loop-max"}
NAMESPACES = {name for name in NAMES if name.startswith("ns-") and name not in ("ns-settings", "ns-time")}


def loops():
    """Of all loop devices the file behind, if any."""
    for device in Path("/sys/block").glob("loop*"):
        try:
            yield device.name, (device / "loop/backing_file").read_text().strip()
        except OSError:
            yield device.name, None


def machine():
    return {**Machine.snapshot(), "loops": sorted(map(str, loops())),
            "controllers": [p.read_text() for p in Path("/sys/fs/cgroup").glob("cgroup.subtree_control")]}


class Report:
    def __init__(self, done):
        self.status, self.text = done.returncode, done.stdout
        self.whole = json.loads(done.stdout)
        assert list(self.whole) == TOP_KEYS, list(self.whole)
        self.rows = {row["name"]: row for row in self.whole["results"]}
        for row in self.rows.values():
            assert list(row) == ROW_KEYS, row
            assert row["found"] in ("yes", "no", "partly", "unknown"), row
            assert row["weight"] in ("needed", "feature", "note"), row
            assert row["effect"], row
        lacking = [r for r in self.rows.values() if r["found"] != "yes"]
        assert self.whole["missing"] == [r["name"] for r in lacking if r["weight"] == "needed"]
        assert self.whole["off"] == [r["name"] for r in lacking if r["weight"] == "feature"]
        assert self.whole["everything"] == (not self.whole["missing"] and not self.whole["off"])
        assert self.status == (0 if self.whole["can_run"] else 1), (self.status, self.whole["can_run"])

    def found(self, name):
        return self.rows[name]["found"]

    def with_found(self, *kinds):
        return {name for name, row in self.rows.items() if row["found"] in kinds}


class Check(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="osb-test-"))
        self.folder.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # Where every user can read it, wherever the build is.
        self.program = self.folder / "opensandbox-launcher"
        shutil.copy(BIN / "opensandbox-launcher", self.program)
        self.state = self.folder / "state"
        self.state.mkdir(mode=0o755)

    def tearDown(self):
        self.assertEqual(self.traces(), [])

    def traces(self):
        """What a check may have left, as far as it can be told from what others do on this machine."""
        return [*pids_with_argument("check", str(self.program)), *self.state.iterdir(),
                *Path("/tmp").glob("opensandbox-check-*"), *Path("/var/lib").glob("opensandbox-check-*"),
                *(f for f in walk_cgroups() if "opensandbox-check" in f or "opensandbox-nowhere" in f),
                *(pair for pair in loops() if "opensandbox-check" in (pair[1] or "")),
                *(line for line in Path("/proc/self/mountinfo").read_text().splitlines()
                  if str(self.folder) in line or "opensandbox-check" in line)]

    def run_program(self, *arguments, before=(), after=()):
        return subprocess.run([*before, str(self.program), "check", *arguments, *after], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)

    def report(self, *arguments, before=()):
        done = self.run_program("--state", str(self.state), "-o", "json", *arguments, before=before)
        self.assertEqual(done.stderr, b"")
        return Report(done)

    def inside(self, script, *arguments):
        """A report from inside a mount namespace that `script` has changed; "$@" is the program."""
        command = ["unshare", "-m", "sh", "-eu", "-c", script, "sh", str(self.program), "check",
                   "--state", str(self.state), "-o", "json", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.stderr, b"")
        return Report(done)

    def test_this_machine(self):
        report = self.report()
        self.assertEqual(set(report.rows), NAMES)
        self.assertEqual(report.whole["state"], str(self.state))
        self.assertIsNone(report.whole["cgroup_parent"])
        self.assertEqual(report.status, 0)
        self.assertEqual(report.whole["missing"], [])
        for row in report.rows.values():  # nothing is only unknown to root
            self.assertTrue(row["found"] != "unknown" or row["name"] == "swap-limits", row)
        self.assertIn(os.uname().release, report.rows["kernel"]["detail"])
        total = int(Path("/proc/meminfo").read_text().split()[1]) // 1024
        self.assertTrue(report.rows["memory"]["detail"].startswith(f"{total} MiB"), report.rows["memory"])
        self.assertIn(Path("/proc/sys/kernel/pid_max").read_text().strip(), report.rows["processes"]["detail"])
        self.assertIn(str(resource.getrlimit(resource.RLIMIT_NOFILE)[1]), report.rows["open-files"]["detail"])

    def test_nothing_is_changed(self):
        for _ in range(20):  # others may begin something meanwhile, but not each time
            before = machine()
            self.report()
            changes = Machine.difference(before, machine())
            if not changes:
                return
        self.fail(f"each time something changed: {changes}")

    def test_for_people(self):
        report = self.report()
        done = self.run_program("--state", str(self.state))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        lines = done.stdout.decode().splitlines()
        for name, row in report.rows.items():
            (line,) = [line for line in lines if line.split()[1:2] == [name]]
            self.assertEqual(line.split()[0], row["found"])
            self.assertIn(row["effect"].split(" about ")[0], line)
        self.assertTrue(lines[-1].startswith("Sandboxes can run here"), lines[-1])
        for name in report.whole["off"]:
            self.assertIn(name, lines[-1])

    def test_it_is_what_sandboxes_get(self):
        """What check calls on is accepted by the server of this machine, what it calls off is refused."""
        report = self.report()
        with Server() as server:
            log = server.log_path.read_text()
            version = 2 if "cgroup v2" in log else 1
            self.assertIn(f"cgroup v{version}", report.rows["cgroup-mode"]["effect"])
            for name, limits in (("memory-limits", {"memory": "64Mi"}), ("cpu-limits", {"cpu": "500m"}),
                                 ("pids-limits", {"pids": "64"}), ("disk-limits", {"disk": "64Mi"}),
                                 ("io-read-limits", {"io-read-bps": "8Mi"}),
                                 ("io-write-limits", {"io-write-bps": "8Mi"})):
                answer = server.request("POST", "/v1/sandboxes", {
                    "image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": limits})
                self.assertEqual(answer.status == 202, report.found(name) == "yes", (name, answer))

    def test_nobody(self):
        """Where user namespaces are not for everybody."""
        report = self.report(before=[*BLOCK, "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"])
        self.assertIn("user.max_user_namespaces is 0", report.rows["root"]["detail"])
        self.assertEqual(set(report.rows), NAMES)
        self.assertEqual(report.status, 1)
        self.assertEqual(report.found("root"), "no")
        self.assertIn("as root", report.rows["root"]["advice"])
        for name in ("id-map", "idmap-host", "state-directory"):
            self.assertEqual(report.found(name), "unknown", report.rows[name])
            self.assertIn("as root", report.rows[name]["advice"])
        # what the machine has is not denied because the one who asks may not use it
        for name in ("pidfd", "seccomp", "close-range", "kernel", "cgroup-mode", "memory"):
            self.assertEqual(report.found(name), "yes", report.rows[name])

    def test_no_control_groups(self):
        report = self.inside("umount -R /sys/fs/cgroup; exec \"$@\"")
        self.assertEqual(report.status, 0)
        for name in ("cgroup-mode", "memory-limits", "cpu-limits", "pids-limits", "io-read-limits",
                     "io-write-limits", "freezing", "cpu-usage"):
            self.assertEqual(report.found(name), "no", report.rows[name])
            self.assertIn(name, report.whole["off"])
            self.assertTrue(report.rows[name]["advice"])
        self.assertIn("refused", report.rows["memory-limits"]["effect"])

    def test_one_controller_cannot_be_had(self):
        if Path("/sys/fs/cgroup/cgroup.controllers").exists():
            # v2: a group with a process in it cannot pass controllers on
            group = Path("/sys/fs/cgroup") / f"osb-test-{os.getpid()}"
            group.mkdir()
            process = subprocess.Popen(["tail", "-f", "/dev/null"])
            try:
                (group / "cgroup.procs").write_text(str(process.pid))
                report = self.report("--cgroup-parent", group.name)
            finally:
                process.kill()
                process.wait()
                wait_until(lambda: not (group / "cgroup.procs").read_text(), what="the group is empty")
                group.rmdir()
            self.assertIn("without processes", report.rows["pids-limits"]["advice"])
        else:
            report = self.inside("umount /sys/fs/cgroup/pids; exec \"$@\"")
            self.assertEqual(report.found("memory-limits"), "yes")
        self.assertEqual((report.status, report.found("pids-limits")), (0, "no"))

    def test_read_only_control_groups(self):
        script = ("mount --make-rprivate /; grep -E ' - cgroup2? ' /proc/self/mountinfo | cut -d' ' -f5 |"
                  " while read -r at; do mount -o remount,bind,ro \"$at\"; done; exec \"$@\"")
        report = self.inside(script)
        self.assertEqual((report.status, report.found("cgroup-groups")), (1, "no"), report.rows["cgroup-groups"])
        self.assertIn("cgroup-groups", report.whole["missing"])

    def test_cgroup_parent(self):
        report = self.report("--cgroup-parent", "opensandbox-nowhere/deep")
        self.assertEqual(report.whole["cgroup_parent"], "opensandbox-nowhere/deep")
        self.assertEqual(report.status, 0)
        self.assertEqual(report.found("cgroup-groups"), "yes")
        self.assertIn("opensandbox-nowhere/deep", report.rows["cgroup-groups"]["detail"])

    def test_a_root_without_proc_and_sys(self):
        root = self.folder / "root"
        (root / "usr").mkdir(parents=True)
        (root / "etc").mkdir()
        (root / "tmp").mkdir()
        for name in ("bin", "lib", "lib64", "sbin"):
            (root / name).symlink_to(f"usr/{name}")
        shutil.copy(self.program, root / "launcher")
        script = f"mount --bind /usr {root}/usr; exec chroot {root} /launcher check -o json"
        done = subprocess.run(["unshare", "-m", "sh", "-eu", "-c", script], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        report = Report(done)
        shutil.rmtree(root)
        self.assertEqual(set(report.rows), NAMES)
        self.assertEqual(report.status, 1)
        self.assertTrue({"id-map", "overlay"} <= set(report.whole["missing"]), report.whole["missing"])
        self.assertEqual(report.found("memory"), "unknown")
        self.assertEqual(report.found("mke2fs"), "yes")

    def test_refused_system_calls(self):
        report = self.report(before=[*DENY, "EPERM", "unshare"])
        self.assertEqual(report.status, 1)
        for name in NAMESPACES:
            self.assertEqual(report.found(name), "no", report.rows[name])
        self.assertEqual(report.found("seccomp"), "yes")
        report = self.report(before=[*DENY, "ENOSYS", "close_range,openat2,landlock_create_ruleset"])
        self.assertEqual(report.with_found("no") & {"close-range", "openat2", "landlock", "pidfd"},
                         {"close-range", "openat2", "landlock"})
        self.assertEqual(report.whole["missing"], ["close-range"])
        report = self.report(before=[*DENY, "ENOSYS", "pidfd_open,seccomp,fsopen"])
        self.assertEqual(set(report.whole["missing"]), {"pidfd", "seccomp", "mount-api", "overlay"})

    def test_a_probe_that_hangs_is_given_up(self):
        report = self.report(before=[*DENY, "HANG", "landlock_create_ruleset"])
        self.assertEqual(report.status, 0)
        self.assertEqual(report.found("landlock"), "unknown")
        self.assertIn("no answer within", report.rows["landlock"]["detail"])
        self.assertEqual(report.found("mount-api"), "yes")

    def test_ids_of_others(self):
        passwd = self.folder / "passwd"
        passwd.write_text(Path("/etc/passwd").read_text() + "guest:x:536870999:100::/:/bin/sh\n")
        report = self.inside(f"mount --bind {passwd} /etc/passwd; exec \"$@\"")
        passwd.unlink()
        self.assertEqual((report.status, report.found("id-ranges")), (0, "partly"))
        self.assertIn("'guest'", report.rows["id-ranges"]["detail"])

    def test_no_nft_no_nat(self):
        report = self.inside("for at in /usr/sbin /sbin; do [ ! -e $at/nft ] || mount --bind /dev/null $at/nft;"
                             " done; exec \"$@\"")
        self.assertEqual((report.status, report.found("nft-rules"), report.found("nat")), (0, "no", "no"))
        self.assertIn("nft is not installed", report.rows["nft-rules"]["detail"])
        self.assertIn("nftables", report.rows["nft-rules"]["advice"])
        self.assertIn("nat", report.whole["off"])

    def test_pools_and_name_servers(self):
        address = subprocess.run(["ip", "-4", "-o", "address", "show", "dev", "lo"], stdout=subprocess.PIPE, text=True)
        self.assertIn("127.0.0.1/8", address.stdout)
        report = self.report("--network-pool", "10.77.0.0/28", "--dns", "192.0.2.7", "--dns", "192.0.2.8")
        self.assertIn("10.77.0.0/28 is nobody's, room for 13", report.rows["network-pool"]["detail"])
        self.assertEqual(report.rows["name-servers"]["detail"], "192.0.2.7, 192.0.2.8")
        own = self.folder / "resolv.conf"
        own.write_text("nameserver 127.0.0.53\nnameserver fe80::1\nnameserver 169.254.169.253\n")
        report = self.inside(f"mount --bind {own} /etc/resolv.conf; mount -t tmpfs none /run; exec \"$@\"")
        own.unlink()
        self.assertEqual((report.found("name-servers"), report.found("nat")), ("no", "partly"))
        self.assertIn("--dns", report.rows["name-servers"]["advice"])

    def test_no_mke2fs_no_disk_limits(self):
        report = self.inside("for at in /usr/sbin /sbin; do [ ! -e $at/mke2fs ] || mount --bind /dev/null $at/mke2fs;"
                             " done; exec \"$@\"")
        self.assertEqual(report.found("mke2fs"), "no")
        self.assertEqual(report.found("disk-limits"), "yes" if report.found("project-quota") == "yes" else "no")

    def test_the_state_directory(self):
        strange = os.fsencode(self.state) + b"/a \"b\"\\\n\xff\xc3\xa4/deeper"
        done = self.run_program("--state", strange, "-o", "json")
        report = Report(done)
        self.assertEqual((report.status, report.found("state-directory")), (0, "yes"))
        self.assertTrue(report.whole["state"].endswith("/a \"b\"\\\n\ufffd\u00e4/deeper"))
        done = self.run_program("--state", strange)
        self.assertNotIn(b"\xff", done.stdout)
        report = self.inside(f"mount -t tmpfs -o ro none {self.state}; exec \"$@\"")
        self.assertEqual((report.status, report.found("state-directory")), (1, "no"))
        report = Report(self.run_program("--state", "/dev/null/x", "-o", "json"))
        self.assertEqual((report.status, report.found("state-directory")), (1, "no"))

    def test_usage(self):
        for arguments in (["--state"], ["--state", "relative"], ["-o", "yaml"], ["--cgroup-parent", "../up"],
                          ["--network-pool", "10.0.0.0/30"], ["--dns", "::1"],
                          ["--bogus", "1"], ["more"], ["-o"]):
            done = self.run_program(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, b""), arguments)
            self.assertIn(arguments[0].encode(), done.stderr)
        done = self.run_program("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"Exit status", done.stdout)
        text = subprocess.run([str(self.program), "--help"], stdout=subprocess.PIPE, timeout=60).stdout
        self.assertIn(b"opensandbox-launcher check", text)

    def test_a_report_nobody_can_read(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([str(self.program), "check", "--state", str(self.state)], stdout=full,
                                  stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write the report", done.stderr)


if __name__ == "__main__":
    unittest.main()
