"""The claims of a token as it stands in a file: shown as they are, whoever signed them.

Never lives here: whether they are right (`protocol.jwt`).
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from typing import Any

from headrace.cli.outcomes import CommandError, ExitCode
from headrace.protocol.jwt.reading import parse_object

_SECOND_NS = 1_000_000_000


def claims_in(token: str, where: str) -> dict[str, Any]:
    """Return the claims of a token; its signature is the server's matter. Raises: CommandError."""
    parts = token.split(".")
    try:
        return dict(parse_object(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))))
    except (IndexError, ValueError):
        raise CommandError(f"{where} has no JWT", ExitCode.NO_CONNECTION) from None


def claims_summary(claims: dict[str, Any]) -> dict[str, str]:
    """Return who a user's token is about, and its dates; what it does not say is absent."""
    nats = claims.get("nats")
    account = nats.get("issuer_account") if isinstance(nats, dict) else None
    found = {
        "name": claims.get("name"),
        "user": claims.get("sub"),
        "account": account or claims.get("iss"),
        "issuer": claims.get("iss"),
        "issued": _time(claims.get("iat")),
        "not_before": _time(claims.get("nbf")),
        "expires": _time(claims.get("exp")),
    }
    return {name: str(value) for name, value in found.items() if value}


def _time(seconds: object) -> str | None:
    """A date of a token in RFC 3339; None for none, and for what is no date."""
    from headrace.cli.values import exact_time

    if not isinstance(seconds, int) or not 0 < seconds < 1 << 33:
        return None
    return exact_time(seconds * _SECOND_NS)
