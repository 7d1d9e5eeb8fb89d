"""Evidence from a configuration file and this machine, and from running servers.

Never lives here: what is right or wrong of it (`table`).
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.diagnosis.evidence import (
    CertificateFacts,
    Evidence,
    FileEvidence,
    ServerEvidence,
    StoreFacts,
)
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.cli.values import read_time
from headrace.client.server_sources import AccountSource
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.cli.call import Call
    from headrace.client.server_sources import ServerAnswer, ServerSource
    from headrace.conf.options import Options
    from headrace.conf.tls_options import TLSOptions
    from headrace.errors import ConfigProblem

_CONNECTIONS: Final = 1024
"""Connections of a server that are looked at: those with most waiting, and those closed last."""

_MOUNTS: Final = Path("/proc/self/mounts")


def file_evidence(path: str, pid: int | None = None) -> FileEvidence:
    """Return a configuration and what this machine has for it; `pid` is the server that runs with it.

    Raises: CommandError (not there) for a file that cannot be read.
    """
    from headrace.conf.binding import load_options

    unsupported: list[ConfigProblem] = []
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"{path}: {reason}", ExitCode.NOT_THERE) from None
    try:
        options = load_options(path, unsupported=unsupported)
    except ConfigError as error:
        return FileEvidence(path, problems=tuple(map(str, error.problems)), mode=mode)
    limit, opened = _descriptors(pid)
    return FileEvidence(
        path,
        options,
        unsupported=tuple(map(str, unsupported)),
        mode=mode,
        descriptor_limit=limit,
        open_descriptors=opened,
        stores=tuple(_store(directory) for directory in _directories(options)),
        certificates=tuple(_certificates(options)),
    )


def gathered(call: Call, *, file: FileEvidence | None, source: ServerSource | None) -> Evidence:
    """Return all evidence; without a `source` that of the file. Raises: CommandError; ClientError."""
    if source is None:
        return Evidence(time.time_ns(), file)
    if isinstance(source, AccountSource):
        server = _account_evidence(call, source)
        return Evidence(time.time_ns(), file, (server,), source.scope)
    asked_ns = time.time_ns()
    varz = source.ask("VARZ")
    servers = tuple(_servers(source, varz.answers, asked_ns, time.time_ns()))
    silent = tuple((str(each.get("server")), str(each.get("error"))) for each in varz.missing)
    return Evidence(time.time_ns(), file, servers, source.scope, silent, _open_monitors(call.options))


def _servers(
    source: ServerSource, answers: list[ServerAnswer], asked_ns: int, answered_ns: int
) -> Iterator[ServerEvidence]:
    questions: dict[str, tuple[str, dict[str, object]]] = {
        "connz": ("CONNZ", {"sort": "pending", "limit": _CONNECTIONS}),
        "closed": ("CONNZ", {"state": 1, "sort": "stop", "limit": _CONNECTIONS}),
        "jsz": ("JSZ", {"accounts": True, "streams": True, "consumer": True, "config": True}),
        "routez": ("ROUTEZ", {}),
        "healthz": ("HEALTHZ", {}),
    }
    more = {
        name: {each.server.get("id"): each.data for each in source.ask(*question).answers}
        for name, question in questions.items()
    }
    for each in answers:
        offset, error = clock_offset(each.data.get("now"), asked_ns, answered_ns)
        yield ServerEvidence(
            each.name,
            str(each.server.get("id", "")),
            each.data,
            clock_offset_ns=offset,
            clock_error_ns=error,
            **{name: found.get(each.server.get("id"), {}) for name, found in more.items()},
        )


def clock_offset(told: str | None, asked_ns: int, answered_ns: int) -> tuple[int, int]:
    """Return by how much a server's clock is ahead of ours, and by how much that may be wrong, both ns.

    `told` is the time that it said between both times here; None: 0 and 0.
    """
    if told is None:
        return 0, 0
    return read_time(told) - (asked_ns + answered_ns) // 2, (answered_ns - asked_ns) // 2


def _open_monitors(options: Any) -> tuple[str, ...]:
    """Return the hosts of monitoring ports that are read without credentials."""
    from urllib.parse import urlsplit

    if options.monitor_user is not None or options.monitor_token_file is not None:
        return ()
    places = [urlsplit(url if "://" in url else f"http://{url}") for url in options.monitor or ()]
    return tuple(place.hostname or "" for place in places if place.username is None)


def _account_evidence(call: Call, source: AccountSource) -> ServerEvidence:
    """Return what a user of any account may see: the account's connections, streams and consumers."""
    from headrace.client.api import JetStreamAssets
    from headrace.client.errors import JetStreamError, NoRespondersError

    facts = source.connection.server_info
    streams: list[dict[str, Any]] = []
    try:
        assets = JetStreamAssets(call.api(source.connection))
        for stream in assets.streams():
            consumers = list(assets.consumers(stream["config"]["name"]))
            streams.append({**stream, "name": stream["config"]["name"], "consumer_detail": consumers})
    except (JetStreamError, NoRespondersError):
        streams = []  # the account has no JetStream
    connz = source.ask("CONNZ", {"sort": "pending", "limit": _CONNECTIONS}).answers
    told: dict[str, Any] = {
        name: facts.fields[name] for name in ("max_payload", "git_commit") if name in facts.fields
    }
    return ServerEvidence(
        str(facts.fields.get("server_name", "")),
        facts.server_id,
        varz=told,
        connz={"connections": [each for answer in connz for each in answer.data.get("connections") or ()]},
        jsz={"account_details": [{"name": "", "stream_detail": streams}]},
    )


def _directories(options: Options) -> Iterator[str]:
    jetstream, streaming = options.jetstream, options.streaming
    if jetstream is not None and jetstream.store_dir is not None:
        yield os.path.abspath(jetstream.store_dir)
    if streaming is not None and streaming.directory is not None:
        yield os.path.abspath(streaming.directory)


def _store(directory: str) -> StoreFacts:
    """Return the disk of a directory, or of the one above it where it is not there yet."""
    there = Path(directory)
    while not there.exists() and there != there.parent:
        there = there.parent
    found = os.statvfs(there)
    return StoreFacts(
        directory,
        _filesystem(there.resolve()),
        free_bytes=found.f_bavail * found.f_frsize,
        total_bytes=found.f_blocks * found.f_frsize,
    )


def _filesystem(path: Path) -> str:
    """Return the type of the filesystem of a path; "" where the system does not tell."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return ""
    return filesystem_of(path, lines)


def filesystem_of(path: Path, mounts: list[str]) -> str:
    """Return the type of the filesystem of a path by the lines of /proc/mounts: the longest that is above."""
    best, kind = -1, ""
    for line in mounts:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        if path.is_relative_to(point) and len(point) >= best:
            best, kind = len(point), fields[2]
    return kind


def _descriptors(pid: int | None) -> tuple[int | None, int | None]:
    """Return how many files a server may open, and how many it has open.

    Without a process the limit is the hard one here, to which servers raise theirs.
    """
    import resource

    if pid is None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return (None if hard == resource.RLIM_INFINITY else hard), None
    try:
        limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]
        opened = len(os.listdir(f"/proc/{pid}/fd"))
    except ProcessLookupError:
        raise CommandError(f"there is no process {pid}", ExitCode.NOT_THERE) from None
    except PermissionError:
        raise CommandError(f"process {pid} is another user's", ExitCode.NOT_PERMITTED) from None
    return limit, opened


def _certificates(options: Options) -> Iterator[CertificateFacts]:
    blocks: dict[str, Any] = {
        "clients": options,
        "websocket": options.websocket,
        "mqtt": options.mqtt,
        "cluster": options.cluster,
        "gateway": options.gateway,
        "leafnodes": options.leafnodes,
    }
    for name, block in blocks.items():
        tls: TLSOptions | None = getattr(block, "tls", None)
        if tls is None:
            continue
        for path in (tls.cert_file, *(each.cert_file for each in tls.more_certs), tls.ca_file):
            if path:
                yield from _of_file(path, name)


def _of_file(path: str, block: str) -> Iterator[CertificateFacts]:
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificates(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    for certificate in found:
        not_after = int(certificate.not_valid_after_utc.timestamp()) * 1_000_000_000
        yield CertificateFacts(f"{path} ({block})", not_after)
