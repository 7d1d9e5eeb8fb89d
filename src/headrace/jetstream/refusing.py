"""Refusals of API requests in accounts without JetStream, on a server that has it.

In an account without JetStream every request is refused by name, so that a client does not wait for it. In
the system account an operator may empty an account; the rest of what can be asked there means something in a
cluster only, and a server that stands alone does not answer it. Source: JetStream specification, 1 and 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.internal_errors import INTERNAL_ERROR
from headrace.jetstream.api.dispatch import PUBLISHED_ALONE
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.headers import no_responders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.core.service import Delivery, Host
    from headrace.engine.batches import Gathered
    from headrace.errors import LogError

_PREFIX: Final = b"$JS.API."
_CLUSTERED: Final = {b"META.LEADER.STEPDOWN", b"META.RESCUE", b"SERVER.REMOVE", b"SERVER.EVACUATE"}
_STEP_DOWN: Final = b"META.LEADER.STEPDOWN"
_ACCOUNT: Final = b"ACCOUNT."
_ON_BEHALF: Final = b"\r\nNats-Request-Info:"
_PURGE: Final = b"ACCOUNT.PURGE."
_CLUSTER_REQUIRED: Final = {
    b"STREAM.LEADER", b"STREAM.PEER", b"STREAM.CANCEL_MOVE", b"CONSUMER.LEADER",
}  # fmt: skip


class _Refusing:
    """Implements `core.service.Service`: one subscription to the whole API."""

    def start(self, host: Host) -> None:
        self._host = host
        self.hear(on=True)

    def hear(self, *, on: bool) -> None:
        """Begin or end the subscription to requests."""
        if on:
            self._sid = self._host.subscribe(_PREFIX + b">")
        else:
            self._host.unsubscribe(self._sid)

    def stop(self) -> None:
        self.hear(on=False)

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        for received in batch:
            if isinstance(received, tuple) and received.reply and self.concerns(received):
                self._take(received.subject.removeprefix(_PREFIX), received.reply)

    def _take(self, name: bytes, reply: bytes) -> None:
        try:
            self.receive(name, reply)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and who asked is told
            self._host.failed(error, (_PREFIX + name).decode("utf-8", "replace"))
            self.refuse(reply, "system", ApiError(10051, err=INTERNAL_ERROR), {})

    def concerns(self, request: Delivery) -> bool:
        """True if a request is answered here."""
        return True

    def receive(self, name: bytes, reply: bytes) -> None:
        raise NotImplementedError

    def refuse(self, reply: bytes, kind: str, error: ApiError, on_error: dict[str, Any]) -> None:
        from headrace.jetstream.api.request import refusal

        self.publish(reply, refusal(kind, error, on_error))

    def publish(self, reply: bytes, body: bytes, *, headers: bytes = b"") -> None:
        self._host.publish(reply, body, headers=headers)


class RefusingService(_Refusing):
    """The JetStream API of an account that has no JetStream."""

    def receive(self, name: bytes, reply: bytes) -> None:
        if name.startswith(PUBLISHED_ALONE):
            self.publish(reply, b"", headers=no_responders(_PREFIX + name))
            return
        from headrace.jetstream.api.endpoints import find

        found = find(name)
        if found is None:
            return
        endpoint = found[0]
        needs_cluster = b".".join(name.split(b".")[:2]) in _CLUSTER_REQUIRED
        error = ApiError(10010 if needs_cluster else 10039)
        self.refuse(reply, endpoint.kind, error, endpoint.on_error)


class SystemRequests(_Refusing):
    """The JetStream API in the system account. `purge`: removes all streams of an account. `hand_over`: has
    another server take the streams, and returns False if there is none; None where no other can have them.
    `when_started`: called with the service's host.

    nats-server without JetStream passes requests of its clients on to the system accounts of other servers
    of its cluster as well; they have reached the client's own account by then, which answers them.
    """

    def __init__(
        self,
        purge: Callable[[str, Callable[[LogError | None], None]], None],
        hand_over: Callable[[str], bool] | None = None,
        when_started: Callable[[Host], object] = lambda _host: None,
    ) -> None:
        self._purge_account = purge
        self._hand_over = hand_over
        self._when_started = when_started

    def start(self, host: Host) -> None:
        super().start(host)
        self._when_started(host)

    def concerns(self, request: Delivery) -> bool:
        return _ON_BEHALF not in request.headers

    def receive(self, name: bytes, reply: bytes) -> None:
        if name.startswith(_PURGE):
            self._purge(name.removeprefix(_PURGE), reply)
        elif name == _STEP_DOWN and self._hand_over is not None:
            self._step_down(self._hand_over, reply)
        elif name not in _CLUSTERED and not name.startswith(_ACCOUNT):
            kind = "account_info" if name == b"INFO" else "system"
            self.refuse(reply, kind, ApiError(10039), {})

    def _step_down(self, hand_over: Callable[[str], bool], reply: bytes) -> None:
        from headrace.jetstream.api.request import response

        if hand_over(""):
            self.publish(reply, response("meta_leader_stepdown", {"success": True}))
        else:
            error = ApiError(10005, err="no replacement peer connected")
            self.refuse(reply, "meta_leader_stepdown", error, {})

    def _purge(self, name: bytes, reply: bytes) -> None:
        account = name.decode("utf-8", "replace")
        if b"." in name:
            return
        if "/" in account or "\\" in account:
            error = ApiError(10051, err="account name can not contain path separators")
            self.refuse(reply, "account_purge", error, {})
            return
        self._purge_account(account, lambda error: self._purged(reply, error))

    def _purged(self, reply: bytes, error: LogError | None) -> None:
        if error is not None:
            self.refuse(reply, "account_purge", ApiError(10051, err=str(error)), {})
            return
        from headrace.jetstream.api.request import response

        self.publish(reply, response("account_purge", {"initiated": True}))
