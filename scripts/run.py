#!/usr/bin/env python3
"""What `make run` does after the build: start the server, run a first sandbox, stay with the server.

Usage: scripts/run.py BIN_DIR [--once]
Environment: OSB_LISTEN (127.0.0.1:8080), OSB_STATE (/var/lib/opensandbox).
--once stops after the tour (for tests).
"""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

LISTEN = os.environ.get("OSB_LISTEN", "127.0.0.1:8080")
STATE = Path(os.environ.get("OSB_STATE", "/var/lib/opensandbox"))

FIRST_COMMANDS = [
    "echo \"hello from $(uname -sr), I am $(id -un) on $(hostname)\"; ls /",
    "python3 -c \"import sys; print('2 to the 100th is', 2 ** 100, 'says Python',"
    " sys.version.split()[0])\"",
]


class Client:
    def __init__(self, authority, key):
        host, port = authority.rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=60)
        self.headers = {"OPEN-SANDBOX-API-KEY": key, "Content-Type": "application/json"}

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body)
        self.connection.request(method, path, data, self.headers)
        response = self.connection.getresponse()
        text = response.read().decode()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text}")
        return text

    def events(self, path, command):
        for block in self.call("POST", path, {"command": command}).split("\n\n"):
            if block.strip():
                yield json.loads(block)


def milliseconds_since(started):
    return f"{(time.monotonic() - started) * 1000:.1f} ms"


def show_first_sandbox(authority, key):
    client = Client(authority, key)
    started = time.monotonic()
    box = json.loads(client.call("POST", "/v1/sandboxes", {
        "image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"],
        "resourceLimits": {"memory": "512Mi", "cpu": "1"}, "timeout": 300}))
    print(f"\nsandbox {box['id']} created in {milliseconds_since(started)}")
    try:
        for command in FIRST_COMMANDS:
            started = time.monotonic()
            print(f"$ {command}")
            for event in client.events(f"/sandboxes/{box['id']}/proxy/44772/command", command):
                if event["type"] in ("stdout", "stderr"):
                    print("  " + event["text"].rstrip("\n"))
                elif event["type"] == "error":
                    print(f"  failed: {event['error']['evalue']}")
            print(f"  ({milliseconds_since(started)})")
    finally:
        started = time.monotonic()
        client.call("DELETE", f"/v1/sandboxes/{box['id']}")
        print(f"sandbox deleted in {milliseconds_since(started)}")


def show_how_to_use(authority):
    key_file = STATE / "server/api-key"
    print(f"""
The server goes on at http://{authority} until you press Ctrl-C. In another terminal:

  export OPEN_SANDBOX_API_KEY=$(cat {key_file}) OPEN_SANDBOX_DOMAIN={authority}

  curl -s -X POST http://{authority}/v1/sandboxes -H "OPEN-SANDBOX-API-KEY: $OPEN_SANDBOX_API_KEY" \\
    -H 'Content-Type: application/json' \\
    -d '{{"image":{{"uri":"host"}},"entrypoint":["tail","-f","/dev/null"],"resourceLimits":{{}},"timeout":600}}'

  pip install opensandbox
  python3 -c 'from opensandbox.sync.sandbox import SandboxSync as S; b = S.create("host"); \\
    print(b.commands.run("echo hello").logs.stdout[0].text); b.kill()'
""", flush=True)


def relay_output(stream, found, ready):
    """Show what the server prints; note where it listens."""
    for line in stream:
        sys.stdout.write(line)
        sys.stdout.flush()
        match = re.search(r"listening on http://(\S+)", line)
        if match:
            found.append(match.group(1))
            ready.set()
    ready.set()


def main():
    bin_dir, once = Path(sys.argv[1]).resolve(), "--once" in sys.argv[2:]
    if os.geteuid() != 0:
        sys.exit("make run needs root: the launcher makes namespaces and mounts. Try: sudo make run")
    server = subprocess.Popen([bin_dir / "opensandbox-server", "--listen", LISTEN,
                               "--state", STATE], stdout=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.terminate())
    found, ready = [], threading.Event()
    threading.Thread(target=relay_output, args=(server.stdout, found, ready), daemon=True).start()
    ready.wait()
    failed = False
    if found:
        try:
            show_first_sandbox(found[0], (STATE / "server/api-key").read_text().strip())
            show_how_to_use(found[0])
        except (OSError, RuntimeError, http.client.HTTPException) as problem:
            print(f"The first sandbox failed: {problem}", file=sys.stderr)
            failed = True
        if once or failed:
            server.terminate()
    status = server.wait()
    sys.exit(1 if failed else status)


if __name__ == "__main__":
    main()
