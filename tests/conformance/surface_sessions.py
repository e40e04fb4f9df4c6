"""Sessions as the published Python SDK runs them: one living bash each."""
import asyncio
from datetime import timedelta

from opensandbox.exceptions import InvalidArgumentException
from surface import equal, item, refused, stderr, stdout


async def run(kit, session, command, **options):
    return await kit.commands.run_in_session(session, command, **options)


async def lines(kit, session, command, **options):
    done = await run(kit, session, command, **options)
    assert done.exit_code == 0 and done.error is None and done.complete is not None, done
    return stdout(done)


class Session:
    """`async with Session(kit) as id`: a session for one item."""

    def __init__(self, kit, **options):
        self.kit, self.options = kit, options

    async def __aenter__(self):
        self.id = await self.kit.commands.create_session(**self.options)
        assert self.id
        return self.id

    async def __aexit__(self, *_):
        await self.kit.commands.delete_session(self.id)


@item
async def session_keeps_its_state(kit):
    async with Session(kit) as session:
        equal(await lines(kit, session, "export LOUD=1; quiet=2; f() { echo f$1; }; alias x=y; umask 027"), [])
        equal(await lines(kit, session, "echo $LOUD $quiet; f 3; umask"), ["1 2", "f3", "0027"])
        equal(await lines(kit, session, "bash -c 'echo $LOUD,$quiet'"), ["1,"])
        equal(await lines(kit, session, "cd /usr; pwd"), ["/usr"])
        equal(await lines(kit, session, "pwd; echo $COLOUR"), ["/usr", "teal"])


@item
async def session_keeps_odd_values(kit):
    async with Session(kit) as session:
        await lines(kit, session, "export ODD='a$b`c`\"d\"\\e'$'\\n''second'; export TAB=$'\\t|\\r|'")
        equal(await lines(kit, session, 'printf "%s\\n" "$ODD"; printf %s "$TAB" | od -An -c | tr -s " "'),
              ['a$b`c`"d"\\e', "second", " \\t | \\r |"])


@item
async def session_working_directory(kit):
    async with Session(kit, working_directory="/usr") as session:
        equal(await lines(kit, session, "pwd"), ["/usr"])
    async with Session(kit, working_directory="/tmp/made/for/session") as session:
        equal(await lines(kit, session, "pwd"), ["/tmp/made/for/session"])


@item
async def session_directory_per_run(kit):
    async with Session(kit, working_directory="/usr") as session:
        equal(await lines(kit, session, "pwd", working_directory="/etc"), ["/etc"])
        equal(await lines(kit, session, "pwd"), ["/etc"])
        await refused(run(kit, session, "pwd", working_directory="/absent"), 400, "INVALID_REQUEST_BODY")
        equal(await lines(kit, session, "pwd"), ["/etc"])


@item
async def session_exit_codes(kit):
    async with Session(kit) as session:
        await lines(kit, session, "kept=yes")
        done = await run(kit, session, "echo before; exit 7")
        equal((stdout(done), done.exit_code, done.error.name, done.error.value),
              (["before"], 7, "CommandExecError", "7"))
        assert done.complete is None, done
        equal(await lines(kit, session, "echo $kept"), ["yes"])
        equal((await run(kit, session, "false")).exit_code, 1)
        equal((await run(kit, session, "(exit 9)")).exit_code, 9)
        assert (await run(kit, session, "if ; then")).exit_code not in (0, None)
        equal(await lines(kit, session, "echo $kept"), ["yes"])


@item
async def session_output(kit):
    async with Session(kit) as session:
        done = await run(kit, session, "echo out; echo err >&2; printf 'a\\n\\nno end'")
        equal((stdout(done), stderr(done)), (["out", "a", "\n", "no end"], ["err"]))
        equal(await lines(kit, session, "seq 20000"), [str(n) for n in range(1, 20001)])
        equal(await lines(kit, session, "cat; read x; echo end$x"), ["end"])


@item
async def session_handlers(kit):
    async with Session(kit) as session:
        seen = []
        done = await run(kit, session, "echo out; exit 4", handlers=kit.handlers(
            on_init=lambda e: seen.append(("init", e.id)), on_stdout=lambda m: seen.append(("stdout", m.text)),
            on_execution_complete=lambda e: seen.append(("complete",)),
            on_error=lambda e: seen.append(("error", e.value))))
        equal(seen, [("init", done.id), ("stdout", "out"), ("error", "4")])
        equal(done.id, session)


@item
async def session_timeout(kit):
    async with Session(kit) as session:
        await lines(kit, session, "kept=yes")
        done = await run(kit, session, "echo begun; sleep 30; echo never", timeout=timedelta(seconds=0.5))
        equal(stdout(done), ["begun"])
        assert done.error is not None and done.complete is None and done.exit_code != 0, done
        equal(await lines(kit, session, "echo again", timeout=timedelta(seconds=60)), ["again"])


@item
async def session_interrupt(kit):
    """The id of a session's run is the session's; interrupting it ends the run and nothing else."""
    async with Session(kit) as session:
        await lines(kit, session, "kept=yes")
        task, message = await kit.start("echo begun; sleep 30; echo never", "on_stdout", session)
        equal(message.text, "begun")
        await kit.commands.interrupt(session)
        done = await task
        equal(stdout(done), ["begun"])
        assert done.error is not None and done.error.value and done.complete is None, done
        equal(await lines(kit, session, "echo $kept"), ["yes"])


@item
async def session_jobs_stay(kit):
    async with Session(kit) as session:
        await lines(kit, session, "sleep 300 & job=$!")
        equal(await lines(kit, session, "kill -0 $job && echo alive; kill $job; wait $job; true"), ["alive"])


@item
async def sessions_are_apart(kit):
    async with Session(kit) as one, Session(kit) as two:
        assert one != two
        first, second = await asyncio.gather(lines(kit, one, "x=1; sleep 0.2; echo $x"),
                                             lines(kit, two, "x=2; sleep 0.2; echo $x"))
        equal((first, second), (["1"], ["2"]))
        equal((await lines(kit, one, "echo $x"), await lines(kit, two, "echo $x")), (["1"], ["2"]))


@item
async def session_deleted(kit):
    session = await kit.commands.create_session()
    pid = (await lines(kit, session, "echo $$"))[0]
    await kit.commands.delete_session(session)
    await refused(run(kit, session, "true"), 404, "CONTEXT_NOT_FOUND")
    await refused(kit.commands.delete_session(session), 404, "CONTEXT_NOT_FOUND")
    equal(await kit.output(f"kill -0 {pid} 2>/dev/null || echo gone"), ["gone"])


@item
async def session_unknown(kit):
    await refused(run(kit, "no-such-session", "true"), 404, "CONTEXT_NOT_FOUND")
    await refused(kit.commands.delete_session("no-such-session"), 404, "CONTEXT_NOT_FOUND")


@item
async def session_refuses_what_is_wrong(kit):
    async with Session(kit) as session:
        for call in (run(kit, session, " "), run(kit, "", "true"), kit.commands.delete_session(""),
                     run(kit, session, "true", timeout=timedelta(seconds=-1))):
            try:
                await call
            except InvalidArgumentException:
                continue
            raise AssertionError("not refused")
