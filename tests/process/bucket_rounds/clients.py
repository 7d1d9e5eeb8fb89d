"""Publishers with ids, a consumer with confirmed acknowledgements, writers of keys by compare-and-set.

Each goes on until it is told to stop, and notes what it was promised. What it waits for is in `doing`, for
whoever asks why nothing goes on.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

from harness.linearizable import NEVER, Read, Write
from process.bucket_rounds.connection import FAILURES, Connection

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from random import Random

    from nats.aio.msg import Msg
    from nats.js.kv import KeyValue

    from process.bucket_rounds.promises import Promises

T = TypeVar("T")

STREAM: Final = "S"
CONSUMER: Final = "C"
BUCKET: Final = "b"
ID: Final = "Nats-Msg-Id"
_ANSWER_S: Final = 0.5
"""Seconds for which an answer is waited for before it is asked again."""
_SLOW_ANSWER_S: Final = 2.0
_BEYOND_S: Final = 5.0
"""Seconds after which an operation is given up whose own limit did not work."""
_BATCH: Final = 50


def content(identity: str) -> bytes:
    """Return what a message with an id has in it: some 10 to 3,000 bytes."""
    return identity.encode() * (1 + 7 * (len(identity) + int(identity.rpartition("-")[2])) % 300)


class LoadClient:
    """A client that goes on with what it does until `is_over`.

    `stays_at`: the number of a server that it does not leave by itself; None: it goes where it is answered.
    """

    def __init__(
        self,
        name: str,
        urls: Sequence[str],
        promises: Promises,
        chance: Random,
        *,
        stays_at: int | None = None,
    ) -> None:
        self.name: Final = name
        self.is_over = False
        self.doing = "nothing yet"
        self.since = time.monotonic()
        self.failures = 0
        self.last_failure = "none"
        self.worked_at = 0.0
        """When something was asked for that was answered, the last time."""
        first = chance.randrange(len(urls)) if stays_at is None else stays_at
        self._connection: Final = Connection(urls, first, stays=stays_at is not None)
        self._promises: Final = promises
        self._chance: Final = chance

    async def run(self) -> None:
        """Do it until it is over. Raises: PromiseBroken."""
        try:
            while not self.is_over:
                await self._turn()
                await asyncio.sleep(self._chance.uniform(0.01, 0.1))
        finally:
            await self._connection.close()

    async def _turn(self) -> None:
        raise NotImplementedError

    async def _ask(self, doing: str, asked: Coroutine[Any, Any, T], patience: int) -> T:
        """Return an answer. `patience`: failures in a row after which another server is tried.

        Raises: FAILURES; what a server answers is one, too.
        """
        self.doing, self.since = f"{doing} at server {self._connection.server}", time.monotonic()
        try:
            found = await asyncio.wait_for(asked, _BEYOND_S)
        except (KeyNotFoundError, KeyWrongLastSequenceError):
            self._worked(self.since)
            raise
        except FAILURES as error:
            self.failures += 1
            self.last_failure = f"{doing}: {type(error).__name__} {error}"
            await self._connection.failed(patience)
            raise
        self._worked(self.since)
        return found

    def _worked(self, since: float) -> None:
        self._connection.worked()
        self.worked_at = since

    def __str__(self) -> str:
        waits = time.monotonic() - self.since
        failures = f"{self.failures} failures, last: {self.last_failure}"
        return f"{self.name}: {self.doing}, since {waits:.1f} s; {failures}"


class Publisher(LoadClient):
    """Publishes messages, one after the other, each until it was acknowledged."""

    published = 0

    async def _turn(self) -> None:
        identity = f"{self.name}-{self.published}"
        self.published += 1
        while True:
            invoked = time.monotonic()
            try:
                ack = await self._ask(f"publishing {identity}", self._publish(identity), 4)
            except FAILURES:
                await asyncio.sleep(self._chance.uniform(0.0, 0.1))
            else:
                self._promises.acknowledge(identity, ack.seq, invoked, is_duplicate=bool(ack.duplicate))
                return

    async def _publish(self, identity: str) -> Any:
        js = (await self._connection.client()).jetstream(timeout=_ANSWER_S)
        subject = f"s.{self._chance.randrange(5)}"
        return await js.publish(subject, content(identity), headers={ID: identity}, timeout=_ANSWER_S)


class Consumer(LoadClient):
    """Fetches messages and acknowledges each.

    Each fetch has an inbox of its own, so what arrives there was asked for after the confirmations of all
    earlier acknowledgements.
    """

    async def _turn(self) -> None:
        asked = time.monotonic()
        try:
            messages = await self._ask("fetching", self._fetch(), 3)
        except FAILURES:
            return
        for message in messages:
            assert message.headers is not None
            assert message.data == content(message.headers[ID])
            sequence = message.metadata.sequence.stream
            self._promises.deliver(sequence, message.headers[ID], asked=asked)
        try:
            await self._ask("acknowledging", self._acknowledge(messages), 3)
        except FAILURES:
            return

    async def _fetch(self) -> list[Msg]:
        js = (await self._connection.client()).jetstream(timeout=_SLOW_ANSWER_S)
        subscription = await js.pull_subscribe_bind(CONSUMER, STREAM)
        try:
            return await subscription.fetch(_BATCH, timeout=1.0)
        finally:
            await subscription.unsubscribe()

    async def _acknowledge(self, messages: list[Msg]) -> None:
        """Acknowledge all at once. Raises: FAILURES if one is not confirmed."""
        confirmations = await asyncio.gather(
            *(message.ack_sync(timeout=_SLOW_ANSWER_S) for message in messages), return_exceptions=True
        )
        for message, confirmation in zip(messages, confirmations, strict=True):
            if not isinstance(confirmation, BaseException):
                self._promises.confirm(message.metadata.sequence.stream)
        for confirmation in confirmations:
            if isinstance(confirmation, BaseException):
                raise confirmation


class KeyWriter(LoadClient):
    """Reads keys, makes them, and changes them if nobody else did meanwhile. `keys`: those of now."""

    keys: Sequence[str] = ()
    written = 0

    async def _turn(self) -> None:
        key = self._chance.choice(self.keys)
        try:
            revision, value = await self._read(key)
            if self._chance.random() < 0.7:
                await self._change(key, revision, value)
        except FAILURES:
            return

    async def _bucket(self) -> KeyValue:
        js = (await self._connection.client()).jetstream(timeout=_SLOW_ANSWER_S)
        return await js.key_value(BUCKET)

    async def _read(self, key: str) -> tuple[int, str | None]:
        invoked = time.monotonic()
        try:
            entry = await self._ask(f"reading {key}", self._get(key), 2)
        except KeyNotFoundError:
            self._promises.did(key, invoked, time.monotonic(), Read(None))
            return 0, None
        assert entry.value is not None
        assert entry.revision is not None
        value = entry.value.decode()
        self._promises.revision(key, entry.revision, value)
        self._promises.did(key, invoked, time.monotonic(), Read(value))
        return entry.revision, value

    async def _get(self, key: str) -> KeyValue.Entry:
        return await (await self._bucket()).get(key)

    async def _change(self, key: str, revision: int, expected: str | None) -> None:
        self.written += 1
        value = f"{self.name}-{self.written}"
        invoked = time.monotonic()
        try:
            changed = await self._ask(f"changing {key}", self._put(key, value, revision), 2)
        except KeyWrongLastSequenceError:
            self._promises.did(key, invoked, time.monotonic(), Write(value, expected, False))
        except FAILURES:
            self._promises.did(key, invoked, NEVER, Write(value, expected, None))
            raise
        else:
            self._promises.revision(key, changed, value)
            self._promises.did(key, invoked, time.monotonic(), Write(value, expected, True))

    async def _put(self, key: str, value: str, revision: int) -> int:
        bucket = await self._bucket()
        if revision:
            return await bucket.update(key, value.encode(), last=revision)
        return await bucket.create(key, value.encode())
