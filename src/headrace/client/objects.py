"""Object stores over JetStream: the same buckets as those of nats.go, nats-py and the `nats` tool.

    with connect() as nc:
        store = ObjectBucket.create(JetStreamApi(nc), "files")
        with open("report.pdf", "rb") as file:
            store.put("report.pdf", file)
        with open("copy.pdf", "wb") as file:
            store.get("report.pdf", file)

An object is cut into chunks, each a message of the stream `OBJ_<bucket>`, with a message beside them that has
its name, size and digest. The digest is checked while it is read. Source: ADR-20 of the NATS architecture,
checked against nats-server 2.15 and nats-py.
"""

from __future__ import annotations

import json
import re
import time
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from headrace.client.api import JetStreamAssets
from headrace.client.consuming import OrderedMessages
from headrace.client.errors import ClientError, ClientTimeoutError, JetStreamMissingError
from headrace.client.headers import STATUS, parse_headers
from headrace.client.jetstream_api import document_of, refusal
from headrace.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from headrace.client.jetstream_api import JetStreamApi

PREFIX: Final = "OBJ_"
"""The beginning of the names of streams that are object stores."""
CHUNK_SIZE: Final = 128 << 10
WINDOW: Final = 16
"""Chunks that are on their way to the server at once."""

_BUCKET: Final = r"[a-zA-Z0-9_-]+"
_SECOND: Final = 1_000_000_000
_DIGEST: Final = "SHA-256="


class ObjectNameError(ClientError, ValueError):
    """A name of a bucket or object that cannot be one."""


class DigestError(ClientError):
    """An object whose chunks are not those that were written."""


class ObjectMissingError(JetStreamMissingError):
    """An object that a bucket does not have."""

    def __init__(self, bucket: str, name: str) -> None:
        super().__init__(404, 10037, f"bucket {bucket} has no object {name!r}")


class BucketObject(NamedTuple):
    """The facts of an object. `size` is bytes, `modified_ns` ns since 1970 UTC.

    `link`: the bucket and the object ("" for a whole bucket) that it leads to, None for an object of its own.
    """

    bucket: str
    name: str
    nuid: str
    size: int
    chunks: int
    digest: str
    modified_ns: int
    description: str
    headers: dict[str, list[str]]
    metadata: dict[str, str]
    chunk_size: int = CHUNK_SIZE
    is_deleted: bool = False
    link: tuple[str, str] | None = None


class ObjectBucket:
    """A bucket of objects; it has to be there (`create` makes one).

    Raises, from every method: as `JetStreamApi.ask`; ObjectMissingError for an object that is not there.
    """

    def __init__(self, api: JetStreamApi, bucket: str) -> None:
        """Open a bucket. Raises: JetStreamMissingError if it is not there; ObjectNameError."""
        _check_bucket(bucket)
        self.api = api
        self.bucket = bucket
        self._assets = JetStreamAssets(api)
        self._stream = PREFIX + bucket
        self.info: dict[str, Any] = self._assets.stream_info(self._stream)
        """The info of its stream, as it was when the bucket was opened."""

    @classmethod
    def create(
        cls,
        api: JetStreamApi,
        bucket: str,
        *,
        ttl_ns: int = 0,
        max_bytes: int = -1,
        storage: str = "file",
        replicas: int = 1,
        description: str = "",
        compression: bool = False,
        more: Mapping[str, object] | None = None,
    ) -> ObjectBucket:
        """Make a bucket and open it; one with the same settings may be there.

        `more`: further fields of the stream's configuration.
        """
        config = object_bucket_config(
            bucket,
            ttl_ns=ttl_ns,
            max_bytes=max_bytes,
            storage=storage,
            replicas=replicas,
            description=description,
            compression=compression,
            more=more,
        )
        JetStreamAssets(api).create_stream(config)
        return cls(api, bucket)

    # -- looking

    def facts(self, name: str, *, with_deleted: bool = False) -> BucketObject:
        """Return the facts of an object. Raises: ObjectMissingError."""
        try:
            found = self._assets.message(self._stream, last_of=self._meta_subject(name))
        except JetStreamMissingError:
            raise ObjectMissingError(self.bucket, name) from None
        facts = _facts(found.data, found.time_ns)
        if facts.is_deleted and not with_deleted:
            raise ObjectMissingError(self.bucket, name)
        return facts

    def objects(self, *, with_deleted: bool = False) -> Iterator[BucketObject]:
        """Yield the facts of all objects."""
        for facts in self.watch(until_end=True):
            if with_deleted or not facts.is_deleted:
                yield facts

    def watch(
        self, *, until_end: bool = False, updates_only: bool = False, idle: float | None = None
    ) -> Generator[BucketObject, None, None]:
        """Yield the facts of all objects, then of each that is written or removed.

        `updates_only`: only the latter, from the call on. `idle`: end after so many seconds without one.
        `close()` of what it returns ends it at the server, too.
        """
        config: dict[str, object] = {"deliver_policy": "new" if updates_only else "last_per_subject"}
        messages = OrderedMessages(self.api, self._stream, [f"$O.{self.bucket}.M.>"], config)
        return self._facts_of(messages, idle=idle, until_end=until_end)

    def _facts_of(
        self, messages: OrderedMessages, *, idle: float | None, until_end: bool
    ) -> Generator[BucketObject, None, None]:
        try:
            for message in messages.read(idle=idle, until_end=until_end):
                yield _facts(message.data, message.delivery.time_ns)
        finally:
            messages.close()

    # -- reading

    def get(
        self, name: str, file: BinaryIO, *, progress: Callable[[int, int], object] = lambda done, size: None
    ) -> BucketObject:
        """Write an object into a file; return its facts. A link is followed, once.

        `progress` is called with the bytes so far and the size. Raises: ObjectMissingError; DigestError if
        what was read is not what was written.
        """
        facts = self.facts(name)
        if facts.link is not None:
            bucket, target = facts.link
            if not target:
                raise ObjectNameError(f"{name!r} leads to a whole bucket, {bucket}")
            place = self if bucket == self.bucket else ObjectBucket(self.api, bucket)
            facts = place.facts(target)
            if facts.link is not None:
                raise ObjectNameError(f"{name!r} leads to another link, {target!r}")
        for chunk, done in self._chunks(facts):
            file.write(chunk)
            progress(done, facts.size)
        return facts

    def verify(
        self, name: str, *, progress: Callable[[int, int], object] = lambda done, size: None
    ) -> BucketObject:
        """Read an object and check its digest; return its facts. Of a link nothing is read.

        `progress` is called with the bytes so far and the size. Raises: ObjectMissingError, DigestError.
        """
        facts = self.facts(name)
        if facts.link is None:
            for _, done in self._chunks(facts):
                progress(done, facts.size)
        return facts

    def _chunks(self, facts: BucketObject) -> Iterator[tuple[bytes, int]]:
        """Yield the chunks of an object with the bytes so far. Raises: DigestError behind the last one."""
        digest, done, count = sha256(), 0, 0
        if facts.chunks:
            subject = f"$O.{facts.bucket}.C.{facts.nuid}"
            messages = OrderedMessages(self.api, PREFIX + facts.bucket, [subject])
            try:
                for message in messages.read(until_end=True):
                    digest.update(message.data)
                    done += len(message.data)
                    count += 1
                    yield message.data, done
            finally:
                messages.close()
        if done != facts.size or count != facts.chunks:
            text = f"{facts.name!r} has {done} bytes in {count} chunks, not {facts.size} in {facts.chunks}"
            raise DigestError(text)
        if _shown_digest(digest.digest()) != _padded(facts.digest):
            raise DigestError(f"{facts.name!r} is not what was written: its digest is another one")

    # -- writing

    def put(
        self,
        name: str,
        file: BinaryIO,
        *,
        description: str = "",
        headers: Mapping[str, list[str]] | None = None,
        metadata: Mapping[str, str] | None = None,
        chunk_size: int = CHUNK_SIZE,
        progress: Callable[[int], object] = lambda done: None,
    ) -> BucketObject:
        """Write an object of all that a file has; one of that name is replaced when all is written.

        `progress` is called with the bytes so far. After a failure the chunks are removed again.
        """
        _check_object(name)
        before = self._before(name)
        nuid = _new_id(self.api)
        writer = _ChunkWriter(self.api, f"$O.{self.bucket}.C.{nuid}")
        digest, size = sha256(), 0
        try:
            while chunk := file.read(chunk_size):
                digest.update(chunk)
                size += len(chunk)
                writer.write(chunk)
                progress(size)
            writer.finish()
            facts = BucketObject(
                bucket=self.bucket,
                name=name,
                nuid=nuid,
                size=size,
                chunks=writer.count,
                digest=_shown_digest(digest.digest()),
                modified_ns=time.time_ns(),
                description=description,
                headers=dict(headers or {}),
                metadata=dict(metadata or {}),
                chunk_size=chunk_size,
            )
            self._write_facts(facts)
        except BaseException:
            if writer.count and self.api.connection.is_open:
                self._purge_chunks(nuid)
            raise
        finally:
            writer.close()
        if before is not None and before.chunks:
            self._purge_chunks(before.nuid)
        return facts

    def delete(self, name: str) -> None:
        """Remove an object; what says so stays. Raises: ObjectMissingError."""
        facts = self.facts(name)
        self._write_facts(facts._replace(is_deleted=True, size=0, chunks=0, digest=""))
        self._purge_chunks(facts.nuid)

    def add_link(self, name: str, target: str, *, bucket: str = "") -> BucketObject:
        """Make an object that leads to another one, of this bucket or another."""
        _check_object(name)
        facts = BucketObject(
            bucket=self.bucket,
            name=name,
            nuid=_new_id(self.api),
            size=0,
            chunks=0,
            digest="",
            modified_ns=time.time_ns(),
            description="",
            headers={},
            metadata={},
            link=(bucket or self.bucket, target),
        )
        self._write_facts(facts)
        return facts

    def seal(self) -> None:
        """Have the bucket never change again."""
        config = self._assets.stream_info(self._stream)["config"]
        self._assets.update_stream({**config, "sealed": True})

    def remove_bucket(self) -> None:
        """Remove the bucket with all its objects."""
        self._assets.delete_stream(self._stream)

    def _before(self, name: str) -> BucketObject | None:
        try:
            return self.facts(name, with_deleted=True)
        except ObjectMissingError:
            return None

    def _write_facts(self, facts: BucketObject) -> None:
        data = json.dumps(_document(facts)).encode()
        self.api.publish(self._meta_subject(facts.name), data, headers={"Nats-Rollup": "sub"})

    def _purge_chunks(self, nuid: str) -> None:
        self._assets.purge_stream(self._stream, subject=f"$O.{self.bucket}.C.{nuid}")

    def _meta_subject(self, name: str) -> str:
        return f"$O.{self.bucket}.M.{urlsafe_b64encode(name.encode()).decode()}"


class _ChunkWriter:
    """Chunks of one object on their way, at most `WINDOW` without an acknowledgement."""

    def __init__(self, api: JetStreamApi, subject: str) -> None:
        self._api = api
        self._subject = subject
        self._inbox = api.connection.new_inbox()
        self._sid = api.connection.subscribe(self._inbox)
        self._waiting = 0
        self.count = 0

    def write(self, chunk: bytes) -> None:
        """Send a chunk, once there is room for it."""
        while self._waiting >= WINDOW:
            self._settle()
        self._api.connection.publish(self._subject, chunk, reply=self._inbox)
        self._waiting += 1
        self.count += 1

    def finish(self) -> None:
        """Wait until all chunks are stored."""
        while self._waiting:
            self._settle()

    def close(self) -> None:
        if self._api.connection.is_open:
            self._api.connection.unsubscribe(self._sid)

    def _settle(self) -> None:
        batch = self._api.connection.receive_of(self._sid, self._api.timeout)
        if not batch:
            raise ClientTimeoutError(f"a chunk was not acknowledged in {self._api.timeout:g} s")
        for block, payload in zip(batch.header_blocks(), batch.payloads, strict=True):
            status = parse_headers(block).get(STATUS) if block is not None else None
            if status is not None:
                raise refusal(404, 10059, "the stream of the bucket does not answer")
            document_of(payload)
            self._waiting -= 1


def object_bucket_config(
    bucket: str,
    *,
    ttl_ns: int = 0,
    max_bytes: int = -1,
    storage: str = "file",
    replicas: int = 1,
    description: str = "",
    compression: bool = False,
    more: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return the configuration of a bucket's stream, as `ObjectBucket.create`. Raises: ObjectNameError."""
    _check_bucket(bucket)
    config: dict[str, object] = {
        "name": PREFIX + bucket,
        "subjects": [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"],
        "max_age": ttl_ns,
        "max_bytes": max_bytes,
        "storage": storage,
        "num_replicas": replicas,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "allow_direct": True,
    }
    if description:
        config["description"] = description
    if compression:
        config["compression"] = "s2"
    return config | dict(more or {})


def digest_of(file: BinaryIO) -> tuple[int, str]:
    """Return the bytes that a file still has, and their digest as it is in the facts of an object."""
    digest, size = sha256(), 0
    while data := file.read(CHUNK_SIZE):
        digest.update(data)
        size += len(data)
    return size, _shown_digest(digest.digest())


def object_buckets(api: JetStreamApi) -> Iterator[dict[str, Any]]:
    """Yield the infos of the streams of all object stores."""
    for info in JetStreamAssets(api).streams("$O.*.C.>"):
        if info["config"]["name"].startswith(PREFIX):
            yield info


def _document(facts: BucketObject) -> dict[str, Any]:
    """Return the facts as they are stored."""
    options: dict[str, Any] = {"max_chunk_size": facts.chunk_size}
    if facts.link is not None:
        bucket, name = facts.link
        options = {"link": {"bucket": bucket, "name": name} if name else {"bucket": bucket}}
    found: dict[str, Any] = {"name": facts.name}
    for name, value in (
        ("description", facts.description),
        ("headers", facts.headers),
        ("metadata", facts.metadata),
    ):
        if value:
            found[name] = value
    found |= {
        "options": options,
        "bucket": facts.bucket,
        "nuid": facts.nuid,
        "size": facts.size,
        "mtime": "0001-01-01T00:00:00Z",  # it is that of the message
        "chunks": facts.chunks,
    }
    if facts.digest:
        found["digest"] = facts.digest
    if facts.is_deleted:
        found["deleted"] = True
    return found


def _facts(data: bytes, time_ns: int) -> BucketObject:
    """Return the facts of an object. Raises: ProtocolError."""
    try:
        found = json.loads(data)
        options = found.get("options") or {}
        link = options.get("link")
        return BucketObject(
            bucket=str(found["bucket"]),
            name=str(found["name"]),
            nuid=str(found["nuid"]),
            size=int(found.get("size") or 0),
            chunks=int(found.get("chunks") or 0),
            digest=str(found.get("digest") or ""),
            modified_ns=time_ns,
            description=str(found.get("description") or ""),
            headers=dict(found.get("headers") or {}),
            metadata=dict(found.get("metadata") or {}),
            chunk_size=int(options.get("max_chunk_size") or CHUNK_SIZE),
            is_deleted=bool(found.get("deleted")),
            link=None if not link else (str(link["bucket"]), str(link.get("name") or "")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not the facts of an object: {error!r}") from error


def _shown_digest(digest: bytes) -> str:
    return _DIGEST + urlsafe_b64encode(digest).decode()


def _padded(digest: str) -> str:
    """Return a digest with its padding, which some clients leave out."""
    algorithm, equals, text = digest.partition("=")
    text = text.rstrip("=")
    return f"{algorithm.upper()}{equals}{text}{'=' * (-len(text) % 4)}"


def _new_id(api: JetStreamApi) -> str:
    return api.connection.new_inbox().rpartition(b".")[2].decode()


def _check_bucket(bucket: str) -> None:
    if not re.fullmatch(_BUCKET, bucket):
        raise ObjectNameError(f"{bucket!r} is not the name of a bucket")


def _check_object(name: str) -> None:
    if not name:
        raise ObjectNameError("an object has a name")
