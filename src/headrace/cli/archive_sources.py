"""The sources of `headrace tables archive`: streams of JetStream or channels of NATS Streaming, by name.

Here lives finding those that are meant, on a server or in a store. Never lives here: arguments (`tables`),
and what is done with a source (`tables_archive`).
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.cli import jetstream_source as streams
from headrace.cli import streaming_access as access
from headrace.cli import streaming_source as source
from headrace.cli.bucket_source import bucket_of
from headrace.client.errors import ClientError, NoRespondersError
from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.protocol.documents import name_of, raw_name
from headrace.subjects.grammar import matches
from headrace.tables.manifest import TableKind
from headrace.tables.open import KEY_VALUE
from headrace.tables.source import LogSource, ReplaySource, ServerStreamSource

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from headrace.client.blocking import Connection
    from headrace.tables.source import SegmentSource

    Sources = list[tuple[SegmentSource, TableKind]]
    """Sources, with what their tables are to have."""


@contextmanager
def opened_sources(options: argparse.Namespace) -> Iterator[Sources]:
    """The streams or channels that are meant, for a block.

    Raises: SourceError, StreamSourceError for a name or pattern that means none; what store or server raise.
    """
    is_running = access.server_of(options) is not None
    if not options.channel:
        opened = _streams_of_server if is_running else _streams_of_store
    else:
        opened = _channels_of_server if is_running else _channels_of_store
    with opened(options) as found:
        yield found


@contextmanager
def _streams_of_server(options: argparse.Namespace) -> Iterator[Sources]:
    from headrace.client.jetstream import JetStream

    api = streams.api_of(options)
    with access.connected(options) as connection:
        wanted = _wanted(options)
        names = [name for name, _ in wanted]
        if any("*" in name for name in names):  # else nobody needs to be allowed to list
            names = JetStream(connection, api).names()
        yield [
            (ServerStreamSource(connection, name, api), kind) for name, kind in _chosen_streams(names, wanted)
        ]


@contextmanager
def _streams_of_store(options: argparse.Namespace) -> Iterator[Sources]:
    account, cipher = options.account or GLOBAL_ACCOUNT, streams.cipher_of(options)
    if options.bucket_url is not None:
        opening = streams.opened_bucket(bucket_of(options), cipher)
    else:
        opening = streams.opened(options.dir, cipher)
    with opening as store:
        known = streams.stored_streams(store, account)
        yield [
            (streams.log_source(store, account, name, known[name]), kind)
            for name, kind in _chosen_streams(known, _wanted(options))
        ]


def _wanted(options: argparse.Namespace) -> list[tuple[str, TableKind]]:
    """The names and patterns of streams that are meant, each with what its tables are to have."""
    return [
        *((name, TableKind.MESSAGES) for name in options.stream),
        *((f"{KEY_VALUE}{name}", TableKind.LATEST) for name in options.bucket),
        *((f"{KEY_VALUE}{name}", TableKind.HISTORY) for name in options.bucket_history),
    ]


def _chosen_streams(known: Iterable[str], wanted: list[tuple[str, TableKind]]) -> list[tuple[str, TableKind]]:
    known = list(known)
    return sorted({(name, kind) for pattern, kind in wanted for name in streams.chosen(known, pattern)})


@contextmanager
def _channels_of_server(options: argparse.Namespace) -> Iterator[Sources]:
    from headrace.client.streaming_admin import StreamingAdmin

    with access.connected(options) as connection:
        admin = StreamingAdmin(connection, options.cluster_id)
        try:
            known = [raw_name(one.name) for one in admin.channels()]
            chosen = _chosen_channels(known, options.channel)
        except (NoRespondersError, source.SourceError) as error:
            raise source.SourceError(f"{error}{_advice(connection, options.channel)}") from error
        yield [
            (ReplaySource(connection, options.cluster_id, name_of(name)), TableKind.MESSAGES)
            for name in chosen
        ]


def _advice(connection: Connection, channels: list[str]) -> str:
    """Say what a channel is, and which streams may be meant."""
    from headrace.client.jetstream import JetStream

    said = "; channels are those of NATS Streaming (STAN)"
    try:
        streams = [name for channel in channels for name in JetStream(connection).like(channel)]
    except ClientError:  # there is no JetStream either
        return said
    flags = " ".join(f"--stream {name}" for name in dict.fromkeys(streams))
    return f"{said}, streams of JetStream are named by {flags}" if flags else said


@contextmanager
def _channels_of_store(options: argparse.Namespace) -> Iterator[Sources]:
    from headrace.streaming.state import load_state

    cipher = access.cipher_of(options)
    if options.bucket_url is not None:
        opening = source.opened_bucket(bucket_of(options), options.cluster_id, cipher)
    else:
        opening = source.opened(options.dir, cipher)
    with opening as store:
        created = load_state(store).channels
        yield [
            (LogSource(store.open(name), name_of(name), created.get(name, 0)), TableKind.MESSAGES)
            for name in _chosen_channels(source.channel_names(store), options.channel)
        ]


def _chosen_channels(known: list[bytes], wanted: list[str]) -> list[bytes]:
    picked: set[bytes] = set()
    for pattern in wanted:
        raw = os.fsencode(pattern)
        found = [name for name in known if name == raw or matches(raw, name)]
        if not found:
            raise source.SourceError(f"no channel {pattern!r}")
        picked.update(found)
    return sorted(picked)
