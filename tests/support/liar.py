"""Programs for a server whose execd lies: a folder like build/bin with liar.c as opensandbox-execd."""
import os
import shutil
import subprocess
from pathlib import Path

from harness import BIN

SOURCE = Path(__file__).resolve().parent / "liar.c"


def build(path, *defines):
    subprocess.run(["cc", "-O1", "-static", "-w", *[f"-D{name}" for name in defines], "-o", str(path), str(SOURCE)],
                   check=True)


def make_programs(folder):
    """The server takes the programs that lie beside its own file, so that is copied."""
    os.chmod(folder, 0o755)
    for name in ("opensandbox-server", "opensandbox-launcher"):
        shutil.copy(BIN / name, folder / name)
    build(folder / "opensandbox-execd")
    return folder
