// Files and directories as the published npm SDK handles them.
import assert from "node:assert/strict";
import { failed, item, output, refused } from "./surface.mjs";

const names = ["plain", "two words", "quote\"d", "it's", "umläut €", "100%41", "a+b&c=d?e#f", "semi;colon"];

async function folder(box, name) {
  const path = `/tmp/js-files/${name}`;
  await box.files.deleteDirectories([path]);
  await box.files.createDirectories([{ path }]);
  return path;
}

async function info(box, path) {
  return (await box.files.getFileInfo([path]))[path];
}

const bytes = (length) => new Uint8Array(length).map((_, i) => i & 255);

item(async function write_and_read(box) {
  const at = await folder(box, "write");
  const text = "first\nzweite Zeile: äöü €\n\n";
  await box.files.writeFiles([{ path: `${at}/deep/er/a.txt`, data: text }]);
  assert.equal(await box.files.readFile(`${at}/deep/er/a.txt`), text);
  for (const size of [0, 1, 65536, 1000001]) {
    await box.files.writeFiles([{ path: `${at}/b`, data: bytes(size), mode: 640 }]);
    assert.deepEqual(Buffer.from(await box.files.readBytes(`${at}/b`)), Buffer.from(bytes(size)));
    assert.equal((await info(box, `${at}/b`)).mode, 640);
  }
  await box.files.writeFiles([{ path: `${at}/l`, data: Uint8Array.of(0xe4) }]);
  assert.equal(await box.files.readFile(`${at}/l`, { encoding: "latin1" }), "ä");
});

item(async function write_every_kind_of_data(box) {
  const at = await folder(box, "kinds");
  async function* pieces() {
    for (let i = 0; i < 40; i++) yield bytes(50000);
  }
  const stream = new ReadableStream({
    start(controller) {
      controller.enqueue(bytes(3));
      controller.close();
    },
  });
  await box.files.writeFiles([
    { path: `${at}/string`, data: "text" },
    { path: `${at}/buffer`, data: bytes(5).buffer },
    { path: `${at}/blob`, data: new Blob(["blob"]) },
    { path: `${at}/iterable`, data: pieces() },
    { path: `${at}/stream`, data: stream },
    { path: `${at}/nothing` },
  ]);
  const sizes = {};
  for (const entry of await box.files.listDirectory({ path: at })) sizes[entry.path.split("/").pop()] = entry.size;
  assert.deepEqual(sizes, { string: 4, buffer: 5, blob: 4, iterable: 2000000, stream: 3, nothing: 0 });
  assert.deepEqual(Buffer.from(await box.files.readBytes(`${at}/stream`)), Buffer.from([0, 1, 2]));
});

item(async function read_ranges_and_lines(box) {
  const at = await folder(box, "parts");
  await box.files.writeFiles([{ path: `${at}/r`, data: "0123456789" }, { path: `${at}/l`, data: "one\ntwo\r\nthree\n" }]);
  for (const [range, wanted] of [["bytes=0-9", "0123456789"], ["bytes=5-", "56789"], ["bytes=-3", "789"]])
    assert.equal(await box.files.readFile(`${at}/r`, { range }), wanted);
  await refused(box.files.readFile(`${at}/r`, { range: "bytes=10-" }), 416);
  assert.equal(await box.files.readFile(`${at}/l`, { offset: 2 }), "two\nthree");
  assert.equal(await box.files.readFile(`${at}/l`, { offset: 2, limit: 1 }), "two");
  assert.equal(await box.files.readFile(`${at}/l`, { offset: 9 }), "");
  await refused(box.files.readFile(`${at}/l`, { offset: 0 }), 400, "INVALID_REQUEST_BODY");
  await refused(box.files.readFile(`${at}/l`, { offset: 1, range: "bytes=0-1" }), 400, "INVALID_REQUEST_BODY");
});

item(async function read_as_a_stream(box) {
  const at = await folder(box, "reading");
  await box.files.writeFiles([{ path: `${at}/r`, data: bytes(500000) }]);
  const pieces = [];
  for await (const piece of box.files.readBytesStream(`${at}/r`)) pieces.push(piece);
  assert.deepEqual(Buffer.concat(pieces), Buffer.from(bytes(500000)));
  const part = [];
  for await (const piece of box.files.readBytesStream(`${at}/r`, { range: "bytes=256-258" })) part.push(...piece);
  assert.deepEqual(part, [0, 1, 2]);
  await refused(box.files.readBytesStream(`${at}/absent`)[Symbol.asyncIterator]().next(), 404, "FILE_NOT_FOUND");
});

item(async function read_what_is_not_there(box) {
  const at = await folder(box, "missing");
  await refused(box.files.readFile(`${at}/absent`), 404, "FILE_NOT_FOUND");
  await refused(box.files.readBytes(`${at}/absent`), 404, "FILE_NOT_FOUND");
  await refused(box.files.getFileInfo([`${at}/absent`]), 404, "FILE_NOT_FOUND");
  await refused(box.files.readFile(at), 400, "INVALID_FILE");
});

item(async function odd_names(box) {
  const at = await folder(box, "names");
  await box.files.writeFiles(names.map((name) => ({ path: `${at}/${name}`, data: name })));
  for (const name of names) assert.equal(await box.files.readFile(`${at}/${name}`), name);
  const paths = names.map((name) => `${at}/${name}`);
  assert.deepEqual(Object.keys(await box.files.getFileInfo(paths)).sort(), [...paths].sort());
  const listed = await box.files.listDirectory({ path: at });
  assert.deepEqual(listed.map((e) => e.path).sort(), [...paths].sort());
  await box.files.deleteFiles(paths);
  assert.deepEqual(await box.files.listDirectory({ path: at }), []);
});

item(async function file_info(box) {
  const at = await folder(box, "info");
  await output(box, `cd ${at}; printf hello >f; chmod 604 f; ln -s f link; mkdir d`);
  const infos = await box.files.getFileInfo([`${at}/f`, `${at}/link`, `${at}/d`]);
  assert.deepEqual(Object.values(infos).map((i) => i.type), ["file", "symlink", "directory"]);
  const entry = infos[`${at}/f`];
  assert.deepEqual([entry.path, entry.size, entry.mode, entry.owner, entry.group], [`${at}/f`, 5, 604, "root", "root"]);
  assert.ok(entry.createdAt instanceof Date && Math.abs(entry.modifiedAt - Date.now()) < 3600000);
  assert.deepEqual(await box.files.getFileInfo([]), {});
});

item(async function owner_and_permissions(box) {
  const at = await folder(box, "owner");
  await box.files.writeFiles([{ path: `${at}/f`, data: "x", mode: 600, owner: "nobody", group: "nogroup" }]);
  let entry = await info(box, `${at}/f`);
  assert.deepEqual([entry.mode, entry.owner, entry.group], [600, "nobody", "nogroup"]);
  await box.files.setPermissions([{ path: `${at}/f`, mode: 644, owner: "root" }, { path: at, mode: 700 }]);
  entry = await info(box, `${at}/f`);
  assert.deepEqual([entry.mode, entry.owner, entry.group], [644, "root", "nogroup"]);
  assert.equal((await info(box, at)).mode, 700);
  await refused(box.files.setPermissions([{ path: `${at}/absent`, mode: 644 }]), 404, "FILE_NOT_FOUND");
  await failed(box.files.setPermissions([{ path: `${at}/f`, mode: 644, owner: "no-such-user" }]));
  await failed(box.files.writeFiles([{ path: `${at}/g`, data: "x", owner: "no-such-user" }]));
  await failed(box.files.writeFiles([{ path: at, data: "x" }]));
});

item(async function move_files(box) {
  const at = await folder(box, "move");
  await box.files.writeFiles([{ path: `${at}/a`, data: "a" }, { path: `${at}/b`, data: "b" }]);
  await box.files.moveFiles([{ src: `${at}/a`, dest: `${at}/new/er/a2` }]);
  assert.equal(await box.files.readFile(`${at}/new/er/a2`), "a");
  await refused(box.files.moveFiles([{ src: `${at}/a`, dest: `${at}/x` }]), 404, "FILE_NOT_FOUND");
  await failed(box.files.moveFiles([{ src: `${at}/b`, dest: `${at}/new/er/a2` }]));
  assert.equal(await box.files.readFile(`${at}/new/er/a2`), "a");
});

item(async function delete_files(box) {
  const at = await folder(box, "delete");
  await output(box, `cd ${at}; touch a b; ln -s nowhere dangling; mkdir d`);
  await box.files.deleteFiles([`${at}/a`, `${at}/absent`, `${at}/dangling`]);
  await failed(box.files.deleteFiles([`${at}/d`]));
  assert.deepEqual(await output(box, `ls ${at}`), ["b", "d"]);
});

item(async function replace_contents(box) {
  const at = await folder(box, "replace");
  await box.files.writeFiles([{ path: `${at}/a`, data: "tea, tea and €\n" }, { path: `${at}/b`, data: "b" }]);
  await box.files.replaceContents([{ path: `${at}/a`, oldContent: "tea", newContent: "milk" }]);
  assert.equal(await box.files.readFile(`${at}/a`), "milk, milk and €\n");
  const counts = await box.files.replaceContentsDetailed([
    { path: `${at}/a`, oldContent: "milk", newContent: "" },
    { path: `${at}/b`, oldContent: ".*", newContent: "x" },
  ]);
  assert.deepEqual(counts.sort((x, y) => (x.path < y.path ? -1 : 1)),
    [{ path: `${at}/a`, replacedCount: 2 }, { path: `${at}/b`, replacedCount: 0 }]);
  await refused(box.files.replaceContents([{ path: `${at}/absent`, oldContent: "a", newContent: "b" }]), 404,
    "FILE_NOT_FOUND");
  await refused(box.files.replaceContents([{ path: `${at}/a`, oldContent: "", newContent: "b" }]), 400,
    "INVALID_REQUEST_BODY");
});

item(async function search(box) {
  const at = await folder(box, "search");
  const all = [".hidden.py", "a.py", "b.txt", "sub/c.py", "sub/deep/d.py"];
  await box.files.writeFiles(all.map((name) => ({ path: `${at}/${name}`, data: "x" })));
  const found = async (pattern) =>
    (await box.files.search({ path: at, pattern })).map((e) => e.path.slice(at.length + 1)).sort();
  assert.deepEqual(await found(undefined), all);
  assert.deepEqual(await found("*"), all);
  assert.deepEqual(await found("*.py"), all.filter((n) => n.endsWith(".py")));
  assert.deepEqual(await found("[ab].{py,txt}"), ["a.py", "b.txt"]);
  await refused(box.files.search({ path: `${at}/absent`, pattern: "*" }), 404, "FILE_NOT_FOUND");
});

item(async function list_and_make_directories(box) {
  const at = await folder(box, "directories");
  await box.files.createDirectories([{ path: `${at}/b/deep`, mode: 700 }, { path: `${at}/c`, owner: "nobody" }]);
  await box.files.writeFiles([{ path: `${at}/a`, data: "x" }]);
  const listed = async (depth) =>
    (await box.files.listDirectory({ path: at, depth })).map((e) => e.path.slice(at.length + 1));
  assert.deepEqual(await listed(undefined), ["a", "b", "c"]);
  assert.deepEqual(await listed(0), []);
  assert.deepEqual(await listed(2), ["a", "b", "b/deep", "c"]);
  assert.equal((await info(box, `${at}/b/deep`)).mode, 700);
  assert.equal((await info(box, `${at}/c`)).owner, "nobody");
  await refused(box.files.listDirectory({ path: `${at}/absent` }), 404, "FILE_NOT_FOUND");
  await refused(box.files.listDirectory({ path: `${at}/a` }), 400);
  await box.files.deleteDirectories([`${at}/b`, `${at}/absent`]);
  assert.deepEqual(await listed(5), ["a", "c"]);
});
