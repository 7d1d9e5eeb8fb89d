"""Publishes the feed with nats-py, the independent client, in a process of its own.

A separate process so that it shares neither interpreter nor memory with the server or with Spark: what
arrives has really crossed the wire. Talks to its parent in JSON lines: it says `{"ready": n}`, waits for
one line, says `{"published": n}` now and then, and `{"done": n}` after the server has confirmed the last.
Server URL and credentials come in the environment (NATS_URL), where no process list shows them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Final

import nats

from headrace.demo.feed import load_flights, messages
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

REPORT_EVERY: Final = 2_000


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="headrace.demo.publisher")
    parser.add_argument("--limit", type=int)
    options = parser.parse_args(arguments)
    try:
        asyncio.run(publish(os.environ["NATS_URL"], options.limit))
    except (HeadraceError, OSError, nats.errors.Error) as error:
        say(error=f"{type(error).__name__}: {error}")
        return 1
    return 0


async def publish(url: str, limit: int | None) -> None:
    """Publish the feed, in order, as fast as the client can. Raises: FeedError, nats.errors.Error."""

    last: list[Exception] = []

    async def note(error: Exception) -> None:
        last[:] = [error]
        print(f"nats-py: {error!r}", file=sys.stderr)

    try:
        client = await nats.connect(
            url,
            name="headrace-demo-publisher",
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            error_cb=note,
        )
    except nats.errors.NoServersError as error:
        raise last[0] if last else error from None
    feed = await asyncio.to_thread(lambda: messages(load_flights(limit)))
    say(ready=len(feed))
    await asyncio.to_thread(sys.stdin.readline)
    for number, (subject, payload) in enumerate(feed, 1):
        await client.publish(subject, payload)
        if number % REPORT_EVERY == 0:
            await client.flush()
            say(published=number)
    await client.flush()
    await client.close()
    say(done=len(feed))


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
