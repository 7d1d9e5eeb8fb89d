"""Publishes the feed into a stream with nats-py, the independent client, in a process of its own.

A separate process so that it shares neither interpreter nor memory with the server or with Spark: what
arrives has really crossed the wire. Row i of the feed becomes message i of the stream, also when the server
is killed on the way: what was on its way then may be stored or not, so every row that is not acknowledged is
sent again in order, and the stream drops what it has by the row's id (`Nats-Msg-Id`).

Talks to its parent in JSON lines: it says `{"ready": n}`, waits for one line, says `{"published": n}` (rows
acknowledged, without a gap) now and then, `{"recovered": n}` (messages that the stream has) after an outage,
and `{"done": n, "repeated": n}` at the end. Server URL and credentials come in the environment (NATS_URL),
where no process list shows them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import nats
from nats.js import errors as jetstream_errors
from nats.js.api import Header

from headrace.client.errors import ConnectError, ConnectionLostError
from headrace.client.options import resolve_addresses
from headrace.demo.feed import load_flights, messages
from headrace.demo.stream import STREAM, SUBJECTS, look_unused
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from nats.aio.client import Client
    from nats.js import JetStreamContext
    from nats.js.api import PubAck

WINDOW: Final = 2048
"""The most messages on their way; fewer for a short feed, so that a kill in the middle finds it in the
middle.
"""

RECONNECT_LIMIT: Final = 30.0
"""Seconds without an acknowledgement after which a server that is away is given up: less than the stream's
duplicate window, after which it would not know the ids any more.
"""

CONNECTION_NAME: Final = "headrace-demo-publisher"

_AWAY: Final = (
    ConnectError,
    ConnectionLostError,
    nats.errors.ConnectionClosedError,
    nats.errors.TimeoutError,
    nats.errors.NoRespondersError,
    jetstream_errors.ServiceUnavailableError,
    jetstream_errors.TooManyStalledMsgsError,
)
"""Exceptions of an outage, after which the next attempt may succeed."""

_RETRY_AFTER: Final = 0.05
_PARTS: Final = 16


class PublishError(HeadraceError):
    """The feed cannot be published as it should; the text says why."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="headrace.demo.publisher")
    parser.add_argument("--limit", type=int)
    options = parser.parse_args(arguments)
    try:
        publication = FeedPublication(os.environ["NATS_URL"])
        asyncio.run(publication.prepare())
        feed = messages(load_flights(options.limit))
        say(ready=len(feed))
        sys.stdin.readline()
        asyncio.run(publication.run(feed))
    except (HeadraceError, OSError, nats.errors.Error) as error:
        say(error=f"{type(error).__name__}: {error}")
        return 1
    say(done=len(feed), repeated=publication.repeated)
    return 0


class FeedPublication:
    """A feed on its way into a stream that begins empty; used once.

    `published(count)` hears how many rows are acknowledged, `recovered(count)` how many messages the stream
    has after an outage; `patience` is in seconds. `repeated` is how many rows the stream had already when
    they were sent again.
    """

    def __init__(
        self,
        url: str,
        *,
        published: Callable[[int], object] = lambda count: say(published=count),
        recovered: Callable[[int], object] = lambda count: say(recovered=count),
        patience: float = RECONNECT_LIMIT,
    ) -> None:
        self._url = url
        self._feed: Sequence[tuple[str, bytes]] = ()
        self._published = published
        self._recovered = recovered
        self._patience = patience
        self._window = self._report_every = 1
        self._acknowledged = 0
        self._moved = time.monotonic()
        self._settled: asyncio.Future[None] | None = None
        self.repeated = 0

    async def prepare(self) -> None:
        """Make the stream.

        Raises: StreamError if it has been used before or there is no JetStream; ClientError;
        `nats.errors.Error` with the server's text if it cannot be made.
        """
        await asyncio.to_thread(look_unused, self._url)
        async with self._connected() as connection:
            await connection.jetstream().add_stream(name=STREAM, subjects=[SUBJECTS])

    async def run(self, feed: Sequence[tuple[str, bytes]]) -> None:
        """Publish the feed, subjects and payloads, to its end, riding out outages.

        Raises: PublishError; `nats.errors.Error` with the server's text; an outage's error, when the
        patience is over.
        """
        self._feed = feed
        self._window = max(1, min(WINDOW, len(feed) // _PARTS))
        self._report_every = max(1, self._window // 4)
        self._moved = time.monotonic()
        is_again = False
        while True:
            try:
                return await self._publish(is_again=is_again)
            except _AWAY as error:
                print(f"publisher: {type(error).__name__}: {error}", file=sys.stderr)
                if time.monotonic() - self._moved > self._patience:
                    raise
                is_again = True
                await asyncio.sleep(_RETRY_AFTER)

    async def _publish(self, *, is_again: bool) -> None:
        """Publish from the first unacknowledged row on. Raises: as `run`, also for an outage."""
        async with self._connected() as connection:
            streams = connection.jetstream(publish_async_max_pending=self._window)
            if is_again:
                await self._check_recovered(streams)
            self._settled = asyncio.get_running_loop().create_future()
            sending = asyncio.ensure_future(self._send(streams, self._settled))
            closed = asyncio.ensure_future(_until_closed(connection))
            try:
                await asyncio.wait({sending, closed}, return_when=asyncio.FIRST_COMPLETED)
                if not sending.done():
                    raise ConnectionLostError("the server closed the connection")
                await sending
            finally:
                sending.cancel()
                closed.cancel()

    async def _send(self, streams: JetStreamContext, settled: asyncio.Future[None]) -> None:
        for row in range(self._acknowledged, len(self._feed)):
            if settled.done():  # with an error
                break
            subject, payload = self._feed[row]
            acknowledgement = await streams.publish_async(
                subject, payload, headers={Header.MSG_ID: f"flight-{row + 1}"}
            )
            acknowledgement.add_done_callback(partial(self._on_ack, row))
        await settled

    def _on_ack(self, row: int, acknowledgement: asyncio.Future[PubAck]) -> None:
        """Count a row; acknowledgements come in the order of publishing."""
        if self._settled is None or self._settled.done() or acknowledgement.cancelled():
            return
        error = acknowledgement.exception()
        if error is None and (stored := acknowledgement.result()).seq != row + 1:
            error = PublishError(
                f"row {row + 1} is message {stored.seq} of stream {stored.stream}: "
                f"somebody else publishes on {SUBJECTS}"
            )
        if error is not None:
            self._settled.set_exception(error)
            return
        self.repeated += bool(stored.duplicate)
        self._acknowledged = max(self._acknowledged, row + 1)
        self._moved = time.monotonic()
        if self._acknowledged % self._report_every == 0:
            self._published(self._acknowledged)
        if self._acknowledged == len(self._feed):
            self._settled.set_result(None)

    async def _check_recovered(self, streams: JetStreamContext) -> None:
        """Ask what the stream has after an outage. Raises: PublishError if acknowledged rows are gone."""
        last = (await streams.stream_info(STREAM)).state.last_seq
        if last < self._acknowledged:
            raise PublishError(
                f"{self._acknowledged} rows are acknowledged, and stream {STREAM} ends at sequence {last} "
                "after the outage"
            )
        self._recovered(last)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        """A connection that ends with the server's. Raises: ConnectError."""
        try:
            # It must not reconnect by itself: nats-py would send what it had not written before the rows
            # that were lost on their way.
            connection = await nats.connect(
                self._url,
                name=CONNECTION_NAME,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                error_cb=_note,
            )
        except (nats.errors.Error, OSError) as error:
            address = ", ".join(map(str, resolve_addresses(self._url)))  # without credentials
            raise ConnectError(f"cannot connect to {address}: {error}") from error
        try:
            yield connection
        finally:
            await connection.close()


async def _until_closed(connection: Client) -> None:
    """Return once nats-py has given the connection up.

    Its `closed_cb` does not tell: it is not called where writing what is left fails with the connection.
    """
    while not connection.is_closed:  # noqa: ASYNC110 (nats-py has no event that is always set)
        await asyncio.sleep(_RETRY_AFTER)


async def _note(error: Exception) -> None:
    print(f"nats-py: {error!r}", file=sys.stderr)


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
