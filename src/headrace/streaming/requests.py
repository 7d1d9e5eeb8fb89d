"""Questions the service asks over NATS: is anybody there? One wildcard inbox receives all answers.

Who is asked and what silence means is the caller's.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

from headrace.streaming.naming import new_inbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery, Timer
    from headrace.streaming.context import Context

    Answered = Callable[[bool], None]


class Requests:
    """The requests of a service to others, each with the time to wait for an answer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._prefix = new_inbox() + b"."
        self._numbers = itertools.count(1)
        self._open: dict[bytes, tuple[Timer, Answered]] = {}

    @property
    def subject(self) -> bytes:
        """Return the subject that the service subscribes to for the answers."""
        return self._prefix + b"*"

    def ask(self, subject: bytes, timeout: float, done: Answered, payload: bytes = b"") -> bytes:
        """Send a request; `done(True)` on the first answer, `done(False)` after `timeout` s without one.

        Where nobody listens it is `done(False)` at once: whoever went without a word is not waited for.
        """
        inbox = self._prefix + str(next(self._numbers)).encode()
        is_heard = self._context.host.backlog(subject) is not None
        timer = self._context.later(timeout if is_heard else 0, partial(self._timed_out, inbox))
        self._open[inbox] = timer, done
        if is_heard:
            self._context.host.publish(subject, payload, reply=inbox)
        return inbox

    def owns(self, inbox: bytes) -> bool:
        return inbox.startswith(self._prefix)

    def answered(self, delivery: Delivery) -> None:
        waiting = self._open.pop(delivery.subject, None)
        if waiting is not None:
            waiting[0].cancel()
            waiting[1](True)

    def _timed_out(self, inbox: bytes) -> None:
        waiting = self._open.pop(inbox, None)
        if waiting is not None:
            waiting[1](False)
