"""A command as a row: its words, arguments and flags, what it needs and prints, the function that runs it.

Here lives the shape of such rows, which is cheap to load; `tree` makes the parser, the help, the completion
and the documents of them. Never lives here: rows (`client/rows`), what a command does (`client`).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple


class ValueKind(Enum):
    """The kind of a value on the command line; `values` reads it. The text is its placeholder in a help."""

    TEXT = "TEXT"
    NUMBER = "N"
    """A whole number that is not negative."""
    DECIMAL = "X"
    DURATION = "DURATION"
    """`1h30m`, `2d`, `300ms`; read as ns."""
    SIZE = "SIZE"
    """`1GB`, `512KiB`, `100`; read as bytes."""
    TIME = "TIME"
    """`2026-11-22T08:00:00Z`, `2026-11-22`, `today`, `-15m`, `+15m`; read as ns since 1970 UTC."""
    SINCE = "WHEN"
    """A time, or a duration that counts back from now; read as ns since 1970 UTC."""
    UNTIL = "UNTIL"
    """A time to come, or a duration from now on; read as ns since 1970 UTC."""
    SUBJECT = "SUBJECT"
    HEADER = "NAME:VALUE"
    """A name and a value; read as a pair."""
    PAIR = "NAME=VALUE"
    """A name and a value; read as a pair."""
    FILE = "FILE"
    DIRECTORY = "DIR"
    JSON = "JSON"
    """A JSON object, or `@FILE` with one; read as a dict."""
    STREAM = "STREAM"
    CONSUMER = "CONSUMER"
    BUCKET = "BUCKET"
    CONTEXT = "CONTEXT"
    SERVER = "SERVER"
    SERVICE = "SERVICE"


class WordArgument(NamedTuple):
    """An argument by its place. `count`: "" for one, "?" none or one, "*" any number, "+" at least one."""

    name: str
    help: str
    kind: ValueKind = ValueKind.TEXT
    count: str = ""  # type: ignore[assignment]  # nobody counts what is in the tuple
    choices: tuple[str, ...] = ()


class WordFlag(NamedTuple):
    """A flag with its names, the longest first as `--count`; its value is `options.count`.

    `kind` None: a switch, False or True. `repeated`: may be given several times, the value is a list, of a
    switch how often.
    `optional`: the value it has where nothing follows it. `environment`: the variable that stands for it.
    `only_as_nats`: taken only by the program's link `nats`, for scripts that were written for that tool;
    `nats_names`: more names, which only that link takes.
    """

    names: tuple[str, ...]
    help: str
    kind: ValueKind | None = None
    default: Any = None
    repeated: bool = False
    choices: tuple[str, ...] = ()
    metavar: str = ""
    optional: str | None = None
    environment: str = ""
    only_as_nats: bool = False
    nats_names: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """The name of the value in the options of a call."""
        return self.names[0].lstrip("-").replace("-", "_")


class JsonForm(Enum):
    """The form of what a command prints with `--json`."""

    NOTHING = "nothing: it has no answer"
    DOCUMENT = "one document"
    LISTING = "one listing: `items`, `total`, `truncated`, and `errors` where servers did not answer"
    LINES = "JSON Lines: an object a line, as they come"


class JsonKey(NamedTuple):
    """A key of what a command prints with `--json`, and its meaning."""

    name: str
    meaning: str


class CommandRow(NamedTuple):
    """A command of the client.

    `words`: how it is called, such as ("context", "ls"). `run`: `module:function` of `headrace.cli.client`,
    loaded when the command is called; the function takes a `Call` and returns an exit code or None.
    `connects`: it talks to a server, so it takes the flags of a connection. `changes`: it changes something
    that stays, so it takes `--dry-run`. `asks`: it destroys, so it asks, and takes `--force`.
    `says`: the answer of the server that is passed on as it is, whose keys are the server's.
    `lists`: it takes `--fail-empty`. `examples`: lines to copy, whose words and flags a test checks.
    """

    words: tuple[str, ...]
    summary: str
    run: str
    description: str = ""
    aliases: tuple[str, ...] = ()
    arguments: tuple[WordArgument, ...] = ()
    flags: tuple[WordFlag, ...] = ()
    connects: bool = True
    changes: bool = False
    asks: bool = False
    lists: bool = False
    json: JsonForm = JsonForm.DOCUMENT
    keys: tuple[JsonKey, ...] = ()
    says: str = ""
    examples: tuple[str, ...] = ()
    only_as_nats: bool = False

    @property
    def name(self) -> str:
        """The words with spaces between them."""
        return " ".join(self.words)
