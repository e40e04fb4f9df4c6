"""Runs a program under a seccomp filter that answers the named system calls with an error, as container
runtimes with old or strict profiles do. With HANG in the error's place they never return.

    python3 deny_syscalls.py ENOSYS clone3,openat2 PROGRAM ARG..."""

import ctypes
import errno
import os
import platform
import struct
import sys

X86 = platform.machine() == "x86_64"
ARCH = 0xC000003E if X86 else 0xC00000B7
NUMBERS = {"memfd_create": 319 if X86 else 279, "pidfd_open": 434, "clone3": 435, "close_range": 436,
           "openat2": 437, "unshare": 272 if X86 else 97, "seccomp": 317 if X86 else 277, "fsopen": 430,
           "landlock_create_ruleset": 444}
SECCOMP = NUMBERS["seccomp"]
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO, NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000


def main():
    hang = sys.argv[1] == "HANG"
    answer = NOTIFY if hang else ERRNO | getattr(errno, sys.argv[1])
    numbers = [NUMBERS[name] for name in sys.argv[2].split(",")]
    code = [(LOAD, 0, 0, 4), (JUMP_EQUAL, 0, len(numbers) + 1, ARCH), (LOAD, 0, 0, 0)]
    for i, number in enumerate(numbers):  # each jumps behind the rest and the ALLOW
        code.append((JUMP_EQUAL, len(numbers) - i, 0, number))
    code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, answer)]
    text = b"".join(struct.pack("HBBI", *line) for line in code)
    filter_bytes = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filter_bytes))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0:  # NO_NEW_PRIVS
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    # SET_MODE_FILTER; for HANG with a listener whom nobody ever reads and the program inherits
    listener = libc.syscall(SECCOMP, 1, 8 if hang else 0, ctypes.c_char_p(program))
    if listener < 0:
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
    if hang:
        os.set_inheritable(listener, True)
    os.execv(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
