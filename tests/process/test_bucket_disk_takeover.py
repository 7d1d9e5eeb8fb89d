"""Two servers with `commit: disk`: the owner is killed while the bucket lacks what it acknowledged, and the
other one goes on with what the bucket has. The killed one comes back, and sets the rest aside.
"""

from __future__ import annotations

import asyncio
import re
import signal
from typing import TYPE_CHECKING

import pytest

from harness.bucket_servers import AwayBucket
from harness.waiting import PATIENCE, wait_until
from process.test_bucket_servers import CONFIG, Three, client_of, publish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nats.js import JetStreamContext

pytestmark = pytest.mark.clients
LOST = re.compile(
    r"\[ERR\].* another server took it over \(epoch (\d+)\) .* at most (\d+) bytes in (\d+) commits"
)


class Two(Three):
    """Two servers that acknowledge on their own disks."""

    count = 2
    config = CONFIG.replace(
        'bucket: "file://{folder}/bucket"',
        'bucket {{ url: "file://{folder}/bucket", commit: disk, max_lag: 60s }}',
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.bucket = AwayBucket(folder / "bucket")

    def await_bucket(self, owner: int) -> None:
        """Wait until the bucket has everything that the owner acknowledged."""
        wait_until(lambda: self.status(owner)["lag_bytes"] == 0, "the bucket follows")


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path)
    try:
        yield made
    finally:
        made.close()


async def texts(js: JetStreamContext) -> list[bytes]:
    """Return all messages, which nobody has removed: their sequences are 1, 2, ..."""
    last = (await js.stream_info("S")).state.last_seq
    return [(await js.get_msg("S", sequence)).data or b"" for sequence in range(1, last + 1)]


def test_what_a_killed_owner_alone_had_is_set_aside_and_the_rest_goes_on(two: Two) -> None:
    async def use() -> None:
        first = two.owner()
        other = 1 - first
        client = await client_of(two, other)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], num_replicas=2)
        assert [await publish(js, number) for number in range(20)] == list(range(1, 21))
        two.await_bucket(first)
        two.bucket.take_away()
        assert [await publish(js, number) for number in range(1000, 1030)] == list(range(21, 51))
        assert two.status(first)["lag_bytes"] > 0

        two.servers[first].signal(signal.SIGKILL)
        two.bucket.bring_back()
        assert await publish(js, 20) == 21, "the sequences behind what the bucket had are free"
        assert two.owner(but=first) == other
        assert [await publish(js, number) for number in range(21, 40)] == list(range(22, 41))

        two.start_again(first, keeps_disk=True)
        server = two.servers[first]
        epoch, size, commits = map(int, server.wait_for_line(LOST).groups())
        assert (epoch, commits) == (two.status(other)["epoch"], 30)
        (aside,) = (two.disk(first) / "jetstream" / ".bucket").glob("backlog.lost-*")
        assert aside.name == f"backlog.lost-{epoch}"
        kept = b"".join(path.read_bytes() for path in aside.iterdir())
        assert size <= len(kept)
        assert all(b"%d" % number in kept for number in range(1000, 1030))
        wait_until(lambda: two.role(first) == "standby", "it stands by")

        back = await client_of(two, first)
        expected = [b"%d" % number for number in range(40)]
        assert await texts(back.jetstream()) == await texts(js) == expected
        assert await publish(back.jetstream(), 40) == 41
        two.await_bucket(other)
        await client.close()
        two.servers[other].signal(signal.SIGKILL)
        assert await publish(back.jetstream(), 41) == 42, (
            "the first one goes on, with nothing of what was lost"
        )
        assert await texts(back.jetstream()) == [*expected, b"40", b"41"]
        assert sum(LOST.search(line) is not None for line in server.lines) == 1
        await back.close()

    asyncio.run(asyncio.wait_for(use(), 3 * PATIENCE))
