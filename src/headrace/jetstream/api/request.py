"""One request to the API, from what was received to the answer; and the shape of every answer.

Which requests there are is `endpoints`', what they do is said by the other modules here.
Source: JetStream specification, 0 and 1.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from headrace.errors import LogError
from headrace.internal_errors import INTERNAL_ERROR
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.levels import asks_too_much
from headrace.protocol.jetstream.requests import decode, is_empty, is_object_or_array
from headrace.protocol.jetstream.responses import TYPE_PREFIX, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.core.service import Delivery
    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.consumer.consumer import Consumer
    from headrace.jetstream.ports import StreamView
    from headrace.jetstream.stream.stream import Stream
    from headrace.log.port import MessageLog

Fields = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)


class Endpoint(NamedTuple):
    """One kind of request. `fewest` and `most`: tokens that follow its name in the subject."""

    kind: str
    """The type of its response: `stream_create` for `io.nats.jetstream.api.v1.stream_create_response`."""
    handle: Callable[[Request], object]
    fewest: int = 0
    most: int = 0
    on_error: Fields = {}  # noqa: RUF012 - never changed
    """Fields that stand in a refusal too."""
    checks_level: bool = True
    """True if the API level that a request asks for is checked before anything else."""
    is_audited: bool = True
    """True if the answer is counted and has an audit advisory; reading single messages is not."""
    audits_refusals: bool = True
    """True if a refusal has an audit advisory."""


class Request:
    """One request of the JetStream API, and its answer."""

    __slots__ = ("_delivery", "_endpoint", "_is_answered", "account", "names")

    def __init__(
        self, account: AccountJetStream, endpoint: Endpoint, delivery: Delivery, names: list[str]
    ) -> None:
        self.account = account
        self.names = names
        """Tokens of the subject after the request's name."""
        self._endpoint = endpoint
        self._delivery = delivery
        self._is_answered = False
        account.api_counters.inflight += 1
        account.system.api.inflight += 1

    # -- what was asked ----------------------------------------------------------------------------------

    @property
    def payload(self) -> bytes:
        return self._delivery.payload

    @property
    def headers(self) -> bytes:
        return self._delivery.headers

    @property
    def delivery(self) -> Delivery:
        return self._delivery

    @property
    def _options(self) -> bytes:
        """The body of a request whose body may be missing: what is no JSON object is no body."""
        return self.payload if is_object_or_array(self.payload) else b""

    def decode(self, kind: type[T], *, optional: bool = False) -> T:
        """The body. `optional`: it may be missing, or be no JSON object. Raises: ApiError."""
        payload = self._options if optional else self.payload
        return decode(kind, payload, strict=self.account.settings.strict)

    def check_empty(self) -> None:
        """Check that the request has no body. Raises: ApiError."""
        if not is_empty(self.payload):
            raise ApiError(10038)

    def stream(self, name: str | None = None) -> Stream:
        """The stream of the subject's first name, or of `name`. Raises: ApiError."""
        wanted = self.names[0] if name is None else name
        found = self.account.streams.get(wanted)
        if found is None:
            self.check_served(wanted)
            raise ApiError(10059)
        return found

    def check_served(self, stream: str) -> None:
        """Check that a stream is served. Raises: ApiError for one that is stored and cannot be."""
        reason = self.account.broken.get(stream)
        if reason is not None:
            raise ApiError(10194, err=reason)

    def consumer(self) -> Consumer:
        """The consumer of the subject's first two names. Raises: ApiError."""
        found = self.stream().consumers.get(self.names[1])
        if found is None:
            raise ApiError(10014)
        return found

    # -- the answer --------------------------------------------------------------------------------------

    def answer(self, fields: Fields, *, headers: bytes = b"") -> None:
        self._send(response(self._endpoint.kind, fields), headers, failed=False)

    def refuse(self, error: ApiError, *, is_error: bool = True) -> None:
        """Answer the request with an error. `is_error`: whether it counts as one."""
        self._send(refusal(self._endpoint.kind, error, self._endpoint.on_error), b"", failed=is_error)

    def handle(self) -> None:
        """Do what is asked for, or refuse it. Called again when what it waited for has happened."""
        self.guarded(self._do)

    def _do(self) -> None:
        if self._endpoint.checks_level:
            check_level(self.headers)
        self._endpoint.handle(self)

    def guarded(self, work: Callable[..., object], *arguments: object) -> None:
        """Call `work`, and answer the request with an error that it raises, if it has no answer yet."""
        try:
            work(*arguments)
        except ApiError as error:
            self.refuse(error)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and who asked is told
            self.account.mistaken(error, self._delivery.subject)
            self.refuse(ApiError(10051, err=str(error) if isinstance(error, LogError) else INTERNAL_ERROR))

    def abandon(self) -> None:
        """Leave the request without an answer, as the Go server does."""
        if not self._is_answered:
            self._is_answered = True
            self._count(failed=False)

    def answer_durably(
        self, fields: Fields, err_code: int, undo: Callable[[], object] | None = None, *, headers: bytes = b""
    ) -> None:
        """Answer when everything that was done so far is durable; refuse with `err_code` when it cannot be.

        `undo` is called then, before.
        """

        def committed(error: LogError | None) -> None:
            if error is None:
                self.answer(fields, headers=headers)
                return
            if undo is not None:
                undo()
            self.refuse(ApiError(err_code, err=str(error)))

        self.account.journal.after_commit(partial(self.guarded, committed))

    def after_commit(self, log: MessageLog, answer: Callable[[], object], err_code: int) -> None:
        """Call `answer` when all that was done to a log so far is durable; refuse with `err_code` when it
        cannot be.
        """

        def committed(error: LogError | None) -> None:
            if error is not None:
                raise ApiError(err_code, err=str(error))
            answer()

        self.account.commit(log, partial(self.guarded, committed))

    def answer_when_stored(self, fields: Fields, streams: Iterable[StreamView]) -> None:
        """Answer when all messages that these streams have now are durable, so that none that is told of can
        go with this server; refuse with 10051 when they cannot be.
        """
        logs = [stream.log for stream in streams if stream.visible < stream.last_sequence]
        waited_for = len(logs)
        if not waited_for:
            self.answer(fields)

        def stored() -> None:
            nonlocal waited_for
            waited_for -= 1
            if not waited_for:
                self.answer(fields)

        for log in logs:
            self.after_commit(log, stored, 10051)

    def _send(self, body: bytes, headers: bytes, *, failed: bool) -> None:
        if self._is_answered:
            return
        self._is_answered = True
        account, delivery = self.account, self._delivery
        if delivery.reply:
            account.publish(delivery.reply, body, headers=headers)
        self._count(failed=failed)
        if self._is_audited(failed=failed) and account.advised("API"):
            account.advise(
                "API",
                "api_audit",
                server=account.settings.server_name,
                client={"acc": account.name},
                subject=delivery.subject.decode("utf-8", "replace"),
                **({"request": text} if (text := delivery.payload.decode("utf-8", "replace")) else {}),
                response=body.decode(),
            )

    def _is_audited(self, *, failed: bool) -> bool:
        return self._endpoint.audits_refusals if failed else self._endpoint.is_audited

    def _count(self, *, failed: bool) -> None:
        is_audited = self._is_audited(failed=failed)
        for counters in (self.account.api_counters, self.account.system.api):
            counters.inflight -= 1
            if is_audited:
                counters.total += 1
                counters.errors += failed


def response(kind: str, fields: Fields) -> bytes:
    return encode({"type": f"{TYPE_PREFIX}{kind}_response", **fields})


def refusal(kind: str, error: ApiError, on_error: Fields) -> bytes:
    return response(kind, {"error": error.body(), **on_error})


def check_level(headers: bytes) -> None:
    """Check the API level that a request asks for. Raises: ApiError for a later one than this server's."""
    if asks_too_much(headers):
        raise ApiError(10185)
