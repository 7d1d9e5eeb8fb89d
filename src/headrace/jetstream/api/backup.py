"""Backups over NATS: STREAM.SNAPSHOT sends a stream in chunks, STREAM.RESTORE takes one, for the `nats` CLI.

Both go on beside everything else: a chunk is sent when an earlier one was acknowledged, and a receiver that
keeps still ends it. What is in a backup is `state.backup`'s, what becomes of one `state.restore`'s. Source:
JetStream specification, 1; messages, waiting times and texts are those of the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from headrace.errors import LogError
from headrace.internal_errors import INTERNAL_ERROR
from headrace.jetstream.api.contexts import stream_context
from headrace.jetstream.api.infos import stream_info
from headrace.jetstream.api.request import Endpoint, refusal, response
from headrace.jetstream.state import backup
from headrace.jetstream.state.restore import Failed, Restoring
from headrace.jetstream.stream.rules import check_new_stream
from headrace.protocol.jetstream import requests
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.responses import stream_config
from headrace.protocol.nuid import new_nuid
from headrace.protocol.rfc3339 import short_time
from headrace.subjects import grammar

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery, Timer
    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.api.request import Request
    from headrace.jetstream.ports import AccountPort
    from headrace.jetstream.stream.stream import Stream
    from headrace.protocol.jetstream.configs import StreamConfig
    from headrace.protocol.jetstream.requests import SnapshotRequest

_CHUNK: Final = 128 << 10
_WINDOW: Final = 8 << 20
_SMALLEST: Final = 1 << 10
_LARGEST_CHUNK: Final = 1 << 20
_LARGEST_WINDOW: Final = 32 << 20
_AT_ONCE: Final = 1 << 20
"""Bytes that are sent in one turn; others have theirs before the next."""
_ACK_S: Final = 5.0
_INTEREST_S: Final = 2.0
_STALLED_S: Final = 5.0
_END: Final = b"NATS/1.0 204\r\n\r\n"
_NO_INTEREST: Final = b"NATS/1.0 408 No Interest\r\n\r\n"
_NO_RESPONSE: Final = b"NATS/1.0 408 No Flow Response\r\n\r\n"
_CREATED: Final = "stream_create"


def snapshot(request: Request) -> None:
    if requests.is_empty(request.payload):
        raise ApiError(10003)
    stream = request.stream()
    asked = request.decode(requests.SnapshotRequest)
    subject = asked.deliver_subject.encode()
    if not grammar.is_valid_subject(subject) or not grammar.is_literal(subject):
        raise ApiError(10015)
    state = backup.state_of(stream)
    request.answer({"config": stream_config(stream.config), "state": state})
    _advise(stream.account, stream.name, "SNAPSHOT_CREATE", state=state)
    _Sending(stream, subject, asked).start()


def _advise(account: AccountPort, stream: str, what: str, **fields: Any) -> None:
    fields["client"] = {"acc": account.name, "svc": account.name}
    account.advise(f"STREAM.{what}.{stream}", what.lower(), stream=stream, **fields)


class _Sending:
    """One backup on its way to a receiver."""

    def __init__(self, stream: Stream, subject: bytes, asked: SnapshotRequest) -> None:
        self._account = stream.account
        self._name = stream.name
        self._subject = subject
        self._chunk = min(max(_SMALLEST, asked.chunk_size or _CHUNK), _LARGEST_CHUNK)
        window = min(max(_SMALLEST, asked.window_size or _WINDOW), _LARGEST_WINDOW)
        self._slots = max(window, self._chunk) // self._chunk
        self._pieces = backup.pieces(stream, with_consumers=not asked.no_consumers, strict=asked.jsck)
        self._buffer = bytearray()
        self._index = 0
        self._acks = f"$JS.SNAPSHOT.ACK.{stream.name}.{new_nuid()}"
        self._sid = 0
        self._timer: Timer | None = None
        self._next: Timer | None = None
        self._start_ns = self._account.turns.now_ns()

    def start(self) -> None:
        self._sid = self._account.subscribe(f"{self._acks}.>".encode(), self._acknowledged)
        if self._account.has_interest(self._subject):
            self._go()
        else:
            self._wait(_INTEREST_S, self._go)

    def _wait(self, seconds: float, function: Callable[[], object]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._account.turns.later(seconds, function)

    def _acknowledged(self, _delivery: Delivery) -> None:
        self._slots += 1
        if self._next is None:
            self._next = self._account.turns.later(0, self._go)

    def _go(self) -> None:
        """Send what may be sent now."""
        self._next = None
        if not self._sid:
            return
        if not self._account.has_interest(self._subject):
            self._end(_NO_INTEREST, "no interest")
            return
        try:
            if self._send_some():
                self._finish()
                return
        except (LogError, backup.Damaged) as error:
            self._fail(str(error))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and the receiver is told
            self._account.mistaken(error, self._subject)
            self._fail(INTERNAL_ERROR)
            return
        self._wait(_ACK_S, self._unanswered)
        if self._slots:
            self._next = self._account.turns.later(0, self._go)

    def _send_some(self) -> bool:
        """Send as much of the backup as may be sent in this turn; return True if only the rest is left."""
        sent = 0
        while self._slots and sent < _AT_ONCE:
            if not self._fill():
                return True
            sent += self._send()
        return False

    def _fail(self, reason: str) -> None:
        self._end(f"NATS/1.0 500 {reason}\r\n\r\n".encode(), reason)

    def _fill(self) -> bool:
        """True if there is a whole chunk."""
        while len(self._buffer) < self._chunk:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._buffer += piece
        return True

    def _send(self) -> int:
        self._index += 1
        self._slots -= 1
        chunk = bytes(self._buffer[: self._chunk])
        del self._buffer[: self._chunk]
        reply = f"{self._acks}.{len(chunk)}.{self._index}".encode()
        self._account.publish(self._subject, chunk, reply=reply)
        return len(chunk)

    def _finish(self) -> None:
        """The rest needs no acknowledgement."""
        if self._buffer:
            self._account.publish(self._subject, bytes(self._buffer))
        self._end(_END if self._index else b"", "")

    def _unanswered(self) -> None:
        self._end(_NO_RESPONSE, "no flow response")

    def _end(self, headers: bytes, error: str) -> None:
        account = self._account
        account.publish(self._subject, b"", headers=headers)
        account.unsubscribe(self._sid)
        self._sid = 0
        for timer in (self._timer, self._next):
            if timer is not None:
                timer.cancel()
        times = {"start": short_time(self._start_ns), "end": short_time(account.turns.now_ns())}
        said = {**times, **({"error": error} if error else {})}
        _advise(account, self._name, "SNAPSHOT_COMPLETE", **said)
        if error:
            account.note.warning("snapshot of stream %s > %s failed: %s", account.name, self._name, error)


def restore(request: Request) -> None:
    if requests.is_empty(request.payload):
        raise ApiError(10003)
    account, name = request.account, request.names[0]
    config = request.decode(requests.RestoreRequest).config
    if config.name not in ("", name):
        raise ApiError(10056)
    if "/" in name or "\\" in name:
        raise ApiError(10128)
    if name in account.streams:
        raise ApiError(10130)
    request.check_served(name)
    if account.assets.after_removal(name, request.handle):
        return
    try:
        restoring = Restoring(account, _checked(account, replace(config, name=name)))
    except Failed as failure:
        raise ApiError(10062, err=str(failure)) from None
    subject = f"$JS.SNAPSHOT.RESTORE.{name}.{new_nuid()}"
    _Receiving(account, restoring, subject)
    request.answer({"deliver_subject": subject})


def _checked(account: AccountJetStream, config: StreamConfig) -> StreamConfig:
    """The complete configuration of a stream that may be made now; it may be sealed. Raises: ApiError."""
    context = stream_context(account, config.name)
    return replace(check_new_stream(replace(config, sealed=False), context), sealed=config.sealed)


class _Receiving:
    """One backup on its way here; its sender waits for the answer to each chunk."""

    def __init__(self, account: AccountJetStream, restoring: Restoring, subject: str) -> None:
        self._account = account
        self._restoring = restoring
        self._name = restoring.config.name
        self._start_ns = account.turns.now_ns()
        self._sid = account.subscribe(subject.encode(), self._receive)
        self._timer: Timer | None = None
        self._is_over = False
        self._watch()
        _advise(account, self._name, "RESTORE_CREATE")

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._account.turns.later(_STALLED_S, self._stalled)

    def _stalled(self) -> None:
        self._over()
        self._restoring.abandon()
        self._account.note.warning("restore of stream %s > %s is stalled", self._account.name, self._name)

    def _receive(self, delivery: Delivery) -> None:
        if self._is_over:
            return
        self._watch()
        try:
            if not delivery.reply:
                self._restoring.abandon()
                raise Failed("each chunk needs a reply subject")
            if delivery.payload:
                self._restoring.feed(delivery.payload)
                self._account.publish(delivery.reply, b"")
                return
            self._restoring.close(lambda failure: self._closed(delivery.reply, failure))
        except Failed as failure:
            self._refuse(delivery.reply, ApiError(10062, err=str(failure)))
        except ApiError as error:
            self._refuse(delivery.reply, error)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and the sender is told
            self._mistaken(delivery.reply, error)

    def _mistaken(self, reply: bytes, error: Exception) -> None:
        self._account.mistaken(error, reply)
        self._restoring.abandon()
        self._refuse(reply, ApiError(10062, err=INTERNAL_ERROR))

    def _closed(self, reply: bytes, failure: Failed | None) -> None:
        """The messages are durable: then that there is such a stream, and then the answer."""
        if failure is not None:
            self._refuse(reply, ApiError(10062, err=str(failure)))
            return
        try:
            _checked(self._account, self._restoring.config)  # other streams may have been made since it began
            stream = self._restoring.enter()
        except ApiError as error:
            self._restoring.abandon()
            self._refuse(reply, error)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and the sender is told
            self._mistaken(reply, error)
        else:
            self._over()
            self._record(reply, stream)

    def _record(self, reply: bytes, stream: Stream) -> None:
        account = self._account

        def recorded(error: LogError | None) -> None:
            if error is not None:
                account.publish(reply, refusal(_CREATED, ApiError(10062, err=str(error)), {}))
            elif account.streams.get(stream.name) is stream:
                account.publish(reply, response(_CREATED, stream_info(stream, with_version=True)))

        account.journal.after_commit(recorded)

    def _refuse(self, reply: bytes, error: ApiError) -> None:
        self._over()
        if reply:
            self._account.publish(reply, refusal(_CREATED, error, {}))
        self._account.note.warning(
            "restore of stream %s > %s failed: %s", self._account.name, self._name, error.description
        )

    def _over(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._account.unsubscribe(self._sid)
        times = {"start": short_time(self._start_ns), "end": short_time(self._account.turns.now_ns())}
        _advise(self._account, self._name, "RESTORE_COMPLETE", **times, bytes=self._restoring.size)


ENDPOINTS: Final = {
    b"STREAM.SNAPSHOT": Endpoint("stream_snapshot", snapshot, 1, 1),
    b"STREAM.RESTORE": Endpoint("stream_restore", restore, 1, 1, {"deliver_subject": ""}),
}
