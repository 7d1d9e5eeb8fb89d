"""Words that are mixed up: `serve` and `server`, `stream` and `streaming`, `config` and `context`.

Here lives which command of the other word is meant. Never lives here: how it is said (`main`, `tree`).
"""

from __future__ import annotations

from typing import Final

_OTHERS: Final = {
    "serve": "server",
    "server": "serve",
    "stream": "streaming",
    "streaming": "stream",
    "config": "context",
    "context": "config",
}
"""The words by the one that is easily typed for each."""

_CONFIG: Final = frozenset(("check", "diff"))


def meant_elsewhere(word: str, name: str) -> str | None:
    """Return the command that is meant by `name` behind `word`, such as `server info`; None if none is.

    A flag behind `server` is meant for `serve`.
    """
    from headrace.cli.main import COMMANDS

    other = _OTHERS.get(word)
    if other not in COMMANDS or name in _commands(word):
        return None
    if name.startswith("-"):
        return "serve" if word == "server" and name not in ("-h", "--help") else None
    return f"{other} {name}" if name in _commands(other) else None


def _commands(word: str) -> frozenset[str]:
    if word == "serve":
        return frozenset()
    if word == "config":
        return _CONFIG
    if word == "streaming":
        from headrace.cli import streaming

        return frozenset(streaming.COMMANDS)
    from headrace.cli.main import COMMANDS
    from headrace.cli.tree import rows_of

    rows = rows_of(COMMANDS[word].module)
    return frozenset(row.words[1] for row in rows if len(row.words) > 1)
