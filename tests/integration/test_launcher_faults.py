#!/usr/bin/env python3
"""System calls that fail: each call of the launcher, of a slot and of a deleting worker in turn, in create
and in remove.

The request must be answered (or its connection cut, when it is the connection that fails), what is there
afterwards must be what was answered, the launcher must live and serve the next request, and nothing may be
left: files, groups, processes, ranges of ids, descriptors, memory.

    python3 tests/support/tap.py tests/integration/test_launcher_faults.py
"""
import ctypes
import errno
import os
import re
import unittest

from harness import SANITIZED
from launcher import CREATE, OK, REMOVE, RUNNING, create_body, eventually, id_body
from launcher_state import NOT_NETWORK, SweptLauncher, Trouble, keep_only, read

ERRORS = [errno.ENOMEM, errno.EMFILE, errno.ENOSPC, errno.EINTR, errno.EIO, errno.EAGAIN]
# How many of them each call gets: which ones differs from call to call. All of them: tests/soak.
ROUNDS = int(os.environ.get("OSB_FAULT_ROUNDS", 1))
STRIDE = 7 if SANITIZED else 1  # with sanitizers every seventh call

# Calls that cannot fail in the way they are made, so that there is nothing to be survived.
NEVER = [
    ("epoll_ctl", 1, 2), ("epoll_ctl", 1, 3),  # DEL and MOD of what is there
    "pidfd_send_signal",  # SIGKILL to a child of ours
    "waitid",             # for a child of ours, without waiting
    "rt_sigaction", "rt_sigprocmask", "umask", "getpid", "getppid", "geteuid",  # take no resource
    "munmap", "madvise", "mprotect",
]
# Calls whose failure may end the launcher, with a line that says why; the next one must find all in order.
FATAL = {
    "epoll_wait": "without events there is nothing to serve; cannot wait for events",
    "brk": "memory is out: see base/mem.h",
    "mmap": "memory is out: see base/mem.h",
}
# Not LeakSanitizer, which gives up when it ends under our tracer.
SANITIZER = re.compile("AddressSanitizer|runtime error:|detected memory leaks")
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


class Faults(SweptLauncher):
    never = NEVER
    stride = STRIDE
    # What may fail in a slot that becomes a sandbox, and with which errors: no confinement may be missing.
    harmless = [
        (r"sendto\(.*, 0x58, ", ERRORS),                # what it noted by the way
        (r"close\(", ERRORS),                          # it is closed whatever it says
        (r"recvfrom\(.*, 0x1, 0x42\)", [errno.EAGAIN]),  # as it should: no word from the launcher, which lives
        (r"(write|getrandom)\(", [errno.EINTR]),       # made again: the text of a file, the name
    ]

    def memory(self):
        """KiB of the launcher's heap and other private data."""
        return int(re.search(r"VmData:\s+(\d+)", read(f"/proc/{self.process.pid}/status")).group(1))

    def reconnect(self):
        self.clients.pop().close()
        self.peers -= 1
        self.connect()

    def after(self, words, result):
        """The launcher lives, or was allowed to end and another one serves."""
        if self.process.poll() is None:
            if result is None:
                self.reconnect()
            return
        log = self.read_log()
        call = re.search(r"call \d+ (\w+)", words)
        if call is None or call.group(1) not in FATAL or SANITIZER.search(log):
            raise Trouble(f"{words}: the launcher ended\n{log}")
        if self.process.returncode == 1 and "error" not in log:
            raise Trouble(f"{words}: the launcher ended without a word\n{log}")
        self.again()

    def look(self, sandbox, words, result):
        """What is listed of it. A launcher that may end may do so only now: its last call was its waiting."""
        self.after(words, result)
        try:
            return self.listed(sandbox)
        except self.cut:
            self.process.wait(20)
            self.after(words, result)
            return self.listed(sandbox)

    def one(self, role, number, error, kind, before, allowed):
        sandbox = before()
        self.settle()
        pid, left, held = self.process.pid, self.descriptors(), self.memory()
        hit, result = self.step(role, number, error, kind, self.body(kind, sandbox))
        words = (f"{role}: {errno.errorcode[error]} for call {hit}, "
                 f"answered {result and (result.code, result.message)}")
        listed = self.look(sandbox, words, result)
        if not allowed(listed, result, hit):
            raise Trouble(f"{words}: {listed and (listed.state, listed.reason)}\n{self.read_log()}")
        self.settle()
        self.check([self.keeper] + ([sandbox] if listed else []), words)
        if listed and role == "slot" and hit and hit.endswith(" " + self.record(sandbox)["pid"]):
            call = hit.split(" ", 1)[1]
            if not any(error in errors and re.match(form, call) for form, errors in self.harmless):
                raise Trouble(f"{words}: became a sandbox all the same")
        if listed:
            self.assertEqual(self.clients[-1].ask(REMOVE, id_body(sandbox)).code, OK, words)
        again = self.request(CREATE, self.body(CREATE, sandbox))
        if again is None or again.code != OK:
            raise Trouble(f"{words}: afterwards {again and again.message}\n{self.read_log()}")
        self.assertEqual(self.clients[-1].ask(REMOVE, id_body(sandbox)).code, OK, words)
        self.settle()
        if self.process.pid == pid:
            self.assertTrue(eventually(lambda: self.descriptors() == left, 5),
                            f"{words}: not {left} descriptors: {self.open_files()}")
        return hit, held

    def sweep(self, role, kind, before, allowed):
        calls, first = [], None
        for number in range(1, 2000, self.stride):
            for number_of_error in range(ROUNDS):
                error = ERRORS[(number // self.stride + number_of_error) % len(ERRORS)]
                hit, held = self.one(role, number, error, kind, before, allowed)
                first = first or held
            if hit is None:
                break
            calls.append(hit.split(" ")[1].split("(")[0])
        print(f"# {len(calls)} steps: " + " ".join(calls), flush=True)
        if not SANITIZED and not set(calls) & set(FATAL):
            self.assertLess(self.memory() - first, 512, "KiB more than at the beginning")
        return calls

    @staticmethod
    def created(listed, result, hit):
        if result is not None and (result.code == OK) != (listed is not None):
            return False
        return not listed or listed.state == RUNNING

    @staticmethod
    def removed(listed, result, _):
        return result is None or (result.code == OK) == (listed is None)

    def test_launcher_in_create(self):
        self.sweep("launcher", CREATE, self.new_name, self.created)

    def test_launcher_in_remove(self):
        self.sweep("launcher", REMOVE, self.running, self.removed)

    def test_launcher_in_remove_of_an_ended_one(self):
        self.sweep("launcher", REMOVE, self.exited, self.removed)

    def test_worker_in_remove(self):
        self.sweep("worker", REMOVE, self.running, self.removed)


class FaultsWithoutPool(Faults):
    """Every sandbox waits for a slot that is made for it."""
    slots = 0

    def test_new_slot_in_create(self):
        self.sweep("slot", CREATE, self.new_name, self.created)


class FaultsWithSpares(FaultsWithoutPool):
    """What the sandbox gets was another one's. What cannot be looked at or renewed is made anew; writing is
    looked at in the other classes, here it may have been for renewing."""
    spare = 3600
    harmless = [
        *Faults.harmless,
        (r"openat\(.* 'slot-\d+/(memory|cpu|cpuacct|blkio|freezer|pids\.events)", ERRORS),
        (r"openat\(.* 'self/net/", ERRORS),
        (r"(read|write)\(", ERRORS),
        (r"unlinkat\(.* 'slot-", ERRORS),               # tried in another way
    ]
    test_launcher_in_remove_of_an_ended_one = test_worker_in_remove = None


class FaultsToOrder(FaultsWithoutPool):
    """A disk limit: the sandbox's file system is a loop device. Most steps are those of other slots: every
    third, unless all errors are tried."""
    stride = max(STRIDE, 3) if ROUNDS == 1 else STRIDE
    harmless = [
        *Faults.harmless,
        (r"utimensat\(", ERRORS),                       # when the template was used last
        (r"openat\(.* '\d+\.img' ", ERRORS),            # a template that cannot be read is made anew
        (r"(newfstatat|fstat)\(.* '' ", ERRORS),
        (r"pread64\(.*, 0x400\) ", ERRORS),              # its superblock
        (r"unlinkat\(.* 'device' ", ERRORS),            # what a first try may have left
        # All of the disk is made once more after an error that a damaged template would give.
        (r"(mkdirat|openat)\(.* '(templates|disk)' ", [errno.EIO]),
        (r"(openat|symlinkat)\(.* '/dev/loop(-control|\d+)' ", [errno.EIO]),
        (r"(ftruncate|lseek|copy_file_range)\(", [errno.EIO]),
        (r"ioctl\(\w+, 0x4c(82|0a|a),", [errno.EIO]),    # LOOP_CTL_GET_FREE, LOOP_CONFIGURE
        (r"fsopen\(.* 'ext4' ", [errno.EIO]),
        (r"fsconfig\(.* '(source|errors|noinit_itable|nobarrier|discard|)' ", [errno.EIO]),
        (r"fsmount\(\w+, 0x1, 0x6, ", [errno.EIO]),      # no devices, no set-user-id: that of the disk
        (r"move_mount\(.* 'disk' ", [errno.EIO]),
    ]

    @staticmethod
    def body(kind, sandbox):
        return create_body(sandbox, disk=16 << 20) if kind == CREATE else id_body(sandbox)

    def running(self):
        return self.clients[-1].create(disk=16 << 20)[0]


class FaultsWithNat(FaultsWithoutPool):
    """Every sandbox has a device in the network. Every second step, unless all errors are tried."""
    network = 1
    stride = max(STRIDE, 2) if ROUNDS == 1 else STRIDE
    test_launcher_in_remove = Faults.test_launcher_in_remove
    harmless = [
        *Faults.harmless,
        (r"(sendto|recvfrom)\(", [errno.EINTR]),       # made again: a request to the kernel
    ]


    def test_new_slot_in_create(self):
        if ROUNDS == 1:  # the rest is what other slots do
            self.never = NEVER + [call for call in NOT_NETWORK if call not in NEVER]
        super().test_new_slot_in_create()


class FaultsWithSpareNat(FaultsWithNat):
    """A network that another sandbox had, with its device."""
    spare = 3600
    stride = max(STRIDE, 3) if ROUNDS == 1 else STRIDE
    harmless = [*FaultsWithSpares.harmless, *FaultsWithNat.harmless]


keep_only(FaultsWithoutPool, "test_launcher_in_create", "test_new_slot_in_create")
keep_only(FaultsWithSpareNat, "test_launcher_in_create", "test_new_slot_in_create")
keep_only(FaultsToOrder, "test_launcher_in_create", "test_new_slot_in_create")


if __name__ == "__main__":
    unittest.main(verbosity=2)
