"""An S3 server in memory with a fixed latency for each request, `python -m bench.object_server`.

With a bandwidth the bodies of its answers leave one behind the other, as over a line that fast.

It has what obstore asks for: PUT (also `If-None-Match: *`), GET with ranges, HEAD, LIST (version 2, pages),
DELETE of one key and of many. No signature is checked. Every bucket is there. The first line that it prints
is its port. Atomic, since one loop does everything: an object is there once its body has arrived.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from bisect import bisect_right
from email.utils import formatdate
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE: Final = 1000
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")
_LARGEST: Final = 5 << 30
_READ: Final = 1 << 20
"""Bytes of a request that wait to be read."""


class StoredObject(NamedTuple):
    """An object: its bytes, and seconds since 1970."""

    data: bytes
    time: float


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

    def application(self) -> web.Application:
        """Return the server as an application of aiohttp."""
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        body = b"".join([chunk async for chunk in request.content.iter_any()])
        self.requests += 1
        answers: dict[str, Callable[[web.Request, bytes], web.Response]] = {
            "PUT": self._put,
            "GET": self._get,
            "HEAD": self._get,
            "DELETE": self._delete,
            "POST": self._delete_many,
        }
        response = answers[request.method](request, body)
        await asyncio.sleep(max(self._latency_s, self._line_s(response)))
        return response

    def _line_s(self, response: web.Response) -> float:
        """Return the seconds until an answer's body is through the line; it follows all before it."""
        if not self._bandwidth or not isinstance(response.body, bytes):
            return 0.0
        now = asyncio.get_running_loop().time()
        self._sent_at = max(self._sent_at, now + self._latency_s) + len(response.body) / self._bandwidth
        return self._sent_at - now

    def _put(self, request: web.Request, body: bytes) -> web.Response:
        if request.headers.get("If-None-Match") == "*" and request.path in self._objects:
            return _error(412, "PreconditionFailed")
        self._objects[request.path] = StoredObject(body, time.time())
        return web.Response(headers={"ETag": f'"{len(body)}"'})

    def _get(self, request: web.Request, _body: bytes) -> web.Response:
        if "list-type" in request.query:
            return self._list(request)
        found = self._objects.get(request.path)
        if found is None:
            return _error(404, "NoSuchKey")
        headers = {"ETag": f'"{len(found.data)}"', "Last-Modified": formatdate(found.time, usegmt=True)}
        if request.method == "HEAD":
            return web.Response(headers={**headers, "Content-Length": str(len(found.data))})
        wanted = _RANGE.fullmatch(request.headers.get("Range", ""))
        if wanted is None:
            return web.Response(body=found.data, headers=headers)
        start, size = int(wanted[1]), len(found.data)
        end = min(int(wanted[2]) + 1 if wanted[2] else size, size)
        if start >= size:
            return _error(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        return web.Response(status=206, body=found.data[start:end], headers=headers)

    def _delete(self, request: web.Request, _body: bytes) -> web.Response:
        self._objects.pop(request.path, None)
        return web.Response(status=204)

    def _delete_many(self, request: web.Request, body: bytes) -> web.Response:
        keys = [
            found.text or "" for found in ElementTree.fromstring(body).iter() if found.tag.endswith("Key")
        ]
        for key in keys:
            self._objects.pop(f"{request.path.rstrip('/')}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return _xml(f"<DeleteResult>{deleted}</DeleteResult>")

    def _list(self, request: web.Request) -> web.Response:
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


def _listing(shown: list[tuple[str, StoredObject]], folders: list[str], more_after: str) -> web.Response:
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


def _xml(text: str) -> web.Response:
    return web.Response(text=f'<?xml version="1.0"?>{text}', content_type="application/xml")


def _error(status: int, code: str) -> web.Response:
    text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return web.Response(status=status, text=text, content_type="application/xml")


async def _serve(port: int, server: ObjectServer) -> None:
    runner = web.AppRunner(server.application(), access_log=None, read_bufsize=_READ)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().create_future()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m bench.object_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--latency-ms", type=float, default=5.0, help="of each request (default 5)")
    parser.add_argument(
        "--bandwidth-mbs", type=float, default=0.0, help="MB/s of all answers (default 0: no limit)"
    )
    options = parser.parse_args()
    asyncio.run(_serve(options.port, ObjectServer(options.latency_ms / 1000, options.bandwidth_mbs * 1e6)))


if __name__ == "__main__":
    main()
