"""A fresh Debian tree with nothing but `make`, and commands run in it by chroot.

The tree is made once by debootstrap and kept in the cache; each use works on a copy. The kernel's
file systems are mounted in a mount namespace of the command's own, so nothing is left mounted.
"""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import ROOT

CACHE = Path(os.environ.get("OSB_CACHE", Path.home() / ".cache/opensandbox-c"))
SUITE = "bookworm"

ENTER = r"""
set -eu
# Not by unshare itself: it cannot when the root directory is that of a chroot.
mount --make-rprivate / 2>/dev/null || true
tree=$1; cache=$2; shift 2
mkdir -p "$tree/proc" "$tree/sys" "$tree/dev" "$tree/root/.cache/opensandbox-c" "$cache/apt"
mount -t proc proc "$tree/proc"
mount --rbind /sys "$tree/sys"
mount --rbind /dev "$tree/dev"
mount --bind "$cache/apt" "$tree/var/cache/apt/archives"
mkdir -p "$cache/nested"
mount --bind "$cache/nested" "$tree/root/.cache/opensandbox-c"
# A network that has a certificate authority of its own: the tree trusts whom this machine trusts.
trust=""
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    cp /etc/ssl/certs/ca-certificates.crt "$tree/root/trust.crt"
    for name in PIP_CERT NODE_EXTRA_CA_CERTS npm_config_cafile; do
        trust="$trust $name=/root/trust.crt"
    done
fi
exec chroot "$tree" /usr/bin/env -i $trust PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/root TERM=dumb OSB_LISTEN=127.0.0.1:0 /bin/sh -c 'cd /root/opensandbox && exec "$@"' sh "$@"
"""


def base_tree():
    """The pristine tree; a half-made one is thrown away."""
    tree, mark = CACHE / "debian-12", CACHE / "debian-12/.complete"
    if not mark.exists():
        shutil.rmtree(tree, ignore_errors=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["debootstrap", "--variant=minbase", "--include=make", SUITE, str(tree)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise RuntimeError(f"debootstrap failed:\n{done.stdout[-3000:]}")
        mark.touch()
    return tree


def source_files():
    """What a checkout holds: tracked files where git knows, else everything but build output."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others",
                                 "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
        names = [n for n in listed.stdout.decode().split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                 if p.is_file() and p.relative_to(ROOT).parts[0] not in ("build", ".git")]
    return [n for n in names if (ROOT / n).is_file()]


class FreshTree:
    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="osb-test-", dir="/var/tmp"))
        self.tree = self.folder / "tree"
        subprocess.run(["cp", "-a", str(base_tree()), str(self.tree)], check=True)
        (self.tree / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (self.tree / "usr/sbin/policy-rc.d").chmod(0o755)
        for name in ("/etc/resolv.conf", "/etc/hosts"):
            if os.path.exists(name):
                shutil.copyfile(name, str(self.tree) + name)
        target = self.tree / "root/opensandbox"
        for name in source_files():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def start(self, *command):
        return subprocess.Popen(["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", ENTER,
                                 "enter", str(self.tree), str(CACHE), *command], text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
