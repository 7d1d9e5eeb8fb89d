"""Additions to structures (`msgspec.Struct`): fields that are not shown, and defaults by name.

Here lives the `repr` of a structure with secrets. Never lives here: what is a secret; each structure says
that of its own fields.
"""

from __future__ import annotations

from msgspec import NODEFAULT, Struct


class Discreet(Struct, frozen=True):
    """A structure whose `repr` leaves out the fields named in `HIDDEN`: secrets, and what is too long."""

    HIDDEN = frozenset[str]()

    def __repr__(self) -> str:
        shown = (
            f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in self.HIDDEN
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def hidden_in(struct: Struct) -> frozenset[str]:
    """The names of the fields that may not be shown."""
    return struct.HIDDEN if isinstance(struct, Discreet) else frozenset()


def defaults_of(kind: type[Struct]) -> dict[str, object]:
    """The defaults of the fields that have one, by name."""
    found = {}
    for name, default in zip(
        reversed(kind.__struct_fields__), reversed(kind.__struct_defaults__), strict=False
    ):
        if default is not NODEFAULT:
            make = getattr(default, "factory", None)  # of a default that each structure gets anew
            found[name] = default if make is None else make()
    return found
