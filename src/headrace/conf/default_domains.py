"""`default_js_domain`: accounts without JetStream, whose clients use another server's and name no domain.

Here lives what the key becomes: subject mappings of these accounts; for an empty domain there is nothing to
map, and links of leaf nodes carry the API as it is. Never lives here: reading the key.
Source: the Go server 2.15.1, compared by what its accounts map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.conf.account_options import DEFAULT_SYSTEM_ACCOUNT, GLOBAL_ACCOUNT, SubjectMapping
from headrace.conf.names import is_account_nkey, is_valid_subject
from headrace.conf.problems import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.conf.account_options import AccountOptions

_API: Final = tuple(
    f"$JS.API.{part}"
    for part in ("INFO", "STREAM.>", "CONSUMER.>", "DIRECT.>", "META.>", "SERVER.>", "ACCOUNT.>")
)
_VIEWS: Final = ("$KV.>", "$OBJ.>")


def domain_mappings(domain: str) -> tuple[SubjectMapping, ...]:
    """Return the mappings from requests of JetStream's API to those of a domain."""
    prefix = f"$JS.{domain}.API"
    api = [SubjectMapping(subject, subject.replace("$JS.API", prefix, 1)) for subject in _API]
    return (*api, *(SubjectMapping(subject, f"{prefix}.{subject}") for subject in _VIEWS))


def domain_problems(
    domains: Mapping[str, str],
    accounts: tuple[AccountOptions, ...],
    system: str | None,
    *,
    has_operator: bool,
) -> Iterator[str]:
    """Yield the errors of default domains, which nats-server refuses too.

    An account without JetStream, or an empty domain, is right.
    """
    known = {account.name: account for account in accounts}
    for name, domain in domains.items():
        if name == (system or DEFAULT_SYSTEM_ACCOUNT):
            yield f"system account {shown(name)} can not be in default_js_domain"
        elif has_operator:
            if not is_account_nkey(name):
                why = "which is not a valid public account nkey"
                yield f"default_js_domain contains account name {shown(name)}, {why}"
        elif name != GLOBAL_ACCOUNT and name not in known:
            yield f"default_js_domain references non existing account {shown(name)}"
        elif domain and name in known and known[name].jetstream is not None:
            yield f"default_js_domain contains account name {shown(name)} with enabled JetStream"
        if domain and not is_valid_subject(f"$JS.{domain}.API.>"):
            yield f"default_js_domain contains account {shown(name)} with invalid domain name {shown(domain)}"


def with_domains(
    accounts: tuple[AccountOptions, ...], domains: Mapping[str, str]
) -> tuple[AccountOptions, ...]:
    """The accounts with the mappings of their domains, where they map nothing of their own."""
    return tuple(
        replace(account, mappings=joined(account.mappings, domains.get(account.name, "")))
        for account in accounts
    )


def joined(own: tuple[SubjectMapping, ...], domain: str) -> tuple[SubjectMapping, ...]:
    """Mappings with those of a domain, where there is one."""
    if not domain:
        return own
    taken = {mapping.source for mapping in own}
    return own + tuple(mapping for mapping in domain_mappings(domain) if mapping.source not in taken)
