"""Several clusters of server processes, of Headrace and the Go server in any mixture, joined by gateways.

Here lives how they are configured; how it is known that all of them know what they must is `mesh`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.mesh import PROGRAMS, Mesh, Node
from harness.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAMES: Final = "ABCDEF"


class SuperCluster(Mesh):
    """Clusters A, B, ... of `kind`, which has a word for each, a letter for each node as with `Mesh`: "hg-g".

    `known`: which clusters each cluster is configured to reach, by name; all of them when it is not given.
    `gateway`: text for every node's `gateway` block, `remote` for each of its remotes; `gateway_only`,
    `only`: for that block, and the whole configuration, of single clusters. `user` precedes the host in URLs
    of gateways. `elsewhere`: names of clusters that are sought where others are, or the "clients of" others.
    `names`: whether servers have names of their own. `begins`: the clusters that `start` starts. `nodes` has
    them all in order.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        *,
        more: str = "",
        gateway: str = "",
        remote: str = "",
        user: str = "",
        known: Mapping[str, str] | None = None,
        only: Mapping[str, str] | None = None,
        gateway_only: Mapping[str, str] | None = None,
        elsewhere: Mapping[str, str] | None = None,
        names: bool = True,
        begins: str = NAMES,
    ) -> None:
        super().__init__(folder, "")
        words = kind.split("-")
        self.kind = kind
        self._begins = begins
        self.gateway_ports = [[free_port() for _ in word] for word in words]
        self.cluster_of: list[str] = []
        client_ports = [[free_port() for _ in word] for word in words]
        urls = {
            name: [f"nats://{user}127.0.0.1:{port}" for port in ports]
            for name, ports in zip(NAMES, self.gateway_ports, strict=False)
        }
        for name, ports in zip(NAMES, client_ports, strict=False):
            urls[f"clients of {name}"] = [f"nats://127.0.0.1:{port}" for port in ports]
        for name, place in (elsewhere or {}).items():
            urls[name] = urls[place]
        for name, word, ports, own in zip(NAMES, words, self.gateway_ports, client_ports, strict=False):
            others = NAMES[: len(words)] if known is None else known.get(name, "")
            remotes = "\n".join(
                f"{{ name: {other}, urls: [{', '.join(map(_quoted, urls[other]))}]\n{remote} }}"
                for other in others
            )
            routes = [free_port() for _ in word]
            for number, letter in enumerate(word):
                port = own[number]
                cluster = ""
                if len(word) > 1:
                    seed = f'"nats-route://127.0.0.1:{routes[0]}"' if number else ""
                    cluster = f"cluster {{ listen: 127.0.0.1:{routes[number]}, routes: [{seed}] }}"
                lines = (
                    f"server_name: {name}{number}" if names else "",
                    f"listen: 127.0.0.1:{port}",
                    more,
                    (only or {}).get(name, ""),
                    cluster,
                    "gateway {",
                    f"name: {name}",
                    f"listen: 127.0.0.1:{ports[number]}",
                    gateway,
                    (gateway_only or {}).get(name, ""),
                    f"gateways: [{remotes}]",
                    "}",
                )
                self.nodes.append(
                    Node(
                        f"{name}{number}",
                        letter,
                        PROGRAMS[letter],
                        folder / f"{name}{number}",
                        "\n".join(lines),
                        port,
                        ports[number],
                    )
                )
                self.cluster_of.append(name)

    def start(self) -> None:
        begun = [node for name, node in zip(self.cluster_of, self.nodes, strict=True) if name in self._begins]
        for node in begun:
            node.begin()
        for node in begun:
            node.server.wait_until_ready()

    def of(self, name: str) -> list[int]:
        """The nodes of a cluster, by number."""
        return [number for number, cluster in enumerate(self.cluster_of) if cluster == name]


def _quoted(text: str) -> str:
    return f'"{text}"'
