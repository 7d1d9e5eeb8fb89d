"""`headrace stream cluster`: who leads a stream, and which servers have it."""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.api import JetStreamAssets

_PAUSE: Final = 0.1
"""Seconds between two questions who leads now."""


def step_down(call: Call) -> None:
    """Have the leader step down, and wait for the next one. Raises: CommandError, ClientError."""
    from headrace.client import cluster_changes
    from headrace.client.api import JetStreamAssets

    name = call.options.stream
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        before = _leader(assets.stream_info(name))
        cluster_changes.step_down(assets.api, name, preferred=call.options.preferred)
        after = _next_leader(assets, name, before, call.timeout)
    found = {"stream": name, "before": before, "leader": after}
    call.out.document(
        {key: value for key, value in found.items() if value is not None},
        lambda: call.out.line(f"{name}: {after or 'nobody'} leads, before it was {before or 'nobody'}"),
        quiet=after,
    )
    if after is None:
        raise CommandError(f"{name}: nobody leads it after {call.timeout:g} s", ExitCode.TIMED_OUT)


def remove_peer(call: Call) -> ExitCode | None:
    """Take a stream from a server. Raises: CommandError for a no, ClientError."""
    from headrace.client import cluster_changes
    from headrace.client.api import JetStreamAssets

    options = call.options
    with call.connected() as connection:
        assets = JetStreamAssets(call.api(connection))
        info = assets.stream_info(options.stream)
        found: dict[str, Any] = {"stream": options.stream, "peer": options.peer}
        if options.dry_run:
            peers = _peers(info)
            if options.peer not in peers:
                text = f"{options.stream} is not on {options.peer}, but on {', '.join(peers) or 'no cluster'}"
                raise CommandError(text, ExitCode.NOT_THERE)
        else:
            call.confirm(f"{options.stream} is taken from server {options.peer}")
            cluster_changes.remove_peer(assets.api, options.stream, options.peer)
    found["removed"] = not options.dry_run
    words = "would be" if options.dry_run else "is"
    call.out.document(found, lambda: call.out.line(f"{options.stream} {words} taken from {options.peer}"))
    return ExitCode.WRONG if options.dry_run else None


def _next_leader(assets: JetStreamAssets, name: str, before: str | None, seconds: float) -> str | None:
    """The leader once it is another one; the same one if it is elected again, None if nobody is."""
    from headrace.client.errors import ClientTimeoutError, NoRespondersError

    deadline = monotonic() + seconds
    leader = None
    while monotonic() < deadline:
        try:
            leader = _leader(assets.stream_info(name))
        except (ClientTimeoutError, NoRespondersError):
            leader = None  # nobody answers while nobody leads
        if leader not in (None, before):
            return leader
        sleep(_PAUSE)
    return leader


def _leader(info: dict[str, Any]) -> str | None:
    return (info.get("cluster") or {}).get("leader") or None


def _peers(info: dict[str, Any]) -> list[str]:
    cluster = info.get("cluster") or {}
    leader = [cluster["leader"]] if cluster.get("leader") else []
    return leader + [peer["name"] for peer in cluster.get("replicas") or ()]
