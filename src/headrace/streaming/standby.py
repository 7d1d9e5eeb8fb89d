"""Fault tolerance: several servers share a store, one has it and serves, the others wait for it.

Who has the store says so every second on `_STAN.ft.<cluster ID>.<group>`; who hears nothing for a while tries
to take it. The lock of the store decides, not the heartbeats: without them the tries only come more often.
Source: streaming specification, 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import LogError, ProtocolError
from headrace.protocol.stan import CtrlMsg, CtrlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery, Timer
    from headrace.streaming.context import Context

HEARTBEAT_S: Final = 1.0
SILENCE_S: Final = 1.25
"""Seconds without a heartbeat after which the store may be free."""


class Standby:
    """A server of a fault-tolerant group.

    `acquire` takes the store if nobody has it; `serve` is called when it did so after the start.
    """

    def __init__(
        self, context: Context, server_id: str, acquire: Callable[[], bool], serve: Callable[[], object]
    ) -> None:
        options = context.options
        self.subject: Final = f"_STAN.ft.{options.cluster_id}.{options.ft_group}".encode()
        self._context = context
        self._server_id = server_id.encode()
        self._acquire = acquire
        self._serve = serve
        self._waiting: Timer | None = None
        self._complaint = ""

    def begin(self) -> bool:
        """Try to take the store; True if it is ours now, else it is waited for.

        Raises: LogError when it cannot be used.
        """
        is_ours = self._acquire()
        if is_ours:
            self._activate()
        else:
            self._wait()
        return is_ours

    def heard(self, delivery: Delivery) -> None:
        """A heartbeat of the server that has the store."""
        try:
            message = CtrlMsg.decode(delivery.payload)
        except ProtocolError as error:
            self._context.note.error("fault-tolerance message not understood: %s", error)
            return
        is_others = message.msg_type == CtrlType.FT_HEARTBEAT and message.server_id != self._server_id
        if is_others and self._waiting is not None:
            self._waiting.cancel()
            self._wait()

    def _wait(self) -> None:
        self._waiting = self._context.later(SILENCE_S, self._try)

    def _try(self) -> None:
        try:
            is_ours = self._acquire()
        except LogError as error:
            if str(error) != self._complaint:  # every try would say the same
                self._complaint = str(error)
                self._context.note.error("store cannot be taken: %s", error)
            is_ours = False
        if is_ours:
            self._activate()
            self._serve()
        else:
            self._wait()

    def _activate(self) -> None:
        self._waiting = None
        self._context.note.info("Server is active")
        self._beat()

    def _beat(self) -> None:
        message = CtrlMsg(CtrlType.FT_HEARTBEAT, self._server_id)
        self._context.host.publish(self.subject, message.encode())
        self._context.later(HEARTBEAT_S, self._beat)
