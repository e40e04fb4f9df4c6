"""Health and metrics as the published Python SDK asks for them."""
import time
from datetime import timedelta

from surface import equal, item


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
