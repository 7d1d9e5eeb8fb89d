"""Accounts: the spaces of subjects that never see each other.

For now there is one, `$G`; an account owns its interest (the compiled trie) and its subject mappings.
Who belongs to which account is decided by authentication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.engine.interest import Interest

if TYPE_CHECKING:
    from headrace.core.mapping import Mappings

GLOBAL_ACCOUNT: Final = "$G"


class Account:
    """One space of subjects."""

    def __init__(self, name: str, mappings: Mappings | None = None) -> None:
        self.name = name
        self.interest = Interest()
        self.mappings = mappings
        if mappings:
            self.interest.mapper = self._mapped

    def _mapped(self, subject: bytes) -> tuple[bytes, bool] | None:
        """What the engine asks once per subject: what it is delivered as, and whether that answer lasts."""
        assert self.mappings is not None
        target = self.mappings.map(subject)
        lasts = not self.mappings.is_random(subject)
        if target is None:
            return None if lasts else (subject, False)
        return target, lasts
