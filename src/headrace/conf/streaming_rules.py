"""NATS Streaming's options in the making: what section and flags say, and the rules between them.

Here lives the merging of settings, their bounds, and what becomes of options that have no meaning for this
server: one that would give less than its operator asked for (SQL stores, archive scripts) ends the start; a
tuning knob of the reference's files or of its Raft that has no counterpart is named in one warning.
Never lives here: reading of the section (`streaming`) and of arguments (`headrace.cli`).
Source: streaming specification, sections 7, 8 and 10.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct, field

from headrace.conf.archive_options import ChannelArchiveOptions, archive_problems
from headrace.conf.keys import Flag, Key
from headrace.conf.names import is_valid_subject
from headrace.conf.problems import shown
from headrace.conf.streaming_options import NATSServerOptions, StoreLimits, StreamingOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.problems import Problems
    from headrace.errors import Position

ENCRYPTION_KEY_VARIABLE: Final = "NATS_STREAMING_ENCRYPTION_KEY"
"""Environment variable with the key; it wins over file and flag."""

_CLUSTER_ID: Final = r"[a-zA-Z0-9_-]+"
_NAMES: Final = "only alphanumeric and `-` or `_` are allowed"
SYNC_POLICIES: Final = ("group", "interval", "never")
LONGEST_SHARED_ID: Final = 54
"""Characters of a cluster ID whose channels are in a bucket: it is part of the name that they have there."""
COMPRESSIONS: Final = ("none", "s2")
STORES: Final = ("MEMORY", "FILE")
CIPHERS: Final = {"AES": "AES", "CHACHA": "CHACHA", "CHACHA20": "CHACHA"}

_NOT_IN_STREAMS: Final = frozenset(" \t\r\n\f.*>/\\")
_INT64_MAX: Final = (1 << 63) - 1
MIN_SEGMENT_BYTES: Final = 64 << 10
MAX_SEGMENT_BYTES: Final = 1 << 30
"""Bounds of a segment of the log; what lies outside is brought inside, with a warning."""


class Setting(Struct, frozen=True):
    """A value, under which name it was given, and where."""

    value: object
    name: str
    position: Position | None = None


Settings = dict[str, Setting]
"""The rows by option: a field of `StreamingOptions`, or a key of `FOREIGN` or `_RAW`."""


class StreamingFlags(Struct, frozen=True):
    """The flags of a command line about streaming.

    `enabled`: True runs it even without a section, False does not even with one, None leaves it to the file.
    `config_file`: read the section from this file instead of the server's. `flat`: in a file without a
    section, keys of streaming may stand at the top level, as for nats-streaming-server.
    """

    enabled: bool | None = None
    config_file: str | None = None
    flat: bool = False
    settings: Mapping[str, Setting] = field(default_factory=dict)


_OFF: Final[frozenset[object]] = frozenset((False,))
_EMPTY: Final[frozenset[object]] = frozenset(("",))
_ZERO: Final[frozenset[object]] = frozenset((0,))
_NEVER: Final[frozenset[object]] = frozenset()


class ForeignSetting(Key, frozen=True):
    """The entry of a setting of nats-streaming-server that has no counterpart here.

    `agrees`: the values that ask for nothing. `why`: the reason why there is none.
    """

    agrees: frozenset[object] = _NEVER
    why: str = ""


def _foreign(
    default: object,
    flag: tuple[str, str, str],
    agrees: frozenset[object],
    why: str = "",
    *,
    name: str | None = None,
    aliases: tuple[str, ...] = (),
    group: str = "Streaming store",
) -> ForeignSetting:
    """The entry of a setting that is a flag, and a key where it has a name ("": the setting's).

    `flag`: name, value and text.
    """
    flag_name, value, text = flag
    return ForeignSetting(
        default,
        f"Without effect: {why}" if why else f"Not there: {text}",
        name=name,
        aliases=aliases,
        shown_default="",
        flag=Flag((flag_name,), value, text, group),
        agrees=agrees,
        why=why,
    )


UNSUPPORTED: Final[dict[str, ForeignSetting]] = {
    "sql_options": ForeignSetting(
        None, "Not there: stores in databases", "map", aliases=("sql",), shown_default=""
    ),
    "sql_driver": _foreign("", ("sql_driver", "name", "Driver of a SQL store"), _EMPTY),
    "sql_source": _foreign("", ("sql_source", "source", "Source of a SQL store"), _EMPTY),
    "sql_no_caching": _foreign(False, ("sql_no_caching", "", "No cache in front of a SQL store"), _OFF),
    "sql_max_open_conns": _foreign(0, ("sql_max_open_conns", "count", "Connections to it"), _ZERO),
    "sql_bulk_insert_limit": _foreign(0, ("sql_bulk_insert_limit", "count", "Messages per insert"), _ZERO),
    "slice_archive_script": ForeignSetting(
        "",
        "Not there: messages would be removed without having been archived",
        aliases=("slice_archive", "slice_script"),
        flag=Flag(("file_slice_archive_script",), "file", "Called with removed files", "Streaming store"),
        agrees=_EMPTY,
        why="messages would be removed without having been archived",
    ),
}
"""Settings that this version lacks; one that asks for something ends the start."""

_IN_PROCESS: Final = "streaming runs inside the server and needs no connection to it"
_COMPACTION: Final = "the log gives space back by segment and is never rewritten"
_BUFFERS: Final = "the log chooses its buffers itself"
_BY_SIZE: Final = "segments end by size, see slice_max_bytes"
_TOGETHER: Final = "messages that arrive together are stored together"
_CUT_OFF: Final = "a torn end of the log is always cut off, and reported"

NO_EFFECT: Final[dict[str, ForeignSetting]] = {
    "crc": _foreign(
        False,
        ("file_crc", "", "Checksums"),
        frozenset((True,)),
        "every record has a checksum",
        name="",
        aliases=("do_crc",),
    ),
    "crc_poly": _foreign(
        0,
        ("file_crc_poly", "number", "Polynomial of the checksum"),
        _NEVER,
        "the log has its own checksum",
        name="",
    ),
    "compact": _foreign(
        False,
        ("file_compact_enabled", "", "Compaction"),
        _NEVER,
        _COMPACTION,
        name="",
        aliases=("compact_enabled",),
    ),
    "compact_frag": _foreign(
        0,
        ("file_compact_frag", "percent", "Compact from this fragmentation"),
        _NEVER,
        _COMPACTION,
        name="",
        aliases=("compact_fragmentation",),
    ),
    "compact_interval": _foreign(
        0, ("file_compact_interval", "seconds", "Between compactions"), _NEVER, _COMPACTION, name=""
    ),
    "compact_min_size": _foreign(
        0, ("file_compact_min_size", "size", "Compact from this size"), _NEVER, _COMPACTION, name=""
    ),
    "buffer_size": _foreign(0, ("file_buffer_size", "size", "Buffer for writing"), _NEVER, _BUFFERS, name=""),
    "read_buffer_size": _foreign(
        0,
        ("file_read_buffer_size", "size", "Buffer for reading"),
        _NEVER,
        _BUFFERS,
        name="",
        aliases=("file_read_buffer_size",),
    ),
    "slice_max_msgs": _foreign(
        0,
        ("file_slice_max_msgs", "count", "Messages per file"),
        _ZERO,
        _BY_SIZE,
        name="",
        aliases=("slice_max_count", "slice_msgs", "slice_count"),
    ),
    "slice_max_age": _foreign(
        0.0,
        ("file_slice_max_age", "duration", "Age of a file"),
        frozenset((0.0,)),
        _BY_SIZE,
        name="",
        aliases=("slice_age", "slice_max_time", "slice_time_limit"),
    ),
    "fds_limit": _foreign(
        0,
        ("file_fds_limit", "count", "Open files"),
        frozenset((0, -1)),
        "the log opens few files",
        name="file_descriptors_limit",
        aliases=("fds_limit",),
    ),
    "parallel_recovery": _foreign(
        0,
        ("file_parallel_recovery", "count", "Channels recovered at once"),
        frozenset((1,)),
        "channels are recovered one after another",
        name="",
    ),
    "truncate_bad_eof": _foreign(
        False,
        ("file_truncate_bad_eof", "", "Cut off the torn end of a file"),
        frozenset((True,)),
        _CUT_OFF,
        name="",
    ),
    "io_batch_size": _foreign(0, ("io_batch_size", "count", "Messages stored together"), _NEVER, _TOGETHER),
    "io_sleep_time": _foreign(
        0, ("io_sleep_time", "us", "Wait for more to store together"), _ZERO, _TOGETHER
    ),
    "syslog_name": _foreign(
        "",
        ("syslog_name", "name", "Name in the event log of Windows"),
        _EMPTY,
        "there is no Windows event log",
        name="",
        group="Streaming log",
    ),
}
"""Settings that change nothing, as what they ask for happens anyway or has no meaning here."""

_MEET: Final = "servers with the same bucket find each other there"
_NO_RAFT: Final = "the bucket has the channels and says who serves them, there is no Raft"


def _clustered(
    default: object,
    name: str,
    flag: tuple[str, str],
    agrees: frozenset[object],
    why: str = _NO_RAFT,
    *,
    kind: str = "",
) -> ForeignSetting:
    """The entry of a setting of the block `cluster`. `flag`: value and text."""
    return ForeignSetting(
        default,
        f"Without effect: {why}",
        kind,
        name=name,
        shown_default="",
        flag=Flag((f"cluster_{name}",), *flag, "Streaming cluster"),
        agrees=agrees,
        why=why,
    )


def _tuned(default: object, name: str) -> ForeignSetting:
    """The entry of a setting of the block `cluster` that is no flag."""
    return ForeignSetting(default, f"Without effect: {_NO_RAFT}", name=name, shown_default="", why=_NO_RAFT)


OF_CLUSTERS: Final[dict[str, ForeignSetting]] = {
    "cluster_bootstrap": _clustered(False, "bootstrap", ("", "Begin a cluster"), _OFF, _MEET),
    "cluster_peers": _clustered(
        "",
        "peers",
        ("names", "Names of the others"),
        frozenset(("", ())),
        _MEET,
        kind="list",
    ),
    "cluster_log_path": _clustered("", "log_path", ("dir", "Log of a cluster"), _EMPTY),
    "cluster_log_cache_size": _clustered(
        0, "log_cache_size", ("count", "Entries in memory"), frozenset((512,))
    ),
    "cluster_log_snapshots": _clustered(0, "log_snapshots", ("count", "Snapshots kept"), frozenset((2,))),
    "cluster_trailing_logs": _clustered(0, "trailing_logs", ("count", "Entries kept after one"), _NEVER),
    "cluster_sync": _clustered(
        False,
        "sync",
        ("", "Sync every entry"),
        frozenset((True, False)),
        "what is acknowledged is in the bucket",
    ),
    "cluster_raft_logging": _clustered(False, "raft_logging", ("", "Log its protocol"), _OFF),
    "cluster_allow_add_remove_node": _clustered(
        False, "allow_add_remove_node", ("", "Let servers come and go"), _OFF, _MEET
    ),
    "cluster_proceed_on_restore_failure": _clustered(
        False,
        "proceed_on_restore_failure",
        ("", "Go on without what cannot be restored"),
        _OFF,
    ),
    "cluster_raft_heartbeat_timeout": _tuned(0.0, "raft_heartbeat_timeout"),
    "cluster_raft_election_timeout": _tuned(0.0, "raft_election_timeout"),
    "cluster_raft_lease_timeout": _tuned(0.0, "raft_lease_timeout"),
    "cluster_raft_commit_timeout": _tuned(0.0, "raft_commit_timeout"),
    "cluster_bolt_free_list_sync": _tuned(False, "bolt_free_list_sync"),
    "cluster_bolt_free_list_map": _tuned(False, "bolt_free_list_map"),
    "cluster_nodes_connections": _tuned(False, "nodes_connections"),
}
"""Settings of a cluster of nats-streaming-server that change nothing."""

FOREIGN: Final = {**UNSUPPORTED, **NO_EFFECT, **OF_CLUSTERS}

_CONNECTION: Final = {
    option: _OFF if key.default is False else _EMPTY for option, key in NATSServerOptions.KEYS.items()
}
"""Settings of the connection to a NATS server elsewhere, with the values that ask for nothing."""

_WAYS_IN: Final = ("credentials", "nkey_seed_file", "username", "token")

_ARCHIVE: Final = frozenset(f"archive_{name}" for name in ChannelArchiveOptions.__struct_fields__)
_RAW: Final = (
    frozenset(
        (
            "sync",
            "sync_interval",
            "encrypt",
            "encryption_cipher",
            "encryption_key",
            "nats_server_url",
            "archive",
        )
    )
    | frozenset(_CONNECTION)
    | _ARCHIVE
)
_LIMITS: Final = tuple(name for name in StoreLimits.KEYS if name != "channels")


def streaming_options(
    settings: Mapping[str, Setting], problems: Problems, environ: Mapping[str, str]
) -> StreamingOptions:
    """The finished options; everything wrong with them goes to `problems`."""
    _report_what_is_missing(settings, problems)
    plain = {
        name: setting.value for name, setting in settings.items() if name not in FOREIGN and name not in _RAW
    }
    if "segment_bytes" in settings:
        plain["segment_bytes"] = _segment_bytes(settings["segment_bytes"], problems)
    if "compression" in plain:
        plain["compression"] = str(plain["compression"]).lower()
    if plain.get("ft_group") == "":
        del plain["ft_group"]
    limits = {name: plain.pop(name) for name in (*_LIMITS, "channels") if name in plain}
    plain["limits"] = StoreLimits(**cast("dict[str, Any]", limits))
    plain |= _sync(settings, problems)
    plain |= _encryption(settings, problems, environ)
    plain |= _bucket(settings, problems)
    plain["nats_server"] = _nats_server(settings, problems)
    plain["archive"] = _archive(settings, problems)
    options = StreamingOptions(**cast("dict[str, Any]", plain))
    _check(options, _Report(settings, problems))
    return options


def _report_what_is_missing(settings: Mapping[str, Setting], problems: Problems) -> None:
    for option, setting in settings.items():
        foreign = FOREIGN.get(option)
        if foreign is None or _is_among(setting.value, foreign.agrees):
            continue
        if option not in UNSUPPORTED:
            problems.warn(f"{setting.name} has no effect: {foreign.why}", setting.position)
        else:
            reason = f": {foreign.why}" if foreign.why else ""
            problems.add(f"{setting.name} is not supported by this version{reason}", setting.position)


def _is_among(value: object, values: frozenset[object]) -> bool:
    # 0 == False in Python, so types are compared as well.
    return any(type(value) is type(known) and value == known for known in values)


def _sync(settings: Mapping[str, Setting], problems: Problems) -> dict[str, object]:
    """The policy. The reference's switch means: before an acknowledgement, or by `auto_sync` in between."""
    options: dict[str, object] = {}
    interval = settings.get("sync_interval")
    if interval is not None:
        options["sync_interval"] = interval.value
    given = settings.get("sync")
    automatic = cast("float", interval.value) if interval is not None else StreamingOptions().sync_interval
    if given is None or given.value is True:
        policy = "group"
    elif given.value is False:
        policy = "interval" if automatic > 0 else "never"
    else:
        policy = str(given.value).lower()
        if policy not in SYNC_POLICIES:
            message = (
                f"{given.name} cannot be {shown(str(given.value))}: {', '.join(SYNC_POLICIES)} are known"
            )
            problems.add(message, given.position)
    if policy == "interval" and automatic <= 0:
        where = interval or given
        problems.add("sync: interval needs an auto_sync above 0", where.position if where else None)
    return {**options, "sync": policy}


def _segment_bytes(setting: Setting, problems: Problems) -> int:
    """The reference takes any size of a slice, and 0 for "not by size"; our segments have bounds."""
    given = cast("int", setting.value)
    size = min(max(given, MIN_SEGMENT_BYTES), MAX_SEGMENT_BYTES) if given > 0 else MAX_SEGMENT_BYTES
    if size != given:
        problems.warn(
            f"{setting.name} of {given} is outside of what segments may have: {size} is used",
            setting.position,
        )
    return size


def _encryption(
    settings: Mapping[str, Setting], problems: Problems, environ: Mapping[str, str]
) -> dict[str, object]:
    """Cipher and key, where encryption is asked for by its switch or, without the switch, by a key."""
    encrypt, cipher, key = (settings.get(f"encrypt{end}") for end in ("", "ion_cipher", "ion_key"))
    secret = environ.get(ENCRYPTION_KEY_VARIABLE) or ""
    if not (encrypt.value if encrypt else key is not None and key.value):
        if secret or cipher is not None:
            what = cipher.name if cipher is not None else ENCRYPTION_KEY_VARIABLE
            problems.warn(f"{what} has no effect: encryption is not on", cipher.position if cipher else None)
        return {}
    name = str(cipher.value).upper() if cipher is not None and cipher.value else "AES"
    if cipher is not None and name not in CIPHERS:
        message = f"{cipher.name} cannot be {shown(str(cipher.value))}: AES and CHACHA are known"
        problems.add(message, cipher.position)
    secret = secret or (str(key.value) if key is not None else "")
    if not secret:
        message = f"encryption needs a key: set {ENCRYPTION_KEY_VARIABLE}"
        problems.add(message, encrypt.position if encrypt is not None else None)
    return {"encryption_cipher": CIPHERS.get(name), "encryption_key": secret}


def _bucket(settings: Mapping[str, Setting], problems: Problems) -> dict[str, object]:
    """The bucket of a flag, which is a URL; that of a file is read there."""
    given = settings.get("bucket")
    if given is None or not isinstance(given.value, str):
        return {}
    from headrace.conf.bucket import url_problem
    from headrace.conf.bucket_options import BucketOptions

    problem = url_problem(given.value)
    if problem is not None:
        problems.add(problem, given.position)
    return {"bucket": BucketOptions(given.value.rstrip("/"))}


def _nats_server(settings: Mapping[str, Setting], problems: Problems) -> NATSServerOptions | None:
    """Return the address of the NATS server and the credentials for it; None if streaming runs inside our
    own.
    """
    given = {
        option: settings[option]
        for option, nothing in _CONNECTION.items()
        if option in settings and not _is_among(settings[option].value, nothing)
    }
    url = settings.get("nats_server_url")
    if url is None or not str(url.value).strip():
        for setting in given.values():
            problems.warn(f"{setting.name} has no effect: {_IN_PROCESS}", setting.position)
        return None
    ways = [given[option] for option in _WAYS_IN if option in given]
    for way in ways[1:]:
        problems.add(f"{way.name} and {ways[0].name} exclude each other", way.position)
    if "password" in given and "username" not in given:
        setting = given["password"]
        problems.add(f"{setting.name} needs a username", setting.position)
    for one, other in (("client_cert", "client_key"), ("client_key", "client_cert")):
        if one in given and other not in given:
            problems.add(f"{given[one].name} needs {other} beside it", given[one].position)
    values = {option: setting.value for option, setting in given.items()}
    return NATSServerOptions(url=str(url.value), **cast("dict[str, Any]", values))


def _archive(settings: Mapping[str, Setting], problems: Problems) -> ChannelArchiveOptions | None:
    """The tables that the server makes of its channels; None: none."""
    if "archive" not in settings:
        return None
    given = {name.removeprefix("archive_"): one for name, one in settings.items() if name in _ARCHIVE}
    if "to" not in given or not given["to"].value:
        problems.add("archive needs a place for its tables: to", settings["archive"].position)
        return None
    values = {option: setting.value for option, setting in given.items()}
    for option, problem in archive_problems(values):
        problems.add(f"{given[option].name} {problem}", given[option].position)
    if "channels" in given:
        for channel in cast("tuple[str, ...]", given["channels"].value):
            if not is_valid_subject(channel):
                problems.add(f"invalid channel name {shown(channel)}", given["channels"].position)
    return ChannelArchiveOptions(**cast("dict[str, Any]", values))


class _Report:
    """Problems under the names that the settings were given by."""

    def __init__(self, settings: Mapping[str, Setting], problems: Problems) -> None:
        self._settings = settings
        self._problems = problems

    def name(self, option: str) -> str:
        return self._settings[option].name if option in self._settings else option

    def __call__(self, message: str, option: str, *, warns: bool = False) -> None:
        setting = self._settings.get(option)
        add = self._problems.warn if warns else self._problems.add
        add(message, setting.position if setting is not None else None)


def _check(options: StreamingOptions, report: _Report) -> None:
    if not re.fullmatch(_CLUSTER_ID, options.cluster_id):
        message = f"invalid {report.name('cluster_id')} {shown(options.cluster_id)}: {_NAMES}"
        report(message, "cluster_id")
    prefix = options.discover_prefix
    if not is_valid_subject(prefix) or _has_wildcard(prefix):
        report(f"{report.name('discover_prefix')} {shown(prefix)} cannot begin a subject", "discover_prefix")
    for option in ("hb_interval", "hb_timeout"):
        if getattr(options, option) <= 0:
            report(f"{report.name(option)} must be more than 0", option)
    if options.hb_fail_count < 0:
        report(f"{report.name('hb_fail_count')} cannot be negative", "hb_fail_count")
    if options.compression not in COMPRESSIONS:
        known = ", ".join(COMPRESSIONS)
        report(
            f"{report.name('compression')} cannot be {shown(options.compression)}: {known} are known",
            "compression",
        )
    _check_store(options, report)
    _check_limits(options.limits, report)
    if options.ft_group is not None:
        if not re.fullmatch(_CLUSTER_ID, options.ft_group):
            message = f"invalid {report.name('ft_group')} {shown(options.ft_group)}: {_NAMES}"
            report(message, "ft_group")
        if options.store_type != "FILE":
            report("fault tolerance needs a FILE store that its servers share", "ft_group")
    _check_adopted(options, report)
    _check_bucket(options, report)
    _check_clustered(options, report)
    if options.partitioning and not options.limits.channels:
        report("stan: no configured channel", "partitioning")


def _check_adopted(options: StreamingOptions, report: _Report) -> None:
    if not options.adopt:
        return
    for channel, stream in options.adopt.items():
        if not is_channel_pattern(channel) or _has_wildcard(channel):
            report(f"adopt: invalid channel name {shown(channel)}", "adopt")
        if not stream or not _NOT_IN_STREAMS.isdisjoint(stream):
            report(f"adopt: {shown(stream)} cannot be a stream's name: choose one for the channel", "adopt")
    if len(set(options.adopt.values())) < len(options.adopt):
        report("adopt: a stream can have the messages of one channel", "adopt")
    if options.store_type != "FILE" or options.ft_group is not None or options.nats_server is not None:
        report("adopt needs a FILE store of this server alone", "adopt")


def _check_bucket(options: StreamingOptions, report: _Report) -> None:
    if options.bucket is None:
        return
    if options.store_type != "FILE":
        report("bucket needs a FILE store, whose directory has a copy of it", "bucket")
    if len(options.cluster_id) > LONGEST_SHARED_ID:
        name = report.name("cluster_id")
        report(f"{name} can have {LONGEST_SHARED_ID} characters where there is a bucket", "cluster_id")
    if options.sync != "group":
        name = report.name("sync")
        report(f"{name} cannot stand beside bucket, whose commit says what acknowledged means", "sync")
    if options.adopt:
        report("adopt cannot stand beside bucket: channel and stream would have two owners", "adopt")
    if options.partitioning:
        report("partitioning cannot stand beside bucket: its channels have one owner", "partitioning")


def _check_clustered(options: StreamingOptions, report: _Report) -> None:
    if not options.clustered:
        return
    name = report.name("clustered")
    if options.bucket is None:
        example = 'bucket: "s3://name/prefix"'
        report(f"{name} needs a bucket that all servers have: set {example} in streaming", "clustered")
    if options.ft_group is not None:
        report(f"{report.name('ft_group')} and {name} exclude each other", "ft_group")


def _check_store(options: StreamingOptions, report: _Report) -> None:
    if options.store_type not in STORES:
        what = "is not supported by this version" if options.store_type == "SQL" else "is unknown"
        report(f"store type {shown(options.store_type)} {what}: MEMORY and FILE are there", "store_type")
    elif options.store_type == "FILE" and not options.directory:
        report("for FILE stores, root directory must be specified (--dir, or dir in the file)", "store_type")
    elif options.store_type == "MEMORY" and options.directory:
        message = f"{report.name('directory')} has no effect: the store type is MEMORY"
        report(message, "directory", warns=True)
    if options.encryption_key is not None and options.store_type != "FILE":
        report("only a FILE store can be encrypted", "encryption_key")


def _check_limits(limits: StoreLimits, report: _Report) -> None:
    for option in _LIMITS:
        value = getattr(limits, option)
        if value < 0:
            report(f"{report.name(option)} cannot be negative", option)
        elif value > _INT64_MAX:
            report(f"{report.name(option)} does not fit into 64 bits", option)
    literal = sum(not _has_wildcard(channel) for channel in limits.channels)
    if 0 < limits.max_channels < literal:
        most = limits.max_channels
        report(f"too many channels defined ({literal}): the max channels limit is set to {most}", "channels")


def is_channel_pattern(name: str) -> bool:
    """True if a text names a channel, or with wildcards a set of them."""
    return (
        is_valid_subject(name)
        and "/" not in name
        and not any(len(token) > 1 and ("*" in token or ">" in token) for token in name.split("."))
    )


def _has_wildcard(subject: str) -> bool:
    return not {"*", ">"}.isdisjoint(subject.split("."))


def channel_limit(value: Any) -> Any:
    """A limit in a channel's entry as it is kept: zero and less both lift the limit there."""
    return value if value > 0 else type(value)(-1)
