"""Runs a program under a seccomp filter that answers the named system calls with an error, as container
runtimes with old or strict profiles do.

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
           "openat2": 437}
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def main():
    error = getattr(errno, sys.argv[1])
    numbers = [NUMBERS[name] for name in sys.argv[2].split(",")]
    code = [(LOAD, 0, 0, 4), (JUMP_EQUAL, 0, len(numbers) + 1, ARCH), (LOAD, 0, 0, 0)]
    for i, number in enumerate(numbers):  # each jumps behind the rest and the ALLOW
        code.append((JUMP_EQUAL, len(numbers) - i, 0, number))
    code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | error)]
    text = b"".join(struct.pack("HBBI", *line) for line in code)
    filter_bytes = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filter_bytes))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((38, 1, 0, 0, 0), (22, 2, ctypes.c_char_p(program), 0, 0)):  # NO_NEW_PRIVS, SECCOMP
        if libc.prctl(*call) != 0:
            sys.exit(f"prctl {call[0]}: {os.strerror(ctypes.get_errno())}")
    os.execv(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
