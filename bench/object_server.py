"""An S3 server in memory with a fixed latency for each request, `python -m bench.object_server`.

With a bandwidth the bodies of its answers leave one behind the other, as over a line that fast.

It has what obstore asks for: PUT (also `If-None-Match: *`), GET with ranges, HEAD, LIST (version 2, pages),
DELETE of one key and of many. No signature is checked. Every bucket is there. The first line that it prints
is its port. Atomic, since one loop does everything: an object is there once its body has arrived.

It speaks as much HTTP/1.1 as obstore does, and costs little: it shares the machine with what is measured. An
answer leaves to the tenth of a millisecond when it is due, which a loop over epoll, whose timers are whole
milliseconds, does not do.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import selectors
import time
from bisect import bisect_right
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE: Final = 1000
LARGE: Final = 64 << 10
"""Bytes of a body that is received where it stays: it is not copied."""
_INPUT_BYTES: Final = 64 << 10
BACKLOG: Final = 1000
"""Connections that may wait to be accepted: clients begin with as many as they have requests. More than about
a thousand at once cannot be served: `select` knows no more."""
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")
_HEAD_END: Final = b"\r\n\r\n"


class StoredObject(NamedTuple):
    """An object: its bytes, and seconds since 1970."""

    data: bytes | bytearray
    time: float


class Request(NamedTuple):
    """A request: `path` and `query` are decoded, names of headers in small letters."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    size: int
    """Bytes of its body."""

    @classmethod
    def read(cls, head: bytes) -> Request:
        """Read a head without its empty line. Raises: ValueError."""
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        path, _, query = target.partition("?")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        asked = dict(parse_qsl(query, keep_blank_values=True))
        return cls(method, unquote(path), asked, headers, int(headers.get("content-length", 0)))


class Response(NamedTuple):
    """An answer. `size`: what it says of its length, where it has no body."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes | bytearray = b""
    headers: dict[str, str] = {}  # noqa: RUF012  # a constant
    size: int | None = None

    def pack(self) -> bytes:
        """Return the bytes of the answer."""
        size = len(self.body) if self.size is None else self.size
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}", f"Content-Length: {size}"]
        lines += (f"{name}: {value}" for name, value in self.headers.items())
        return "\r\n".join((*lines, "", "")).encode("latin-1") + self.body


class ObjectServer:
    """Objects by path (`/bucket/key`); each answer leaves `latency_s` after its request has come whole.

    `bandwidth`: bytes a second of all answers, 0.0: no limit.
    """

    def __init__(self, latency_s: float, bandwidth: float = 0.0) -> None:
        self._latency_s = latency_s
        self._bandwidth = bandwidth
        self._sent_at = 0.0
        """The loop's time when the line has sent all that it was given."""
        self._objects: dict[str, StoredObject] = {}
        self.requests = 0

        self._answers: Final[dict[str, Callable[[Request, bytes | bytearray], Response]]] = {
            "PUT": self._put,
            "GET": self._get,
            "HEAD": self._get,
            "DELETE": self._delete,
            "POST": self._delete_many,
        }

    def answer(self, request: Request, body: bytes | bytearray) -> tuple[Response, float]:
        """Return the answer to a request that has come whole, and the seconds until it leaves."""
        self.requests += 1
        response = self._answers[request.method](request, body)
        return response, max(self._latency_s, self._line_s(response))

    def _line_s(self, response: Response) -> float:
        """Return the seconds until an answer's body is through the line; it follows all before it."""
        if not self._bandwidth:
            return 0.0
        now = asyncio.get_running_loop().time()
        self._sent_at = max(self._sent_at, now + self._latency_s) + len(response.body) / self._bandwidth
        return self._sent_at - now

    def _put(self, request: Request, body: bytes | bytearray) -> Response:
        if request.headers.get("if-none-match") == "*" and request.path in self._objects:
            return _error(HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed")
        self._objects[request.path] = StoredObject(body, time.time())
        return Response(headers={"ETag": f'"{len(body)}"'})

    def _get(self, request: Request, _body: bytes | bytearray) -> Response:
        if "list-type" in request.query:
            return self._list(request)
        found = self._objects.get(request.path)
        if found is None:
            return _error(HTTPStatus.NOT_FOUND, "NoSuchKey")
        headers = {"ETag": f'"{len(found.data)}"', "Last-Modified": formatdate(found.time, usegmt=True)}
        if request.method == "HEAD":
            return Response(headers=headers, size=len(found.data))
        wanted = _RANGE.fullmatch(request.headers.get("range", ""))
        if wanted is None:
            return Response(body=found.data, headers=headers)
        start, size = int(wanted[1]), len(found.data)
        end = min(int(wanted[2]) + 1 if wanted[2] else size, size)
        if start >= size:
            return _error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange")
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        return Response(HTTPStatus.PARTIAL_CONTENT, body=found.data[start:end], headers=headers)

    def _delete(self, request: Request, _body: bytes | bytearray) -> Response:
        self._objects.pop(request.path, None)
        return Response(HTTPStatus.NO_CONTENT)

    def _delete_many(self, request: Request, body: bytes | bytearray) -> Response:
        keys = [
            found.text or "" for found in ElementTree.fromstring(body).iter() if found.tag.endswith("Key")
        ]
        for key in keys:
            self._objects.pop(f"{request.path.rstrip('/')}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return _xml(f"<DeleteResult>{deleted}</DeleteResult>")

    def _list(self, request: Request) -> Response:
        bucket, query = request.path.rstrip("/"), request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after") or ""
        start = f"{bucket}/"
        keys = sorted(path.removeprefix(start) for path in self._objects if path.startswith(start + prefix))
        folders: list[str] = []
        shown: list[tuple[str, StoredObject]] = []
        last = ""
        for key in keys[bisect_right(keys, after) :]:
            inner, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            folder = f"{prefix}{inner}{delimiter}" if found else ""
            if folder and folders[-1:] == [folder]:
                last = key
                continue
            if len(shown) + len(folders) == PAGE:
                return _listing(shown, folders, last)
            last = key
            if folder:
                folders.append(folder)
            else:
                shown.append((key, self._objects[start + key]))
        return _listing(shown, folders, "")


def _listing(shown: list[tuple[str, StoredObject]], folders: list[str], more_after: str) -> Response:
    objects = "".join(
        f'<Contents><Key>{escape(key)}</Key><Size>{len(found.data)}</Size><ETag>"{len(found.data)}"</ETag>'
        f"<LastModified>{time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(found.time))}</LastModified>"
        "</Contents>"
        for key, found in shown
    )
    common = "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders)
    token = f"<NextContinuationToken>{escape(more_after)}</NextContinuationToken>" if more_after else ""
    cut = f"<IsTruncated>{str(bool(more_after)).lower()}</IsTruncated>"
    return _xml(f"<ListBucketResult>{cut}{token}{objects}{common}</ListBucketResult>")


_XML: Final = {"Content-Type": "application/xml"}


def _xml(text: str) -> Response:
    return Response(body=f'<?xml version="1.0"?>{text}'.encode(), headers=_XML)


def _error(status: HTTPStatus, code: str) -> Response:
    text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return Response(status, text.encode(), _XML)


class _Connection(asyncio.BufferedProtocol):
    """A connection: requests are answered one after the other, each when it is due."""

    def __init__(self, server: ObjectServer) -> None:
        self._server: Final = server
        self._loop: Final = asyncio.get_running_loop()
        self._input: Final = memoryview(bytearray(_INPUT_BYTES))
        self._taken: Final = bytearray()
        self._request: Request | None = None
        self._body = bytearray()
        """The body of a request that is large."""
        self._missing = 0
        """Bytes of it that have not come yet."""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return memoryview(self._body)[-self._missing :] if self._missing else self._input

    def buffer_updated(self, nbytes: int) -> None:
        if not self._missing:
            self._taken.extend(self._input[:nbytes])
            self._take()
            return
        self._missing -= nbytes
        if not self._missing:
            body, self._body = self._body, bytearray()
            self._answer(body)

    def _take(self) -> None:
        """Answer requests that have come whole; have the rest of a large body received where it stays."""
        taken = self._taken
        while True:
            if self._request is None:
                head, found, _ = taken.partition(_HEAD_END)
                if not found:
                    return
                self._request = Request.read(bytes(head))
                del taken[: len(head) + len(found)]
            size = self._request.size
            if len(taken) < size:
                if size >= LARGE:
                    self._body, self._missing = bytearray(size), size - len(taken)
                    self._body[: len(taken)] = taken
                    taken.clear()
                return
            body = bytes(memoryview(taken)[:size])
            del taken[:size]
            self._answer(body)

    def _answer(self, body: bytes | bytearray) -> None:
        assert self._request is not None
        response, seconds = self._server.answer(self._request, body)
        self._request = None
        self._loop.call_later(seconds, self._send, response.pack())

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


async def _serve(port: int, server: ObjectServer) -> None:
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: _Connection(server), "127.0.0.1", port, backlog=BACKLOG)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m bench.object_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--latency-ms", type=float, default=5.0, help="of each request (default 5)")
    parser.add_argument(
        "--bandwidth-mbs", type=float, default=0.0, help="MB/s of all answers (default 0: no limit)"
    )
    options = parser.parse_args()
    server = ObjectServer(options.latency_ms / 1000, options.bandwidth_mbs * 1e6)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(_serve(options.port, server))


if __name__ == "__main__":
    main()
