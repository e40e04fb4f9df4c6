#!/usr/bin/env python3
"""clang-format, clang-tidy, cppcheck, the layering rule and a few house rules, file by file.

Results of the slow checkers are remembered by content in BUILD/lint-cache, so that only what changed
is checked again. Prints TAP with --tap, else only what is wrong.
"""
import argparse
import concurrent.futures
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A file may include its own folder and those before it; programs never include each other.
LAYERS = ["base", "seccomp", "http", "model", "store", "image", "runtime"]
PROGRAMS = ["server", "launcher", "execd", "unpack", "egress", "ingress", "cli", "mcp"]
LAUNCHER_MAY = {"base", "seccomp", "launcher"}
# cppcheck reads no system headers, but must know the list macros.
QUEUE_HEADER = next(Path("/usr/include").glob("*/sys/queue.h"), "/usr/include/sys/queue.h")
BANNED = ["strcpy", "strcat", "sprintf", "vsprintf", "gets", "strtok", "atoi", "atol", "rand",
          "srand", "usleep", "sleep", "nanosleep", "system", "popen", "alloca", "tmpnam", "mktemp"]


def sources():
    for folder in ("src", "tests", "bench"):
        yield from sorted((ROOT / folder).rglob("*.[ch]"))


def relative(path):
    return str(path.relative_to(ROOT))


def check_format(files):
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, files)], cwd=ROOT,
                          capture_output=True, text=True)
    return [line for line in done.stderr.splitlines() if "error:" in line]


def allowed_folders(folder):
    if folder == "launcher":
        return LAUNCHER_MAY
    if folder in LAYERS:
        return set(LAYERS[:LAYERS.index(folder) + 1])
    return {*LAYERS, folder}


def check_layering(files):
    problems = []
    for path in files:
        parts = path.relative_to(ROOT).parts
        if parts[0] != "src":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match or match.group(1) == "llhttp.h":
                continue
            target = match.group(1)
            if "/" not in target:
                problems.append(f'{relative(path)}:{number}: write "{parts[1]}/{target}"')
                continue
            folder = target.split("/")[0]
            if target == "runtime/native/message.h" and parts[1] == "launcher":
                continue
            if folder not in allowed_folders(parts[1]):
                problems.append(f"{relative(path)}:{number}: {parts[1]}/ must not include {target}")
    return problems


def check_banned(files):
    words = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    problems = []
    for path in files:
        if path.relative_to(ROOT).parts[0] != "src":
            continue
        text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"',
                      lambda m: re.sub(r"[^\n]", " ", m.group()), path.read_text(), flags=re.S)
        for number, line in enumerate(text.splitlines(), 1):
            match = words.search(line)
            if match:
                problems.append(f"{relative(path)}:{number}: {match.group(1)}() is not used here")
    return problems


def included(path, seen):
    """The project's headers that a file reaches, itself included."""
    if path in seen or not path.exists():
        return seen
    seen.add(path)
    for target in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE):
        included(ROOT / "src" / target, seen)
        included(path.parent / target, seen)
    return seen


def digest_of(name, path):
    """Changes whenever what a checker would see of this file changes."""
    digest = hashlib.sha256(name.encode())
    settings = {ROOT / ".clang-tidy", ROOT / "CMakeLists.txt", Path(__file__)}
    for part in sorted(settings | included(path, set())):
        digest.update(part.read_bytes())
    return digest.hexdigest()


# The analyzer follows a function until it has seen so many states of it: with a third of the usual number most
# are still seen whole, and it takes half the time, which is nearly all of lint's.
ANALYZER = ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=60000"]


def run_tidy(path, build):
    extra = [f"--extra-arg={word}" for word in ["-Wno-unknown-warning-option", *ANALYZER]]
    done = subprocess.run(["clang-tidy", "--quiet", "-p", str(build), *extra, str(path)], cwd=ROOT,
                          capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if re.search(r": (warning|error): ", line)]
    if done.returncode and not lines:
        lines = done.stderr.splitlines()[-5:]
    return lines


def run_cppcheck(path, build):
    done = subprocess.run(
        ["cppcheck", "--quiet", "--std=c11", "--language=c", "--enable=warning,portability",
         "--inline-suppr", "--suppress=missingIncludeSystem", "--suppress=varFuncNullUB",
         f"--include={QUEUE_HEADER}",
         "--error-exitcode=0", f"-I{ROOT / 'src'}", "-D_GNU_SOURCE", "-D__x86_64__",
         "--template={file}:{line}: {severity}: {message} [{id}]", str(path)],
        cwd=ROOT, capture_output=True, text=True)
    return [line for line in done.stderr.splitlines() if line.strip()]


def check_cached(name, function, files, build, cache):
    """Only files that changed, or whose headers did, since they were last clean."""
    problems, todo = [], []
    for path in files:
        mark = cache / digest_of(name, path)
        if not mark.exists():
            todo.append((path, mark))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for (path, mark), found in zip(todo, pool.map(lambda t: function(t[0], build), todo)):
            if found:
                problems += found
            else:
                mark.touch()
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--tap", action="store_true")
    arguments = parser.parse_args()
    build = (ROOT / arguments.build).resolve()
    cache = build / "lint-cache"
    cache.mkdir(parents=True, exist_ok=True)

    files = list(sources())
    code = [path for path in files if path.suffix == ".c"]
    checks = {
        "clang-format": check_format(files),
        "layering": check_layering(files),
        "banned-functions": check_banned(files),
        "clang-tidy": check_cached("tidy", run_tidy, code, build, cache),
        "cppcheck": check_cached("cppcheck", run_cppcheck, code, build, cache),
    }
    for number, (name, problems) in enumerate(checks.items(), 1):
        if arguments.tap:
            print(f"{'not ok' if problems else 'ok'} {number} - {name}")
        for problem in problems[:200]:
            print(f"# {problem}" if arguments.tap else problem)
    if not arguments.tap and not any(checks.values()):
        print(f"lint: {len(files)} files clean")
    sys.exit(1 if any(checks.values()) else 0)


if __name__ == "__main__":
    main()
