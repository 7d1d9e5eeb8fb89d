"""`headrace jetstream status`: the bucket of a running server, or what a bucket says without one.

Here live arguments, what is printed, exit codes. What is read is monitoring's and `headrace.bucket`'s.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.bucket_source import add_bucket, bucket_of, bucket_requests, check_alone
from headrace.cli.outcomes import exit_code
from headrace.errors import HeadraceError
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.bucket.overview import ShardOverview

DEFAULT_URL: Final = "http://127.0.0.1:8222"
_TIMEOUT_S: Final = 10.0
_WORDS: Final = """\
Of a running server (its monitoring port): who owns the streams, how far the bucket is behind, how long
commits take, what its requests cost in a month. Of a bucket (--from): its snapshots, the end of its log, the
last owner, and from when on it can be restored. Credentials of a bucket come from the environment, or from
its server's configuration (--config).

exit codes:
  0    done
  1    not done: see the message
  2    wrong use
"""


class StatusError(HeadraceError):
    """A server or a bucket that does not tell; the text is one line."""


def run(arguments: Sequence[str], program: str) -> int:
    """Show the status."""
    form = parser(program)
    options = form.parse_args(arguments)
    return exit_code(form.prog, lambda: _show(options))


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of `status`."""
    form = argparse.ArgumentParser(
        prog=f"{program} jetstream status",
        description="Show the bucket that streams are in.",
        epilog=_WORDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    where = form.add_mutually_exclusive_group()
    where.add_argument("url", nargs="?", help=f"monitoring of a server (default: {DEFAULT_URL})")
    add_bucket(where, form, "a bucket, such as s3://name/prefix")
    form.add_argument("--shard", metavar="NAME", help="with --from: only this shard (default: all)")
    form.add_argument("--json", action="store_true", help="print JSON, with every field")
    return form


def _show(options: argparse.Namespace) -> int:
    check_alone(options)
    if options.bucket_url is None:
        status = _of_server(options.url or DEFAULT_URL)
        print(json.dumps(status) if options.json else "\n".join(server_lines(status)))
        return 0
    found = asyncio.run(_of_bucket(options))
    if options.json:
        from msgspec.structs import asdict

        print(json.dumps([_named(asdict(each)) for each in found]))
    else:
        print("\n\n".join("\n".join(bucket_lines(each)) for each in found))
    return 0


def _named(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: each._asdict() if hasattr(each, "_asdict") else each for name, each in fields.items()}


# -- a running server -----------------------------------------------------------------------------------


def _of_server(url: str) -> dict[str, Any]:
    """The field `bucket` of `/jsz`. Raises: StatusError."""
    from urllib.request import urlopen

    if not url.startswith(("http://", "https://")):
        raise StatusError(f"{url}: the address of a server's monitoring begins with http://")
    try:
        with urlopen(f"{url.rstrip('/')}/jsz", timeout=_TIMEOUT_S) as answer:
            document = json.load(answer)
    except (OSError, ValueError) as error:
        raise StatusError(f"{url}: {getattr(error, 'reason', None) or error}") from error
    status = document.get("bucket") if isinstance(document, dict) else None
    if not isinstance(status, dict):
        raise StatusError(f"{url}: the server has its streams in no bucket")
    return status


def server_lines(status: Mapping[str, Any]) -> list[str]:
    """The status of a running server for people, of the field `bucket` of `/jsz`."""
    commits = status["commits"]
    times = [
        f"{name} {1000 * commits[field]:g} ms or less"
        for name, field in (("half in", "p50_seconds"), ("99 % in", "p99_seconds"))
        if field in commits
    ]
    rows = [
        ("bucket", f"{status['url']}, shard {status['shard']}, commit: {status['commit']}"),
        ("role", f"{status['role']}, epoch {status['epoch']}, owner {status['owner'] or 'unknown'}"),
        ("log", f"object {status['number']:,}, snapshot {status['snapshot']:,}"),
        ("behind", _behind(status)),
        ("commits", ", ".join([f"{commits['count']:,}", *times])),
        ("requests", _requests(status["requests"])),
        ("bytes", f"{status['stored_bytes']:,} in the bucket, {status['cached_bytes']:,} on this disk"),
        ("disk", _disk(status)),
        (
            "price",
            f"about ${status['price_month_usd']:,.2f} a month at S3's list prices, "
            "by the last hour or since the start",
        ),
    ]
    rows += [
        (
            "standby",
            f"{each['server']}: {each['behind']:,} objects behind, heard {each['heard_seconds']:g} s ago",
        )
        for each in status.get("standbys", ())
    ]
    if status.get("cache_trouble"):
        rows.append(("disk", f"cannot be filled: {status['cache_trouble']}"))
    if status.get("trouble"):
        rows.append(("trouble", f"since {status['trouble_seconds']:g} s: {status['trouble']}"))
    elif status.get("last_error"):
        rows.append(("last error", str(status["last_error"])))
    return _aligned(rows)


def _behind(status: Mapping[str, Any]) -> str:
    if status["role"] == "owner":
        return (
            f"{1000 * status['lag_seconds']:,.1f} ms, {status['lag_bytes']:,} bytes are not in the bucket yet"
        )
    return f"{status['behind']:,} objects are not read yet"


def _disk(status: Mapping[str, Any]) -> str:
    """Return how far the local disk is filled. A server of an earlier version does not say it."""
    absent = status.get("absent_bytes")
    if absent is None:
        return "not told"
    if not absent:
        return "has everything"
    why = {"filling": "they are being brought", "full": "there is no room for them"}
    return f"{absent:,} bytes are not on it: {why.get(status['cache_state'], 'nothing brings them')}"


def _requests(counts: Iterable[Mapping[str, Any]]) -> str:
    kinds: dict[str, int] = {}
    failed: dict[str, int] = {}
    for each in counts:
        kinds[each["kind"]] = kinds.get(each["kind"], 0) + each["count"]
        if each["outcome"] not in ("ok", "exists", "missing"):
            failed[each["outcome"]] = failed.get(each["outcome"], 0) + each["count"]
    said = [f"{count:,} {kind}" for kind, count in kinds.items()]
    said += [f"{count:,} ended as {outcome}" for outcome, count in failed.items()]
    return ", ".join(said) or "none"


# -- a bucket -------------------------------------------------------------------------------------------


async def _of_bucket(options: argparse.Namespace) -> list[ShardOverview]:
    """The overviews of a bucket's shards. Raises: HeadraceError."""
    from headrace.bucket.identity import check_readable
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.overview import overview, shards_of

    store = bucket_requests(bucket_of(options))
    await check_readable(store)
    names = [options.shard] if options.shard is not None else await shards_of(store)
    if not names:
        raise StatusError(f"{store.location} has no streams of Headrace in it")
    return [await overview(store, ShardKeys(name)) for name in names]


def bucket_lines(found: ShardOverview) -> list[str]:
    """The overview of a shard for people."""
    owner = "nobody" if found.is_released else found.owner or "unknown"
    snapshot = f"object {found.snapshot:,}, {short_time(found.snapshot_ns)}" if found.snapshot else "none yet"
    total = found.wal.bytes + found.snapshots.bytes + found.segments.bytes
    parts = ", ".join(
        f"{each.number:,} {name}"
        for name, each in (
            ("of the log", found.wal),
            ("snapshots", found.snapshots),
            ("segments", found.segments),
        )
    )
    rows = [
        ("shard", found.shard),
        ("owner", f"{owner}, epoch {found.epoch}"),
        ("log", f"ends with object {found.number:,}, {short_time(found.number_ns)}"),
        ("snapshot", snapshot),
        (
            "restorable",
            f"objects {found.oldest:,} to {found.number:,}, from {short_time(found.oldest_ns)} on",
        ),
        ("objects", f"{parts}: {total:,} bytes"),
    ]
    return _aligned(rows)


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {text}" for name, text in rows]
