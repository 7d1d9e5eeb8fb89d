"""`processes`: over how many processes a server is spread.

Here lives the reading and what does not go together with it. Never lives here: the processes themselves
(`headrace.processes`). An extension of Headrace; docs/adr/0025-processes.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from headrace.conf.fields import UNSET, Binder
from headrace.conf.problems import shown
from headrace.conf.tree import Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.conf.fields import UnsetType
    from headrace.conf.tree import Entry

AUTO: Final = 0
"""The number of processes: as many processes as there are cores."""

MOST: Final = 256
_EXPECTED: Final = f'a number from 1 to {MOST}, or "auto"'


def parse_processes(text: str) -> int:
    """A number, or AUTO. Raises: ValueError that says what is expected."""
    if text == "auto":
        return AUTO
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MOST):
        raise ValueError(f"processes must be {_EXPECTED}, not {shown(text)}")
    return int(text)


def processes(binder: Binder, entry: Entry) -> int | UnsetType:
    """The value of the key."""
    node = entry.node
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, bool) or not isinstance(value, int | str):
        return binder.wrong_type(entry, _EXPECTED)
    try:
        return parse_processes(str(value))
    except ValueError as error:
        binder.problem(str(error), node.position)
        return UNSET


def count(processes: int) -> int:
    """Return the number of processes: AUTO is the number of cores that this process may use."""
    if processes != AUTO:
        return processes
    try:
        return min(len(os.sched_getaffinity(0)), MOST)
    except AttributeError:  # a system that does not tell
        return min(os.cpu_count() or 1, MOST)


def conflicts(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield problems of options that each process of a server would need for itself alone.

    Each is a message with the option it is about.
    """
    streaming, operator, cluster = (values.get(name) for name in ("streaming", "operator", "cluster"))
    if values.get("gateway") is not None:
        yield (
            "processes cannot have gateways: each would need a gateway port and connections of its own",
            "gateway",
        )
    if streaming is not None and streaming.nats_server is not None:
        yield "processes need a server here, and streaming uses a NATS server elsewhere", "streaming"
    if operator is not None and operator.resolver is not None and operator.resolver.directory is not None:
        yield (
            "processes cannot share a resolver with a directory: use a URL, or MEMORY with resolver_preload",
            "resolver",
        )
    if cluster is None or not cluster.port:
        return
    count_of = count(values["processes"])
    if cluster.port > 0 and cluster.port + count_of - 1 > 65535:
        yield f"{count_of} processes need as many cluster ports from {cluster.port} on", "cluster"
    if cluster.tls is not None and not cluster.advertise and cluster.host in ("0.0.0.0", "::"):
        yield (
            "processes of a cluster with TLS connect to each other by the name in its certificate: "
            "listen or advertise of the cluster has to say it",
            "cluster",
        )
