"""Background commands as the published Python SDK runs them."""
from opensandbox.models.execd import RunCommandOpts
from surface import equal, item, refused, stdout, until
from surface_commands import seconds


async def finished(kit, command):
    async def is_over():
        return not (await kit.commands.get_command_status(command)).running
    await until(is_over, f"end of {command}")
    return await kit.commands.get_command_status(command)


@item
async def background(kit):
    done = await kit.commands.run("echo out; echo err >&2; exit 3", opts=RunCommandOpts(background=True))
    assert done.id and done.exit_code is None and done.complete is not None and not stdout(done), done
    status = await finished(kit, done.id)
    equal((status.exit_code, status.error), (3, "exit status 3"))
    logs = await kit.commands.get_background_command_logs(done.id)
    equal(sorted(logs.content.splitlines()), ["err", "out"])
    equal(logs.cursor, 8)


@item
async def background_logs_with_cursor(kit):
    script = ("echo eins €; until [ -e /tmp/go-on ]; do sleep 0.05; done; rm /tmp/go-on; "
              "echo zwei >&2; printf drei")
    done = await kit.commands.run(script, opts=RunCommandOpts(background=True))
    got, cursor = "", None

    async def more():
        nonlocal got, cursor
        logs = await kit.commands.get_background_command_logs(done.id, cursor)
        got, cursor = got + logs.content, logs.cursor
        return got

    async def first_line():
        return await more() == "eins €\n"
    await until(first_line, "the first line")
    equal(cursor, len("eins €\n".encode()))
    equal(await more(), "eins €\n")
    equal((await kit.commands.get_command_status(done.id)).running, True)
    await kit.files.write_file("/tmp/go-on", "")
    equal((await finished(kit, done.id)).exit_code, 0)
    equal(await more(), "eins €\nzwei\ndrei")
    equal(cursor, len("eins €\nzwei\ndrei".encode()))
    logs = await kit.commands.get_background_command_logs(done.id, cursor + 1000)
    equal((logs.content, logs.cursor), ("", cursor + 1000))
    equal((await kit.commands.get_background_command_logs(done.id, 0)).content, got)


@item
async def background_with_options(kit):
    opts = RunCommandOpts(background=True, working_directory="/usr", envs={"COLOUR": "blue"}, uid=1000)
    done = await kit.commands.run("pwd; echo $COLOUR; id -u", opts=opts)
    await finished(kit, done.id)
    equal((await kit.commands.get_background_command_logs(done.id)).content, "/usr\nblue\n1000\n")


@item
async def background_timeout(kit):
    done = await kit.commands.run("sleep 30", opts=RunCommandOpts(background=True, timeout=seconds(0.3)))
    status = await finished(kit, done.id)
    equal((status.exit_code, status.error), (-1, "signal: killed"))


@item
async def background_interrupt(kit):
    done = await kit.commands.run("sleep 30", opts=RunCommandOpts(background=True))
    await kit.commands.interrupt(done.id)
    status = await finished(kit, done.id)
    equal((status.exit_code, status.error), (-1, "signal: terminated"))


@item
async def background_refuses_what_is_wrong(kit):
    await refused(kit.commands.run("pwd", opts=RunCommandOpts(background=True, working_directory="/absent")),
                  400, "INVALID_REQUEST_BODY")


@item
async def logs_unknown(kit):
    await refused(kit.commands.get_background_command_logs("no-such-command"), 404, "CONTEXT_NOT_FOUND")
    done = await kit.commands.run("true", opts=RunCommandOpts(background=True))
    await refused(kit.commands.get_background_command_logs(done.id, -1), 400, "INVALID_REQUEST_BODY")
