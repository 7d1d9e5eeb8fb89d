"""Checks of a server as a process: its configuration, limits, clock, clients that are too slow.

Never lives here: their texts and severities (`table`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.diagnosis.symptoms import Symptom
from headrace.cli.values import shown_duration, shown_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.diagnosis.evidence import Evidence

CLOCK_NS: Final = 1_000_000_000
"""The difference that a clock may have: 1 s."""

SPARE_DESCRIPTORS: Final = 500
"""Open files that a server needs beside those of its clients: logs, stores, routes."""

FULL: Final = 0.8
"""The share of a limit from which on it is nearly reached."""

BEHIND: Final = 0.25
"""The share of `max_pending` from which on a client is about to become a slow consumer."""

LARGE_PAYLOAD: Final = 8 << 20
_NAMED: Final = 3
"""The number of clients that are named."""


def refused_configuration(evidence: Evidence) -> Iterator[Symptom]:
    """A configuration that cannot be used."""
    if evidence.file is not None:
        for problem in evidence.file.problems:
            yield Symptom(evidence.file.path, problem)


def unsupported_configuration(evidence: Evidence) -> Iterator[Symptom]:
    """The fields that only nats-server has."""
    if evidence.file is not None:
        for problem in evidence.file.unsupported:
            yield Symptom(evidence.file.path, problem)


def remarked_configuration(evidence: Evidence) -> Iterator[Symptom]:
    """The warnings of reading a configuration."""
    options = evidence.options
    if options is not None:
        for text in (*options.warnings, *options.remarks):
            yield Symptom(_file(evidence), text)


def other_configuration(evidence: Evidence) -> Iterator[Symptom]:
    """A server that has another configuration than the file that was given with it."""
    options = evidence.options
    if options is None or not options.config_digest or len(evidence.servers) != 1:
        return
    server = evidence.servers[0]
    told = server.varz.get("config_digest")
    if told and told != options.config_digest:
        yield Symptom(server.name, f"it has not read {_file(evidence)} as it is now")


def few_descriptors(evidence: Evidence) -> Iterator[Symptom]:
    """Fewer file descriptors than there may be clients, or hardly any left."""
    file, options = evidence.file, evidence.options
    if file is None or options is None or file.descriptor_limit is None:
        return
    limit = file.descriptor_limit
    needed = max(options.max_connections, 0) + SPARE_DESCRIPTORS
    if limit < needed:
        yield Symptom(
            file.path, f"max_connections is {options.max_connections:,}, a process may open {limit:,} files"
        )
    if file.open_descriptors is not None and file.open_descriptors >= limit * FULL:
        yield Symptom(file.path, f"{file.open_descriptors:,} of {limit:,} files are open")


def many_connections(evidence: Evidence) -> Iterator[Symptom]:
    """Servers with nearly as many connections as they take."""
    for server in evidence.servers:
        most, now = server.varz.get("max_connections", 0), server.varz.get("connections", 0)
        if most > 0 and now >= most * FULL:
            yield Symptom(server.name, f"{now:,} of {most:,} connections")


def wrong_clock(evidence: Evidence) -> Iterator[Symptom]:
    """Clocks that differ from this machine's."""
    for server in evidence.servers:
        off, error = server.clock_offset_ns, server.clock_error_ns
        if abs(off) - error > CLOCK_NS:
            way = "ahead of" if off > 0 else "behind"
            yield Symptom(server.name, f"its clock is {shown_duration(abs(off))} {way} this machine's")


def slow_consumers(evidence: Evidence) -> Iterator[Symptom]:
    """Clients that were closed because they did not take their messages."""
    for server in evidence.servers:
        count = server.varz.get("slow_consumers", 0)
        if not count:
            continue
        closed = [
            _client(each)
            for each in server.closed.get("connections") or ()
            if str(each.get("reason", "")).startswith("Slow Consumer")
        ]
        names = [f"{name} ({times} times)" for name, times in Counter(closed).most_common(_NAMED)]
        yield Symptom(server.name, f"{count:,} since its start{': ' if names else ''}{', '.join(names)}")


def slow_clients(evidence: Evidence) -> Iterator[Symptom]:
    """Clients for which so much waits that they will be closed soon."""
    for server in evidence.servers:
        most = server.varz.get("max_pending", 0)
        for each in server.connz.get("connections") or ():
            waiting = each.get("pending_bytes", 0)
            if most > 0 and waiting >= most * BEHIND:
                yield Symptom(
                    server.name, f"{shown_size(waiting)} of {shown_size(most)} wait for {_client(each)}"
                )


def refused_clients(evidence: Evidence) -> Iterator[Symptom]:
    """Clients that were refused for their credentials."""
    for server in evidence.servers:
        refused = Counter(
            str(each.get("ip", "?"))
            for each in server.closed.get("connections") or ()
            if str(each.get("reason", "")).startswith("Authentication")
        )
        if refused:
            names = ", ".join(f"{ip} ({count} times)" for ip, count in refused.most_common(_NAMED))
            yield Symptom(server.name, f"{refused.total():,} of the last closed connections: {names}")


def unwell(evidence: Evidence) -> Iterator[Symptom]:
    """Servers that say themselves that they are not well."""
    for server in evidence.servers:
        status = server.healthz.get("status")
        if status is not None and status != "ok":
            yield Symptom(server.name, f"{status}: {server.healthz.get('error', 'no reason was told')}")


def logged_messages(evidence: Evidence) -> Iterator[Symptom]:
    """A trace of every message in the log."""
    options = evidence.options
    if options is not None and options.trace:
        yield Symptom(_file(evidence), "trace is on")


def endless_log(evidence: Evidence) -> Iterator[Symptom]:
    """A log file that grows without end."""
    options = evidence.options
    if options is not None and options.log_file and not options.log_size_limit:
        yield Symptom(_file(evidence), f"{options.log_file} has no log_size_limit")


def large_payloads(evidence: Evidence) -> Iterator[Symptom]:
    """Payloads that are allowed to be very large."""
    options = evidence.options
    if options is not None and options.max_payload > LARGE_PAYLOAD:
        yield Symptom(_file(evidence), f"max_payload is {shown_size(options.max_payload)}")
    for server in evidence.servers:
        most = server.varz.get("max_payload", 0)
        if most > LARGE_PAYLOAD:
            yield Symptom(server.name, f"max_payload is {shown_size(most)}")


def _client(connection: dict[str, Any]) -> str:
    """Return what a connection is known by: its name, else its user, with its address."""
    name = connection.get("name") or connection.get("authorized_user") or f"cid {connection.get('cid', '?')}"
    return f"{name} at {connection.get('ip', '?')}"


def _file(evidence: Evidence) -> str:
    assert evidence.file is not None
    return evidence.file.path
