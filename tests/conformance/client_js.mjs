// Drives the published npm SDK; prints one `STEP name: outcome` line per thing tried.
import assert from "node:assert/strict";

const { Sandbox, SandboxManager } = await import(process.env.OSB_JS_SDK);
const connectionConfig = { domain: process.env.OSB_DOMAIN, apiKey: process.env.OSB_KEY };
const state = {};

async function create() {
  state.box = await Sandbox.create({
    connectionConfig,
    image: "host",
    timeoutSeconds: 300,
    env: { COLOUR: "teal" },
    metadata: { suite: "conformance" },
  });
  const info = await state.box.getInfo();
  assert.equal(info.status.state, "Running");
  assert.deepEqual(info.metadata, { suite: "conformance" });
  assert.deepEqual(info.entrypoint, ["tail", "-f", "/dev/null"]);
}

async function echo() {
  const done = await state.box.commands.run("echo hello; echo $COLOUR; echo oops >&2");
  assert.deepEqual(done.logs.stdout.map((m) => m.text), ["hello", "teal"]);
  assert.deepEqual(done.logs.stderr.map((m) => m.text), ["oops"]);
  assert.equal(done.exitCode, 0);
  assert.ok(done.id);
}

async function failing_command() {
  const done = await state.box.commands.run("no-such-program-here; exit 7");
  assert.equal(done.exitCode, 7);
  assert.equal(done.error.name, "CommandExecError");
  assert.ok(done.logs.stderr[0].text.includes("no-such-program-here"));
  assert.equal(done.complete, undefined);
}

async function files() {
  const text = "first\nzweite Zeile: äöü €\n";
  const data = new Uint8Array(256000).map((_, i) => i & 255);
  await state.box.files.writeFiles([
    { path: "/tmp/dir/a.txt", data: text },
    { path: "/tmp/b.bin", data, mode: 640 },
  ]);
  assert.equal(await state.box.files.readFile("/tmp/dir/a.txt"), text);
  assert.deepEqual(Buffer.from(await state.box.files.readBytes("/tmp/b.bin")), Buffer.from(data));
  const info = (await state.box.files.getFileInfo(["/tmp/b.bin"]))["/tmp/b.bin"];
  assert.equal(info.size, data.length);
  assert.equal(info.mode, 640);
  await assert.rejects(state.box.files.readFile("/tmp/absent"));
}

async function kill() {
  const id = state.box.id;
  await state.box.kill();
  await state.box.close();
  const manager = SandboxManager.create({ connectionConfig });
  await assert.rejects(manager.getSandboxInfo(id), (e) => e.statusCode === 404);
  await manager.close();
}

for (const step of [create, echo, failing_command, files, kill]) {
  try {
    await step();
    console.log(`STEP ${step.name}: ok`);
  } catch (problem) {
    console.error(problem);
    console.log(`STEP ${step.name}: ${String(problem).replaceAll("\n", " ")}`);
  }
}
