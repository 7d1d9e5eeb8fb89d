"""JetStream in monitoring: documents that several endpoints show, and the port to JetStream itself.

Here live the documents that `/jsz`, `/varz` and events share. Field names and order are the Go server's; what
single streams and consumers say of themselves comes from the port as the API has it. Never lives here: what
JetStream counts, or how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from headrace.protocol.info import JETSTREAM_API_LEVEL

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from headrace.conf.jetstream_options import JetStreamOptions
    from headrace.server.monitor.archive import ArchiveStats

_NS: Final = 1_000_000_000
_DYNAMIC: Final = ("_nats.ver", "_nats.level")
"""Metadata that replies of the API have, and monitoring does not."""

Document = dict[str, Any]


class ShownStream(Protocol):
    """One stream; `bytes` counts as its state does. `consumers` are the names of those that users see."""

    @property
    def name(self) -> str: ...
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def consumers(self) -> Collection[str]: ...
    @property
    def waiting(self) -> int:
        """Messages received that are not durable yet."""

    def document(self) -> Document:
        """Return the info of the stream as the API has it; empty if the stream was removed meanwhile."""

    def consumer_documents(self, *, direct: bool) -> Sequence[Document]:
        """Return the infos of consumers as the API has them; `direct`: of those for mirrors and sources."""


class ShownAccount(Protocol):
    """One account. `broken`: streams that could not be recovered or not be written to, and why."""

    @property
    def name(self) -> str: ...
    @property
    def memory(self) -> int: ...
    @property
    def storage(self) -> int: ...
    @property
    def api_total(self) -> int: ...
    @property
    def api_errors(self) -> int: ...
    @property
    def streams(self) -> Sequence[ShownStream]: ...
    @property
    def broken(self) -> Mapping[str, str]: ...


class JetStreamStats(Protocol):
    """The statistics of JetStream now.

    Bytes are of messages; `reserved`: what streams were promised by their limits.
    """

    @property
    def store_dir(self) -> str: ...
    @property
    def max_memory(self) -> int: ...
    @property
    def max_storage(self) -> int: ...
    @property
    def memory(self) -> int: ...
    @property
    def storage(self) -> int: ...
    @property
    def reserved_memory(self) -> int: ...
    @property
    def reserved_storage(self) -> int: ...
    @property
    def api_total(self) -> int: ...
    @property
    def api_errors(self) -> int: ...
    @property
    def api_inflight(self) -> int: ...
    @property
    def accounts(self) -> Sequence[ShownAccount]:
        """Return the statistics of all accounts, by name."""

    @property
    def is_leader(self) -> bool:
        """True if this server has the streams; of several with the same bucket one has them."""

    @property
    def trouble(self) -> str:
        """The reason why this server can neither serve nor follow who does; "": it does."""

    @property
    def meta_cluster(self) -> Document | None:
        """The servers that can have the streams, as the Go server shows them; None where no other can."""

    @property
    def archive(self) -> ArchiveStats | None:
        """Return how the archiving of the streams goes; None if they are not archived."""


@runtime_checkable
class JetStreamSource(Protocol):
    """A source of JetStream's statistics. It is called on the event loop and must not block."""

    def stats(self) -> JetStreamStats | None:
        """Return JetStream's statistics; None while its stores are not open yet."""


def configuration(
    options: JetStreamOptions, stats: JetStreamStats, *, shows_directory: bool = True
) -> Document:
    """Return the configuration of JetStream, as monitoring shows it.

    `sync_always` says that what is acknowledged is on disk.
    """
    fields: Document = {
        "max_memory": stats.max_memory,
        "max_storage": stats.max_storage,
        "store_dir": stats.store_dir if shows_directory else "",
        "sync_interval": round(options.sync_interval * _NS) if options.sync != "never" else 0,
        "sync_always": options.sync == "group",
        "domain": options.domain,
        "compress_ok": True,
        "unique_tag": options.unique_tag,
        "strict": options.strict,
    }
    return {name: value for name, value in fields.items() if value or name.startswith("max_")}


def limits(options: JetStreamOptions) -> Document:
    given = options.limits
    fields: Document = {
        "max_request_batch": given.max_request_batch,
        "max_ack_pending": given.max_ack_pending,
        "max_ha_assets": given.max_ha_assets,
        "max_duplicate_window": round(given.duplicate_window * _NS),
        "max_batch_inflight_per_stream": given.max_batch_inflight_per_stream,
        "max_batch_inflight_total": given.max_batch_inflight_total,
        "max_batch_size": given.max_batch_size,
        "max_batch_timeout": round(given.max_batch_timeout * _NS),
        "default_max_consumers": given.max_consumers,
    }
    return {name: value for name, value in fields.items() if value}


def statistics(stats: JetStreamStats) -> Document:
    """The first fields of `/jsz`."""
    api = {"level": JETSTREAM_API_LEVEL, "total": stats.api_total, "errors": stats.api_errors}
    if stats.api_inflight:
        api["inflight"] = stats.api_inflight
    return {
        "memory": stats.memory,
        "storage": stats.storage,
        "reserved_memory": stats.reserved_memory,
        "reserved_storage": stats.reserved_storage,
        "accounts": len(stats.accounts),
        "ha_assets": 0,
        "api": api,
    }


def section(options: JetStreamOptions, stats: JetStreamStats, *, shows_directory: bool = True) -> Document:
    """Return the section of JetStream in `/varz`, and in events, which do not show directories."""
    return {
        "config": configuration(options, stats, shows_directory=shows_directory),
        "stats": statistics(stats),
        **({} if stats.meta_cluster is None else {"meta": stats.meta_cluster}),
        "limits": limits(options),
    }


def configured(document: Document, *, wanted: bool) -> Document:
    """Return the info of a stream or consumer with its configuration as it was given, or without it."""
    fields = {name: value for name, value in document.items() if name != "type"}
    config = fields.get("config")
    if not wanted or not config:
        fields.pop("config", None)
        return fields
    metadata = config.get("metadata", {})
    kept = {name: value for name, value in metadata.items() if name not in _DYNAMIC}
    config = {name: value for name, value in config.items() if name != "metadata"}
    fields["config"] = {**config, **({"metadata": kept} if kept else {})}
    return fields
