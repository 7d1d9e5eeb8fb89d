"""The options of `format("nats")`: one table, and the frozen value it is read into.

Every option is a row of `OPTIONS`; documentation and error texts come from the same rows. Options are
text here, as Spark hands them over; the meaning of a value is decided once, here, and nowhere else.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headrace.client.errors import CredentialsError
from headrace.client.handshake import ConnectOptions, resolve_addresses, resolve_credentials
from headrace.spark.errors import OptionError
from headrace.spark.offsets import CHANNEL, STREAM
from headrace.spark.option_connection import Connecting, read_connecting
from headrace.spark.option_places import read_places
from headrace.spark.values import ValueFormat, read_value_format
from headrace.subjects.grammar import is_valid_subject, overlaps

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from headrace.spark.offsets import StoredKind
    from headrace.spark.option_places import Starts

DEFAULT_SPOOL_MAX_BYTES: Final = 4 << 30
"""Bytes of captured messages that may wait on disk; when they are reached the query fails."""

DEFAULT_CONNECT_TIMEOUT: Final = 5.0

DEFAULT_RECONNECT_TIMEOUT: Final = 30.0
"""Seconds a server of channels may be away before a query or a task gives up."""

DEFAULT_CLUSTER_ID: Final = "test-cluster"


DEFAULT_MAX_TRIGGER_DELAY: Final = 15 * 60.0
"""Seconds a query waits for `minOffsetsPerTrigger`, as in Spark's Kafka source."""

SELECTIONS: Final = ("subject", "channel", "stream", "path")
"""The options of which a query has one (`path` may have `channel` too); others may be for some only."""

_READ: Final = ("channel", "stream", "path")


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the option table; `default` is text for people, `of` the selections it goes with."""

    name: str
    default: str
    meaning: str
    of: tuple[str, ...] = SELECTIONS


OPTIONS: Final = (
    Option(
        "subject",
        "one of these",
        "Core subjects to read, with wildcards; several with commas between them",
    ),
    Option(
        "channel", "one of these", "STAN channels to read, with wildcards; several with commas between them"
    ),
    Option(
        "stream",
        "one of these",
        "JetStream streams to read, `*` for any text; several with commas between them",
    ),
    Option(
        "path",
        "one of these",
        "Directory of a store, a log or of tables, or URL of tables: read their files (`channel` chooses)",
    ),
    Option(
        "logPath",
        "none",
        "Directory of the store of these tables: read what is behind them from its logs (tables)",
        ("path",),
    ),
    Option(
        "filterSubjects",
        "all",
        "Read only these subjects, with wildcards; several with commas between them (streams)",
        ("stream",),
    ),
    Option("clusterId", "test-cluster", "Cluster ID of the streaming server (channels)", ("channel", "path")),
    Option("jetStreamDomain", "the server's", "Domain of the streams (streams)", ("stream",)),
    Option("jetStreamApiPrefix", "$JS.API", "Where the subjects of the API begin (streams)", ("stream",)),
    Option(
        "startingOffsets",
        "latest; batch: earliest",
        'Where a new query begins: `earliest`, `latest` or sequences such as `{"orders": 17}` (stored)',
        _READ,
    ),
    Option(
        "startingTimestamp",
        "none",
        "Instead: begin with the first message of that time or later; ms since 1970 or "
        "`2026-11-21T08:00:00Z` (stored)",
        _READ,
    ),
    Option("startingOffsetsByTimestamp", "none", "The same for each, as JSON (stored)", _READ),
    Option(
        "endingOffsets",
        "latest",
        "Where a batch read ends: `latest` or the first sequences not read, as JSON (stored)",
        _READ,
    ),
    Option(
        "endingTimestamp",
        "none",
        "Instead: end before the first message of that time or later (stored)",
        _READ,
    ),
    Option("endingOffsetsByTimestamp", "none", "The same for each, as JSON (stored)", _READ),
    Option(
        "queue",
        "none",
        "Queue group: share the messages with the group's other members (subjects)",
        ("subject",),
    ),
    Option("includeHeaders", "true", "Whether there is a column `headers`"),
    Option("valueFormat", "binary", "What column `data` is: `binary`, `string` or `json`"),
    Option(
        "valueSchema", "none", "With `json`: the fields, as `id bigint, tags array<string>` or Spark's JSON"
    ),
    Option(
        "valueMode",
        "permissive",
        "A payload that is not of the format: null (`permissive`), an error (`failfast`), no row "
        "(`dropmalformed`)",
    ),
    Option("url", "NATS_URL, else nats://127.0.0.1:4222", "Server URL; several with commas between them"),
    Option("context", "none", "Context of the `nats` tool that says what options do not"),
    Option("user", "NATS_USER", "User name"),
    Option("password", "NATS_PASSWORD", "Password; prefer `passwordFile` or the environment"),
    Option("passwordFile", "none", "File that holds the password"),
    Option("token", "NATS_TOKEN", "Token; prefer `tokenFile` or the environment"),
    Option("tokenFile", "none", "File that holds the token"),
    Option("credsFile", "NATS_CREDS", "Credentials file: a user's JWT and seed"),
    Option("nkeyFile", "none", "File that holds a user's seed"),
    Option("tlsCaFile", "the system's", "Certificates to trust, PEM"),
    Option("tlsCertFile", "none", "Client certificate, PEM; needs `tlsKeyFile`"),
    Option("tlsKeyFile", "none", "Key of the client certificate, PEM"),
    Option("tlsFirst", "false", "TLS before the server's first line (its `handshake_first`)"),
    Option("inboxPrefix", "_INBOX", "How reply subjects begin, where permissions want that"),
    Option("connectionName", "headrace-spark", "Name of the connection in the server's /connz"),
    Option("connectTimeout", "5s", "How long connecting may take"),
    Option(
        "reconnectTimeout", "30s", "How long the server may be away before the query fails (stored)", _READ
    ),
    Option("maxOffsetsPerTrigger", "none", "Most messages in one micro-batch"),
    Option(
        "maxBytesPerTrigger",
        "none",
        "About as many bytes in one micro-batch, by the mean size of what is stored (stored)",
        _READ,
    ),
    Option(
        "minOffsetsPerTrigger",
        "none",
        "Wait until so many messages are there for a micro-batch (stored)",
        _READ,
    ),
    Option("maxTriggerDelay", "15m", "Wait for `minOffsetsPerTrigger` no longer than that (stored)", _READ),
    Option(
        "minPartitions", "cores of the driver", "Tasks of a micro-batch that has 10,000 messages for each"
    ),
    Option(
        "pushdown",
        "false",
        "Let conditions of a batch query narrow what is read; needs the Spark setting "
        "`spark.sql.python.filterPushdown.enabled` (stored)",
        _READ,
    ),
    Option("failOnDataLoss", "true", "Fail when messages that should be read are gone; else warn and go on"),
    Option(
        "spoolDir",
        "the system's",
        "Directory for captured messages; executors must see it (subjects)",
        ("subject",),
    ),
    Option(
        "spoolMaxBytes",
        "4GiB",
        "Bytes of captured messages on disk; the query fails beyond (subjects)",
        ("subject",),
    ),
    Option(
        "captureDuration",
        "none",
        "With trigger(availableNow=True): how long to listen first (subjects)",
        ("subject",),
    ),
)


def option_table() -> str:
    """The rows for the reference in docs/spark.md."""
    return "".join(f"| `{one.name}` | {one.default} | {one.meaning} |\n" for one in OPTIONS)


"""Options of later versions, by lower-case name: they must not be taken for misspellings."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What one `format("nats")` was told. Sizes are bytes, durations seconds."""

    subjects: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    path: str | None = None
    log_path: str | None = None
    streams: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    cluster_id: str = DEFAULT_CLUSTER_ID
    starting: Starts | None = None
    ending: Starts | None = None
    queue: str | None = None
    include_headers: bool = True
    value_format: ValueFormat = field(default_factory=ValueFormat)
    connecting: Connecting = field(default_factory=Connecting)
    connection_name: str = "headrace-spark"
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
    reconnect_timeout: float = DEFAULT_RECONNECT_TIMEOUT
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay: float = DEFAULT_MAX_TRIGGER_DELAY
    min_partitions: int | None = None
    pushdown: bool = False
    fail_on_data_loss: bool = True
    spool_dir: str | None = None
    spool_max_bytes: int = DEFAULT_SPOOL_MAX_BYTES
    capture_duration: float | None = None

    @property
    def url(self) -> str | None:
        return self.connecting.url

    @property
    def jetstream_api(self) -> str:
        return self.connecting.jetstream_api

    @property
    def stored_kind(self) -> StoredKind:
        """What `stored_names` are."""
        return STREAM if self.streams else CHANNEL

    @property
    def stored_names(self) -> tuple[str, ...]:
        """The stored streams to read; none for core subjects."""
        return self.channels or self.streams

    def connection_key(self) -> Hashable:
        """Equal for options whose connections are as good as each other."""
        return self.connecting, self.connection_name

    def connect_options(self) -> ConnectOptions:
        """The client's view. Raises: OptionError if a certificate file cannot be used."""
        return ConnectOptions(
            name=self.connection_name,
            credentials=self.connecting.credentials or None,
            tls=self.connecting.tls(),
            tls_first=self.connecting.tls_first,
            timeout=self.connect_timeout,
            inbox_prefix=self.connecting.inbox_prefix,
        )


def for_executors(options: SourceOptions) -> SourceOptions:
    """The same with what the environment adds here, since executors have another environment.

    Raises: OptionError if NATS_CREDS names a file that cannot be used.
    """
    url = options.url or os.environ.get("NATS_URL")
    addresses = resolve_addresses(url)
    credentials = options.connecting.credentials
    if not credentials and not any(address.credentials for address in addresses):
        try:
            credentials = resolve_credentials(addresses[0], None)
        except CredentialsError as error:
            raise OptionError(f"NATS_CREDS: {error}") from error
    return replace(options, connecting=replace(options.connecting, url=url, credentials=credentials))


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """The options Spark passes on, names in any case.

    Raises: OptionError naming the option and the fix; UnsupportedError for what a later version brings.
    """
    values = {name.lower(): value.strip() for name, value in given.items()}
    for name in values:
        _check_name(name)
    _check_selection(values)
    channels, streams = _channels(values.get("channel")), _streams(values.get("stream"))
    least, most = _count("minOffsetsPerTrigger", values), _count("maxOffsetsPerTrigger", values)
    if least is not None and most is not None and least > most:
        raise OptionError("option minOffsetsPerTrigger is more than maxOffsetsPerTrigger")
    tls_first = _boolean("tlsFirst", values, default=False) if "tlsfirst" in values else None
    return SourceOptions(
        subjects=_subjects("subject", values.get("subject")),
        channels=channels,
        path=values.get("path") or None,
        log_path=values.get("logpath") or None,
        streams=streams,
        filters=_subjects("filterSubjects", values.get("filtersubjects")),
        cluster_id=values.get("clusterid") or DEFAULT_CLUSTER_ID,
        starting=read_places("starting", values, channels or streams),
        ending=read_places("ending", values, channels or streams),
        queue=_queue(values.get("queue")),
        include_headers=_boolean("includeHeaders", values, default=True),
        value_format=read_value_format(
            values.get("valueformat"), values.get("valueschema"), values.get("valuemode"), ValueFormat()
        ),
        connecting=read_connecting(values, tls_first=tls_first),
        connection_name=values.get("connectionname") or "headrace-spark",
        connect_timeout=_duration("connectTimeout", values) or DEFAULT_CONNECT_TIMEOUT,
        reconnect_timeout=_duration("reconnectTimeout", values) or DEFAULT_RECONNECT_TIMEOUT,
        max_offsets_per_trigger=most,
        max_bytes_per_trigger=_size("maxBytesPerTrigger", values),
        min_offsets_per_trigger=least,
        max_trigger_delay=_duration("maxTriggerDelay", values) or DEFAULT_MAX_TRIGGER_DELAY,
        min_partitions=_count("minPartitions", values),
        pushdown=_boolean("pushdown", values, default=False),
        fail_on_data_loss=_boolean("failOnDataLoss", values, default=True),
        spool_dir=values.get("spooldir") or None,
        spool_max_bytes=_size("spoolMaxBytes", values) or DEFAULT_SPOOL_MAX_BYTES,
        capture_duration=_duration("captureDuration", values),
    )


def _check_name(name: str) -> None:
    names = {option.name.lower(): option.name for option in OPTIONS}
    if name not in names:
        close = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {names[close[0]]}?" if close else f"options are {', '.join(names.values())}"
        raise OptionError(f'option {name} is not known to format("nats"): {hint}')


def _check_selection(values: Mapping[str, str]) -> None:
    """One kind of selection, and no option that belongs to another."""
    chosen = [name for name in SELECTIONS if values.get(name)]
    if chosen == ["channel", "path"]:  # the channels chosen among those of a directory
        chosen = ["path"]
    if len(chosen) > 1:
        raise OptionError(f"options {' and '.join(chosen)} exclude each other: a query reads one kind")
    if not chosen:
        raise OptionError(
            'option subject is missing: set it to what to read, such as "orders.>", or set option channel to '
            "a STAN channel, option stream to a JetStream stream, or option path to a directory of logs"
        )
    [own] = chosen
    for option in OPTIONS:
        if option.name.lower() in values and option.name not in SELECTIONS and own not in option.of:
            others = " or ".join(option.of)
            raise OptionError(
                f"option {option.name} goes with option {others}, not with option {own}: {_WHY[own]}"
            )


_WHY: Final = {
    "subject": "core subjects keep nothing to go back to",
    "channel": "channels are stored, and each is one subject",
    "stream": "streams are stored by JetStream",
    "path": "files are read as they are",
}


def _streams(text: str | None) -> tuple[str, ...]:
    if not text:
        return ()
    streams = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in streams:
        if not name or not name.isprintable() or set(name) & set(" .>/\\?[]"):
            raise OptionError(f"option stream: {name!r} is not the name of a stream")
    return streams


def _channels(text: str | None) -> tuple[str, ...]:
    if not text:
        return ()
    channels = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in channels:
        if not is_valid_subject(name.encode()):
            raise OptionError(f"option channel: {name!r} is not the name of a channel")
    return channels


def _subjects(option: str, text: str | None) -> tuple[str, ...]:
    if not text:
        return ()
    subjects = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for number, subject in enumerate(subjects):
        if not is_valid_subject(subject.encode()):
            raise OptionError(f"option {option}: {subject!r} is not a subject one can subscribe to")
        for other in subjects[:number]:
            if overlaps(subject.encode(), other.encode()):
                raise OptionError(
                    f"option {option}: {other!r} and {subject!r} overlap, so that some messages would be "
                    "read twice; leave one of them out"
                )
    return subjects


def _queue(text: str | None) -> str | None:
    if text is not None and (not text or any(character.isspace() for character in text)):
        raise OptionError(f"option queue: {text!r} is empty or holds white space")
    return text


def _boolean(name: str, values: Mapping[str, str], *, default: bool) -> bool:
    text = values.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise OptionError(f"option {name}: {text!r} is neither true nor false")
    return text.lower() == "true"


def _count(name: str, values: Mapping[str, str]) -> int | None:
    text = values.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
        raise OptionError(f"option {name}: {text!r} is not a whole number above 0")
    return int(text)


_UNITS: Final = {"": 1, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}
_MULTIPLES: Final = {"": 1, "b": 1} | {
    f"{letter}{ending}": 1 << (10 * power)
    for power, letter in enumerate("kmgt", 1)
    for ending in ("", "b", "ib")
}


def _duration(name: str, values: Mapping[str, str]) -> float | None:
    return _measure(name, values, _UNITS, "a duration such as 500ms, 5s or 2m")


def _size(name: str, values: Mapping[str, str]) -> int | None:
    size = _measure(name, values, _MULTIPLES, "a size such as 512MiB or 4GiB")
    return None if size is None else int(size)


def _measure(name: str, values: Mapping[str, str], units: Mapping[str, float], example: str) -> float | None:
    text = values.get(name.lower())
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([a-zA-Z]*)", text)
    if match is None or match[2].lower() not in units or float(match[1]) == 0:
        raise OptionError(f"option {name}: {text!r} is not {example}")
    return float(match[1]) * units[match[2].lower()]
