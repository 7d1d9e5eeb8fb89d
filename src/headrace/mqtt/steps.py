"""Work in several steps, between which answers are awaited: coroutines without an event loop.

A coroutine that awaits nothing but `Awaited`s is begun with `begin`; it goes on, on the caller's stack, when
the answer comes. So the code reads in order, tests need no loop, and nothing runs but in a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

_T = TypeVar("_T")


class Awaited(Generic[_T]):
    """A value, or an error, that comes later, once; several may await it."""

    __slots__ = ("_error", "_is_done", "_value", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []
        self._is_done = False
        self._value: _T | None = None
        self._error: Exception | None = None

    @property
    def is_done(self) -> bool:
        """True if the value or the error is there."""
        return self._is_done

    def give(self, value: _T) -> None:
        """Set the value; whoever awaits it goes on now. Later calls do nothing."""
        self._end(value, None)

    def fail(self, error: Exception) -> None:
        """Set the error, which is raised in whoever awaits. Later calls do nothing."""
        self._end(None, error)

    def when_done(self, function: Callable[[], None]) -> None:
        """Call `function` when the value or the error is there, at once if it is."""
        if self._is_done:
            function()
        else:
            self._waiting.append(function)

    def result(self) -> _T:
        """Return the value that is there, or raise the error."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # None only where None is the value

    def __await__(self) -> Generator[Awaited[_T], None, _T]:
        if not self._is_done:
            yield self
        return self.result()

    def _end(self, value: _T | None, error: Exception | None) -> None:
        if self._is_done:
            return
        self._is_done = True
        self._value, self._error = value, error
        waiting, self._waiting = self._waiting, []
        for function in waiting:
            function()


def begin(steps: Coroutine[Awaited[Any], None, _T]) -> Awaited[_T]:
    """Run the steps up to the first answer that is not there yet; return the answer that they end with."""
    outcome: Awaited[_T] = Awaited()

    def go_on() -> None:
        while True:
            try:
                awaited = steps.send(None)
            except StopIteration as end:
                outcome.give(end.value)
                return
            except Exception as error:  # noqa: BLE001 - raised in whoever awaits the outcome, or watches it
                outcome.fail(error)
                return
            if not awaited.is_done:
                awaited.when_done(go_on)
                return

    go_on()
    return outcome


def watch(outcome: Awaited[Any], failed: Callable[[Exception], None]) -> None:
    """Tell `failed` of the error of steps that nobody awaits."""

    def look() -> None:
        try:
            outcome.result()
        except Exception as error:  # noqa: BLE001 - whatever it is: it is told
            failed(error)

    outcome.when_done(look)


class InOrder:
    """Steps that are done one after another, in the order in which they were given."""

    __slots__ = ("_failed", "_idle", "_is_busy", "_waiting")

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        # Few ever wait: the connection is not read meanwhile. A deque would be a tenth of an idle client.
        self._waiting: list[Callable[[], Coroutine[Awaited[Any], None, Any]]] = []
        self._is_busy = False
        self._idle: Awaited[None] | None = None

    @property
    def is_busy(self) -> bool:
        """True if steps are under way."""
        return self._is_busy

    def add(self, steps: Callable[[], Coroutine[Awaited[Any], None, Any]]) -> None:
        """Begin these steps when those before have ended, at once if there are none."""
        self._waiting.append(steps)
        self._next()

    def clear(self) -> None:
        """Forget the steps that have not begun."""
        self._waiting.clear()

    async def idle(self) -> None:
        """Return when all steps have ended."""
        while self._is_busy:
            if self._idle is None:
                self._idle = Awaited()
            await self._idle

    def _next(self) -> None:
        if self._is_busy or not self._waiting:
            return
        self._is_busy = True
        outcome = begin(self._waiting.pop(0)())
        watch(outcome, self._failed)
        outcome.when_done(self._ended)

    def _ended(self) -> None:
        self._is_busy = False
        self._next()
        if not self._is_busy and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.give(None)


class KeyedTurns:
    """The turns of steps that work on one thing each, by its key: one at a time for each key."""

    def __init__(self) -> None:
        self._last: dict[str, Awaited[None]] = {}

    def of(self, key: str) -> _Turn:
        """Return a turn, to be used with `async with`: it begins when the turns before have ended."""
        return _Turn(self._last, key)


class _Turn:
    def __init__(self, last: dict[str, Awaited[None]], key: str) -> None:
        self._last, self._key = last, key
        self._over: Awaited[None] = Awaited()

    async def __aenter__(self) -> None:
        before = self._last.get(self._key)
        self._last[self._key] = self._over
        if before is not None:
            await before

    async def __aexit__(self, *_: object) -> None:
        if self._last.get(self._key) is self._over:
            del self._last[self._key]
        self._over.give(None)
