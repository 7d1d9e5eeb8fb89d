"""The scenarios and options of loads. Values only: nothing is connected here."""

from __future__ import annotations

import enum
from typing import Final, Literal

from msgspec import Struct, field

from headrace.client.jetstream_api import DEFAULT_PREFIX
from headrace.load.errors import LoadOptionsError
from headrace.subjects.grammar import is_valid_literal, is_valid_subject

DEFAULT_MESSAGES: Final = 100_000
MOST_CLIENTS: Final = 256
"""Clients of one load: each is a process. More are refused."""
MOST_SUBJECTS: Final = 1_000_000
"""Subjects of one load: each client holds them in memory. More are refused."""
MOST_BATCH: Final = 1_000_000
"""Messages on their way, or of one pull, that a client may ask for. More are refused."""
DEFAULT_KEYS: Final = 1000


class Scenario(enum.Enum):
    """The work that a load's clients do; the values are the words of the command."""

    PUB = "pub"
    SUB = "sub"
    REQUEST = "request"
    SERVE = "serve"
    JS_PUB = "js pub"
    JS_CONSUME = "js consume"
    JS_FETCH = "js fetch"
    JS_ORDERED = "js ordered"
    JS_GET = "js get"
    KV_PUT = "kv put"
    KV_GET = "kv get"
    SERVICE = "service"


class Publishing(enum.Enum):
    """The way in which messages get into a stream."""

    SYNC = "sync"
    """One message after the other, each acknowledged."""
    ASYNC = "async"
    """`batch` messages on their way."""
    BATCH = "batch"
    """Atomic batches of `batch` messages, one after the other."""
    FAST = "fast"
    """Fast ingest: acknowledged now and then, as often as the server says."""


WRITES_STREAM: Final = (Scenario.JS_PUB, Scenario.KV_PUT)
READS_STREAM: Final = (
    Scenario.JS_CONSUME,
    Scenario.JS_FETCH,
    Scenario.JS_ORDERED,
    Scenario.JS_GET,
    Scenario.KV_GET,
)
_ONE_BY_ONE: Final = (Scenario.REQUEST, Scenario.SERVICE, Scenario.JS_GET, Scenario.KV_PUT, Scenario.KV_GET)
_ATOMIC_MOST: Final = 1000


class LoadOptions(Struct, frozen=True, kw_only=True):
    """One load. Sizes are in bytes, durations in seconds.

    `messages` is for all clients together, but of `sub` and `js ordered` each gets all; with `duration` they
    end after so long instead. `rate` is messages a second of all clients together; latencies count from when
    one was due then. `batch` is how many may be on their way: requests, publications, or the messages of a
    pull; None means 500, and 1 for what waits for each answer. `subjects` above 1 publishes to
    `<subject>.0`, `<subject>.1` and so on; for key-value it is the number of keys. `partners` are clients
    beside the measured ones that make a load whole: publishers for `sub`, responders for `request` and
    `service`. `create` makes the stream or bucket if it is missing; what was made is removed again without
    `keep`. `timeout` is how long a server may be silent.
    """

    scenario: Scenario
    subject: str = "headrace.bench"
    clients: int = 1
    messages: int = DEFAULT_MESSAGES
    duration: float | None = None
    size: int = 128
    payload: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    batch: int | None = None
    rate: float | None = None
    subjects: int | None = None
    queue: str | None = None
    publishing: Publishing = Publishing.ASYNC
    acknowledge: bool = True
    stream: str = "HEADRACE_BENCH"
    bucket: str = "HEADRACE_BENCH"
    storage: Literal["file", "memory"] = "file"
    replicas: int = 1
    create: bool = False
    purge: bool = False
    keep: bool = False
    partners: int = 0
    api_prefix: str = DEFAULT_PREFIX
    timeout: float = 10.0

    @property
    def is_stored(self) -> bool:
        """True if the load is about a stream or a bucket."""
        return self.scenario in WRITES_STREAM or self.scenario in READS_STREAM

    @property
    def is_key_value(self) -> bool:
        return self.scenario in (Scenario.KV_PUT, Scenario.KV_GET)

    @property
    def window(self) -> int:
        """Messages on their way, or of a pull."""
        if self.batch is not None:
            return self.batch
        if self.scenario is Scenario.JS_PUB and self.publishing is Publishing.SYNC:
            return 1
        return 1 if self.scenario in _ONE_BY_ONE else 500

    @property
    def body(self) -> bytes:
        """The payload of each message."""
        return self.payload if self.payload is not None else bytes(self.size)

    @property
    def stream_name(self) -> str:
        """The name of the stream that is written or read."""
        return f"KV_{self.bucket}" if self.is_key_value else self.stream

    @property
    def subject_names(self) -> list[str]:
        """The subjects of messages, in turn."""
        if self.is_key_value:
            keys = self.subjects if self.subjects is not None else min(DEFAULT_KEYS, max(self.messages, 1))
            return [f"$KV.{self.bucket}.key-{number}" for number in range(keys)]
        if self.subjects is None or self.subjects == 1:
            return [self.subject]
        return [f"{self.subject}.{number}" for number in range(self.subjects)]

    @property
    def subscribed(self) -> str:
        """The subject that takes the messages of all of `subject_names`."""
        return self.subject if (self.subjects or 1) == 1 else f"{self.subject}.*"


def check_options(options: LoadOptions) -> None:
    """Raise LoadOptionsError for the first option that makes no sense."""
    o = options
    _between("clients", o.clients, 1, MOST_CLIENTS)
    _between("messages", o.messages, 1, 1 << 53)
    _between("the size", o.size, 0, 1 << 30)
    _between("subjects", o.subjects if o.subjects is not None else 1, 1, MOST_SUBJECTS)
    _between("the batch", o.window, 1, MOST_BATCH)
    _between("replicas", o.replicas, 1, 5)
    _between("partners", o.partners, 0, MOST_CLIENTS)
    if o.rate is not None and not o.rate > 0:
        raise LoadOptionsError("a rate must be above 0 messages a second")
    if o.duration is not None and not o.duration > 0:
        raise LoadOptionsError("a duration must be longer than 0 seconds")
    _check_subject(o)
    atomic = o.scenario is Scenario.JS_PUB and o.publishing is Publishing.BATCH
    if atomic and o.window > _ATOMIC_MOST:
        raise LoadOptionsError(f"an atomic batch has at most {_ATOMIC_MOST} messages, not {o.window}")
    for name in (o.stream, o.bucket):
        if o.is_stored and (not name or set(name) & set(" \t\r\n.*>/\\")):
            raise LoadOptionsError(f"{name!r} is no name of a stream or bucket")


def _check_subject(o: LoadOptions) -> None:
    if o.is_key_value or o.scenario in READS_STREAM:
        return
    only_receives = o.scenario in (Scenario.SUB, Scenario.SERVE) and not o.partners
    is_fine = is_valid_subject if only_receives else is_valid_literal
    if not is_fine(o.subject.encode()) or set(o.subject) & set(" \t\r\n"):
        raise LoadOptionsError(
            f"{o.subject!r} is no subject to {'subscribe' if only_receives else 'publish'} to"
        )


def _between(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise LoadOptionsError(f"{what}: {value} is not from {least} to {most}")
