"""A strict reader of what a server writes on a leaf link; written from the protocol's text alone."""

from __future__ import annotations

from typing import Final

Interest = tuple[bytes, bytes | None]
"""Subject, queue group."""

CRLF: Final = b"\r\n"
SIZES: Final = {b"LMSG": 1, b"HMSG": 2}


def read_leaf_lines(data: bytes) -> dict[Interest, int]:
    """What the lines have told in the end: members of each queue group, 1 for each subject.

    Raises: ValueError for anything but complete lines that a server writes, and for an end of what was never
    told.
    """
    told: dict[Interest, int] = {}
    at = 0
    while at < len(data):
        end = data.find(CRLF, at)
        if end < 0:
            raise ValueError(f"a line without an end: {data[at : at + 80]!r}")
        op, *words = data[at:end].split(b" ")
        at = end + 2
        if op in (b"LS+", b"LS-"):
            _read_interest(op, words, told)
        elif op in SIZES:
            at = _read_message(op, words, data, at)
        elif op == b"-ERR":
            if not (words and words[0].startswith(b"'") and words[-1].endswith(b"'")):
                raise ValueError(f"an error that is not quoted: {words!r}")
        elif (op, words) != (b"PONG", []):
            raise ValueError(f"not a line of a server: {op!r} {words!r}")
    return told


def _read_interest(op: bytes, words: list[bytes], told: dict[Interest, int]) -> None:
    if b"" in words or not 1 <= len(words) <= 3:
        raise ValueError(f"{op!r} with {words!r}")
    key = words[0], words[1] if len(words) > 1 else None
    if op == b"LS-":
        if len(words) > 2:
            raise ValueError(f"LS- with {words!r}")
        if key not in told:
            raise ValueError(f"{key!r} ends, but was never told")
        del told[key]
        return
    if len(words) == 2:
        raise ValueError(f"a group without a weight: {words!r}")
    weight = int(words[2]) if len(words) == 3 else 1
    if weight < 1:
        raise ValueError(f"a group of {weight} members: {words!r}")
    told[key] = weight


def _read_message(op: bytes, words: list[bytes], data: bytes, at: int) -> int:
    sizes = SIZES[op]
    between = words[1:-sizes]
    if len(words) < 1 + sizes or b"" in words:
        raise ValueError(f"{op!r} with {words!r}")
    if len(between) > 1 and (
        between[0] not in (b"+", b"|") or len(between) < (3 if between[0] == b"+" else 2)
    ):
        raise ValueError(f"{op!r} with {words!r}")
    numbers = [int(word) for word in words[-sizes:]]
    if sizes == 2 and not 0 < numbers[0] <= numbers[1]:
        raise ValueError(f"headers longer than the whole, or none: {words!r}")
    end = at + numbers[-1]
    if data[end : end + 2] != CRLF:
        raise ValueError(f"no CRLF behind the payload of {words!r}")
    return end + 2
