"""Drives the published Python SDK; prints one `STEP name: outcome` line per thing tried."""
import os
import traceback
from datetime import timedelta

from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.filesystem import WriteEntry
from opensandbox.sync.manager import SandboxManagerSync
from opensandbox.sync.sandbox import SandboxSync

config = ConnectionConfigSync(domain=os.environ["OSB_DOMAIN"], api_key=os.environ["OSB_KEY"])
state = {}


def step(function):
    try:
        function()
        print(f"STEP {function.__name__}: ok", flush=True)
    except BaseException as problem:
        traceback.print_exc()
        print(f"STEP {function.__name__}: {type(problem).__name__}: {problem}".replace("\n", " "),
              flush=True)


def create():
    state["box"] = SandboxSync.create("host", timeout=timedelta(minutes=5), env={"COLOUR": "teal"},
                                      metadata={"suite": "conformance"}, connection_config=config)
    info = state["box"].get_info()
    assert info.status.state == "Running", info
    assert info.image.image == "host", info
    assert info.metadata == {"suite": "conformance"}, info
    assert info.entrypoint == ["tail", "-f", "/dev/null"], info
    assert abs((info.expires_at - info.created_at).total_seconds() - 300) < 5, info


def echo():
    done = state["box"].commands.run("echo hello; echo $COLOUR; echo oops >&2")
    assert [m.text for m in done.logs.stdout] == ["hello", "teal"], done
    assert [m.text for m in done.logs.stderr] == ["oops"], done
    assert done.exit_code == 0 and done.error is None and done.complete is not None, done
    assert done.id, done


def failing_command():
    done = state["box"].commands.run("no-such-program-here; exit 7")
    assert done.exit_code == 7 and done.complete is None, done
    assert done.error.name == "CommandExecError" and done.error.value == "7", done
    assert "no-such-program-here" in done.logs.stderr[0].text, done


def files():
    files_api = state["box"].files
    text = "first\nzweite Zeile: äöü €\n"
    files_api.write_file("/tmp/dir/a.txt", text)
    assert files_api.read_file("/tmp/dir/a.txt") == text
    data = bytes(range(256)) * 1000
    files_api.write_files([WriteEntry(path="/tmp/b.bin", data=data, mode=640),
                           WriteEntry(path="/tmp/c.txt", data="c", mode=600)])
    assert files_api.read_bytes("/tmp/b.bin") == data
    assert files_api.read_bytes("/tmp/b.bin", range_header="bytes=0-9") == data[:10]
    info = files_api.get_file_info(["/tmp/b.bin"])["/tmp/b.bin"]
    assert info.size == len(data) and info.mode == 640 and info.owner == "root", info
    try:
        files_api.read_file("/tmp/absent")
    except Exception as problem:
        assert "absent" in str(problem) or "404" in str(problem), problem
    else:
        raise AssertionError("reading an absent file succeeded")


def kill():
    box_id = state["box"].id
    state["box"].kill()
    state["box"].close()
    with SandboxManagerSync.create(connection_config=config) as manager:
        try:
            manager.get_sandbox_info(box_id)
        except Exception as problem:
            assert getattr(problem, "status_code", None) == 404, problem
        else:
            raise AssertionError("the sandbox is still there")


for function in (create, echo, failing_command, files, kill):
    step(function)
