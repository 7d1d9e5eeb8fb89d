"""The calls of WebHDFS that Hadoop's client makes for Spark's checkpoints, answered by `objects`.

Every path begins with the gateway's secret; whoever does not know it gets nothing. Reading and creating are
sent to the same address a second time (`redirected=true`), because the client insists on a redirect. What is
not supported is answered as a RemoteException, as every error, so that it is an exception of its Java class
in Spark. Never here: what a file is in an object store.
Source: Apache Hadoop, WebHDFS REST API.
"""

from __future__ import annotations

import hmac
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from headrace.checkpoints.objects import (
    BadPath,
    CheckpointError,
    FolderNotEmpty,
    PathExists,
    PathMissing,
    key_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from headrace.checkpoints.objects import FileStatus, Objects

    Answer = Awaitable[web.StreamResponse]

PREFIX: Final = "/webhdfs/v1/"
BLOCK_SIZE: Final = 128 << 20
"""The block size that Hadoop's client is told; nothing depends on it."""

_PIECE: Final = 1 << 18
_OWNER: Final = "headrace"
_FORBIDDEN: Final = HTTPStatus.FORBIDDEN
_JAVA: Final[dict[type[CheckpointError], tuple[str, HTTPStatus]]] = {
    PathMissing: ("java.io.FileNotFoundException", HTTPStatus.NOT_FOUND),
    PathExists: ("org.apache.hadoop.fs.FileAlreadyExistsException", _FORBIDDEN),
    FolderNotEmpty: ("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", _FORBIDDEN),
    BadPath: ("java.lang.IllegalArgumentException", HTTPStatus.BAD_REQUEST),
    CheckpointError: ("java.io.IOException", HTTPStatus.INTERNAL_SERVER_ERROR),
}
"""Java class and status of each of our errors."""

_log = logging.getLogger("headrace.checkpoints")


def application(objects: Objects, secret: str) -> web.Application:
    """The HTTP application; paths are below `/webhdfs/v1/<secret>`."""
    app = web.Application()
    app.on_response_prepare.append(_leave_out_type)
    app.router.add_route("*", f"{PREFIX}{{path:[\\s\\S]*}}", WebHdfs(objects, secret).handle)
    return app


class WebHdfs:
    """One request after the other: which operation, on which path."""

    def __init__(self, objects: Objects, secret: str) -> None:
        self._objects = objects
        self._secret = secret
        self._operations: Final[dict[tuple[str, str], Callable[[_Call], Answer]]] = {
            ("GET", "GETFILESTATUS"): self._status,
            ("GET", "GETFILELINKSTATUS"): self._status,  # there are no links
            ("GET", "LISTSTATUS"): self._list,
            ("GET", "OPEN"): self._open,
            ("GET", "GETHOMEDIRECTORY"): self._home,
            ("GET", "CHECKACCESS"): self._check_access,
            ("PUT", "MKDIRS"): self._make_folder,
            ("PUT", "CREATE"): self._create,
            ("PUT", "RENAME"): self._rename,
            ("PUT", "SETPERMISSION"): self._leave_as_it_is,
            ("PUT", "SETTIMES"): self._leave_as_it_is,
            ("DELETE", "DELETE"): self._delete,
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        options = {name.lower(): value for name, value in request.query.items()}
        name = options.get("op", "").upper()
        if (request.method, name) == ("GET", "GETSERVERDEFAULTS"):  # asked of the root, and tells nothing
            return self._defaults()
        secret, _, path = request.match_info["path"].partition("/")
        if not hmac.compare_digest(secret.encode(), self._secret.encode()):
            return _refusal(
                "org.apache.hadoop.security.AccessControlException",
                f"{name}: the path does not begin with this gateway's secret",
                _FORBIDDEN,
            )
        operation = self._operations.get((request.method, name))
        if operation is None:
            return _refusal(
                "java.lang.UnsupportedOperationException",
                f"{request.method} {name or '(no op)'} is not an operation of this gateway",
                HTTPStatus.BAD_REQUEST,
            )
        try:
            return await operation(_Call(request, options, key_of(path)))
        except CheckpointError as error:
            java, status = _JAVA[type(error)]
            if type(error) is CheckpointError:
                _log.error("%s: %s", name, error)
            return _refusal(java, str(error), status)

    # ---- looking ----------------------------------------------------------------------------

    async def _status(self, call: _Call) -> web.StreamResponse:
        one = await self._objects.status(call.key)
        return web.json_response({"FileStatus": _document(one, "")})

    async def _list(self, call: _Call) -> web.StreamResponse:
        found = await self._objects.entries(call.key)
        documents = [_document(entry, entry.name) for entry in found]
        return web.json_response({"FileStatuses": {"FileStatus": documents}})

    async def _open(self, call: _Call) -> web.StreamResponse:
        offset, length = call.number("offset") or 0, call.number("length")
        pieces = await self._objects.read(call.key, offset, length)
        if (elsewhere := call.redirect()) is not None:
            return elsewhere
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        await response.prepare(call.request)
        try:
            async for piece in pieces:
                await response.write(piece)
        except CheckpointError as error:  # too late for another answer: the reader sees that it is cut off
            _log.error("OPEN: %s", error)
            if call.request.transport is not None:
                call.request.transport.abort()
            return response
        await response.write_eof()
        return response

    async def _home(self, _: _Call) -> web.StreamResponse:
        return web.json_response({"Path": f"/{self._secret}"})

    def _defaults(self) -> web.StreamResponse:
        defaults = {
            "blockSize": BLOCK_SIZE,
            "bytesPerChecksum": 512,
            "writePacketSize": 65536,
            "replication": 1,
            "fileBufferSize": 4096,
            "encryptDataTransfer": False,
            "trashInterval": 0,
            "checksumType": 2,
            "keyProviderUri": "",
            "defaultStoragePolicyId": 0,
        }
        return web.json_response({"FsServerDefaults": defaults})

    async def _check_access(self, call: _Call) -> web.StreamResponse:
        await self._objects.status(call.key)
        return web.Response()

    # ---- changing ---------------------------------------------------------------------------

    async def _make_folder(self, call: _Call) -> web.StreamResponse:
        await self._objects.make_folder(call.key)
        return _boolean(True)

    async def _create(self, call: _Call) -> web.StreamResponse:
        if (elsewhere := call.redirect()) is not None:
            return elsewhere
        overwrite = call.flag("overwrite")
        draft = self._objects.draft()
        try:
            # A body that is cut off raises here: what is not whole is never there.
            async for piece in call.request.content.iter_chunked(_PIECE):
                draft.write(piece)
            await self._objects.create(call.key, draft, overwrite=overwrite)
        except BaseException:
            draft.discard()
            raise
        return web.Response(status=HTTPStatus.CREATED)

    async def _rename(self, call: _Call) -> web.StreamResponse:
        target = call.target(self._secret)
        options = call.options.get("renameoptions")
        if options is not None:
            overwrite = "OVERWRITE" in options.upper().split(",")
            await self._objects.rename(call.key, target, overwrite=overwrite)
            return web.Response()
        # The older call says what went wrong by False only.
        try:
            await self._objects.rename(call.key, target, overwrite=False)
        except (PathExists, PathMissing):
            return _boolean(False)
        return _boolean(True)

    async def _leave_as_it_is(self, call: _Call) -> web.StreamResponse:
        """Object stores keep no permissions, and set times themselves."""
        await self._objects.status(call.key)
        return web.Response()

    async def _delete(self, call: _Call) -> web.StreamResponse:
        return _boolean(await self._objects.remove(call.key, recursive=call.flag("recursive")))


class _Call:
    """A request with its options and its path as a key."""

    def __init__(self, request: web.Request, options: Mapping[str, str], key: str) -> None:
        self.request = request
        self.options = options
        self.key = key

    def number(self, option: str) -> int | None:
        """Return the value of a numeric option; None if it is not given.

        Raises: BadPath for anything but a number from 0 on.
        """
        text = self.options.get(option)
        if text is None or text == "null":
            return None
        if not (text.isascii() and text.isdigit()):
            raise BadPath(f"{option}={text} is not a number of bytes")
        return int(text)

    def flag(self, option: str) -> bool:
        return self.options.get(option, "false").lower() == "true"

    def target(self, secret: str) -> str:
        """Return the key that a file is renamed to. Raises: BadPath for a path outside this gateway's."""
        first, _, path = self.options.get("destination", "").lstrip("/").partition("/")
        if not hmac.compare_digest(first.encode(), secret.encode()):
            raise BadPath("the destination is not a path of this gateway")
        return key_of(path)

    def redirect(self) -> web.StreamResponse | None:
        """Redirect the client to where it sends the bytes; None if they come with this request."""
        if self.flag("redirected"):
            return None
        url = str(self.request.url.update_query(redirected="true"))
        if self.flag("noredirect"):
            return web.json_response({"Location": url})
        return web.Response(status=HTTPStatus.TEMPORARY_REDIRECT, headers={"Location": url})


async def _leave_out_type(_: web.BaseRequest, response: web.StreamResponse) -> None:
    """Hadoop's client parses a Content-Type with a class that PySpark's JAR of it lacks; none is fine."""
    response.headers.popall("Content-Type", None)


def _document(one: FileStatus, suffix: str) -> dict[str, Any]:
    return {
        "accessTime": one.modified_ms,
        "blockSize": 0 if one.is_folder else BLOCK_SIZE,
        "childrenNum": 0,
        "fileId": 0,
        "group": _OWNER,
        "length": one.size,
        "modificationTime": one.modified_ms,
        "owner": _OWNER,
        "pathSuffix": suffix,
        "permission": "700" if one.is_folder else "600",
        "replication": 0 if one.is_folder else 1,
        "storagePolicy": 0,
        "type": "DIRECTORY" if one.is_folder else "FILE",
    }


def _boolean(value: bool) -> web.Response:
    return web.json_response({"boolean": value})


def _refusal(java: str, text: str, status: HTTPStatus) -> web.Response:
    exception = {"exception": java.rpartition(".")[2], "javaClassName": java, "message": text}
    return web.json_response({"RemoteException": exception}, status=status)
