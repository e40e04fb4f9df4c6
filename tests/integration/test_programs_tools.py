"""Debuggers, terminals, databases and archives inside a sandbox of the host image."""
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from programs import ProgramsCase  # noqa: E402

C = """
#include <stdio.h>
#include <unistd.h>

static int twice(int number) { return number * 2; }

int main(void)
{
    int answer = twice(21);
    printf("%d\\n", answer);
    fflush(stdout);
    pause();
    return 0;
}
"""


class Tools(ProgramsCase):
    def test_gdb_runs_a_program(self):
        self.write("a.c", C)
        told = self.sh("gcc -g -O0 a.c -o a && gdb -q -nx -batch -ex 'break twice' -ex run -ex bt -ex 'print number' "
                       "-ex 'set var number = 4' -ex finish -ex 'print $' -ex kill ./a 2>&1")
        self.assertRegex(told, r"#0 +twice \(number=21\) at a.c:5")
        self.assertRegex(told, r"#1 .* main \(\) at a.c:9")
        self.assertIn("$1 = 21", told)
        self.assertIn("Value returned is $2 = 8", told)
        self.assertNotIn("randomization", told)

    def test_gdb_attaches(self):
        self.write("a.c", C)
        told = self.sh("gcc -g -O0 a.c -o a && (./a >out & echo $! >pid) && until [ -s out ]; do sleep 0.05; done\n"
                       "gdb -q -nx -batch -p $(cat pid) -ex 'frame function main' -ex 'print answer' -ex 'gcore dump' 2>&1\n"
                       "kill $(cat pid); gdb -q -nx -batch ./a dump -ex 'frame function main' -ex 'print answer' 2>&1")
        self.assertEqual(told.count("$1 = 42"), 2, told)

    def test_strace(self):
        """One file for each process: in one for all, a call that another interrupts is cut in two."""
        self.sh("strace -ff -o trace sh -c '/bin/echo 42 | cat >out'")
        trace = self.sh("cat trace.*")
        self.assertRegex(trace, r'execve\("/bin/echo", \["/bin/echo", "42"\]')
        self.assertEqual(len(re.findall(r'write\(1, "42\\n", 3\) += 3', trace)), 2, trace)
        self.assertEqual(self.sh("cat out; ls trace.* | wc -l"), "42\n3")

    def test_strace_attaches(self):
        trace = self.sh("sleep 1000 & sleeper=$!; strace -o trace -p $sleeper 2>/dev/null & tracer=$!\n"
                        "until [ -s trace ]; do sleep 0.05; done; kill -INT $tracer; wait $tracer; kill $sleeper; cat trace")
        self.assertRegex(trace, r"clock_nanosleep|restart_syscall")

    def test_inotify(self):
        told = self.sh("mkdir -p watched/below; (inotifywait -q -m -r --format '%w%f %e' -e create,modify,move,delete watched >events & "
                       "echo $! >pid)\n"
                       "for i in $(seq 200); do touch watched/probe; rm watched/probe; grep -q probe events && break; sleep 0.05; done\n"
                       "echo 1 >watched/below/file; mv watched/below/file watched/moved; rm watched/moved\n"
                       "for i in $(seq 200); do grep -q 'moved DELETE' events && break; sleep 0.05; done\n"
                       "kill $(cat pid); grep -v probe events")
        self.assertEqual(told.splitlines(), [
            "watched/below/file CREATE", "watched/below/file MODIFY", "watched/below/file MOVED_FROM",
            "watched/moved MOVED_TO", "watched/moved DELETE"])

    def test_tmux(self):
        """A session without a terminal, typed into and looked at."""
        seen = self.sh("export TERM=xterm; tmux -L t new-session -d -x 80 -y 24 'bash --norc'; "
                       "tmux -L t send-keys 'echo $((6 * 7)) | tee out; tput cols; tty' Enter\n"
                       "for i in $(seq 200); do tmux -L t capture-pane -p | grep -q '^/dev/pts' && break; sleep 0.05; done\n"
                       "tmux -L t split-window -d 'sleep 1000'; tmux -L t list-panes | wc -l\n"
                       "tmux -L t capture-pane -p | grep -v '^$'; tmux -L t kill-server; cat out")
        lines = seen.splitlines()
        self.assertEqual(lines[0], "2")
        self.assertIn("42", lines[1:-1])
        self.assertIn("80", lines)
        self.assertRegex(seen, r"(?m)^/dev/pts/\d+$")
        self.assertEqual(lines[-1], "42")

    def test_sqlite_with_fsync(self):
        for mode in ("delete", "wal"):
            with self.subTest(mode):
                told = self.sh(
                    f"strace -f -e trace=fsync,fdatasync -o {mode}.trace sqlite3 {mode}.db 'pragma journal_mode={mode}; "
                    "pragma synchronous=full; create table t(a); "
                    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) insert into t select i from n; "
                    f"select sum(a) from t;'; sqlite3 {mode}.db 'pragma integrity_check; select count(*) from t'\n"
                    f"grep -cE '(fsync|fdatasync)\\(.*= 0' {mode}.trace; grep -c -- '= -1' {mode}.trace || true")
                lines = told.splitlines()
                self.assertEqual(lines[:4], [mode, "500500", "ok", "1000"])
                self.assertGreater(int(lines[4]), 1)
                self.assertEqual(lines[5], "0")

    def test_tar_with_owners(self):
        listing = "(cd {} && find . -printf '%p %U:%G %m %y %l %n\\n' | sort)"
        self.sh("mkdir -p from/sub to && cd from && echo a >root && echo b >web && echo c >user && echo d >last && "
                "cp /bin/true program && chown 33:33 web && chown 1000:1001 user && chown 65534:65533 last && "
                "chown -h 12:34 sub && chmod 4750 program && chown 5:6 program && chmod 4750 program && chmod 1777 sub && "
                "ln -s ../root sub/link && ln web sub/hard && mkfifo sub/pipe && chown 7:8 sub/pipe && setfattr -n user.note -v x root "
                "2>/dev/null; true")
        self.sh("tar --create --numeric-owner --xattrs --file a.tar --directory from . && "
                "tar --extract --numeric-owner --same-owner --xattrs --preserve-permissions --file a.tar --directory to")
        before, after = self.sh(listing.format("from")), self.sh(listing.format("to"))
        self.assertEqual(before, after)
        for expected in ("./web 33:33 644 f  2", "./last 65534:65533 644 f  1", "./program 5:6 4750 f  1",
                         "./sub 12:34 1777 d  2", "./sub/link 0:0 777 l ../root 1", "./sub/pipe 7:8 644 p  1"):
            self.assertIn(expected, after.splitlines())
        self.assertEqual(self.sh("diff -r --no-dereference from to 2>&1 | grep -v fifo; cat to/user"), "c")


if __name__ == "__main__":
    unittest.main()
