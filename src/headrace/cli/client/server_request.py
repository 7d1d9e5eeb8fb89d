"""`headrace server request`: the documents of servers as they say them.

Here lives which flags an endpoint has and which options they are. Never lives here: tables (`server_report`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.client.server_asking import ACCOUNT_ONLY, among, server_source
from headrace.cli.outcomes import ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call
    from headrace.client.server_sources import ServerAnswer

_OPTIONS: Final = (
    *(
        "sort",
        "auth",
        "subscriptions",
        "cid",
        "username",
        "account",
        "filter_subject",
        "mqtt_client",
        "test",
    ),
    *("state", "gateway", "accounts", "streams", "consumers", "config", "leader_only", "raft", "details"),
    *("stream_leader_only", "offset", "limit", "stream", "consumer", "js_enabled_only", "js_server_only"),
    "js_meta_only",
)
_STATES: Final = {"open": 0, "closed": 1, "all": 2}
_NAMES: Final = {
    ("CONNZ", "account"): "acc",
    ("CONNZ", "username"): "user",
    ("GATEWAYZ", "gateway"): "name",
    ("GATEWAYZ", "account"): "account_name",
    ("JSZ", "consumers"): "consumer",
    ("HEALTHZ", "js_enabled_only"): "js-enabled-only",
    ("HEALTHZ", "js_server_only"): "js-server-only",
    ("HEALTHZ", "js_meta_only"): "js-meta-only",
}


def request(call: Call) -> ExitCode | None:
    """Ask servers for the document that the command is named for. Raises: CommandError, ClientError."""
    endpoint = call.row.words[-1].upper()
    with server_source(call) as source:
        answers = source.ask(
            endpoint, _options(call, endpoint), among=among(call), expect=call.options.expect
        )
        scope = source.scope
    if scope == "account":
        call.out.note(ACCOUNT_ONLY)
    items = [_said(answer, endpoint) for answer in answers.answers]
    call.out.listing(
        items, lambda: _show(call, items), errors=answers.missing, name="name", more={"scope": scope}
    )
    if any(answer.error is not None for answer in answers.answers):
        return ExitCode.REFUSED
    return ExitCode.WRONG if answers.missing else None


def _options(call: Call, endpoint: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _OPTIONS:
        value: Any = getattr(call.options, name, None)
        if value is None or value is False:
            continue
        if name == "state":
            value = _STATES[value]
        elif name == "subscriptions" and value == "detail":
            found["subscriptions_detail"] = True
            value = True
        elif name == "subscriptions":
            value = True
        found[_NAMES.get((endpoint, name), name)] = value
    return found


def _said(answer: ServerAnswer, endpoint: str) -> dict[str, Any]:
    """The answer as a server says it: who it is, and the document, or the error."""
    if endpoint == "IDZ":
        return answer.data
    key = "statsz" if endpoint == "STATSZ" else "data"
    if answer.error is not None:
        return {"server": answer.server, "error": {"description": answer.error}}
    return {"server": answer.server, key: answer.data}


def _show(call: Call, items: list[dict[str, Any]]) -> None:
    from headrace.cli.output import to_json

    for item in items:
        for line in to_json(item, pretty=True).splitlines():
            call.out.line(line)
