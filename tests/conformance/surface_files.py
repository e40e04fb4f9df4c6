"""Files as the published Python SDK handles them."""
import io
from datetime import datetime, timedelta, timezone

from opensandbox.models.filesystem import (
    ContentReplaceEntry, DirectoryListEntry, MoveEntry, SearchEntry, SetPermissionEntry, WriteEntry)
from surface import equal, failed, item, refused
from surface_directories import folder, info

NAMES = ["plain", "two words", "quote\"d", "it's", "umläut €", "100%41", "a+b&c=d?e#f", "semi;colon", "-dash",
         "back\\slash", "new\nline"]


@item
async def write_and_read_text(kit):
    at = await folder(kit, "text")
    text = "first\nzweite Zeile: äöü €\n\n"
    await kit.files.write_file(f"{at}/deep/er/a.txt", text)
    equal(await kit.files.read_file(f"{at}/deep/er/a.txt"), text)
    await kit.files.write_file(f"{at}/latin", "äöü", encoding="latin-1")
    equal(await kit.files.read_file(f"{at}/latin", encoding="latin-1"), "äöü")
    equal(await kit.files.read_bytes(f"{at}/latin"), b"\xe4\xf6\xfc")
    await kit.files.write_file(f"{at}/latin", "")
    equal(await kit.files.read_file(f"{at}/latin"), "")
    equal(await kit.output(f"cat {at}/deep/er/a.txt"), ["first", "zweite Zeile: äöü €", "\n"])


@item
async def write_and_read_bytes(kit):
    at = await folder(kit, "bytes")
    for size in (0, 1, 65535, 65536, 65537, 3_000_001):
        data = (bytes(range(256)) * (size // 256 + 1))[:size]
        await kit.files.write_file(f"{at}/b", data)
        equal(len(await kit.files.read_bytes(f"{at}/b")), size)
        assert await kit.files.read_bytes(f"{at}/b") == data
        equal((await info(kit, f"{at}/b")).size, size)
    boundary = b"\r\n--opensandbox_\r\n--\r\n\r\n--"
    await kit.files.write_file(f"{at}/b", boundary)
    equal(await kit.files.read_bytes(f"{at}/b"), boundary)


@item
async def write_from_a_stream(kit):
    at = await folder(kit, "stream")
    data = bytes(range(256)) * 8000
    await kit.files.write_file(f"{at}/s", io.BytesIO(data))
    assert await kit.files.read_bytes(f"{at}/s") == data
    await kit.files.write_files([WriteEntry(path=f"{at}/s{n}", data=io.BytesIO(data[:n])) for n in range(3)])
    equal([await kit.files.read_bytes(f"{at}/s{n}") for n in range(3)], [b"", b"\0", b"\0\1"])


@item
async def read_as_a_stream(kit):
    at = await folder(kit, "reading")
    data = bytes(range(256)) * 2000
    await kit.files.write_file(f"{at}/r", data)
    pieces = await kit.chunks(await kit.files.read_bytes_stream(f"{at}/r", chunk_size=10000))
    assert b"".join(pieces) == data and len(pieces) > 10
    pieces = await kit.chunks(await kit.files.read_bytes_stream(f"{at}/r", range_header="bytes=256-511"))
    assert b"".join(pieces) == bytes(range(256))
    await kit.files.write_file(f"{at}/r", "a\nb\nc")
    pieces = await kit.chunks(await kit.files.read_bytes_stream(f"{at}/r", offset=2, limit=1))
    equal(b"".join(pieces), b"b")
    await refused(kit.files.read_bytes_stream(f"{at}/absent"), 404)


@item
async def read_ranges(kit):
    at = await folder(kit, "ranges")
    await kit.files.write_file(f"{at}/r", "0123456789")
    for header, wanted in (("bytes=0-9", "0123456789"), ("bytes=0-0", "0"), ("bytes=5-", "56789"),
                           ("bytes=-3", "789"), ("bytes=8-100", "89"), ("bytes=1-2,5-6", "12")):
        equal(await kit.files.read_file(f"{at}/r", range_header=header), wanted)
    equal(await kit.files.read_bytes(f"{at}/r", range_header="bytes=2-3"), b"23")
    for header in ("bytes=10-", "bytes=5-4", "bytes=x-", "lines=1-2"):
        await refused(kit.files.read_file(f"{at}/r", range_header=header), 416)


@item
async def read_lines(kit):
    at = await folder(kit, "lines")
    await kit.files.write_file(f"{at}/l", "one\ntwo\r\n\nfour\nfive")
    for options, wanted in (({"offset": 1}, "one\ntwo\n\nfour\nfive"), ({"limit": 2}, "one\ntwo"),
                            ({"offset": 2, "limit": 1}, "two"), ({"offset": 3, "limit": 2}, "\nfour"),
                            ({"offset": 5, "limit": 9}, "five"), ({"offset": 6}, "")):
        equal(await kit.files.read_file(f"{at}/l", **options), wanted)
    equal(await kit.files.read_bytes(f"{at}/l", offset=4, limit=1), b"four")
    for options in ({"offset": 0}, {"limit": 0}, {"offset": -1}, {"offset": 1, "range_header": "bytes=0-1"}):
        await refused(kit.files.read_file(f"{at}/l", **options), 400, "INVALID_REQUEST_BODY")


@item
async def read_what_is_not_there(kit):
    at = await folder(kit, "missing")
    for call in (kit.files.read_file(f"{at}/absent"), kit.files.read_bytes(f"{at}/absent"),
                 kit.files.read_file(f"{at}/absent", offset=1), kit.files.get_file_info([f"{at}/absent"])):
        await refused(call, 404, "FILE_NOT_FOUND")
    await refused(kit.files.read_file(at), 400, "INVALID_FILE")


@item
async def odd_names(kit):
    at = await folder(kit, "names")
    await kit.files.write_files([WriteEntry(path=f"{at}/{name}", data=name) for name in NAMES])
    for name in NAMES:
        equal(await kit.files.read_file(f"{at}/{name}"), name)
    infos = await kit.files.get_file_info([f"{at}/{name}" for name in NAMES])
    equal({path: i.path for path, i in infos.items()}, {f"{at}/{n}": f"{at}/{n}" for n in NAMES})
    listed = await kit.files.list_directory(DirectoryListEntry(path=at))
    equal(sorted(e.path for e in listed), sorted(f"{at}/{n}" for n in NAMES))
    found = await kit.files.search(SearchEntry(path=at, pattern="*"))
    equal(sorted(e.path for e in found), sorted(f"{at}/{n}" for n in NAMES))
    await kit.files.delete_files([f"{at}/{name}" for name in NAMES])
    equal(await kit.files.list_directory(DirectoryListEntry(path=at)), [])


@item
async def relative_and_home_paths(kit):
    await kit.files.write_file("~/in-home", "x")
    equal(await kit.files.read_file("/root/in-home"), "x")
    equal(list(await kit.files.get_file_info(["$HOME/in-home"])), ["$HOME/in-home"])
    equal((await info(kit, "~/in-home")).path, "/root/in-home")
    equal((await info(kit, "tmp")).path, "/tmp")
    await kit.files.delete_files(["~/in-home"])


@item
async def write_many(kit):
    at = await folder(kit, "many")
    entries = [WriteEntry(path=f"{at}/d{n % 7}/f{n}", data=f"{n}\n", mode=600 + n % 8) for n in range(100)]
    await kit.files.write_files(entries)
    infos = await kit.files.get_file_info([entry.path for entry in entries])
    equal([infos[entry.path].mode for entry in entries], [entry.mode for entry in entries])
    equal(await kit.output(f"cat {at}/*/f* | sort -n | tr '\\n' ,"), ["".join(f"{n}," for n in range(100))])
    await kit.files.write_files([])


@item
async def write_with_owner_and_mode(kit):
    at = await folder(kit, "owner")
    await kit.files.write_file(f"{at}/f", "x", mode=640, owner="nobody", group="nogroup")
    entry = await info(kit, f"{at}/f")
    equal((entry.mode, entry.owner, entry.group), (640, "nobody", "nogroup"))
    await kit.files.write_file(f"{at}/f", "y")
    equal((await info(kit, f"{at}/f")).mode, 755)
    for options in ({"owner": "no-such-user"}, {"group": "no-such-group"}, {"mode": 888}):
        await failed(kit.files.write_file(f"{at}/new", "x", **options))
    await failed(kit.files.write_file(at, "x"))
    await failed(kit.files.write_file(f"{at}/f/below", "x"))
    equal([e.path for e in await kit.files.list_directory(DirectoryListEntry(path=at))], [f"{at}/f"])


@item
async def file_info(kit):
    at = await folder(kit, "info")
    await kit.output(f"cd {at}; printf hello >f; chmod 604 f; ln -s f link; ln -s nowhere dangling; mkfifo p; "
                     "mkdir d; chmod 711 d")
    paths = [f"{at}/{name}" for name in ("f", "link", "dangling", "p", "d")]
    infos = await kit.files.get_file_info(paths)
    equal([infos[path].entry_type for path in paths], ["file", "symlink", "symlink", "other", "directory"])
    entry = infos[f"{at}/f"]
    equal((entry.path, entry.size, entry.mode, entry.owner, entry.group), (f"{at}/f", 5, 604, "root", "root"))
    equal(infos[f"{at}/d"].mode, 711)
    now = datetime.now(timezone.utc)
    assert abs(now - entry.modified_at) < timedelta(hours=1), entry
    assert abs(entry.created_at - entry.modified_at) < timedelta(hours=1), entry
    equal(await kit.files.get_file_info([]), {})
    await refused(kit.files.get_file_info([f"{at}/f", f"{at}/absent"]), 404, "FILE_NOT_FOUND")


@item
async def move_files(kit):
    at = await folder(kit, "move")
    await kit.files.write_files([WriteEntry(path=f"{at}/{n}", data=n) for n in ("a", "b", "d/inside")])
    await kit.files.move_files([MoveEntry(src=f"{at}/a", dest=f"{at}/new/er/a2"),
                                MoveEntry(src=f"{at}/d", dest=f"{at}/d2")])
    equal(await kit.files.read_file(f"{at}/new/er/a2"), "a")
    equal(await kit.files.read_file(f"{at}/d2/inside"), "d/inside")
    await refused(kit.files.read_file(f"{at}/a"), 404, "FILE_NOT_FOUND")
    await refused(kit.files.move_files([MoveEntry(src=f"{at}/a", dest=f"{at}/x")]), 404, "FILE_NOT_FOUND")
    await failed(kit.files.move_files([MoveEntry(src=f"{at}/b", dest=f"{at}/new/er/a2")]))
    equal((await kit.files.read_file(f"{at}/b"), await kit.files.read_file(f"{at}/new/er/a2")), ("b", "a"))
    await kit.files.move_files([MoveEntry(src=f"{at}/b", dest="/dev/shm/moved-b")])
    equal(await kit.files.read_file("/dev/shm/moved-b"), "b")
    await kit.files.delete_files(["/dev/shm/moved-b"])


@item
async def delete_files(kit):
    at = await folder(kit, "delete")
    await kit.output(f"cd {at}; touch a b; ln -s nowhere dangling; ln -s a link; mkdir d")
    await kit.files.delete_files([f"{at}/a", f"{at}/absent", f"{at}/dangling", f"{at}/link"])
    equal(await kit.output(f"ls {at}"), ["b", "d"])
    await failed(kit.files.delete_files([f"{at}/d"]))
    equal(await kit.output(f"ls {at}"), ["b", "d"])


@item
async def set_permissions(kit):
    at = await folder(kit, "permissions")
    await kit.files.write_file(f"{at}/f", "x")
    await kit.files.set_permissions([
        SetPermissionEntry(path=f"{at}/f", mode=640, owner="nobody", group="nogroup"),
        SetPermissionEntry(path=at, mode=644)])
    entry = await info(kit, f"{at}/f")
    equal((entry.mode, entry.owner, entry.group), (640, "nobody", "nogroup"))
    equal((await info(kit, at)).mode, 644)
    await kit.files.set_permissions([SetPermissionEntry(path=f"{at}/f", mode=600)])
    entry = await info(kit, f"{at}/f")
    equal((entry.mode, entry.owner, entry.group), (600, "nobody", "nogroup"))
    await refused(kit.files.set_permissions([SetPermissionEntry(path=f"{at}/absent")]), 404, "FILE_NOT_FOUND")
    for options in ({"owner": "no-such-user"}, {"group": "no-such-group"}, {"mode": 689}):
        await failed(kit.files.set_permissions([SetPermissionEntry(path=f"{at}/f", **options)]))
    await kit.files.set_permissions([SetPermissionEntry(path=at, mode=755)])


def replacing(path, old, new):
    return ContentReplaceEntry(path=path, old_content=old, new_content=new)


@item
async def replace_contents(kit):
    at = await folder(kit, "replace")
    await kit.files.write_file(f"{at}/a", "tea, tea and €\n", mode=604)
    await kit.files.write_file(f"{at}/b", "coffee")
    await kit.files.replace_contents([replacing(f"{at}/a", "tea", "milk"), replacing(f"{at}/b", "tea", "x")])
    equal(await kit.files.read_file(f"{at}/a"), "milk, milk and €\n")
    equal(await kit.files.read_file(f"{at}/b"), "coffee")
    equal((await info(kit, f"{at}/a")).mode, 604)
    await kit.files.replace_contents([replacing(f"{at}/a", "milk, milk", "")])
    equal(await kit.files.read_file(f"{at}/a"), " and €\n")


@item
async def replace_contents_detailed(kit):
    at = await folder(kit, "counts")
    await kit.files.write_file(f"{at}/a", "aaaa.*aaaa")
    await kit.files.write_file(f"{at}/b", "b")
    counts = await kit.files.replace_contents_detailed([
        replacing(f"{at}/a", "aa", "b"), replacing(f"{at}/b", ".*", "x")])
    equal({c.path: c.replaced_count for c in counts}, {f"{at}/a": 4, f"{at}/b": 0})
    equal(await kit.files.read_file(f"{at}/a"), "bb.*bb")


@item
async def replace_refuses_what_is_wrong(kit):
    at = await folder(kit, "bad-replace")
    await kit.files.write_file(f"{at}/a", "a")
    for call in (kit.files.replace_contents, kit.files.replace_contents_detailed):
        await refused(call([replacing(f"{at}/absent", "a", "b")]), 404, "FILE_NOT_FOUND")
        await refused(call([replacing(f"{at}/a", "", "b")]), 400, "INVALID_REQUEST_BODY")
    equal(await kit.files.read_file(f"{at}/a"), "a")
