"""Facts about streaming channels for commands, read from a store's directory or asked of a server.

Here lives the gathering. Never lives here: arguments, tables (`streaming_store`), what the records of a store
mean (`headrace.streaming.state`).
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from headrace.cli import streaming_access as access
from headrace.errors import HeadraceError, LogError, StoreLocked
from headrace.protocol.documents import raw_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.client.streaming_admin import ChannelInfo
    from headrace.conf.bucket_options import BucketOptions
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.store import LogStore
    from headrace.streaming.state import SubscriptionRecord

_PAGE: Final = 1024
"""Channels asked for at once; the server's default."""
_TIMEOUT: Final = 10.0  # seconds, for one answer of a server


class SourceError(HeadraceError):
    """A store or server that could not be asked; the text is one line."""


class ListedSubscription(Struct, frozen=True):
    """One subscription, under the field names of /streaming/channelsz."""

    client_id: str
    durable_name: str
    queue_name: str
    is_offline: bool
    last_sent: int
    pending_count: int


class ListedChannel(Struct):
    """One channel, under the field names of /streaming/channelsz. Times are ns, None where not known."""

    name: str
    msgs: int
    bytes: int
    first_seq: int
    last_seq: int
    last_time: int | None = None
    subscriptions: list[ListedSubscription] = field(default_factory=list)
    damaged: list[int] | None = None
    """Sequences that cannot be read; None when nobody looked."""


@contextmanager
def opened(directory: Path, cipher: Cipher | None = None) -> Iterator[LogStore]:
    """The store in a directory, locked as long as it is used. `cipher`: what it is encrypted with.

    Raises: SourceError when there is none, or a server has it.
    """
    if not directory.is_dir():
        raise SourceError(f"{directory}: no such directory")
    if not (directory / "logs").is_dir():
        raise SourceError(f"{directory} is not the directory of a store")
    with _store(directory, str(directory), cipher) as store:
        yield store


@contextmanager
def opened_bucket(bucket: BucketOptions, cluster_id: str, cipher: Cipher | None = None) -> Iterator[LogStore]:
    """The channels of a cluster ID in a bucket as they are now, whoever has them.

    What is changed stays in memory. Raises: BucketSourceError, BucketError, StoreError; SourceError for
    another key.
    """
    from headrace.bucket.keys import channels_shard
    from headrace.cli.bucket_source import shard_files

    shard = channels_shard(cluster_id)
    home = Path("/") / shard  # a name only
    with _store(home, bucket.url, cipher, shard_files(bucket, shard, home)) as store:
        yield store


@contextmanager
def _store(
    home: Path, place: str, cipher: Cipher | None, files: FileSystem | None = None
) -> Iterator[LogStore]:
    from headrace.log.store import FileStore

    try:
        store = FileStore(home, cipher=cipher, filesystem=files)
    except StoreLocked as error:
        raise SourceError(f"{error}: stop the server first, or ask it with --server") from None
    try:
        yield store
    except LogError as error:
        raise SourceError(f"{place}: {error}{access.sealed_hint(error, cipher)}") from error
    finally:
        store.close()


def channel_names(store: LogStore) -> list[bytes]:
    """The channels of a store, in order; streaming's own state is none."""
    from headrace.streaming.state import STATE_LOG

    return sorted(name for name in store.names() if name != STATE_LOG)


def from_store(
    store: LogStore, *, check: bool = False, progress: Callable[[str, int], object] = lambda _name, _n: None
) -> list[ListedChannel]:
    """All channels. With `check` every message is read, to find those that cannot be.

    `progress` hears on the way which channel is read and how many sequences of it are. Raises: LogError.
    """
    from headrace.streaming.state import load_state

    by_channel: dict[bytes, list[ListedSubscription]] = {}
    for record in load_state(store).subscriptions.values():
        by_channel.setdefault(record.channel, []).append(_subscription(record))
    reports = []
    for name in channel_names(store):
        log = store.open(name)
        state = log.state()
        report = ListedChannel(
            name=shown(name),
            msgs=state.messages,
            bytes=state.bytes,
            first_seq=state.first_sequence if state.messages else 0,
            last_seq=state.last_sequence,
            last_time=state.last_time_ns if state.last_sequence else None,
            subscriptions=by_channel.get(name, []),
        )
        if check:
            report.damaged = _damaged(log, state.last_sequence, partial(progress, report.name))
        reports.append(report)
    return reports


def from_streaming(found: Sequence[ChannelInfo]) -> list[ListedChannel]:
    """Channels that a running server listed over NATS."""
    return [
        ListedChannel(
            name=shown(raw_name(one.name)),
            msgs=one.msgs,
            bytes=one.bytes,
            first_seq=one.first_seq if one.msgs else 0,
            last_seq=one.last_seq,
            last_time=one.last_time_ns or None,
            subscriptions=[
                ListedSubscription(
                    client_id=shown(sub.client_id),
                    durable_name=shown(sub.durable_name),
                    queue_name=shown(sub.queue_name),
                    is_offline=sub.is_offline,
                    last_sent=sub.last_sent,
                    pending_count=sub.pending_count,
                )
                for sub in one.subscriptions
            ],
        )
        for one in found
    ]


def from_server(url: str) -> list[ListedChannel]:
    """All channels of a running server, from its monitoring at `http://host:port`.

    Raises: SourceError, also for a server that stands by: another one has the channels.
    """
    reports: list[ListedChannel] = []
    while True:
        answer = _get(f"{url.rstrip('/')}/streaming/channelsz?subs=1&limit={_PAGE}&offset={len(reports)}")
        try:
            page = [_channel(channel) for channel in answer.get("channels") or ()]
            total = int(answer.get("total", 0))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SourceError(f"{url}: not the answer of a streaming server: {error!r}") from error
        reports += page
        if not page or len(reports) >= total:
            if not reports:
                _check_serves(url)
            return sorted(reports, key=lambda report: report.name)


def _check_serves(url: str) -> None:
    """Refuse a server that stands by: it has no channels to show, and an empty list would look like none.

    Raises: SourceError.
    """
    server = _get(f"{url.rstrip('/')}/streaming/serverz")
    bucket = server.get("bucket") if isinstance(server, dict) else None
    if isinstance(bucket, dict) and bucket.get("role") != "owner":
        owner = shown(str(bucket.get("owner") or "another server"))
        raise SourceError(
            f"{url} stands by, {owner} has the channels: ask there, or any with --server nats://…"
        )


def _get(url: str) -> Any:
    from urllib.error import HTTPError
    from urllib.request import urlopen

    if not url.startswith(("http://", "https://")):
        raise SourceError(f"{url}: the address of a server's monitoring begins with http://")
    try:
        with urlopen(url, timeout=_TIMEOUT) as answer:
            return json.load(answer)
    except HTTPError as error:
        what = "streaming is not there" if error.code == 404 else f"status {error.code}"
        raise SourceError(f"{url}: {what}") from error
    except (OSError, ValueError) as error:
        raise SourceError(f"{url}: {getattr(error, 'reason', None) or error}") from error


def _channel(channel: dict[str, Any]) -> ListedChannel:
    subscriptions = [
        ListedSubscription(
            client_id=shown(one["client_id"]),
            durable_name=shown(one.get("durable_name", "")),
            queue_name=shown(one.get("queue_name", "")),
            is_offline=one["is_offline"],
            last_sent=one["last_sent"],
            pending_count=one["pending_count"],
        )
        for one in channel.get("subscriptions") or ()
    ]
    return ListedChannel(
        name=shown(channel["name"]),
        msgs=channel["msgs"],
        bytes=channel["bytes"],
        first_seq=channel["first_seq"],
        last_seq=channel["last_seq"],
        subscriptions=subscriptions,
    )


def _subscription(record: SubscriptionRecord) -> ListedSubscription:
    state = record.state
    return ListedSubscription(
        client_id=shown(state.client_id),
        durable_name=shown(state.durable_name),
        queue_name=shown(state.q_group),
        is_offline=state.is_closed,
        last_sent=record.last_sent,
        pending_count=len(record.pending),
    )


def _damaged(log: Any, last: int, progress: Callable[[int], object]) -> list[int]:
    found: list[int] = []
    sequence = 1
    while sequence <= last:
        page = log.read_from(sequence, max_messages=4096, max_bytes=8 << 20)
        found += page.damaged
        sequence = max(page.next_sequence, sequence + 1)
        progress(sequence - 1)
    return found


def shown(name: bytes | str) -> str:
    """A name of a peer as text that cannot start a line of its own or move a cursor."""
    text = name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
