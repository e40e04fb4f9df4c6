"""Shells, compilers and language runtimes inside a sandbox of the host image."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from programs import ProgramsCase  # noqa: E402

NODE = """
const { Worker, isMainThread, parentPort } = require('worker_threads');
const http = require('http'), fs = require('fs'), { execFileSync } = require('child_process');
if (isMainThread) {
  const worker = new Worker(__filename);
  worker.on('message', sum => {
    fs.writeFileSync('sum', String(sum));
    const server = http.createServer((request, answer) => answer.end(fs.readFileSync('sum')));
    server.listen(0, '127.0.0.1', () => http.get({ port: server.address().port }, answer => {
      answer.on('data', data => console.log(data.toString(), execFileSync('echo', ['child']).toString().trim()));
      answer.on('end', () => server.close());
    }));
  });
} else {
  parentPort.postMessage([...Array(101).keys()].reduce((a, b) => a + b));
}
"""

JAVA = """
import java.net.*; import java.nio.file.*; import java.util.*; import java.util.concurrent.*; import java.util.stream.*;

public class Main {
    public static void main(String[] arguments) throws Exception {
        var pool = Executors.newFixedThreadPool(8);
        var parts = new ArrayList<Future<Integer>>();
        for (int i = 1; i <= 100; i++) { int n = i; parts.add(pool.submit(() -> n)); }
        int sum = 0;
        for (var part : parts) sum += part.get();
        pool.shutdown();
        Files.writeString(Path.of("sum"), Integer.toString(sum));
        try (var server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
             var client = new Socket(server.getInetAddress(), server.getLocalPort())) {
            System.out.println(Files.readString(Path.of("sum")) + " " + client.isConnected());
        }
        var child = new ProcessBuilder("echo", "child").inheritIO().start();
        System.exit(child.waitFor());
    }
}
"""

GO = """
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync"
)

func main() {
	var group sync.WaitGroup
	parts := make(chan int, 100)
	for i := 1; i <= 100; i++ {
		group.Add(1)
		go func(n int) { defer group.Done(); parts <- n }(i)
	}
	group.Wait()
	close(parts)
	sum := 0
	for n := range parts {
		sum += n
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, sum) }))
	answer, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		panic(err)
	}
	body, _ := io.ReadAll(answer.Body)
	child, err := exec.Command("echo", "child").Output()
	fmt.Print(string(body), " ", string(child))
}
"""

C = """
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *half(void *value) { *(double *)value /= 2; return value; }

int main(int count, char **arguments)
{
    double *value = malloc(sizeof(*value));
    *value = sqrt(2.0 * 42 * 2.0 * 42);
    pthread_t thread;
    pthread_create(&thread, NULL, half, value);
    pthread_join(thread, NULL);
    printf("%.0f\\n", *value);
    if (count > 1)
        value[atoi(arguments[1])] = 1;
    free(value);
    return 0;
}
"""


class Languages(ProgramsCase):
    def test_bash(self):
        self.assertEqual(self.sh("declare -A a=([x]=1 [y]=2); trap 'echo bye' EXIT\n"
                                 "diff <(seq 3) <(printf '%s\\n' 3 1 2 | sort) && echo same\n"
                                 "(sleep 0.1; exit 7) & wait -n; echo $? ${a[y]}\n"
                                 "read -r -t 5 word <<<'here it is'; echo \"${word^^}\"\n"
                                 "mkfifo f; echo through >f & cat f; coproc cat; echo co >&${COPROC[1]}; "
                                 "read -r line <&${COPROC[0]}; echo $line; exec {COPROC[1]}>&-\n"),
                         "same\n7 2\nHERE IT IS\nthrough\nco\nbye")

    def test_python_with_numpy_and_pandas(self):
        self.write("a.py", """
import concurrent.futures, multiprocessing, sqlite3, ssl, numpy, pandas

def square(x):
    return x * x

if __name__ == "__main__":
    matrix = numpy.array([[2.0, 1.0], [1.0, 3.0]])
    print(numpy.allclose(numpy.linalg.inv(matrix) @ matrix, numpy.eye(2)), (numpy.random.rand(300, 300) @ numpy.ones(300)).shape)
    table = pandas.DataFrame({"who": ["a", "b", "a"], "n": [1, 2, 3]})
    table.to_csv("t.csv", index=False)
    print(pandas.read_csv("t.csv").groupby("who").n.sum().to_dict())
    with multiprocessing.Pool(2) as pool:
        print(sum(pool.map(square, range(10))))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        print(sum(pool.map(square, range(10))))
""")
        self.assertEqual(self.sh("/usr/bin/python3 a.py"), "True (300,)\n{'a': 4, 'b': 2}\n285\n285")

    def test_node(self):
        self.write("a.js", NODE)
        self.assertEqual(self.sh("node a.js"), "5050 child")

    def test_java(self):
        self.write("Main.java", JAVA)
        self.assertEqual(self.sh("javac Main.java && java Main"), "5050 true\nchild")

    def test_java_sees_its_limits(self):
        box = self.server.create(resourceLimits={"memory": "512Mi", "cpu": "1"})
        self.addCleanup(box.delete)
        text = box.output("java -XX:+PrintFlagsFinal -version 2>/dev/null | awk '$2 == \"MaxHeapSize\" {print $4}'; "
                          "echo 'System.out.println(Runtime.getRuntime().availableProcessors());' | "
                          "jshell -s - 2>/dev/null", timeout=240_000)
        heap, processors = text.split()
        self.assertEqual(int(heap), 128 << 20)  # a quarter
        self.assertEqual(processors, "1")

    def test_go(self):
        self.write("main.go", GO)
        self.assertEqual(self.sh("go build -o main main.go && ./main"), "5050 child")

    def test_gcc(self):
        self.write("a.c", C)
        self.assertEqual(self.sh("gcc -O2 -Wall a.c -o a -lm -pthread && ./a && gcc -static a.c -o s -lm && ./s"), "42\n42")

    def test_gcc_sanitizers(self):
        """They look at the process from outside of it: threads that trace it, maps, no randomization."""
        self.write("a.c", C)
        self.sh("gcc -g -fsanitize=address,undefined a.c -o a -lm -pthread")
        self.assertEqual(self.sh("ASAN_OPTIONS=detect_leaks=1 ./a"), "42")
        found = self.sh("ASAN_OPTIONS=detect_leaks=1 ./a 1 2>&1 || true")
        self.assertIn("heap-buffer-overflow", found)

    def test_git(self):
        self.assertEqual(self.sh("export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@localhost\n"
                                 "export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@localhost\n"
                                 "git init -q -b main one && cd one && for i in 1 2 3; do echo $i >file && git add file && "
                                 "git commit -qm change-$i; done && cd .. && git clone -q --no-local one two && cd two && "
                                 "git log --format=%s && echo 4 >file && git commit -qam change-4 && "
                                 "git push -q origin main:other && git -C ../one log -1 --format=%s other && git gc -q && "
                                 "git fsck 2>&1 | grep -c error; git diff --stat HEAD~1 | tail -1"),
                         "change-3\nchange-2\nchange-1\nchange-4\n0\n 1 file changed, 1 insertion(+), 1 deletion(-)")


if __name__ == "__main__":
    unittest.main()
