"""`headrace server kick` and `reload`, `server account`, `server cluster`: what changes servers.

Each needs a user of the system account, and says with `--dry-run` whom it would concern. Never lives here:
tools that need no server (`server_tools`), what servers say of themselves (`server_list`).
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode
from headrace.client.errors import ClientTimeoutError
from headrace.client.jetstream_api import DEFAULT_PREFIX, JetStreamApi
from headrace.client.server_sources import ServerAnswer, SystemSource
from headrace.client.system import SystemRequestError, ask_one, document_of

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.blocking import Connection

_CONNECTIONS: Final = "connections"
_PAUSE: Final = 0.1
"""Seconds between two questions for the new leader."""


def kick(call: Call) -> ExitCode | None:
    """Close a client's connection. Raises: CommandError if it is not there; ClientError."""
    cid, wanted = call.options.cid, call.options.server_name
    with call.connected() as connection:
        answers = _asked(call, connection, wanted, "CONNZ", {"cid": cid, "auth": True})
        having = [answer for answer in answers if answer.data.get(_CONNECTIONS)]
        if not having:
            raise CommandError(f"no server has a connection {cid}", ExitCode.NOT_THERE)
        if len(having) > 1:
            names = ", ".join(answer.name for answer in having)
            raise CommandError(
                f"these servers have a connection {cid}, name one: {names}", ExitCode.WRONG_USE
            )
        answer = having[0]
        client = answer.data[_CONNECTIONS][0]
        who = client.get("authorized_user") or client.get("account") or "nobody"
        place = f"{client.get('ip')}:{client.get('port')}"
        shown = f"connection {cid} {client.get('name') or ''} of {who} from {place}, on {answer.name}"
        if not call.options.dry_run:
            call.confirm(" ".join(shown.split()))
            _command(call, connection, answer, "KICK", {"cid": cid})
    return _done(
        call,
        {"server": answer.name, "kicked": not call.options.dry_run, "connection": client},
        "kicked",
        shown,
    )


def reload(call: Call) -> ExitCode | None:
    """Have a server read its configuration again. Raises: CommandError if it is not there; ClientError."""
    with call.connected() as connection:
        answer = _one(call, connection, call.options.server_name)
        if not call.options.dry_run:
            _command(call, connection, answer, "RELOAD", None)
    found = {
        "server": answer.name,
        "server_id": answer.server.get("id"),
        "reloaded": not call.options.dry_run,
    }
    return _done(call, found, "reloaded", f"the configuration of {answer.name}")


def account_info(call: Call) -> None:
    """Print an account as the servers know it. Raises: CommandError if it is not there; ClientError."""
    with call.connected() as connection:
        found = _account(call, connection)
    call.out.document(found, lambda: _show_account(call, found), quiet=str(found.get("account_name", "")))


def account_purge(call: Call) -> ExitCode | None:
    """Remove all of an account's streams. Raises: CommandError if it is not there; ClientError."""
    name = call.options.account
    with call.connected() as connection:
        _account(call, connection)
        details = [
            detail
            for answer in _asked(
                call, connection, None, "JSZ", {"account": name, "accounts": True, "streams": True}
            )
            for detail in answer.data.get("account_details") or ()
            if detail.get("name") == name
        ]
        streams = {
            stream["name"]: stream.get("state") or {}
            for detail in details
            for stream in detail.get("stream_detail") or ()
        }
        messages = sum(int(state.get("messages", 0)) for state in streams.values())
        lost = f"{name}: {len(streams):,} streams, {messages:,} messages"
        if not call.options.dry_run:
            call.confirm(lost, name=name)
            JetStreamApi(connection, DEFAULT_PREFIX, timeout=call.timeout).ask(f"ACCOUNT.PURGE.{name}")
    found = {
        "account": name,
        "streams": sorted(streams),
        "messages": messages,
        "purged": not call.options.dry_run,
    }
    if call.options.dry_run and not streams:
        call.out.document(found, lambda: call.out.line("nothing would be removed"))
        return None
    return _done(call, found, "removed", lost)


def cluster_step_down(call: Call) -> ExitCode | None:
    """Have another server lead JetStream's cluster. Raises: CommandError if there is none; ClientError."""
    options = call.options
    placement: dict[str, Any] = {
        "cluster": options.cluster,
        "tags": options.tags,
        "preferred": options.preferred,
    }
    placement = {name: value for name, value in placement.items() if value}
    with call.connected() as connection:
        cluster = _meta_cluster(call, connection)
        leader = str(cluster["leader"])
        found = {"cluster": cluster.get("name"), "former_leader": leader}
        if options.dry_run:
            return _done(
                call, {**found, "changed": False}, "changed", f"{leader} steps down as leader of JetStream"
            )
        JetStreamApi(connection, DEFAULT_PREFIX, timeout=call.timeout).ask(
            "META.LEADER.STEPDOWN", {"placement": placement} if placement else None
        )
        found["leader"] = _next_leader(call, connection, leader)
    call.out.document(
        {**found, "changed": True},
        lambda: call.out.line(f"{found['leader']} leads JetStream, after {leader}"),
        quiet=found["leader"],
    )
    return None


def cluster_peer_remove(call: Call) -> ExitCode | None:
    """Remove a server that is gone from JetStream's cluster. Raises: CommandError if it is not one of it."""
    wanted = call.options.server_name
    with call.connected() as connection:
        cluster = _meta_cluster(call, connection)
        members = [
            {"name": cluster.get("leader"), "peer": cluster.get("peer"), "current": True},
            *(cluster.get("replicas") or ()),
        ]
        found = next((each for each in members if wanted in (each.get("name"), each.get("peer"))), None)
        if found is None:
            names = ", ".join(str(each.get("name")) for each in members)
            raise CommandError(f"{wanted!r} is none of the cluster: {names}", ExitCode.NOT_THERE)
        state = "gone" if found.get("offline") else "there"
        loss = f"{found.get('name')}, which is {state}: it loses its place in JetStream's cluster"
        if not call.options.dry_run:
            call.confirm(loss, name=str(found.get("name")))
            request = {"peer": found.get("name"), "peer_id": found.get("peer")}
            JetStreamApi(connection, DEFAULT_PREFIX, timeout=call.timeout).ask("SERVER.REMOVE", request)
    document = {"cluster": cluster.get("name"), "peer": found, "removed": not call.options.dry_run}
    return _done(call, document, "removed", str(found.get("name")))


# -- asking


def _asked(
    call: Call, connection: Connection, name: str | None, endpoint: str, options: dict[str, Any] | None = None
) -> list[ServerAnswer]:
    """The answers of all servers, or of the one with a name or id. Raises: CommandError if none has it."""
    source = SystemSource(connection, timeout=call.timeout)
    answers = source.ask(endpoint, options).answers
    if name is not None:
        answers = [answer for answer in answers if name in (answer.name, answer.server.get("id"))]
        if not answers:
            raise CommandError(f"no server {name!r} answers", ExitCode.NOT_THERE)
    return answers


def _one(call: Call, connection: Connection, name: str) -> ServerAnswer:
    return _asked(call, connection, name, "IDZ")[0]


def _command(
    call: Call, connection: Connection, server: ServerAnswer, name: str, request: dict[str, Any] | None
) -> None:
    """Give one server a command. Raises: SystemRequestError if it refuses; ClientError."""
    data = b"" if request is None else json.dumps(request).encode()
    subject = f"$SYS.REQ.SERVER.{server.server['id']}.{name}"
    error = document_of(connection.request(subject, data, timeout=call.timeout)).get("error")
    if isinstance(error, dict):
        raise SystemRequestError(int(error.get("code", 0)), str(error.get("description", "")))


def _account(call: Call, connection: Connection) -> dict[str, Any]:
    name = call.options.account
    SystemSource(connection, timeout=call.timeout)
    try:
        return ask_one(connection, f"$SYS.REQ.ACCOUNT.{name}.INFO", timeout=call.timeout)
    except SystemRequestError as error:
        if "does not exist" in str(error):
            raise CommandError(f"there is no account {name!r}", ExitCode.NOT_THERE) from error
        raise


def _meta_cluster(call: Call, connection: Connection) -> dict[str, Any]:
    """JetStream's cluster as its leader shows it. Raises: CommandError if there is none."""
    answers = _asked(call, connection, None, "JSZ", None)
    clusters = [
        (answer.name, answer.data["meta_cluster"]) for answer in answers if answer.data.get("meta_cluster")
    ]
    if not clusters:
        raise CommandError("the servers have no cluster of JetStream", ExitCode.NOT_THERE)
    # Only the leader knows all members; another one may not know yet that the leader has changed.
    for name, cluster in clusters:
        if cluster.get("leader") == name and cluster.get("replicas"):
            return dict(cluster)
    raise CommandError("JetStream's cluster has no leader", ExitCode.REFUSED)


def _next_leader(call: Call, connection: Connection, former: str) -> str:
    deadline = time.monotonic() + call.timeout
    while time.monotonic() < deadline:
        try:
            leader = str(_meta_cluster(call, connection)["leader"])
        except CommandError:  # for a moment there is none
            leader = former
        if leader != former:
            return leader
        time.sleep(_PAUSE)
    raise ClientTimeoutError(f"{former} was told to step down, and no other leader was seen")


# -- showing


def _done(call: Call, found: dict[str, Any], what: str, whom: str) -> ExitCode | None:
    """Print what was done, or with `--dry-run` what would be; return the exit code."""
    plain = " ".join(whom.split())
    text = f"would be {what}: {plain}" if call.options.dry_run else f"{what}: {plain}"
    call.out.document(found, lambda: call.out.line(text))
    return ExitCode.WRONG if call.options.dry_run else None


def _show_account(call: Call, found: dict[str, Any]) -> None:
    from headrace.cli.text_table import ColumnKind, TextColumn

    number = ColumnKind.NUMBER
    call.out.facts(
        (
            ("account", found.get("account_name")),
            ("name", found.get("name_tag")),
            ("system account", bool(found.get("is_system"))),
            ("expired", bool(found.get("expired"))),
            ("jetstream", bool(found.get("jetstream_enabled"))),
            ("connections", found.get("client_connections"), number),
            ("leafnodes", found.get("leafnode_connections"), number),
            ("subscriptions", found.get("subscriptions"), number),
        ),
        str(found.get("account_name")),
    )
    for title in ("imports", "exports"):
        lines = found.get(title) or ()
        if lines and call.out.is_terminal:
            call.out.line()
            call.out.line(title.capitalize(), "bold")
            call.out.table(
                (TextColumn("Subject"), TextColumn("Type"), TextColumn("Account")),
                [(each.get("subject"), each.get("type"), each.get("account")) for each in lines],
            )
