"""specs/execd.yaml: is it sound, does it list what execd serves, and do real answers look like it?"""
import contextlib
import http.client
import http.server
import json
import os
import re
import sys
import threading
import unittest
from urllib.parse import quote

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]
from contract import METHODS, PATH, Contract, Mismatch  # noqa: E402
from execd import ROOT, WAIT, Execd, ExecdCase, multipart, parse_events  # noqa: E402

CONTRACT = Contract.load()


@contextlib.contextmanager
def at(where):
    """Put the place into the message of what fails inside."""
    try:
        yield
    except (AssertionError, KeyError) as problem:
        raise AssertionError(f"{where}: {problem!r}") from problem


def walk(node, where="#"):
    """Every mapping of the document with its place."""
    if isinstance(node, dict):
        yield where, node
        for key, value in node.items():
            yield from walk(value, f"{where}/{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from walk(value, f"{where}/{index}")


def routes():
    """(method, pattern) of the tables in routes.c, in the contract's notation."""
    with open(os.path.join(ROOT, "src/execd/routes.c"), encoding="utf-8") as file:
        found = re.findall(r'^\s*\{"([A-Z*]+)",\s*"([^"]+)",', file.read(), re.MULTILINE)
    return [(method, pattern.replace("...}", "}")) for method, pattern in found]


class Structure(unittest.TestCase):
    def test_is_openapi_3_1(self):
        document = CONTRACT.document
        self.assertRegex(document["openapi"], r"^3\.1\.\d+$")
        self.assertTrue(document["info"]["title"] and document["info"]["version"])
        self.assertGreater(len(CONTRACT.paths), 20)
        self.assertTrue(all(path.startswith("/") for path in CONTRACT.paths))

    def test_version_is_the_programs(self):
        with open(os.path.join(ROOT, "src/execd/execd.h"), encoding="utf-8") as file:
            version = re.search(r'#define EXECD_VERSION "([^"]+)"', file.read()).group(1)
        self.assertEqual(CONTRACT.document["info"]["version"], version)

    def test_every_reference_resolves(self):
        count = 0
        for where, node in walk(CONTRACT.document):
            if "$ref" in node:
                count += 1
                with at(where):
                    CONTRACT.resolve(node)
        self.assertGreater(count, 50)

    def test_every_component_is_used(self):
        text = PATH.read_text(encoding="utf-8")
        for kind in ("parameters", "responses", "schemas"):
            for name in CONTRACT.document["components"][kind]:
                self.assertIn(f"#/components/{kind}/{name}'", text)

    def test_every_operation_is_complete(self):
        identifiers = []
        tags = {tag["name"] for tag in CONTRACT.document["tags"]}
        for method, template, operation in CONTRACT.operations():
            with at(f"{method} {template}"):
                self.assertTrue(operation["responses"])
                self.assertTrue(operation["summary"])
                self.assertTrue(set(operation["tags"]) <= tags)
                for status, response in operation["responses"].items():
                    self.assertRegex(status, r"^([1-5]\d\d|default)$")
                    self.assertTrue(CONTRACT.resolve(response)["description"])
                identifiers += [operation["operationId"]] if "operationId" in operation else []
        self.assertEqual(len(identifiers), len(set(identifiers)))
        for item in CONTRACT.paths.values():
            self.assertLessEqual(set(item), {*METHODS, "parameters"})

    def test_every_error_status_has_its_codes(self):
        known = CONTRACT.resolve({"$ref": "#/components/schemas/Error"})["properties"]["code"]["enum"]
        for method, template, operation in CONTRACT.operations():
            with at(f"{method} {template}"):
                failing = {s for s in operation["responses"] if s != "default" and int(s) >= 400}
                errors = operation.get("x-opensandbox-errors", {})
                self.assertEqual(set(errors), failing)
                self.assertLessEqual({code for codes in errors.values() for code in codes}, set(known))

    def test_path_parameters_are_declared(self):
        for method, template, operation in CONTRACT.operations():
            declared = [CONTRACT.resolve(p) for p in [*CONTRACT.paths[template].get("parameters", []),
                                                      *operation.get("parameters", [])]]
            names = {p["name"] for p in declared if p["in"] == "path"}
            with at(f"{method} {template}"):
                self.assertEqual(names, set(re.findall(r"\{(\w+)\}", template)))
                self.assertTrue(all(p["required"] for p in declared if p["in"] == "path"))

    def test_examples_fit_their_schemas(self):
        count = 0
        for where, node in walk(CONTRACT.document):
            if "schema" in node and ("example" in node or "examples" in node):
                examples = [e["value"] for e in node.get("examples", {}).values()]
                for value in examples + ([node["example"]] if "example" in node else []):
                    count += 1
                    with at(where):
                        CONTRACT.validate(value, node["schema"], where)
        self.assertGreater(count, 20)

    def test_schemas_use_only_checked_keywords(self):
        def probe(schema):
            for value in (None, 1, "x", [], {}):
                try:
                    CONTRACT.validate(value, schema)
                except Mismatch as problem:
                    self.assertNotIn("does not know", str(problem))
        for _, node in walk(CONTRACT.document):
            if isinstance(node.get("schema"), dict):
                probe(node["schema"])
            for properties in [node.get("properties")] if isinstance(node.get("properties"), dict) else []:
                for schema in properties.values():
                    probe(schema)

    def test_additions_are_explained(self):
        count = 0
        for where, node in walk(CONTRACT.document):
            if node.get("x-opensandbox-addition"):
                count += 1
                with at(where):
                    self.assertIs(node["x-opensandbox-addition"], True)
                    self.assertTrue(node.get("description") or node.get("summary"))
        self.assertGreater(count, 10)


class Routes(unittest.TestCase):
    def specified(self):
        return {(method, template) for method, template, _ in CONTRACT.operations()}

    def test_every_route_is_specified(self):
        self.assertGreater(len(routes()), 30)
        for method, pattern in routes():
            with at(f"{method} {pattern}"):
                if method == "*":
                    for one in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
                        self.assertIn((one, pattern), self.specified())
                else:
                    self.assertIn((method, pattern), self.specified())

    def test_every_specified_operation_is_a_route(self):
        table = routes()
        for method, template in sorted(self.specified()):
            with at(f"{method} {template}"):
                self.assertTrue((method, template) in table or ("*", template) in table)


class Answers(ExecdCase):
    """Each call is made of a real execd; status, headers, codes and bodies must be as specified."""

    def call(self, method, path, body=None, wanted=200, headers=None):
        """Make the call; the checked answer as (response, decoded body)."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        status, response, data = self.execd.request(method, path, body, headers)
        self.assertEqual(status, wanted, (method, path, data[:500]))
        CONTRACT.check_answer(method, path, status, response.headers, data)
        kind = (response.getheader("Content-Type") or "").split(";")[0]
        if kind == "application/json" and data:
            return response, json.loads(data)
        return response, parse_events(data.decode()) if kind == "text/event-stream" else data

    def background(self, command, **fields):
        return self.call("POST", "/command", {"command": command, "background": True, **fields})[1][0]["text"]

    def test_ping(self):
        self.call("GET", "/ping")

    def test_command(self):
        _, events = self.call("POST", "/command", {"command": "echo hello; echo oops >&2"})
        self.assertEqual(events[0]["type"], "init")
        self.assertEqual(events[-1]["type"], "execution_complete")
        _, events = self.call("POST", "/command", {"command": "exit 7"})
        self.assertEqual(events[-1]["error"]["evalue"], "7")

    def test_command_errors(self):
        for body in ("", "{", "[]", {}, {"command": ""}, {"command": 7}, {"command": "x", "timeout": -1},
                     {"command": "x", "gid": 1}, {"command": "x", "cwd": "/absent"}):
            self.call("POST", "/command", body, 400)

    def test_command_status(self):
        _, events = self.call("POST", "/command", {"command": "exit 7"})
        _, status = self.call("GET", f"/command/status/{events[0]['text']}")
        self.assertEqual((status["running"], status["exit_code"], status["content"]), (False, 7, "exit 7"))
        self.call("GET", "/command/status/absent", wanted=404)

    def test_command_logs(self):
        command = self.background("echo one")
        self.call("GET", f"/command/{command}/logs")
        self.call("GET", f"/command/{command}/logs?cursor=-1", wanted=400)
        self.call("GET", "/command/absent/logs", wanted=404)
        self.call("DELETE", f"/command?id={self.background('sleep 1000')}")

    def test_command_stream(self):
        _, events = self.call("POST", "/command", {"command": "echo one; echo two", "offsets": True})
        lines = [(e["text"], e["offset"]) for e in events if e["type"] == "stdout"]
        self.assertEqual(lines, [("one", 4), ("two", 8)])
        _, again = self.call("GET", f"/command/{events[0]['text']}/stream?offset=4")
        self.assertEqual([e["text"] for e in again if e["type"] == "stdout"], ["two"])
        self.call("GET", "/command/absent/stream", wanted=404)

    def test_command_stdin(self):
        command = self.background("cat > " + self.file("taken"), stdin=True)
        _, answer = self.call("POST", f"/command/{command}/stdin", b"hello")
        self.assertEqual(answer, {"bytes": 5})
        self.call("DELETE", f"/command/{command}/stdin")
        self.call("GET", f"/command/{command}/stream")  # ends with the command
        self.assertEqual(self.read("taken"), b"hello")
        self.call("POST", "/command/absent/stdin", b"x", 404)
        self.call("DELETE", "/command/absent/stdin", wanted=404)

    def test_interrupt(self):
        self.call("DELETE", f"/command?id={self.background('sleep 1000')}")
        self.call("DELETE", "/command", wanted=400)
        self.call("DELETE", "/command?id=absent", wanted=404)

    def test_commands(self):
        _, events = self.call("POST", "/command", {"command": "true"})
        self.assertIn(events[0]["text"], json.dumps(self.call("GET", "/commands")[1]))

    def test_sessions(self):
        _, made = self.call("POST", "/session", {"cwd": self.folder})
        path = "/session/" + made["session_id"]
        _, events = self.call("POST", path + "/run", {"command": "x=1; pwd"})
        self.assertEqual([e["text"] for e in events if e["type"] == "stdout"], [self.folder])
        _, events = self.call("POST", path + "/run", {"command": "exit 7"})
        self.assertEqual(events[-1]["error"]["evalue"], "7")
        self.assertIn(made["session_id"], json.dumps(self.call("GET", "/sessions")[1]))
        self.call("POST", path + "/run", {"command": ""}, 400)
        self.call("DELETE", path)
        self.call("DELETE", path, wanted=404)
        self.call("POST", path + "/run", {"command": "true"}, 404)
        self.call("POST", "/session", "{", 400)

    def test_terminals(self):
        _, made = self.call("POST", "/pty", wanted=201)
        path = "/pty/" + made["session_id"]
        _, status = self.call("GET", path)
        self.assertEqual((status["running"], status["output_offset"]), (False, 0))
        self.assertIn(made["session_id"], json.dumps(self.call("GET", "/pty")[1]))
        self.call("GET", path + "/ws", wanted=426)
        self.call("DELETE", path)
        self.call("GET", path, wanted=404)
        self.call("DELETE", path, wanted=404)
        self.call("GET", path + "/ws", wanted=404)
        self.call("POST", "/pty", "{", 400)

    def test_files_info(self):
        path = self.write("a b", b"hello")
        _, infos = self.call("GET", f"/files/info?path={quote(path)}&path=/")
        self.assertEqual((infos[path]["size"], infos["/"]["type"]), (5, "directory"))
        self.call("GET", "/files/info?path=" + quote(self.file("absent")), wanted=404)

    def test_files_download(self):
        path = quote(self.write("f", b"one\ntwo\nthree\n"))
        self.assertEqual(self.call("GET", f"/files/download?path={path}")[1], b"one\ntwo\nthree\n")
        self.call("GET", f"/files/download?path={path}", wanted=206, headers={"Range": "bytes=0-2"})
        self.call("GET", f"/files/download?path={path}", wanted=416, headers={"Range": "bytes=99-"})
        self.call("GET", f"/files/download?path={path}", wanted=304, headers={"If-None-Match": "*"})
        self.call("GET", f"/files/download?path={path}", wanted=412, headers={"If-Match": '"other"'})
        self.assertEqual(self.call("GET", f"/files/download?path={path}&offset=2&limit=1")[1], b"two")
        self.call("GET", f"/files/download?path={path}&offset=0", wanted=400)
        self.call("GET", "/files/download", wanted=400)
        self.call("GET", "/files/download?path=/absent", wanted=404)
        self.call("GET", "/files/download?path=/", wanted=400)

    def test_files_upload(self):
        body, headers = multipart([(self.file("new/a"), b"x", {"mode": 640})])
        self.call("POST", "/files/upload", body, headers=headers)
        self.assertEqual(self.read("new/a"), b"x")
        self.call("POST", "/files/upload", b"", 400)

    def test_files_change(self):
        path = self.write("a.txt", b"tea and tea")
        self.call("POST", "/files/replace", {path: {"old": "tea", "new": "milk"}})
        _, counts = self.call("POST", "/files/replace?verbose=true", {path: {"old": "milk", "new": "tea"}})
        self.assertEqual(counts, {path: {"replacedCount": 2}})
        self.call("POST", "/files/replace", {path: {"old": "", "new": "x"}}, 400)
        self.call("POST", "/files/permissions", {path: {"mode": 600}})
        self.call("POST", "/files/mv", [{"src": path, "dest": self.file("sub/b.txt")}])
        self.call("POST", "/files/mv", [{"src": path, "dest": self.file("c")}], 404)
        _, found = self.call("GET", f"/files/search?path={quote(self.folder)}&pattern=*.txt")
        self.assertEqual([f["path"] for f in found], [self.file("sub/b.txt")])
        self.call("GET", "/files/search", wanted=400)
        self.call("DELETE", "/files?path=" + quote(self.file("sub/b.txt")))
        self.call("DELETE", "/files?path=" + quote(self.file("sub/b.txt")))

    def test_directories(self):
        self.call("POST", "/directories", {self.file("d/e"): {"mode": 700}})
        _, entries = self.call("GET", f"/directories/list?path={quote(self.folder)}&depth=2")
        self.assertEqual([e["path"] for e in entries], [self.file("d"), self.file("d/e")])
        self.call("GET", "/directories/list?path=/absent", wanted=404)
        self.call("GET", "/directories/list", wanted=400)
        self.call("DELETE", "/directories?path=" + quote(self.file("d")))
        self.assertFalse(os.path.exists(self.file("d")))

    def test_metrics(self):
        _, sample = self.call("GET", "/metrics")
        self.assertGreater(sample["mem_total_mib"], 0)
        connection = http.client.HTTPConnection("127.0.0.1", self.execd.port, timeout=WAIT)
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics/watch")
        response = connection.getresponse()
        data = response.readline() + response.readline()
        CONTRACT.check_answer("GET", "/metrics/watch", response.status, response.headers, data)

    def test_proxy(self):
        server = http.server.HTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        _, page = self.call("GET", f"/proxy/{server.server_port}/a/b?c=d")
        self.assertEqual(page, b"/a/b?c=d")
        self.assertEqual(self.call("GET", f"/proxy/{server.server_port}")[1], b"/")
        self.call("GET", "/proxy/1/x", wanted=502)
        self.call("GET", "/proxy/x/y", wanted=400)

    def test_code_is_not_in_this_build(self):
        for method, template, operation in CONTRACT.operations():
            if operation["tags"] == ["code"]:
                self.call(method, template.replace("{id}", "x"), {} if method == "POST" else None, 501)

    def test_unknown_paths_and_methods(self):
        status, response, data = self.execd.request("PUT", "/ping")
        self.assertEqual((status, json.loads(data)["code"]), (405, "METHOD_NOT_ALLOWED"))
        self.assertEqual(response.getheader("Allow"), "GET")
        status, _, data = self.execd.request("GET", "/nothing")
        self.assertEqual((status, json.loads(data)["code"]), (404, "NOT_FOUND"))


class Page(http.server.BaseHTTPRequestHandler):
    """Says what it was asked for."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, *_):
        pass


class Start(unittest.TestCase):
    def test_internal_start(self):
        execd = Execd("--pid1", unix=True)
        self.addCleanup(execd.stop)
        for body, wanted in (("{", 400), ({"entrypoint": []}, 400), ({"entrypoint": ["tail", "-f", "/dev/null"]}, 200),
                             ({"entrypoint": ["true"]}, 409)):
            text = body if isinstance(body, str) else json.dumps(body)
            status, response, data = execd.request("POST", "/internal/start", text)
            self.assertEqual(status, wanted, data)
            CONTRACT.check_answer("POST", "/internal/start", status, response.headers, data)


if __name__ == "__main__":
    unittest.main()
