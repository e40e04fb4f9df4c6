// Commands as the published npm SDK runs them.
import assert from "node:assert/strict";
import { item, output, refused, stderr, stdout, until } from "./surface.mjs";

/** A foreground command that goes on; its promise and its id. */
async function start(box, command, opts) {
  let done;
  const id = await new Promise((resolve, reject) => {
    done = box.commands.run(command, opts, { onInit: (event) => resolve(event.id) });
    done.catch(reject);
  });
  return { done, id };
}

async function finished(box, id) {
  await until(async () => !(await box.commands.getCommandStatus(id)).running, `end of ${id}`);
  return box.commands.getCommandStatus(id);
}

item(async function run_echo(box) {
  const done = await box.commands.run("echo hello; echo $COLOUR; echo oops >&2");
  assert.deepEqual(stdout(done), ["hello", "teal"]);
  assert.deepEqual(stderr(done), ["oops"]);
  assert.equal(done.exitCode, 0);
  assert.equal(done.error, undefined);
  assert.ok(done.id && done.complete.executionTimeMs >= 0);
});

item(async function run_lines(box) {
  assert.deepEqual(await output(box, "printf 'a\\n\\nb\\r\\nc\\rno end'"), ["a", "\n", "b", "c", "no end"]);
  assert.deepEqual(await output(box, "echo 'äöü € 🙂'"), ["äöü € 🙂"]);
  assert.deepEqual(await output(box, "true"), []);
  assert.equal((await output(box, "seq 20000")).length, 20000);
  const [long] = await output(box, "head -c 300000 /dev/zero | tr '\\0' x");
  assert.equal(long, "x".repeat(300000));
});

item(async function run_stream(box) {
  const events = [];
  for await (const event of box.commands.runStream("echo out; exit 3")) events.push(event);
  assert.equal(events[0].type, "init");
  assert.deepEqual(events.filter((e) => e.type === "stdout").map((e) => e.text), ["out"]);
  assert.equal(events.at(-1).type, "error");
  assert.equal(events.at(-1).error.evalue, "3");
  assert.ok(events.every((e) => Number.isInteger(e.timestamp)));
});

item(async function run_exit_codes(box) {
  for (const code of [1, 7, 255]) {
    const done = await box.commands.run(`exit ${code}`);
    assert.equal(done.exitCode, code);
    assert.equal(done.error.name, "CommandExecError");
    assert.deepEqual(done.error.traceback, [`exit status ${code}`]);
    assert.equal(done.complete, undefined);
  }
  const done = await box.commands.run("no-such-program-here");
  assert.equal(done.exitCode, 127);
  assert.ok(stderr(done)[0].includes("no-such-program-here"));
});

item(async function run_ended_by_a_signal(box) {
  const done = await box.commands.run("kill -9 $$");
  assert.equal(done.exitCode, -1);
  assert.deepEqual(done.error.traceback, ["signal: killed"]);
});

item(async function run_options(box) {
  const envs = { COLOUR: "red", ODD: "a b$c'd\"e=f" };
  assert.deepEqual(await output(box, 'echo "$COLOUR,$ODD"', { envs }), ["red,a b$c'd\"e=f"]);
  assert.deepEqual(await output(box, "echo $COLOUR"), ["teal"]);
  assert.deepEqual(await output(box, "pwd", { workingDirectory: "/usr" }), ["/usr"]);
  assert.deepEqual(await output(box, "pwd", { workingDirectory: "~" }), ["/root"]);
  assert.deepEqual(await output(box, "id -u; id -g", { uid: 1000 }), ["1000", "1000"]);
  assert.deepEqual(await output(box, "id -u; id -g", { uid: 1000, gid: 2000 }), ["1000", "2000"]);
  await assert.rejects(box.commands.run("id", { gid: 1 }));
});

item(async function run_timeout(box) {
  const done = await box.commands.run("echo begun; sleep 30", { timeoutSeconds: 0.5 });
  assert.deepEqual(stdout(done), ["begun"]);
  assert.equal(done.exitCode, -1);
  assert.deepEqual(done.error.traceback, ["signal: killed"]);
});

item(async function run_handlers(box) {
  const seen = [];
  const types = [];
  const done = await box.commands.run("echo out; echo err >&2; exit 3", {}, {
    onEvent: (e) => types.push(e.type),
    onInit: (e) => seen.push(`init ${e.id}`),
    onStdout: (m) => seen.push(`stdout ${m.text}`),
    onStderr: (m) => seen.push(`stderr ${m.text}`),
    onExecutionComplete: () => seen.push("complete"),
    onError: (e) => seen.push(`error ${e.value}`),
    skipAccumulation: true,
  });
  assert.equal(seen[0], `init ${done.id}`);
  assert.deepEqual(seen.slice(1, -1).sort(), ["stderr err", "stdout out"]);
  assert.equal(seen.at(-1), "error 3");
  assert.deepEqual([types[0], types.at(-1)], ["init", "error"]);
  assert.deepEqual(stdout(done), []);
});

item(async function run_refuses_what_is_wrong(box) {
  await assert.rejects(box.commands.run(" "));
  await refused(box.commands.run("pwd", { workingDirectory: "/absent" }), 400, "INVALID_REQUEST_BODY");
  await refused(box.commands.run("true", { timeoutSeconds: -1 }), 400, "INVALID_REQUEST_BODY");
  await refused(box.commands.run("true", { uid: -1 }), 400, "INVALID_REQUEST_BODY");
  await refused(box.commands.run("true", { envs: { "A=B": "x" } }), 400, "INVALID_REQUEST_BODY");
  await refused(box.commands.run("x".repeat(200000)), 400, "INVALID_REQUEST_BODY");
});

item(async function interrupt(box) {
  const { done, id } = await start(box, "sleep 30");
  const status = await box.commands.getCommandStatus(id);
  assert.deepEqual([status.running, status.exitCode, status.finishedAt], [true, null, null]);
  await box.commands.interrupt(id);
  const result = await done;
  assert.equal(result.exitCode, -1);
  assert.ok(result.error.value && !result.complete);
  assert.equal((await box.commands.getCommandStatus(id)).running, false);
});

item(async function interrupt_unknown(box) {
  await refused(box.commands.interrupt("no-such-command"), 404, "CONTEXT_NOT_FOUND");
});

item(async function command_status(box) {
  const done = await box.commands.run("exit 7");
  const status = await box.commands.getCommandStatus(done.id);
  assert.deepEqual([status.id, status.content, status.running, status.exitCode, status.error],
    [done.id, "exit 7", false, 7, "exit status 7"]);
  assert.ok(status.finishedAt >= status.startedAt);
  await refused(box.commands.getCommandStatus("no-such-command"), 404, "CONTEXT_NOT_FOUND");
});

item(async function background(box) {
  const script = "echo eins €; until [ -e /tmp/js-go ]; do sleep 0.05; done; rm /tmp/js-go; " +
    "echo zwei >&2; printf drei; exit 3";
  const done = await box.commands.run(script, { background: true });
  assert.ok(done.id && done.complete);
  assert.equal(done.exitCode, undefined);
  let got = "";
  let cursor;
  const more = async () => {
    const logs = await box.commands.getBackgroundCommandLogs(done.id, cursor);
    got += logs.content;
    cursor = logs.cursor;
    return got;
  };
  await until(async () => (await more()) === "eins €\n", "the first line");
  assert.equal(cursor, Buffer.byteLength("eins €\n"));
  assert.equal((await box.commands.getCommandStatus(done.id)).running, true);
  await box.files.writeFiles([{ path: "/tmp/js-go", data: "" }]);
  assert.equal((await finished(box, done.id)).exitCode, 3);
  assert.equal(await more(), "eins €\nzwei\ndrei");
  const past = await box.commands.getBackgroundCommandLogs(done.id, cursor + 5);
  assert.deepEqual([past.content, past.cursor], ["", cursor + 5]);
});

item(async function background_interrupt_and_timeout(box) {
  const first = await box.commands.run("sleep 30", { background: true });
  await box.commands.interrupt(first.id);
  assert.equal((await finished(box, first.id)).error, "signal: terminated");
  const second = await box.commands.run("sleep 30", { background: true, timeoutSeconds: 0.3 });
  const status = await finished(box, second.id);
  assert.deepEqual([status.exitCode, status.error], [-1, "signal: killed"]);
});

item(async function logs_refused(box) {
  await refused(box.commands.getBackgroundCommandLogs("no-such-command"), 404, "CONTEXT_NOT_FOUND");
  const { id } = await box.commands.run("true", { background: true });
  await refused(box.commands.getBackgroundCommandLogs(id, -1), 400, "INVALID_REQUEST_BODY");
});
