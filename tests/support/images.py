"""Root file systems for tests, made in a directory of the test's own.

    with Images() as images:
        images.busybox("box")
        server = Server(config=images.config(user={"box": "1000:1000"}))
"""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

# One program that does what a test needs to know, since such an image has nothing else.
TOOL = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include <stdlib.h>
static int show(const char *path)
{
    char bytes[4096];
    int fd = open(path, O_RDONLY);
    ssize_t n;
    if (fd < 0) {
        perror(path);
        return 1;
    }
    while ((n = read(fd, bytes, sizeof(bytes))) > 0)
        fwrite(bytes, 1, (size_t)n, stdout);
    return 0;
}
int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    char cwd[4096];
    if (strcmp(verb, "wait") == 0)
        for (;;)
            pause();
    if (strcmp(verb, "show") == 0)
        return show(argv[2]);
    if (strcmp(verb, "who") == 0) {
        gid_t groups[64];
        int count = getgroups(64, groups);
        printf("uid=%d gid=%d groups=", (int)getuid(), (int)getgid());
        for (int i = 0; i < count; i++)
            printf("%s%d", i ? "," : "", (int)groups[i]);
        printf(" cwd=%s HOME=%s USER=%s\n", getcwd(cwd, sizeof(cwd)), getenv("HOME") ? getenv("HOME") : "-",
               getenv("USER") ? getenv("USER") : "-");
        return 0;
    }
    return 2;
}
"""


def compile_tool(compiler, target, *options):
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-O1", "-w", "-x", "c", "-", "-o", str(target), *options], input=TOOL, text=True,
                   check=True)


class Images:
    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="osb-test-images-"))
        self.folder.chmod(0o755)
        self.trees = {}
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def tree(self, name):
        """An empty one."""
        self.trees[name] = self.folder / name
        self.trees[name].mkdir()
        return self.trees[name]

    def add(self, name, path):
        self.trees[name] = Path(path)

    def bare(self, name):
        """One program without any library, and nothing else."""
        tree = self.tree(name)
        compile_tool("gcc", tree / "tool", "-static")
        return tree

    def musl(self, name):
        """A program that needs musl, and musl."""
        tree = self.tree(name)
        compile_tool("musl-gcc", tree / "tool")
        loader = next(Path("/lib").glob("ld-musl-*.so.1"))
        (tree / "lib").mkdir()
        shutil.copyfile(loader, tree / "lib" / loader.name)  # of what the link points to
        (tree / "lib" / loader.name).chmod(0o755)
        return tree

    def busybox(self, name):
        """A shell and the usual tools, but no /etc."""
        tree = self.tree(name)
        (tree / "bin").mkdir()
        shutil.copy(shutil.which("busybox"), tree / "bin/busybox")
        applets = subprocess.run(["busybox", "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        for applet in applets:
            if applet != "busybox":
                os.symlink("busybox", tree / "bin" / applet)
        return tree

    def config(self, user=None, workdir=None, slots=0):
        lines = ["[launcher]", f"slots = {slots}", "spare_seconds = 1"]
        for name, path in self.trees.items():
            lines += [f'[images."{name}"]', f'path = "{path}"']
            for key, values in (("user", user), ("workdir", workdir)):
                if name in (values or {}):
                    lines.append(f'{key} = "{values[name]}"')
        return "\n".join(lines) + "\n"
