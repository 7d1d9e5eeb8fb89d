"""The `streaming` section: names and types of its keys.

Here lives its reading into settings. Never lives here: what becomes of them (`streaming_rules`).
Source: streaming specification, section 10, with the short names that nats-streaming-server takes as well.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from headrace.conf.archive_options import ChannelArchiveOptions
from headrace.conf.fields import UNSET, Field, KeyTable, fields_of, flag, string_of, strings, text
from headrace.conf.problems import shown
from headrace.conf.streaming_options import (
    ChannelLimits,
    NATSServerOptions,
    StoreLimits,
    StreamingOptions,
)
from headrace.conf.streaming_rules import (
    NO_EFFECT,
    OF_CLUSTERS,
    UNSUPPORTED,
    Setting,
    Settings,
    channel_limit,
    is_channel_pattern,
)
from headrace.conf.tree import MapNode, Scalar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.conf.fields import Binder, Bound, Reader, UnsetType
    from headrace.conf.keys import Key, Keyed
    from headrace.conf.tree import Entry


def streaming(binder: Binder, entry: Entry) -> Settings | UnsetType:
    """The whole section."""
    return _settings_of(binder.bind_map(entry, STREAMING))


def read_root(root: MapNode, binder: Binder) -> Settings:
    """The settings of a file that is about streaming alone: its section, or all of its top level.

    What stands beside a section is not used and warned about.
    """
    section = next((entry for key, entry in root.entries.items() if key.lower() == "streaming"), None)
    if section is None:
        return _settings(binder.bind(root, STREAMING))
    for entry in root.entries.values():
        if entry is not section and not entry.used:
            message = f"field {shown(entry.key)} is not used: the server has a configuration file of its own"
            binder.problems.warn(message, entry.position)
    settings = streaming(binder, section)
    return {} if settings is UNSET else settings


def split_root(root: MapNode, server: KeyTable) -> tuple[MapNode, MapNode]:
    """A flat file, apart: what is for the server, and what only streaming knows.

    nats-streaming-server takes its keys from the top level of a file that has no `streaming` section.
    """
    own: dict[str, Entry] = {}
    rest: dict[str, Entry] = {}
    for key, entry in root.entries.items():
        is_ours = STREAMING.knows(key) and not server.knows(key)
        (own if is_ours else rest)[key] = entry
    return replace(root, entries=rest), replace(root, entries=own)


def _setting(read: Reader) -> Reader:
    def reader(binder: Binder, entry: Entry) -> object:
        value = read(binder, entry)
        return UNSET if value is UNSET else Setting(value, entry.key, entry.position)

    return reader


def _settings_of(bound: Bound | UnsetType) -> Settings | UnsetType:
    return UNSET if bound is UNSET else _settings(bound)


def _settings(bound: Bound) -> Settings:
    return cast("Settings", bound.values)


def _block(table: KeyTable) -> Reader:
    return lambda binder, entry: _settings_of(binder.bind_map(entry, table))


def _archive(binder: Binder, entry: Entry) -> Settings | UnsetType:
    """The block `archive`, also when it says nothing, which is a mistake (`streaming_rules`)."""
    settings = _settings_of(binder.bind_map(entry, _ARCHIVE))
    if settings is UNSET:
        return UNSET
    return {"archive": Setting(True, entry.key, entry.position), **settings}


def _cluster(binder: Binder, entry: Entry) -> Settings | UnsetType:
    """The block `cluster`, whose presence says that there is one."""
    settings = _settings_of(binder.bind_map(entry, _CLUSTER))
    if settings is UNSET:
        return UNSET
    return {"clustered": Setting(True, entry.key, entry.position), **settings}


def _given(binder: Binder, entry: Entry) -> bool:
    """A block that is not read, only noticed."""
    return True


def _upper(binder: Binder, entry: Entry) -> str | UnsetType:
    value = text(binder, entry)
    return value if value is UNSET else value.upper()


def _sync(binder: Binder, entry: Entry) -> bool | str | UnsetType:
    node = entry.node
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node.value
    value = string_of(node)
    return binder.wrong_type(entry, "true, false or a string") if value is None else value


def _channels(binder: Binder, entry: Entry) -> dict[str, ChannelLimits] | UnsetType:
    node = entry.node
    if not isinstance(node, MapNode):
        return binder.wrong_type(entry, "a map")
    channels = {}
    for channel in node.entries.values():
        if not is_channel_pattern(channel.key):
            binder.problem(f"invalid channel name {shown(channel.key)}", channel.position)
        bound = binder.bind_map(channel, _CHANNEL)
        if bound is not UNSET:
            limits = {name: channel_limit(value) for name, value in bound.values.items()}
            channels[channel.key] = ChannelLimits(**limits)
    return channels


def _adopt(binder: Binder, entry: Entry) -> dict[str, str] | UnsetType:
    """Channels with the names of their streams; a list names streams as their channels."""
    node = entry.node
    if not isinstance(node, MapNode):
        names = strings(binder, entry)
        return UNSET if names is UNSET else {name: name for name in names}
    streams = {}
    for channel in node.entries.values():
        stream = string_of(channel.node)
        if stream is None:
            binder.wrong_node(f"the stream of channel {shown(channel.key)}", channel.node, "a string")
        else:
            streams[channel.key] = stream
    return streams


def _rows(
    options: type[Keyed] | Mapping[str, Key],
    readers: Mapping[str, Reader] = MappingProxyType({}),
    only: Collection[str] | None = None,
    prefix: str = "",
) -> list[Field]:
    """The rows that read keys into settings, which are called as their options, with a prefix."""
    return [
        replace(row, read=_setting(row.read), option=f"{prefix}{row.option}")
        for row in fields_of(options, readers, only)
    ]


_OF_FILES: Final = ("sync", "sync_interval", "segment_bytes", "compression")
"""The options whose keys are in `file_options`."""
_OF_TLS: Final = ("client_cert", "client_key", "client_ca", "server_name", "skip_verify")
"""The options of a connection whose keys are in `tls`."""
_OF_CLUSTERS: Final = ("node_id",)
"""The options whose keys are in `cluster`."""
_MAPS: Final = ("sql_options",)

_CHANNEL: Final = KeyTable(fields_of(ChannelLimits))
_LIMITS: Final = KeyTable(_rows(StoreLimits, {"channels": _channels}))
_FILE: Final = KeyTable(
    (
        *_rows(StreamingOptions, {"sync": _sync}, _OF_FILES),
        *_rows({name: key for name, key in NO_EFFECT.items() if name != "syslog_name"}),
        *_rows(UNSUPPORTED, only=("slice_archive_script",)),
    )
)
_TLS: Final = KeyTable(_rows(NATSServerOptions, only=_OF_TLS))
_ARCHIVE: Final = KeyTable(_rows(ChannelArchiveOptions, prefix="archive_"))

_CLUSTER: Final = KeyTable(
    (
        *_rows(StreamingOptions, only=_OF_CLUSTERS),
        *_rows(OF_CLUSTERS, {"cluster_peers": strings}),
    )
)

STREAMING: Final = KeyTable(
    (
        *_rows(
            StreamingOptions,
            {"store_type": _upper, "adopt": _adopt},
            StreamingOptions.KEYS.keys() - {*_OF_FILES, *_OF_CLUSTERS},
        ),
        Field(("encrypt",), _setting(flag), text="Encrypt what is stored", kind="true or false"),
        Field(
            ("store_limits", "limits", "storelimits"),
            _block(_LIMITS),
            spreads=True,
            text="Limits of channels; see below",
            kind="map",
        ),
        Field(
            ("file_options", "file"),
            _block(_FILE),
            spreads=True,
            text="Files of a store; see below",
            kind="map",
        ),
        Field(
            ("cluster",),
            _cluster,
            spreads=True,
            text="Be one of several servers that share the `bucket`: one serves, the others stand by",
            kind="map",
        ),
        Field(("archive",), _archive, spreads=True, text="Tables of the channels; see below", kind="map"),
        Field(
            ("nats_server_url", "nats_server", "ns"),
            _setting(text),
            text="NATS server elsewhere that is used; several with commas. What follows says who to be there",
            kind="string",
        ),
        *_rows(NATSServerOptions, only=NATSServerOptions.KEYS.keys() - set(_OF_TLS)),
        Field(("tls",), _block(_TLS), spreads=True, text="Certificates for that; see below", kind="map"),
        *_rows(NO_EFFECT, only=("syslog_name",)),
        *_rows(UNSUPPORTED, dict.fromkeys(_MAPS, _given), _MAPS),
    )
)
