"""Reads a stream that only the API reaches: in another account, or one that counts its readers.

It asks for a push consumer there, without acknowledgements, listens where that delivers, and asks for another
one when something is missing or nothing was heard for long. A consumer that somebody made for it, with flow
control as its acknowledgements, is only reset. Source: JetStream specification, 8; requests and waiting times
are those of the Go server 2.15.1.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.jetstream.sourcing.reader import SECOND_NS, SourceReader
from headrace.log.port import LARGEST_TIME, StoredMessage
from headrace.protocol.jetstream import headers as block
from headrace.protocol.jetstream.acks import parse_ack
from headrace.protocol.jetstream.configs import AckPolicy, DeliverPolicy
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.foreign import read
from headrace.protocol.jetstream.numbers import Uint64, whole
from headrace.protocol.nuid import short_hash
from headrace.subjects.grammar import is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.core.service import Delivery, Timer

_API: Final = "$JS.API"
_FIRST_ANSWER_S: Final = 3.0
"""Seconds for the first answer, twice as many each time none came: a link that comes up may lose it."""
_ANSWER_S: Final = 30.0
"""The longest wait for an answer, in seconds."""
_RESET_ANSWER_S: Final = 5.0
_DOUBLINGS: Final = 4
_STALLED_S: Final = 10.0
_HEARTBEAT_NS: Final = SECOND_NS
_ACK_WAIT_NS: Final = 22 * 3600 * SECOND_NS
_CONTROL: Final = b"NATS/1.0 100 "
_LAST_CONSUMER: Final = b"Nats-Last-Consumer"
_LAST_STREAM: Final = b"Nats-Last-Stream"
_STALLED: Final = b"Nats-Consumer-Stalled"


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Config(msgspec.Struct):
    deliver_subject: str = ""
    ack_policy: str = ""


class _Delivered(msgspec.Struct):
    stream_seq: Uint64 = 0


class _Answer(msgspec.Struct):
    """The fields of a consumer's creation that are of use here."""

    name: str = ""
    config: _Config | None = None
    delivered: _Delivered = msgspec.field(default_factory=_Delivered)
    error: _Error | None = None


class RemoteSource(SourceReader):
    """Asking, then listening; whatever goes wrong, asking again."""

    _unheard = 0
    _answer_sid = 0
    _sid = 0
    _watch: Timer | None = None
    _consumer = b""
    _delivered = 0

    def start(self) -> None:
        self.stop()
        effects = self.effects
        inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._answer_sid = effects.subscribe(inbox.encode(), self._answered)
        durable = self.origin.source.consumer
        if durable is not None:
            subject = f"CONSUMER.RESET.{self.origin.source.name}.{durable.name}"
            request = b""
        else:
            subject, request = self._request()
        effects.publish(self._prefixed(subject), request, reply=inbox.encode())
        self._wait(self._patience() if durable is None else _RESET_ANSWER_S, self._unanswered)

    def stop(self) -> None:
        super().stop()
        self._stop_watching()
        for sid in (self._answer_sid, self._sid):
            if sid:
                self.effects.unsubscribe(sid)
        self._answer_sid = self._sid = 0

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _wait(self, seconds: float, function: Callable[[], object]) -> None:
        self._stop_watching()
        self._watch = self.effects.later(seconds, function)

    # -- asking ----------------------------------------------------------------------------------------

    def _prefixed(self, subject: str) -> bytes:
        external = self.origin.source.external
        prefix = external.api if external is not None else _API
        return f"{prefix}.{subject}".replace("..", ".").encode()

    def _request(self) -> tuple[str, bytes]:
        """The subject after the prefix, and the request for a consumer."""
        source = self.origin.source
        name = self._consumer_name()
        config: dict[str, object] = {
            "name": name,
            "deliver_subject": self._deliver_subject(),
            "ack_policy": AckPolicy.NONE,
            "ack_wait": _ACK_WAIT_NS,
            "max_deliver": 1,
            "replay_policy": "instant",
            "flow_control": True,
            "idle_heartbeat": _HEARTBEAT_NS,
            "inactive_threshold": int(_STALLED_S) * SECOND_NS,
            "direct": True,
            "sourcing": True,
            "metadata": self._metadata(),
            **self._beginning(),
        }
        subject = f"CONSUMER.CREATE.{source.name}"
        filters = [one.decode() for one in self.origin.filters]
        if len(filters) == 1:
            config["filter_subject"] = filters[0]
            subject += f".{name}.{filters[0]}"
        elif filters:
            config["filter_subjects"] = filters
        return subject, msgspec.json.encode({"stream_name": source.name, "config": config})

    def _consumer_name(self) -> str:
        """Return the name of the consumer at the origin, the same each time; a second source of a stream has
        its own.
        """
        stream = self.stream
        text = f"{stream.name} {self.effects.name}"
        if self.effects.domain:
            text += f" {self.effects.domain}"
        identity = short_hash(text)
        if stream.config.mirror is not None:
            return f"JS_MIRROR_{identity}"
        names = [source.name for source in stream.config.sources]
        if names.count(self.origin.source.name) > 1:
            identity += f" {self.origin.index_name}"
        return f"JS_SRC_{short_hash(identity)}"

    def _deliver_subject(self) -> str:
        kind = "M" if self.stream.config.mirror is not None else "S"
        external = self.origin.source.external
        prefix = external.deliver if external is not None and external.deliver else "$JS"
        return f"{prefix}.{kind}.{secrets.token_hex(4)}".replace("..", ".")

    def _metadata(self) -> dict[str, str]:
        kind = "mirror" if self.stream.config.mirror is not None else "src"
        effects = self.effects
        said = {f"_nats.{kind}.stream": self.stream.name, f"_nats.{kind}.acc": effects.name}
        return said | ({f"_nats.{kind}.domain": effects.domain} if effects.domain else {})

    def _beginning(self) -> dict[str, object]:
        source = self.origin.source
        if self.position:
            start = self.position + 1
            return {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": start}
        if source.opt_start_seq > 0:
            start = source.opt_start_seq
            return {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": start}
        if source.opt_start_time is not None:
            return {"deliver_policy": DeliverPolicy.BY_START_TIME, "opt_start_time": source.opt_start_time}
        return {"deliver_policy": DeliverPolicy.ALL}

    def _unanswered(self) -> None:
        self.say(self.error, "the API does not answer")
        self._unheard += 1
        self.stop()
        self.again()

    def _patience(self) -> float:
        return min(_FIRST_ANSWER_S * (1 << min(self._unheard, _DOUBLINGS)), _ANSWER_S)

    def _ask_again(self) -> None:
        self.stop()
        self.again(failed=True)

    def _answered(self, delivery: Delivery) -> None:
        if delivery.headers.startswith(b"NATS/1.0 503"):
            self.say(self.error, "nobody has such an API")
            self.stop()
            self.again_soon()
            return
        try:
            answer = read(_Answer, delivery.payload)
        except ValueError:
            self.say(ApiError(10025, err="invalid response"), "the answer to its request is not JSON")
            self._ask_again()
            return
        if answer.error is not None or answer.config is None:
            self._declined(answer.error)
            return
        durable = self.origin.source.consumer
        if durable is not None and answer.config.ack_policy != AckPolicy.FLOW_CONTROL:
            error = ApiError(10214 if self.stream.config.mirror is not None else 10217)
            self.say(error, error.description)
            self._ask_again()
            return
        deliver = durable.deliver_subject if durable is not None else answer.config.deliver_subject
        if not is_valid_subject(deliver.encode()):
            self.say(ApiError(10025, err="invalid response"), "the answer to its request names no subject")
            self._ask_again()
            return
        self._listen(answer, deliver)

    def _declined(self, error: _Error | None) -> None:
        reason = ApiError(10029, err="invalid consumer create response")
        if error is not None:
            reason = ApiError(10029, err=error.description)
            reason.code, reason.err_code = error.code, error.err_code
        self.say(reason, reason.description)
        self._ask_again()

    # -- listening -------------------------------------------------------------------------------------

    def _listen(self, answer: _Answer, deliver_subject: str) -> None:
        effects = self.effects
        effects.unsubscribe(self._answer_sid)
        self._answer_sid = 0
        self._stop_watching()
        self.well()
        self._unheard = 0
        self._consumer = answer.name.encode()
        self._delivered = 0
        if answer.delivered.stream_seq > self.position:
            self.pass_over(answer.delivered.stream_seq)
        self.heard()
        self._sid = effects.subscribe(deliver_subject.encode(), self._receive, gathered=True)
        self._wait(_STALLED_S, self._look)

    def _look(self) -> None:
        """Check that something was heard lately: heartbeats come if nothing else does."""
        idle_ns = self.effects.now_ns() - self.heard_ns
        if idle_ns >= _STALLED_S * SECOND_NS:
            self.stop()
            self.start()
        else:
            self._wait(_STALLED_S - idle_ns / SECOND_NS, self._look)

    def _receive(self, run: Iterable[Delivery]) -> None:
        """Messages and signs of life, in order."""
        if not self._sid:
            return
        self.heard()
        waiting: list[StoredMessage] = []
        for delivery in run:
            if not delivery.payload and delivery.headers.startswith(_CONTROL):
                if not self._flush(waiting) or not self._control(delivery):
                    return
                waiting = []
                continue
            place = parse_ack(delivery.reply)
            if place is None or place.consumer != self._consumer or place.deliveries > 1:
                continue  # from a consumer that was there before
            if place.consumer_sequence <= self._delivered:
                continue
            if place.consumer_sequence != self._delivered + 1:
                self._missing(waiting)
                return
            self._delivered += 1
            self.lag = max(place.pending - 1, 0)
            sequence, time_ns = place.stream_sequence, min(place.timestamp_ns, LARGEST_TIME)
            if sequence > (waiting[-1].sequence if waiting else self.position):
                subject, headers = delivery.subject, delivery.headers
                waiting.append(StoredMessage(sequence, time_ns, subject, b"", headers, delivery.payload))
        self._flush(waiting)

    def _flush(self, messages: list[StoredMessage]) -> bool:
        """False when one was refused: then the rest is asked for again."""
        if not messages or self.take(messages):
            return True
        self.stop()
        self.again()
        return False

    def _missing(self, messages: list[StoredMessage]) -> None:
        """Start anew after a message that did not arrive; those before it count."""
        if self._flush(messages):
            self.stop()
            self.again()

    def _control(self, delivery: Delivery) -> bool:
        """A flow control request or a heartbeat; False when it shows that messages are missing."""
        publish = self.effects.publish
        if delivery.reply:
            self._pass_on(delivery.reply)
            return True
        last = whole(block.value(delivery.headers, _LAST_CONSUMER))
        if last and last != self._delivered:
            self._missing([])
            return False
        stalled = block.value(delivery.headers, _STALLED)
        if stalled:
            publish(stalled, b"")
        return True

    def _pass_on(self, reply: bytes) -> None:
        """Answer flow control once what came so far is durable: with some consumers that acknowledges it."""
        stream = self.stream
        numbers = {_LAST_CONSUMER: self._delivered, _LAST_STREAM: self.position}
        headers = block.added(b"", *((name, b"%d" % number) for name, number in numbers.items()))

        def durable(error: Exception | None) -> None:
            if error is None:
                self.effects.publish(reply, b"", headers=headers)

        stream.flush()
        self.effects.commit(stream.log, durable)
