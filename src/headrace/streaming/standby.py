"""Fault tolerance: several servers share a store, one has it and serves, the others wait for it.

Who has the store says so every second on `_STAN.ft.<cluster ID>.<group>`; who hears nothing for a while tries
to take it. The lock of the store decides, not the heartbeats: without them the tries only come more often.
Source: streaming specification, 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import LogError, ProtocolError, StartError
from headrace.protocol.stan import CtrlMsg, CtrlType
from headrace.streaming.beats import beat_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.streaming_options import StreamingOptions
    from headrace.core.service import Delivery, Host, Timer
    from headrace.streaming.context import Notes

    Serve = Callable[[], object]

HEARTBEAT_S: Final = 1.0
SILENCE_S: Final = 1.25
"""Seconds without a heartbeat after which the store may be free."""


class Standby:
    """A server of a fault-tolerant group.

    `take` takes the store if nobody has it, and returns the function that serves it. `on_failure` is called
    with a text when a store that was taken after the start cannot be served.
    """

    def __init__(
        self,
        host: Host,
        options: StreamingOptions,
        note: Notes,
        server_id: str,
        *,
        take: Callable[[], Serve | None],
        on_failure: Callable[[str], object],
    ) -> None:
        self.subject: Final = beat_subject(options)
        self._host = host
        self._note = note
        self._server_id = server_id.encode()
        self._take = take
        self._on_failure = on_failure
        self._is_active = False
        self._timer: Timer | None = None
        """The timer of the next try, or of the next heartbeat."""
        self._complaint = ""

    def begin(self) -> bool:
        """Try to take the store, and serve it; True if it is ours now, else it is waited for.

        Raises: StartError, LogError when it cannot be used.
        """
        serve = self._take()
        if serve is None:
            self._wait()
            return False
        self._activate()
        serve()
        return True

    def stop(self) -> None:
        """Neither wait nor beat any more."""
        if self._timer is not None:
            self._timer.cancel()

    def heard(self, delivery: Delivery) -> None:
        """A heartbeat of the server that has the store."""
        try:
            message = CtrlMsg.decode(delivery.payload)
        except ProtocolError as error:
            self._note.error("fault-tolerance message not understood: %s", error)
            return
        is_others = message.msg_type == CtrlType.FT_HEARTBEAT and message.server_id != self._server_id
        if is_others and not self._is_active:
            self._wait()

    def _wait(self) -> None:
        self._set(SILENCE_S, self._try)

    def _set(self, seconds: float, function: Callable[[], object]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._host.call_later(seconds, function)

    def _try(self) -> None:
        try:
            serve = self._take()
        except LogError as error:
            if str(error) != self._complaint:  # every try would say the same
                self._complaint = str(error)
                self._note.error("store cannot be taken: %s", error)
            serve = None
        if serve is None:
            self._wait()
            return
        self._activate()
        try:
            serve()
        except (LogError, StartError) as error:
            self._on_failure(str(error))

    def _activate(self) -> None:
        self._is_active = True
        self._note.info("Server is active")
        self._beat()

    def _beat(self) -> None:
        message = CtrlMsg(CtrlType.FT_HEARTBEAT, self._server_id)
        self._host.publish(self.subject, message.encode())
        self._set(HEARTBEAT_S, self._beat)
