#!/usr/bin/env python3
"""Volumes: sources × options, attacks, ends, failures; at the launcher's socket and over HTTP.

Each cell of the table of sources and options is a test of its own, named Table.test_<source>_<option>.

    python3 tests/support/tap.py tests/integration/test_volumes.py
"""
import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
import unittest
import uuid
from pathlib import Path

import test_launcher_faults as faults
import test_launcher_kill as kills
from harness import SANITIZED, Server, wait_until
from launcher import (CREATE, DEADLINE, DENIED, EXITED, INVALID, LIST, NOT_FOUND, OK, READ_ONLY_ROOT, RUNNING,
                      TIMEOUT, UNSUPPORTED, create_body, deadline_body, eventually, id_body, inside)
from launcher_state import Trouble, keep_only, read, system_call
from volumes import DELETE, MAKE, OWNER, READ_ONLY, STORE, VolumeTest, host, memory, named

MIB = 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_EXCHANGE, AT_FDCWD = 2, -100
FLOCK = {"x86_64": "73", "aarch64": "32"}[os.uname().machine]


def on_disk(path):
    """Owner, group and permissions."""
    st = os.lstat(path)
    return st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)


# The table. ---------------------------------------------------------------------------------------------------

class Source:
    """One kind of volume, made for one test. `there` is a place that exists and holds what fill() wrote."""
    is_file = False
    kind = None

    def __init__(self, test):
        self.test, self.ground = test, test.ground
        self.name = test.name
        self.prepare()

    def prepare(self):
        pass


class HostDirectory(Source):
    missing = NOT_FOUND

    def prepare(self):
        self.path = self.ground.folder(self.name)
        (self.path / "inner").mkdir()
        os.chown(self.path / "inner", OWNER, OWNER)
        self.ground.file(self.path / "inner/file")

    def at(self, where, **more):
        return host(where, self.path, **more)

    def absent(self, where, **more):
        return host(where, self.path.parent / (self.name + "-new/deep"), **more)

    def check_written(self, name):
        self.test.assertEqual(on_disk(self.path / name), (OWNER, OWNER, 0o644))


class HostFile(Source):
    is_file = True
    missing = NOT_FOUND

    def prepare(self):
        self.path = self.ground.file(self.ground.allowed / self.name)

    def at(self, where, **more):
        return host(where, self.path, **more)

    absent = HostDirectory.absent

    def check_written(self, _):
        self.test.assertEqual(on_disk(self.path), (OWNER, OWNER, 0o644))
        self.test.assertEqual(self.path.read_text(), "written\n")


class NamedNew(Source):
    missing = NOT_FOUND
    flags = MAKE | DELETE

    def prepare(self):
        shell = self.test.box(named("/fill", self.name, flags=MAKE))
        shell("mkdir /fill/inner; echo content > /fill/inner/file")
        self.test.remove(shell.sandbox)
        self.test.addCleanup(self.clear)

    def clear(self):
        """Nothing but its last user deletes one: so it is made so, and used once more."""
        path = self.ground.store / self.name / "volume"
        if path.exists():
            path.write_text(path.read_text().replace("remove 0", "remove 1"))
            shell = self.test.box(named("/v", self.name))
            self.test.remove(shell.sandbox)
            self.test.gone(self.name)

    def at(self, where, flags=0, **more):
        return named(where, self.name, flags=flags, **more)

    def absent(self, where, flags=0, **more):
        return named(where, self.name + "-new", flags=flags | (DELETE if flags & MAKE else 0), **more)

    def check_written(self, name):
        self.test.assertEqual(on_disk(self.ground.store / self.name / "data" / name), (STORE, STORE, 0o644))


class NamedShared(NamedNew):
    """Another sandbox has it at the same time."""

    def prepare(self):
        super().prepare()
        self.other = self.test.box(named("/other", self.name))

    def check_written(self, name):
        super().check_written(name)
        self.test.assertEqual(self.other(f"cat /other/{name}; stat -c %u:%g /other/{name}"), "written\n0:0")


class Memory(Source):
    def at(self, where, **more):
        return memory(where, **more)

    absent = at

    def check_written(self, _):
        pass


SOURCES = {"host_directory": HostDirectory, "host_file": HostFile, "named": NamedNew,
           "named_shared": NamedShared, "memory": Memory}


class Options:
    """What each option means for each source; a method for each row."""

    @staticmethod
    def read_write(test, source):
        shell = test.box(source.at("/v/new/place"))
        where = "/v/new/place" if source.is_file else "/v/new/place/made"
        shell(f"echo written > {where}; test $(cat {where}) = written")
        test.assertEqual(shell(f"stat -c '%u:%g' {where} /v/new"), "0:0\n0:0")
        source.check_written("made")

    @staticmethod
    def read_only(test, source):
        shell = test.box(source.at("/v", flags=READ_ONLY))
        where = "/v" if source.is_file else "/v/made"
        test.assertIn("Read-only", shell(f"echo written > {where}", status=2))
        test.assertIn("Read-only", shell("chmod 777 /v", status=1))
        if source.is_file:
            test.assertEqual(shell("cat /v"), "content")
        elif not isinstance(source, Memory):
            test.assertEqual(shell("cat /v/inner/file"), "content")

    @staticmethod
    def sub_path_of_directory(test, source):
        if isinstance(source, Memory):
            test.refused(INVALID, "no source", source.at("/v", sub_path="inner"))
        elif source.is_file:
            test.assertEqual(test.refused(INVALID, "through a file", source.at("/v", sub_path="inner")).sys,
                             errno.ENOTDIR)
        else:
            shell = test.box(source.at("/v", sub_path="inner"))
            test.assertEqual(shell("ls /v; cat /v/file"), "file\ncontent")
            test.assertEqual(shell("ls /v/.. | grep -c inner", status=1), "0")

    @staticmethod
    def sub_path_of_file(test, source):
        if isinstance(source, Memory):
            test.refused(INVALID, "no source", source.at("/v", sub_path="inner/file"))
        elif source.is_file:
            test.refused(INVALID, "through a file", source.at("/v", sub_path="inner/file"))
        else:
            shell = test.box(source.at("/v", sub_path="inner/file"))
            test.assertEqual(shell("cat /v; echo more >> /v; cat /v"), "content\ncontent\nmore")

    @staticmethod
    def sub_path_missing(test, source):
        if isinstance(source, Memory) or source.is_file:
            test.refused(INVALID, "", source.at("/v", sub_path="a/b"))
            return
        test.assertEqual(test.refused(INVALID, "does not exist", source.at("/v", sub_path="a/b")).sys, errno.ENOENT)
        shell = test.box(source.at("/v", sub_path="a/b", flags=MAKE))
        shell("echo written > /v/made; test $(stat -c %u:%g:%a /v) = 0:0:755")
        test.assertEqual(test.box(source.at("/w"))("cat /w/a/b/made"), "written")
        source.check_written("a/b/made")

    @staticmethod
    def nested(test, source):
        """One below another, which is given first; its place is made in it."""
        volumes = [memory("/v/below/deep"), source.at("/v")]
        if source.is_file:
            test.refused(INVALID, "'/v/below/deep'", *volumes)
            return
        shell = test.box(*volumes)
        shell("echo x > /v/below/deep/x; echo y > /v/below/y; test -z \"$(ls /v/below | grep -v deep | grep -v y)\"")
        test.assertEqual(shell("grep -c ' /v' /proc/self/mounts"), "2")
        shell = test.box(source.at("/v"))
        if not isinstance(source, Memory):
            test.assertEqual(shell("ls /v/below /v/below/deep; stat -c %u /v/below/deep"),
                             "/v/below:\ndeep\ny\n\n/v/below/deep:\n0")
            read_only = source.at("/w", flags=READ_ONLY)
            test.box(read_only, memory("/w/below"))("touch /w/below/x")
            test.refused(INVALID, "read-only", read_only, memory("/w/nowhere"))

    @staticmethod
    def missing_and_made(test, source):
        if isinstance(source, Memory):
            test.refused(INVALID, "flags", source.at("/v", flags=MAKE))
            return
        shell = test.box(source.absent("/v", flags=MAKE))
        shell("echo written > /v/made; test $(stat -c %u:%g /v) = 0:0")
        if source.missing and isinstance(source, (HostDirectory, HostFile)):
            made = source.path.parent / (source.name + "-new/deep")
            test.assertEqual(on_disk(made), (OWNER, OWNER, 0o755))
            test.assertEqual(on_disk(made / "made"), (OWNER, OWNER, 0o644))
        else:
            test.remove(shell.sandbox)
            test.gone(source.name + "-new")

    @staticmethod
    def missing_and_not_made(test, source):
        if isinstance(source, Memory):
            test.refused(INVALID, "size", memory("/v", size=0))
            return
        test.refused(source.missing, source.name + "-new", source.absent("/v"))
        test.assertFalse((test.ground.store / (source.name + "-new")).exists())
        test.assertFalse((test.ground.allowed / (source.name + "-new")).exists())

    @staticmethod
    def read_only_root(test, source):
        shell = test.box(source.at("/srv/not/there"), source.at("/usr/share/v") if not source.is_file else
                         memory("/tmp/below"), flags=READ_ONLY_ROOT)
        test.assertIn("Read-only", shell("touch /srv/x", status=1))
        test.assertIn("Read-only", shell("touch /usr/share/x", status=1))
        shell("echo written > /srv/not/there" + ("" if source.is_file else "/made"))
        source.check_written("made")

    @staticmethod
    def other_users_inside(test, source):
        """Whoever a sandbox's programs run as can be the owner of files, in the store's range."""
        shell = test.box(source.at("/v"))
        if source.is_file:
            shell("chown 1000:1000 /v; test $(stat -c %u:%g /v) = 1000:1000")
            test.assertEqual(on_disk(source.path)[:2], (STORE + 1000, STORE + 1000))
            return
        shell("echo written > /v/made; chown 1000:2000 /v/made; test $(stat -c %u:%g /v/made) = 1000:2000")
        if isinstance(source, HostDirectory):
            test.assertEqual(on_disk(source.path / "made")[:2], (STORE + 1000, STORE + 2000))
        elif not isinstance(source, Memory):
            data = test.ground.store / source.name / "data"
            test.assertEqual(on_disk(data / "made")[:2], (STORE + 1000, STORE + 2000))


class Table(VolumeTest):
    pass


def add_cells():
    options = [name for name in vars(Options) if not name.startswith("_")]
    for source_name, source in SOURCES.items():
        for option in options:
            def cell(self, source=source, option=option):
                getattr(Options, option)(self, source(self))
            setattr(Table, f"test_{source_name}_{option}", cell)


add_cells()


# Attacks. -----------------------------------------------------------------------------------------------------

class Paths(VolumeTest):
    """Ways out of the allowed directory and out of a volume."""
    images = ("tricky",)

    def test_outside(self):
        for path in ("/etc", "/etc/passwd", str(self.ground.allowed) + "-not", str(self.ground.top)):
            self.refused(DENIED, path, host("/v", path))

    def test_dot_dot(self):
        for path in (f"{self.ground.allowed}/..", f"{self.ground.allowed}/../x", f"{self.ground.allowed}/./x"):
            self.refused(INVALID, "plain", host("/v", path, flags=MAKE))
        self.refused(INVALID, "plain", host("/v", self.ground.allowed, sub_path="../x"))

    def test_state_directory(self):
        state = self.ground.case.state
        self.ground.case.crash()
        self.ground.arguments += ["--allow-host-path", os.path.dirname(state)]
        self.ground.start()
        for path in (os.path.dirname(state), state, state + "/launcher", state + "/launcher/volumes/x"):
            self.refused(DENIED, "own files", host("/v", path, flags=MAKE))

    def test_link_out_of_the_allowed_directory(self):
        for target in ("/etc", "/etc/passwd", "../..", str(self.ground.top)):
            link = self.ground.allowed / f"{self.name}-{target.replace('/', '_')}"
            link.symlink_to(target)
            self.refused(DENIED, "symbolic link", host("/v", link))
            self.refused(DENIED, "symbolic link", host("/v", link / "shadow"))
            self.refused(DENIED, "symbolic link", host("/v", link / "made/here", flags=MAKE))

    def test_linked_component_inside(self):
        """Also one that stays inside: what may be a link may be another one a moment later."""
        real = self.ground.folder(self.name)
        (self.ground.allowed / (self.name + "-link")).symlink_to(real)
        self.refused(DENIED, "symbolic link", host("/v", self.ground.allowed / (self.name + "-link")))

    def test_allowed_directory_that_is_a_link(self):
        link = self.ground.top / "link"
        link.symlink_to("/etc")
        self.ground.case.crash()
        self.ground.arguments += ["--allow-host-path", str(link), "--allow-host-path", "/nowhere/at/all"]
        self.ground.start()
        self.refused(DENIED, "symbolic link", host("/v", link))
        self.refused(NOT_FOUND, "/nowhere/at/all", host("/v", "/nowhere/at/all", flags=MAKE))

    def plant(self, command, source, **more):
        """What a sandbox that shares a volume leaves in it."""
        shell = self.box(source("/v", **more))
        shell(command)
        return shell

    def test_sub_path_planted_by_another_sandbox(self):
        folder = self.ground.folder(self.name)
        for source in (lambda at, **more: host(at, folder, **more),
                       lambda at, **more: named(at, self.name, flags=MAKE | DELETE, **more)):
            self.plant("ln -s / root; ln -s ../../../../../../../etc up; ln -s x loop; ln -s loop x; mkdir d; "
                       "ln -s d inside; ln -s /proc/1/root magic".replace("ln -s", "cd /v; ln -s", 1), source)
            for sub_path in ("root", "root/etc", "up", "up/shadow", "loop", "inside", "magic", "magic/etc"):
                result = self.refused(INVALID, "symbolic link", source("/w", sub_path=sub_path))
                self.assertEqual(result.sys, errno.ELOOP, sub_path)
                self.refused(INVALID, "symbolic link", source("/w", sub_path=sub_path + "/new"))

    def test_mount_path_over_links_of_the_image(self):
        image = self.ground.top / "tricky"
        (image / "link").symlink_to("/etc")
        (image / "out").symlink_to("../../../../../tmp")
        (image / "file").write_text("")
        os.mkfifo(image / "fifo")
        for path, word in (("/link", "symbolic link"), ("/link/x", "symbolic link"), ("/out/x/y", "symbolic link"),
                           ("/file", "something else"), ("/file/x", "something else"), ("/fifo", "something else")):
            self.refused(INVALID, word, memory(path), image="tricky")
        self.refused(INVALID, "symbolic link", memory("/bin/x"))  # of the host image
        self.refused(INVALID, "symbolic link", memory("/var/run"))
        file = self.ground.file(self.ground.allowed / self.name)
        self.refused(INVALID, "something else", host("/etc", file))

    def test_mount_path_of_the_kernel(self):
        for path in ("/proc", "/proc/sys/kernel", "/sys", "/sys/fs/cgroup", "/dev", "/dev/shm/x"):
            self.refused(INVALID, "kernel", memory(path))
        self.box(memory("/process"))
        self.refused(INVALID, "plain", memory("/"))
        self.refused(INVALID, "plain", memory("/v/../proc"))
        self.refused(INVALID, "twice", memory("/v"), memory("/v"))

    def test_a_whole_root_covered(self):
        """Whoever covers the programs of the image has none, and no more than that."""
        result = self.ground.ask(memory("/usr"), flags=READ_ONLY_ROOT)
        self.assertEqual(result.code, OK, result.message)
        self.assertEqual(inside(result.socket, "true")[1], 96)


class Races(VolumeTest):
    ROUNDS = 12 if SANITIZED else 40

    def swap(self, one, two, stop):
        """Exchanges two names without pause."""
        while not stop.is_set():
            if LIBC.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(two), RENAME_EXCHANGE) < 0:
                raise OSError(ctypes.get_errno(), "renameat2")

    def race(self, volume, one, two):
        """Creates while they are swapped: the volume is the right directory, or there is no sandbox."""
        outcomes = set()
        stop = threading.Event()
        swapper = threading.Thread(target=self.swap, args=(one, two, stop))
        swapper.start()
        try:
            for _ in range(self.ROUNDS):
                result = self.ground.ask(volume)
                outcomes.add(result.code)
                if result.code == OK:
                    self.assertEqual(inside(result.socket, "cat /v/mark /v/passwd 2>/dev/null")[0], "mine\n")
                for one_box in self.ground.client.list():
                    self.remove(one_box.id)
        finally:
            stop.set()
            swapper.join()
        self.assertLessEqual(outcomes, {OK, DENIED, INVALID})
        return outcomes

    def test_host_path(self):
        folder = self.ground.folder(self.name)
        right = folder / "right"
        right.mkdir()
        (right / "mark").write_text("mine\n")
        (folder / "wrong").symlink_to("/etc")
        self.race(host("/v", right), right, folder / "wrong")

    def test_component(self):
        folder = self.ground.folder(self.name)
        (folder / "right/below").mkdir(parents=True)
        (folder / "right/below/mark").write_text("mine\n")
        (self.ground.top / "elsewhere/below").mkdir(parents=True)
        (self.ground.top / "elsewhere/below/passwd").write_text("secret\n")
        (folder / "wrong").symlink_to(self.ground.top / "elsewhere")
        self.race(host("/v", folder / "right/below", flags=MAKE), folder / "right", folder / "wrong")
        self.assertEqual(os.listdir(self.ground.top / "elsewhere/below"), ["passwd"])

    def test_sub_path(self):
        folder = self.ground.folder(self.name)
        (folder / "right").mkdir()
        (folder / "right/mark").write_text("mine\n")
        (folder / "wrong").symlink_to("/etc")
        self.race(host("/v", folder, sub_path="right"), folder / "right", folder / "wrong")


class Files(VolumeTest):
    """What may be in a volume, and what is left there."""

    def test_kinds_that_are_not_given(self):
        folder = self.ground.folder(self.name)
        os.mkfifo(folder / "fifo")
        os.mknod(folder / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "socket"))
        for name in ("fifo", "device", "socket"):
            self.refused(UNSUPPORTED, "neither a directory nor a regular file", host("/v", folder / name))
            self.refused(UNSUPPORTED, "neither", host("/v", folder, sub_path=name))

    def test_device_in_a_volume(self):
        folder = self.ground.folder(self.name)
        os.mknod(folder / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        os.chmod(folder / "zero", 0o666)
        shell = self.box(host("/v", folder), named("/n", self.name, flags=MAKE | DELETE), memory("/m"))
        self.assertIn("Permission denied", shell("head -c 1 /v/zero", status=1))
        for where in ("/v", "/n", "/m"):
            shell(f"mknod {where}/made c 1 5", status=1)

    def test_attributes(self):
        folder = self.ground.folder(self.name)
        shell = self.box(host("/v", folder), named("/n", self.name, flags=MAKE | DELETE),
                         named("/s", self.name + "-s", flags=MAKE | DELETE, size=16 * MIB), memory("/m"))
        for where in ("/v", "/n", "/s", "/m"):
            attributes = shell(f"grep ' {where} ' /proc/self/mounts").split()[3].split(",")
            self.assertTrue({"nosuid", "nodev"} <= set(attributes), attributes)

    def test_set_id_files_left_behind(self):
        """Nobody on the host becomes root by them, whoever owns the directory they are in."""
        mine, roots = self.ground.folder(self.name), self.ground.folder(self.name + "-root", 0)
        shell = self.box(host("/v", mine), named("/n", self.name, flags=MAKE | DELETE),
                         host("/r", roots / "made", flags=MAKE))
        for where, path, owner in (("/v", mine, OWNER), ("/r", roots / "made", STORE),
                                   ("/n", self.ground.store / self.name / "data", STORE)):
            shell(f"cp /usr/bin/id {where}/id; chown 0:0 {where}/id; chmod 6755 {where}/id")
            self.assertEqual(on_disk(path / "id"), (owner, owner, 0o6755))

    def test_directory_of_root(self):
        """Can be read by whoever may, and is nobody's inside: nothing is made there."""
        folder = self.ground.folder(self.name, 0)
        self.ground.file(folder / "file", owner=0)
        folder.chmod(0o777)
        shell = self.box(host("/v", folder))
        self.assertEqual(shell("cat /v/file; stat -c %u:%g /v /v/file"), "content\n65534:65534\n65534:65534")
        self.assertIn("Permission denied", shell("touch /v/new", status=1))

    def test_group_of_the_system(self):
        """disk, docker and the like are as good as root: nothing gets their ids."""
        folder = self.ground.folder(self.name)
        os.chown(folder, OWNER, 6)
        folder.chmod(0o2777)
        shell = self.box(host("/v", folder))
        self.assertEqual(shell("stat -c %u:%g /v"), "0:65534")
        self.assertIn("Permission denied", shell("touch /v/new", status=1))
        shell("chgrp 0 /v; touch /v/new; chmod 2755 /v/new")  # the owner may give it away, to the store's group
        self.assertEqual((on_disk(folder)[:2], on_disk(folder / "new")[:2]), ((OWNER, STORE), (OWNER, STORE)))

    def test_files_of_others(self):
        """Root's files, also by a second name, are nobody's inside and can neither be read nor changed nor taken."""
        folder = self.ground.folder(self.name, 0)
        secret = self.ground.top / (self.name + "-secret")
        self.ground.file(secret, "secret\n", owner=0, mode=0o600)
        os.link(secret, folder / "link")
        shell = self.box(host("/v", folder), host("/file", folder / "link"))
        self.assertEqual(shell("stat -c %u:%g /v/link /file"), "65534:65534\n65534:65534")
        for path in ("/v/link", "/file"):
            self.assertIn("Permission denied", shell(f"cat {path}", status=1))
            self.assertIn("Permission denied", shell(f"echo x >> {path}", status=2))
            shell(f"chown 0 {path}", status=1)
            shell(f"chmod 666 {path}", status=1)
        shell("touch /v/new", status=1)
        shell("ln /v/link /v/another", status=1)
        self.assertEqual((on_disk(secret), secret.read_text()), ((0, 0, 0o600), "secret\n"))

    def test_file_of_another_in_somebodys_directory(self):
        folder = self.ground.folder(self.name)
        self.ground.file(folder / "theirs", "theirs\n", owner=OWNER + 1, mode=0o600)
        shell = self.box(host("/file", folder / "theirs"))
        self.assertIn("Permission denied", shell("cat /file", status=1))

    def test_changing_mounts(self):
        folder = self.ground.folder(self.name)
        shell = self.box(host("/v", folder, flags=READ_ONLY), memory("/m"))
        for command in ("mount -o remount,rw /v", "mount -o remount,bind,rw /v", "mount -o remount,suid,dev /m",
                        "umount /v", "umount -l /m", "mount --bind /v /mnt", "mount -t tmpfs x /mnt"):
            self.assertNotEqual(inside(shell.socket, command + " 2>&1")[1], 0, command)
        shell("touch /v/x", status=1)

    def test_not_mappable(self):
        self.ground.case.crash()
        self.ground.arguments += ["--allow-host-path", "/sys/kernel"]
        self.ground.start()
        self.refused(UNSUPPORTED, "cannot map ids", host("/v", "/sys/kernel"))


@contextlib.contextmanager
def open_locked(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


class Sizes(VolumeTest):
    def test_memory(self):
        shell = self.box(memory("/v", size=2 * MIB))
        self.assertIn("No space left", shell("head -c 3000000 /dev/zero > /v/x", status=1))
        self.assertEqual(shell("df --output=size -B1 /v | tail -1"), str(2 * MIB))
        self.assertEqual(shell("stat -c %a:%u /v"), "1777:0")
        shell("rm /v/x; i=0; while test $i -lt 1200; do : > /v/$i; i=$((i+1)); done", status=2)

    def test_memory_is_charged(self):
        shell = self.box(memory("/v", size=256 * MIB), memory=32 * MIB)
        inside(shell.socket, "head -c 64000000 /dev/zero > /v/x 2>/dev/null")
        size = inside(shell.socket, "stat -c %s /v/x")[0]  # it may be ended, too, for there is no memory
        self.assertLess(int(size or 0), 64000000)

    def test_named(self):
        source = {"flags": MAKE | DELETE, "size": 16 * MIB}
        one = self.box(named("/v", self.name, **source))
        two = self.box(named("/w", self.name, **source))
        full = "No space left|Disk quota exceeded"
        self.assertRegex(one("head -c 20000000 /dev/zero > /v/x", status=1), full)
        self.assertLessEqual(int(two("stat -c %s /w/x")), 16 * MIB)
        self.assertRegex(two("head -c 1000000 /dev/zero > /w/y", status=1), full)
        one("rm /v/x; echo room > /v/z")
        self.assertEqual(two("cat /w/z"), "room")
        self.remove(one.sandbox)
        self.assertEqual(two("cat /w/z"), "room")
        self.remove(two.sandbox)
        self.gone(self.name)

    def test_named_survives_its_users(self):
        first = self.box(named("/v", self.name, flags=MAKE, size=16 * MIB))
        first("echo kept > /v/x")
        self.remove(first.sandbox)
        eventually(lambda: not self.ground.case.our_processes(), 1)
        self.ground.crash()
        second = self.box(named("/v", self.name, size=16 * MIB))
        self.assertEqual(second("cat /v/x"), "kept")

    def test_another_size(self):
        self.box(named("/v", self.name, flags=MAKE | DELETE, size=16 * MIB))
        self.refused(INVALID, "has a size of 16777216 bytes", named("/v", self.name, flags=MAKE, size=17 * MIB))
        self.box(named("/v", self.name))
        self.box(named("/v", self.name + "-n", flags=MAKE | DELETE))
        self.refused(INVALID, "no size limit", named("/v", self.name + "-n", flags=MAKE, size=16 * MIB))

    def test_size_that_cannot_be_had(self):
        self.refused(INVALID, "16Mi", named("/v", self.name, flags=MAKE, size=MIB))
        self.refused(INVALID, "more than the file system", named("/v", self.name, flags=MAKE, size=1 << 50))
        self.assertFalse((self.ground.store / self.name).exists())

    def test_many_at_once(self):
        """One loop device for all, whoever is first."""
        client = self.ground.client
        body = [named("/v", self.name, flags=MAKE | DELETE, size=16 * MIB)]
        asked = [client.send(CREATE, create_body(str(uuid.uuid4()), volumes=body)) for _ in range(6)]
        results = [client.wait(one) for one in asked]
        self.assertEqual([one.code for one in results], [OK] * 6, [one.message for one in results])
        for number, one in enumerate(results):
            self.assertEqual(inside(one.socket, f"echo {number} > /v/{number}; sync")[1], 0)
        self.assertEqual(inside(results[0].socket, "cat /v/?")[0].split(), list("012345"))

    def test_one_at_a_time(self):
        """Whoever looks for the loop device of a volume waits for those who do so already: there must be one only."""
        self.box(named("/v", self.name, flags=MAKE | DELETE, size=16 * MIB))
        if not (self.ground.store / self.name / "disk").exists():
            self.skipTest("there is project quota here")
        pid = self.ground.case.process.pid
        with open_locked(self.ground.store / self.name):
            asked = self.ground.client.send(CREATE, create_body(str(uuid.uuid4()), volumes=[named("/v", self.name)]))
            self.assertTrue(eventually(lambda: any(
                system_call(child)[:1] == [FLOCK] for child in read(f"/proc/{pid}/task/{pid}/children").split())))
        self.assertEqual(self.ground.client.wait(asked).code, OK)


class Ends(VolumeTest):
    """When named volumes go, and when they stay."""

    def made(self, flags=MAKE | DELETE):
        shell = self.box(named("/v", self.name, flags=flags))
        shell("echo data > /v/x")
        return shell

    def test_with_its_maker(self):
        self.remove(self.made().sandbox)
        self.gone(self.name)

    def test_it_stays(self):
        self.remove(self.made(MAKE).sandbox)
        self.assertEqual(self.box(named("/v", self.name, flags=MAKE | DELETE))("cat /v/x"), "data")
        self.tearDown()  # DELETE is for whoever made it
        self.assertTrue((self.ground.store / self.name).exists())

    def test_shared(self):
        maker = self.made()
        other = self.box(named("/v", self.name))
        self.remove(maker.sandbox)
        self.assertEqual(other("cat /v/x"), "data")
        third = self.box(named("/v", self.name))
        self.remove(other.sandbox)
        self.assertEqual(third("cat /v/x"), "data")
        self.remove(third.sandbox)
        self.gone(self.name)

    def test_deadline(self):
        shell = self.made()
        client = self.ground.client
        self.assertEqual(client.ask(DEADLINE, deadline_body(shell.sandbox, 1)).code, OK)
        client.wait_exit(shell.sandbox)
        self.assertTrue((self.ground.store / self.name).exists())
        self.assertEqual(client.state(shell.sandbox), EXITED)
        self.remove(shell.sandbox)
        self.gone(self.name)

    def test_create_that_fails_later(self):
        self.refused(INVALID, "symbolic link", named("/v", self.name, flags=MAKE | DELETE), memory("/bin/x"))
        self.gone(self.name)
        self.refused(INVALID, "symbolic link", named("/v", self.name, flags=MAKE), memory("/bin/x"))
        self.assertEqual(self.box(named("/v", self.name))("ls /v"), "")  # whole, and kept

    def test_made_anew_at_once(self):
        for _ in range(5):
            shell = self.made()
            self.assertEqual(shell("ls /v"), "x")
            self.remove(shell.sandbox)
        self.gone(self.name)

    def test_launcher_killed(self):
        maker, other = self.made(), self.box(named("/v", self.name))
        self.ground.crash()
        self.assertEqual(maker("cat /v/x"), "data")
        self.remove(maker.sandbox)
        time.sleep(0.1)
        self.assertEqual(other("cat /v/x"), "data")
        self.ground.crash()
        self.assertEqual(other("cat /v/x"), "data")
        self.remove(other.sandbox)
        self.gone(self.name)

    def test_removed_while_no_launcher_could_delete(self):
        maker = self.made()
        kept = self.box(named("/v", self.name + "-kept", flags=MAKE))
        self.ground.case.crash()
        for shell in (maker, kept):
            inside(shell.socket, "exit 0")
            folder = f"{self.ground.case.state}/launcher/sandboxes/{shell.sandbox}"
            os.rename(folder, f"{self.ground.case.state}/launcher/loose/{shell.sandbox}.0")
        self.ground.start()
        self.gone(self.name)
        self.assertTrue((self.ground.store / (self.name + "-kept")).exists())

    def test_damaged_description(self):
        self.remove(self.made(MAKE).sandbox)
        (self.ground.store / self.name / "volume").write_text("")
        result = self.ground.ask(named("/v", self.name))
        self.assertIn("damaged", result.message)
        self.ground.crash()
        self.assertTrue((self.ground.store / self.name / "data/x").exists())


class Hanging(VolumeTest):
    """A file system that does not answer."""
    arguments = ("--make-seconds", "2")

    def test_slot_is_given_up(self):
        place = self.ground.folder(self.name)
        fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
        self.ground.case.crash()  # a launcher sees mounts that were there before it, and those that are shared
        self.assertEqual(LIBC.mount(b"dead", os.fsencode(place), b"fuse", 0, options), 0)
        try:
            self.ground.start()
            client = self.ground.client
            asked = client.send(CREATE, create_body("5c0ffee5-0000-4000-8000-000000000000",
                                                    volumes=[host("/v", place / "x", flags=MAKE)]))
            shell = self.box(memory("/v"))  # others are served meanwhile
            self.assertEqual(shell("echo here"), "here")
            result = client.wait(asked)
            self.assertEqual(result.code, TIMEOUT, result.message)
            self.assertIn("open the volumes", result.message)
        finally:
            os.close(fd)
            LIBC.umount2(os.fsencode(place), 2)
        self.assertEqual(client.ask(LIST, id_body(""))[0][0].id, shell.sandbox)


# Failures. ----------------------------------------------------------------------------------------------------

class WithVolumes:
    """Sandboxes that have one of each kind: there is one with all of them, or none, and no volume that is half
    made or that nobody deletes. (What is done without volumes is tested with the launcher.)"""
    slots = 0

    def start(self, *arguments, wrapper=()):
        self.given = self.dir + "/given"
        os.makedirs(self.given, exist_ok=True)
        super().start("--allow-host-path", self.given, *arguments, wrapper=wrapper)

    def volumes(self):
        return [host("/v/host", self.given + "/new/deep", flags=MAKE), named("/v/kept", "kept", flags=MAKE),
                named("/v/named", "named", flags=MAKE | DELETE), memory("/v/memory")]

    def body(self, kind, sandbox):
        return create_body(sandbox, volumes=self.volumes()) if kind == CREATE else id_body(sandbox)

    def running(self):
        return self.clients[-1].create(volumes=self.volumes())[0]

    def check(self, expect, what=""):
        listed = super().check(expect, what)
        store = f"{self.state}/launcher/volumes"
        for name in os.listdir(store):
            if sorted(os.listdir(f"{store}/{name}")) != ["data", "volume"]:
                raise Trouble(f"{what}: volume {name} is not whole: {os.listdir(f'{store}/{name}')}")
        others = [one for one in listed if one != self.keeper]
        if not others and os.path.exists(f"{store}/named"):
            raise Trouble(f"{what}: its volume is left")
        for one in others:
            if listed[one].state != RUNNING:
                continue
            said = inside(listed[one].socket, "for v in host kept named memory; do "
                          "touch /v/$v/x && grep -c \" /v/$v .*nosuid,nodev\" /proc/self/mounts; done")
            if said != ("1\n" * 4, 0):
                raise Trouble(f"{what}: its volumes: {said}")
        return listed


class Failures(WithVolumes, faults.FaultsWithoutPool):
    """Some of a slot's system calls fail; in a soak each."""
    stride = 12 if faults.ROUNDS == 1 else 1
    harmless = [
        *faults.Faults.harmless,
        (r"recvfrom\(", [errno.EAGAIN]),               # which is what it says while there is a launcher
        (r"faccessat2\(", faults.ERRORS),              # whether it is there: it is made, and found then
        (r"read\(", [errno.EINTR]),                    # what it is: read again
    ]


class Kills(WithVolumes, kills.Steps):
    """The launcher, or a slot, is killed before each call that makes or deletes something."""
    never = () if kills.ALL_STEPS else (
        *kills.Steps.never, "openat", "openat2", "write", "clone", "clone3", "setresuid", "setresgid", "ioctl", "sendto",
        "recvfrom", "mount_setattr", "fsmount", "open_tree", "move_mount", "symlinkat", "mknodat", "capset",
        "pidfd_send_signal", "waitid", "socket", "bind", "listen", "fchmodat", "fchownat", "sendmsg", "recvmsg",
        "epoll_wait", "epoll_ctl", "setsid", "unshare", "chdir", "fchdir", "pread64", "pwrite64", "setrlimit", "dup2",
        "keyctl", "setgroups", "statx", "lseek", "epoll_pwait", "close_range", "brk", "mmap", "munmap")


keep_only(Failures, "test_new_slot_in_create")
keep_only(Kills, "test_new_slot_in_create", "test_launcher_in_create", "test_launcher_in_remove")


# Over HTTP. ---------------------------------------------------------------------------------------------------

class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.allowed = Path(tempfile.mkdtemp(prefix="osb-volumes-", dir="/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.allowed)
        os.chown(cls.allowed, OWNER, OWNER)
        cls.server = Server(config=f'[storage]\nallowed_host_paths = ["/srv/none", "{cls.allowed}"]\n')
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def volume(self, **fields):
        return {"name": "v", "mountPath": "/v", **fields}

    def refused(self, status, code, word, *volumes):
        answer = self.server.request("POST", "/v1/sandboxes", {
            "image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {},
            "volumes": list(volumes)})
        self.assertEqual((answer.status, answer.json()["code"]), (status, code), answer)
        self.assertIn(word, answer.json()["message"])

    def store(self, name):
        return self.server.state / "state/launcher/volumes" / name

    def test_all_sources(self):
        box = self.server.create(volumes=[
            {"name": "a", "mountPath": "/data", "host": {"path": f"{self.allowed}/made"}},
            {"name": "b", "mountPath": "/data/claim", "pvc": {"claimName": "claim", "storage": "16Mi",
                                                              "deleteOnSandboxTermination": True}},
            {"name": "c", "mountPath": "/scratch", "tmpfs": {"size": "1Mi"}},
            {"name": "d", "mountPath": "/again", "host": {"path": f"{self.allowed}/made"}, "readOnly": True}])
        box.output("echo hello > /data/file; echo there > /data/claim/file; echo x > /scratch/x")
        self.assertEqual((self.allowed / "made/file").read_text(), "hello\n")
        self.assertEqual(on_disk(self.allowed / "made/file"), (OWNER, OWNER, 0o644))
        self.assertEqual(box.output("cat /again/file; touch /again/x || echo no"), "hello\nno")
        self.assertTrue(self.store("claim").exists())
        box.delete()
        wait_until(lambda: not self.store("claim").exists(), what="the volume is deleted with the sandbox")

    def test_shared_and_kept(self):
        claim = self.volume(pvc={"claimName": "shared"})
        one, two = self.server.create(volumes=[claim]), self.server.create(volumes=[claim])
        one.output("mkdir /v/sub; echo one > /v/sub/file")
        self.assertEqual(two.output("cat /v/sub/file"), "one")
        one.delete()
        two.delete()
        self.server.restart()
        box = self.server.create(volumes=[{**claim, "subPath": "sub", "readOnly": True}])
        self.assertEqual(box.output("cat /v/file"), "one")
        box.output("ln -s / /v/root || true")
        box.delete()

    def test_refused_by_the_server(self):
        self.refused(400, "VOLUME::HOST_PATH_NOT_ALLOWED", '"/etc"', self.volume(host={"path": "/etc"}))
        self.refused(400, "VOLUME::INVALID_HOST_PATH", "..", self.volume(host={"path": f"{self.allowed}/../x"}))
        self.refused(400, "VOLUME::INVALID_SUB_PATH", "subPath",
                     self.volume(host={"path": str(self.allowed)}, subPath="../x"))
        self.refused(400, "VOLUME::UNSUPPORTED_BACKEND", "ossfs", self.volume(ossfs={}))
        self.refused(400, "VOLUME::DUPLICATE_NAME", "name", self.volume(tmpfs={"size": "1Mi"}),
                     {"name": "v", "mountPath": "/w", "tmpfs": {"size": "1Mi"}})
        self.refused(400, "VOLUME::INVALID_MOUNT_PATH", "kernel",
                     {"name": "v", "mountPath": "/proc/x", "tmpfs": {"size": "1Mi"}})
        self.refused(400, "SANDBOX::INVALID_PARAMETER", "storageClass",
                     self.volume(pvc={"claimName": "c", "storageClass": "fast"}))

    def test_refused_by_the_launcher(self):
        self.refused(400, "VOLUME::PVC_NOT_FOUND", "'absent'",
                     self.volume(pvc={"claimName": "absent", "createIfNotExists": False}))
        (self.allowed / "link").symlink_to("/etc")
        self.refused(400, "VOLUME::HOST_PATH_NOT_ALLOWED", "symbolic link",
                     self.volume(host={"path": f"{self.allowed}/link"}))
        self.refused(400, "VOLUME::INVALID_SUB_PATH", "symbolic link",
                     self.volume(host={"path": str(self.allowed)}, subPath="link"))
        self.refused(400, "SANDBOX::INVALID_PARAMETER", "symbolic link",
                     {"name": "v", "mountPath": "/bin/v", "tmpfs": {"size": "1Mi"}})
        os.mkfifo(self.allowed / "fifo")
        self.refused(400, "SANDBOX::INVALID_PARAMETER", "neither",
                     self.volume(host={"path": f"{self.allowed}/fifo"}))
        self.refused(400, "SANDBOX::INVALID_PARAMETER", "more than the file system",
                     self.volume(pvc={"claimName": "huge", "storage": "900Ti"}))
        items = self.server.request("GET", "/v1/sandboxes").json()["items"]
        self.assertEqual(items, [])

    def test_the_default_allows_nothing(self):
        with Server() as server:
            answer = server.request("POST", "/v1/sandboxes", {
                "image": {"uri": "host"}, "entrypoint": ["true"], "resourceLimits": {},
                "volumes": [self.volume(host={"path": str(self.allowed)})]})
            self.assertEqual((answer.status, answer.json()["code"]), (400, "VOLUME::HOST_PATH_NOT_ALLOWED"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
