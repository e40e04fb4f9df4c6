"""Drives the published Python SDK, its sync or its async client as OSB_SDK_KIND says; prints one
`STEP name: outcome` line per thing tried. The things are in surface_*.py and, for the sandbox itself, here."""
import asyncio
import os
from datetime import timedelta

import surface_background  # noqa: F401
import surface_commands  # noqa: F401
import surface_directories  # noqa: F401
import surface_files  # noqa: F401
import surface_sessions  # noqa: F401
import surface_system  # noqa: F401
import surface_volumes  # noqa: F401
from opensandbox import Sandbox, SandboxManager
from opensandbox.config import ConnectionConfig
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.services.command import Commands
from opensandbox.services.filesystem import Filesystem
from opensandbox.sync.manager import SandboxManagerSync
from opensandbox.sync.sandbox import SandboxSync
from surface import ITEMS, Kit, Service, equal, item, refused, run_items

IS_SYNC = os.environ["OSB_SDK_KIND"] == "sync"
CONFIG = (ConnectionConfigSync if IS_SYNC else ConnectionConfig)(
    domain=os.environ["OSB_DOMAIN"], api_key=os.environ["OSB_KEY"])
KIT = None


async def create(_):
    global KIT
    api = Service(SandboxSync if IS_SYNC else Sandbox, IS_SYNC)
    box = await api.create("host", timeout=timedelta(minutes=10), metadata={"suite": "conformance"},
                           env={"COLOUR": "teal", "EXECD_ENVS": "/tmp/execd/envs"}, connection_config=CONFIG)
    KIT = Kit(box, IS_SYNC)
    info = await KIT.whole.get_info()
    equal((info.status.state, info.image.image, info.metadata), ("Running", "host", {"suite": "conformance"}))
    equal(info.entrypoint, ["tail", "-f", "/dev/null"])
    assert abs((info.expires_at - info.created_at).total_seconds() - 600) < 5, info


@item
async def every_method_was_called(kit):
    for service, protocol in ((kit.commands, Commands), (kit.files, Filesystem)):
        public = {name for name in vars(protocol) if not name.startswith("_")}
        assert len(public) > 5, public
        equal(public - service.called, set())


@item
async def kill(kit):
    await kit.whole.kill()
    await kit.whole.close()
    manager_class = SandboxManagerSync if IS_SYNC else SandboxManager
    manager = await Service(manager_class, IS_SYNC).create(connection_config=CONFIG)
    await refused(Service(manager, IS_SYNC).get_sandbox_info(kit.box.id), 404)
    await Service(manager, IS_SYNC).close()


class Later:
    """The kit, which exists from the first item on."""

    def __getattr__(self, name):
        return getattr(KIT, name)


ITEMS.insert(0, create)
asyncio.run(run_items(Later()))
