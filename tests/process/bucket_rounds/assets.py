"""The stream, the consumer and the bucket of keys of a run: how they are made, and read back as a whole.

Never here: what must be there (`promises`).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import nats
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig
from nats.js.errors import KeyNotFoundError

from harness.waiting import PATIENCE
from process.bucket_rounds.clients import BUCKET, CONSUMER, ID, STREAM, content
from process.bucket_rounds.connection import FAILURES
from process.bucket_rounds.promises import PromiseBroken, Promises

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from nats.js import JetStreamContext

_ACK_WAIT_S: Final = 5
_ANSWER_S: Final = PATIENCE / 6
"""Seconds within which a request is answered; else it is made again."""
_HISTORY: Final = 64
_PAGE: Final = 500
_KEY_PREFIX: Final = f"$KV.{BUCKET}."


class Assets:
    """What clients use, at servers with these URLs."""

    def __init__(self, urls: Sequence[str], promises: Promises) -> None:
        self._urls: Final = list(urls)
        self._promises: Final = promises

    async def make(self) -> None:
        """Make everything. Raises: FAILURES where no server does within `PATIENCE`."""
        await self._until_answered(self._make)

    async def look(self, where: str) -> None:
        """Read everything back, and compare it with what was promised. `where`: the place that is read from.

        Raises: PromiseBroken; FAILURES where no server answers within `PATIENCE`.
        """
        await self._until_answered(lambda js: self._look(js, where))

    async def _until_answered(self, ask: Callable[[JetStreamContext], Awaitable[None]]) -> None:
        """Ask again while servers have not heard of an owner yet, or say nothing.

        An owner that the bucket did not answer for three seconds, on a busy machine, may say nothing.
        """
        end = time.monotonic() + PATIENCE
        while True:
            try:
                async with await asyncio.wait_for(nats.connect(self._urls), PATIENCE) as client:
                    return await ask(client.jetstream(timeout=_ANSWER_S))
            except FAILURES:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.1)

    @staticmethod
    async def _make(js: JetStreamContext) -> None:
        await js.add_stream(StreamConfig(name=STREAM, subjects=["s.>"], num_replicas=3))
        config = ConsumerConfig(
            durable_name=CONSUMER,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=_ACK_WAIT_S,
            max_ack_pending=5000,
        )
        await js.add_consumer(STREAM, config)
        await js.create_key_value(bucket=BUCKET, history=_HISTORY, replicas=3, direct=True)

    async def _look(self, js: JetStreamContext, where: str) -> None:
        held = await self._read(js, STREAM)
        for sequence, (identity, _, body) in held.items():
            if body != content(identity):
                raise PromiseBroken(f"{where}: message {sequence} ({identity}) has another content")
        self._promises.check_stream({sequence: each[0] for sequence, each in held.items()}, where)
        await self._look_at_consumer(js, where)
        values = await self._read(js, f"KV_{BUCKET}")
        self._promises.check_revisions(
            {at: (key.removeprefix(_KEY_PREFIX), body.decode()) for at, (_, key, body) in values.items()}
        )
        bucket = await js.key_value(BUCKET)
        for key in self._promises.keys:
            try:
                value = (await bucket.get(key)).value
            except KeyNotFoundError:
                value = None
            self._promises.read_at_last(key, None if value is None else value.decode())

    async def _look_at_consumer(self, js: JetStreamContext, where: str) -> None:
        """Raises: PromiseBroken where a consumer that has acknowledged everything is given something."""
        subscription = await js.pull_subscribe_bind(CONSUMER, STREAM)
        try:
            messages = await subscription.fetch(_PAGE, timeout=0.5)
        except TimeoutError:  # there is none
            return
        again = self._promises.confirmed.intersection(each.metadata.sequence.stream for each in messages)
        if again:
            raise PromiseBroken(f"{where}: {sorted(again)} were acknowledged, and are delivered again")

    @staticmethod
    async def _read(js: JetStreamContext, stream: str) -> dict[int, tuple[str, str, bytes]]:
        """Return the id, the subject and the content of each message of a stream, by its sequence."""
        state = (await js.stream_info(stream)).state
        config = ConsumerConfig(ack_policy=AckPolicy.NONE)
        subscription = await js.pull_subscribe(">", stream=stream, config=config)
        held: dict[int, tuple[str, str, bytes]] = {}
        while len(held) < state.messages:
            for message in await subscription.fetch(_PAGE, timeout=PATIENCE):
                identity = (message.headers or {}).get(ID, "")
                held[message.metadata.sequence.stream] = (identity, message.subject, message.data)
        await subscription.unsubscribe()
        return held
