"""Requests about the account itself: its usage and its limits.

Source: JetStream specification, 1 (INFO).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict

from headrace.jetstream.api.request import Endpoint
from headrace.jetstream.limits import NO_ACCOUNT_LIMITS, UNTIERED, AccountLimits, Held, reserved, tier_name
from headrace.protocol.jetstream.configs import Storage
from headrace.protocol.jetstream.levels import API_LEVEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.api.request import Request
    from headrace.jetstream.stream.stream import Stream

_NOTHING: Final = AccountLimits(0, 0, 0, 0, 0, 0, 0)
"""The limits that are shown for all tiers together."""


def info(request: Request) -> None:
    request.answer(account_info(request.account))


def account_info(account: AccountJetStream) -> dict[str, Any]:
    """The fields of INFO's response."""
    tiers = account.quota.tiers.by_name
    streams = list(account.streams.values())
    fields = _usage(streams, tiers.get(UNTIERED) or _NOTHING)
    held, _ = account.quota.held
    fields["memory"], fields["storage"] = held.memory, held.storage
    if account.domain:
        fields["domain"] = account.domain
    counters = account.api_counters
    fields["api"] = {"level": API_LEVEL, "total": counters.total, "errors": counters.errors}
    if UNTIERED not in tiers:
        fields["tiers"] = _tiers(streams, tiers)
    return fields


def _tiers(streams: Sequence[Stream], tiers: dict[str, AccountLimits]) -> dict[str, Any]:
    by_tier: dict[str, list[Stream]] = {name: [] for name in tiers}
    for stream in streams:
        by_tier.setdefault(tier_name(stream.config.num_replicas), []).append(stream)
    return {name: _usage(held, tiers.get(name, NO_ACCOUNT_LIMITS)) for name, held in by_tier.items()}


def _usage(streams: Sequence[Stream], limits: AccountLimits) -> dict[str, Any]:
    held = Held()
    for stream in streams:
        held.add(stream.config.storage, stream.log.size)
    configs = [stream.config for stream in streams]
    return {
        "memory": held.memory,
        "storage": held.storage,
        "reserved_memory": reserved(configs, Storage.MEMORY),
        "reserved_storage": reserved(configs, Storage.FILE),
        "streams": len(streams),
        "consumers": sum(len(stream.consumers) for stream in streams),
        "limits": asdict(limits),
    }


ENDPOINTS: Final = {b"INFO": Endpoint("account_info", info)}
