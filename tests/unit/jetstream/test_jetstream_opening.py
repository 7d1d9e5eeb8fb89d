"""JetStream of a server from its options: what streams in files may have."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from headrace.conf.bucket_options import BucketOptions
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.jetstream.opening import JetStreamServer, friendly_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FREE = 1 << 40
CACHE = BucketOptions("file:///bucket", cache_bytes=1 << 30)
COPY = BucketOptions("file:///bucket")
"""A bucket all of which the local disk has, too."""


def statvfs(free: int) -> Callable[[object], os.statvfs_result]:
    block = 4096
    return lambda _path: os.statvfs_result((block, block, free, free, free // block, 0, 0, 0, 0, 255))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (JetStreamOptions(), (FREE // 4 * 3, friendly_bytes(FREE // 4 * 3))),
        (JetStreamOptions(max_storage=0), (0, "0 B")),
        (JetStreamOptions(bucket=COPY), (FREE // 4 * 3, friendly_bytes(FREE // 4 * 3))),
        (JetStreamOptions(bucket=COPY, max_storage=0), (0, "no limit")),
        (JetStreamOptions(bucket=CACHE), (0, "no limit")),
        (JetStreamOptions(bucket=CACHE, max_storage=5000), (5000, friendly_bytes(5000))),
    ],
)
def test_local_disk_bounds_the_streams_that_it_has_to_hold(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    options: JetStreamOptions,
    expected: tuple[int, str],
) -> None:
    most, said = expected
    monkeypatch.setattr(os, "statvfs", statvfs(FREE))

    async def open_it() -> None:
        loop, log = asyncio.get_running_loop(), logging.getLogger("test.jetstream.opening")
        server = JetStreamServer(replace(options, store_dir=str(tmp_path)), loop=loop, log=log)
        assert server.max_storage == most
        with caplog.at_level(logging.INFO):
            server.open("S", "ID")
        assert server.system is not None
        assert server.system.settings.max_storage == most
        server.close()

    asyncio.run(open_it())
    assert f"  Max Storage:     {said}" in caplog.messages
