"""Limits of JetStream for accounts and the server, their usage, and whether an account may hold more bytes.

Bytes in use are those of the logs, counted when a stream was touched and not per message. Never here: what an
account may reserve (`stream.reservations`), or the limits of one stream.

Source: JetStream specification, 1 (INFO) and 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct, field

from headrace.conf.account_options import JetStreamAccountLimits as AccountLimits
from headrace.engine.lanes import HeldBytes
from headrace.limits import MAX_CONSUMERS
from headrace.protocol.jetstream.configs import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.jetstream.leadership import Leadership
    from headrace.log.port import MessageLog
    from headrace.protocol.jetstream.configs import Placement, StreamConfig

__all__ = [
    "NO_ACCOUNT_LIMITS",
    "UNTIERED",
    "AccountLimits",
    "ServerSettings",
    "Tiers",
    "tier_name",
]

UNTIERED: Final = ""
"""The tier of an account whose limits do not depend on the number of replicas."""


NO_ACCOUNT_LIMITS: Final = AccountLimits()


class BatchLimits(Struct, frozen=True):
    """Numbers of batches and of messages; `timeout_ns`: how long a batch may be idle."""

    atomic_per_stream: int = 50
    atomic_total: int = 1000
    atomic_messages: int = 1000
    fast_per_stream: int = 1000
    fast_total: int = 50_000
    timeout_ns: int = 10_000_000_000


class Inflight:
    """Batches under way in all streams of a server."""

    def __init__(self, limits: BatchLimits) -> None:
        self.limits = limits
        self.atomic = 0
        self.fast = 0


class ServerSettings(Struct, frozen=True):
    """Settings of JetStream for a whole server: names, and limits that hold for every account; 0 is no limit.

    `max_memory` and `max_storage` are bytes that all accounts share. `duplicate_window` is in ns. `strict`:
    unknown fields of requests are refused.
    """

    server_name: str = ""
    server_id: str = ""
    version: str = "2.15.1"
    domain: str = ""
    strict: bool = True
    max_memory: int = 0
    max_storage: int = 0
    max_ack_pending: int = 0
    max_request_batch: int = 0
    default_max_consumers: int = MAX_CONSUMERS
    duplicate_window: int = 0
    request_queue_limit: int = 10_000
    started_ns: int = 0
    batches: BatchLimits = field(default_factory=BatchLimits)
    leadership: Callable[[], Leadership] | None = None
    """The function that tells which server has the streams, of several; None: it is always this one."""
    hand_over: Callable[[str], bool] | None = None
    """The function that begins to give all streams to another server, if it can to the one of this name ("":
    any), and returns False if there is none; None: no other can have them.
    """

    @property
    def allows_replicas(self) -> bool:
        """True if streams and consumers may ask for several replicas: other servers have them, too."""
        return self.leadership is not None and bool(self.leadership().cluster)

    def is_in(self, placement: Placement | None) -> bool:
        """True if a placement means the cluster of this server, or says nothing of clusters."""
        if placement is None or not placement.cluster:
            return True
        return self.leadership is not None and placement.cluster == self.leadership().cluster


class Tiers(Struct, frozen=True):
    """The limits of an account: one set for all, or one for each number of replicas (`R1`, `R3`)."""

    by_name: dict[str, AccountLimits] = field(default_factory=lambda: {UNTIERED: NO_ACCOUNT_LIMITS})

    def select(self, replicas: int) -> tuple[str, AccountLimits] | None:
        """Return the tier of a stream of so many replicas; None when the account has none for it."""
        if UNTIERED in self.by_name:
            return UNTIERED, self.by_name[UNTIERED]
        name = tier_name(replicas)
        limits = self.by_name.get(name)
        return None if limits is None else (name, limits)


def tier_name(replicas: int) -> str:
    return f"R{max(replicas, 1)}"


class ApiCounters(Struct):
    """Requests since the start; `inflight`: not answered yet."""

    total: int = 0
    errors: int = 0
    inflight: int = 0


class Held(HeldBytes):
    """Bytes of messages, by storage."""

    def add(self, storage: Storage, size: int) -> None:
        if storage is Storage.MEMORY:
            self.memory += size
        else:
            self.storage += size

    def of(self, storage: Storage) -> int:
        return self.memory if storage is Storage.MEMORY else self.storage


class Measured(Protocol):
    """A stream, as far as its bytes go."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> StreamConfig: ...
    @property
    def log(self) -> MessageLog: ...

    measured: int
    """Bytes that it is counted with."""


class Usage(Struct):
    """The bytes that an account holds; `server` is the sum over all accounts."""

    server: Held
    held: Held = field(default_factory=Held)

    def measure(self, stream: Measured) -> None:
        """Count a stream anew. Cheap: no message is read."""
        self._set(stream, stream.log.size)

    def forget(self, stream: Measured) -> None:
        self._set(stream, 0)

    def _set(self, stream: Measured, size: int) -> None:
        change = size - stream.measured
        if change:
            stream.measured = size
            self.held.add(stream.config.storage, change)
            self.server.add(stream.config.storage, change)

    def end(self) -> None:
        """The account is gone from this server: what it holds counts no more."""
        self.server.memory -= self.held.memory
        self.server.storage -= self.held.storage
        self.held = Held()


class Quota:
    """The bytes that the streams of an account hold, and those that they may hold.

    `held`: the bytes of all accounts of the server together.
    """

    def __init__(self, settings: ServerSettings, held: Held, tiers: dict[str, AccountLimits]) -> None:
        self._settings = settings
        self.tiers = Tiers(tiers)
        self.usage = Usage(held)

    @property
    def held(self) -> tuple[Held, Held]:
        """Bytes that the account holds, and all accounts."""
        return self.usage.held, self.usage.server

    def bounds(self, config: StreamConfig) -> tuple[int, int] | None:
        """Bytes that the account may hold in a stream's storage (negative: any), and all accounts (0: any).

        None: the account has no limits for such a stream, and so may not have it.
        """
        tier = self.tiers.select(config.num_replicas)
        if tier is None:
            return None
        _, limits = tier
        if config.storage is Storage.MEMORY:
            return limits.max_memory, self._settings.max_memory
        return limits.max_storage, self._settings.max_storage

    def refusal(self, config: StreamConfig, size: int) -> int:
        """The error that `size` more bytes in a stream are refused with, 0 when there is room.

        The stream may not be there yet.
        """
        bounds = self.bounds(config)
        if bounds is None:
            return 10120
        most, of_server = bounds
        if 0 <= most < self.usage.held.of(config.storage) + size:
            return 10002
        if 0 < of_server < self.usage.server.of(config.storage):
            return 10023
        return 0


def reserved(configs: Iterable[StreamConfig], storage: Storage) -> int:
    """Bytes that streams of a storage may grow to, as far as they are bounded."""
    return sum(one.max_bytes for one in configs if one.storage is storage and one.max_bytes > 0)
