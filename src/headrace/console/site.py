"""The site of one console: its answers to requests, as the bytes of HTTP.

Here lives what is served, to whom, and the headers that a browser keeps the page safe by. Never lives here:
sockets, times, how many may ask.
Source of the headers: Content Security Policy 3, Trusted Types, Fetch.
"""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from headrace.console.files import INDEX, ConsoleFile, table
from headrace.console.page_requests import BadPageRequest, read_request
from headrace.console.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.console.page_requests import PageRequest

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src {connect}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
_SAFETY: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


_UNKNOWN_HOST: Final = ": this server is not known by that name; console { hosts } lists the names it has"


class HostNames:
    """The names by which browsers may know a port. Any address is one, as no stranger's name leads there.

    A page of a stranger's name that leads to this machine (DNS rebinding) would be of the same origin.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: Final = frozenset(name.lower().rstrip(".") for name in names) | {"localhost"}

    def have(self, host: str) -> bool:
        """True if a Host header, with or without a port, has one of the names, or an address."""
        name, colon, port = host.rpartition(":")
        if not colon or host.endswith("]"):
            name = host
        elif not (port.isascii() and port.isdigit()):
            return False
        if name.startswith("[") and name.endswith("]"):
            name = name[1:-1]
        elif ":" in name:
            return False
        if name.lower().rstrip(".") in self._names:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return "%" not in name


class Answer:
    """An answer as bytes; `is_last`: the connection ends with it."""

    __slots__ = ("data", "is_last")

    def __init__(self, data: bytes, *, is_last: bool) -> None:
        self.data = data
        self.is_last = is_last


class ConsoleSite:
    """The files below one path, and `console.json`. Cost: reads the files of the page.

    `sockets`: other origins that the page may connect to. Raises: HeadraceError without a page.
    """

    def __init__(self, path: str, settings: bytes, hosts: HostNames, sockets: Iterable[str] = ()) -> None:
        self.path: Final = path
        self.hosts: Final = hosts
        document = ConsoleFile(settings, "application/json")
        below: Mapping[str, ConsoleFile] = {**table(), SETTINGS: document, "": table()[INDEX]}
        self._files: Final = {f"{path}/{name}": file for name, file in below.items()}
        policy = _POLICY.format(connect=" ".join(("'self'", *sockets)))
        safety = {"Content-Security-Policy": policy, **_SAFETY}
        self._safety: Final = "".join(f"{name}: {value}\r\n" for name, value in safety.items())

    def has(self, target: str) -> bool:
        """True if a request's target is at or below the path of this site, whether there is a file or not."""
        path = target.partition("?")[0]
        return path == self.path or path.startswith(f"{self.path}/")

    def answer(self, head: bytes, *, is_last: bool = False) -> Answer:
        """Return the answer to the request with this head. `is_last`: the connection is to end with it."""
        try:
            request = read_request(head)
        except BadPageRequest as error:
            return self.refusal(error.status)
        is_last = is_last or request.is_last
        if request.method not in ("GET", "HEAD"):
            return self.refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Allow: GET, HEAD\r\n")
        if not self.hosts.have(request.host):
            return self.refusal(HTTPStatus.MISDIRECTED_REQUEST, why=_UNKNOWN_HOST)
        if request.target == self.path:
            moved = f"Location: {self.path}/\r\nContent-Length: 0\r\nCache-Control: no-store\r\n"
            return self._answer(HTTPStatus.PERMANENT_REDIRECT, moved, b"", is_last=is_last)
        file = self._files.get(request.target)
        if file is None:
            return self._missing(request, is_last=is_last)
        return self._of_file(request, file, is_last=is_last)

    def refusal(self, status: HTTPStatus, headers: str = "", *, why: str = "") -> Answer:
        """Return an answer that says why there is no other, and ends the connection."""
        text = f"{status.phrase}{why}\n".encode()
        return self._answer(status, f"{headers}{_text_headers(text)}", text, is_last=True)

    def _missing(self, request: PageRequest, *, is_last: bool) -> Answer:
        text = b"Not Found\n"
        body = b"" if request.method == "HEAD" else text
        return self._answer(HTTPStatus.NOT_FOUND, _text_headers(text), body, is_last=is_last)

    def _of_file(self, request: PageRequest, file: ConsoleFile, *, is_last: bool) -> Answer:
        always = f"ETag: {file.etag}\r\nCache-Control: no-cache\r\nVary: Accept-Encoding\r\n"
        if _has(request.etags, file.etag):
            return self._answer(HTTPStatus.NOT_MODIFIED, always, b"", is_last=is_last)
        packed = file.packed if request.takes_gzip else None
        body = file.body if packed is None else packed
        packing = "" if packed is None else "Content-Encoding: gzip\r\n"
        headers = f"Content-Type: {file.content_type}\r\nContent-Length: {len(body)}\r\n{packing}{always}"
        sent = b"" if request.method == "HEAD" else body
        return self._answer(HTTPStatus.OK, headers, sent, is_last=is_last)

    def _answer(self, status: HTTPStatus, headers: str, body: bytes, *, is_last: bool) -> Answer:
        end = "close" if is_last else "keep-alive"
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nDate: {formatdate(usegmt=True)}\r\n{headers}"
            f"{self._safety}Connection: {end}\r\n\r\n"
        )
        return Answer(head.encode("ascii") + body, is_last=is_last)


def _text_headers(text: bytes) -> str:
    return (
        f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
        "Cache-Control: no-store\r\n"
    )


def _has(etags: tuple[str, ...], etag: str) -> bool:
    """True if the browser has the file; tags are compared weakly (RFC 9110, 8.8.3.2)."""
    return "*" in etags or etag.removeprefix("W/") in {each.removeprefix("W/") for each in etags}
