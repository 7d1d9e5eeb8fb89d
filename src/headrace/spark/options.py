"""The options of `format("nats")`: the frozen value they are read into, with the entry of each.

Options are text here, as Spark hands them over; the meaning of a value is decided once, here, and nowhere
else. To add an option: a field with its entry (`option_entry`), and where it takes effect.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.client.errors import CredentialsError
from headrace.client.options import ConnectOptions, resolve_addresses, resolve_credentials
from headrace.spark.errors import OptionError
from headrace.spark.offsets import CHANNEL, STREAM
from headrace.spark.option_bucket import IN_BUCKET, InBucket, read_in_bucket
from headrace.spark.option_connection import CONNECTING, Connecting, read_connecting
from headrace.spark.option_entry import (
    SELECTIONS,
    STORED,
    made_of,
    option,
    options_of,
    read_fields,
)
from headrace.spark.option_names import check_names
from headrace.spark.option_places import ENDING, STARTING, read_places
from headrace.spark.values import VALUE_OPTIONS, ValueFormat, read_value_format
from headrace.subjects.grammar import is_valid_subject, overlaps

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from headrace.spark.offsets import StoredKind
    from headrace.spark.option_places import Starts

DEFAULT_CLUSTER_ID: Final = "test-cluster"


def _streams(_name: str, text: str) -> tuple[str, ...]:
    if not text:
        return ()
    streams = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in streams:
        if not name or not name.isprintable() or set(name) & set(" .>/\\?[]"):
            raise OptionError(f"option stream: {name!r} is not the name of a stream")
    return streams


def _channels(_name: str, text: str) -> tuple[str, ...]:
    if not text:
        return ()
    channels = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in channels:
        if not is_valid_subject(name.encode()):
            raise OptionError(f"option channel: {name!r} is not the name of a channel")
    return channels


def _subjects(option: str, text: str) -> tuple[str, ...]:
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


def _queue(_name: str, text: str) -> str:
    if not text or any(character.isspace() for character in text):
        raise OptionError(f"option queue: {text!r} is empty or holds white space")
    return text


_ONE_OF_THESE: Final = "one of these"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one `format("nats")`, each field with the entry of its option.

    Sizes are bytes, durations seconds.
    """

    subjects: tuple[str, ...] = option(
        (),
        "list",
        "Core subjects to read, with wildcards; several with commas between them",
        name="subject",
        shown_default=_ONE_OF_THESE,
        read=_subjects,
        elsewhere=("nats.subject", "topic", "subscribe", "subscribePattern"),
    )
    channels: tuple[str, ...] = option(
        (),
        "list",
        "STAN channels to read, with wildcards; several with commas between them",
        name="channel",
        shown_default=_ONE_OF_THESE,
        read=_channels,
        elsewhere=("nats.channel", "topic", "subscribe", "subscribePattern"),
    )
    streams: tuple[str, ...] = option(
        (),
        "list",
        "JetStream streams to read, `*` for any text; several with commas between them",
        name="stream",
        shown_default=_ONE_OF_THESE,
        read=_streams,
        elsewhere=("nats.stream", "streamName", "topic", "subscribe", "subscribePattern"),
    )
    path: str | None = option(
        None,
        "text",
        "Directory of a store, a log or of tables, or URL of tables or of a bucket: read their files "
        "(`channel` or, of tables and buckets, `stream` chooses; `clusterId` whose channels)",
        shown_default=_ONE_OF_THESE,
    )
    log_path: str | None = option(
        None,
        "text",
        "Directory of the store of these tables: read what is behind them from its logs",
        of=("path",),
    )
    in_bucket: InBucket = made_of(InBucket(), *IN_BUCKET)
    is_of_bucket: bool = False
    """True if `path` is known to be the URL of a bucket of streams; no option of its own."""
    filters: tuple[str, ...] = option(
        (),
        "list",
        "Read only these subjects, with wildcards; several with commas between them",
        name="filterSubjects",
        shown_default="all",
        of=("stream", "path"),
        read=_subjects,
        elsewhere=("subjectFilter",),
    )
    cluster_id: str = option(
        DEFAULT_CLUSTER_ID, "text", "Cluster ID of the streaming server", of=("channel", "path"), writes=True
    )
    starting: Starts | None = made_of(None, *STARTING)
    ending: Starts | None = made_of(None, *ENDING)
    queue: str | None = option(
        None,
        "text",
        "Queue group: share the messages with the group's other members",
        of=("subject",),
        read=_queue,
        elsewhere=("queueGroup",),
    )
    include_headers: bool = option(True, "true or false", "Whether there is a column `headers`")
    value_format: ValueFormat = made_of(ValueFormat(), *VALUE_OPTIONS)
    connecting: Connecting = made_of(Connecting(), *CONNECTING)
    connection_name: str = option(
        "headrace-spark",
        "text",
        "Name of the connection in the server's /connz",
        writes=True,
        elsewhere=("kafka.client.id", "client.id"),
    )
    connect_timeout: float = option(5.0, "duration", "How long connecting may take", writes=True)
    reconnect_timeout: float = option(
        30.0,
        "duration",
        "How long the server may be away before the query fails",
        of=STORED,
        writes=True,
        elsewhere=("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
    )
    max_offsets_per_trigger: int | None = option(None, "number", "Most messages in one micro-batch")
    max_bytes_per_trigger: int | None = option(
        None, "size", "About as many bytes in one micro-batch, by the mean size of what is stored", of=STORED
    )
    min_offsets_per_trigger: int | None = option(
        None, "number", "Wait until so many messages are there for a micro-batch", of=STORED
    )
    max_trigger_delay: float = option(
        15 * 60.0, "duration", "Wait for `minOffsetsPerTrigger` no longer than that", of=STORED
    )
    min_partitions: int | None = option(
        None,
        "number",
        "Tasks of a micro-batch that has 10,000 messages for each",
        shown_default="cores of the driver",
        elsewhere=("maxRecordsPerPartition", "numPartitions"),
    )
    pushdown: bool = option(
        False,
        "true or false",
        "Let conditions of a batch query narrow what is read; needs the Spark setting "
        "`spark.sql.python.filterPushdown.enabled`",
        of=STORED,
    )
    fail_on_data_loss: bool = option(
        True, "true or false", "Fail when messages that should be read are gone; else warn and go on"
    )
    spool_dir: str | None = option(
        None,
        "text",
        "Directory for captured messages; executors must see it",
        shown_default="the system's",
        of=("subject",),
    )
    spool_max_bytes: int = option(
        4 << 30, "size", "Bytes of captured messages on disk; the query fails beyond", of=("subject",)
    )
    capture_duration: float | None = option(
        None, "duration", "With trigger(availableNow=True): how long to listen first", of=("subject",)
    )

    @property
    def url(self) -> str | None:
        return self.connecting.url

    @property
    def jetstream_api(self) -> str:
        return self.connecting.jetstream_api

    @property
    def stored_kind(self) -> StoredKind:
        """The kind of the streams in `stored_names`."""
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


OPTIONS: Final = options_of(SourceOptions)
"""The entries of all options."""


def for_executors(options: SourceOptions) -> SourceOptions:
    """Return the options with what the environment adds here, since executors have another environment.

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
    check_names(values, OPTIONS)
    _check_selection(values)
    fields = read_fields(SourceOptions, values)
    names = fields.get("channels") or fields.get("streams") or ()
    form, schema, mode = (values.get(name) for name in ("valueformat", "valueschema", "valuemode"))
    options = SourceOptions(
        **fields,
        starting=read_places("starting", values, names),
        ending=read_places("ending", values, names),
        value_format=read_value_format(form, schema, mode, ValueFormat()),
        connecting=read_connecting(values),
        in_bucket=read_in_bucket(values),
    )
    if options.value_format.name == "schema" and not options.streams and not options.path:
        raise OptionError("option valueFormat schema goes with option stream or path: others say no schema")
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError("option minOffsetsPerTrigger is more than maxOffsetsPerTrigger")
    return options


def _check_selection(values: Mapping[str, str]) -> None:
    """One kind of selection, and no option that belongs to another."""
    chosen = [name for name in SELECTIONS if values.get(name)]
    if chosen in (["channel", "path"], ["stream", "path"]):  # chosen among those of a directory
        chosen = ["path"]
    if len(chosen) > 1:
        raise OptionError(f"options {' and '.join(chosen)} exclude each other: a query reads one kind")
    if not chosen:
        raise OptionError(
            "option stream is missing: set it to the JetStream stream to read, such as ORDERS, or set option "
            'subject to core subjects such as "orders.>", option channel to a STAN channel, or option path '
            "to a directory of logs or tables"
        )
    [own] = chosen
    for entry in OPTIONS:
        if entry.name.lower() in values and entry.name not in SELECTIONS and own not in entry.of:
            others = " or ".join(entry.of)
            raise OptionError(
                f"option {entry.name} goes with option {others}, not with option {own}: {_WHY[own]}"
            )


_WHY: Final = {
    "subject": "core subjects keep nothing to go back to",
    "channel": "channels are stored, and each is one subject",
    "stream": "streams are stored by JetStream",
    "path": "files are read as they are",
}
