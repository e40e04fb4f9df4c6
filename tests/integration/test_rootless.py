"""Server and launcher of an ordinary user: what the kernel grants works, what is missing is told.

The applicable tests of the launcher's suites are run again with a launcher that an ordinary user has started: most
with subordinate ids ("many"), some with ids of their own for each sandbox ("own") or with one id ("one").
"""
import importlib
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE), str(HERE.parent / "security")]
import rootless  # noqa: E402


def again(module, case, kind, without=()):
    """A test case of another suite with another way of starting; `without` are those that need what is missing."""
    base = getattr(importlib.import_module(module), case)

    class Again(base):
        @classmethod
        def setUpClass(cls):
            if rootless.obstacle():
                raise unittest.SkipTest(rootless.obstacle())
            rootless.use(kind)
            cls.addClassCleanup(rootless.use, None)
            super().setUpClass()

    for name in without:
        assert hasattr(base, name), f"{module}.{case} has no {name}"
        setattr(Again, name, None)
    Again.__name__ = Again.__qualname__ = f"{kind.capitalize()}_{module.removeprefix('test_')}_{case}"
    Again.__module__ = __name__
    globals()[Again.__name__] = Again


again("test_launcher", "Messages", "many", ("test_a_peer_that_does_not_read_is_cut",))
again("test_launcher", "Life", "many", ("test_no_descriptor_is_left", "test_pages"))  # the same, and long
again("test_launcher_inside", "Inside", "many", (
    "test_descriptors", "test_dev_is_in_order", "test_file_system", "test_identity", "test_locks_are_ones_own",
    "test_no_way_to_the_host"))
again("test_launcher_restart", "Restart", "many", ("test_remains_are_cleared",))  # by control groups
again("test_launcher_restart", "OtherWays", "many", (
    "test_groups_v2_without_controllers", "test_inherited_socket", "test_other_server_user", "test_plain_chroot"))
again("test_launcher_shapes", "Shapes", "many")
