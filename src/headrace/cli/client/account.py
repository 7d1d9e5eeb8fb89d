"""`headrace account`: the account that the user belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.cli.call import Call


def info(call: Call) -> None:
    """Print who one is and what one may. Raises: ClientError."""
    from headrace.client.errors import JetStreamError, NoRespondersError, ServerError
    from headrace.client.system import ask_one

    with call.connected() as connection:
        facts = connection.server_info
        found: dict[str, Any] = {
            "server": str(connection.address),
            "server_name": str(facts.fields.get("server_name", "")),
            "version": facts.version,
            "user": ask_one(connection, "$SYS.REQ.USER.INFO", timeout=call.timeout),
        }
        try:
            found["jetstream"] = call.api(connection).ask("INFO")
        except (JetStreamError, NoRespondersError, ServerError):
            pass  # there is none for this account, or the user may not ask: it is absent
        found.get("jetstream", {}).pop("type", None)
    call.out.document(found, lambda: _show(call, found), quiet=str(found["user"].get("account", "")))


def _show(call: Call, found: dict[str, Any]) -> None:
    from headrace.cli.text_table import ColumnKind

    size, number = ColumnKind.SIZE, ColumnKind.NUMBER
    user = found["user"]
    rules = user.get("permissions") or {}
    call.out.facts(
        (
            ("server", f"{found['server']} ({found['server_name']}, {found['version']})"),
            ("user", user.get("user")),
            ("account", user.get("account")),
            ("may publish", _rule(rules.get("publish"))),
            ("may subscribe", _rule(rules.get("subscribe"))),
            ("ends in", user.get("expires") or None, ColumnKind.DURATION),
        ),
        title="Account",
    )
    used = found.get("jetstream")
    if used is None:
        call.out.facts((("jetstream", "none for this user"),))
        return
    limits = used.get("limits") or {}
    call.out.facts(
        (
            ("memory", used.get("memory"), size),
            ("memory limit", _limit(limits.get("max_memory")), size),
            ("storage", used.get("storage"), size),
            ("storage limit", _limit(limits.get("max_storage")), size),
            ("streams", used.get("streams"), number),
            ("stream limit", _limit(limits.get("max_streams")), number),
            ("consumers", used.get("consumers"), number),
            ("consumer limit", _limit(limits.get("max_consumers")), number),
        ),
        title="JetStream",
    )


def _rule(rule: dict[str, list[str]] | None) -> str:
    if not rule:
        return "all"
    allowed = ", ".join(rule.get("allow") or ()) or "all"
    denied = ", ".join(rule.get("deny") or ())
    return f"{allowed} but {denied}" if denied else allowed


def _limit(value: int | None) -> int | None:
    return None if value is None or value < 0 else value
