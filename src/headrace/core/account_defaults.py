"""Imports and mappings that every account has by itself.

Services of the system account about the account: an account can ask about itself only, since the exported
subject has its name in it. The JetStream API under its domain's name. Never lives here: the answers
(`server.system`), the API. Source: the Go server 2.15.1, which lists these exports, imports and mappings in
`/accountz` in the same way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.conf.account_options import ExportOptions, ImportOptions, SubjectMapping

if TYPE_CHECKING:
    from headrace.conf.account_options import AccountOptions

CONNECTIONS: Final = "$SYS.REQ.ACCOUNT.%s.CONNZ"
STATISTICS: Final = "$SYS.REQ.ACCOUNT.%s.STATZ"
USER: Final = "$SYS.REQ.USER.%s.INFO"
USER_HERE: Final = "$SYS.REQ.USER.INFO"
SUBSCRIBERS: Final = "$SYS.DEBUG.SUBSCRIBERS"

_ACCOUNT_TOKEN: Final = 4
_TOKEN: Final = re.compile(r"[^\s.*>]+")
_EXPORTS: Final = (
    ExportOptions(CONNECTIONS % "*", is_service=True, token_position=_ACCOUNT_TOKEN, response_type="stream"),
    ExportOptions(STATISTICS % "*", is_service=True, token_position=_ACCOUNT_TOKEN, response_type="stream"),
    ExportOptions(SUBSCRIBERS, is_service=True),
    ExportOptions(USER % "*", is_service=True, token_position=_ACCOUNT_TOKEN),
)
_LOCAL: Final = (
    (CONNECTIONS, "$SYS.REQ.ACCOUNT.PING.CONNZ"),
    (CONNECTIONS, "$SYS.REQ.SERVER.PING.CONNZ"),
    (STATISTICS, "$SYS.REQ.ACCOUNT.PING.STATZ"),
    (USER, USER_HERE),
)


def with_system_services(account: AccountOptions, system: str | None) -> AccountOptions:
    """An account with what it exports to, or imports from, the system account `system` (None: there is none).

    What the configuration imports under the same subject stays instead. An account whose name is not one
    token of a subject gets nothing: no subject could name it. Applied twice it adds nothing more.
    """
    if system is None:
        return account
    if account.name == system:
        exports = tuple(export for export in _EXPORTS if export not in account.exports)
        account = replace(account, exports=account.exports + exports)
    if _TOKEN.fullmatch(account.name) is None:
        return account
    taken = {item.local for item in account.imports if item.is_service}
    imports = tuple(item for item in _imports(account.name, system) if item.local not in taken)
    return replace(account, imports=account.imports + imports)


def _imports(name: str, system: str) -> tuple[ImportOptions, ...]:
    return tuple(
        ImportOptions(system, subject % name, local, is_service=True, share=local == USER_HERE)
        for subject, local in _LOCAL
        if name != system or local == USER_HERE
    )


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
