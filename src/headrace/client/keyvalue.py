"""Key-value buckets over JetStream: the same buckets as those of nats.go, nats-py and the `nats` tool.

    with connect() as nc:
        bucket = KeyValueBucket.create(JetStreamApi(nc), "settings", history=5)
        revision = bucket.put("colour", b"red")
        bucket.update("colour", b"blue", revision)
        bucket.get("colour").value

A bucket is a stream `KV_<bucket>` with a subject `$KV.<bucket>.<key>` for each key; a removed key has a
message that says so. Source: ADR-8 of the NATS architecture, checked against nats-server 2.15 and nats-py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.client.api import JetStreamAssets
from headrace.client.consuming import OrderedMessages
from headrace.client.errors import ClientError, JetStreamExistsError, JetStreamMissingError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from headrace.client.headers import Headers
    from headrace.client.jetstream_api import JetStreamApi

PREFIX: Final = "KV_"
"""The beginning of the names of streams that are buckets."""
MOST_HISTORY: Final = 64

_BUCKET: Final = r"[a-zA-Z0-9_-]+"
_KEY: Final = r"[-/_=.a-zA-Z0-9]+"
_WORDS: Final = r"[-/_=.a-zA-Z0-9*>]+"
_OPERATION: Final = "KV-Operation"
_MARKER: Final = "Nats-Marker-Reason"
_SIZE: Final = "Nats-Msg-Size"
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
_SECOND: Final = 1_000_000_000


class KeyNameError(ClientError, ValueError):
    """A name of a bucket or key that cannot be one."""


class KeyValueEntry(NamedTuple):
    """A revision of a key: its value, or that it was removed.

    `operation` is "PUT", "DEL" or "PURGE"; `created_ns` is ns since 1970 UTC; `pending` is how many entries
    follow in a watch; `size` is the bytes of the value, also where it was not asked for.
    """

    bucket: str
    key: str
    value: bytes
    revision: int
    created_ns: int
    operation: str = "PUT"
    pending: int = 0
    size: int = 0

    @property
    def is_removed(self) -> bool:
        """True if the key was removed by this."""
        return self.operation != "PUT"


class KeyValueBucket:
    """A bucket of keys; it has to be there (`create` makes one).

    Raises, from every method: as `JetStreamApi.ask`; KeyMissingError for a key without a value.
    """

    def __init__(self, api: JetStreamApi, bucket: str, *, timeout: float = 10.0) -> None:
        """Open a bucket. Raises: JetStreamMissingError if it is not there; KeyNameError."""
        _check(_BUCKET, bucket, "the name of a bucket")
        self.api = api
        self.bucket = bucket
        self._assets = JetStreamAssets(api)
        self._stream = PREFIX + bucket
        self.info: dict[str, Any] = self._assets.stream_info(self._stream)
        """The info of its stream, as it was when the bucket was opened."""
        config = self.info["config"]
        self._is_direct = bool(config.get("allow_direct"))
        self._read, self._written = _prefixes(bucket, config.get("mirror"))

    @classmethod
    def create(
        cls,
        api: JetStreamApi,
        bucket: str,
        *,
        history: int = 1,
        ttl_ns: int = 0,
        max_bytes: int = -1,
        max_value_size: int = -1,
        storage: str = "file",
        replicas: int = 1,
        description: str = "",
        marker_ttl_ns: int = 0,
        compression: bool = False,
        mirror: str = "",
        sources: Sequence[str] = (),
        more: Mapping[str, object] | None = None,
    ) -> KeyValueBucket:
        """Make a bucket and open it; one with the same settings may be there.

        `history`: revisions kept of a key. `ttl_ns`: values go after this time. `marker_ttl_ns`: keys may
        have a time of their own, and what says that one expired stays so long. `mirror`: the bucket that it
        copies; `sources`: buckets whose keys are copied into it. `more`: further fields of the stream's
        configuration. Raises: JetStreamExistsError if it is there with other settings.
        """
        config = bucket_config(
            bucket,
            history=history,
            ttl_ns=ttl_ns,
            max_bytes=max_bytes,
            max_value_size=max_value_size,
            storage=storage,
            replicas=replicas,
            description=description,
            marker_ttl_ns=marker_ttl_ns,
            compression=compression,
            mirror=mirror,
            sources=sources,
            more=more,
        )
        JetStreamAssets(api).create_stream(config)
        return cls(api, bucket)

    # -- reading

    def get(self, key: str, *, revision: int | None = None) -> KeyValueEntry:
        """Return the last revision of a key, or a certain one. Raises: KeyMissingError."""
        entry = self.last(key) if revision is None else self._at(key, revision)
        if entry.is_removed:
            raise KeyMissingError(self.bucket, key)
        return entry

    def last(self, key: str) -> KeyValueEntry:
        """Return what was said last of a key, its removal too. Raises: KeyMissingError if nothing was."""
        _check(_KEY, key, "a key")
        try:
            found = self._assets.message(self._stream, last_of=self._read + key, direct=self._is_direct)
        except JetStreamMissingError:
            raise KeyMissingError(self.bucket, key) from None
        return self._entry(found.subject, found.data, found.sequence, found.time_ns, found.headers)

    def keys(self, filters: Sequence[str] = (">",)) -> Iterator[str]:
        """Yield the keys that have a value; `filters` are patterns such as `colour.*`."""
        for entry in self.watch(filters, headers_only=True, until_end=True):
            if not entry.is_removed:
                yield entry.key

    def entries(self, filters: Sequence[str] = (">",)) -> Iterator[KeyValueEntry]:
        """Yield the last revision of each key that has a value."""
        for entry in self.watch(filters, until_end=True):
            if not entry.is_removed:
                yield entry

    def history(self, key: str) -> list[KeyValueEntry]:
        """Return the revisions of a key that are kept, oldest first. Raises: KeyMissingError."""
        found = list(self.watch((key,), history=True, until_end=True))
        if not found:
            raise KeyMissingError(self.bucket, key)
        return found

    def watch(
        self,
        filters: Sequence[str] = (">",),
        *,
        history: bool = False,
        updates_only: bool = False,
        headers_only: bool = False,
        from_revision: int | None = None,
        until_end: bool = False,
        idle: float | None = None,
    ) -> Generator[KeyValueEntry, None, None]:
        """Yield entries of keys that match: their last revisions, then each change as it comes.

        `history`: all revisions that are kept. `updates_only`: only changes, from the call on. `until_end`:
        without the changes. `idle`: end after so many seconds without one. It goes on after outages where
        the connection does; `close()` of what it returns ends it at the server, too.
        """
        for each in filters:
            _check(_WORDS, each, "a pattern of keys")
        config: dict[str, object] = {"deliver_policy": "last_per_subject", "headers_only": headers_only}
        if history:
            config["deliver_policy"] = "all"
        elif updates_only:
            config["deliver_policy"] = "new"
        if from_revision is not None:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": from_revision}
        messages = OrderedMessages(self.api, self._stream, [self._read + each for each in filters], config)
        return self._entries_of(messages, idle=idle, until_end=until_end)

    def _entries_of(
        self, messages: OrderedMessages, *, idle: float | None, until_end: bool
    ) -> Generator[KeyValueEntry, None, None]:
        try:
            for message in messages.read(idle=idle, until_end=until_end):
                facts = message.delivery
                yield self._entry(
                    message.subject,
                    message.data,
                    facts.sequence,
                    facts.time_ns,
                    message.headers,
                    pending=facts.pending,
                )
        finally:
            messages.close()

    # -- writing

    def put(self, key: str, value: bytes, *, ttl_ns: int = 0) -> int:
        """Set a value; return its revision. With `ttl_ns` it goes after that time; the bucket has to allow
        that (`marker_ttl_ns`), and the server counts in seconds. With a history above 1 the server makes
        it as long as `marker_ttl_ns`, where it is shorter.
        """
        return self._put(key, value, _ttl(ttl_ns))

    def create_key(self, key: str, value: bytes, *, ttl_ns: int = 0) -> int:
        """Set the value of a key that has none; return its revision. Raises: RevisionError if it has one."""
        try:
            return self._put_after(key, value, 0, _ttl(ttl_ns))
        except RevisionError as error:
            try:
                before = self.last(key)
            except KeyMissingError:
                return self._put_after(key, value, 0, _ttl(ttl_ns))
            if not before.is_removed:
                raise RevisionError(error, key, 0, before.revision) from None
            return self._put_after(key, value, before.revision, _ttl(ttl_ns))

    def update(self, key: str, value: bytes, revision: int, *, ttl_ns: int = 0) -> int:
        """Set a value if the last revision is `revision`; return its own. Raises: RevisionError."""
        return self._put_after(key, value, revision, _ttl(ttl_ns))

    def delete(self, key: str, *, revision: int | None = None) -> None:
        """Remove a key; its history stays. Raises: RevisionError if `revision` is not the last one."""
        self._put_after(key, b"", revision, {_OPERATION: "DEL"})

    def purge(self, key: str, *, revision: int | None = None, ttl_ns: int = 0) -> None:
        """Remove a key and its history; what says so goes after `ttl_ns`, if the bucket allows that.

        Raises: RevisionError if `revision` is not the last one.
        """
        self._put_after(key, b"", revision, {_OPERATION: "PURGE", "Nats-Rollup": "sub", **_ttl(ttl_ns)})

    def compact(self, older_than_ns: int, now_ns: int) -> int:
        """Remove what says that keys were removed, where that is older; return how many keys went."""
        removed = [entry for entry in self.watch(headers_only=True, until_end=True) if entry.is_removed]
        for entry in removed:
            is_young = now_ns - entry.created_ns < older_than_ns
            # A value that was set meanwhile has a higher revision.
            before = entry.revision + (0 if is_young else 1)
            self._assets.purge_stream(self._stream, subject=self._read + entry.key, before=before)
        return sum(now_ns - entry.created_ns >= older_than_ns for entry in removed)

    def remove_bucket(self) -> None:
        """Remove the bucket with all its keys."""
        self._assets.delete_stream(self._stream)

    def _put(self, key: str, value: bytes, headers: Mapping[str, str]) -> int:
        _check(_KEY, key, "a key")
        return int(self.api.publish(self._written + key, value, headers=headers or None)["seq"])

    def _put_after(self, key: str, value: bytes, revision: int | None, headers: Mapping[str, str]) -> int:
        if revision is None:
            return self._put(key, value, headers)
        try:
            return self._put(key, value, {_EXPECTED: str(revision), **headers})
        except JetStreamExistsError as error:
            try:
                last = self.last(key).revision
            except KeyMissingError:
                last = 0
            raise RevisionError(error, key, revision, last) from None

    def _at(self, key: str, revision: int) -> KeyValueEntry:
        _check(_KEY, key, "a key")
        try:
            found = self._assets.message(self._stream, revision, direct=self._is_direct)
        except JetStreamMissingError:
            raise KeyMissingError(self.bucket, key, revision) from None
        if found.subject != self._read + key:
            raise KeyMissingError(self.bucket, key, revision)
        return self._entry(found.subject, found.data, found.sequence, found.time_ns, found.headers)

    def _entry(
        self, subject: str, data: bytes, revision: int, time_ns: int, headers: Headers, *, pending: int = 0
    ) -> KeyValueEntry:
        key = subject.removeprefix(self._read)
        operation = headers.get(_OPERATION, ["PUT"])[0]
        marker = headers.get(_MARKER)
        if marker is not None:  # the server's own: it expired, or was purged or removed by sequence
            operation = "DEL" if marker[0] == "Remove" else "PURGE"
        size = int(headers.get(_SIZE, [str(len(data))])[0])
        return KeyValueEntry(self.bucket, key, data, revision, time_ns, operation, pending, size)


class KeyMissingError(JetStreamMissingError):
    """A key, or a revision of one, that a bucket does not have."""

    def __init__(self, bucket: str, key: str, revision: int | None = None) -> None:
        at = "" if revision is None else f" at revision {revision}"
        super().__init__(404, 10037, f"bucket {bucket} has no key {key!r}{at}")


class RevisionError(JetStreamExistsError):
    """A key whose last revision is another one than the writer expected (0: none)."""

    def __init__(self, error: JetStreamExistsError, key: str, expected: int, revision: int) -> None:
        text = (
            f"{key!r} is at revision {revision}, not {expected}"
            if expected
            else (f"{key!r} has a value, revision {revision}")
        )
        super().__init__(error.code, error.err_code, text)
        self.key = key
        self.expected = expected
        self.revision = revision


def bucket_config(
    bucket: str,
    *,
    history: int = 1,
    ttl_ns: int = 0,
    max_bytes: int = -1,
    max_value_size: int = -1,
    storage: str = "file",
    replicas: int = 1,
    description: str = "",
    marker_ttl_ns: int = 0,
    compression: bool = False,
    mirror: str = "",
    sources: Sequence[str] = (),
    more: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return the configuration of a bucket's stream, as `KeyValueBucket.create`. Raises: KeyNameError."""
    for name in (bucket, *((mirror,) if mirror else ()), *sources):
        _check(_BUCKET, name, "the name of a bucket")
    if not 1 <= history <= MOST_HISTORY:
        raise KeyNameError(f"a history of {history}: it is from 1 to {MOST_HISTORY}")
    config: dict[str, object] = {
        "name": PREFIX + bucket,
        "subjects": [f"$KV.{bucket}.>"],
        "max_msgs_per_subject": history,
        "max_bytes": max_bytes,
        "max_age": ttl_ns,
        "max_msg_size": max_value_size,
        "max_msgs": -1,
        "max_consumers": -1,
        "storage": storage,
        "num_replicas": replicas,
        "discard": "new",
        "deny_delete": True,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "duplicate_window": min(120 * _SECOND, ttl_ns) if ttl_ns else 120 * _SECOND,
    }
    if description:
        config["description"] = description
    if compression:
        config["compression"] = "s2"
    if mirror:
        config.pop("subjects")
        config |= {"mirror": {"name": PREFIX + mirror}, "mirror_direct": True}
    if sources:
        config["sources"] = [
            {
                "name": PREFIX + source,
                "subject_transforms": [{"src": f"$KV.{source}.>", "dest": f"$KV.{bucket}.>"}],
            }
            for source in sources
        ]
    if marker_ttl_ns:
        config |= {"allow_msg_ttl": True, "subject_delete_marker_ttl": marker_ttl_ns}
    return config | dict(more or {})


def buckets(api: JetStreamApi) -> Iterator[dict[str, Any]]:
    """Yield the infos of the streams of all buckets."""
    for info in JetStreamAssets(api).streams("$KV.*.>"):
        if info["config"]["name"].startswith(PREFIX):
            yield info


def _prefixes(bucket: str, mirror: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the beginnings of the subjects of keys: as they are stored, and where they are published."""
    own = f"$KV.{bucket}."
    if not mirror:
        return own, own
    origin = f"$KV.{str(mirror['name']).removeprefix(PREFIX)}."
    api_prefix = (mirror.get("external") or {}).get("api")
    return (origin, f"{api_prefix}.{origin}") if api_prefix else (origin, origin)


def _ttl(ttl_ns: int) -> dict[str, str]:
    """Return the header of a time to live; the server counts in seconds."""
    return {"Nats-TTL": f"{-(-ttl_ns // _SECOND)}s"} if ttl_ns else {}


def is_key(name: str) -> bool:
    """True if a name can be that of a key."""
    return _has_shape(_KEY, name)


def _has_shape(shape: str, name: str) -> bool:
    if not re.fullmatch(shape, name):
        return False
    return not (name.startswith(".") or name.endswith(".") or ".." in name)


def _check(shape: str, name: str, what: str) -> None:
    if not _has_shape(shape, name):
        raise KeyNameError(f"{name!r} is not {what}")
