"""The options of `format("nats")`: one table, and the frozen value it is read into.

Every option is a row of `OPTIONS`; documentation and error texts come from the same rows. Options are
text here, as Spark hands them over; the meaning of a value is decided once, here, and nowhere else.
"""

from __future__ import annotations

import difflib
import enum
import json
import os
import re
import ssl
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.client.address import Credentials, parse_addresses
from headrace.client.errors import AddressError
from headrace.client.handshake import ConnectOptions, resolve_addresses, resolve_credentials
from headrace.errors import UnsupportedError
from headrace.spark.errors import OptionError
from headrace.subjects.grammar import is_valid_subject, overlaps

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_SPOOL_MAX_BYTES: Final = 4 << 30
"""Bytes of captured messages that may wait on disk; when they are reached the query fails."""

DEFAULT_CONNECT_TIMEOUT: Final = 5.0

DEFAULT_RECONNECT_TIMEOUT: Final = 30.0
"""Seconds a server of channels may be away before a query or a task gives up."""

DEFAULT_CLUSTER_ID: Final = "test-cluster"


class Edge(enum.Enum):
    """An end of a channel: the first message that is there, or the first that is not there yet."""

    EARLIEST = "earliest"
    LATEST = "latest"


Start = Edge | int
"""Where reading a channel begins or ends: at an end of it, or at a sequence."""


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the option table; `default` is text for people."""

    name: str
    default: str
    meaning: str


OPTIONS: Final = (
    Option(
        "subject", "this or `channel`", "Core subjects to read, with wildcards; several with commas between"
    ),
    Option("channel", "this or `subject`", "STAN channels to read; several with commas between them"),
    Option(
        "path", "none", "Directory of a store or of one log: read its files (`channel` chooses among them)"
    ),
    Option("clusterId", "test-cluster", "Cluster ID of the streaming server (channels)"),
    Option(
        "startingOffsets",
        "latest; batch: earliest",
        'Where a new query begins: `earliest`, `latest` or sequences such as `{"orders": 17}` (channels)',
    ),
    Option(
        "endingOffsets",
        "latest",
        "Where a batch read ends: `latest` or the first sequences not read, as JSON (channels)",
    ),
    Option("queue", "none", "Queue group: share the messages with the group's other members (subjects)"),
    Option("url", "NATS_URL, else nats://127.0.0.1:4222", "Server URL; several with commas between them"),
    Option("user", "NATS_USER", "User name"),
    Option("password", "NATS_PASSWORD", "Password; prefer `passwordFile` or the environment"),
    Option("passwordFile", "none", "File that holds the password"),
    Option("token", "NATS_TOKEN", "Token; prefer `tokenFile` or the environment"),
    Option("tokenFile", "none", "File that holds the token"),
    Option("tlsCaFile", "the system's", "Certificates to trust, PEM"),
    Option("tlsCertFile", "none", "Client certificate, PEM; needs `tlsKeyFile`"),
    Option("tlsKeyFile", "none", "Key of the client certificate, PEM"),
    Option("tlsFirst", "false", "TLS before the server's first line (its `handshake_first`)"),
    Option("connectionName", "headrace-spark", "Name of the connection in the server's /connz"),
    Option("connectTimeout", "5s", "How long connecting may take"),
    Option("reconnectTimeout", "30s", "How long the server may be away before the query fails (channels)"),
    Option("maxOffsetsPerTrigger", "none", "Most messages in one micro-batch"),
    Option(
        "minPartitions", "cores of the driver", "Tasks of a micro-batch that has 10,000 messages for each"
    ),
    Option("failOnDataLoss", "true", "Fail when messages that should be read are gone; else warn and go on"),
    Option("spoolDir", "the system's", "Directory for captured messages; executors must see it (subjects)"),
    Option("spoolMaxBytes", "4GiB", "Bytes of captured messages on disk; the query fails beyond (subjects)"),
    Option("captureDuration", "none", "With trigger(availableNow=True): how long to listen first (subjects)"),
)

_OF_SUBJECTS: Final = ("queue", "spoolDir", "spoolMaxBytes", "captureDuration")
_OF_CHANNELS: Final = ("clusterId", "startingOffsets", "endingOffsets", "reconnectTimeout")

LATER: Final = {
    "stream": "JetStream streams",
    "startingtimestamp": "starting timestamps",
    "minoffsetspertrigger": "a lower limit per trigger",
    "maxtriggerdelay": "a lower limit per trigger",
    "valueformat": "decoding in the source (use from_json and the like on column data)",
    "includeheaders": "leaving columns out by option (select the columns you want)",
    "credsfile": "credentials files",
}
"""Options of later versions, by lower-case name: they must not be taken for misspellings."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What one `format("nats")` was told. Sizes are bytes, durations seconds."""

    subjects: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    path: str | None = None
    cluster_id: str = DEFAULT_CLUSTER_ID
    starting: Mapping[str, Start] | Edge | None = None
    ending: Mapping[str, Start] | Edge | None = None
    queue: str | None = None
    url: str | None = None
    credentials: Credentials = field(default_factory=Credentials)
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    tls_first: bool = False
    connection_name: str = "headrace-spark"
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
    reconnect_timeout: float = DEFAULT_RECONNECT_TIMEOUT
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    spool_dir: str | None = None
    spool_max_bytes: int = DEFAULT_SPOOL_MAX_BYTES
    capture_duration: float | None = None

    def connect_options(self) -> ConnectOptions:
        """The client's view. Raises: OptionError if a certificate file cannot be used."""
        context = None
        if self.tls_ca_file or self.tls_cert_file:
            try:
                context = ssl.create_default_context(cafile=self.tls_ca_file)
                if self.tls_cert_file:
                    context.load_cert_chain(self.tls_cert_file, self.tls_key_file)
            except OSError as error:
                raise OptionError(f"options tlsCaFile, tlsCertFile, tlsKeyFile: {error}") from error
        return ConnectOptions(
            name=self.connection_name,
            credentials=self.credentials or None,
            tls=context,
            tls_first=self.tls_first,
            timeout=self.connect_timeout,
        )


def for_executors(options: SourceOptions) -> SourceOptions:
    """The same with what the environment adds here, since executors have another environment."""
    url = options.url or os.environ.get("NATS_URL")
    addresses = resolve_addresses(url)
    credentials = options.credentials
    if not credentials and not any(address.credentials for address in addresses):
        credentials = resolve_credentials(addresses[0], None)
    return replace(options, url=url, credentials=credentials)


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """The options Spark passes on, names in any case.

    Raises: OptionError naming the option and the fix; UnsupportedError for what a later version brings.
    """
    values = {name.lower(): value.strip() for name, value in given.items()}
    for name in values:
        _check_name(name)
    _check_selection(values)
    channels = _channels(values.get("channel"))
    cert, key = values.get("tlscertfile"), values.get("tlskeyfile")
    if (cert is None) != (key is None):
        raise OptionError("options tlsCertFile and tlsKeyFile need each other: set both or neither")
    url = values.get("url") or None
    if url is not None:
        try:
            parse_addresses(url)
        except AddressError as error:
            raise OptionError(f"option url: {error}") from error
    return SourceOptions(
        subjects=_subjects(values.get("subject")),
        channels=channels,
        path=values.get("path") or None,
        cluster_id=values.get("clusterid") or DEFAULT_CLUSTER_ID,
        starting=_offsets("startingOffsets", values, channels),
        ending=_offsets("endingOffsets", values, channels),
        queue=_queue(values.get("queue")),
        url=url,
        credentials=_credentials(values),
        tls_ca_file=values.get("tlscafile"),
        tls_cert_file=cert,
        tls_key_file=key,
        tls_first=_boolean("tlsFirst", values, default=False),
        connection_name=values.get("connectionname") or "headrace-spark",
        connect_timeout=_duration("connectTimeout", values) or DEFAULT_CONNECT_TIMEOUT,
        reconnect_timeout=_duration("reconnectTimeout", values) or DEFAULT_RECONNECT_TIMEOUT,
        max_offsets_per_trigger=_count("maxOffsetsPerTrigger", values),
        min_partitions=_count("minPartitions", values),
        fail_on_data_loss=_boolean("failOnDataLoss", values, default=True),
        spool_dir=values.get("spooldir") or None,
        spool_max_bytes=_size("spoolMaxBytes", values) or DEFAULT_SPOOL_MAX_BYTES,
        capture_duration=_duration("captureDuration", values),
    )


def _check_name(name: str) -> None:
    if name in LATER:
        raise UnsupportedError(
            f'option {name}: format("nats") of this version reads core subjects (option subject) and STAN '
            f"channels (option channel); {LATER[name]} are not supported by this version yet"
        )
    names = {option.name.lower(): option.name for option in OPTIONS}
    if name not in names:
        close = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {names[close[0]]}?" if close else f"options are {', '.join(names.values())}"
        raise OptionError(f'option {name} is not known to format("nats"): {hint}')


def _check_selection(values: Mapping[str, str]) -> None:
    """One kind of selection, and no option that belongs to the other."""
    has_path = bool(values.get("path"))
    has_subject, has_channel = bool(values.get("subject")), bool(values.get("channel")) or has_path
    if has_subject and has_path:
        raise OptionError("options subject and path exclude each other: a query reads one kind")
    if has_subject and has_channel:
        raise OptionError("options subject and channel exclude each other: a query reads one kind")
    if not has_subject and not has_channel:
        raise OptionError(
            'option subject is missing: set it to what to read, such as "orders.>", or set option channel to '
            "a STAN channel"
        )
    strange = _OF_CHANNELS if has_subject else _OF_SUBJECTS
    for name in strange:
        if name.lower() in values:
            own, other = ("subject", "channel") if has_subject else ("channel", "subject")
            why = "core subjects keep nothing to go back to" if has_subject else "channels are stored"
            raise OptionError(f"option {name} goes with option {other}, not with option {own}: {why}")


def _channels(text: str | None) -> tuple[str, ...]:
    if not text:
        return ()
    channels = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in channels:
        if not is_valid_subject(name.encode()):
            raise OptionError(f"option channel: {name!r} is not the name of a channel")
        if {"*", ">"} & set(name.split(".")):
            raise UnsupportedError(
                f"option channel: {name!r} has a wildcard; channels by wildcard are not supported by this "
                "version yet, name them with commas between them"
            )
    return channels


_EDGE_NUMBERS: Final = {-2: Edge.EARLIEST, -1: Edge.LATEST}
"""As in Spark's Kafka source."""


def _offsets(
    name: str, values: Mapping[str, str], channels: tuple[str, ...]
) -> Mapping[str, Start] | Edge | None:
    text = values.get(name.lower())
    if text is None:
        return None
    if text.lower() in ("earliest", "latest"):
        edge = Edge(text.lower())
        if edge is Edge.EARLIEST and name == "endingOffsets":
            raise OptionError(f"option {name}: earliest would read nothing; say latest or sequences")
        return edge
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise OptionError(f'option {name}: {text!r} is not earliest, latest or JSON such as {{"orders": 17}}')
    if set(given) != set(channels):
        raise OptionError(
            f"option {name} must name the channels of option channel ({', '.join(channels) or 'none'}), "
            f"it names {', '.join(given) or 'none'}"
        )
    return {channel: _start(name, channel, given[channel]) for channel in channels}


def _start(name: str, channel: str, value: object) -> Start:
    if isinstance(value, int) and not isinstance(value, bool):
        if value in _EDGE_NUMBERS:
            return _EDGE_NUMBERS[value]
        if 1 <= value < 1 << 63:
            return value
    raise OptionError(
        f"option {name}: {value!r} for channel {channel} is not a sequence from 1 on, -1 (latest) or "
        "-2 (earliest)"
    )


def _subjects(text: str | None) -> tuple[str, ...]:
    if not text:
        return ()
    subjects = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for number, subject in enumerate(subjects):
        if not is_valid_subject(subject.encode()):
            raise OptionError(f"option subject: {subject!r} is not a subject one can subscribe to")
        for other in subjects[:number]:
            if overlaps(subject.encode(), other.encode()):
                raise OptionError(
                    f"option subject: {other!r} and {subject!r} overlap, so that some messages would be "
                    "read twice; leave one of them out"
                )
    return subjects


def _queue(text: str | None) -> str | None:
    if text is not None and (not text or any(character.isspace() for character in text)):
        raise OptionError(f"option queue: {text!r} is empty or holds white space")
    return text


def _credentials(values: Mapping[str, str]) -> Credentials:
    password = _secret("password", values)
    token = _secret("token", values)
    user = values.get("user")
    if user is not None and token is not None:
        raise OptionError("options user and token exclude each other")
    if password is not None and user is None:
        raise OptionError("option password needs option user")
    if user is not None and password is None:
        raise OptionError("option user needs option password or passwordFile")
    return Credentials(user, password, token)


def _secret(name: str, values: Mapping[str, str]) -> str | None:
    file = values.get(f"{name}file")
    if file is None:
        return values.get(name)
    if name in values:
        raise OptionError(f"options {name} and {name}File exclude each other")
    try:
        return Path(file).read_text().rstrip("\r\n")
    except OSError as error:
        raise OptionError(f"option {name}File: {error}") from error


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
