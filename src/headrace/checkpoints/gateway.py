"""The life of a gateway: a port, an event loop, and the location that Spark is told.

In a program it runs in a thread beside the driver (`object_checkpoint`), as a command it is the program
(`headrace checkpoints`). Never here: what is answered.
"""

from __future__ import annotations

import re
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from headrace.background import LoopThread
from headrace.checkpoints.objects import Objects
from headrace.errors import StartError
from headrace.objects.errors import StoreError
from headrace.objects.opening import open_async_store

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST: Final = "127.0.0.1"
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{8,128}")
_STOP_S: Final = 5.0


class Gateway:
    """A store served to whoever knows the secret; one event loop."""

    def __init__(
        self, url: str, *, host: str = HOST, port: int = 0, secret: str = "", **options: Any
    ) -> None:
        """Prepare a gateway to an object store.

        `url` and `options` as obstore's `from_url` takes them. Port 0: any; no secret: a new one.

        Raises: UnsupportedError without obstore, StartError for a URL or a secret that will not do.
        """
        if secret and not _SECRET.fullmatch(secret):
            raise StartError("the secret must be 8 to 128 letters, digits, - or _: it is part of a path")
        self._host, self._port = host, port
        self._secret = secret or secrets.token_urlsafe(24)
        self._objects = _objects(url, options)
        self._runner: web.AppRunner | None = None

    @property
    def location(self) -> str:
        """The URL of its root for Spark. Who has it can read and change everything there."""
        return f"webhdfs://{self._host}:{self._port}/{self._secret}"

    async def start(self) -> None:
        """Open the port of the gateway. Raises: StartError when the port cannot be had."""
        from headrace.checkpoints.webhdfs import application

        app = application(self._objects, self._secret)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            raise StartError(f"cannot listen on {self._host}:{self._port}: {error}") from error
        self._runner = runner
        self._port = runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._objects.close()


@contextmanager
def object_checkpoint(
    url: str, *, host: str = HOST, port: int = 0, secret: str = "", **options: Any
) -> Iterator[str]:
    """Serve an object store to Spark for a block; gives the location to put checkpoints below.

    `url` and `options` go to obstore (`s3://bucket/prefix`; credentials from the environment). Give `port`
    and `secret` where the location must be the same after a restart, `host` where executors are elsewhere.

    Raises: UnsupportedError without obstore; StartError.
    """
    gateway = Gateway(url, host=host, port=port, secret=secret, **options)
    with LoopThread("headrace-checkpoints") as loop:
        try:
            loop.run(gateway.start())
            yield gateway.location
        finally:
            loop.run(gateway.stop())


def _objects(url: str, options: dict[str, Any]) -> Objects:
    try:
        return Objects(open_async_store(url, **options))
    except StoreError as error:
        raise StartError(f"not an object store: {error}") from error
