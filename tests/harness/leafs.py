"""Hubs and leaf nodes as server processes, of Headrace and the Go server in any mixture.

Here lives how they are configured and started, and how a test knows that interest has arrived; what they must
do is the tests'. As in `harness.mesh` nothing reads monitoring pages to know a state.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Self

from harness.mesh import PROGRAMS, MeshClient, Node, reach
from harness.ports import free_port
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

PAIRS: Final = ("gg", "gh", "hg", "ah", "ga")
"""Hub and leaf node, a letter each as in `harness.mesh`; `gg` is the authority."""


class Leafs:
    """Servers by name; a context manager that ends them and closes their clients."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.nodes: dict[str, Node] = {}
        self.ports: dict[str, int] = {}
        self._clients: list[MeshClient] = []

    def port(self, name: str) -> int:
        """The port for leaf nodes of that server; chosen when it is first asked for."""
        return self.ports.setdefault(name, free_port())

    def url(self, hub: str, user: str = "") -> str:
        """Return the URL for a remote: `user` is what precedes the host (`user:password@`)."""
        return f"nats-leaf://{user}127.0.0.1:{self.port(hub)}"

    def hub(self, name: str, letter: str, more: str = "", block: str = "") -> Node:
        """One that leaf nodes connect to; `block` is text for `leafnodes`, `more` for the configuration."""
        own = f"listen: 127.0.0.1:{self.port(name)}"
        return self.server(name, letter, f"leafnodes {{ {own}\n{block} }}\n{more}")

    def leaf(
        self,
        name: str,
        letter: str,
        hub: str,
        more: str = "",
        *,
        remote: str = "",
        user: str = "",
        block: str = "",
    ) -> Node:
        """One that connects to a hub; `remote` is text for what it says of that."""
        found = f'remotes: [ {{ url: "{self.url(hub, user)}"\n{remote} }} ]'
        return self.server(name, letter, f"leafnodes {{ {found}\n{block} }}\n{more}")

    def server(self, name: str, letter: str, text: str) -> Node:
        """Any one; started, and ready."""
        port = free_port()
        config = f"server_name: {name}\nlisten: 127.0.0.1:{port}\n{text}"
        node = Node(name, letter, PROGRAMS[letter], self._folder / name, config, port, 0)
        self.nodes[name] = node
        node.start()
        return node

    def join(self, name: str, **options: Any) -> MeshClient:
        """A client of a server."""
        client = self.nodes[name].join(**options)
        self._clients.append(client)
        return client

    def clients(self) -> tuple[MeshClient, MeshClient]:
        """One of `hub` and one of its leaf node `leaf`, whose servers know each other."""
        both = self.join("hub"), self.join("leaf")
        self.meet(*both)
        return both

    def meet(self, *clients: MeshClient, seconds: float = PATIENCE) -> None:
        """Returns when each server of these clients knows what the others' clients had told until now."""
        deadline = time.monotonic() + seconds
        for client in clients:
            client.sync()
        for told in clients:
            for asking in clients:
                if asking is not told:
                    reach(asking, told, deadline)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for node in reversed(self.nodes.values()):
            if node.running is not None:
                node.running.__exit__(None, None, None)
                node.former.append(node.running)
        for node in self.nodes.values():
            for server in node.former:
                assert "Traceback" not in server.log, server.log
                assert "panic:" not in server.log, server.log
                assert "internal error" not in server.log, server.log

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
