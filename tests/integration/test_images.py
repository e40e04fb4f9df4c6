"""Sandboxes from directory images: bare, odd and hostile ones, other users, and a read-only root."""

import json
import os
import shutil
import socket
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from fresh import base_tree  # noqa: E402
from harness import Server, events_of, text_of, wait_until  # noqa: E402
from images import Images  # noqa: E402
from terminal import Terminal  # noqa: E402

READ_ONLY = "opensandbox.extensions.read-only-root"
WAIT = ["/tool", "wait"]


def upload_body(path, data, first="metadata", **fields):
    parts = {"metadata": ("application/json", json.dumps({"path": path, **fields}).encode()),
             "file": ("application/octet-stream", data)}
    body = b""
    for name in sorted(parts, key=lambda n: n != first):
        kind, content = parts[name]
        body += (f'--b\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
                 f"Content-Type: {kind}\r\n\r\n").encode() + content + b"\r\n"
    return body + b"--b--\r\n", {"Content-Type": "multipart/form-data; boundary=b"}




class ImageTest(unittest.TestCase):
    """One server for a class, whose images set_up() makes."""

    user, workdir = {}, {}

    @classmethod
    def setUpClass(cls):
        cls.images = Images().__enter__()
        cls.addClassCleanup(cls.images.__exit__)
        cls.set_up()
        cls.server = Server(config=cls.images.config(cls.user, cls.workdir))
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def tearDown(self):
        self.server.delete_all()
        launcher = self.server.state / "state/launcher"
        wait_until(lambda: not any(any((launcher / d).iterdir()) for d in ("sandboxes", "loose")),
                   what="nothing is left of the sandboxes")
        wait_until(lambda: not [g for g in self.server.cgroups() if "/slot-" in g], what="no cgroup is left")

    def create(self, image, entrypoint=WAIT, read_only=False, **fields):
        extensions = {READ_ONLY: "true"} if read_only else {}
        return self.server.create(image={"uri": image}, entrypoint=list(entrypoint), extensions=extensions, **fields)

    def refused(self, image, entrypoint=WAIT, status=400, **fields):
        answer = self.server.request("POST", "/v1/sandboxes", {
            "image": {"uri": image}, "entrypoint": list(entrypoint), "resourceLimits": {}, **fields})
        self.assertEqual(answer.status, status, answer)
        return answer.json()["message"]

    def argv(self, box, *words, **fields):
        """stdout of a program that must succeed."""
        answer = box.request("POST", "/command", {"argv": list(words), **fields})
        self.assertEqual(answer.status, 200, answer)
        events = events_of(answer.body)
        self.assertEqual(events[-1]["type"], "execution_complete", events)
        return "\n".join(text_of(events))

    def upload(self, box, path, data=b"data\n", status=200, first="metadata", **fields):
        body, headers = upload_body(path, data, first, **fields)
        answer = box.request("POST", "/files/upload", body, headers)
        self.assertEqual(answer.status, status, answer)
        return answer

    def info(self, box, path):
        return box.request("GET", f"/files/info?path={path}").json()[path]

    def terminal(self, box, session):
        sock = socket.create_connection(("127.0.0.1", self.server.port), timeout=20)
        self.addCleanup(sock.close)
        return Terminal(None, session, "", sock, prefix=box.prefix, headers=box.headers)

    def round_trip(self, box, path="/made/by/api"):
        for first in ("metadata", "file"):
            self.upload(box, path, b"hello\n", first=first)
            answer = box.request("GET", f"/files/download?path={path}")
            self.assertEqual((answer.status, answer.body), (200, b"hello\n"))


class Small(ImageTest):
    user = {"bare-user": "1000:1001", "box-user": "4242", "unknown": "somebody", "unknown-group": "0:people"}
    workdir = {"bare-user": "/data/here", "musl": "/", "in-the-way": "/tool/x"}

    @classmethod
    def set_up(cls):
        bare = cls.images.bare("bare")
        for name in ("bare-user", "unknown", "unknown-group", "in-the-way"):
            cls.images.add(name, bare)
        cls.images.musl("musl")
        box = cls.images.busybox("box")
        cls.images.add("box-user", box)

    def test_one_program_only(self):
        box = self.create("bare")
        self.assertEqual(self.argv(box, "/tool", "who"), "uid=0 gid=0 groups= cwd=/ HOME=/ USER=-")
        self.round_trip(box)
        self.assertEqual(self.argv(box, "/tool", "show", "/etc/hostname"), "sandbox")
        self.assertRegex(self.argv(box, "/tool", "show", "/etc/hosts"), r"localhost(?s:.*)127.0.1.1\s+sandbox$")
        self.assertIn("no name servers", self.argv(box, "/tool", "show", "/etc/resolv.conf"))
        self.assertIn("tmpfs", self.argv(box, "/tool", "show", "/proc/mounts"))
        box.delete()

    def test_without_a_shell(self):
        box = self.create("bare")
        for path, body in (("/command", {"command": "true"}), ("/command", {"command": "true", "background": True})):
            self.assertIn("bash or sh", box.request("POST", path, body).body.decode())
        answer = box.request("POST", "/session", {})
        self.assertGreaterEqual(answer.status, 400, answer)
        self.assertIn("bash", answer.json()["message"])
        session = box.request("POST", "/pty", {}).json()["session_id"]
        self.assertIn("cannot execute sh", self.terminal(box, session).expect_error("START_FAILED"))
        self.assertEqual(self.argv(box, "/tool", "who")[:5], "uid=0")

    def test_entrypoint_that_is_not_there(self):
        self.assertIn("No such file", self.refused("bare", ["sleep", "1000"]))
        self.create("bare", entrypoint=["tail", "-f", "/dev/null"])  # needs no file of the image

    def test_musl(self):
        box = self.create("musl")
        self.assertEqual(self.argv(box, "/tool", "who"), "uid=0 gid=0 groups= cwd=/ HOME=/ USER=-")
        self.round_trip(box)

    def test_user_without_passwd(self):
        box = self.create("bare-user")
        self.assertEqual(self.argv(box, "/tool", "who"),
                         "uid=1000 gid=1001 groups= cwd=/data/here HOME=/ USER=-")
        self.assertEqual(self.argv(box, "/tool", "who", uid=7, gid=8, cwd="/"),
                         "uid=7 gid=8 groups= cwd=/ HOME=/ USER=-")
        self.upload(box, "/data/here/file")
        info = self.info(box, "/data/here/file")
        self.assertEqual((info["owner"], info["group"]), ("1000", "1001"))
        info = self.info(box, "/data/here")
        self.assertEqual((info["owner"], info["group"]), ("1000", "1001"))

    def test_unknown_user_leaves_nothing(self):
        self.assertIn("somebody", self.refused("unknown"))
        self.assertIn("people", self.refused("unknown-group"))
        self.assertIn("/tool", self.refused("in-the-way"))
        self.assertEqual(self.server.request("GET", "/v1/sandboxes").json()["items"], [])

    def test_busybox(self):
        box = self.create("box", ["tail", "-f", "/dev/null"])
        self.assertEqual(box.output("echo $((6*7)); id -u; ls /etc"), "42\n0\nhostname\nhosts\nresolv.conf")
        self.assertEqual(box.output("mkdir /x && echo y > /x/y && cat /x/y"), "y")
        self.round_trip(box)
        other = self.create("box", ["tail", "-f", "/dev/null"])
        self.assertEqual(other.output("ls -d /x || echo none"), "none")
        box.delete()
        self.assertFalse((self.images.trees["box"] / "x").exists())

    def test_busybox_as_a_user(self):
        box = self.create("box-user", ["tail", "-f", "/dev/null"])
        self.assertEqual(box.output("id -u; id -g; echo $HOME; cd /; touch /x 2>/dev/null || echo refused"),
                         "4242\n4242\n/\nrefused")
        answer = box.request("POST", "/directories", {"/made": {}})
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(box.output("touch /made/x; stat -c '%u:%g' /made /made/x"), "4242:4242\n4242:4242")

    def test_terminal_as_a_user(self):
        box = self.create("box-user", ["tail", "-f", "/dev/null"])
        session = box.request("POST", "/pty", {}).json()["session_id"]
        terminal = self.terminal(box, session).greeted()
        terminal.type("id -u; stat -c %u $(tty); exit\n")
        terminal.expect(b"4242")
        terminal.expect(b"4242")

    def test_not_found_names_what_there_is(self):
        answer = self.server.request("POST", "/v1/sandboxes", {
            "image": {"uri": "nope"}, "entrypoint": WAIT, "resourceLimits": {}})
        self.assertEqual((answer.status, answer.json()["code"]), (400, "SANDBOX::IMAGE_NOT_FOUND"))
        self.assertIn('"bare"', answer.json()["message"])


class Debian(ImageTest):
    user = {"as-nobody": "nobody", "as-number": "1000:1000", "as-group": "www-data:audio"}
    workdir = {"as-number": "/work", "as-nobody": "/tmp"}

    @classmethod
    def set_up(cls):
        for name in ("debian", *cls.user):
            cls.images.add(name, base_tree())

    def test_root(self):
        box = self.create("debian", ["sleep", "infinity"])
        self.assertEqual(box.output("id -u; echo $HOME; cut -c1-2 /etc/debian_version; stat -c %a:%G /etc/shadow"),
                         "0\n/root\n12\n640:shadow")
        self.assertEqual(box.output("useradd -m me && su me -c 'id -un'"), "me")
        self.round_trip(box)
        session = box.request("POST", "/session", {}).json()["session_id"]
        events = events_of(box.request("POST", f"/session/{session}/run", {"command": "pwd"}).body)
        self.assertEqual(text_of(events), ["/"])

    def test_nobody(self):
        box = self.create("as-nobody", ["sh", "-c", "id -un > /tmp/who; exec sleep infinity"])
        self.assertEqual(box.output("id -un; id -gn; echo $HOME $USER; pwd; cat /etc/shadow 2>&1 | tail -c 18"),
                         "nobody\nnogroup\n/nonexistent nobody\n/tmp\nPermission denied")
        self.assertEqual(box.output("until [ -s /tmp/who ]; do sleep 0.01; done; cat /tmp/who"), "nobody")
        session = box.request("POST", "/session", {}).json()["session_id"]
        events = events_of(box.request("POST", f"/session/{session}/run", {"command": "id -un; pwd"}).body)
        self.assertEqual(text_of(events), ["nobody", "/tmp"])
        self.upload(box, "/tmp/mine")
        self.assertEqual(self.info(box, "/tmp/mine")["owner"], "nobody")

    def test_number(self):
        box = self.create("as-number", ["sleep", "infinity"])
        self.assertEqual(box.output("id; pwd; echo $HOME; stat -c %u:%g .; touch here && echo wrote"),
                         "uid=1000 gid=1000 groups=1000\n/work\n/\n1000:1000\nwrote")

    def test_name_and_group(self):
        box = self.create("as-group", ["sleep", "infinity"])
        self.assertEqual(box.output("id -un; id -gn; echo $HOME"), "www-data\naudio\n/var/www")


class ReadOnly(ImageTest):
    user = {"box-user": "1000"}
    workdir = {"no-workdir": "/absent"}

    @classmethod
    def set_up(cls):
        box = cls.images.busybox("box")
        cls.images.add("box-user", box)
        cls.images.add("no-workdir", box)

    def check(self, box):
        for path in ("/file", "/etc/file", "/bin/file"):
            self.assertIn("Read-only file system", box.output(f"touch {path} 2>&1 || true"), path)
        for path in ("/tmp", "/var/tmp", "/run", "/dev/shm"):
            self.assertEqual(box.output(f"echo kept > {path}/file && cat {path}/file"), "kept", path)
        self.assertEqual(box.output("stat -c %a:%u /tmp /var/tmp /run /run/lock"), "1777:0\n1777:0\n755:0\n1777:0")
        answer = self.upload(box, "/etc/from-api", status=500)
        self.assertIn("Read-only file system", answer.json()["message"])
        answer = self.upload(box, "/new/dir/from-api", status=500)
        self.assertIn("Read-only file system", answer.json()["message"])
        self.round_trip(box, "/tmp/from-api")
        self.assertEqual(box.output("cat /etc/hostname"), "sandbox")

    def test_busybox(self):
        self.check(self.create("box", ["tail", "-f", "/dev/null"], read_only=True))

    def test_host(self):
        box = self.create("host", ["tail", "-f", "/dev/null"], read_only=True)
        self.check(box)
        for path in ("/usr/bin/x", "/usr/local/x", "/root/x", "/home/x"):
            self.assertIn("Read-only file system", box.output(f"touch {path} 2>&1 || true"), path)
        self.assertEqual(box.output("seq 200000 | tail -1"), "200000")
        self.assertEqual(box.output("python3 -c 'import tempfile; print(tempfile.mkdtemp()[:5])'"), "/tmp/")

    def test_root_cannot_make_it_writable(self):
        box = self.create("box", ["tail", "-f", "/dev/null"], read_only=True)
        self.assertNotIn("done", box.output("mount -o remount,rw / 2>&1 && echo done; umount /tmp 2>&1 && echo done; true"))
        self.assertIn("Read-only", box.output("mkdir /x 2>&1 || true"))

    def test_memory_is_bounded(self):
        box = self.create("host", ["tail", "-f", "/dev/null"], read_only=True)
        for path in ("/tmp", "/var/tmp", "/run"):
            self.assertIn("No space left", box.output(f"head -c 70000000 /dev/zero 2>&1 > {path}/big || true; "
                                                      f"head -c 70000000 /dev/zero 2>&1 >> {path}/big || true"))
            self.assertLessEqual(int(box.output(f"stat -c %s {path}/big")), 64 << 20)
            box.output(f"rm {path}/big")

    def test_memory_is_charged(self):
        box = self.create("host", ["tail", "-f", "/dev/null"], read_only=True, resourceLimits={"memory": "256Mi"})
        before = box.request("GET", "/metrics").json()["mem_used_mib"]
        for path in ("/tmp", "/var/tmp", "/run"):
            box.output(f"head -c 30M /dev/zero > {path}/big")
        self.assertGreater(box.request("GET", "/metrics").json()["mem_used_mib"], before + 85)

    def test_with_a_disk_limit(self):
        for image in ("box", "host"):
            box = self.create(image, ["tail", "-f", "/dev/null"], read_only=True, resourceLimits={"disk": "32Mi"})
            self.assertIn("Read-only", box.output("touch /x 2>&1 || true"))
            box = self.create(image, ["tail", "-f", "/dev/null"], resourceLimits={"disk": "32Mi"})
            self.assertRegex(box.output("dd if=/dev/zero of=/big bs=1M count=64 2>&1 || true"),
                         "No space left|Disk quota exceeded")
            self.assertLessEqual(int(box.output("stat -c %s /big")), 32 << 20)

    def test_large_output(self):
        """What a command writes is recorded although the root cannot be written."""
        box = self.create("box", ["tail", "-f", "/dev/null"], read_only=True)
        events = events_of(box.request("POST", "/command", {"command": "seq 100000", "background": True}).body)
        command = events[0]["text"]
        events = events_of(box.request("GET", f"/command/{command}/stream?offset=0").body)
        self.assertEqual(text_of(events)[-1], "100000")

    def test_as_a_user(self):
        box = self.create("box-user", ["tail", "-f", "/dev/null"], read_only=True)
        self.assertEqual(box.output("id -u; touch /tmp/x /var/tmp/x && echo wrote; touch /run/x 2>/dev/null || echo refused"),
                         "1000\nwrote\nrefused")

    def test_writable_neighbour(self):
        box = self.create("box", ["tail", "-f", "/dev/null"])
        self.assertEqual(box.output("echo x > /x && cat /x"), "x")

    def test_workdir_that_cannot_be_made(self):
        message = self.refused("no-workdir", ["tail", "-f", "/dev/null"], extensions={READ_ONLY: "true"})
        self.assertIn("Read-only file system", message)
        self.assertIn("workdir", message)

    def test_what_is_refused(self):
        for value in ("yes", "", "TRUE", "1"):
            self.assertIn("true", self.refused("box", extensions={READ_ONLY: value}))
        self.assertIn("string", self.refused("box", extensions={READ_ONLY: True}))
        box = self.create("box", ["tail", "-f", "/dev/null"], read_only=False)
        self.assertEqual(box.output("echo x > /x && cat /x"), "x")


# What an image may have where directories of ours belong. `{host}` is a directory of the host.
PLACES = ("proc", "dev", "sys", "tmp", "run", "var", "etc")
ODDITIES = {
    "to-root": lambda path, host: os.symlink("/", path),
    "up": lambda path, host: os.symlink("../../../../../..", path),
    "to-host": lambda path, host: os.symlink(host, path),
    "to-itself": lambda path, host: os.symlink(path.name, path),
    "file": lambda path, host: path.write_text("a file\n"),
    "fifo": lambda path, host: os.mkfifo(path),
    "device": lambda path, host: os.mknod(path, 0o600 | 0o060000, os.makedev(7, 0)),
}


class Hostile(ImageTest):
    @classmethod
    def set_up(cls):
        cls.host = Path(tempfile.mkdtemp(prefix="osb-test-host-"))
        cls.addClassCleanup(shutil.rmtree, cls.host)
        cls.host.chmod(0o777)
        for name in ("etc", "proc", "tmp", "var"):
            (cls.host / name).mkdir()
        source = cls.images.busybox("plain")
        for name, make in ODDITIES.items():
            tree = cls.images.tree(name)
            os.link(source / "bin/busybox", tree / "busybox")
            (tree / "busybox").chmod(0o4755)
            for place in PLACES:
                make(tree / place, cls.host)
            inner = cls.images.tree(f"{name}-inside")
            os.link(source / "bin/busybox", inner / "busybox")
            (inner / "etc").mkdir()
            (inner / "var").mkdir()
            for place in ("etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/passwd", "etc/group", "var/tmp"):
                make(inner / place, cls.host)
        tree = cls.images.busybox("nodes")
        os.mknod(tree / "null", 0o666 | 0o020000, os.makedev(1, 3))
        os.mknod(tree / "disk", 0o666 | 0o060000, os.makedev(7, 0))
        os.mknod(tree / "whiteout", 0o666 | 0o020000, os.makedev(0, 0))
        shutil.copy(tree / "bin/busybox", tree / "busybox.setuid")  # it goes by names that begin so
        (tree / "busybox.setuid").chmod(0o6755)
        for name in ("crowd", "crowd-far", "minus-one", "endless"):
            tree = cls.images.busybox(name)
            (tree / "etc").mkdir()
        many = "".join(f"user{i}:x:{i}:{i}::/home/user{i}:/bin/sh\n" for i in range(1, 30000))
        (cls.images.trees["crowd"] / "etc/passwd").write_text(many)
        (cls.images.trees["crowd-far"] / "etc/passwd").write_text(many * 5)
        (cls.images.trees["minus-one"] / "etc/passwd").write_text("minus:x:4294967295:4294967295::/:\n")
        with open(cls.images.trees["endless"] / "etc/passwd", "wb") as passwd:
            passwd.truncate(1 << 40)
        cls.user = {"crowd": "user29999", "crowd-far": "user7", "minus-one": "minus", "endless": "root"}

    def tearDown(self):
        super().tearDown()
        left = sorted(str(p.relative_to(self.host)) for p in self.host.rglob("*"))
        self.assertEqual(left, ["etc", "proc", "tmp", "var"])

    def shell(self, box, script):
        return self.argv(box, "/busybox", "sh", "-c", script)

    def test_odd_places(self):
        for name in ODDITIES:
            for read_only in (False, True):
                with self.subTest(image=name, read_only=read_only):
                    box = self.create(name, ["/busybox", "sleep", "1000000"], read_only=read_only)
                    self.assertEqual(self.shell(box, "cd /proc/self && /busybox cat comm"), "busybox")
                    self.assertEqual(self.shell(box, "echo x > /dev/null; for p in proc dev sys; do "
                                                     "/busybox stat -c %F /$p; done"), "\n".join(["directory"] * 3))
                    self.assertNotEqual(self.shell(box, "/busybox stat -c %F /etc"), "directory")  # as it was
                    if read_only:
                        self.assertEqual(self.shell(box, "echo t > /tmp/f; echo r > /run/f; /busybox cat /tmp/f /run/f"),
                                         "t\nr")
                    else:
                        self.round_trip(box)
                    box.delete()

    def test_odd_files_in_etc(self):
        for name in ODDITIES:
            for read_only in (False, True):
                with self.subTest(image=name, read_only=read_only):
                    box = self.create(f"{name}-inside", ["/busybox", "sleep", "1000000"], read_only=read_only)
                    self.assertRegex(self.shell(box, "/busybox cat /etc/hostname /etc/hosts"),
                                     r"^sandbox\n127.0.0.1\s+localhost\n")
                    self.assertEqual(self.shell(box, "/busybox stat -c %F /etc/hosts"), "regular file")
                    if read_only:
                        self.assertEqual(self.shell(box, "echo v > /var/tmp/f; /busybox cat /var/tmp/f"), "v")
                    box.delete()

    def test_nothing_of_the_host(self):
        for name in ("to-root", "up", "to-host"):
            box = self.create(name, ["/busybox", "sleep", "1000000"])
            text = self.shell(box, f"/busybox ls /etc/shadow /etc/../{self.host} {self.host} 2>&1; true")
            self.assertNotIn("/etc/shadow\n", text + "\n")
            self.assertNotIn("proc", text.replace("/proc", ""))
            box.delete()

    def test_devices_and_set_id(self):
        box = self.create("nodes", ["tail", "-f", "/dev/null"])
        self.assertIn("Permission denied", box.output("cat /null 2>&1 || true"))
        self.assertIn("Permission denied", box.output("cat /disk 2>&1 || true"))
        self.assertEqual(self.argv(box, "/busybox.setuid", "id", "-u", uid=1000), "1000")
        self.assertEqual(box.output("mknod /tmpnode c 1 3 2>/dev/null && echo made || echo refused"), "refused")

    def test_large_and_wrong_databases(self):
        box = self.create("crowd", ["tail", "-f", "/dev/null"])
        self.assertEqual(box.output("id -u; echo $HOME $USER"), "29999\n/home/user29999 user29999")
        self.assertIn("user7", self.refused("crowd-far", ["tail", "-f", "/dev/null"]))
        self.assertIn("minus", self.refused("minus-one", ["tail", "-f", "/dev/null"]))
        self.assertIn("root", self.refused("endless", ["tail", "-f", "/dev/null"]))


class Directories(unittest.TestCase):
    """Which directories the launcher takes."""

    def setUp(self):
        self.images = Images().__enter__()
        self.addCleanup(self.images.__exit__)

    def start(self):
        server = Server(config=self.images.config(slots=2))
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def message(self, server, image, status=500):
        answer = server.request("POST", "/v1/sandboxes", {
            "image": {"uri": image}, "entrypoint": WAIT, "resourceLimits": {}})
        self.assertEqual(answer.status, status, answer)
        return answer.json()["message"]

    def test_unusable_ones(self):
        good = self.images.bare("good")
        open_tree = self.images.tree("open")
        open_tree.chmod(0o775)
        self.images.tree("owned")
        os.chown(self.images.trees["owned"], 1000, 0)
        os.symlink(good, self.images.folder / "link")
        self.images.add("link", self.images.folder / "link")
        parent = self.images.folder / "parent"
        (parent / "tree").mkdir(parents=True)
        parent.chmod(0o777)
        self.images.add("parent", parent / "tree")
        (self.images.folder / "file").write_text("")
        self.images.add("file", self.images.folder / "file")
        os.symlink(self.images.folder, self.images.folder / "way")
        self.images.add("way", self.images.folder / "way/good")
        self.images.add("absent", self.images.folder / "absent")
        server = self.start()
        for name, text in (("open", "0775"), ("owned", "user 1000"), ("link", "links are not followed"),
                           ("parent", "0777"), ("file", "not a directory"), ("way", "links are not followed"),
                           ("absent", "No such file")):
            with self.subTest(name):
                self.assertIn(text, self.message(server, name))
        box = server.create(image={"uri": "good"}, entrypoint=WAIT)
        box.delete()
        os.mkdir(self.images.folder / "absent")  # later is early enough
        shutil.copy(good / "tool", self.images.folder / "absent/tool")
        server.create(image={"uri": "absent"}, entrypoint=WAIT).delete()
        shutil.rmtree(self.images.folder / "absent")  # and anew
        os.mkdir(self.images.folder / "absent")
        shutil.copy(good / "tool", self.images.folder / "absent/tool")
        server.create(image={"uri": "absent"}, entrypoint=WAIT).delete()

    def test_launcher_with_other_images(self):
        self.images.bare("first")
        server = self.start()
        box = server.create(image={"uri": "first"}, entrypoint=WAIT)  # keeps the launcher alive
        self.images.bare("second")
        server.config = self.images.config()
        server.restart()
        message = self.message(server, "second", 400)
        self.assertIn("no image 'second'", message)
        self.assertIn("host, first", message)
        self.assertEqual(server.request("GET", f"/v1/sandboxes/{box.id}").json()["status"]["state"], "Running")


if __name__ == "__main__":
    unittest.main()
