"""Accounts: the spaces of subjects that never see each other.

An account owns its interest (the compiled trie), its subject mappings and the link that passes services of
other accounts on. Which accounts there are and what they import is put together in `core.accounts`; who
belongs to which is decided by authentication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.engine.exchange import AccountLink
from headrace.engine.interest import Interest
from headrace.engine.shadows import change_imports

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.options import AccountOptions
    from headrace.core.mapping import Mappings
    from headrace.engine.link import Router


class Account:
    """One space of subjects. `connections` is how many clients act in it now.

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
        self.mappings: Mappings | None = None
        self.connections = 0
        self.failed = failed
        self.link: Final = AccountLink(router, self, options.name)
        self.link.interest = self.interest
        self._map(mappings)

    def change(self, options: AccountOptions, mappings: Mappings | None) -> None:
        """New options of the same account: what is subscribed to stays, mappings hold at once.

        Imports are put together by `core.accounts`, limits of clients are their sessions' business.
        """
        mapped_before = self.options.mappings
        self.options = options
        if options.mappings != mapped_before:
            self._map(mappings)

    def _map(self, mappings: Mappings | None) -> None:
        self.mappings = mappings
        self.interest.mapper = self._mapped if mappings else None  # forgets what was remembered of the others

    @property
    def is_full(self) -> bool:
        """Whether one more connection is too many."""
        most = self.options.limits.max_connections
        return 0 <= most <= self.connections

    def enter(self) -> None:
        """One connection more acts in it."""
        self.connections += 1

    def leave(self) -> None:
        """One connection less."""
        self.connections -= 1

    def close(self) -> None:
        """The account ends: nothing is imported any more, so that accounts do not hold each other."""
        self.link.close()
        change_imports(self.interest, ())
        self.interest.mapper = None

    def _mapped(self, subject: bytes) -> tuple[bytes, bool] | None:
        """What the engine asks once per subject: what it is delivered as, and whether that answer lasts."""
        assert self.mappings is not None
        target = self.mappings.map(subject)
        lasts = not self.mappings.is_random(subject)
        if target is None:
            return None if lasts else (subject, False)
        return target, lasts
