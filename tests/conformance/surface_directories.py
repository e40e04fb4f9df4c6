"""Directories and searches as the published Python SDK handles them."""
from opensandbox.models.filesystem import DirectoryListEntry, SearchEntry, WriteEntry
from surface import equal, failed, item, refused


async def folder(kit, name):
    """An empty directory of one item's own."""
    path = f"/tmp/files/{name}"
    await kit.files.delete_directories([path])
    await kit.files.create_directories([WriteEntry(path=path)])
    return path


async def info(kit, path):
    return (await kit.files.get_file_info([path]))[path]


@item
async def search(kit):
    at = await folder(kit, "search")
    names = ["a.py", "b.txt", "sub/c.py", "sub/deep/d.py", "sub/e.md", ".hidden.py"]
    await kit.files.write_files([WriteEntry(path=f"{at}/{n}", data="x") for n in names])

    async def found(pattern):
        entries = await kit.files.search(SearchEntry(path=at, pattern=pattern))
        assert all(e.entry_type == "file" for e in entries), entries
        return [e.path.removeprefix(at + "/") for e in entries]
    equal(sorted(await found("*")), sorted(names))
    equal(sorted(await found("**")), sorted(names))
    equal(sorted(await found("*.py")), sorted(n for n in names if n.endswith(".py")))
    equal(sorted(await found("[ab].*")), ["a.py", "b.txt"])
    equal(sorted(await found("?.{txt,md}")), ["b.txt", "sub/e.md"])
    equal(await found("nothing*"), [])
    await refused(kit.files.search(SearchEntry(path=f"{at}/absent", pattern="*")), 404, "FILE_NOT_FOUND")


@item
async def list_directory(kit):
    at = await folder(kit, "list")
    await kit.output(f"cd {at}; mkdir -p b/deep/er; touch a b/x c; ln -s b link")

    async def listed(**options):
        entries = await kit.files.list_directory(DirectoryListEntry(path=at, **options))
        return [(e.path.removeprefix(at + "/"), e.entry_type) for e in entries]
    one = [("a", "file"), ("b", "directory"), ("c", "file"), ("link", "symlink")]
    equal(await listed(), one)
    equal(await listed(depth=1), one)
    equal(await listed(depth=0), [])
    equal(await listed(depth=2), one[:2] + [("b/deep", "directory"), ("b/x", "file")] + one[2:])
    equal(len(await listed(depth=100)), 7)
    await refused(kit.files.list_directory(DirectoryListEntry(path=f"{at}/absent")), 404, "FILE_NOT_FOUND")
    for wrong in ("a", "link"):
        await refused(kit.files.list_directory(DirectoryListEntry(path=f"{at}/{wrong}")), 400)


@item
async def directories(kit):
    at = await folder(kit, "directories")
    await kit.files.create_directories([
        WriteEntry(path=f"{at}/a/b", mode=700), WriteEntry(path=f"{at}/c", owner="nobody", group="nogroup")])
    infos = await kit.files.get_file_info([f"{at}/a", f"{at}/a/b", f"{at}/c"])
    equal({i.entry_type for i in infos.values()}, {"directory"})
    equal(infos[f"{at}/a/b"].mode, 700)
    equal((infos[f"{at}/c"].owner, infos[f"{at}/c"].group, infos[f"{at}/c"].mode), ("nobody", "nogroup", 755))
    await kit.files.create_directories([WriteEntry(path=f"{at}/a/b", mode=755)])
    equal((await info(kit, f"{at}/a/b")).mode, 700)
    await kit.files.write_file(f"{at}/a/b/f", "x")
    await failed(kit.files.create_directories([WriteEntry(path=f"{at}/a/b/f/g")]))
    await kit.files.delete_directories([f"{at}/a", f"{at}/absent"])
    equal(await kit.output(f"ls {at}"), ["c"])


@item
async def deep_tree(kit):
    at = await folder(kit, "tree")
    await kit.output(f"cd {at}; for i in $(seq 20); do mkdir -p d$i/e; for j in $(seq 30); do "
                     "echo $i >d$i/e/f$j; done; done; ln -s / root-link")
    equal(len(await kit.files.search(SearchEntry(path=at, pattern="f*"))), 600)
    equal(len(await kit.files.list_directory(DirectoryListEntry(path=at, depth=3))), 20 + 20 + 600 + 1)
    await kit.files.delete_directories([at])
    equal(await kit.output(f"ls -d {at} 2>/dev/null; ls /etc/passwd"), ["/etc/passwd"])
