"""Programs started by an ordinary user instead of root, with and without subordinate ids.

Nothing of the machine is changed for it: the user has an entry only in an /etc that is put together in a mount
namespace of what is started. `use(kind)` has launcher.py and harness.py start what they start like that:

    None    as root
    "many"  subordinate ids for one range, which all sandboxes share
    "own"   for a hundred ranges, so that each sandbox has its own
    "one"   none: one id
"""
import contextlib
import functools
import os
import shutil
import subprocess
import tempfile

UID = 65533
NAME = "osb-test-user"
FIRST = 700_000_000  # of the subordinate ids
COUNTS = {"one": 0, "many": 65536, "own": 100 * 65536}

kind = None


def use(which):
    global kind
    kind = which


# "$1" has files that are to be in /etc; then the program. No propagation: what is mounted is seen by nobody else.
PREPARE = """
mount --make-rprivate / 2>/dev/null || true
mount -t overlay -o lowerdir="$1":/etc none /etc
shift
exec setpriv --reuid {uid} --regid {uid} --clear-groups "$@"
"""


@functools.cache
def etc(which):
    """A directory with the user's files; it stays until the end of this process."""
    import atexit
    folder = tempfile.mkdtemp(prefix="osb-etc-")
    atexit.register(shutil.rmtree, folder)
    os.chmod(folder, 0o755)
    for name, line in (("passwd", f"{NAME}:x:{UID}:{UID}::/nonexistent:/bin/sh\n"), ("group", f"{NAME}:x:{UID}:\n")):
        with open(f"/etc/{name}") as old, open(f"{folder}/{name}", "w") as new:
            new.write(old.read() + line)
    for name in ("subuid", "subgid"):
        with open(f"{folder}/{name}", "w") as new:
            if COUNTS[which]:
                new.write(f"somebody:100000:65536\n{NAME}:{FIRST}:{COUNTS[which]}\n")
    return folder


def command():
    """What goes before a command line; nothing when it is root's."""
    if kind is None:
        return []
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-eu", "-c", PREPARE.format(uid=UID), "sh",
            etc(kind)]


@functools.cache
def copy(path):
    """The same program where every user can execute it."""
    import atexit
    folder = tempfile.mkdtemp(prefix="osb-bin-")
    atexit.register(shutil.rmtree, folder)
    os.chmod(folder, 0o755)
    name = shutil.copy(path, folder)
    os.chmod(name, 0o755)
    return name


def program(path):
    return path if kind is None else copy(str(path))


def give(path):
    """To whom a directory must belong in which something is started."""
    if kind is not None:
        os.chown(path, UID, UID)


@contextlib.contextmanager
def acting():
    """Connect as the user: who connects is looked at."""
    if kind is None:
        yield
        return
    os.setegid(UID)
    os.seteuid(UID)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def processes(inside_only=False):
    """Those of the user and his subordinate ids, but zombies; all of them, or those in slots and sandboxes."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status") as file:
                fields = dict(line.split(":", 1) for line in file.read().splitlines())
        except OSError:
            continue
        uid = int(fields["Uid"].split()[0])
        if inside_only and len(fields["NSpid"].split()) < 2:
            continue
        if (uid == UID or FIRST <= uid < FIRST + COUNTS["own"]) and not fields["State"].strip().startswith("Z"):
            found.append((int(pid), fields["Name"].strip()))
    return found


@functools.cache
def obstacle():
    """Why ordinary users have no namespaces here, or None."""
    done = subprocess.run(["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "unshare", "-U",
                           "true"], stderr=subprocess.PIPE, text=True)
    return None if done.returncode == 0 else done.stderr.strip()
