"""`headrace jetstream upload`: the store of a local disk brought into a bucket, before servers have it there.

Here live arguments, progress, and what is printed. What is read and written is `headrace.bucket.upload`'s.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli.bucket_source import add_bucket, bucket_of, bucket_requests
from headrace.cli.outcomes import exit_code
from headrace.cli.progress import ProgressBars
from headrace.jetstream.importing.detecting import HOME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.bucket.upload import UploadedStore

_STREAMS: Final = "jetstream"
_WORDS: Final = """\
Stop the server first. Nothing in the directory is changed: it goes on being a store without a bucket, and is
a backup of this moment. Afterwards start servers with the bucket and another store_dir. What is encrypted
stays so, under the same key.

exit codes:
  0    done
  1    not done: see the message
  2    wrong use
  130  interrupted: run it again; what is in the bucket is not sent again (after TERM: 143)
"""


def run(arguments: Sequence[str], program: str) -> int:
    """Upload a store."""
    parser = upload_parser(program)
    options = parser.parse_args(arguments)
    return exit_code(parser.prog, lambda: _upload(options), again="run it again")


def upload_parser(program: str) -> argparse.ArgumentParser:
    """The parser of `upload`."""
    parser = argparse.ArgumentParser(
        prog=f"{program} jetstream upload",
        description="Bring the streams of a local disk into a bucket.",
        epilog=_WORDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_bucket(parser, parser, "the bucket, such as s3://name/prefix", flag="--to", is_required=True)
    parser.add_argument(
        "--dir", type=Path, required=True, help="the server's store_dir; of channels their dir, with --shard"
    )
    parser.add_argument(
        "--shard",
        default=_STREAMS,
        metavar="NAME",
        help="streaming-ID for the channels of a cluster ID (default: the streams of JetStream)",
    )
    parser.add_argument(
        "--cluster",
        default="",
        metavar="NAME",
        help="name of the servers' cluster: others may not use the prefix then",
    )
    return parser


def _upload(options: argparse.Namespace) -> int:
    shard, made = options.shard, asyncio.run(_uploaded(options))
    print(
        f"uploaded shard {shard}: {made.files:,} files, {made.bytes:,} bytes, {made.sent:,} of them now\n"
        f"{options.dir} is as it was: give servers with the bucket another directory"
    )
    return 0


async def _uploaded(options: argparse.Namespace) -> UploadedStore:
    from headrace.bucket.keys import ShardKeys
    from headrace.bucket.upload import upload_store
    from headrace.bucket.wal_object import WRITER_BYTES

    keys = ShardKeys(options.shard)
    home = options.dir / HOME if options.shard == _STREAMS else options.dir
    store = bucket_requests(bucket_of(options))
    with ProgressBars("uploading", unit="bytes") as meter:
        return await upload_store(
            store,
            keys,
            home,
            cluster=options.cluster,
            writer=secrets.token_bytes(WRITER_BYTES),
            wall_ns=time.time_ns,
            told=meter.show,
        )
