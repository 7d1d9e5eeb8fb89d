"""Requests for the console's files: the head of an HTTP request, read strictly.

Here lives what is taken for a request. Never lives here: sockets and times, answers (`site`).
Source: RFC 9112. Stricter than it: no absolute targets, no bodies, no folded lines, no bare line feeds.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace import limits

if TYPE_CHECKING:
    from collections.abc import Iterable

END: Final = b"\r\n\r\n"
"""The end of a head."""

_FIRST_LINE: Final = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]*) HTTP/1\.([01])")
_HEADER: Final = re.compile(rb"([-!#$%&'*+.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")


class BadPageRequest(Exception):
    """A request that is none, or asks for too much: it gets a status, and the connection ends."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class PageRequest(Struct, frozen=True):
    """A request. `target`: path and query as they were sent. `etags`: what the browser has already.

    `is_last`: the browser will ask nothing more on this connection.
    """

    method: str
    target: str
    host: str
    takes_gzip: bool = False
    etags: tuple[str, ...] = ()
    is_last: bool = False


def read_request(head: bytes) -> PageRequest:
    """Return the request whose head, with the empty line at its end, this is. Raises: BadPageRequest."""
    if len(head) > limits.CONSOLE_HEAD:
        raise BadPageRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    first, *lines = head.removesuffix(END).split(b"\r\n")
    match = _FIRST_LINE.fullmatch(first)
    if match is None:
        raise BadPageRequest(HTTPStatus.BAD_REQUEST)
    headers = _headers(lines)
    hosts = headers.get("host", [])
    if len(hosts) > 1 or (not hosts and match[3] == b"1"):
        raise BadPageRequest(HTTPStatus.BAD_REQUEST)
    if "transfer-encoding" in headers or not set(headers.get("content-length", ())) <= {"0"}:
        raise BadPageRequest(HTTPStatus.BAD_REQUEST)
    return PageRequest(
        match[1].decode(),
        match[2].decode(),
        hosts[0] if hosts else "",
        _takes_gzip(headers.get("accept-encoding", ())),
        tuple(_words(headers.get("if-none-match", ()))),
        match[3] == b"0" or "close" in {word.lower() for word in _words(headers.get("connection", ()))},
    )


def _headers(lines: list[bytes]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise BadPageRequest(HTTPStatus.BAD_REQUEST)
        found.setdefault(match[1].decode().lower(), []).append(match[2].decode("latin-1").strip(" \t"))
    return found


def _words(values: Iterable[str]) -> list[str]:
    """Return the members of lists that are separated by commas."""
    return [word.strip(" \t") for value in values for word in value.split(",")]


def _takes_gzip(values: Iterable[str]) -> bool:
    for word in _words(values):
        coding, _, weight = word.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight) is None
    return False
