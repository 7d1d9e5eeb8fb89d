"""The scripts in the folder `wire`, one file per subject matter.

    # a comment
    = name of the script [name of its configuration]
    c> SUB a 1\\r\\n       bytes on connection c, which is then brought to rest
    c~ PUB a 10\\r\\nhal    bytes that leave the server waiting for more
    c| PING\\r\\n          bytes, then the sending side is closed

Text is UTF-8 with the escapes \\r \\n \\t \\\\ \\xNN. {PLAIN}, {VERBOSE} and {REPLYING} stand for a CONNECT,
{user:NAME}, {user:NAME verbose} and {user:NAME replying} for one with that user's password, {93*a} for
ninety-three letters a. {SERVICE 1} is the first of the reply subjects that came from servers with requests to
services of other accounts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from conformance.scripts import Script, Step

FOLDER: Final = Path(__file__).with_name("wire")

_CONNECTS: Final = {
    "PLAIN": b'{"verbose":false,"pedantic":false,"headers":true}',
    "VERBOSE": b'{"verbose":true,"pedantic":true,"headers":true}',
    "REPLYING": b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}',
}
_TITLE: Final = re.compile(r"= (\w+)(?: \[(\w+)\])?")
_STEP: Final = re.compile(r"(\w)([>~|])(?: (.*))?")
_ESCAPE: Final = re.compile(rb"\\(?:([rnt\\])|x([0-9a-f]{2}))")
_MACRO: Final = re.compile(
    rb"\{(?:(PLAIN|VERBOSE|REPLYING)|user:(\w+)(?: (verbose|replying))?|(\d+)\*([^}]+))\}"
)
_LETTERS: Final = {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"\\": b"\\"}


def scripts() -> list[Script]:
    """Every script of every file, in order.

    Raises: ValueError naming file and line for what cannot be read.
    """
    return [script for path in sorted(FOLDER.glob("*.wire")) for script in read(path)]


def read(path: Path) -> list[Script]:
    titles: list[tuple[str, str]] = []
    steps: list[list[Step]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        title, step = _TITLE.fullmatch(line), _STEP.fullmatch(line)
        if title:
            titles.append((title.group(1), title.group(2) or ""))
            steps.append([])
        elif step and steps:
            conn, mark, text = step.groups()
            steps[-1].append(Step(conn, data(text or ""), partial=mark == "~", ends=mark == "|"))
        elif line and not line.startswith("#"):
            raise ValueError(f"{path.name}:{number}: neither a title nor a step: {line!r}")
    return [Script(name, tuple(s), config) for (name, config), s in zip(titles, steps, strict=True)]


def data(text: str) -> bytes:
    return _MACRO.sub(_expanded, _ESCAPE.sub(_unescaped, text.encode()))


def _unescaped(match: re.Match[bytes]) -> bytes:
    letter, code = match.groups()
    return _LETTERS[letter] if letter else bytes.fromhex(code.decode())


def _expanded(match: re.Match[bytes]) -> bytes:
    name, user, kind, count, piece = match.groups()
    if count:
        return int(count) * piece
    if name:
        return b"CONNECT " + _CONNECTS[name.decode()] + b"\r\n"
    flag = b"true" if kind == b"verbose" else b"false"
    more = b',"headers":true,"no_responders":true' if kind == b"replying" else b""
    return b'CONNECT {"user":"%b","pass":"p","verbose":%b,"pedantic":false%b}\r\n' % (user, flag, more)
