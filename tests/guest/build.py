#!/usr/bin/env python3
"""Makes the machine that tests/guest/run.py boots: Debian's kernel, a small initrd, a disk.

All of it comes from Debian packages by name and is kept in OSB_CACHE/guest/<hash of this file's
inputs>/, so that a second run, and one without a network, starts at once. Our own programs and tests
are not in it: they come on a second disk that is written for every run.
"""
import fcntl
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from fresh import CACHE, base_tree  # noqa: E402

KERNEL = "linux-image-cloud-amd64"
# What our programs link with, then what the tests use.
PACKAGES = ["libuv1", "libjansson4", "libsqlite3-0", "libseccomp2", "libcmocka0",
            "busybox-static", "e2fsprogs", "gcc", "hostname", "iproute2", "kmod", "libc6-dev", "mount",
            "nftables", "procps", "psmisc", "python3", "util-linux"]
# In the order in which they need each other; the rest is loaded by the kernel's own requests.
BOOT_MODULES = ["virtio/virtio", "virtio/virtio_ring", "virtio/virtio_pci_legacy_dev",
                "virtio/virtio_pci_modern_dev", "virtio/virtio_pci", "block/virtio_blk"]
DISK_BYTES = 4 << 30
KEPT = 3  # results of other inputs: other branches of the same machine

INSTALL = r"""
set -eu
mount --make-rprivate / 2>/dev/null || true
tree=$1; archives=$2; kernel=$3; shift 3
mount -t proc proc "$tree/proc"
mount --bind "$archives" "$tree/var/cache/apt/archives"
# Its set-up scripts would make an initrd, which we do ourselves: only its files are wanted.
exec chroot "$tree" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
    /bin/sh -euc '
    kernel=$1; shift
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@"
    image=$(apt-cache depends "$kernel" | sed -n "s/^  Depends: \(linux-image-[^ ]*\)$/\1/p")
    [ -n "$image" ] || { echo "$kernel names no kernel image" >&2; exit 1; }
    cd /var/cache/apt/archives
    apt-get install -y -qq --no-install-recommends --download-only "$image"
    for file in "$image"_*.deb; do last=$file; done
    dpkg-deb -x "$last" /kernel
    mv /kernel/lib/modules /usr/lib/modules
    mv /kernel/boot/vmlinuz-* /vmlinuz
    rm -rf /kernel
    depmod "$(ls /usr/lib/modules)"
' sh "$kernel" "$@"
"""

INIT = r"""#!/bin/busybox sh
# Finds the disks and goes on from the one with the tests.
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for module in /modules/*; do /bin/busybox insmod "$module"; done
tries=0
until [ -b /dev/vda ] && [ -b /dev/vdb ] && [ -b /dev/vdc ]; do
    tries=$((tries + 1)); [ $tries -lt 300 ] || exec /bin/busybox poweroff -f
    /bin/busybox usleep 100000
done
/bin/busybox mount -t ext4 -o rw,noatime /dev/vda /root || exec /bin/busybox poweroff -f
/bin/busybox mount -t ext4 -o ro /dev/vdb /root/opt || exec /bin/busybox poweroff -f
/bin/busybox mount --move /dev /root/dev
/bin/busybox mount --move /proc /root/proc
exec /bin/busybox switch_root /root /bin/sh /opt/tests/guest/init.sh
"""


def newc(name, mode, data=b""):
    """One member of a cpio archive as the kernel unpacks it."""
    fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def make_initrd(tree, path):
    modules, = (tree / "usr/lib/modules").iterdir()
    members = [newc("bin", 0o40755), newc("modules", 0o40755),
               newc("bin/busybox", 0o100755, (tree / "usr/bin/busybox").read_bytes()),
               newc("init", 0o100755, INIT.encode())]
    for number, name in enumerate(BOOT_MODULES):
        data = (modules / "kernel/drivers" / f"{name}.ko").read_bytes()
        members.append(newc(f"modules/{number}-{os.path.basename(name)}.ko", 0o100644, data))
    path.write_bytes(gzip.compress(b"".join(members) + newc("TRAILER!!!", 0), 1))


def make_disk(tree, path, size, *options):
    """A file system with what is in `tree`, owners and modes included."""
    with open(path, "wb") as file:
        file.truncate(size)
    content = ["-d", str(tree)] if tree else []
    done = subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", *options, *content, str(path)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"mkfs.ext4 failed:\n{done.stdout[-3000:]}")


def fill(folder):
    tree = folder / "tree"
    subprocess.run(["cp", "-a", str(base_tree()), str(tree)], check=True)
    (tree / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (tree / "usr/sbin/policy-rc.d").chmod(0o755)
    for name in ("/etc/resolv.conf", "/etc/hosts"):
        if os.path.exists(name):
            shutil.copyfile(name, str(tree) + name)
    archives = CACHE / "apt"
    archives.mkdir(exist_ok=True)
    done = subprocess.run(["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", INSTALL, "install",
                           str(tree), str(archives), KERNEL, *PACKAGES], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"the guest's packages cannot be installed:\n{done.stdout[-3000:]}")
    (tree / "etc/hostname").write_text("guest\n")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost guest\n")
    make_initrd(tree, folder / "initrd")
    os.replace(tree / "vmlinuz", folder / "vmlinuz")
    shutil.rmtree(tree / "var/lib/apt/lists")
    make_disk(tree, folder / "root.ext4", DISK_BYTES)
    shutil.rmtree(tree)


def key():
    """What the result depends on: this file, which says all of it."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]


def forget_old(place, kept):
    others = [p for p in place.iterdir() if p.is_dir() and p != kept]
    for old in sorted(others, key=lambda p: p.stat().st_mtime, reverse=True)[KEPT:]:
        shutil.rmtree(old)


def ensure(say=print):
    """The folder with vmlinuz, initrd and root.ext4; made if it is not there yet."""
    place = CACHE / "guest"
    result = place / key()
    if result.exists():
        return result
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if result.exists():  # another run made it meanwhile
            return result
        say("making the guest: packages, initrd, disk (once)")
        with tempfile.TemporaryDirectory(prefix="new-", dir=place) as folder:
            made = Path(folder) / "made"
            made.mkdir()
            fill(made)
            os.rename(made, result)
        forget_old(place, result)
    return result


if __name__ == "__main__":
    print(ensure())
