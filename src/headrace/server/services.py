"""Services inside the server: what each is given, when it starts, what becomes of its failures.

A service is an in-process client (`core.service`). Its messages travel over a `ServiceLink`; here are its
timers and its clock, and the rule that a mistake of a service is a traceback in the log, not the end of
anything else. What a service does is its own business; when services start and stop is `server`'s.
"""

from __future__ import annotations

from contextvars import copy_context
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Final

from headrace.core.service import Delivery, Departing, Taking, Tracing, Turning
from headrace.core.tracing import ConnectionKind, TracedConnection
from headrace.engine.service import ServiceLink
from headrace.internal_errors import in_one_line

if TYPE_CHECKING:
    import asyncio
    import logging
    from collections.abc import Callable

    from headrace.core.account import Account
    from headrace.core.service import Clock, Service, Timer
    from headrace.core.tracing import MessageTrace
    from headrace.engine.batches import Gathered
    from headrace.engine.link import Router


PROOF_CHECK: Final = 0.02
"""Seconds between looks whether a service whose proof is too old may speak again."""

NO_RESPONDERS: Final = b"NATS/1.0 503\r\n\r\n"
"""The headers of the answer to a request for which there is no service."""


class ServiceHost:
    """One service's `core.service.Host`; also the session that its link calls.

    `subscribe`, `unsubscribe`, `open_lane`, `publish`, `announce`, `backlog`, `is_alone` and `listens` are
    the link's own: no call between. `clock`: None is the system's, and the timers of `loop`.

    `proof`: gives the time until which what the service knows is known to be so, in monotonic ns. Later
    nothing of it is told: who asks gets "no responders", as where there is no such service; its timers and
    what it has said already wait. None: it is always so.
    """

    sees_receivers: Final = True

    def __init__(
        self,
        service: Service,
        router: Router,
        account: Account,
        *,
        loop: asyncio.AbstractEventLoop,
        wake: Callable[[], None],
        log: logging.Logger,
        max_payload: int,
        maps: bool = True,
        clock: Clock | None = None,
        proof: Callable[[], int] | None = None,
    ) -> None:
        self.max_payload = max_payload
        self.service = service
        self._turning = service if isinstance(service, Turning) else None
        self._tracing = service if isinstance(service, Tracing) else None
        self._router = router
        self.account = account.name
        self.link = ServiceLink(router, self, Delivery)
        self.link.interest = account.interest
        self.link.maps = maps
        self.link.proof = proof
        self.subscribe = self.link.subscribe
        self.unsubscribe = self.link.unsubscribe
        self.open_lane = self.link.open_lane
        self.publish = self.link.publish
        self.outgoing = self.link.outgoing
        self.announce = self.link.announce
        self.backlog = self.link.backlog
        self.is_alone = self.link.is_alone
        self.listens = self.link.listens
        self.wake = wake
        self.now_ns = time_ns if clock is None else clock.now_ns
        self._log = log
        self._proof = ProofWatch(loop, proof, self._resume)
        self._timers = Timers(loop if clock is None else clock, self.failed, self._proof.holds)
        self._is_stopped = False

    @property
    def name(self) -> str:
        """The name of the service in log lines."""
        return type(self.service).__name__

    # -- Host -------------------------------------------------------------------------------------

    def when_heard(self, function: Callable[[], object]) -> None:
        function()

    def call_later(self, seconds: float, function: Callable[[], object]) -> Timer:
        """Call `function` once, not before `seconds` are over and never after the service was stopped."""
        return self._timers.call_later(seconds, function)

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the service.

        Raises: StartError, as the service does; its link and its timers are gone then.
        """
        try:
            self.service.start(self)
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Stop the service: no delivery and no timer from here on.

        What the service publishes while it stops is still sent.
        """
        self._end_timers()
        try:
            self.service.stop()
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and the server stops all the same
            self.failed(error)

    def retire(self, done: Callable[[], object]) -> None:
        """Have the service take nothing more; `done` is called when it has answered everybody.

        `stop` comes next.
        """
        if isinstance(self.service, Departing):
            self.service.retire(done)
        else:
            done()

    def abandon(self) -> None:
        """End the service at once: what has come is not served, and what it has said already is not sent.

        Only what it says meanwhile is sent. `close` comes next.
        """
        self._end_timers()
        self.link.forget()
        if isinstance(self.service, Departing):
            try:
                self.service.abandon()
            except Exception as error:  # noqa: BLE001 - whatever it is: the others end all the same
                self.failed(error)

    def close(self) -> None:
        """The link is gone: subscriptions end, and a late publication goes nowhere."""
        self._end_timers()
        self.link.detach()

    def _end_timers(self) -> None:
        self._is_stopped = True
        self._timers.end()
        self._proof.end()

    # -- called by the link -----------------------------------------------------------------------

    def deliver(self, batch: list[Delivery | Gathered[Delivery]]) -> None:
        if self._is_stopped:
            return
        turning = self._turning
        if turning is None:
            self.service.deliver(batch)
            return
        turning.begin_turn()
        try:
            self.service.deliver(batch)
        finally:
            turning.end_turn(is_last=not self._router.has_due)

    def unproven(self, batch: list[Delivery | Gathered[Delivery]]) -> None:
        """Messages have come, and what the service knows may be of the past."""
        self._proof.wait()
        for received in batch:
            for message in (received,) if isinstance(received, tuple) else received:
                if message.reply:
                    self.link.answer_first(message.reply, NO_RESPONDERS)

    def _resume(self) -> None:
        """Say what waited for the proof."""
        self._timers.resume()
        self.link.announce()

    def take_trace(self, trace: MessageTrace, sid: int, subject: bytes) -> Taking:
        """A message that is traced has come to a subscription."""
        if self._tracing is None:
            return Taking.AS_A_CLIENT
        return self._tracing.take_trace(trace, sid, subject)

    @property
    def traced_connection(self) -> TracedConnection:
        """The service as traces of what it gets name it: as a client."""
        return TracedConnection(ConnectionKind.CLIENT, 0, self.name)

    def failed(self, error: Exception, at: str = "") -> None:
        """Log a mistake of the service, which is served on, as all others are."""
        log_mistake(self._log, self.name, error, at)

    def request_info(self, shares: bool, service: str | None, names_server: bool) -> None:
        """Return None: in-process services have no client identity, so no `Nats-Request-Info` is attached."""

    def unpublishable(self, subject: bytes) -> None:
        """Do nothing: a subject that a peer named to the service, with white space in it, reaches no one."""
        self._log.debug("%s: nothing can be published to %r", self.name, subject)


def log_mistake(log: logging.Logger, name: str, error: Exception, at: str = "") -> None:
    """One line for a mistake of ours; the traceback stands in the log for who debugs."""
    log.error("%s internal error%s: %s", name, f" at {at}" if at else "", in_one_line(error))
    log.debug("%s internal error", name, exc_info=error)


class ProofWatch:
    """The watch over what a service knows: whether it is known to be so, and when it is again.

    `proof`: gives the time until which it is, in monotonic ns; None: it always is. `resume`: called when it
    is so again, after `holds` or `wait` has said that it was not.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        proof: Callable[[], int] | None,
        resume: Callable[[], object],
    ) -> None:
        self._loop = loop
        self._proof = proof
        self._resume = resume
        self._look_due: asyncio.TimerHandle | None = None
        self._has_ended = False

    def holds(self) -> bool:
        """True if what the service knows is known to be so; else it is looked for from now on."""
        if self._proof is None or monotonic_ns() <= self._proof():
            return True
        self.wait()
        return False

    def wait(self) -> None:
        """Look for a newer proof from now on."""
        if self._look_due is None and not self._has_ended:
            self._look_due = self._loop.call_later(PROOF_CHECK, self._look)

    def _look(self) -> None:
        self._look_due = None
        if not self._has_ended and self.holds():
            self._resume()

    def end(self) -> None:
        """Look no more."""
        self._has_ended = True
        if self._look_due is not None:
            self._look_due.cancel()
            self._look_due = None


class Timers:
    """A service's timers on an asyncio loop, or another clock.

    None runs after `end`, nor while `may_run` says no; what one raises goes to `failed`.
    """

    def __init__(
        self,
        clock: asyncio.AbstractEventLoop | Clock,
        failed: Callable[[Exception], None],
        may_run: Callable[[], bool] = lambda: True,
    ) -> None:
        self._clock = clock
        self.may_run = may_run
        self.late: list[_Timer] = []
        """Timers that were due while none could run; `resume` runs them."""
        self.failed = failed
        self._set: set[_Timer] = set()
        self._has_ended = False
        self._context = copy_context()
        """The context of all timers: asyncio would copy one for each."""

    def call_later(self, seconds: float, function: Callable[[], object]) -> _Timer:
        timer = _Timer(self, function)
        if not self._has_ended:
            timer.handle = self._clock.call_later(seconds, timer.run, context=self._context)
            self._set.add(timer)
        return timer

    def resume(self) -> None:
        """Run those that were due while none could run."""
        late, self.late = self.late, []
        for timer in late:
            timer.run()

    def forget(self, timer: _Timer) -> None:
        self._set.discard(timer)

    def end(self) -> None:
        self._has_ended = True
        for timer in list(self._set):
            timer.cancel()


class _Timer:
    """One call that is due later."""

    __slots__ = ("_function", "_timers", "handle")

    def __init__(self, timers: Timers, function: Callable[[], object]) -> None:
        self._timers = timers
        self._function: Callable[[], object] | None = function
        self.handle: Timer | None = None

    def cancel(self) -> None:
        """The call is not made. Safe to call more than once, and after the call."""
        self._function = None
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None
        self._timers.forget(self)

    def run(self) -> None:
        if self._function is not None and not self._timers.may_run():
            self._timers.late.append(self)
            return
        function = self._function
        self.cancel()
        if function is None:
            return
        try:
            function()
        except Exception as error:  # noqa: BLE001 - a mistake of the service must not reach the loop
            self._timers.failed(error)
