"""Reservations: room for a stream in the limits of its account and the server, in streams and bytes.

What streams hold in fact is measured elsewhere. Source: JetStream specification, 1 and 2; nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from headrace.jetstream.limits import UNTIERED, AccountLimits, ServerSettings, Tiers
from headrace.jetstream.stream_configs import StreamConfigs
from headrace.protocol.jetstream.configs import Storage
from headrace.protocol.jetstream.errors import ApiError

if TYPE_CHECKING:
    from headrace.protocol.jetstream.configs import StreamConfig


class StorageRoom(Struct):
    """The room that streams share. `reserved_*`: bytes set aside by `max_bytes` in all accounts."""

    tiers: Tiers = field(default_factory=Tiers)
    settings: ServerSettings = field(default_factory=ServerSettings)
    streams: StreamConfigs = field(default_factory=StreamConfigs)
    """All of the account, the one that is asked about perhaps among them."""
    reserved_memory: int = 0
    reserved_storage: int = 0

    def select(self, replicas: int) -> tuple[str, AccountLimits]:
        """Return the tier for so many replicas, with its limits.

        Raises: ApiError 10120 when the account has none.
        """
        selected = self.tiers.select(replicas)
        if selected is None:
            raise ApiError(10120)
        return selected

    def max_bytes(self, config: StreamConfig) -> tuple[bool, int]:
        """Return whether `max_bytes` must be set, and its largest value; 0 is no limit."""
        selected = self.tiers.select(config.num_replicas)
        if selected is None:
            return False, 0
        limits = selected[1]
        in_memory = config.storage is Storage.MEMORY
        most = limits.memory_max_stream_bytes if in_memory else limits.storage_max_stream_bytes
        return limits.max_bytes_required, most

    def check_number(self, config: StreamConfig) -> None:
        """Check the number of streams. Raises: ApiError when there may be no more."""
        tier, limits = self.select(config.num_replicas)
        replicas = None if tier == UNTIERED else config.num_replicas or 1
        if 0 < limits.max_streams <= self.streams.number(without=config.name, replicas=replicas):
            raise ApiError(10027)

    def check_bytes(self, config: StreamConfig, *, old: StreamConfig | None = None) -> None:
        """Check the bytes that a stream reserves; of a change only the increase counts.

        Raises: ApiError for too many.
        """
        tier, limits = self._select_for_change(config, old)
        if 0 < limits.max_consumers < config.max_consumers:
            raise ApiError(10026)
        taken = sum(
            _scaled(tier, replicas, size)
            for replicas, size in self.streams.reserved(config.storage, without=config.name).items()
            if tier == UNTIERED or replicas == (config.num_replicas or 1)
        )
        if old:
            added = max(max(config.max_bytes, 0) - max(old.max_bytes, 0), 0)
        else:
            added = 1 if config.max_bytes < 0 else config.max_bytes  # -1 too sets something aside
        if old:
            taken += _scaled(tier, config.num_replicas, config.max_bytes - added)
        in_memory = config.storage is Storage.MEMORY
        account_limit = limits.max_memory if in_memory else limits.max_storage
        if account_limit >= 0 and taken + _scaled(tier, config.num_replicas, added) > account_limit:
            raise ApiError(10028 if in_memory else 10047)
        server_limit = self.settings.max_memory if in_memory else self.settings.max_storage
        server_taken = self.reserved_memory if in_memory else self.reserved_storage
        if server_limit and server_taken + added > server_limit:
            raise ApiError(10028 if in_memory else 10047)

    def _select_for_change(self, config: StreamConfig, old: StreamConfig | None) -> tuple[str, AccountLimits]:
        selected = self.tiers.select(config.num_replicas)
        if selected is None and old is not None:
            selected = self.tiers.select(old.num_replicas)
        if selected is None:
            raise ApiError(10120)
        return selected


def _scaled(tier: str, replicas: int, size: int) -> int:
    """Bytes that count: limits of a tier have its replicas in them, the others have not."""
    return max(size, 0) * (max(replicas, 1) if tier == UNTIERED else 1)
