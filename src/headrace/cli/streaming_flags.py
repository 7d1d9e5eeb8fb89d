"""The flags of streaming: those of nats-streaming-server, and what each of them sets.

Here lives the table and the reading of sizes and durations. Never lives here: the server's own flags
(`flags`), what options mean (`headrace.conf.streaming_rules`).

To add a flag: a row in `GROUPS`; its target is `streaming.` and the name of a setting.
Source: streaming specification, section 10.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.cli.arguments import Flag, Kind, UsageError
from headrace.conf.durations import parse_duration
from headrace.conf.literals import LiteralError, meaning
from headrace.conf.problems import shown
from headrace.conf.streaming_rules import NO_EFFECT, UNSUPPORTED, Setting

if TYPE_CHECKING:
    from headrace.cli.arguments import Given

PREFIX: Final = "streaming."
DEBUG_AND_TRACE: Final = "stan_debug+stan_trace"
CONFIG_FILE: Final = "streaming.config_file"

_TEXT, _INTEGER, _SWITCH = Kind.TEXT, Kind.INTEGER, Kind.SWITCH


class Unit(Enum):
    """The unit of a flag's value that is more than a text."""

    SIZE = "size"
    DURATION = "duration"


_UNITS: Final = {unit.value: unit for unit in Unit}


def _flag(names: str, target: str, kind: Kind, explanation: str, placeholder: str = "") -> Flag:
    return Flag(tuple(names.split()), PREFIX + target, kind, explanation, placeholder)


GROUPS: Final[tuple[tuple[str, tuple[Flag, ...]], ...]] = (
    (
        "Streaming",
        (
            _flag("cid cluster_id", "cluster_id", _TEXT, "Cluster ID (default: test-cluster)", "name"),
            _flag("st store", "store_type", _TEXT, "MEMORY or FILE (default: MEMORY)", "type"),
            _flag("dir", "directory", _TEXT, "Directory of a FILE store", "dir"),
            _flag(
                "mc max_channels", "max_channels", _INTEGER, "Channels (default: 100; 0: no limit)", "count"
            ),
            _flag(
                "msu max_subs",
                "max_subscriptions",
                _INTEGER,
                "Subscriptions per channel (default: 1000)",
                "count",
            ),
            _flag("mm max_msgs", "max_msgs", _INTEGER, "Messages per channel (default: 1000000)", "count"),
            _flag(
                "mb max_bytes",
                "max_bytes",
                _TEXT,
                "Bytes per channel, such as 10MB (default: 976.56MB)",
                "size",
            ),
            _flag(
                "ma max_age",
                "max_age",
                _TEXT,
                "How long messages are kept (default: 0s, for ever)",
                "duration",
            ),
            _flag(
                "mi max_inactivity",
                "max_inactivity",
                _TEXT,
                "Delete a channel after so long without use (default: 0s, never)",
                "duration",
            ),
            _flag(
                "hbi hb_interval",
                "hb_interval",
                _TEXT,
                "Between heartbeats to a client (default: 30s)",
                "duration",
            ),
            _flag(
                "hbt hb_timeout",
                "hb_timeout",
                _TEXT,
                "How long to wait for the answer (default: 10s)",
                "duration",
            ),
            _flag(
                "hbf hb_fail_count",
                "hb_fail_count",
                _INTEGER,
                "Close a client after so many failures (default: 10)",
                "count",
            ),
            _flag(
                "replace_durable",
                "replace_durable",
                _SWITCH,
                "Let a second open of a durable replace the first",
            ),
            _flag(
                "sc stan_config",
                "config_file",
                _TEXT,
                "Read streaming's configuration from this file",
                "file",
            ),
            _flag(
                "ns nats_server", "nats_server_url", _TEXT, "Use this NATS server instead of our own", "url"
            ),
        ),
    ),
    (
        "Streaming log",
        (
            _flag("SD stan_debug", "stan_debug", _SWITCH, "Log what helps debugging streaming"),
            _flag("SV stan_trace", "stan_trace", _SWITCH, "Log streaming's protocol"),
            _flag("SDV", DEBUG_AND_TRACE, _SWITCH, "-SD and -SV"),
            _flag("syslog_name", "syslog_name", _TEXT, "Name in the event log of Windows", "name"),
        ),
    ),
    (
        "Streaming store",
        (
            _flag(
                "sync",
                "sync",
                _TEXT,
                "Force to disk by group (before acknowledging; default), interval or never",
                "policy",
            ),
            _flag("file_sync", "sync", _SWITCH, "--sync group; false: --sync interval"),
            _flag("file_auto_sync", "sync_interval", _TEXT, "The interval (default: 1m)", "duration"),
            _flag("file_slice_max_bytes", "segment_bytes", _TEXT, "Bytes per file (default: 64MB)", "size"),
            _flag(
                "encrypt",
                "encrypt",
                _SWITCH,
                "Encrypt what is stored; NATS_STREAMING_ENCRYPTION_KEY has the key",
            ),
            _flag("encryption_cipher", "encryption_cipher", _TEXT, "AES or CHACHA (default: AES)", "name"),
            _flag(
                "encryption_key",
                "encryption_key",
                _TEXT,
                "The key, for all to see in the process list",
                "key",
            ),
            _flag("file_crc", "crc", _SWITCH, "Checksums"),
            _flag("file_crc_poly", "crc_poly", _INTEGER, "Polynomial of the checksum", "number"),
            _flag("file_compact_enabled", "compact", _SWITCH, "Compaction"),
            _flag(
                "file_compact_frag", "compact_frag", _INTEGER, "Compact from this fragmentation", "percent"
            ),
            _flag("file_compact_interval", "compact_interval", _INTEGER, "Between compactions", "seconds"),
            _flag("file_compact_min_size", "compact_min_size", _TEXT, "Compact from this size", "size"),
            _flag("file_buffer_size", "buffer_size", _TEXT, "Buffer for writing", "size"),
            _flag("file_read_buffer_size", "read_buffer_size", _TEXT, "Buffer for reading", "size"),
            _flag("file_slice_max_msgs", "slice_max_msgs", _INTEGER, "Messages per file", "count"),
            _flag(
                "file_compression",
                "compression",
                _TEXT,
                "How what is stored is compressed: none or s2 (default: none)",
                "way",
            ),
            _flag("file_slice_max_age", "slice_max_age", _TEXT, "Age of a file", "duration"),
            _flag(
                "file_slice_archive_script",
                "slice_archive_script",
                _TEXT,
                "Called with removed files",
                "file",
            ),
            _flag("file_fds_limit", "fds_limit", _INTEGER, "Open files", "count"),
            _flag(
                "file_parallel_recovery", "parallel_recovery", _INTEGER, "Channels recovered at once", "count"
            ),
            _flag("file_truncate_bad_eof", "truncate_bad_eof", _SWITCH, "Cut off the torn end of a file"),
            _flag("io_batch_size", "io_batch_size", _INTEGER, "Messages stored together", "count"),
            _flag("io_sleep_time", "io_sleep_time", _INTEGER, "Wait for more to store together", "us"),
            _flag("sql_driver", "sql_driver", _TEXT, "Driver of a SQL store", "name"),
            _flag("sql_source", "sql_source", _TEXT, "Source of a SQL store", "source"),
            _flag("sql_no_caching", "sql_no_caching", _SWITCH, "No cache in front of a SQL store"),
            _flag("sql_max_open_conns", "sql_max_open_conns", _INTEGER, "Connections to it", "count"),
            _flag("sql_bulk_insert_limit", "sql_bulk_insert_limit", _INTEGER, "Messages per insert", "count"),
        ),
    ),
    (
        "Streaming TLS",
        (
            _flag("secure", "secure", _SWITCH, "Reach the NATS server by TLS"),
            _flag("tls_client_key", "client_key", _TEXT, "Private key for that", "file"),
            _flag("tls_client_cert", "client_cert", _TEXT, "Certificate for that", "file"),
            _flag("tls_client_cacert", "client_ca", _TEXT, "Authorities for that", "file"),
        ),
    ),
    (
        "Streaming cluster",
        (
            _flag("clustered", "clustered", _SWITCH, "Be one of a cluster"),
            _flag("cluster_node_id", "cluster_node_id", _TEXT, "Name in it", "name"),
            _flag("cluster_bootstrap", "cluster_bootstrap", _SWITCH, "Begin it"),
            _flag("cluster_peers", "cluster_peers", _TEXT, "Names of the others", "names"),
            _flag("cluster_log_path", "cluster_log_path", _TEXT, "Its log", "dir"),
            _flag("cluster_log_cache_size", "cluster_log_cache_size", _INTEGER, "Entries in memory", "count"),
            _flag("cluster_log_snapshots", "cluster_log_snapshots", _INTEGER, "Snapshots kept", "count"),
            _flag(
                "cluster_trailing_logs", "cluster_trailing_logs", _INTEGER, "Entries kept after one", "count"
            ),
            _flag("cluster_sync", "cluster_sync", _SWITCH, "Sync every entry"),
            _flag("cluster_raft_logging", "cluster_raft_logging", _SWITCH, "Log its protocol"),
            _flag(
                "cluster_allow_add_remove_node",
                "cluster_allow_add_remove_node",
                _SWITCH,
                "Let nodes come and go",
            ),
            _flag(
                "cluster_proceed_on_restore_failure",
                "cluster_proceed_on_restore_failure",
                _SWITCH,
                "Go on without what cannot be restored",
            ),
            _flag("ft_group", "ft_group", _TEXT, "Stand by for another server with the same store", "name"),
        ),
    ),
)


def settings_of(given: Given) -> dict[str, Setting]:
    """Return the settings that one flag makes.

    Raises: UsageError for a value that is no size or duration, in the words of Go's flag package.
    """
    name = f"{'--' if given.name == given.flag.names[-1] else '-'}{given.name}"
    option = given.flag.target.removeprefix(PREFIX)
    if option == DEBUG_AND_TRACE:
        return {one: Setting(given.value, name) for one in option.split("+")}
    value = str(given.value).upper() if option == "store_type" else _in_units(given)
    return {option: Setting(value, name)}


def note_on(flag: Flag) -> str:
    """Return the note of `--help` on a flag that only the reference server uses."""
    option = flag.target.removeprefix(PREFIX)
    if option in UNSUPPORTED:
        return " (not in this version yet)"
    return " (no effect)" if option in NO_EFFECT else ""


def _in_units(given: Given) -> object:
    value, unit = given.value, _UNITS.get(given.flag.placeholder)
    if unit is None or not isinstance(value, str):
        return value
    try:
        return parse_duration(value) if unit is Unit.DURATION else _size(value)
    except ValueError as error:
        raise UsageError(f"invalid value {shown(value)} for flag -{given.name}: {error}") from None


def _size(text: str) -> int:
    """Bytes, written as in a configuration file: 1024, 10KB, 1GB. Raises: ValueError."""
    try:
        value = meaning(text) if text else ""
    except LiteralError:
        value = text
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("a size is expected, such as 1024, 10KB or 1GB")
    return value
