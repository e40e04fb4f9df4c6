"""Runs a program where nobody can make a user namespace: in one of its own, in which the setting says so.

Usage, as root: python3 block_userns.py PROGRAM [ARGUMENT...]
"""
import ctypes
import os
import sys

CLONE_NEWUSER = 0x10000000


def main():
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        if ctypes.CDLL(None).unshare(CLONE_NEWUSER) != 0:
            sys.exit("cannot make a user namespace")
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        with open("/proc/sys/user/max_user_namespaces", "w") as file:
            file.write("0")
        os.execvp(sys.argv[1], sys.argv[1:])
    os.read(ready[0], 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{child}/{name}", "w") as file:
            file.write("0 0 65536")
    os.write(go[1], b"x")
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
