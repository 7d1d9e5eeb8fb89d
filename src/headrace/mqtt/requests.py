"""JetStreamRequests of one account's hub to JetStream: publications with a reply subject, answers, timeouts.

Here lives which answer belongs to which request. Never lives here: what streams and consumers there are
(`streams`, `consumers`).
Source: reply subjects as nats-server 2.15.1 (`$MQTT.JSA.SERVER.KIND.ID`).
"""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.mqtt.names import ANSWER_SUBJECT
from headrace.mqtt.steps import Awaited
from headrace.protocol.durations import format_duration
from headrace.protocol.nuid import new_nuid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.core.service import Delivery, Host, Timer

MOST_REQUESTS: Final = 65_536
"""JetStreamRequests of one account that wait for their answers; one more fails at once."""

_NO_MESSAGE: Final = 10037
NOT_FOUND: Final = frozenset({10059, 10014, _NO_MESSAGE})
"""JetStream's codes for a stream, a consumer, a message that is not there."""
_INVALID_JSON: Final = 10025
WRONG_LAST_SEQUENCE: Final = frozenset({10071, 10164})
SUBJECT_IS_FULL: Final = 10077
_NO_RESPONDERS: Final = 503
_NOBODY: Final = "JetStream is not available"
_UNCLEAR: Final = "no acknowledgement"
_NS: Final = 1_000_000_000
_T = TypeVar("_T")


class RequestFailed(HeadraceError):
    """JetStream refused a request, or did not answer. `code`: its error code; 0: there was no answer.

    `why`: the same without the request.
    """

    def __init__(self, text: str, code: int = 0, *, why: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.why = why or text

    @property
    def is_not_found(self) -> bool:
        """True if the stream, the consumer or the message is not there."""
        return self.code in NOT_FOUND

    @property
    def is_message_gone(self) -> bool:
        """True if a deletion failed since its message is not there; its stream is."""
        return self.code in {10043, 10057, _NO_MESSAGE}


class RequestUnanswered(RequestFailed):
    """JetStream did not answer a request in time: perhaps it is carried out all the same, now or later."""


class StoreAck(NamedTuple):
    """The acknowledgement of a stored message."""

    sequence: int
    is_duplicate: bool


class StoredMessage(NamedTuple):
    """A message of a stream."""

    sequence: int
    subject: bytes
    headers: bytes
    payload: bytes


class _Error(Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Message(Struct):
    subject: str = ""
    seq: int = 0
    hdrs: str = ""
    data: str = ""


class _Place(Struct, frozen=True):
    consumer_seq: int = 0
    stream_seq: int = 0


class _State(Struct, frozen=True):
    messages: int = 0
    subjects: dict[str, int] | None = None


class StreamAnswer(Struct):
    """The part of the information about a stream that is read."""

    config: dict[str, Any] = {}
    state: _State = _State()
    domain: str = ""


class ConsumerAnswer(Struct):
    """The part of the information about a consumer that is read."""

    name: str = ""
    config: dict[str, Any] = {}
    delivered: _Place = _Place()
    ack_floor: _Place = _Place()
    num_ack_pending: int = 0
    num_pending: int = 0


class _Reply(Struct):
    error: _Error | None = None
    message: _Message | None = None
    seq: int = 0
    duplicate: bool = False


class RequestLink(Protocol):
    """The link of a client, as requests go out through it."""

    def publish_internal(
        self, subject: bytes, headers: bytes, payload: bytes, *, reply: bytes = b""
    ) -> None: ...


class _Waiting(NamedTuple):
    deadline_ns: int
    what: str
    answer: Awaited[bytes]


class JetStreamRequests:
    """The requests of one hub that wait for answers.

    `server_hash`: the short hash of this server's name. `domain`: the JetStream domain that is asked.
    """

    def __init__(self, server_hash: str, *, domain: str = "", timeout: float) -> None:
        self.timeout = timeout
        self._prefix = ANSWER_SUBJECT + server_hash.encode() + b"."
        self._api = f"$JS.{domain}.API.".encode() if domain else b"$JS.API."
        self._waiting: OrderedDict[bytes, _Waiting] = OrderedDict()
        self._timer: Timer | None = None
        self._host: Host | None = None
        self.sid = 0

    def start(self, host: Host) -> None:
        """Listen to answers."""
        self._host = host
        self.sid = host.subscribe(self._prefix + b"*.*")

    def stop(self) -> None:
        """Fail all requests that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, OrderedDict()
        for request in waiting.values():
            request.answer.fail(RequestFailed(f"{request.what}: the server stops"))

    def __len__(self) -> int:
        return len(self._waiting)

    # -- any request -----------------------------------------------------------------------------------

    def ask(
        self,
        kind: bytes,
        subject: bytes,
        payload: bytes,
        *,
        headers: bytes = b"",
        token: bytes = b"",
        through: RequestLink | None = None,
    ) -> Awaited[bytes]:
        """Send a request; its answer is the payload of the reply.

        `kind`: the token of the reply subject that says what is asked. `token`: one more token behind it.
        `through`: the link of a client whose packet is being read: the request goes out before what packets
        behind that one publish.
        """
        answer: Awaited[bytes] = Awaited()
        name = new_nuid().encode()
        what = f"request {kind.decode()} to {subject.decode('utf-8', 'replace')}"
        if self._host is None or len(self._waiting) >= MOST_REQUESTS:
            answer.fail(RequestFailed(f"{what}: too many requests wait for JetStream"))
            return answer
        self._waiting[name] = _Waiting(self._host.now_ns() + int(self.timeout * _NS), what, answer)
        reply = self._prefix + kind + b"." + (token + b"." if token else b"") + name
        if through is not None:
            through.publish_internal(subject, headers, payload, reply=reply)
        else:
            self._host.publish(subject, payload, reply=reply, headers=headers)
            self._host.announce()
        if self._timer is None:
            self._timer = self._host.call_later(self.timeout, self._expire)
        return answer

    def heard(self, delivery: Delivery) -> bool:
        """Take an answer; False if it belongs to no request of this server that waits."""
        waiting = self._waiting.pop(delivery.subject.rpartition(b".")[2], None)
        if waiting is None:
            return False
        if not delivery.payload and delivery.headers.startswith(b"NATS/1.0 503"):
            waiting.answer.fail(RequestFailed(f"{waiting.what}: {_NOBODY}", _NO_RESPONDERS, why=_NOBODY))
        else:
            waiting.answer.give(delivery.payload)
        return True

    def _expire(self) -> None:
        assert self._host is not None
        self._timer = None
        now = self._host.now_ns()
        while self._waiting:
            name, first = next(iter(self._waiting.items()))
            if first.deadline_ns > now:
                self._timer = self._host.call_later((first.deadline_ns - now) / _NS, self._expire)
                return
            del self._waiting[name]
            first.answer.fail(RequestUnanswered(f"timeout for {first.what}", why=no_answer(self.timeout)))

    # -- messages --------------------------------------------------------------------------------------

    async def store(
        self, subject: bytes, headers: bytes, payload: bytes, *, kind: bytes = b"MS", token: bytes = b""
    ) -> StoreAck:
        """Store a message. Raises: RequestFailed."""
        found = _read(
            await self.ask(kind, subject, payload, headers=headers, token=token), _Reply, subject.decode()
        )
        return StoreAck(found.seq, found.duplicate)

    async def load_last(self, stream: str, subject: bytes) -> StoredMessage | None:
        """Return the last message on a subject, or None. Raises: RequestFailed."""
        return await self._load(stream, {"last_by_subj": subject.decode()})

    async def load(self, stream: str, sequence: int) -> StoredMessage | None:
        """Return a message by its sequence, or None. Raises: RequestFailed."""
        return await self._load(stream, {"seq": sequence})

    async def load_next(self, stream: str, sequence: int, pattern: bytes) -> StoredMessage | None:
        """Return the first message from a sequence on with a matching subject. Raises: RequestFailed."""
        return await self._load(stream, {"seq": sequence, "next_by_subj": pattern.decode()})

    async def _load(self, stream: str, body: Mapping[str, object]) -> StoredMessage | None:
        try:
            found = await self._call(b"ML", f"STREAM.MSG.GET.{stream}", body, _Reply)
        except RequestFailed as error:
            if error.code == _NO_MESSAGE:
                return None
            raise
        if found.message is None:
            return None
        message = found.message
        try:
            headers, payload = base64.b64decode(message.hdrs), base64.b64decode(message.data)
        except binascii.Error as error:
            raise RequestFailed(f"a message of stream {stream} cannot be read: {error}") from None
        return StoredMessage(message.seq, message.subject.encode(), headers, payload)

    async def remove(self, stream: str, sequence: int) -> None:
        """Delete a message; one that is gone already is as good. Raises: RequestFailed."""
        try:
            await self._call(
                b"MD", f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": True}, _Reply
            )
        except RequestFailed as error:
            if not (error.is_message_gone or error.is_not_found):
                raise

    async def purge(self, stream: str, pattern: bytes) -> None:
        """Delete the messages with a matching subject. Raises: RequestFailed."""
        await self._call(b"MD", f"STREAM.PURGE.{stream}", {"filter": pattern.decode()}, _Reply)

    def removal_subject(self, stream: str) -> bytes:
        """Return the subject of requests to delete a message of a stream."""
        return self._api + f"STREAM.MSG.DELETE.{stream}".encode()

    # -- streams and consumers -------------------------------------------------------------------------

    async def stream(self, name: str, *, subjects: str = "") -> StreamAnswer | None:
        """Return what there is of a stream, or None. Raises: RequestFailed.

        `subjects`: a pattern of subjects whose messages are counted.
        """
        body = {"subjects_filter": subjects} if subjects else b""
        try:
            return await self._call(b"SL", f"STREAM.INFO.{name}", body, StreamAnswer)
        except RequestFailed as error:
            if error.is_not_found:
                return None
            raise

    async def create_stream(self, config: Mapping[str, object]) -> StreamAnswer:
        """Create a stream. Raises: RequestFailed."""
        return await self._call(b"SC", f"STREAM.CREATE.{config['name']}", config, StreamAnswer)

    async def create_consumer(
        self, stream: str, config: Mapping[str, object], through: RequestLink | None = None
    ) -> ConsumerAnswer:
        """Create a consumer, durable or named; the same one may be there. Raises: RequestFailed.

        `through`: as of `ask`.
        """
        durable = config.get("durable_name")
        endpoint = (
            f"CONSUMER.DURABLE.CREATE.{stream}.{durable}"
            if durable
            else f"CONSUMER.CREATE.{stream}.{config['name']}"
        )
        body = {"stream_name": stream, "config": config}
        return await self._call(b"CC", endpoint, body, ConsumerAnswer, through)

    async def consumer(self, stream: str, name: str) -> ConsumerAnswer | None:
        """Return what there is of a consumer, or None. Raises: RequestFailed."""
        try:
            return await self._call(b"CL", f"CONSUMER.INFO.{stream}.{name}", b"", ConsumerAnswer)
        except RequestFailed as error:
            if error.is_not_found:
                return None
            raise

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Delete a consumer; one that is gone already is as good. Raises: RequestFailed."""
        try:
            await self._call(b"CD", f"CONSUMER.DELETE.{stream}.{name}", b"", _Reply)
        except RequestFailed as error:
            if not error.is_not_found:
                raise

    async def _call(
        self,
        kind: bytes,
        endpoint: str,
        body: Mapping[str, object] | bytes,
        answer: type[_T],
        through: RequestLink | None = None,
    ) -> _T:
        payload = body if isinstance(body, bytes) else msgspec.json.encode(body)
        asked = self.ask(kind, self._api + endpoint.encode(), payload, through=through)
        return _read(await asked, answer, endpoint)


def failure_of(payload: bytes, what: str) -> RequestFailed:
    """Return the error of what came in the place of an acknowledgement.

    `payload` may be empty, or a status of NATS: then nobody stores such messages.
    """
    if not payload or payload.startswith(b"NATS/1.0 503"):
        return RequestFailed(f"{what}: {_NOBODY}", _NO_RESPONDERS, why=_NOBODY)
    try:
        _read(payload, _Reply, what)
    except RequestFailed as error:
        return error
    return RequestFailed(f"{what}: {_UNCLEAR}", why=_UNCLEAR)


class _Refusal(Struct):
    error: _Error | None = None


def _read(payload: bytes, kind: type[_T], what: str) -> _T:
    try:
        refusal = msgspec.json.decode(payload, type=_Refusal)
        if refusal.error is None:
            return msgspec.json.decode(payload, type=kind)
    except msgspec.DecodeError as error:
        raise RequestFailed(
            f"{what}: the answer cannot be read: {error}", why=f"invalid JSON: {error} ({_INVALID_JSON})"
        ) from None
    found = refusal.error
    why = f"{found.description} ({found.err_code})"
    raise RequestFailed(f"{what}: {why}", found.err_code or found.code, why=why)


def no_answer(seconds: float) -> str:
    """Return the text for a message that JetStream has not acknowledged in time, as nats-server words it."""
    return f"no JetStream ack within {format_duration(seconds)}"


def operation_failed(identifier: int, why: str) -> str:
    """Return the log line of a QoS 1 or 2 operation that ends its connection, as nats-server words it."""
    return f"JetStream failed a pipelined QoS1/2 operation (pi={identifier}): {why}; closing the connection"
