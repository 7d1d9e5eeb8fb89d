"""Operator mode: which operators a server trusts and where the tokens of accounts are; loaded only with them.

Frozen data only. Reading it is `operator`, deciding by it `headrace.core.trust`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from headrace.conf.keys import Keyed, key
from headrace.structures import Discreet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.protocol.jwt.claims import OperatorClaims

FETCH_TIMEOUT: Final = 1.9
"""Seconds for one account's token to come; a client that needs it is refused then."""

SYNC_INTERVAL: Final = 60.0
CACHE_LIMIT: Final = 1000
"""Tokens a caching directory holds; one more removes the one used longest ago."""


class ResolverTLSOptions(Keyed, frozen=True):
    """The TLS settings of a resolver's HTTPS requests; `insecure` checks no certificate."""

    cert_file: str | None = key(None, "Certificate shown to the resolver")
    key_file: str | None = key(None, "Its private key")
    ca_file: str | None = key(None, "Authorities that the resolver's certificate is checked with")
    insecure: bool = key(False, "Do not check it")


class ResolverOptions(Keyed, frozen=True):
    """The resolver, from which tokens of accounts come.

    `kind`: "memory", "url", "full" or "cache"; the latter two have a `directory`. Seconds: `interval` between
    looks at the directories of other servers, `timeout` of a fetch, `ttl` in a cache (0.0: as long as the
    token says). `limit`: tokens in the directory, None for any number.
    """

    HIDDEN = frozenset({"url"})

    kind: str
    url: str | None = None
    directory: str | None = key(None, "The directory", name="dir")
    allow_delete: bool = key(False, "Obey `$SYS.REQ.CLAIMS.DELETE`")
    hard_delete: bool = key(False, "Remove deleted tokens instead of renaming their files")
    interval: float = key(SYNC_INTERVAL, "Time between comparisons with other servers")
    timeout: float = key(FETCH_TIMEOUT, "Time for a token to come")
    limit: int | None = key(None, "Tokens kept", "integer", shown_default="no limit; cache: 1000")
    ttl: float = key(0.0, "Time a token is kept in a cache", shown_default="as long as it is valid")
    tls: ResolverTLSOptions | None = None

    @property
    def is_writable(self) -> bool:
        return self.kind != "url"


class OperatorOptions(Discreet, frozen=True):
    """The options of operator mode.

    `trusted_keys`: of operators and their signing keys; `strict_keys`: their accounts need signing keys.

    `resolver` is None only where `trusted_keys` stand without an operator. `preload`: tokens by account.
    `pinned_accounts` None: all accounts. `default_sentinel`: the token of clients that bring none.
    """

    HIDDEN = frozenset({"operator_tokens", "preload", "default_sentinel"})

    trusted_keys: tuple[str, ...]
    strict_keys: frozenset[str] = frozenset()
    operators: tuple[OperatorClaims, ...] = ()
    operator_tokens: tuple[str, ...] = ()
    resolver: ResolverOptions | None = None
    preload: Mapping[str, str] = MappingProxyType({})
    pinned_accounts: frozenset[str] | None = None
    system_account: str | None = None
    default_sentinel: str = ""
