"""Everything of execd's file API that changes, finds and lists: delete, permissions, mv, replace, search, directories."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from execd import BINARY, SANITIZED, WAIT, Execd, ExecdCase, multipart, wait_until  # noqa: E402

ROOT = os.geteuid() == 0
FIELDS = {"path", "type", "size", "modified_at", "created_at", "owner", "group", "mode"}


def other_file_system():
    """A folder on another file system than the scratch folders (in memory: fast), or None."""
    for folder in ("/dev/shm", "/run"):
        if (os.path.isdir(folder) and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 1 << 30 and
                os.stat(folder).st_dev != os.stat(tempfile.gettempdir()).st_dev):
            return folder
    return None


class Case(ExecdCase):
    def query(self, route, paths, **options):
        pairs = [("path", p) for p in paths] + list(options.items())
        return route + "?" + urllib.parse.urlencode(pairs)

    def assert_done(self, method, route, value=None, body=b""):
        """200 without a body, which some clients only take with a length."""
        status, response, data = self.execd.request(method, route, None if value is None else json.dumps(value))
        self.assertEqual((status, data), (200, body), data)
        self.assertEqual(response.getheader("Content-Length"), str(len(body)))

    def names(self):
        found = []
        for folder, folders, files in os.walk(self.folder):
            found += [os.path.relpath(os.path.join(folder, name), self.folder) for name in folders + files]
        return sorted(found)

    def use_fast_folder(self):
        """For tests with very many files: disks of busy machines make a hundred a second."""
        if other_file_system():
            self.folder = tempfile.mkdtemp(prefix="osb-execd-test-", dir=other_file_system())
            self.addCleanup(subprocess.run, ["rm", "-rf", self.folder], check=False)  # any depth

    def make(self, *names):
        """Files, and folders when the name ends with a slash, with what is above them."""
        for name in names:
            os.makedirs(os.path.dirname(self.file(name)), exist_ok=True)
            if not name.endswith("/"):
                self.write(name, name.encode())

    def mode(self, name):
        return stat.S_IMODE(os.lstat(self.file(name)).st_mode)


class Delete(Case):
    def delete(self, *names):
        return self.query("/files", [self.file(n) for n in names])

    def test_files_links_and_what_is_not_there(self):
        self.make("a", "b", "folder/c")
        os.symlink("nowhere", self.file("dangling"))
        os.symlink("folder", self.file("to-folder"))
        os.symlink("a", self.file("to-file"))
        os.mkfifo(self.file("fifo"))
        self.assert_done("DELETE", self.delete("b", "dangling", "to-folder", "to-file", "fifo", "not-there", "a/x"))
        self.assertEqual(self.names(), ["a", "folder", "folder/c"])

    def test_none(self):
        self.assert_done("DELETE", "/files")

    def test_directory(self):
        self.make("a", "folder/", "z")
        self.assert_error(self.execd.json("DELETE", self.delete("a", "folder", "z")), 500, "RUNTIME_ERROR", "directory")
        self.assertEqual(self.names(), ["folder", "z"], "in order, up to the one that failed")

    def test_expanded_paths(self):
        self.make("a")
        execd = Execd(env={"WHERE": self.folder})
        try:
            self.assertEqual(execd.request("DELETE", "/files?path=%24WHERE%2Fa")[0], 200)
        finally:
            execd.stop()
        self.assertEqual(self.names(), [])


class Permissions(Case):
    def change(self, values):
        self.assert_done("POST", "/files/permissions", {self.file(k): v for k, v in values.items()})

    def test_modes(self):
        self.make("a", "folder/")
        for digits, mode in ((755, 0o755), (644, 0o644), (7, 0o007), (4711, 0o711)):
            self.change({"a": {"mode": digits}, "folder": {"mode": digits}})
            self.assertEqual((self.mode("a"), self.mode("folder")), (mode, mode))
        for nothing in ({}, {"mode": 0}, {"mode": None, "owner": None, "group": None}, None,
                        {"owner": "", "group": ""}, {"other": 5}):
            self.change({"a": nothing})
            self.assertEqual(self.mode("a"), 0o711)

    def test_links_are_followed(self):
        self.make("a")
        os.symlink("a", self.file("link"))
        self.change({"link": {"mode": 600}})
        self.assertEqual(self.mode("a"), 0o600)
        os.symlink("nowhere", self.file("dangling"))
        self.assert_error(self.execd.json("POST", "/files/permissions", {self.file("dangling"): {"mode": 600}}), 404,
                          "FILE_NOT_FOUND")

    @unittest.skipUnless(ROOT, "needs root")
    def test_owners(self):
        self.make("a")
        for value, expected in (({"owner": "nobody"}, (65534, 0)), ({"group": "nogroup"}, (65534, 65534)),
                                ({"owner": "1234", "group": "2345", "mode": 640}, (1234, 2345)),
                                ({"owner": "root", "group": "root"}, (0, 0))):
            self.change({"a": value})
            st = os.stat(self.file("a"))
            self.assertEqual((st.st_uid, st.st_gid), expected)
        self.assertEqual(self.mode("a"), 0o640)

    def test_mistakes_change_nothing(self):
        self.make("a")
        before = self.mode("a")
        good = {self.file("a"): {"mode": 777}}
        for bad, status, code, text in (({self.file("b"): {"mode": 700}}, 404, "FILE_NOT_FOUND", self.file("b")),
                                        ({self.file("b"): {"owner": "no-such-user"}}, 400, "INVALID_REQUEST_BODY",
                                         "no-such-user"),
                                        ({self.file("b"): {"group": "-1"}}, 400, "INVALID_REQUEST_BODY", "-1")):
            self.assert_error(self.execd.json("POST", "/files/permissions", {**good, **bad}), status, code, text)
        self.assertEqual(self.mode("a"), before)


class Move(Case):
    def move(self, *pairs):
        return [{"src": self.file(a), "dest": self.file(b)} for a, b in pairs]

    def assert_moved(self, *pairs):
        self.assert_done("POST", "/files/mv", self.move(*pairs))

    def test_moves(self):
        self.make("a", "b", "folder/x", "empty/")
        os.symlink("nowhere", self.file("link"))
        self.assert_moved(("a", "a2"), ("b", "made/on/the/way/b"), ("folder", "other"), ("link", "link2"),
                          ("a2", "a3"), ("empty", "other/empty"))
        self.assertEqual(self.names(), ["a3", "link2", "made", "made/on", "made/on/the", "made/on/the/way",
                                        "made/on/the/way/b", "other", "other/empty", "other/x"])
        self.assertEqual(os.readlink(self.file("link2")), "nowhere")
        self.assert_done("POST", "/files/mv", [])

    def test_nothing_is_replaced(self):
        self.make("a", "b", "folder/", "full/x")
        os.symlink("nowhere", self.file("dangling"))
        before = self.names()
        for source, dest in (("a", "b"), ("a", "a"), ("a", "folder"), ("a", "dangling"), ("folder", "full"),
                             ("folder", "b")):
            self.assert_error(self.execd.json("POST", "/files/mv", self.move((source, dest))), 409, "RUNTIME_ERROR",
                              "exists")
        self.assertEqual(self.names(), before)
        self.assertEqual((self.read("a"), self.read("b")), (b"a", b"b"))

    def test_mistakes(self):
        self.make("a", "folder/x")
        self.assert_error(self.execd.json("POST", "/files/mv", self.move(("x", "new/y"))), 404, "FILE_NOT_FOUND",
                          self.file("x"))
        self.assert_error(self.execd.json("POST", "/files/mv", self.move(("folder", "folder/new/y"))), 400,
                          "INVALID_REQUEST_BODY", "into itself")
        self.assert_error(self.execd.json("POST", "/files/mv", self.move(("folder", "a/b"))), 409, "RUNTIME_ERROR")
        self.assertEqual(self.execd.json("POST", "/files/mv", [{"src": "/", "dest": self.file("root")}])[0] // 100, 4)
        self.assertEqual(self.names(), ["a", "folder", "folder/x"])
        self.assert_error(self.execd.json("POST", "/files/mv", self.move(("a", "b"), ("x", "y"), ("folder", "z"))), 404,
                          "FILE_NOT_FOUND")
        self.assertEqual(self.names(), ["b", "folder", "folder/x"], "in order, up to the one that failed")

    @unittest.skipUnless(other_file_system(), "there is only one file system")
    def test_to_another_file_system(self):
        other = tempfile.mkdtemp(prefix="osb-execd-test-", dir=other_file_system())
        self.addCleanup(shutil.rmtree, other, True)
        self.make("tree/a", "tree/sub/b", "tree/sub/sub2/", "single")
        with open(self.file("tree/holes"), "wb") as file:
            file.truncate(1 << 30)
            file.seek(500 << 20)
            file.write(b"data in the middle")
        os.symlink("sub/b", self.file("tree/link"))
        os.mkfifo(self.file("tree/fifo"))
        os.chmod(self.file("tree/a"), 0o4751)
        if ROOT:
            os.chown(self.file("tree/sub"), 1234, 2345)
            os.lchown(self.file("tree/link"), 1234, 2345)
        os.chmod(self.file("tree/sub"), 0o1710)
        for name in ("tree/a", "tree/link", "tree/sub", "tree"):
            os.utime(self.file(name), ns=(1_600_000_000_000_000_000, 1_700_000_000_123_456_000),
                     follow_symlinks=False)

        def describe(top):
            found = {}
            for folder, folders, files in os.walk(top):
                for name in [*folders, *files, "."]:
                    path = os.path.join(folder, name)
                    st = os.lstat(path)
                    found[os.path.relpath(path, top)] = (stat.filemode(st.st_mode), st.st_uid, st.st_gid,
                                                         0 if stat.S_ISDIR(st.st_mode) else st.st_size)
            return found
        before = describe(self.file("tree"))
        self.assert_done("POST", "/files/mv", [{"src": self.file("tree"), "dest": other + "/new/tree"},
                                               {"src": self.file("single"), "dest": other + "/single"}])
        self.assertEqual(self.names(), [])
        self.assertEqual(describe(other + "/new/tree"), before)
        self.assertEqual(sorted(os.listdir(other)), ["new", "single"])
        self.assertEqual(os.listdir(other + "/new"), ["tree"], "no temporary name is left")
        for name in ("a", "link", "sub", "."):
            self.assertEqual(os.lstat(other + "/new/tree/" + name).st_mtime_ns, 1_700_000_000_123_456_000, name)
        self.assertLess(os.stat(other + "/new/tree/holes").st_blocks * 512, 64 << 20)
        with open(other + "/new/tree/holes", "rb") as file:
            file.seek(500 << 20)
            self.assertEqual(file.read(18), b"data in the middle")
        self.make("again")
        self.assert_error(self.execd.json("POST", "/files/mv", [{"src": self.file("again"), "dest": other + "/single"}]),
                          409, "RUNTIME_ERROR", "exists")
        self.assertEqual(self.names(), ["again"])


class Replace(Case):
    def replace(self, values, query=""):
        return self.execd.json("POST", "/files/replace" + query,
                               {self.file(k): {"old": o, "new": n} for k, (o, n) in values.items()})

    def test_counts(self):
        self.write("a", b"one two one\n")
        self.write("b", b"nothing here")
        self.assertEqual(self.replace({"a": ("one", "three"), "b": ("x", "y")}, "?verbose=true"),
                         (200, {self.file("a"): {"replacedCount": 2}, self.file("b"): {"replacedCount": 0}}))
        self.assertEqual(self.read("a"), b"three two three\n")
        self.assertEqual(self.replace({"a": ("three", "")}), (200, {}))
        self.assertEqual(self.replace({"a": (" two ", "2")}, "?verbose=false"), (200, {}))
        self.assertEqual(self.read("a"), b"2\n")

    def test_keys_are_those_of_the_request(self):
        self.write("a", b"x")
        execd = Execd(env={"WHERE": self.folder})
        try:
            for key in ("$WHERE/a", self.folder + "//a"):
                self.assertEqual(execd.json("POST", "/files/replace?verbose=1", {key: {"old": "x", "new": "x"}}),
                                 (200, {key: {"replacedCount": 1}}))
        finally:
            execd.stop()

    def test_bytes(self):
        self.write("a", b"\xff\x00old\xfeold\x00")
        self.assertEqual(self.replace({"a": ("old", "n\u00e4w")})[0], 200)
        self.assertEqual(self.read("a"), b"\xff\x00n\xc3\xa4w\xfen\xc3\xa4w\x00")

    def test_mode_and_owner_stay(self):
        self.write("a", b"old")
        if ROOT:
            os.chown(self.file("a"), 1234, 2345)
        os.chmod(self.file("a"), 0o640)
        self.replace({"a": ("old", "new")})
        st = os.stat(self.file("a"))
        self.assertEqual(stat.S_IMODE(st.st_mode), 0o640)
        if ROOT:
            self.assertEqual((st.st_uid, st.st_gid), (1234, 2345))
        self.assertEqual(self.names(), ["a"], "no temporary file is left")

    def test_without_a_match_the_file_is_not_touched(self):
        self.write("a", b"text")
        os.utime(self.file("a"), ns=(0, 1_000_000_000))
        before = os.stat(self.file("a"))
        self.assertEqual(self.replace({"a": ("z", "y")}), (200, {}))
        after = os.stat(self.file("a"))
        self.assertEqual((after.st_ino, after.st_mtime_ns, after.st_ctime_ns),
                         (before.st_ino, before.st_mtime_ns, before.st_ctime_ns))

    def test_through_links(self):
        self.write("a", b"old")
        os.symlink("a", self.file("link"))
        self.replace({"link": ("old", "new")})
        self.assertEqual(self.read("a"), b"new")
        self.assertTrue(os.path.islink(self.file("link")))

    def test_the_same_file_twice(self):
        self.write("a", b"one two")
        os.symlink("a", self.file("link"))
        self.assertEqual(self.replace({"a": ("one", "1"), "link": ("two", "2")})[0], 200)
        self.assertEqual(self.read("a"), b"1 2")

    def test_mistakes(self):
        self.write("a", b"old")
        os.mkdir(self.file("folder"))
        os.mkfifo(self.file("fifo"))
        self.assert_error(self.replace({"x": ("a", "b")}), 404, "FILE_NOT_FOUND", self.file("x"))
        self.assert_error(self.replace({"folder": ("a", "b")}), 400, "INVALID_REQUEST_BODY", "directory")
        self.assert_error(self.replace({"fifo": ("a", "b")}), 400, "INVALID_REQUEST_BODY", "regular")
        self.assert_error(self.replace({"a": ("", "b")}), 400, "INVALID_REQUEST_BODY", "`old`")
        self.assert_error(self.replace({"a": ("o", "b")}, "?verbose=perhaps"), 400, "INVALID_REQUEST_BODY", "perhaps")
        self.assertEqual(self.read("a"), b"old")

    def test_client_that_leaves(self):
        """A file that would take an hour to read is let go of, and nothing of it is changed."""
        with open(self.file("big"), "wb") as file:
            file.write(b"old")
            file.truncate(1 << 42)
        body = json.dumps({self.file("big"): {"old": "old", "new": "new"}}).encode()
        sock = socket.create_connection(("127.0.0.1", self.execd.port), timeout=WAIT)
        sock.sendall(b"POST /files/replace HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        wait_until(lambda: len(self.names()) == 2, "temporary file")
        sock.close()
        wait_until(lambda: self.names() == ["big"], "cleaning up")
        with open(self.file("big"), "rb") as file:
            self.assertEqual(file.read(4), b"old\0")

    def test_large_file_with_matches_across_all_borders(self):
        """64 MiB of a pattern whose length is coprime to every buffer size, in bounded memory."""
        unit = b"0123456789needle-that-is-looked-for!ABCDEFGHIJKLMNOPQRSTU"  # 57 bytes
        count = (64 << 20) // len(unit) if not SANITIZED else (8 << 20) // len(unit)
        with open(self.file("big"), "wb") as file:
            for _ in range(count // 1000 + 1):
                file.write(unit * 1000)
        count = (count // 1000 + 1) * 1000
        execd = Execd()
        try:
            answer = execd.json("POST", "/files/replace?verbose=true",
                                {self.file("big"): {"old": "needle-that-is-looked-for", "new": "pin"}})
            self.assertEqual(answer, (200, {self.file("big"): {"replacedCount": count}}))
            if not SANITIZED:
                self.assertLess(execd.memory_kib("VmHWM"), 8 * 1024)
        finally:
            execd.stop()
        expected = unit.replace(b"needle-that-is-looked-for", b"pin") * 1000
        with open(self.file("big"), "rb") as file:
            for _ in range(count // 1000):
                self.assertEqual(file.read(len(expected)), expected)
            self.assertEqual(file.read(), b"")


class Search(Case):
    def search(self, pattern=None, path=None):
        options = {} if pattern is None else {"pattern": pattern}
        return self.execd.json("GET", self.query("/files/search", [path or self.folder], **options))

    def found(self, pattern=None, path=None):
        status, answer = self.search(pattern, path)
        self.assertEqual(status, 200, answer)
        return [os.path.relpath(info["path"], self.folder) for info in answer]

    def test_table(self):
        self.make("a.py", "b.txt", ".hidden", "src/main.py", "src/lib/x.py", "src/lib/x.c", "docs/a[1].md", "empty/",
                  "src.d/z")
        os.symlink("a.py", self.file("link.py"))
        os.symlink("src", self.file("linked"))
        everything = [".hidden", "a.py", "b.txt", "docs/a[1].md", "link.py", "linked", "src/lib/x.c", "src/lib/x.py",
                      "src/main.py", "src.d/z"]
        python = ["a.py", "link.py", "src/lib/x.py", "src/main.py"]
        for pattern, expected in (
                (None, everything), ("", everything), ("*", everything), ("**", everything), ("*.py", python),
                ("**/*.py", python), ("x.?*", ["src/lib/x.c", "src/lib/x.py"]), ("src/*.py", ["src/main.py"]),
                ("src/**", ["src/lib/x.c", "src/lib/x.py", "src/main.py"]), ("**/lib/*", ["src/lib/x.c", "src/lib/x.py"]),
                ("*.{txt,c}", ["b.txt", "src/lib/x.c"]), ("[ab].*", ["a.py", "b.txt"]),
                ("[!ab]*.py", ["link.py", "src/lib/x.py", "src/main.py"]), (r"a\[1\].md", ["docs/a[1].md"]),
                ("!(*.py)", [n for n in everything if n not in python]), ("src", []), ("lib", []), ("nothing", [])):
            with self.subTest(pattern=pattern):
                self.assertEqual(self.found(pattern), expected)

    def test_answer(self):
        self.make("a")
        status, [info] = self.search("a")
        self.assertEqual((status, set(info)), (200, FIELDS))
        self.assertEqual(info, self.execd.json("GET", self.query("/files/info", [self.file("a")]))[1][self.file("a")])

    def test_starting_points(self):
        self.make("folder/a", "b")
        os.symlink("folder", self.file("link"))
        self.assertEqual(self.found("*", self.file("link")), ["link/a"])
        self.assertEqual(self.found("b*", self.file("b")), ["b"])
        self.assertEqual(self.found("x", self.file("b")), [])
        self.assert_error(self.search("*", self.file("nothing")), 404, "FILE_NOT_FOUND", self.file("nothing"))
        self.assert_error(self.execd.json("GET", "/files/search?pattern=x"), 400, "MISSING_QUERY")
        self.assert_error(self.execd.json("GET", "/files/search?path=&pattern=x"), 400, "MISSING_QUERY")

    def test_bad_patterns(self):
        for pattern, text in (("[", "not closed"), ("{a", "not closed"), ("!(a", "not closed"), ("a\\", "follows"),
                              ("[z-a]", "backwards"), ("x" * 1025, "1025"), ("{" * 9 + "}" * 9, "too deep")):
            self.assert_error(self.search(pattern), 400, "INVALID_REQUEST_BODY", text)

    def test_pattern_that_would_take_for_ever(self):
        self.make("a" * 200)
        self.assertEqual(self.found("*a" * 400 + "b"), [])
        self.assertEqual(self.found("{a,aa,*}" * 100 + "b"), [])

    @unittest.skipUnless(ROOT, "needs root")
    def test_unreadable_folder_is_passed_over(self):
        self.make("a/x", "secret/x", "z/x")
        os.chmod(self.file("secret"), 0)
        execd = Execd(command=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", BINARY])
        try:
            status, answer = execd.json("GET", self.query("/files/search", [self.folder], pattern="x"))
            self.assertEqual((status, [os.path.relpath(i["path"], self.folder) for i in answer]), (200, ["a/x", "z/x"]))
            status, answer = execd.json("GET", self.query("/directories/list", [self.folder], depth=2))
            self.assertEqual((status, [os.path.relpath(i["path"], self.folder) for i in answer]),
                             (200, ["a", "a/x", "secret", "z", "z/x"]))
            self.assert_error(execd.json("GET", self.query("/directories/list", [self.file("secret")])), 500,
                              "RUNTIME_ERROR", "Permission denied")
        finally:
            execd.stop()

    def test_names_that_are_not_utf8(self):
        with open(os.fsencode(self.folder) + b"/a\xff\xfeb\"\n", "wb"):
            pass
        _, [info] = self.search("a*")
        self.assertEqual(info["path"], self.folder + "/a\ufffd\ufffdb\"\n")


class Directories(Case):
    def list(self, name="", **options):
        return self.execd.json("GET", self.query("/directories/list", [self.file(name)], **options))

    def listed(self, name="", **options):
        status, answer = self.list(name, **options)
        self.assertEqual(status, 200, answer)
        return [os.path.relpath(info["path"], self.folder) for info in answer]

    # --- list

    def test_depth_and_order(self):
        self.make("b/2", "b/1/x", "b/1/y/z", "a", "c/", "B", "b.c")
        os.symlink("b", self.file("link"))
        one = ["B", "a", "b", "b.c", "c", "link"]
        self.assertEqual(self.listed(), one)
        self.assertEqual(self.listed(depth=1), one)
        self.assertEqual(self.listed(depth=0), [])
        two = ["B", "a", "b", "b/1", "b/2", "b.c", "c", "link"]
        self.assertEqual(self.listed(depth=2), two)
        everything = ["B", "a", "b", "b/1", "b/1/x", "b/1/y", "b/1/y/z", "b/2", "b.c", "c", "link"]
        self.assertEqual(self.listed(depth=2147483647), everything)
        status, answer = self.list()
        self.assertEqual([i["type"] for i in answer], ["file", "file", "directory", "file", "directory", "symlink"])
        self.assertTrue(all(set(i) == FIELDS for i in answer))

    def test_empty_and_root(self):
        self.assertEqual(self.listed(), [])
        status, answer = self.execd.json("GET", "/directories/list?path=/")
        self.assertEqual((status, [i["path"] for i in answer]), (200, sorted("/" + n for n in os.listdir("/"))))

    def test_mistakes(self):
        self.make("file", "folder/")
        os.symlink("folder", self.file("link"))
        self.assert_error(self.list("link"), 400, "INVALID_REQUEST_BODY", "symbolic link")
        self.assert_error(self.list("file"), 400, "INVALID_REQUEST_BODY", "not a directory")
        self.assert_error(self.list("nothing"), 404, "FILE_NOT_FOUND")
        self.assert_error(self.list("nothing", depth=0), 404, "FILE_NOT_FOUND")
        self.assert_error(self.execd.json("GET", "/directories/list"), 400, "MISSING_QUERY")
        for depth in ("-1", "x", "1.5", "+1", "99999999999999999999"):
            self.assert_error(self.list("folder", depth=depth), 400, "INVALID_REQUEST_BODY", "`depth`")

    def test_large_directory(self):
        """In order, complete, and in bounded memory, however many there are."""
        count = 5_000 if SANITIZED else 200_000
        self.use_fast_folder()
        base = self.folder
        dir_fd = os.open(base, os.O_RDONLY)
        for i in range(count):
            os.close(os.open(f"file-{i * 7919 % count:07d}", os.O_CREAT | os.O_WRONLY, dir_fd=dir_fd))
        os.close(dir_fd)
        execd = Execd()
        try:
            before = execd.memory_kib("VmHWM")
            status, response, data = execd.request("GET", self.query("/directories/list", [base]))
            self.assertEqual((status, response.getheader("Transfer-Encoding")), (200, "chunked"))
            answer = json.loads(data)
            paths = [info["path"] for info in answer]
            self.assertEqual(len(paths), count)
            self.assertEqual(paths, [f"{base}/file-{i:07d}" for i in range(count)])
            self.assertEqual(execd.json("GET", self.query("/files/search", [base], pattern="*00[17]")),
                             (200, [info for info in answer if info["path"][-3:] in ("001", "007")]))
            self.stop_reading_for_a_while(execd, self.query("/directories/list", [base]), len(data))
            if not SANITIZED:
                self.assertLess(execd.memory_kib("VmHWM") - before, 12 * 1024)
        finally:
            execd.stop()

    def stop_reading_for_a_while(self, execd, path, length):
        """Until execd does nothing any more; then read all there is."""
        def work_done():
            with open(f"/proc/{execd.process.pid}/stat", encoding="ascii") as file:
                return file.read().split()[13:15]
        sock = socket.create_connection(("127.0.0.1", execd.port), timeout=WAIT)
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        self.assertEqual(sock.recv(12), b"HTTP/1.1 200")
        seen = [None] * 10
        while len(set(map(str, seen[-10:]))) > 1 or seen[-1] is None:
            time.sleep(0.02)
            seen.append(work_done())
        received = 12
        while piece := sock.recv(1 << 20):
            received += len(piece)
        sock.close()
        self.assertGreater(received, length)

    def test_large_directories_in_large_directories(self):
        """More names on the way down than are kept: outer directories are read again on the way back."""
        count, levels = (200, 3) if SANITIZED else (6_500, 6)
        self.use_fast_folder()
        rest = "x" * 240
        fd = os.open(self.folder, os.O_RDONLY)
        for _ in range(levels):
            for i in range(count):
                os.close(os.open(f"{'a' if i % 2 else 'z'}{i:05d}{rest}", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
            os.mkdir("m", dir_fd=fd)
            inner = os.open("m", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        os.close(fd)
        found = self.listed(depth=100)
        self.assertEqual(found, sorted(found, key=lambda name: name.split("/")))
        self.assertEqual((len(set(found)), len(found)), (levels * (count + 1),) * 2)

    def walks(self, execd):
        """How many times execd has the folder d open."""
        folder = f"/proc/{execd.process.pid}/fd"
        count = 0
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                count += os.readlink(f"{folder}/{name}") == self.file("d")
        return count

    def test_client_that_reads_slowly_or_goes_away(self):
        count = 1_000 if SANITIZED else 20_000
        self.use_fast_folder()
        self.make("d/")
        for i in range(count):
            self.write(f"d/{i:040d}", b"")
        execd = Execd()
        try:
            self.assertEqual(execd.request("GET", "/files/info")[0], 200)  # the first thread makes its descriptors
            before = len(os.listdir(f"/proc/{execd.process.pid}/fd"))
            sockets = []
            for _ in range(20):  # more than may walk at once
                sock = socket.socket()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.settimeout(WAIT)
                sock.connect(("127.0.0.1", execd.port))
                path = self.query("/directories/list", [self.file("d")])
                sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                sockets.append(sock)
            self.assertEqual(sockets[0].recv(12), b"HTTP/1.1 200")
            if not SANITIZED:  # with few entries, some are through at once
                wait_until(lambda: self.walks(execd) == 16, "as many walks as there may be")
            for _ in range(20):
                self.assertEqual(execd.request("GET", "/files/info")[0], 200)
                self.assertLessEqual(self.walks(execd), 16)
            for sock in sockets[:17]:
                sock.close()
            for sock in sockets[17:]:
                data = b""
                while not data.endswith(b"0\r\n\r\n"):
                    piece = sock.recv(1 << 16)
                    self.assertTrue(piece, "the answer is cut")
                    data += piece
                self.assertEqual(data.count(b'"path"'), count)
                sock.close()
            wait_until(lambda: len(os.listdir(f"/proc/{execd.process.pid}/fd")) <= before + 1, "the end of all walks")
        finally:
            execd.stop()

    def test_entries_that_come_and_go(self):
        self.use_fast_folder()
        for i in range(500):
            self.make(f"d{i:03d}/f")
        stop = threading.Event()

        def disturb():
            i = 0
            while not stop.is_set():
                i = (i + 1) % 500
                shutil.rmtree(self.file(f"d{i:03d}"), ignore_errors=True)
                self.make(f"d{i:03d}/f")
        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            for _ in range(20):
                names = self.listed(depth=3)
                self.assertEqual(names, sorted(set(names)))
                self.assertGreaterEqual(len(names), 900)
        finally:
            stop.set()
            thread.join()

    def make_deep(self, depth):
        fd = os.open(self.folder, os.O_RDONLY)
        for _ in range(depth):
            os.mkdir("d", dir_fd=fd)
            inner = os.open("d", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.close(fd)

    def test_deep_tree(self):
        depth = 500 if SANITIZED else 10_000
        self.use_fast_folder()
        self.make_deep(depth)
        status, answer = self.execd.json("GET", self.query("/files/search", [self.folder], pattern="bottom"))
        self.assertEqual((status, [i["path"] for i in answer]), (200, [self.folder + "/d" * depth + "/bottom"]))
        status, answer = self.execd.json("GET", self.query("/files/search", [self.folder], pattern="**/d/bottom"))
        self.assertEqual((status, len(answer)), (200, 1))
        status, _, data = self.execd.request("GET", self.query("/directories/list", [self.folder], depth=3000))
        self.assertEqual((status, data.count(b'"path"')), (200, min(depth + 1, 3000)))
        self.assert_done("DELETE", self.query("/directories", [self.file("d")]))
        self.assertEqual(self.names(), [])

    def test_failure_after_the_beginning_cuts_the_answer(self):
        """Paths over 1 MiB are refused; when that is found, the array has long begun."""
        self.use_fast_folder()
        self.make(*(f"a{i}" for i in range(2_000)))
        name = "n" * 255
        fd = os.open(self.folder, os.O_RDONLY)
        for _ in range(4_200):
            os.mkdir(name, dir_fd=fd)
            inner = os.open(name, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        os.close(fd)
        try:
            with self.assertRaises(http.client.IncompleteRead) as caught:
                self.execd.request("GET", self.query("/files/search", [self.folder], pattern="nothing"))
            self.assertEqual(caught.exception.partial, b"[")
        finally:
            self.assert_done("DELETE", self.query("/directories", [self.file(name)]))

    # --- make

    def make_directories(self, values):
        self.assert_done("POST", "/directories", {self.file(k): v for k, v in values.items()})

    def test_make(self):
        self.make_directories({"a/b/c": {}, "d": {"mode": 644}, "e": None, "f/g": {"mode": 711, "owner": None}})
        umask = os.umask(0)
        os.umask(umask)
        default = 0o777 & ~umask
        self.assertEqual([self.mode(n) for n in ("a", "a/b", "a/b/c", "d", "e", "f", "f/g")],
                         [default, default, default, 0o644, default, default, 0o711])
        self.make_directories({"d": {"mode": 755}, "a/b": {"mode": 700}})
        self.assertEqual((self.mode("d"), self.mode("a/b")), (0o644, default), "what exists stays as it is")
        os.symlink("a", self.file("link"))
        self.make_directories({"link": {"mode": 700}, "link/new": {}})
        self.assertTrue(os.path.isdir(self.file("a/new")))
        self.assert_done("POST", "/directories", {})

    @unittest.skipUnless(ROOT, "needs root")
    def test_make_with_owner(self):
        self.make_directories({"a/b": {"owner": "nobody", "group": "nogroup", "mode": 750}})
        self.assertEqual([os.stat(self.file(n)).st_uid for n in ("a", "a/b")], [0, 65534])
        self.assertEqual((os.stat(self.file("a/b")).st_gid, self.mode("a/b")), (65534, 0o750))

    def test_make_mistakes(self):
        self.make("file")
        os.symlink("nowhere", self.file("dangling"))
        for name, status in (("file", 409), ("file/x", 409), ("new/x/" + "y" * 300, 400), ("dangling/x", 409)):
            answer = self.execd.json("POST", "/directories", {self.file(name): {}})
            self.assertEqual(answer[0], status, (name, answer))
        self.assert_error(self.execd.json("POST", "/directories", {self.file("x"): {}, self.file("y"): {"owner": "?"}}),
                          400, "INVALID_REQUEST_BODY", "?")
        self.assertEqual(self.names(), ["dangling", "file"], "nothing half made is left")

    # --- delete

    def test_delete(self):
        self.make("a/b/c", "a/d", "file", "keep/x")
        os.symlink("keep", self.file("link"))
        os.symlink("../keep", self.file("a/link"))
        self.assert_done("DELETE", self.query("/directories", [self.file(n) for n in ("a", "file", "link", "nothing",
                                                                                     "file/x")]))
        self.assertEqual(self.names(), ["keep", "keep/x"])
        self.assert_done("DELETE", "/directories")

    def test_delete_of_the_root_and_the_like(self):
        self.make("a/")
        for path in ("/", "//", "/.", "/..", "/../..", self.file("a/.."), self.file("a/../..")):
            self.assert_error(self.execd.json("DELETE", self.query("/directories", [path])), 400,
                              "INVALID_REQUEST_BODY")
        self.assertEqual(self.names(), ["a"])

    @unittest.skipUnless(ROOT, "needs root")
    def test_delete_stops_at_mounts(self):
        self.make("a/mount/", "kept/x", "a/b")
        if subprocess.run(["mount", "--bind", self.file("kept"), self.file("a/mount")], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("cannot mount here")
        try:
            self.assert_error(self.execd.json("DELETE", self.query("/directories", [self.file("a")])), 409,
                              "RUNTIME_ERROR", "mount point")
            self.assertEqual(self.names(), ["a", "a/mount", "a/mount/x", "kept", "kept/x"])
        finally:
            subprocess.run(["umount", self.file("a/mount")], check=True)


@unittest.skipUnless(ROOT, "needs root")
class OfAnotherUser(Case):
    """When the image has a USER, what is made through the API belongs to it, what exists keeps its owner."""

    @classmethod
    def setUpClass(cls):
        cls.execd = Execd(unix=True)
        status = cls.execd.request("POST", "/internal/start", json.dumps(
            {"entrypoint": ["/bin/sleep", "1000"], "user": "1234:2345"}))[0]
        assert status == 200, status

    def owner(self, name):
        st = os.lstat(self.file(name))
        return st.st_uid, st.st_gid

    def test_owners(self):
        self.make("mine")
        body, headers = multipart([(self.file("up/file"), b"x", {}), (self.file("mine"), b"old", {})])
        self.assertEqual(self.execd.request("POST", "/files/upload", body, headers)[0], 200)
        self.assert_done("POST", "/directories", {self.file("made/by/api"): {}, self.file("other"): {"owner": "root"}})
        self.assert_done("POST", "/files/mv", [{"src": self.file("mine"), "dest": self.file("on/the/way/mine")}])
        self.assertEqual(self.execd.json("POST", "/files/replace", {self.file("on/the/way/mine"):
                                                                    {"old": "old", "new": "new"}}), (200, {}))
        for name in ("up", "up/file", "made", "made/by", "made/by/api", "on", "on/the", "on/the/way"):
            self.assertEqual(self.owner(name), (1234, 2345), name)
        self.assertEqual((self.owner("on/the/way/mine"), self.owner("other")), ((0, 0), (0, 2345)))


class BadInput(Case):
    BODIES = (b"", b"{", b"nul", b"5", b'"x"', b"true", b'{"a":', b"[1,", b"\xff\xfe", b'{"\xff":{}}', b"{}x",
              b'{"a":{},"a":{}}', b'{"a\\u0000":{}}', b'{"a":5}', b'{"a":[]}', b'{"a":"x"}', b"[[]]", b"[5]",
              b"[" * 100 + b"]" * 100, b'{"":{"old":"a"}}', b'[{"src":"","dest":""}]',
              b'{"$NOT_SET/x":{"old":"a"}}', b'{"' + b"x" * 5000 + b'":{"old":"a"}}')

    def test_bodies(self):
        connection = self.execd.connect()
        for path in ("/files/permissions", "/files/mv", "/files/replace", "/directories"):
            for body in self.BODIES:
                with self.subTest(path=path, body=body[:40]):
                    status, _, data = self.execd.request("POST", path, body, connection=connection)
                    self.assert_error((status, json.loads(data)), 400, "INVALID_REQUEST_BODY")
        connection.close()

    def test_too_large(self):
        for path in ("/files/permissions", "/files/mv", "/files/replace", "/directories"):
            status, _, data = self.execd.request("POST", path, b" " * (4 * 1024 * 1024 + 1))
            self.assertEqual((status, set(json.loads(data))), (413, {"code", "message"}))
        many = {f"/nowhere/{i}": {"old": "a"} for i in range(1025)}
        for path in ("/files/permissions", "/files/replace", "/directories"):
            self.assert_error(self.execd.json("POST", path, many), 400, "INVALID_REQUEST_BODY", "1025")
        self.assert_error(self.execd.json("POST", "/files/mv", [{"src": "a", "dest": "b"}] * 1025), 400,
                          "INVALID_REQUEST_BODY", "1025")

    def test_queries(self):
        long = "x" * 5000
        for method, path in (("DELETE", "/files"), ("DELETE", "/directories"), ("GET", "/files/info"),
                             ("GET", "/files/search"), ("GET", "/directories/list"), ("GET", "/files/download")):
            for query in ("path=%00", "path=%zz", "path=%2", "path=$NOT_SET/x", "path=${", "path=/" + long,
                          "&".join(["path=/nowhere/x"] * 257)):
                with self.subTest(path=path, query=query[:40]):
                    answer = self.execd.json(method, f"{path}?{query}")
                    self.assert_error(answer, 400, "INVALID_REQUEST_BODY")
        self.assert_error(self.execd.json("GET", "/files/info?path=/tmp/%ff"), 400, "INVALID_REQUEST_BODY", "UTF-8")
        self.assertEqual(self.execd.json("GET", "/files/info?path=/tmp&path=/tmp")[0], 200)
        name = "y" * 300
        self.assertEqual(self.execd.json("GET", "/files/info?path=/tmp/" + name)[0], 400)
        self.assertEqual(self.execd.json("GET", "/files/search?path=/tmp/" + name)[0], 400)


if __name__ == "__main__":
    unittest.main()
