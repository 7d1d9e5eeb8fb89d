"""The rows of `server`: what servers are there, and what they say of themselves."""

from __future__ import annotations

from typing import Final

from headrace.cli.client.rows.server_checks import CHECKS
from headrace.cli.client.rows.server_control import CONTROLS
from headrace.cli.client.rows.server_flags import (
    ACCOUNT_FLAG,
    AMONG_FLAGS,
    MONITOR_FLAGS,
    SCOPE_KEYS,
    TABLE_FLAGS,
    sort_flag,
)
from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument, WordFlag

_TEXT, _NUMBER = ValueKind.TEXT, ValueKind.NUMBER
_ASKED: Final = (*AMONG_FLAGS, *MONITOR_FLAGS)
_EXPECTED: Final = WordArgument("servers", "how many servers there should be", _NUMBER, "?")
_SOURCES: Final = (
    "A user of the system account asks all servers, --monitor the monitoring ports that it names; any other "
    "user sees what the account may know of itself. Answers end after 300 ms of silence, or with --expect; a "
    "server that others have routes to and that does not answer is shown as such."
)


def _report(
    name: str,
    summary: str,
    document: str,
    sorts: tuple[str, ...],
    *more: WordFlag,
    aliases: tuple[str, ...] = (),
    description: str = "",
    keys: tuple[JsonKey, ...] = (),
) -> CommandRow:
    return CommandRow(
        words=("server", "report", name),
        summary=summary,
        description=f"{description} {_SOURCES}".strip(),
        run=f"server_report:{name}",
        aliases=aliases,
        flags=(sort_flag(*sorts, default=sorts[0]), *more, *TABLE_FLAGS, *_ASKED),
        lists=True,
        json=JsonForm.LISTING,
        keys=(*SCOPE_KEYS, *keys),
        says=document,
        examples=(f"server report {name}", f"server report {name} --monitor http://127.0.0.1:8222 --json"),
    )


def _request(name: str, summary: str, *flags: WordFlag, aliases: tuple[str, ...] = ()) -> CommandRow:
    return CommandRow(
        words=("server", "request", name),
        summary=summary,
        description=_SOURCES,
        run="server_request:request",
        aliases=aliases,
        flags=(*flags, *_ASKED),
        json=JsonForm.LISTING,
        keys=(JsonKey("scope", SCOPE_KEYS[2].meaning),),
        says=f"each server's answer to `$SYS.REQ.SERVER.PING.{name.upper()}`",
        examples=(f"server request {name} --json",),
    )


def _switch(name: str, text: str, *nats_names: str) -> WordFlag:
    return WordFlag((name,), text, nats_names=nats_names)


def _value(name: str, text: str, kind: ValueKind = _TEXT, *nats_names: str) -> WordFlag:
    return WordFlag((name,), text, kind, nats_names=nats_names)


_PAGE: Final = (_value("--offset", "first of the list", _NUMBER), _value("--limit", "how many", _NUMBER))
_STATE: Final = WordFlag(
    ("--state",),
    "connections: open, closed, all",
    _TEXT,
    default="open",
    choices=("open", "closed", "all"),
    nats_names=("--filter-state",),
)
_SUBSCRIPTIONS: Final = WordFlag(
    ("--subscriptions",), "with subscriptions", _TEXT, choices=("yes", "detail"), optional="yes"
)
_LINKS: Final = ("in-msgs", "out-msgs", "in-bytes", "out-bytes", "subs", "pending", "server")

ROWS: Final = (
    CommandRow(
        words=("server", "ls"),
        summary="List the servers",
        description=f"{_SOURCES} Exit 3 where one is silent, or fewer are there than are expected.",
        run="server_list:ls",
        aliases=("list",),
        arguments=(_EXPECTED,),
        flags=(
            sort_flag("name", "cluster", "conns", "subs", "routes", "gateways", "mem", "cpu", "slow",
                      "start", "rtt", "version", default="name"),
            *TABLE_FLAGS, *_ASKED,
        ),
        json=JsonForm.LISTING,
        keys=(
            *SCOPE_KEYS,
            JsonKey("items[].route_count", "how many routes the server has"),
            JsonKey("items[].gateway_count", "how many gateways"),
            JsonKey("items[].rtt_ns", "the time from the question until the answer, in ns"),
        ),
        says="`server` and `statsz` of the answers to `$SYS.REQ.SERVER.PING`",
        examples=("server ls", "server ls 3", "server ls --monitor http://127.0.0.1:8222"),
    ),
    CommandRow(
        words=("server", "ping"),
        summary="Ping the servers",
        description=_SOURCES,
        run="server_list:ping",
        arguments=(_EXPECTED,),
        flags=(
            WordFlag(("--count",), "how often", _NUMBER, default=1),
            WordFlag(("--interval",), "the pause between", ValueKind.DURATION, default=1_000_000_000),
            *_ASKED,
        ),
        json=JsonForm.LINES,
        keys=(
            JsonKey("server", "the name of the server"),
            JsonKey("cluster", "the name of its cluster; absent without one"),
            JsonKey("server_id", "its id"),
            JsonKey("host", "its host"),
            JsonKey("rtt_ns", "the time from the question until the answer, in ns"),
            JsonKey("error", "why there is no answer; then nothing but `server` is beside it"),
        ),
        examples=("server ping", "server ping --count 3 --json"),
    ),
    CommandRow(
        words=("server", "info"),
        summary="Show a server",
        description="Of the one that is connected to, or by its name or id. " + _SOURCES,
        run="server_list:info",
        aliases=("i",),
        arguments=(WordArgument("server-name", "name or id of the server", ValueKind.SERVER, "?"),),
        flags=MONITOR_FLAGS,
        keys=(JsonKey("scope", "`account` where only what every client is told is shown; absent otherwise"),),
        says="`VARZ`; for an account's user the server's INFO",
        examples=("server info", "server info n1 --json"),
    ),
    _report("connections", "Show connections", "`connections` of `CONNZ`",
            ("in-msgs", "out-msgs", "in-bytes", "out-bytes", "subs", "pending", "start", "cid", "name",
             "account", "server"),
            ACCOUNT_FLAG, _value("--username", "only this user"), _STATE,
            _value("--subject", "only with subscriptions to this", ValueKind.SUBJECT),
            aliases=("conn", "connz", "conns")),
    _report("jetstream", "Show what JetStream has on each server", "`JSZ`",
            ("messages", "bytes", "streams", "consumers", "memory", "file", "api", "errors", "name",
             "cluster"),
            ACCOUNT_FLAG, aliases=("js", "jsz")),
    _report("accounts", "Show accounts, over all servers", "`account_statz` of `STATZ`, added up",
            ("in-msgs", "out-msgs", "in-bytes", "out-bytes", "conns", "subs", "name"),
            ACCOUNT_FLAG, aliases=("acct",),
            keys=(JsonKey("items[].servers", "the names of the servers that were added up"),)),
    _report("cpu", "Show the processor time of servers", "`STATSZ`", ("cpu", "mem", "conns", "subs", "name")),
    _report("mem", "Show the memory of servers", "`STATSZ`", ("mem", "cpu", "conns", "subs", "name"),
            aliases=("memory",)),
    _report("routes", "Show routes", "`routes` of `ROUTEZ`", (*_LINKS, "remote"), aliases=("route",)),
    _report("gateways", "Show gateways", "the connections of `GATEWAYZ`", (*_LINKS, "gateway"),
            aliases=("gateway", "gw", "super"),
            keys=(JsonKey("items[].gateway", "the name of the cluster at the other end"),
                  JsonKey("items[].direction", "`in` or `out`"),
                  JsonKey("items[].configured", "true if the configuration names it"))),
    _report("leafnodes", "Show leafnode connections", "`leafs` of `LEAFZ`", (*_LINKS, "name", "account"),
            ACCOUNT_FLAG, aliases=("leafs", "leaf", "leafz")),
    _report("health", "Show the health of servers", "`HEALTHZ`", ("status", "name"), ACCOUNT_FLAG,
            WordFlag(("--stream",), "of a stream, with --account", ValueKind.STREAM),
            WordFlag(("--consumer",), "of a consumer, with --stream", ValueKind.CONSUMER),
            description="Exit 3 where a server is sick, or silent."),
    _report("subscriptions", "Show subscriptions", "`subscriptions_list` of `SUBSZ`",
            ("subject", "messages", "account", "cid", "server"), ACCOUNT_FLAG,
            WordFlag(("--subject",), "only those that get messages of this subject", ValueKind.SUBJECT),
            aliases=("subs",)),
    _request("varz", "Ask servers for their facts and settings", aliases=("variables", "vars", "var")),
    _request("connz", "Ask servers for their connections",
             _value("--sort", "order, as the server knows it"),
             _switch("--auth", "with users and accounts"), _SUBSCRIPTIONS,
             _value("--cid", "only this connection", _NUMBER, "--filter-cid"),
             _value("--username", "only this user", _TEXT, "--filter-user"),
             ACCOUNT_FLAG, _value("--filter-subject", "only with subscriptions to this", ValueKind.SUBJECT),
             _value("--mqtt-client", "only this MQTT client"), _STATE, *_PAGE,
             aliases=("connections", "conns", "conn")),
    _request("subsz", "Ask servers about their subscriptions",
             _switch("--subscriptions", "with the subscriptions", "--detail"), ACCOUNT_FLAG,
             _value("--test", "only those that get messages of this subject", ValueKind.SUBJECT,
                    "--filter-subject"), *_PAGE,
             aliases=("subscriptions", "subs", "sub")),
    _request("routez", "Ask servers for their routes", _SUBSCRIPTIONS, aliases=("routes", "route")),
    _request("gatewayz", "Ask servers for their gateways", _SUBSCRIPTIONS,
             _value("--gateway", "only this one", _TEXT, "--filter-name"),
             _switch("--accounts", "with the accounts' interest"),
             ACCOUNT_FLAG, aliases=("gateways", "gateway", "gwy")),
    _request("leafz", "Ask servers for their leafnode connections",
             _switch("--subscriptions", "with subscriptions"), ACCOUNT_FLAG,
             aliases=("leafnodes", "leafs", "leaf")),
    _request("accountz", "Ask servers for their accounts", ACCOUNT_FLAG, aliases=("accounts", "acct")),
    _request("jsz", "Ask servers about JetStream", ACCOUNT_FLAG,
             _switch("--accounts", "with accounts"), _switch("--streams", "with streams"),
             _switch("--consumers", "with consumers", "--consumer"),
             _switch("--config", "with configurations"),
             _switch("--leader-only", "only the leader of the cluster answers", "--leader"),
             _switch("--stream-leader-only", "streams only where their leader is", "--stream-leader"),
             _switch("--raft", "with Raft groups"), *_PAGE, aliases=("jetstream", "js")),
    _request("healthz", "Ask servers for their health", ACCOUNT_FLAG,
             WordFlag(("--stream",), "of a stream, with --account", ValueKind.STREAM),
             WordFlag(("--consumer",), "of a consumer, with --stream", ValueKind.CONSUMER),
             _switch("--js-enabled-only", "only whether JetStream is there", "--js-enabled", "-J"),
             _switch("--js-server-only", "only the server's JetStream", "--server-only", "-S"),
             _switch("--js-meta-only", "only the cluster's JetStream"),
             _switch("--details", "with all errors"), aliases=("health", "jetstream-health")),
    _request("statsz", "Ask servers for their statistics", aliases=("stats",)),
    _request("idz", "Ask servers who they are"),
    *CHECKS,
    *CONTROLS,
)  # fmt: skip
