"""A launcher for a class of tests about volumes, a directory it may give away, and short words for both."""
import os
import shutil
import tempfile
import unittest
import uuid
from pathlib import Path

from launcher import (CREATE, OK, REMOVE, LauncherTest, create_body, eventually, id_body, inside, volume_body)

HOST, NAMED, TMPFS = 1, 2, 3
READ_ONLY, MAKE, DELETE = 1, 2, 4
STORE = 0x20000000  # the first id of the store's range
OWNER = 12345       # of the allowed directory's files, and nobody on this machine


def host(mount_path, source, **more):
    return volume_body(HOST, mount_path, str(source), **more)


def named(mount_path, name, **more):
    return volume_body(NAMED, mount_path, name, **more)


def memory(mount_path, size=1 << 20, **more):
    return volume_body(TMPFS, mount_path, size=size, **more)


class Ground:
    """One launcher, started once, that must leave nothing when it ends."""

    def __init__(self, *arguments, images=()):
        LauncherTest.setUpClass()
        self.case = LauncherTest("fd_count")
        self.case.setUp()
        self.top = Path(tempfile.mkdtemp(prefix="osb-volumes-", dir="/tmp"))
        self.top.chmod(0o755)
        self.allowed = self.top / "allowed"
        self.allowed.mkdir()
        os.chown(self.allowed, OWNER, OWNER)
        self.arguments = ["--allow-host-path", str(self.allowed), *arguments]
        for name in images:
            (self.top / name).mkdir()
            self.arguments += ["--image", f"{name}={self.top / name}"]
        self.start()

    def start(self):
        self.case.start(*self.arguments)
        self.client = self.case.connect()

    def crash(self):
        self.case.crash()
        self.start()

    def close(self):
        self.case.finish()
        shutil.rmtree(self.top)

    @property
    def store(self):
        return Path(self.case.state) / "launcher/volumes"

    def ask(self, *volumes, sandbox=None, **fields):
        return self.client.ask(CREATE, create_body(sandbox or str(uuid.uuid4()), volumes=volumes, **fields))

    def folder(self, name, owner=OWNER):
        """A directory in the allowed one."""
        path = self.allowed / name
        path.mkdir(parents=True)
        os.chown(path, owner, owner)
        return path

    def file(self, path, text="content\n", owner=OWNER, mode=0o644):
        path.write_text(text)
        os.chown(path, owner, owner)
        path.chmod(mode)
        return path


class VolumeTest(unittest.TestCase):
    """Tests that share a launcher. Each removes its sandboxes; what it made in the allowed directory has a
    name of its own."""
    arguments, images = (), ()

    @classmethod
    def setUpClass(cls):
        cls.ground = Ground(*cls.arguments, images=cls.images)
        cls.addClassCleanup(cls.ground.close)

    def setUp(self):
        self.name = "v" + uuid.uuid4().hex[:12]

    def tearDown(self):
        for one in self.ground.client.list():
            self.remove(one.id)

    def box(self, *volumes, **fields):
        """A shell in a sandbox with these volumes: returns a function."""
        sandbox = str(uuid.uuid4())
        result = self.ground.ask(*volumes, sandbox=sandbox, **fields)
        self.assertEqual(result.code, OK, result.message)

        def run(command, status=0):
            said, got = inside(result.socket, f"({command}) 2>&1")
            self.assertEqual(got, status, f"{command}: {said}")
            return said.strip()
        run.sandbox, run.socket = sandbox, result.socket
        return run

    def refused(self, code, word, *volumes, **fields):
        result = self.ground.ask(*volumes, **fields)
        self.assertEqual(result.code, code, result.message)
        self.assertIn(word, result.message)
        return result

    def remove(self, sandbox):
        self.assertEqual(self.ground.client.ask(REMOVE, id_body(sandbox)).code, OK)

    def gone(self, name):
        self.assertTrue(eventually(lambda: not (self.ground.store / name).exists()), f"volume {name} is there")
