"""Names for completion: of contexts on this machine, of streams, consumers, buckets and servers live.

A shell calls `headrace --complete KIND WORDS...` with the words of its command line, so the flags among them
say which server. It is asked for at most 300 ms; its names are kept for 10 s. Never lives here: the scripts
of shells (`completion`).

Whatever goes wrong, no name is printed: a shell that completes has no place for a message.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.command_rows import CommandRow, ValueKind
from headrace.cli.connection_flags import connection_settings
from headrace.cli.tree import parser_of
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.cli.connection_flags import ConnectionSettings
    from headrace.client.blocking import Connection

_LIMIT_S: Final = 0.3
_QUIET_S: Final = 0.05
_KEPT_S: Final = 10.0
_SHARED: Final = "shared_"
_OBJECTS: Final = ("object", "obj")

LIVE: Final = {
    kind.value.lower(): kind
    for kind in (
        ValueKind.CONTEXT, ValueKind.STREAM, ValueKind.CONSUMER, ValueKind.BUCKET, ValueKind.SERVER,
    )
}  # fmt: skip
"""The kinds of values whose names are found, by the words for them."""


def run(arguments: Sequence[str]) -> int:
    """Print the names of a kind, one a line; nothing where they cannot be had."""
    kind = LIVE.get(arguments[0] if arguments else "")
    if kind is None:
        return 2
    try:
        found = names(kind, arguments[1:])
    except (HeadraceError, OSError, ValueError, KeyError):
        found = []  # see above
    for name in found:
        if name.isprintable() and " " not in name:
            print(name)
    return 0


def names(kind: ValueKind, words: Sequence[str]) -> list[str]:
    """Return the names of a kind; `words` are those of the command line, the program first.

    Raises: CommandError, ClientError, OSError.
    """
    if kind is ValueKind.CONTEXT:
        from headrace.client.contexts import ContextFolder

        return ContextFolder().names()
    shared, rest = _read(words[1:])
    settings = connection_settings(shared, lambda _: None)
    stream = _stream(words, rest) if kind is ValueKind.CONSUMER else ""
    is_object = any(word in _OBJECTS for word in rest[:1])
    cache = _NameCache([kind.value, stream, is_object, settings.url, settings.context, shared.user])
    found = cache.read()
    if found is None:
        found = sorted(_asked(kind, settings, stream, is_object=is_object))
        cache.write(found)
    return found


def _asked(kind: ValueKind, settings: ConnectionSettings, stream: str, *, is_object: bool) -> list[str]:
    from headrace.client.api import JetStreamAssets
    from headrace.client.blocking import connect
    from headrace.client.jetstream_api import DEFAULT_PREFIX, JetStreamApi

    with connect(settings.url, settings.options._replace(timeout=_LIMIT_S)) as connection:
        if kind is ValueKind.SERVER:
            return _servers(connection)
        api = JetStreamApi(connection, settings.api_prefix or DEFAULT_PREFIX, timeout=_LIMIT_S)
        assets = JetStreamAssets(api)
        if kind is ValueKind.CONSUMER:
            return list(assets.consumer_names(stream)) if stream else []
        if kind is ValueKind.STREAM:
            return list(assets.stream_names())
        beginning = "OBJ_" if is_object else "KV_"
        every = assets.stream_names()
        return [name.removeprefix(beginning) for name in every if name.startswith(beginning)]


def _servers(connection: Connection) -> list[str]:
    from headrace.client.system import gather_documents

    found = gather_documents(connection, "$SYS.REQ.SERVER.PING", quiet=_QUIET_S, timeout=_LIMIT_S)
    return [str(each["server"]["name"]) for each in found]


def _read(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the flags of every command, and the other words. Raises: ArgumentError."""
    row = CommandRow(words=("completion",), summary="", run="")
    found, rest = parser_of(row, "headrace").parse_known_args(list(words))
    shared = {name.removeprefix(_SHARED): value for name, value in vars(found).items()}
    return argparse.Namespace(**shared), rest


def _stream(words: Sequence[str], rest: Sequence[str]) -> str:
    """Return the stream that a command line names; "" if it names none."""
    if "--stream" in words[:-1]:
        return words[list(words).index("--stream") + 1]
    from headrace.cli.main import COMMANDS, ClientWord
    from headrace.cli.tree import rows_of

    plain = [word for word in rest if not word.startswith("-")]
    for name, word in COMMANDS.items():
        if plain and isinstance(word, ClientWord) and plain[0] in (name, *word.aliases):
            for row in rows_of(word.module):
                behind = plain[len(row.words) :]
                if plain[1 : len(row.words)] in (list(row.words[1:]), [*row.words[1:-1], *row.aliases[:1]]):
                    kinds = [argument.kind for argument in row.arguments]
                    place = kinds.index(ValueKind.STREAM) if ValueKind.STREAM in kinds else len(behind)
                    return behind[place] if place < len(behind) else ""
    return ""


class _NameCache:
    """The names that were found a moment ago, where the machine has a directory of this user for that."""

    def __init__(self, key: list[Any]) -> None:
        from hashlib import sha256

        folder = os.environ.get("XDG_RUNTIME_DIR")
        digest = sha256(json.dumps(key).encode()).hexdigest()[:32]
        self._path = os.path.join(folder, f"headrace-names-{digest}.json") if folder else None

    def read(self) -> list[str] | None:
        """Return the names; None if there are none, or they are old."""
        if self._path is None:
            return None
        try:
            if time.time() - os.stat(self._path).st_mtime > _KEPT_S:
                return None
            with open(self._path, encoding="utf-8") as file:
                return [str(name) for name in json.load(file)]
        except (OSError, ValueError):
            return None

    def write(self, found: list[str]) -> None:
        """Keep names. A machine that cannot is asked again next time."""
        if self._path is None:
            return
        fresh = f"{self._path}.{os.getpid()}"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(fresh, self._path)
