"""A server on the other end of a route, in bytes: for what no real server would say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from harness.waiting import PATIENCE
from harness.wire import Wire

if TYPE_CHECKING:
    import ssl

_INFO: Final[dict[str, Any]] = {
    "version": "2.10.0",
    "proto": 1,
    "host": "127.0.0.1",
    "port": 1,
    "headers": True,
    "max_payload": 1048576,
    "lnoc": True,
    "route_pool_size": -1,
    "gossip_mode": 1,
}


class RoutePeer(Wire):
    """A connection to a route port, past the INFO of the node. `name` is its server ID and its name."""

    def __init__(self, port: int, name: str, cluster: str, context: ssl.SSLContext | None = None) -> None:
        """`context`: over TLS, which on a route port begins before anything is said."""
        super().__init__(("127.0.0.1", port), greeted=context is None)
        self.name = name
        self.cluster = cluster
        if context is not None:
            try:
                self.upgrade(context)
                self.take_info()
            except BaseException:
                self.close()
                raise

    def say_connect(self, **changed: Any) -> None:
        said = {
            "verbose": False,
            "pedantic": False,
            "name": self.name,
            "cluster": self.cluster,
            "headers": True,
        }
        self.send(b"CONNECT " + json.dumps(said | changed).encode() + b"\r\n")

    def say_info(self, **changed: Any) -> None:
        said = _INFO | {"server_id": self.name, "server_name": self.name, "cluster": self.cluster}
        self.send(b"INFO " + json.dumps(said | changed).encode() + b"\r\n")

    def shake_hands(self, **changed: Any) -> None:
        """Becomes a registered route, and has read what the node said at that."""
        self.say_connect(**changed)
        self.say_info()
        self.sync()

    def sync(self) -> bytes:
        """What came before the answer to a PING sent now, without INFO lines and questions."""
        self.send(b"PING\r\n")
        found = bytearray()
        while (line := self.take_line()) != b"PONG\r\n":
            if line == b"PING\r\n":
                self.send(b"PONG\r\n")
            elif not line.startswith(b"INFO "):
                found += line
        return bytes(found)

    def take_error(self, seconds: float = PATIENCE) -> str:
        """The text of the -ERR that ends the connection; empty when it ends without one.

        Raises: AssertionError when it does not end.
        """
        with self:
            said = self.take_rest(seconds)
        for line in said.split(b"\r\n"):
            if line.startswith(b"-ERR "):
                return line[5:].decode().strip("'")
        return ""
