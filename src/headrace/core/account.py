"""Accounts: the spaces of subjects that never see each other.

An account owns its interest (the compiled trie), its subject mappings and the link that passes services of
other accounts on. Which accounts there are and what they import is put together in `core.accounts`; who
belongs to which is decided by authentication.
"""

from __future__ import annotations

from operator import add, sub
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.engine.interest import Interest
from headrace.engine.service_imports import AccountLink
from headrace.engine.stream_imports import change_imports
from headrace.engine.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.account_options import AccountOptions
    from headrace.core.mapping import Mappings
    from headrace.engine.link import Link, Router


class Traffic(NamedTuple):
    """Messages and bytes of payload, in the server's direction: `in` is what clients sent."""

    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int


class Account:
    """One space of subjects. `connections` is how many clients act in it now, `leafnodes` how many leafs.

    `failed` hears of mistakes of ours while messages are passed on.
    """

    def __init__(
        self,
        options: AccountOptions,
        router: Router,
        failed: Callable[[Exception], None],
        mappings: Mappings | None = None,
    ) -> None:
        self.name: Final = options.name
        self.options = options
        self.interest: Final = Interest()
        self.interest.account = options.name.encode()
        self.interest.is_traced = options.trace is not None
        self.mappings: Mappings | None = None
        self.connections = 0
        self.leafnodes = 0
        self.slow_consumers = 0
        self.failed = failed
        self.link: Final = AccountLink(router, self, options.name)
        self.link.interest = self.interest
        self._links: set[Link] = set()
        self._before = Traffic(0, 0, 0, 0)  # of those that left
        self.map(mappings)

    @property
    def traffic(self) -> Traffic:
        """Messages and bytes that clients sent while they acted in it, and that were delivered to them."""
        return Traffic(*map(add, self._before, traffic(self._links)))

    def change(self, options: AccountOptions, mappings: Mappings | None) -> None:
        """New options of the same account: what is subscribed to stays, mappings hold at once.

        Imports are put together by `core.accounts`, limits of clients are their sessions' business.
        """
        mapped_before = self.options.mappings
        self.options = options
        self.interest.is_traced = options.trace is not None
        if options.mappings != mapped_before:
            self.map(mappings)

    def map(self, mappings: Mappings | None) -> None:
        """Use these mappings from the next message on."""
        self.mappings = mappings
        self.interest.mapper = self._mapped if mappings else None  # forgets what was remembered of the others

    @property
    def is_full(self) -> bool:
        """True if one more connection is too many."""
        most = self.options.limits.max_connections
        return 0 <= most <= self.connections

    def enter(self, link: Link) -> None:
        """Count one connection more in the account."""
        self.connections += 1
        self._links.add(link)
        elsewhere = traffic((link,))
        if any(elsewhere):
            self._before = Traffic(*map(sub, self._before, elsewhere))

    def leave(self, link: Link) -> None:
        """One connection less; what it did here stays counted."""
        self.connections -= 1
        self._links.remove(link)
        done = traffic((link,))
        if any(done):
            self._before = Traffic(*map(add, self._before, done))

    def sessions(self) -> list[Any]:
        """Return the sessions of the clients that act in the account, in no particular order."""
        return [link.session for link in self._links]

    def close(self) -> None:
        """The account ends: nothing is imported any more, so that accounts do not hold each other."""
        self.link.close()
        change_imports(self.interest, ())
        self.interest.mapper = None

    def _mapped(self, subject: bytes) -> tuple[bytes, bool] | None:
        """Map a subject for the engine, which asks once per subject: the subject to deliver as, and whether
        the answer may be kept.
        """
        assert self.mappings is not None
        target = self.mappings.map(subject)
        lasts = not self.mappings.is_random(subject)
        if target is None:
            return None if lasts else (subject, False)
        return target, lasts
