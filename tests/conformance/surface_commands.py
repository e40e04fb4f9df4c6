"""Commands as the published Python SDK runs them."""
from datetime import timedelta

from opensandbox.exceptions import InvalidArgumentException, SandboxException
from opensandbox.models.execd import RunCommandOpts
from surface import equal, item, refused, stderr, stdout, until


def seconds(value):
    return timedelta(seconds=value)


@item
async def run_echo(kit):
    done = await kit.commands.run("echo hello; echo $COLOUR; echo oops >&2")
    equal(stdout(done), ["hello", "teal"])
    equal(stderr(done), ["oops"])
    assert all(not m.is_error for m in done.logs.stdout) and done.logs.stderr[0].is_error
    assert done.exit_code == 0 and done.error is None and done.complete is not None, done
    assert done.id and done.complete.execution_time_in_millis >= 0 and done.logs.stdout[0].timestamp > 0


@item
async def run_lines(kit):
    equal(await kit.output(r"printf 'a\n\nb\r\nc\rno end'"), ["a", "\n", "b", "c", "no end"])
    equal(await kit.output("echo 'äöü € 🙂'"), ["äöü € 🙂"])
    equal(await kit.output("true"), [])
    equal((await kit.commands.run("echo a; echo b")).text, "a\nb")


@item
async def run_much_output(kit):
    equal(await kit.output("seq 20000"), [str(n) for n in range(1, 20001)])
    equal(await kit.output("head -c 300000 /dev/zero | tr '\\0' x"), ["x" * 300000])


@item
async def run_multiline_script(kit):
    script = "for i in 1 2; do\n  echo \"line $i\"\ndone\ncat <<'END'\nhere $HOME\nEND\n"
    equal(await kit.output(script), ["line 1", "line 2", "here $HOME"])


@item
async def run_exit_codes(kit):
    for code in (1, 7, 126, 255):
        done = await kit.commands.run(f"exit {code}")
        equal(done.exit_code, code)
        equal((done.error.name, done.error.value), ("CommandExecError", str(code)))
        equal(done.error.traceback, [f"exit status {code}"])
        assert done.complete is None, done


@item
async def run_unknown_program(kit):
    done = await kit.commands.run("no-such-program-here")
    equal(done.exit_code, 127)
    assert "no-such-program-here" in stderr(done)[0], done


@item
async def run_ended_by_a_signal(kit):
    done = await kit.commands.run("echo before; kill -9 $$")
    equal(stdout(done), ["before"])
    equal((done.exit_code, done.error.value), (-1, "-1"))
    equal(done.error.traceback, ["signal: killed"])


@item
async def run_envs(kit):
    opts = RunCommandOpts(envs={"COLOUR": "red", "EMPTY": "", "ODD": "a b$c'd\"e=f\ng"})
    equal(await kit.output('echo "$COLOUR,${EMPTY-unset},$ODD"', opts=opts), ["red,,a b$c'd\"e=f", "g"])
    equal(await kit.output('echo "$COLOUR,${EMPTY-unset}"'), ["teal,unset"])


@item
async def run_working_directory(kit):
    equal(await kit.output("pwd", opts=RunCommandOpts(working_directory="/usr")), ["/usr"])
    equal(await kit.output("pwd", opts=RunCommandOpts(working_directory="~")), ["/root"])
    equal(await kit.output("pwd", opts=RunCommandOpts(working_directory="$HOME")), ["/root"])
    equal(await kit.output("pwd", opts=RunCommandOpts(working_directory="$DIR", envs={"DIR": "/usr"})),
          ["/usr"])
    for absent in ("/absent", "/etc/passwd", "$NOT_SET/x"):
        await refused(kit.commands.run("pwd", opts=RunCommandOpts(working_directory=absent)),
                      400, "INVALID_REQUEST_BODY")


@item
async def run_timeout(kit):
    done = await kit.commands.run("echo begun; sleep 30; echo never",
                                  opts=RunCommandOpts(timeout=seconds(0.5)))
    equal(stdout(done), ["begun"])
    equal((done.exit_code, done.error.name), (-1, "CommandExecError"))
    equal(done.error.traceback, ["signal: killed"])
    equal(await kit.output("echo quick", opts=RunCommandOpts(timeout=seconds(60))), ["quick"])


@item
async def run_uid_and_gid(kit):
    equal(await kit.output("id -u; id -g"), ["0", "0"])
    equal(await kit.output("id -u; id -g; id -G", opts=RunCommandOpts(uid=1000)), ["1000"] * 3)
    equal(await kit.output("id -u; id -g", opts=RunCommandOpts(uid=1000, gid=2000)), ["1000", "2000"])
    equal(await kit.output("id -un; id -gn", opts=RunCommandOpts(uid=65534)), ["nobody", "nogroup"])
    done = await kit.commands.run("cat /etc/shadow", opts=RunCommandOpts(uid=1000))
    assert done.exit_code != 0 and not stdout(done), done


@item
async def run_handlers(kit):
    seen = []
    done = await kit.commands.run("echo out; echo err >&2; exit 3", handlers=kit.handlers(
        on_init=lambda e: seen.append(("init", e.id)),
        on_stdout=lambda m: seen.append(("stdout", m.text)),
        on_stderr=lambda m: seen.append(("stderr", m.text)),
        on_execution_complete=lambda e: seen.append(("complete", e)),
        on_error=lambda e: seen.append(("error", e.value))))
    equal(seen[0], ("init", done.id))
    equal(sorted(seen[1:-1]), [("stderr", "err"), ("stdout", "out")])
    equal(seen[-1], ("error", "3"))


@item
async def run_handlers_without_accumulation(kit):
    seen, ends = [], []
    done = await kit.commands.run("seq 3", handlers=kit.handlers(
        skip_accumulation=True, on_stdout=lambda m: seen.append(m.text),
        on_execution_complete=lambda e: ends.append(e.execution_time_in_millis)))
    equal((seen, stdout(done), len(ends), done.exit_code), (["1", "2", "3"], [], 1, 0))


@item
async def run_has_no_input(kit):
    equal(await kit.output("cat; echo end"), ["end"])


@item
async def run_leaves_children_alive(kit):
    child = (await kit.output("sleep 300 >/dev/null 2>&1 & echo $!"))[0]
    equal(await kit.output(f"kill -0 {child} && echo alive; kill {child}"), ["alive"])


@item
async def run_refuses_what_is_wrong(kit):
    for command, opts in (("", None), ("  ", None), ("true", RunCommandOpts(timeout=seconds(-1)))):
        try:
            await kit.commands.run(command, opts=opts)
        except InvalidArgumentException:
            continue
        raise AssertionError(f"{command!r} with {opts} ran")
    await refused(kit.commands.run(": " + "x" * 200000), 400, "INVALID_REQUEST_BODY")
    await refused(kit.commands.run("true", opts=RunCommandOpts(envs={"A=B": "x"})),
                  400, "INVALID_REQUEST_BODY")


@item
async def run_argv(kit):
    """A list is a program and its arguments; no shell looks at them."""
    equal(await kit.output(["printf", "%s\n", "a b", "$HOME", "*"]), ["a b", "$HOME", "*"])
    done = await kit.commands.run(["sh", "-c", "exit 7"])
    equal(done.exit_code, 7)


@item
async def set_env(kit):
    """Needs EXECD_ENVS, which this sandbox was created with; the SDK writes quoted values there."""
    for value in ("plain", "two words", "dollar $HOME `x` \\ \"quoted\" #no comment", "it's"):
        await kit.commands.set_env("PERSISTED", value)
        equal(await kit.output('printf "%s\\n" "$PERSISTED"'), [value])
    session = await kit.commands.create_session()
    equal(stdout(await kit.commands.run_in_session(session, 'echo "$PERSISTED"')), ["it's"])
    await kit.commands.delete_session(session)


@item
async def interrupt(kit):
    task, init = await kit.start("sleep 30")
    command = init.id
    status = await kit.commands.get_command_status(command)
    assert status.running and status.exit_code is None and status.finished_at is None, status
    await kit.commands.interrupt(command)
    done = await task
    assert done.error is not None and done.error.value and done.complete is None, done
    equal(done.exit_code, -1)
    status = await kit.commands.get_command_status(command)
    assert status.running is False and status.error, status


@item
async def interrupt_what_ignores_it(kit):
    task, init = await kit.start("trap '' TERM; touch /tmp/trapped; while :; do sleep 1; done")

    async def is_trapped():
        return await kit.output("[ ! -e /tmp/trapped ] || rm -v /tmp/trapped") != []
    await until(is_trapped, "the trap is set")
    await kit.commands.interrupt(init.id)
    equal((await task).error.traceback, ["signal: killed"])


@item
async def interrupt_unknown(kit):
    await refused(kit.commands.interrupt("no-such-command"), 404, "CONTEXT_NOT_FOUND")


@item
async def status_of_foreground(kit):
    done = await kit.commands.run("echo x; exit 7")
    status = await kit.commands.get_command_status(done.id)
    equal((status.id, status.content, status.running, status.exit_code, status.error),
          (done.id, "echo x; exit 7", False, 7, "exit status 7"))
    assert status.finished_at >= status.started_at, status
    done = await kit.commands.run("true")
    status = await kit.commands.get_command_status(done.id)
    assert status.exit_code == 0 and not status.error, status


@item
async def status_unknown(kit):
    await refused(kit.commands.get_command_status("no-such-command"), 404, "CONTEXT_NOT_FOUND")


@item
async def many_at_once(kit):
    begun = [await kit.start(f"sleep 0.2; echo {n}") for n in range(10)]
    equal([stdout(await task) for task, _ in begun], [[str(n)] for n in range(10)])
    assert len({init.id for _, init in begun}) == 10


class Leaves(Exception):
    pass


@item
async def run_survives_its_client(kit):
    command = None

    def leave(event):
        nonlocal command
        command = event.id
        raise Leaves
    try:
        await kit.commands.run("sleep 0.3; echo end > /tmp/survivor; exit 5", handlers=kit.handlers(on_init=leave))
    except SandboxException as problem:
        assert "Leaves" in repr(problem.__cause__), repr(problem.__cause__)

    async def is_over():
        return not (await kit.commands.get_command_status(command)).running
    await until(is_over, "the end of the command")
    equal((await kit.commands.get_command_status(command)).exit_code, 5)
    equal(await kit.output("cat /tmp/survivor"), ["end"])
