"""One snapshot of a whole server, made of those of its processes.

A structure of which each process has one (`Combined`) says of each of its fields how those of all processes
are combined: by the name around the field's type, such as `Sum[int]`. A field that does not say it ends the
import, so that no field can show the figure of one process for all of them by mistake.
Never lives here: which structures there are (`source`), what comes from other processes (`aggregate`).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Annotated, TypeAlias

    T = TypeVar("T")

    Sum: TypeAlias = Annotated[T, "the total; one with a fraction has one digit"]
    Max: TypeAlias = Annotated[T, "the greatest"]
    Min: TypeAlias = Annotated[T, "the least"]
    First: TypeAlias = Annotated[T, "that of the first process: the others have the same, or are not asked"]
    Stated: TypeAlias = Annotated[T, "the first that is not None"]
    Merged: TypeAlias = Annotated[T, "structures by their fields; all members of sequences and of listings"]
    Computed: TypeAlias = Annotated[T, "by the structure's `computed`, which sees all fields"]
    Given: TypeAlias = Annotated[T, "what no process knows; `combined` is told it"]

Part = TypeVar("Part", bound="Combined")


class Combined(Struct, frozen=True):
    """A structure of which each process has one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, annotation in cls.__annotations__.items():
            if _rule(annotation) not in _RULES:
                raise TypeError(f"{cls.__name__}.{name} does not say how it is combined: {annotation}")

    @classmethod
    def computed(cls, parts: Sequence[Any]) -> dict[str, Any]:
        """The values of the `Computed` fields of all parts, by name."""
        return {}


def combined(parts: Sequence[Part], **given: object) -> Part:
    """One structure for all `parts`, of which the first is that of the first process.

    Raises: TypeError where a `Given` field is not given, or another one is.
    """
    kind = type(parts[0])
    values = kind.computed(parts)
    for name in kind.__struct_fields__:
        rule = _RULES[_rule(kind.__annotations__[name])]
        if rule is not None:
            values[name] = rule([getattr(part, name) for part in parts])
        elif name not in values and name not in given:
            raise TypeError(f"nobody says what {kind.__name__}.{name} is")
    return kind(**values, **given)


def _rule(annotation: str) -> str:
    """The name around a field's type."""
    return annotation.partition("[")[0]


def _sum(values: Sequence[Any]) -> Any:
    total = sum(values)
    return round(total, 1) if isinstance(total, float) else total


def _stated(values: Sequence[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _merged(values: Sequence[Any]) -> Any:
    """Combine structures, sequences or listings; None adds nothing."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    if isinstance(there[0], Combined):
        return combined(there)
    if callable(there[0]):
        return lambda: [member for listed in there for member in listed()]
    return tuple(chain.from_iterable(there))


_RULES: Final[dict[str, Callable[[Sequence[Any]], Any] | None]] = {
    "Sum": _sum,
    "Max": max,
    "Min": min,
    "First": lambda values: values[0],
    "Stated": _stated,
    "Merged": _merged,
    "Computed": None,
    "Given": None,
}
"""The rule of each name; None: the values come from elsewhere."""
