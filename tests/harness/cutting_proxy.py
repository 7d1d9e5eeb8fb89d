"""A TCP proxy that cuts connections at a byte, in either direction: what a server that goes looks like.

`cuts` are used one after the other, one per connection; connections after the last one are left alone. The
other direction is not forwarded any further, so that what the server answered meanwhile is lost.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


@dataclass(frozen=True)
class Cut:
    """The number of bytes of each side after which it cuts; None: never because of that side."""

    from_client: int | None = None
    from_server: int | None = None


class CuttingProxy:
    """A proxy in front of one port of 127.0.0.1; `connections` counts those accepted."""

    def __init__(self, port: int, *cuts: Cut) -> None:
        self._target = port
        self._cuts = list(cuts)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.connections = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            cut = self._cuts.pop(0) if self._cuts else Cut()
            far = socket.create_connection(("127.0.0.1", self._target))
            self._open += (near, far)
            for source, sink, most in ((near, far, cut.from_client), (far, near, cut.from_server)):
                threading.Thread(target=self._pump, args=(source, sink, most), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, most: int | None) -> None:
        left = most
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data if left is None else data[:left])
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        break
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
