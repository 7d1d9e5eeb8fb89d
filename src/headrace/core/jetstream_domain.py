"""A JetStream domain's name for the API: what every account has under it, as mappings.

Here lives which subjects. Never lives here: the API. Source: the Go server 2.15.1, which lists these mappings
in `/accountz` in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.conf.account_options import SubjectMapping

if TYPE_CHECKING:
    from headrace.conf.account_options import AccountOptions

_PARTS: Final = {
    "INFO": "$JS.API.INFO",
    **{
        f"{part}.>": f"$JS.API.{part}.>"
        for part in ("STREAM", "CONSUMER", "DIRECT", "META", "SERVER", "ACCOUNT")
    },
    **{part: part for part in ("$KV.>", "$OBJ.>")},
}


def with_domain(account: AccountOptions, domain: str, system: str | None) -> AccountOptions:
    """An account where the API has its domain's name too; "" is no domain.

    What the account maps itself under such a subject stays. Applied twice it adds nothing more.
    """
    if not domain or account.name == system:
        return account
    taken = {mapping.source for mapping in account.mappings}
    mappings = tuple(
        SubjectMapping(source, subject)
        for part, subject in _PARTS.items()
        if (source := f"$JS.{domain}.API.{part}") not in taken
    )
    return replace(account, mappings=account.mappings + mappings) if mappings else account
