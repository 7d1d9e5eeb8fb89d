"""`headrace server check connection`, `server`, `request`, `credential`: is a server as it should be?

Exit codes are those of Nagios plugins (`check_results`). Never lives here: checks of JetStream
(`jetstream_check`).
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from headrace.cli.client.check_results import CheckResult, checked, chosen, finished, seconds
from headrace.cli.client.server_asking import server_source
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.call import Call


def connection(call: Call) -> int:
    """Check that a server can be reached, and how long it takes. Raises: CommandError for wrong use."""
    options = call.options
    with checked(CheckResult("connection", "connection")) as result:
        began = time.perf_counter()
        with call.connected() as nc:
            result.number(
                "connect_time",
                time.perf_counter() - began,
                "s",
                warning=seconds(options, "connect_warn"),
                critical=seconds(options, "connect_critical"),
            )
            began = time.perf_counter()
            nc.flush(call.timeout)
            result.number(
                "rtt",
                time.perf_counter() - began,
                "s",
                warning=seconds(options, "rtt_warn"),
                critical=seconds(options, "rtt_critical"),
            )
            inbox = nc.new_inbox()
            sid = nc.subscribe(inbox)
            began = time.perf_counter()
            nc.publish(inbox, b"check")
            is_there = bool(nc.receive_of(sid, call.timeout))
            result.require(is_there, "a message came back", "a message did not come back")
            result.number(
                "request_time",
                time.perf_counter() - began,
                "s",
                warning=seconds(options, "req_warn"),
                critical=seconds(options, "req_critical"),
            )
            result.ok(f"connected to {nc.address}")
    return finished(call, result)


def request(call: Call) -> int:
    """Check that a service answers, how quickly and with what. Raises: CommandError for wrong use."""
    options, subject = call.options, chosen(call, "subject")
    pattern = _pattern(options.match_payload, "--match-payload")
    with checked(CheckResult("request", subject)) as result:
        headers: dict[str, list[str]] = {}
        for name, value in options.header or ():
            headers.setdefault(name, []).append(value)
        with call.connected() as nc:
            began = time.perf_counter()
            answer = nc.request(
                subject, call.body(options.payload), headers=headers or None, timeout=call.timeout
            )
            result.number(
                "time",
                time.perf_counter() - began,
                "s",
                warning=seconds(options, "response_warn"),
                critical=seconds(options, "response_critical"),
            )
        error = answer.headers.get("Nats-Service-Error-Code")
        if error is not None:
            text = " ".join(answer.headers.get("Nats-Service-Error", ()))
            result.critical(f"the service answers with an error: {' '.join(error)} {text}".strip())
        if pattern is not None:
            found = pattern.search(answer.data.decode("utf-8", "backslashreplace")) is not None
            result.require(found, "the answer matches", "the answer does not match")
        for name, value in options.match_header or ():
            has = value in answer.headers.get(name, ())
            result.require(has, f"header {name} is right", f"header {name} is not {value!r}")
        result.number("size", len(answer.data), "B")
    return finished(call, result)


def _pattern(text: str | None, flag: str) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise CommandError(f"{flag} is no regular expression: {error}", ExitCode.WRONG_USE) from None


def server(call: Call) -> int:
    """Check a server's processor, memory, connections and settings. Raises: CommandError for wrong use."""
    options = call.options
    wanted = options.name
    with checked(CheckResult("server", wanted or "server")) as result:
        varz = _varz(call, wanted)
        for name, key, unit in (
            ("cpu", "cpu", "%"),
            ("mem", "mem", "B"),
            ("conn", "connections", ""),
            ("subs", "subscriptions", ""),
        ):
            result.number(
                f"{name}_used" if name == "mem" else name,
                varz.get(key, 0),
                unit,
                warning=getattr(options, f"{name}_warn"),
                critical=getattr(options, f"{name}_critical"),
            )
        from headrace.protocol.rfc3339 import parse_time

        result.number(
            "uptime",
            round((parse_time(varz["now"]) - parse_time(varz["start"])) / 1e9, 3),
            "s",
            is_least=True,
            warning=seconds(options, "uptime_warn"),
            critical=seconds(options, "uptime_critical"),
        )
        if options.auth_required:
            is_required = bool(varz.get("auth_required"))
            result.require(is_required, "authentication is required", "authentication is not required")
        if options.tls_required:
            result.require(bool(varz.get("tls_required")), "TLS is required", "TLS is not required")
        if options.js_required:
            has = bool((varz.get("jetstream") or {}).get("config"))
            result.require(has, "JetStream is on", "JetStream is off")
        result.ok(f"{varz.get('server_name')} {varz.get('version')}")
    return finished(call, result)


def _varz(call: Call, wanted: str | None) -> dict[str, Any]:
    from headrace.client.server_sources import SystemSource

    with server_source(call) as source:
        if wanted is None and isinstance(source, SystemSource):
            wanted = source.connection.server_info.server_id
        answers = source.ask("VARZ").answers
    found = [each for each in answers if wanted is None or wanted in (each.name, each.server.get("id"))]
    if not found:
        raise CommandError(f"no server {wanted!r} answers", ExitCode.NOT_THERE)
    if len(found) > 1:
        raise CommandError("--name says which of the servers is checked", ExitCode.WRONG_USE)
    if found[0].error is not None:
        raise CommandError(found[0].error, ExitCode.REFUSED)
    return found[0].data


def credential(call: Call) -> int:
    """Check how long a credentials file is good. Raises: CommandError for wrong use."""
    options, path = call.options, chosen(call, "credential")
    with checked(CheckResult("credential", path)) as result:
        claims = _claims(path)
        expires = claims.get("exp")
        if expires is None or expires == 0:
            result.require(not options.require_expiry, "never expires", "never expires, and has to")
        else:
            left = int(expires) - time.time()
            if left <= 0:
                result.critical("has expired")
            result.number(
                "valid",
                int(left),
                "s",
                is_least=True,
                warning=seconds(options, "validity_warn"),
                critical=seconds(options, "validity_critical"),
            )
            if left > 0:
                result.ok(f"good for {int(left)} s")
        if claims.get("nbf", 0) > time.time():
            result.critical("is not good yet")
    return finished(call, result)


def _claims(path: str) -> dict[str, Any]:
    """The claims of a credentials file's JWT. Raises: CommandError."""
    from headrace.cli.client.token_claims import claims_in
    from headrace.client.address import read_credentials_file

    return claims_in(read_credentials_file(path).jwt or "", path)
