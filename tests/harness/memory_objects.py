"""An object store in memory for event loops, whose requests take time, fail and get lost as a test says."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from harness.object_operations import ObjectOperations
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")

START_NS: Final = 1_700_000_000 * 10**9
"""What the store's clock shows when the loop's shows 0."""


class Answer(Enum):
    """The end of a request, as its caller sees it."""

    TOLD = "the store's own answer"
    FAILED = "StoreError, whatever happened in the store"
    NEVER = "none, until the caller gives up"


class Fate(NamedTuple):
    """One request's way: `before` seconds to the store, there an effect or none, `after` seconds back."""

    before: float = 0.005
    after: float = 0.005
    has_effect: bool = True
    answer: Answer = Answer.TOLD


PROMPT: Final = Fate(0.0, 0.0)
FAILS: Final = Fate(has_effect=False, answer=Answer.FAILED)
"""Nothing happens, and the caller is told."""
ANSWER_LOST: Final = Fate(answer=Answer.FAILED)
"""It happens, and the caller is told that it failed."""
HANGS: Final = Fate(has_effect=False, answer=Answer.NEVER)
HANGS_AFTERWARDS: Final = Fate(answer=Answer.NEVER)


class Request(NamedTuple):
    """A request as it was made: `create`, `put`, `get`, `get_range`, `head`, `list` or `delete`."""

    operation: str
    key: str
    at: float
    """Seconds of the loop's time."""


def _prompt(_request: Request) -> Fate:
    return PROMPT


class MemoryObjects(ObjectOperations):
    """Objects by key (`headrace.objects.port.AsyncObjectStore`); `fate` decides on each request.

    A request that has left goes its way even if its caller is cancelled, as one on a network does. Several
    stores over one `objects` are several clients of one bucket.
    """

    def __init__(
        self,
        fate: Callable[[Request], Fate] = _prompt,
        objects: dict[str, tuple[bytes, int]] | None = None,
    ) -> None:
        self.objects: Final = {} if objects is None else objects
        """The bytes and the time (ns) of each object."""
        self.fate = fate
        self.requests: Final[list[Request]] = []

    location = "memory"

    def count(self, operation: str) -> int:
        return sum(request.operation == operation for request in self.requests)

    def _objects(self) -> dict[str, tuple[bytes, int]]:
        return self.objects

    def _keep(self, key: str, content: bytes) -> None:
        self.objects[key] = content, START_NS + int(asyncio.get_running_loop().time() * 1e9)

    def _remove(self, key: str) -> None:
        self.objects.pop(key, None)

    async def _request(self, operation: str, key: str, effect: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        request = Request(operation, key, loop.time())
        self.requests.append(request)
        fate = self.fate(request)
        answer: asyncio.Future[T] = loop.create_future()

        def arrive() -> None:
            outcome: Any = None
            error: StoreError | None = None
            if fate.has_effect:
                try:
                    outcome = effect()
                except StoreError as found:
                    error = found
            if fate.answer is Answer.FAILED:
                error = StoreError(f"{operation} of {key} failed")
            if fate.answer is not Answer.NEVER:
                loop.call_later(fate.after, _settle, answer, outcome, error)

        loop.call_later(fate.before, arrive)
        return await answer


def _settle(answer: asyncio.Future[Any], outcome: object, error: StoreError | None) -> None:
    if answer.done():  # the caller has gone
        return
    if error is None:
        answer.set_result(outcome)
    else:
        answer.set_exception(error)
