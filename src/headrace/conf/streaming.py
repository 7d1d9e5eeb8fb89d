"""The `streaming` section: names and types of its keys.

Here lives its reading into settings. Never lives here: what becomes of them (`streaming_rules`).
Source: streaming specification, section 10, with the short names that nats-streaming-server takes as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from headrace.conf.fields import UNSET, Field, Table, duration, flag, seconds, string_of, strings, text, whole
from headrace.conf.problems import shown
from headrace.conf.streaming_options import ChannelLimits
from headrace.conf.streaming_rules import Setting, Settings, channel_limit, is_channel_pattern
from headrace.conf.tree import MapNode, Scalar

if TYPE_CHECKING:
    from headrace.conf.fields import Binder, Bound, Reader, UnsetType
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


def split_root(root: MapNode, server: Table) -> tuple[MapNode, MapNode]:
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


def _block(table: Table) -> Reader:
    return lambda binder, entry: _settings_of(binder.bind_map(entry, table))


def _archive(binder: Binder, entry: Entry) -> Settings | UnsetType:
    """The block `archive`, also when it says nothing, which is a mistake (`streaming_rules`)."""
    settings = _settings_of(binder.bind_map(entry, _ARCHIVE))
    if settings is UNSET:
        return UNSET
    return {"archive": Setting(True, entry.key, entry.position), **settings}


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


_SUBSCRIPTIONS: Final = ("max_subscriptions", "max_subs", "maxsubscriptions", "msu")
_MESSAGES: Final = ("max_msgs", "maxmsgs", "max_count", "maxcount", "mm")
_BYTES: Final = ("max_bytes", "maxbytes", "mb")
_AGE: Final = ("max_age", "maxage", "ma")
_INACTIVITY: Final = ("max_inactivity", "maxinactivity", "mi")

_CHANNEL: Final = Table(
    (
        Field(_SUBSCRIPTIONS, whole),
        Field(_MESSAGES, whole),
        Field(_BYTES, whole),
        Field(_AGE, duration),
        Field(_INACTIVITY, duration),
    )
)
_LIMITS: Final = Table(
    (
        Field(("max_channels", "maxchannels", "mc"), _setting(whole)),
        Field(_SUBSCRIPTIONS, _setting(whole)),
        Field(_MESSAGES, _setting(whole)),
        Field(_BYTES, _setting(whole)),
        Field(_AGE, _setting(duration)),
        Field(_INACTIVITY, _setting(duration)),
        Field(
            ("channels", "channels_limits", "channelslimits", "per_channel", "per_channel_limits"),
            _setting(_channels),
        ),
    )
)
_FILE: Final = Table(
    (
        Field(("compact", "compact_enabled"), _setting(flag)),
        Field(("compact_frag", "compact_fragmentation"), _setting(whole)),
        Field(("compact_interval",), _setting(whole)),
        Field(("compact_min_size",), _setting(whole)),
        Field(("buffer_size",), _setting(whole)),
        Field(("read_buffer_size", "file_read_buffer_size"), _setting(whole)),
        Field(("crc", "do_crc"), _setting(flag)),
        Field(("crc_poly",), _setting(whole)),
        Field(("sync", "do_sync", "sync_on_flush"), _setting(_sync)),
        Field(("auto_sync", "file_auto_sync"), _setting(seconds), option="sync_interval"),
        Field(("slice_max_msgs", "slice_max_count", "slice_msgs", "slice_count"), _setting(whole)),
        Field(
            ("slice_max_bytes", "slice_max_size", "slice_bytes", "slice_size"),
            _setting(whole),
            option="segment_bytes",
        ),
        Field(("compression",), _setting(text)),
        Field(("slice_max_age", "slice_age", "slice_max_time", "slice_time_limit"), _setting(duration)),
        Field(("slice_archive_script", "slice_archive", "slice_script"), _setting(text)),
        Field(("file_descriptors_limit", "fds_limit"), _setting(whole), option="fds_limit"),
        Field(("parallel_recovery",), _setting(whole)),
        Field(("truncate_bad_eof",), _setting(flag)),
    )
)
_TLS: Final = Table(
    (
        Field(("client_cert",), _setting(text)),
        Field(("client_key",), _setting(text)),
        Field(("client_ca", "client_cacert"), _setting(text), option="client_ca"),
        Field(("server_name", "server_hostname"), _setting(text)),
        Field(("skip_verify", "insecure"), _setting(flag)),
    )
)
_ARCHIVE: Final = Table(
    (
        Field(("to",), _setting(text), option="archive_to"),
        Field(("interval",), _setting(duration), option="archive_interval"),
        Field(("channels",), _setting(strings), option="archive_channels"),
        Field(("retain",), _setting(text), option="archive_retain"),
        Field(("file_size",), _setting(whole), option="archive_file_size"),
    )
)

STREAMING: Final = Table(
    (
        Field(("cluster_id", "cid", "id"), _setting(text)),
        Field(("discover_prefix",), _setting(text)),
        Field(("store", "store_type", "storetype", "st"), _setting(_upper), option="store_type"),
        Field(("dir", "datastore"), _setting(text), option="directory"),
        Field(("stan_debug", "sd"), _setting(flag)),
        Field(("stan_trace", "sv"), _setting(flag)),
        Field(("nats_server_url", "nats_server", "ns"), _setting(text)),
        Field(("credentials",), _setting(text)),
        Field(("nkey_seed_file",), _setting(text)),
        Field(("username", "user"), _setting(text)),
        Field(("password", "pass"), _setting(text)),
        Field(("token",), _setting(text)),
        Field(("secure",), _setting(flag)),
        Field(("tls",), _block(_TLS), spreads=True),
        Field(("store_limits", "limits", "storelimits"), _block(_LIMITS), spreads=True),
        Field(("file_options", "file"), _block(_FILE), spreads=True),
        Field(("sql_options", "sql"), _setting(_given)),
        Field(("hb_interval", "hbi", "server_to_client_hb_interval"), _setting(duration)),
        Field(("hb_timeout", "hbt", "server_to_client_hb_timeout"), _setting(duration)),
        Field(("hb_fail_count", "hbf", "server_to_client_hb_fail_count"), _setting(whole)),
        Field(("ft_group", "ft_group_name"), _setting(text)),
        Field(("partitioning",), _setting(flag)),
        Field(("cluster",), _setting(_given)),
        Field(("syslog_name",), _setting(text)),
        Field(("encrypt",), _setting(flag)),
        Field(("encryption_cipher",), _setting(text)),
        Field(("encryption_key",), _setting(text)),
        Field(
            (
                *("replace_durable", "replace_durables"),
                *("replace_duplicate_durable", "replace_duplicate_durables"),
            ),
            _setting(flag),
        ),
        Field(("archive",), _archive, spreads=True),
        Field(("adopt",), _setting(_adopt)),
    )
)
