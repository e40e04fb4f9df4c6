// Sessions as the published npm SDK runs them: one living bash each.
import assert from "node:assert/strict";
import { item, output, refused, stderr, stdout } from "./surface.mjs";

async function lines(box, session, command, options) {
  const done = await box.commands.runInSession(session, command, options);
  assert.equal(done.exitCode, 0, JSON.stringify(done));
  return stdout(done);
}

async function withSession(box, options, fn) {
  const session = await box.commands.createSession(options);
  assert.ok(session);
  try {
    await fn(session);
  } finally {
    await box.commands.deleteSession(session);
  }
}

item(async function session_keeps_its_state(box) {
  await withSession(box, undefined, async (session) => {
    await lines(box, session, "export LOUD=1; quiet=2; f() { echo f$1; }; cd /usr");
    assert.deepEqual(await lines(box, session, "echo $LOUD $quiet $COLOUR; f 3; pwd"), ["1 2 teal", "f3", "/usr"]);
    assert.deepEqual(await lines(box, session, "bash -c 'echo $LOUD,$quiet'"), ["1,"]);
  });
});

item(async function session_directories(box) {
  await withSession(box, { workingDirectory: "/usr" }, async (session) => {
    assert.deepEqual(await lines(box, session, "pwd"), ["/usr"]);
    assert.deepEqual(await lines(box, session, "pwd", { workingDirectory: "/etc" }), ["/etc"]);
    assert.deepEqual(await lines(box, session, "pwd"), ["/etc"]);
    await refused(box.commands.runInSession(session, "pwd", { workingDirectory: "/absent" }), 400,
      "INVALID_REQUEST_BODY");
  });
});

item(async function session_exit_codes(box) {
  await withSession(box, undefined, async (session) => {
    await lines(box, session, "kept=yes");
    const done = await box.commands.runInSession(session, "echo before; exit 7");
    assert.deepEqual([stdout(done), done.exitCode, done.error.name], [["before"], 7, "CommandExecError"]);
    assert.deepEqual(await lines(box, session, "echo $kept"), ["yes"]);
    assert.equal((await box.commands.runInSession(session, "false")).exitCode, 1);
  });
});

item(async function session_output_and_handlers(box) {
  await withSession(box, {}, async (session) => {
    const seen = [];
    const done = await box.commands.runInSession(session, "echo out; echo; echo err >&2", undefined, {
      onInit: (e) => seen.push(e.id),
      onStdout: (m) => seen.push(m.text),
    });
    assert.deepEqual([stdout(done), stderr(done)], [["out", "\n"], ["err"]]);
    assert.deepEqual(seen, [session, "out", "\n"]);
  });
});

item(async function session_timeout(box) {
  await withSession(box, undefined, async (session) => {
    const done = await box.commands.runInSession(session, "echo begun; sleep 30", { timeoutSeconds: 0.5 });
    assert.deepEqual(stdout(done), ["begun"]);
    assert.ok(done.error && !done.complete && done.exitCode !== 0);
    assert.deepEqual(await lines(box, session, "echo again"), ["again"]);
  });
});

item(async function session_deleted(box) {
  const session = await box.commands.createSession();
  const [pid] = await lines(box, session, "echo $$");
  await box.commands.deleteSession(session);
  await refused(box.commands.runInSession(session, "true"), 404, "CONTEXT_NOT_FOUND");
  await refused(box.commands.deleteSession(session), 404, "CONTEXT_NOT_FOUND");
  assert.deepEqual(await output(box, `kill -0 ${pid} 2>/dev/null || echo gone`), ["gone"]);
});

item(async function session_refuses_what_is_wrong(box) {
  await refused(box.commands.runInSession("no-such-session", "true"), 404, "CONTEXT_NOT_FOUND");
  await withSession(box, undefined, async (session) => {
    await assert.rejects(box.commands.runInSession(session, " "));
    await refused(box.commands.runInSession(session, "true", { timeoutSeconds: -1 }), 400,
      "INVALID_REQUEST_BODY");
  });
});
