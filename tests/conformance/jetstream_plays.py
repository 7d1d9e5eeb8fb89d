"""Scenarios of JetStream, played to the Go server and to Headrace, whose transcripts must be the same.

A scenario is a function that talks through a `Play`; everything that it is told goes into the transcript, in
a form that can be compared: times, made-up names and the server's own names are masked, every other field of
every answer counts, as does its absence. Scenarios wait for messages, statuses and barriers, never for
time; where time is the subject it is short. Never lives here: what a right answer is,
    which the Go server says.
"""

from __future__ import annotations

import base64
import difflib
import itertools
import json
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.jetstream import JetStreamWire, Message
from harness.tallies import note
from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from harness.processes import ServerProcess

Fields: TypeAlias = "dict[str, str] | bytes | None"

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
QUIET: Final = 0.3
"""Seconds without a message after which all is said, where some of what is asked is never answered."""

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)")
_ZERO: Final = "0001-01-01T00:00:00Z"
_NANOSECONDS: Final = re.compile(r"\b1[7-9]\d{17}\b")
_ORIGIN: Final = re.compile(r"(Nats-Stream-Source: .*) [A-Za-z0-9]{8}(?=\r\n)")
_FLOW: Final = re.compile(r"^(\$JS\.FC\.[^.]+\.[^.]+)\..+$")
_MADE: Final = re.compile(r"\b[A-Za-z0-9]{22}\b")
_UNEQUAL: Final = {"total", "errors", "inflight", "rtt"}
"""The counters of an account's `api`: they count what other scenarios did."""
_ORIGINS: Final = {"mirror", "sources"}
_SOON_OTHER: Final = {"lag", "error", "active"}
"""The fields of origins that change with the next attempt to reach them."""
_DURATIONS: Final = {"pause_remaining", "active"}


def masked(value: Any, key: str = "") -> Any:
    """JSON with everything that differs from run to run replaced by its kind."""
    if isinstance(value, dict) and key == "client":  # who asked is not told to services
        return {"acc": value["acc"]}
    if isinstance(value, dict):
        return {
            name: ("<count>" if key == "api" and name in _UNEQUAL else masked(held, name))
            for name, held in value.items()
            if key not in _ORIGINS or name not in _SOON_OTHER
        }
    if isinstance(value, list):
        held = [masked(held, key if key in _ORIGINS else "") for held in value]
        return sorted(held, key=repr) if key in _ORIGINS else held
    if isinstance(value, str):
        return _masked_text(value)
    if isinstance(value, int) and (key == "rtt" or key in _DURATIONS):
        return f"<duration {(value > 0) - (value < 0)}>"
    return value


def _masked_text(value: str) -> str:
    if value.startswith("{"):  # advisories quote requests and responses
        try:
            return _json(masked(json.loads(value)))
        except ValueError:
            return value
    return value if value == _ZERO else _MADE.sub("<id>", _TIME.sub("<time>", value))


def shown(message: Message) -> str:
    """One line for a message."""
    reply = _FLOW.sub(r"\1.<made>", _NANOSECONDS.sub("<ns>", message.reply))
    text = f"{message.subject} reply={reply}" if reply else message.subject
    if message.headers:
        lines = message.headers.decode(errors="backslashreplace").split("\r\n")
        text += " " + " | ".join(_masked_header(line) for line in lines if line)
    if message.payload.startswith(b"{"):
        try:
            return f"{text} {_json(masked(json.loads(message.payload)))}"
        except ValueError:
            pass
    payload = message.payload if len(message.payload) < 200 else b"%d bytes" % len(message.payload)
    return f"{text} {payload.decode(errors='backslashreplace')!r}"


def _masked_header(line: str) -> str:
    name = line.partition(":")[0]
    if name == "Nats-Consumer-Stalled":
        return f"{name}:<flow>"
    return _NANOSECONDS.sub("<ns>", _MADE.sub("<id>", _TIME.sub("<time>", line)))


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


ACCOUNTS: Final = 60
"""Taken in turn. The Go server deletes a stream's files after its answer, and what makes a stream of the same
name in the same account too soon may find them."""
USERS: Final = tuple({"user": f"u{number}", "pass": "p"} for number in range(ACCOUNTS))
CONFIG: Final = "\n".join(
    [
        "accounts {",
        *(
            f"  A{number} {{ jetstream: enabled, users: [{{user: u{number}, password: p}}] }}"
            for number in range(ACCOUNTS)
        ),
        "}",
    ]
)


class Play:
    """One scenario on one server: what it says to it, and the transcript of what it heard."""

    def __init__(self, server: ServerProcess, user: dict[str, str]) -> None:
        self.server = server
        self.wire = JetStreamWire(server, inbox="_INBOX.play", **user)
        self.lines: list[str] = []
        self._masks: dict[str, str] = {self.wire.info["server_id"]: "<server>"}
        self._inboxes = 0

    # -- the transcript

    def say(self, *words: Any) -> None:
        """Adds a line; values that are no text as JSON with masks."""
        text = " ".join(word if isinstance(word, str) else _json(masked(word)) for word in words)
        for name, mask in self._masks.items():
            text = text.replace(name, mask)
        self.lines.append(text)

    def mask(self, made: str, mask: str) -> None:
        """A name that the server made is shown as `mask` from now on."""
        self._masks[made] = mask

    # -- the API

    def quiet(self, verb: str, value: Any = None, fields: Fields = None) -> Any:
        """An API request whose answer is not part of the transcript."""
        return self.wire.api(verb, value, fields)  # type: ignore[arg-type]

    def api(self, verb: str, value: Any = None, fields: Fields = None) -> Any:
        answer = self.quiet(verb, value, fields)
        self.say(verb, "->", answer if isinstance(answer, str) else unpacked(answer))
        return answer

    def unanswered(self, subject: str, payload: Any = b"", fields: Fields = None) -> None:
        """A message to which nothing is said, up to the answer to a request made after it."""
        reply = self.wire.ask(subject, payload, fields)
        self.quiet("INFO")
        self.say(subject, "->", *(shown(message) for message in self.wire.answers(reply)))

    def stream(self, name: str = "S", subjects: Iterable[str] = ("s.>",), **config: Any) -> Any:
        """Makes a stream, in the transcript only if it is refused."""
        answer = self.quiet(f"STREAM.CREATE.{name}", {"name": name, "subjects": [*subjects], **config})
        if "error" in answer:
            self.say("STREAM.CREATE", name, "->", answer)
        return answer

    def consumer(self, name: str = "C", stream: str = "S", **config: Any) -> Any:
        """Makes a durable consumer with explicit acks, in the transcript only if it is refused."""
        config = {"durable_name": name, "ack_policy": "explicit", **config}
        request = {"stream_name": stream, "config": config}
        answer = self.quiet(f"CONSUMER.DURABLE.CREATE.{stream}.{name}", request)
        if "error" in answer:
            self.say("CONSUMER.CREATE", stream, name, "->", answer)
        return answer

    def state(self, stream: str = "S", **request: Any) -> Any:
        """The stream's state into the transcript."""
        answer = self.quiet(f"STREAM.INFO.{stream}", request or None)
        self.say("state of", stream, answer.get("state", answer))
        return answer.get("state")

    def info(self, consumer: str = "C", stream: str = "S") -> Any:
        """What a consumer's info says beside its configuration."""
        answer = self.quiet(f"CONSUMER.INFO.{stream}.{consumer}")
        self.say("info of", consumer, {k: v for k, v in answer.items() if k not in ("config", "type", "ts")})
        return answer

    def read(self, stream: str = "S") -> None:
        """Every message of a stream into the transcript."""
        state = self.quiet(f"STREAM.INFO.{stream}")["state"]
        for sequence in range(state["first_seq"], state["last_seq"] + 1):
            answer = self.quiet(f"STREAM.MSG.GET.{stream}", {"seq": sequence})
            self.say(f"message {sequence}:", unpacked(answer.get("message", answer.get("error", answer))))

    # -- publications

    def publish(self, subject: str, payload: Any = b"", fields: Fields = None) -> Any:
        answer = self.wire.stored(subject, payload, fields)  # type: ignore[arg-type]
        self.say("publish", subject, "->", answer)
        return answer

    def fill(self, count: int, subject: str = "s.a", first: int = 1) -> None:
        """Messages m1, m2, ... that are all stored when this returns."""
        replies = [
            self.wire.ask(subject.replace("#", str(number)), f"m{number}")
            for number in range(first, first + count)
        ]
        for reply in replies:
            assert "seq" in self.wire.answer(reply).json()

    # -- deliveries

    def inbox(self) -> tuple[int, str]:
        """A subscription of its own, and its subject."""
        self._inboxes += 1
        subject = f"in.{self._inboxes}"
        return self.wire.subscribe(subject), subject

    def ask_pull(self, request: Any = None, consumer: str = "C", stream: str = "S") -> int:
        """A pull request without waiting; the subscription that what it gives comes over."""
        sid, subject = self.inbox()
        self.wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", request, reply=subject)
        return sid

    def pull(self, request: Any = None, count: int | None = None, **where: str) -> list[Message]:
        """A pull request and what it gives: `count` messages, or all until a status ends it."""
        sid = self.ask_pull(request, **where)
        return self.take(sid, count)

    def take(self, sid: int, count: int | None = None) -> list[Message]:
        """Messages of a subscription into the transcript: so many, or until a status that is no heartbeat."""
        found: list[Message] = []
        while count is None or len(found) < count:
            message = self.wire.next(sid)
            found.append(message)
            self.say("got", shown(message))
            if count is None and message.status and not message.status.startswith("100"):
                break
        return found

    def waiting(self, count: int, consumer: str = "C", stream: str = "S") -> None:
        """Returns when so many pull requests of a consumer wait, which the Go server takes in when it can."""
        verb = f"CONSUMER.INFO.{stream}.{consumer}"
        wait_until(lambda: self.quiet(verb)["num_waiting"] == count, f"{count} requests wait")

    def settled(self, *sids: int) -> None:
        """What a while without a message leaves in subscriptions, some of which may get none."""
        self.wire.quiet(QUIET)
        for number, sid in enumerate(sids):
            for message in self.wire.taken(sid):
                self.say(f"{number} got", shown(message))

    def until(self, condition: Callable[[Any], bool], verb: str = "STREAM.INFO.S") -> None:
        """Returns when the answer to a request is as wanted."""
        wait_until(lambda: condition(self.quiet(verb)), f"{verb} as wanted")

    def ack(self, message: Message, kind: Any = b"+ACK") -> None:
        """A double ack: what it does is done when this returns."""
        answer = self.wire.request(message.reply, kind)
        if answer.payload or answer.headers:
            self.say("ack", body_text(kind), "->", answer.status)

    # -- advisories

    def listen(self, subject: str = "$JS.EVENT.>") -> int:
        sid = self.wire.subscribe(subject)
        self.wire.sync()
        return sid

    def events(self, sid: int, count: int) -> None:
        """Add so many advisories to the transcript, in the order of their subjects."""
        lines = [shown(message) for message in self.wire.take(sid, count)]
        for line in sorted(lines):
            self.say("event", line)

    # -- its end

    def close(self) -> None:
        """Delete the streams of the scenario, and close its connection."""
        names = self.quiet("STREAM.NAMES")["streams"] or []
        for name in names:
            self.quiet(f"STREAM.DELETE.{name}")
        self.wire.close()


def body_text(kind: Any) -> str:
    return kind.decode() if isinstance(kind, bytes) else str(kind)


def unpacked(answer: Any) -> Any:
    """Return an answer without the type's constant head, and with stored bytes as text."""
    if not isinstance(answer, dict):
        return answer
    unpacked = dict(answer)
    for held in (unpacked, unpacked.get("message")):
        if isinstance(held, dict):
            for name in ("data", "hdrs"):
                if isinstance(held.get(name), str):
                    text = base64.b64decode(held[name]).decode(errors="backslashreplace")
                    held[name] = _ORIGIN.sub(r"\1 <made>", text)
    return unpacked


@dataclass(frozen=True)
class Scenario:
    name: str
    act: Callable[[Play], None]

    def __str__(self) -> str:
        return self.name


class Scenarios:
    """What one file of tests plays."""

    def __init__(self) -> None:
        self.all: list[Scenario] = []

    def add(self, act: Callable[[Play], None]) -> Callable[[Play], None]:
        """A decorator: the function is a scenario of its name."""
        self.all.append(Scenario(act.__name__, act))
        return act

    def row(self, name: str, act: Callable[[Play], None]) -> None:
        self.all.append(Scenario(name, act))


def transcript(scenario: Scenario, server: ServerProcess, user: dict[str, str]) -> list[str]:
    """Plays it; what goes wrong on the way is the last line, to be shown beside the other server's."""
    play = Play(server, user)
    stopped: AssertionError | None = None
    try:
        scenario.act(play)
    except AssertionError as error:
        stopped = error
    except (KeyError, IndexError, TypeError, AttributeError) as error:  # of an answer of another shape
        stopped = AssertionError(repr(error))
    if stopped is not None:
        play.lines.append(f"stopped: {stopped}")
    try:
        play.close()
    except (AssertionError, TypeError, KeyError) as error:
        play.lines.append(f"could not be cleared: {error}")
    return play.lines


_TURNS: Final = itertools.cycle(USERS)


def both(scenario: Scenario, *servers: ServerProcess) -> list[list[str]]:
    """The same on several servers at the same time."""
    found: dict[int, list[str]] = {}
    user = next(_TURNS)

    def play_to(number: int, server: ServerProcess) -> None:
        found[number] = transcript(scenario, server, user)

    threads = [
        threading.Thread(target=play_to, args=(number, server), daemon=True)
        for number, server in enumerate(servers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
    return [found.get(n, ["stopped: it went on for too long"]) for n in range(len(servers))]


def compare(scenario: Scenario, reference: ServerProcess, ours: ServerProcess) -> None:
    """Play a scenario to both.

    Raises: AssertionError with both transcripts, line by line, where they differ.
    """
    wanted, got = both(scenario, reference, ours)
    agreed = judge(
        scenario.name,
        (wanted, got),
        reference=lambda: transcript(scenario, reference, next(_TURNS)),
        ours=lambda: transcript(scenario, ours, next(_TURNS)),
    )
    assert agreed, "a scenario that hears nothing can not fail"
    assert not agreed[-1].startswith(("stopped", "could not")), "\n".join(agreed)


REPEATS: Final = 5
"""Plays of the reference after which it is taken to have only one way to play a scenario."""


def judge(
    name: str,
    first: tuple[list[str], list[str]],
    *,
    reference: Callable[[], list[str]],
    ours: Callable[[], list[str]],
) -> list[str]:
    """Compare the transcripts of a first play, the reference's and ours; gives what both agree on.

    Where they differ the reference plays again. If it differs from itself (the Go server's consumers run
    beside its answers, now and then a step later), we too play again, and one of our plays must be as one of
    its plays; the run counts such scenarios. Raises: AssertionError with the differences.
    """
    wanted, got = first
    if got == wanted:
        return got
    ways = [wanted, *(reference() for _ in range(REPEATS))]
    if any(way != wanted for way in ways):
        note(f"{name}: the Go server differed from itself", 1)
        for _ in range(REPEATS):
            if got in ways:
                return got
            ways.append(reference())
            got = ours()
    if got not in ways:
        raise AssertionError("\n".join([name, *differences(ways[-1], got)]))
    return got


def differences(wanted: list[str], got: list[str]) -> Iterator[str]:
    """Yield both transcripts beside each other: `=` what is the same, shortened, else what each says."""
    matcher = difflib.SequenceMatcher(None, wanted, got, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            yield from (f"= {line[:160]}" for line in wanted[first:last])
        elif last - first == end - start:
            for theirs, ours in zip(wanted[first:last], got[start:end], strict=True):
                yield from _difference(theirs, ours)
        else:
            yield from (f"- {line}" for line in wanted[first:last])
            yield from (f"+ {line}" for line in got[start:end])


def _difference(wanted: str, got: str) -> Iterator[str]:
    """Yield the difference of two lines; of two with JSON only the fields that differ."""
    head, brace, value = wanted.partition("{")
    other_head, other_brace, other = got.partition("{")
    if head == other_head and brace and other_brace:
        try:
            found = [*_fields(json.loads("{" + value), json.loads("{" + other))]
        except ValueError:
            found = []
        if found:
            yield f"! {head}"
            yield from found
            return
    yield f"- {wanted}"
    yield f"+ {got}"


def _fields(wanted: Any, got: Any, where: str = "") -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(got, dict):
        for name in sorted(wanted.keys() | got.keys()):
            yield from _fields(wanted.get(name, "<absent>"), got.get(name, "<absent>"), f"{where}.{name}")
    elif wanted != got:
        yield f"    {where}: wanted {_json(wanted)}, got {_json(got)}"
