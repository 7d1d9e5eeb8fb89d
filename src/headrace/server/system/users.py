"""Requests of users of any account: for their own identity, and for the subscribers of a subject.

Here is what needs to know who asks, which the `Nats-Request-Info` header of the request says; only the
engine can have put it there when the request came from another account.
Source: compared with the Go server 2.15.1. The header says which connection asks; who it is is looked up.
"""

from __future__ import annotations

import json
from time import time
from typing import TYPE_CHECKING, Any, Final

from headrace.server.monitor.text import encode
from headrace.subjects import grammar

if TYPE_CHECKING:
    from headrace.conf.account_options import Permissions, SubjectPermission
    from headrace.core.account import Account
    from headrace.core.service import Delivery
    from headrace.server.session import ClientSession
    from headrace.server.system.requests import ServerRequests

_WHO: Final = b"nats-request-info:"
_BAD_REQUEST: Final = 400
_NS: Final = 1_000_000_000


def take(requests: ServerRequests, name: str, request: Delivery) -> None:
    """INFO or SUBSCRIBERS."""
    if not request.reply:
        return
    try:
        who = _who(request.headers)
    except ValueError:
        if name == "INFO":
            requests.send(request.reply, requests.messages.refusal(_BAD_REQUEST))
        return
    if name == "INFO":
        requests.send(request.reply, _user_info(requests, who))
        return
    account = who.get("svc") or who.get("acc") or requests.server.accounts.system
    number = _subscribers(requests.account(str(account)), request.payload)
    requests.send(request.reply, b"%d" % number)


def _who(headers: bytes) -> dict[str, Any]:
    """Empty when nobody is named. Raises: ValueError for what only a user of the system account can send."""
    for line in headers.split(b"\r\n")[1:]:
        if line[: len(_WHO)].lower() == _WHO:
            try:
                fields = json.loads(line[len(_WHO) :])
            except RecursionError:
                raise ValueError("nested too deeply") from None
            if not isinstance(fields, dict):
                raise ValueError("not an object")
            return fields
    return {}


def _user_info(requests: ServerRequests, who: dict[str, Any]) -> bytes:
    if not who:
        answer = requests.messages.answer({"user": "", "account": ""})
        return encode(answer, indent=False)
    cid = who.get("id")
    session = requests.server.clients.get(cid) if type(cid) is int else None
    if session is None or session.identity is None:
        return requests.messages.refusal(_BAD_REQUEST)
    return encode(requests.messages.answer(_user(session)), indent=False)


def _user(session: ClientSession) -> dict[str, Any]:
    identity = session.identity
    assert identity is not None
    account = session.account.name if session.account else identity.account
    title = session.account.options.title if session.account else account
    fields: dict[str, Any] = {"user": identity.user or "", "account": account, "account_name": title}
    if identity.token is not None and identity.token.user_name:
        fields["user_name"] = identity.token.user_name
    if identity.permissions is not None:
        fields["permissions"] = _permissions(identity.permissions.given)
    if identity.token is not None and identity.token.expires_at is not None:
        fields["expires"] = max(int(identity.token.expires_at - time()), 0) * _NS
    return fields


def _permissions(given: Permissions) -> dict[str, Any]:
    fields: dict[str, Any] = {"publish": _lists(given.publish), "subscribe": _lists(given.subscribe)}
    responses = given.allow_responses
    if responses is not None:
        fields["responses"] = {"max": responses.max_messages, "ttl": round(responses.expires * _NS)}
    return fields


def _lists(given: SubjectPermission | None) -> dict[str, list[str]]:
    lists = {} if given is None else {"allow": list(given.allow or ()), "deny": list(given.deny)}
    return {name: subjects for name, subjects in lists.items() if subjects}


def _subscribers(account: Account | None, payload: bytes) -> int:
    """Count the subscriptions of an account's clients to a subject, or within a pattern.

    Cost: looks at all subscriptions of the account; a tool for looking for mistakes, as there.
    """
    words = payload.split(b" ")
    subject, queue = words[0], words[1] if len(words) > 1 else None
    if not grammar.is_valid_subject(subject):
        return 0
    is_wanted = grammar.matches if grammar.is_valid_literal(subject) else _is_within
    return sum(
        is_wanted(subscribed, subject) and (queue is None or group == queue)
        for ops in (account.sessions() if account else ())
        for subscribed, group, _, _, _ in ops.connection.link.subscriptions()
    )


def _is_within(subscribed: bytes, pattern: bytes) -> bool:
    return grammar.is_subset(subscribed, pattern)
