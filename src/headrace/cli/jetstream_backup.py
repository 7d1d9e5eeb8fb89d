"""`headrace jetstream backup`, `verify` and `restore`: arguments, progress, what is printed, exit codes.

What is read and written is `headrace.backup`'s.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.backup.manifest import BackupError
from headrace.cli.bucket_restore import moment_of, restore
from headrace.cli.bucket_source import add_bucket, check_alone
from headrace.cli.outcomes import ExitCode, exit_code
from headrace.cli.progress import ProgressBars
from headrace.jetstream.importing.detecting import HOME, UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.objects.port import ObjectStore

_SHOWN: Final = 20
_BACKUP: Final = """\
A target is a directory, or a URL such as s3://bucket/nats (with headrace[tables]; credentials come from the
environment). The server goes on meanwhile. Only segments that the target does not have are copied, and those
of streams that are full are not read again. What is encrypted stays so, under the same key.
"""
_RESTORE: Final = """\
The directory may not have a store. The server starts with it afterwards (-sd NEW), with the key of the old
one where there was one. After an interruption the same command goes on.
"""
_CODES: Final = """\

exit codes:
  0    done
  1    not done: see the message
  2    wrong use
  3    verify: parts are missing or damaged; they are listed
  130  interrupted: run it again (after TERM: 143)
"""


def run_backup(arguments: Sequence[str], program: str) -> int:
    """Make a backup."""
    return _do(backup_parser(program), arguments, _back_up)


def backup_parser(program: str) -> argparse.ArgumentParser:
    """The parser of `backup`."""
    parser = _parser(program, "backup", "Back up the streams of a server, while it runs.", _BACKUP)
    parser.add_argument("target", help="a directory or a URL")
    parser.add_argument(
        "--dir", type=Path, required=True, help="the server's store_dir, the one that has jetstream"
    )
    parser.add_argument("--account", help="only the streams of this account (default: all)")
    return parser


def run_verify(arguments: Sequence[str], program: str) -> int:
    """Check a backup."""
    return _do(verify_parser(program), arguments, _verify)


def verify_parser(program: str) -> argparse.ArgumentParser:
    """The parser of `verify`."""
    parser = _parser(program, "verify", "Check a backup without restoring it.", "")
    parser.add_argument("target", help="a directory or a URL")
    parser.add_argument("--backup", metavar="NAME", help="which one (default: the newest)")
    parser.add_argument("--all", action="store_true", help=f"list all that is wrong, not only {_SHOWN} parts")
    return parser


def run_restore(arguments: Sequence[str], program: str) -> int:
    """Restore a backup, or what a bucket has."""
    return _do(restore_parser(program), arguments, _restore)


def restore_parser(program: str) -> argparse.ArgumentParser:
    """The parser of `restore`."""
    parser = _parser(program, "restore", "Make a store of a backup, or of a bucket.", _RESTORE)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("source", nargs="?", help="a backup: a directory or a URL")
    add_bucket(place, parser, "a bucket that streams are in, such as s3://name/prefix")
    parser.add_argument(
        "--dir", type=Path, required=True, metavar="NEW", help="the store_dir of the new server"
    )
    parser.add_argument("--backup", metavar="NAME", help="which backup (default: the newest)")
    parser.add_argument(
        "--at",
        type=moment_of,
        metavar="TIME|NUMBER",
        help="with --from: the time (2026-11-21T02:39:41Z) or the object of the log (default: the newest)",
    )
    parser.add_argument("--shard", metavar="NAME", help="with --from: which one, where there are several")
    return parser


def _do(
    parser: argparse.ArgumentParser, arguments: Sequence[str], work: Callable[[argparse.Namespace], int]
) -> int:
    options = parser.parse_args(arguments)
    return exit_code(parser.prog, lambda: work(options), again="run it again")


def _parser(program: str, verb: str, description: str, words: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"{program} jetstream {verb}",
        description=description,
        epilog=words + _CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _back_up(options: argparse.Namespace) -> int:
    from headrace.backup.taking import LogChoice, take_backup
    from headrace.jetstream.assets import is_state_log

    home = options.dir / HOME
    if not home.is_dir():
        raise BackupError(f"{options.dir} has no directory {HOME}: it is no store_dir of Headrace")
    store = _opened(options.target)
    if "://" not in options.target and Path(options.target).resolve().is_relative_to(home.resolve()):
        raise BackupError(f"{options.target} is within the store that is to be backed up")
    account = options.account
    wanted = LogChoice(home, is_state_log, account, b"" if account is None else f"{account}/".encode())
    with ProgressBars("copying", unit="bytes") as meter:
        taken = take_backup(store, wanted, meter.show)
    print(
        f"backup {taken.name}: {taken.logs:,} logs, {taken.segments:,} segments; "
        f"{taken.copied:,} new ones copied ({taken.copied_bytes / 1e6:,.1f} MB)"
    )
    return 0


def _verify(options: argparse.Namespace) -> int:
    from headrace.backup.manifest import chosen
    from headrace.backup.restoring import wrong_parts

    store = _opened(options.target)
    name, manifest = chosen(store, options.backup)
    with ProgressBars("checking", unit="bytes") as meter:
        wrong = list(wrong_parts(store, manifest, meter.show))
    for line in wrong if options.all else wrong[:_SHOWN]:
        print(line)
    if len(wrong) > _SHOWN and not options.all:
        print(f"and {len(wrong) - _SHOWN:,} more: --all lists them")
    parts = sum(len(log.parts) for log in manifest.logs)
    print(
        f"backup {name} of {manifest.created}: {len(manifest.logs):,} logs, {parts:,} segments, "
        f"{len(wrong):,} wrong"
    )
    return ExitCode.WRONG if wrong else 0


def _restore(options: argparse.Namespace) -> int:
    home, unfinished = options.dir / HOME, options.dir / UNFINISHED
    if options.bucket_url is not None:
        if options.backup is not None:
            raise BackupError("--backup names a backup: it has no meaning with --from")
        return restore(options, home, unfinished)
    check_alone(options)
    from headrace.backup.manifest import chosen
    from headrace.backup.restoring import restore_backup

    store = _opened(options.source)
    name, manifest = chosen(store, options.backup)
    with ProgressBars("restoring", unit="bytes") as meter:
        written = restore_backup(store, manifest, home, unfinished, meter.show)
    print(
        f"restored backup {name} of {manifest.created}: {len(manifest.logs):,} logs, "
        f"{written:,} segments written"
    )
    return 0


def _opened(location: str) -> ObjectStore:
    from headrace.objects.opening import open_store

    return open_store(location)
