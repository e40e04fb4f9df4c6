"""Volumes as the published Python SDK asks for them."""
from datetime import timedelta

from opensandbox import Sandbox
from opensandbox.models.sandboxes import PVC, Host, Volume
from opensandbox.sync.sandbox import SandboxSync
from surface import Kit, Service, equal, item, refused


def volume(**fields):
    return Volume(name="v", mount_path="/v", **fields)


async def create(kit, *volumes):
    api = Service(SandboxSync if kit.is_sync else Sandbox, kit.is_sync)
    return await api.create("host", timeout=timedelta(minutes=10), volumes=list(volumes),
                            connection_config=kit.box.connection_config)


@item
async def volumes_are_shared(kit):
    claim = PVC(claim_name="conformance", storage="16Mi", access_modes=["ReadWriteOnce"],
                delete_on_sandbox_termination=True)
    one = Kit(await create(kit, volume(pvc=claim)), kit.is_sync)
    await one.output("mkdir /v/sub; echo one > /v/sub/file")
    two = Kit(await create(kit, volume(pvc=claim, sub_path="sub", read_only=True)), kit.is_sync)
    equal(await two.output("cat /v/file; touch /v/x 2>/dev/null || echo no"), ["one", "no"])
    for box in (one, two):
        await box.whole.kill()
        await box.whole.close()


@item
async def volumes_that_cannot_be_had(kit):
    await refused(create(kit, volume(host=Host(path="/etc"))), 400, "VOLUME::HOST_PATH_NOT_ALLOWED")
    missing = PVC(claim_name="nobody-made-it", create_if_not_exists=False)
    await refused(create(kit, volume(pvc=missing)), 400, "VOLUME::PVC_NOT_FOUND")
