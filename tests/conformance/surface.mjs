// What the surface_*.mjs files are written with. An item is an async function that gets the sandbox.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";

export const items = [];
export const item = (fn) => items.push(fn);
export const calls = { commands: new Set(), files: new Set() };

/** A service that remembers which of its methods were called. */
export function watched(service, seen) {
  return new Proxy(service, {
    get(target, name) {
      const value = target[name];
      if (typeof value !== "function") return value;
      return (...args) => {
        seen.add(name);
        return value.apply(target, args);
      };
    },
  });
}

/** The method names of an interface, as the package's own type declarations list them. */
export function methodsOf(sdkFile, name) {
  const folder = path.dirname(sdkFile);
  for (const file of readdirSync(folder).filter((f) => f.endsWith(".d.ts"))) {
    const text = readFileSync(path.join(folder, file), "utf8").replace(/\/\*\*[\s\S]*?\*\//g, "");
    const body = text.match(new RegExp(`interface ${name} \\{([\\s\\S]*?)\\n\\}`));
    if (body) return [...body[1].matchAll(/^ {4}(\w+)\(/gm)].map((m) => m[1]);
  }
  throw new Error(`no interface ${name} in ${folder}`);
}

export const stdout = (done) => done.logs.stdout.map((m) => m.text);
export const stderr = (done) => done.logs.stderr.map((m) => m.text);

/** stdout of a command that must succeed. */
export async function output(box, command, opts) {
  const done = await box.commands.run(command, opts);
  assert.equal(done.exitCode, 0, JSON.stringify(done));
  return stdout(done);
}

/** The call must fail with the SDK's exception for this answer. */
export async function refused(promise, status, code) {
  await assert.rejects(promise, (problem) => {
    assert.equal(problem.statusCode, status, String(problem));
    // Downloads and uploads keep the body as text only.
    const text = JSON.stringify([problem.error?.code, problem.rawBody]);
    assert.ok(code === undefined || text.includes(code), text);
    return true;
  });
}

export async function failed(promise) {
  await assert.rejects(promise, (problem) => problem.statusCode >= 400);
}

export async function until(condition, what) {
  const deadline = Date.now() + 30000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export async function runItems(context) {
  for (const fn of items) {
    let outcome = "ok";
    try {
      await fn(context.box);
    } catch (problem) {
      console.error(problem);
      outcome = String(problem).replaceAll("\n", " ");
    }
    console.log(`STEP ${fn.name}: ${outcome}`);
  }
}
