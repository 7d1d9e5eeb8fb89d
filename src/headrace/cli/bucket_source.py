"""Buckets for commands: the flags that say which one and how it is reached, and what is read there.

Never lives here: what commands do with it (`bucket_restore`, `jetstream_status`, `archive_sources`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from headrace.errors import ConfigError, HeadraceError

if TYPE_CHECKING:
    import argparse

    from headrace.bucket.shard_files import ShardFiles
    from headrace.conf.bucket_options import BucketOptions
    from headrace.objects.port import AsyncObjectStore

_SCHEMES: Final = ("s3://", "gs://", "az://", "file:///")


class BucketSourceError(HeadraceError):
    """A bucket that cannot be meant; the text is one line."""


def add_bucket(
    where: argparse._ActionsContainer,
    form: argparse._ActionsContainer,
    what: str,
    *,
    flag: str = "--from",
    is_required: bool = False,
) -> None:
    """Add the flag for a bucket to `where`, those that go with it to `form`."""
    where.add_argument(flag, dest="bucket_url", metavar="URL", required=is_required, help=what)
    form.add_argument("--endpoint", metavar="URL", help=f"with {flag}: of a store that is not the provider's")
    form.add_argument("--region", metavar="NAME", help=f"with {flag}: of an S3 bucket")
    form.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"with {flag}: configuration of its server, whose bucket block has endpoint and credentials",
    )


def bucket_of(options: argparse.Namespace) -> BucketOptions:
    """Return the bucket that flags mean; what they do not say comes from the environment.

    Raises: BucketSourceError, ConfigError.
    """
    from msgspec.structs import replace

    from headrace.conf.bucket_options import BucketOptions

    url = str(options.bucket_url).rstrip("/")
    if not url.startswith(_SCHEMES):
        raise BucketSourceError(f"{url} is no bucket: s3://, gs://, az:// and file:/// are known")
    made = BucketOptions(url) if options.config is None else _configured(options.config, url)
    given = {name: value for name in ("endpoint", "region") if (value := getattr(options, name)) is not None}
    return replace(made, **given)


def check_alone(options: argparse.Namespace) -> None:
    """Raise BucketSourceError for flags of a bucket without one."""
    if options.bucket_url is None:
        for name in ("endpoint", "region", "config", "shard", "at"):
            if getattr(options, name, None) is not None:
                raise BucketSourceError(f"--{name} needs a bucket: --from")


def _configured(path: Path, url: str) -> BucketOptions:
    """The bucket of a server's configuration, at `url`."""
    from msgspec.structs import replace

    from headrace.conf.binding import load_options

    try:
        options = load_options(str(path))
    except ConfigError as error:
        raise BucketSourceError(f"{path}: {error.problems[0]}") from error
    services = (options.jetstream, options.streaming)
    found = [one.bucket for one in services if one is not None and one.bucket is not None]
    scheme = url.partition(":")[0]
    same = [one for one in found if one.url.rstrip("/") == url] or [
        one for one in found if one.url.partition(":")[0] == scheme
    ]
    if not same:
        raise BucketSourceError(f"{path} says no bucket of {scheme}://")
    return replace(same[0], url=url)


def bucket_requests(bucket: BucketOptions) -> AsyncObjectStore:
    """Open a bucket for the running loop; requests are tried again. Raises: BucketError, UnsupportedError."""
    from headrace.bucket.opening import open_bucket
    from headrace.bucket.requests import BucketRequests

    return BucketRequests(open_bucket(bucket).store, Random().random)


async def shard_of(store: AsyncObjectStore, shard: str | None) -> str:
    """Return the one shard of a bucket, or the one that is named.

    Raises: BucketSourceError, BucketError for a prefix that is not Headrace's, StoreError.
    """
    from headrace.bucket.identity import check_readable
    from headrace.bucket.overview import shards_of

    await check_readable(store)
    names = await shards_of(store)
    if shard is not None and shard not in names:
        raise BucketSourceError(
            f"there is no shard {shard} in {store.location}: {', '.join(names) or 'none'}"
        )
    if not names:
        raise BucketSourceError(f"{store.location} has no streams of Headrace in it")
    if shard is None and len(names) > 1:
        raise BucketSourceError(f"{store.location} has several shards, say --shard: {', '.join(names)}")
    return shard or names[0]


def shard_files(bucket: BucketOptions, shard: str, directory: Path) -> ShardFiles:
    """Load the files of a shard as of now, as if they were in `directory`.

    Raises: BucketSourceError, BucketError, StoreError.
    """
    from headrace.bucket.extent_contents import ExtentContents
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.opening import open_bucket
    from headrace.bucket.shard_files import load_shard_files

    async def load() -> ShardFiles:
        store = bucket_requests(bucket)
        keys = ShardKeys(await shard_of(store, shard))
        contents = ExtentContents(open_bucket(bucket).reads, keys)
        return await load_shard_files(store, contents, keys, directory)

    return asyncio.run(load())
