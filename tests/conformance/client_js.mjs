// Drives the published npm SDK; prints one `STEP name: outcome` line per thing tried. The things are in
// surface_*.mjs and, for the sandbox itself, here.
import assert from "node:assert/strict";
import { calls, item, items, methodsOf, refused, runItems, watched } from "./surface.mjs";

const { Sandbox, SandboxManager } = await import(process.env.OSB_JS_SDK);
const connectionConfig = { domain: process.env.OSB_DOMAIN, apiKey: process.env.OSB_KEY };
const context = {};

items.push(async function create() {
  const box = await Sandbox.create({
    connectionConfig,
    image: "host",
    timeoutSeconds: 600,
    env: { COLOUR: "teal" },
    metadata: { suite: "conformance" },
  });
  context.box = {
    whole: box,
    commands: watched(box.commands, calls.commands),
    files: watched(box.files, calls.files),
  };
  const info = await box.getInfo();
  assert.equal(info.status.state, "Running");
  assert.deepEqual(info.metadata, { suite: "conformance" });
  assert.deepEqual(info.entrypoint, ["tail", "-f", "/dev/null"]);
});

await import("./surface_commands.mjs");
await import("./surface_sessions.mjs");
await import("./surface_files.mjs");

item(async function health_and_metrics({ whole }) {
  assert.equal(await whole.isHealthy(), true);
  assert.equal(await whole.health.ping(), true);
  await whole.waitUntilReady({ readyTimeoutSeconds: 10, pollingIntervalMillis: 50 });
  for (const sample of [await whole.getMetrics(), await whole.metrics.getMetrics()]) {
    assert.ok(sample.cpuCount > 0 && sample.cpuUsedPercentage >= 0, JSON.stringify(sample));
    assert.ok(sample.cpuUsedPercentage <= 100, JSON.stringify(sample));
    assert.ok(sample.memoryUsedMiB > 0 && sample.memoryUsedMiB <= sample.memoryTotalMiB);
    assert.ok(Math.abs(sample.timestamp - Date.now()) < 3600000, JSON.stringify(sample));
  }
});

item(async function every_method_was_called() {
  for (const [service, name] of [["commands", "ExecdCommands"], ["files", "SandboxFiles"]]) {
    const methods = methodsOf(process.env.OSB_JS_SDK, name);
    assert.ok(methods.length > 5, methods.join());
    assert.deepEqual(methods.filter((m) => !calls[service].has(m)), []);
  }
});

item(async function kill({ whole }) {
  await whole.kill();
  await whole.close();
  const manager = SandboxManager.create({ connectionConfig });
  await refused(manager.getSandboxInfo(whole.id), 404);
  await manager.close();
});

await runItems(context);
