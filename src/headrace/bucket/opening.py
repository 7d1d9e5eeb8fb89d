"""The way from the options of a bucket to its stores and its shards. Nothing is asked of the bucket yet.

obstore is loaded for buckets other than `file:///`. It makes each request once: time limits and retries are
those of `requests`.
"""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from headrace.bucket.counted_reading import CountedReads
from headrace.bucket.errors import BucketError
from headrace.bucket.keys import ShardKeys
from headrace.bucket.place import ShardPlace
from headrace.bucket.requests import LIMITS, BucketRequests, RequestLimits
from headrace.bucket.shard import Shard
from headrace.errors import UnsupportedError
from headrace.log.filesystem import RealFileSystem
from headrace.objects.errors import StoreError
from headrace.objects.opening import open_async_store, open_store
from headrace.objects.shared_directory import SharedDirectory

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from headrace.bucket.port import MakeShard, ShardHost
    from headrace.conf.bucket_options import BucketOptions
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.objects.port import AsyncObjectStore, ObjectStore

CONNECT_TIMEOUT_S: Final = 3
LAST_TIMEOUT_S: Final = 300
"""Seconds after which obstore gives up a request that nobody else has given up."""
READ_TIMEOUT_S: Final = 30
READ_RETRIES: Final = 3
"""Attempts beyond the first of a read on a thread, with READ_TIMEOUT_S each."""

_SCHEME_KEYS: Final = {
    "s3": ("access_key_id", "secret_access_key", "session_token"),
    "az": ("account_name", "account_key", "sas_key", "tenant_id", "client_id", "client_secret"),
    "gs": ("file",),
}
_ALLOWS_HTTP: Final = {"s3": "AWS_ALLOW_HTTP", "az": "AZURE_ALLOW_HTTP", "gs": "GOOGLE_ALLOW_HTTP"}
"""Names of the environment by which an endpoint may be one without TLS."""
_UNSIGNED: Final = "AWS_UNSIGNED_PAYLOAD"
"""The name of the environment by which S3's signatures leave the bytes of a request out, or do not."""
_NAMES: Final = {"file": "service_account"}
"""Names of obstore that differ from ours."""


COMMIT_LIMITS: Final = RequestLimits(3.0, 3.0)
"""The limits of creating an object in the log: its writer tries for ever, and tells why it fails."""


class BucketStores(NamedTuple):
    """The objects of one bucket, as two clients see them."""

    store: AsyncObjectStore
    """The client of the event loop; each request is made once (`headrace.bucket.requests`)."""
    reads: ObjectStore
    """The client of threads that read."""


def open_bucket(options: BucketOptions) -> BucketStores:
    """Return the stores of a bucket.

    Raises: UnsupportedError without obstore; BucketError for options that it does not take, with the reason
    in one line.
    """
    url = urlsplit(options.url)
    if url.scheme == "file":
        directory = unquote(url.path)
        return BucketStores(SharedDirectory(Path(directory)), open_store(directory))
    given = store_options(options)
    client = given.pop("client_options")
    once = {"max_retries": 0, "retry_timeout": timedelta(seconds=LAST_TIMEOUT_S)}
    few = {"max_retries": READ_RETRIES, "retry_timeout": timedelta(seconds=READ_TIMEOUT_S)}
    try:
        return BucketStores(
            open_async_store(
                options.url,
                **given,
                client_options={**client, "timeout": timedelta(seconds=LAST_TIMEOUT_S)},
                retry_config=once,
            ),
            open_store(
                options.url,
                **given,
                client_options={**client, "timeout": timedelta(seconds=READ_TIMEOUT_S)},
                retry_config=few,
            ),
        )
    except UnsupportedError as error:
        raise UnsupportedError(
            f"{options.url} needs the package obstore: pip install 'headrace[bucket]'"
        ) from error
    except StoreError as error:
        raise BucketError(f"the bucket cannot be opened: {error}") from error


def store_options(options: BucketOptions) -> dict[str, Any]:
    """Return what obstore's `from_url` is given for a bucket, without time limits.

    Raises: BucketError for a file of authorities that cannot be read.
    """
    url = urlsplit(options.url)
    client: dict[str, Any] = {"connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S)}
    given: dict[str, Any] = {"client_options": client}
    for name in _SCHEME_KEYS[url.scheme] if options.credentials is not None else ():
        value = getattr(options.credentials, name)
        if value is not None:
            given[_NAMES.get(name, name)] = value
    if options.ca_file is not None:
        client["root_certificate"] = _text(options.ca_file)
    if options.endpoint is not None:
        client["allow_http"] = options.endpoint.startswith("http://")
        given["base_url" if url.scheme == "gs" else "endpoint"] = options.endpoint.rstrip("/")
    elif os.environ.get(_ALLOWS_HTTP[url.scheme], "").lower() in ("true", "1"):
        client["allow_http"] = (
            True  # what we say of the client has obstore pass over what the environment says
        )
    if url.scheme == "s3":
        given |= _s3_options(options, url.netloc)
        if not client.get("allow_http") and _UNSIGNED not in os.environ:
            given["unsigned_payload"] = True  # TLS protects them, and a digest costs CPU for each byte
    return given


def _s3_options(options: BucketOptions, bucket: str) -> dict[str, Any]:
    given: dict[str, Any] = {"virtual_hosted_style_request": not options.path_style}
    if options.endpoint is not None and not options.path_style:  # obstore wants the whole host name
        endpoint = urlsplit(options.endpoint)
        given["endpoint"] = endpoint._replace(netloc=f"{bucket}.{endpoint.netloc}").geturl().rstrip("/")
    names = (
        ("region", options.region),
        ("server_side_encryption", options.server_side_encryption),
        ("sse_kms_key_id", options.kms_key_id),
    )
    return given | {name: value for name, value in names if value is not None}


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BucketError(f"the authorities of the bucket cannot be read: {error}") from error


def open_place(
    options: BucketOptions,
    shard: str,
    directory: Path,
    *,
    server: str,
    cluster: str,
    files: FileSystem,
    wall_ns: Callable[[], int],
    cipher: Cipher | None = None,
) -> ShardPlace:
    """Return the place of a shard at the server of this name, for the running loop.

    Raises: UnsupportedError, BucketError as `open_bucket`.
    """
    stores, random = open_bucket(options), SystemRandom()
    requests = BucketRequests(stores.store, random.random, {**LIMITS, "create": COMMIT_LIMITS})
    return ShardPlace(
        keys=ShardKeys(shard),
        store=requests,
        reads=CountedReads(stores.reads, requests.counts, asyncio.get_running_loop()),
        directory=directory,
        files=files,
        owner=server,
        cluster=cluster,
        options=options,
        wall_ns=wall_ns,
        random=random,
        counts=requests.counts,
        free_bytes=lambda: _free_bytes(directory),
        cipher=cipher,
    )


def _free_bytes(directory: Path) -> int:
    """Return the free bytes of the disk that a directory is in. Raises: OSError."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def shards_in(
    options: BucketOptions,
    shard: str,
    directory: Path,
    log: logging.Logger,
    *,
    files: FileSystem | None,
    wall_ns: Callable[[], int],
    cipher: Cipher | None,
) -> MakeShard:
    """Return what makes a shard of a bucket for servers.

    `directory`: of this machine's copy. `files`: what that is in; None: the system's. `cipher`: of the logs.
    """

    def make(host: ShardHost, server: str, cluster: str, *, is_alone: bool) -> Shard:
        place = open_place(
            options,
            shard,
            directory,
            server=server,
            cluster=cluster,
            files=files or RealFileSystem(),
            wall_ns=wall_ns,
            cipher=cipher,
        )
        return Shard(place, host, log, is_alone=is_alone)

    return make
