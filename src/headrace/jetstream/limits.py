"""What accounts and the server allow JetStream, as numbers; nothing that judges by them.

Source: JetStream specification, 1 (INFO) and 2.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from headrace.conf.options import JetStreamAccountLimits as AccountLimits
from headrace.jetstream.inflight import BatchLimits
from headrace.limits import MAX_CONSUMERS

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


class ServerSettings(Struct, frozen=True):
    """What JetStream of one server shares: names, and limits that hold for every account; 0 is no limit.

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


class Tiers(Struct, frozen=True):
    """The limits of an account: one set for all, or one for each number of replicas (`R1`, `R3`)."""

    by_name: dict[str, AccountLimits] = field(default_factory=lambda: {UNTIERED: NO_ACCOUNT_LIMITS})

    def select(self, replicas: int) -> tuple[str, AccountLimits] | None:
        """The tier a stream of so many replicas belongs to; None when the account has none for it."""
        if UNTIERED in self.by_name:
            return UNTIERED, self.by_name[UNTIERED]
        name = tier_name(replicas)
        limits = self.by_name.get(name)
        return None if limits is None else (name, limits)


def tier_name(replicas: int) -> str:
    return f"R{max(replicas, 1)}"
