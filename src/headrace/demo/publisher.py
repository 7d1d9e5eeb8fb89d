"""Publishes the feed into a channel with nats-py, the independent client, in a process of its own.

A separate process so that it shares neither interpreter nor memory with the server or with Spark: what
arrives has really crossed the wire. Row i of the feed becomes sequence i of the channel, also when the server
is killed on the way: what was on its way then may be stored or not, so the new server is asked how far the
channel has come, and publishing goes on with the next row.

Talks to its parent in JSON lines: it says `{"ready": n}`, waits for one line, says `{"published": n}` (rows
acknowledged, without a gap) now and then, `{"resumed": row}` after an outage, and `{"done": n}` at the end.
Server URL and credentials come in the environment (NATS_URL), where no process list shows them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Final

import nats

from headrace.client import stan
from headrace.client.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectError,
    ConnectionLostError,
)
from headrace.client.options import resolve_addresses
from headrace.client.stan import StanClosedError
from headrace.demo.channel import LOST, look, look_unused
from headrace.demo.feed import load_flights, messages
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WINDOW: Final = 2048
"""The most messages on their way; fewer for a short feed, so that a kill in the middle finds it in the
middle.
"""

RECONNECT_LIMIT: Final = 30.0
"""Seconds without an acknowledgement after which a server that is away is given up."""

CLIENT_ID: Final = "headrace-demo-publisher"

_RETRY_AFTER: Final = 0.05
_PARTS: Final = 16


class PublishError(HeadraceError):
    """The feed cannot be published as it should; the text says why."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="headrace.demo.publisher")
    parser.add_argument("--cluster-id", required=True)
    parser.add_argument("--channel", required=True)
    parser.add_argument("--limit", type=int)
    options = parser.parse_args(arguments)
    try:
        publication = FeedPublication(os.environ["NATS_URL"], options.cluster_id, options.channel)
        publication.check_unused()
        feed = [payload for _, payload in messages(load_flights(options.limit))]
        say(ready=len(feed))
        sys.stdin.readline()
        asyncio.run(publication.run(feed))
    except (HeadraceError, OSError, nats.errors.Error) as error:
        say(error=f"{type(error).__name__}: {error}")
        return 1
    say(done=len(feed))
    return 0


class FeedPublication:
    """A feed on its way into a channel that begins empty; used once.

    `published(count)` hears how many rows are acknowledged, `resumed(row)` which row comes next after an
    outage; `patience` is in seconds.
    """

    def __init__(
        self,
        url: str,
        cluster_id: str,
        channel: str,
        *,
        published: Callable[[int], object] = lambda count: say(published=count),
        resumed: Callable[[int], object] = lambda row: say(resumed=row),
        patience: float = RECONNECT_LIMIT,
    ) -> None:
        self._url = url
        self._address = ", ".join(map(str, resolve_addresses(url)))  # without credentials
        self._cluster_id = cluster_id
        self._channel = channel
        self._feed: Sequence[bytes] = ()
        self._published = published
        self._resumed = resumed
        self._patience = patience
        self._window = self._report_every = 1
        self._server = ""
        self._acknowledged = 0
        self._moved = time.monotonic()
        self._settled = asyncio.Event()
        self._failure: HeadraceError | None = None

    def check_unused(self) -> None:
        """Check that the channel is new.

        Raises: ChannelError if the channel has been used before; ClientError.
        """
        self._server = look_unused(self._url, self._cluster_id, self._channel).server_id

    async def run(self, feed: Sequence[bytes]) -> None:
        """Publish the feed to its end, riding out outages.

        Raises: PublishError; StanError with the server's text; what connecting raises, when the patience is
        over.
        """
        self._feed = feed
        self._window = max(1, min(WINDOW, len(feed) // _PARTS))
        self._report_every = max(1, self._window // 4)
        self._moved = time.monotonic()
        while True:
            try:
                return await self._publish()
            except (ConnectError, ConnectionLostError, ClientTimeoutError, StanClosedError) as error:
                print(f"publisher: {type(error).__name__}: {error}", file=sys.stderr)
            if await self._find_row():
                return None

    async def _publish(self) -> None:
        """Publish from the first unacknowledged row on. Raises: a kind of ClientError, also for an outage."""
        client: stan.Client | None = None

        async def closed() -> None:
            if client is not None:
                with contextlib.suppress(ClientError):  # it cannot tell a server that is not there
                    await client.close()

        try:
            # It must not reconnect by itself: nats-py would send again what it had not written, unasked.
            connection = await nats.connect(
                self._url, name=CLIENT_ID, allow_reconnect=False, max_reconnect_attempts=1, closed_cb=closed,
                error_cb=_note,
            )  # fmt: skip
        except (nats.errors.Error, OSError) as error:
            raise ConnectError(f"cannot connect to {self._address}: {error}") from error
        try:
            client = await stan.connect(
                self._cluster_id, CLIENT_ID, nats=connection, max_pub_acks_in_flight=self._window
            )
            self._settled.clear()
            self._failure = None
            for row in range(self._acknowledged, len(self._feed)):
                await client.publish_async(self._channel, self._feed[row], self._on_ack)
            await self._settled.wait()
            if self._failure is not None:
                raise self._failure
        finally:
            await connection.close()

    def _on_ack(self, _guid: str, error: HeadraceError | None) -> None:
        """Acknowledgements come in the order of publishing."""
        if error is not None:
            self._failure = self._failure or error
            self._settled.set()
            return
        self._acknowledged += 1
        self._moved = time.monotonic()
        if self._acknowledged % self._report_every == 0:
            self._published(self._acknowledged)
        if self._acknowledged == len(self._feed):
            self._settled.set()

    async def _find_row(self) -> bool:
        """Find the row to publish next after an outage; return True if there is none. Raises: as `run`."""
        while True:
            try:
                found = await asyncio.to_thread(look, self._url, self._cluster_id, self._channel)
                break
            except LOST:
                if time.monotonic() - self._moved > self._patience:
                    raise
                await asyncio.sleep(_RETRY_AFTER)
        if found.server_id == self._server:
            raise PublishError(
                "the server closed the connection and still runs: what was on its way may yet arrive, so how "
                "far the channel has come cannot be asked"
            )
        if not self._acknowledged <= found.last_sequence <= len(self._feed):
            raise PublishError(
                f"{self._acknowledged} rows are acknowledged, and channel {self._channel} ends at sequence "
                f"{found.last_sequence} after the outage"
            )
        self._server = found.server_id
        self._acknowledged = found.last_sequence
        self._moved = time.monotonic()
        self._resumed(found.last_sequence + 1)
        return found.last_sequence == len(self._feed)


async def _note(error: Exception) -> None:
    print(f"nats-py: {error!r}", file=sys.stderr)


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
