"""Health and metrics as the published Python SDK asks for them."""
import time
from datetime import timedelta

from opensandbox import Sandbox
from opensandbox.models.filesystem import WriteEntry
from opensandbox.sync.sandbox import SandboxSync
from surface import Kit, Service, equal, item


@item
async def is_healthy(kit):
    equal(await kit.whole.is_healthy(), True)
    await kit.whole.check_ready(timedelta(seconds=10), timedelta(milliseconds=50))


@item
async def get_metrics(kit):
    for _ in range(3):
        sample = await kit.whole.get_metrics()
        assert sample.cpu_count > 0 and 0 <= sample.cpu_used_percentage <= 100, sample
        assert 0 < sample.memory_used_in_mib <= sample.memory_total_in_mib, sample
        assert abs(sample.timestamp / 1000 - time.time()) < 3600, sample


@item
async def through_the_server_proxy(kit):
    """A client that is told to use the server's proxy uploads in another way, with a Content-Length."""
    config = kit.box.connection_config.model_copy(update={"use_server_proxy": True})
    api = Service(SandboxSync if kit.is_sync else Sandbox, kit.is_sync)
    other = Kit(await api.connect(kit.box.id, connection_config=config), kit.is_sync)
    data = bytes(range(256)) * 1000
    await other.files.write_files([WriteEntry(path="/tmp/proxied/ä b.bin", data=data, mode=640),
                                   WriteEntry(path="/tmp/proxied/text", data="text\n")])
    assert await kit.files.read_bytes("/tmp/proxied/ä b.bin") == data
    equal(await other.output("cat /tmp/proxied/text"), ["text"])
    await other.whole.close()
