"""Streams of JetStream for commands: those of a running server, and of the store of one that is stopped.

Here live the flags that say which server, domain, account and key, and the opening. Never lives here: what
commands do with a stream, what the records of a store mean (`headrace.jetstream.state`).
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.errors import HeadraceError, LogError, StoreLocked

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from headrace.conf.bucket_options import BucketOptions
    from headrace.jetstream.state.records import StreamRecord
    from headrace.log.encryption import Cipher
    from headrace.log.filesystem import FileSystem
    from headrace.log.store import LogStore
    from headrace.tables.source import LogSource

STREAMS_SHARD: Final = "jetstream"
"""The shard of a bucket that has the streams of a server."""
CIPHERS: Final = {"chachapoly": "CHACHA", "chacha": "CHACHA", "aes": "AES"}


class StreamSourceError(HeadraceError):
    """A stream, or a store with streams, that is not there or cannot be used; the text is one line."""


def add_api(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the JetStream API of a server, named like those of the `nats` program."""
    flags = parser.add_argument_group("streams of a server (--server)")
    one = flags.add_mutually_exclusive_group()
    one.add_argument("--js-domain", metavar="DOMAIN", help="the JetStream domain that has them")
    one.add_argument("--js-api-prefix", metavar="PREFIX", help="where the subjects of its API begin")


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the account and the key of a store."""
    flags = parser.add_argument_group("streams of a store (--dir, --from)")
    flags.add_argument("--account", metavar="NAME", help=f"whose they are (default: {GLOBAL_ACCOUNT})")
    flags.add_argument("--key-file", type=Path, metavar="FILE", help="has the key, if the store is encrypted")
    flags.add_argument(
        "--cipher", type=str.lower, choices=tuple(CIPHERS), help="of the store (default: chachapoly)"
    )


def api_of(options: argparse.Namespace) -> str:
    """Return where the subjects of the API begin."""
    from headrace.client.jetstream_api import DEFAULT_PREFIX

    if options.js_domain:
        return f"$JS.{options.js_domain}.API"
    return (options.js_api_prefix or DEFAULT_PREFIX).removesuffix(".")


def secret_in(path: Path) -> str:
    """The key in a file, without the line's end. Raises: HeadraceError, OSError."""
    try:
        secret = path.read_text("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise HeadraceError(f"{path} has no text in it") from error
    if not secret:
        raise HeadraceError(f"{path} has no key in it")
    return secret


def cipher_of(options: argparse.Namespace) -> Cipher | None:
    """Return the cipher of a store, None without a key. Raises: HeadraceError, OSError."""
    if options.key_file is None:
        if options.cipher:
            raise StreamSourceError("--cipher has no effect without --key-file")
        return None
    from headrace.log.store_cipher import store_cipher

    return store_cipher(secret_in(options.key_file), CIPHERS[options.cipher or "chachapoly"])


@contextmanager
def opened(directory: Path, cipher: Cipher | None = None) -> Iterator[LogStore]:
    """The streams' store in a store_dir, locked as long as it is used.

    Raises: StreamSourceError when there is none, or a server has it.
    """
    from headrace.jetstream.importing.detecting import HOME
    from headrace.log.store import LOGS

    home = directory / HOME
    if not (home / LOGS).is_dir():
        raise StreamSourceError(f"{directory} is not a store_dir of Headrace: it has no {HOME}/{LOGS}")
    with _store(home, str(directory), cipher) as store:
        yield store


@contextmanager
def opened_bucket(bucket: BucketOptions, cipher: Cipher | None = None) -> Iterator[LogStore]:
    """The streams' store in a bucket as it is now, whoever has it; what is changed stays in memory.

    Raises: BucketSourceError, BucketError, StoreError; StreamSourceError for another key.
    """
    from headrace.cli.bucket_source import shard_files

    home = Path("/") / STREAMS_SHARD  # a name only
    with _store(home, bucket.url, cipher, shard_files(bucket, STREAMS_SHARD, home)) as store:
        yield store


@contextmanager
def _store(
    home: Path, place: str, cipher: Cipher | None, files: FileSystem | None = None
) -> Iterator[LogStore]:
    from headrace.log.store import FileStore

    try:
        store = FileStore(home, cipher=cipher, remembers=False, filesystem=files)
    except StoreLocked as error:
        raise StreamSourceError(f"{error}: stop the server first, or ask it with --server") from None
    try:
        yield store
    except LogError as error:
        is_sealed = cipher is None and "encrypted" in str(error)
        hint = ": say --key-file, with the key of jetstream { key }" if is_sealed else ""
        raise StreamSourceError(f"{place}: {error}{hint}") from error
    finally:
        store.close()


def stored_streams(store: LogStore, account: str) -> dict[str, StreamRecord]:
    """The streams of an account in a store, by name; damaged records are told of. Raises: LogError."""
    from headrace.jetstream.state.recovery import read_state

    def report(sequence: int, reason: str) -> None:
        print(f"account {account}: state record {sequence} skipped: {reason}", file=sys.stderr)

    state, _ = read_state(store, account, report)
    return state.streams


def log_source(store: LogStore, account: str, name: str, record: StreamRecord) -> LogSource:
    """A stored stream as a source of a table, as the server would find it at a start.

    Only an atomic batch that was cut off is removed; nothing expires. Raises: StreamSourceError, LogError.
    """
    from headrace.jetstream.assets import stream_log
    from headrace.jetstream.batch.recovery import remove_incomplete_batch
    from headrace.jetstream.stored import removes_front_only
    from headrace.jetstream.stream.stream import log_limits
    from headrace.log.port import Limits
    from headrace.tables.source import LogSource

    try:
        config = record.read()
    except ValueError as error:
        raise StreamSourceError(f"stream {name}: its configuration cannot be read: {error}") from error
    limits = Limits(waits_for_expire=True, weights=log_limits(config).weights)  # else no checkpoint fits
    log = store.open(stream_log(account, name), limits)
    if log.may_end_torn:
        remove_incomplete_batch(log)
    return LogSource(
        log,
        name,
        record.created_ns,
        keeps_order=removes_front_only(config),
        begins_at=max(config.first_seq, 1),
        metadata=config.metadata,
    )


def chosen(known: Iterable[str], pattern: str) -> list[str]:
    """Return the streams that a pattern means: `*` stands for any text, but does not begin a bucket's name.

    Raises: StreamSourceError if it means none.
    """
    from headrace.tables.open import is_meant  # it needs the packages of tables

    found = [name for name in known if name == pattern or is_meant(pattern, name)]
    if not found:
        raise StreamSourceError(f"no stream {pattern!r}")
    return found
