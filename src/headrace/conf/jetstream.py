"""The `jetstream` block, of the server and of an account: names, types and what its values add up to.

Here lives its reading. Never lives here: what is done with it (`headrace.jetstream`).
Source: the Go server 2.15.1. `sync` is ours beside the times it takes: messages are on disk when they are
acknowledged, unless a configuration says otherwise. Keys that concern clusters are read and, as there without
a cluster, change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from headrace.conf.account_options import JetStreamAccountLimits
from headrace.conf.archive_options import StreamArchiveOptions, archive_problems
from headrace.conf.fields import (
    UNSET,
    Field,
    KeyTable,
    duration,
    duration_or_seconds,
    fields_of,
    flag,
    size,
    string_of,
    text,
    values_of,
    whole,
)
from headrace.conf.jetstream_options import JetStreamLimits, JetStreamOptions
from headrace.conf.names import is_valid_subject
from headrace.conf.problems import shown
from headrace.conf.tree import MapNode, Scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.fields import Binder, Bound, UnsetType
    from headrace.conf.problems import Problems
    from headrace.conf.tree import Entry
    from headrace.errors import Position

_WORDS: Final = {"enabled": True, "enable": True, "disabled": False, "disable": False}
_CIPHERS: Final = {"chacha": "CHACHA", "chachapoly": "CHACHA", "aes": "AES"}
_ENCRYPTION: Final = ("encryption_cipher", "encryption_key", "prev_encryption_key")
_POLICIES: Final = ("group", "interval", "never")
_IO_BOUNDS: Final = range(4, 8193)
_NOT_IN_NAMES: Final = frozenset(" \t\r\n\f.*>")
_DEFAULTS: Final = JetStreamOptions()


class JetStreamBlock(Struct, frozen=True):
    """The block of a file: fields of `JetStreamOptions`."""

    enabled: bool
    values: Mapping[str, object]
    positions: Mapping[str, Position]


def jetstream(binder: Binder, entry: Entry) -> JetStreamBlock | UnsetType:
    """The server's block: a truth value, a word, or a map, which enables it unless it says otherwise."""
    simple = _simple(binder, entry)
    if not isinstance(simple, MapNode):
        return simple if simple is UNSET else JetStreamBlock(simple, {}, {})
    bound = binder.bind(simple, _JETSTREAM)
    values = dict(bound.values)
    enabled = cast("bool", values.pop("enabled", True))
    return JetStreamBlock(enabled, values, bound.positions)


def account_jetstream(
    binder: Binder, entry: Entry
) -> Mapping[str, JetStreamAccountLimits] | UnsetType | None:
    """An account's block: its limits under "", which a truth value or a word leaves open. None: it is off."""
    simple = _simple(binder, entry)
    if isinstance(simple, MapNode):
        values = values_of(binder.bind(simple, _ACCOUNT_JETSTREAM), JetStreamAccountLimits)
        return {"": JetStreamAccountLimits(**cast("dict[str, Any]", values))}
    if simple is UNSET:
        return UNSET
    return {"": JetStreamAccountLimits()} if simple else None


def jetstream_options(
    block: JetStreamBlock | None, flags: Mapping[str, object], store_dir: str | None, problems: Problems
) -> JetStreamOptions | None:
    """Combine file and flags into options, None without JetStream; every error goes to `problems`.

    `flags`: by option, with `enabled` beside them; they win over the file. `store_dir`: of the file's top
    level.
    """
    values = dict(block.values) if block is not None else {}
    positions = block.positions if block is not None else {}
    enabled = flags.get("enabled", block is not None and block.enabled)
    if store_dir and values.get("store_dir"):
        problems.add("Duplicate 'store_dir' configuration", positions.get("store_dir"))
    _check_domain(values, positions, problems)
    _check_bucket(values, positions, problems)
    values |= _encryption(values, positions, problems)
    values["store_dir"] = values.get("store_dir") or store_dir or None
    values |= {option: value for option, value in flags.items() if option != "enabled" and value != ""}
    options = JetStreamOptions(**cast("dict[str, Any]", values))
    return _with_defaults(options) if enabled else None


def _with_defaults(options: JetStreamOptions) -> JetStreamOptions:
    """Put defaults in place of values of zero or less."""
    changes: dict[str, Any] = {}
    if options.request_queue_limit <= 0:
        changes["request_queue_limit"] = _DEFAULTS.request_queue_limit
    for name in ("max_memory", "max_storage"):
        if getattr(options, name) < 0:
            changes[name] = -1
    return replace(options, **changes) if changes else options


def _check_domain(
    values: Mapping[str, object], positions: Mapping[str, Position], problems: Problems
) -> None:
    domain = cast("str", values.get("domain", ""))
    if domain and (not _NOT_IN_NAMES.isdisjoint(domain) or not is_valid_subject(f"$JS.{domain}.API")):
        problems.add("invalid domain name: may not contain ., * or >", positions.get("domain"))


def _check_bucket(
    values: Mapping[str, object], positions: Mapping[str, Position], problems: Problems
) -> None:
    """Refuse a second promise of what acknowledged means: with a bucket, its `commit` gives it."""
    if values.get("bucket") is not None and values.get("sync", "group") != "group":
        problems.add(
            "sync_interval cannot stand beside bucket, whose commit says what acknowledged means",
            positions.get("sync"),
            "remove it, or say always",
        )


def _encryption(
    values: Mapping[str, object], positions: Mapping[str, Position], problems: Problems
) -> dict[str, object]:
    cipher, key, previous = (values.get(name) or None for name in _ENCRYPTION)
    if key:
        return dict(zip(_ENCRYPTION, (cipher or "CHACHA", key, previous), strict=True))
    for name, option in (("cipher", "encryption_cipher"), ("prev_key", "prev_encryption_key")):
        if values.get(option):
            problems.warn(f"{name} has no effect: encryption needs a key", positions.get(option))
    return dict.fromkeys(_ENCRYPTION)


# -- readers ------------------------------------------------------------------------------------------


def _simple(binder: Binder, entry: Entry) -> bool | MapNode | UnsetType:
    node = entry.node
    if isinstance(node, MapNode):
        return node
    if isinstance(node, Scalar):
        if isinstance(node.value, bool):
            return node.value
        if isinstance(node.value, str):
            word = _WORDS.get(node.value.lower())
            if word is not None:
                return word
            message = f"expected 'enabled' or 'disabled' for string value, got {shown(node.value)}"
            return binder.problem(message, node.position)
    return binder.wrong_type(entry, 'a map, true or false, "enabled" or "disabled"')


def _absolute(read: Any) -> Any:
    """A number that cannot be negative."""

    def reader(binder: Binder, entry: Entry) -> int | UnsetType:
        value: int | UnsetType = read(binder, entry)
        if value is not UNSET and value < 0:
            return binder.problem(f"field {shown(entry.key)} cannot be negative", entry.node.position)
        return value

    return reader


def _limit(binder: Binder, entry: Entry) -> int | UnsetType:
    """A limit of an account, where every negative number is none."""
    value = whole(binder, entry)
    return value if value is UNSET else max(value, -1)


def _consumers(binder: Binder, entry: Entry) -> int | UnsetType:
    """A limit for which zero is the default."""
    value = _limit(binder, entry)
    return value if value is UNSET or value else _DEFAULTS.limits.max_consumers


def _most(binder: Binder, entry: Entry) -> int | UnsetType:
    """A limit of the server, where zero and every negative number are none."""
    value = whole(binder, entry)
    return value if value is UNSET else max(value, 0)


def _sync(binder: Binder, entry: Entry) -> dict[str, object] | UnsetType:
    """One of our policies, "always", or how often files are synced."""
    word = (string_of(entry.node) or "").lower()
    if word in _POLICIES:
        return {"sync": word}
    if word == "always":
        return {"sync": "group"}
    seconds = duration_or_seconds(binder, entry)
    if seconds is UNSET:
        return UNSET
    if seconds < 0:
        return binder.problem(f"field {shown(entry.key)} cannot be negative", entry.node.position)
    return {"sync": "interval", "sync_interval": seconds or _DEFAULTS.sync_interval}


def _cipher(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    if value is UNSET:
        return UNSET
    if value.lower() not in _CIPHERS:
        return binder.problem(f"unknown cipher type: {shown(value)}", entry.node.position, "aes or chacha")
    return _CIPHERS[value.lower()]


def _tag(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    return value if value is UNSET else value.strip().lower()


def _io(binder: Binder, entry: Entry) -> int | UnsetType:
    value = whole(binder, entry)
    if value is not UNSET and value not in _IO_BOUNDS:
        message = f"field {shown(entry.key)} must lie between {_IO_BOUNDS[0]} and {_IO_BOUNDS[-1]}"
        return binder.problem(message, entry.node.position)
    return value


def _traffic(binder: Binder, entry: Entry) -> str | UnsetType:
    """Read the account in which servers of a cluster replicate; it has no effect without such a cluster."""
    value = text(binder, entry)
    if value is not UNSET and value not in ("", "system", "owner"):
        message = f"field {shown(entry.key)}: expected 'system' or 'owner', got {shown(value)}"
        return binder.problem(message, entry.node.position)
    return value


def _limits(binder: Binder, entry: Entry) -> JetStreamLimits | UnsetType:
    bound = binder.bind_map(entry, _LIMITS)
    if bound is UNSET:
        return UNSET
    return JetStreamLimits(**cast("dict[str, Any]", bound.values))


def _batch(binder: Binder, entry: Entry) -> dict[str, object] | UnsetType:
    bound: Bound | UnsetType = binder.bind_map(entry, _BATCH)
    return UNSET if bound is UNSET else bound.values


def _window(binder: Binder, entry: Entry) -> float | UnsetType:
    value = duration(binder, entry)
    return value if value is UNSET else max(value, 0.0)


def _archive(binder: Binder, entry: Entry) -> StreamArchiveOptions | UnsetType:
    """The tables of the streams."""
    bound = binder.bind_map(entry, _ARCHIVE)
    if bound is UNSET:
        return UNSET
    if not bound.values.get("to"):
        return (
            UNSET
            if "to" in bound.failed
            else binder.problem("archive needs a place for its tables: to", entry.position)
        )
    for option, problem in archive_problems(bound.values):
        binder.problem(f"{option} {problem}", bound.positions[option])
    return StreamArchiveOptions(**cast("dict[str, Any]", bound.values))


_CLUSTERED: Final = "it concerns servers that replicate"
_BUFFERED: Final = "publications do not queue before they are stored"

_BATCH: Final = KeyTable(
    (
        Field(
            ("max_inflight_per_stream",),
            _most,
            option="max_batch_inflight_per_stream",
            text="Batches open at once in one stream",
            kind="integer",
            default="50",
        ),
        Field(
            ("max_inflight_total",),
            _most,
            option="max_batch_inflight_total",
            text="Batches open at once in all streams",
            kind="integer",
            default="1000",
        ),
        Field(
            ("max_msgs",),
            _most,
            option="max_batch_size",
            text="Messages of one batch",
            kind="integer",
            default="1000",
        ),
        Field(
            ("timeout",),
            _window,
            option="max_batch_timeout",
            text="Time after which a batch without its end is given up",
            kind="duration",
            default="10s",
        ),
    )
)
_LIMITS: Final = KeyTable(
    (
        *fields_of(
            JetStreamLimits,
            {
                "max_ack_pending": _most,
                "max_request_batch": _most,
                "duplicate_window": _window,
                "max_consumers": _consumers,
            },
        ),
        Field(
            ("max_ha_assets",),
            _most,
            idle=_CLUSTERED,
            text="Concerns servers that replicate, and is without effect",
            kind="integer",
            default="no limit",
        ),
        Field(("batch",), _batch, spreads=True, text="Atomic batches; see below", kind="map"),
    )
)
_ARCHIVE: Final = KeyTable(fields_of(StreamArchiveOptions))
_JETSTREAM: Final = KeyTable(
    (
        *fields_of(
            JetStreamOptions,
            {
                "max_memory": size,
                "max_storage": size,
                "sync_interval": _sync,
                "encryption_cipher": _cipher,
                "limits": _limits,
            },
        ),
        Field(
            ("enabled", "enable"), flag, text="A map enables JetStream, unless this says no", default="true"
        ),
        Field(("archive",), _archive, text="Tables of the streams; see below", kind="map"),
        Field(
            ("unique_tag",), _tag, idle=_CLUSTERED, text="Shown in `/jsz`; concerns replicas", kind="string"
        ),
        Field(
            ("max_buffered_msgs",),
            whole,
            idle=_BUFFERED,
            binds=False,
            text=(
                "Without effect: publications do not queue before they are stored; above 64 MB that wait "
                "for the disk, publishers wait too"
            ),
        ),
        Field(("max_buffered_size",), size, idle=_BUFFERED, binds=False, text="As above", kind="size"),
        Field(
            ("info_queue_limit",),
            whole,
            idle=_CLUSTERED,
            binds=False,
            text="Concerns servers that replicate, and is without effect, as are those that follow",
        ),
        Field(
            ("max_concurrent_io",),
            _io,
            idle=_CLUSTERED,
            binds=False,
            text="Between 4 and 8192",
            kind="integer",
        ),
        Field(("extension_hint",), text, idle=_CLUSTERED, binds=False, text="`no_extend` or `will_extend`"),
        Field(("max_outstanding_catchup",), size, idle=_CLUSTERED, binds=False, text="Bytes", kind="size"),
        Field(
            ("meta_compact",), _absolute(whole), idle=_CLUSTERED, binds=False, text="Entries", kind="integer"
        ),
        Field(
            ("meta_compact_size",), _absolute(size), idle=_CLUSTERED, binds=False, text="Bytes", kind="size"
        ),
        Field(
            ("meta_compact_sync",),
            flag,
            idle=_CLUSTERED,
            binds=False,
            text="Whether to sync then",
            default="false",
        ),
    ),
    unsupported={"tpm": frozenset()},
)
_ACCOUNT_JETSTREAM: Final = KeyTable(
    (
        *fields_of(JetStreamAccountLimits),
        Field(
            ("cluster_traffic",),
            _traffic,
            idle=_CLUSTERED,
            binds=False,
            text="`system` or `owner`; concerns servers that replicate, and is without effect",
            kind="string",
            default="system",
        ),
    )
)
