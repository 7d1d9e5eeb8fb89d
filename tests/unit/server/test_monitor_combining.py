"""Snapshots of several processes become one by what each field says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Struct

from headrace.server.monitor import source
from headrace.server.monitor.combining import Combined, combined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.server.monitor.combining import Computed, First, Given, Max, Merged, Min, Stated, Sum

THE_FIRST_ONE_S = {
    "ServerSnapshot": {"port", "http_port", "https_port", "websocket_port", "mqtt_port", "now_ns", "cores"},
    "ClusterSnapshot": {"port"},
    "LeafNodesSnapshot": {"port"},
    "AccountSnapshot": {"loaded_ns"},
}
"""Numbers that are no counters: the first process has the listener, or all have the same."""

SNAPSHOTS = [kind for kind in vars(source).values() if isinstance(kind, type) and issubclass(kind, Struct)]


class Inner(Combined, frozen=True):
    count: Sum[int] = 0


class Whole(Combined, frozen=True, kw_only=True):
    name: First[str] = "n"
    count: Sum[int] = 0
    share: Sum[float] = 0.0
    most: Max[int] = 0
    least: Min[int] = 0
    error: Stated[str | None] = None
    inner: Merged[Inner | None] = None
    rows: Merged[tuple[str, ...]] = ()
    listed: Merged[Callable[[], Sequence[str]]] = tuple
    processes: Given[int] = 1
    mean: Computed[float] = 0.0

    @classmethod
    def computed(cls, parts: Sequence[Whole]) -> dict[str, Any]:
        return {"mean": sum(part.count for part in parts) / len(parts)}


def test_each_rule() -> None:
    first = Whole(
        name="a", count=1, share=0.12, most=3, least=3, inner=Inner(4), rows=("x",), listed=lambda: ["p"]
    )
    second = Whole(
        name="b", count=2, share=0.13, most=5, least=5, error="no", rows=("y",), listed=lambda: ["q", "r"]
    )
    third = Whole(count=3, most=1, least=1, error="other", inner=Inner(5))

    found = combined([first, second, third], processes=3)

    assert (found.name, found.count, found.share, found.most, found.least) == ("a", 6, 0.2, 5, 1)
    assert (found.error, found.inner, found.rows) == ("no", Inner(9), ("x", "y"))
    assert list(found.listed()) == ["p", "q", "r"]
    assert (found.processes, found.mean) == (3, 2.0)


def test_of_one_it_is_the_same() -> None:
    one = Whole(name="a", count=1, inner=Inner(4), rows=("x",), mean=1.0)
    assert combined([one], processes=1).rows == one.rows
    assert combined([one], processes=1).inner == one.inner
    assert combined([Whole()], processes=1).inner is None


@pytest.mark.parametrize("annotation", ["int", "Total[int]", "tuple[Sum[int], ...]"])
def test_field_without_a_rule_ends_the_import(annotation: str) -> None:
    with pytest.raises(TypeError, match="dropped does not say how it is combined"):
        type(Combined)(
            "Counters", (Combined,), {"__annotations__": {"sent": "Sum[int]", "dropped": annotation}}
        )


def test_what_nobody_says_is_missed() -> None:
    with pytest.raises(TypeError, match="nobody says what"):
        combined([Whole(), Whole()])
    with pytest.raises(TypeError):
        combined([Whole()], processes=1, count=7)


@pytest.mark.parametrize(
    "kind", [source.ServerSnapshot, source.AccountSnapshot, source.SublistSnapshot, source.HealthSnapshot]
)
def test_what_a_source_says_of_the_whole_server_is_combined(kind: type[Struct]) -> None:
    assert issubclass(kind, Combined)


@pytest.mark.parametrize("kind", [kind for kind in SNAPSHOTS if issubclass(kind, Combined)])
def test_counter_of_one_process_is_not_shown_for_all(kind: type[Combined]) -> None:
    first_ones = {
        name
        for name, annotation in kind.__annotations__.items()
        if annotation in ("First[int]", "First[float]")
    }
    assert first_ones == THE_FIRST_ONE_S.get(kind.__name__, set())


@pytest.mark.parametrize("kind", [kind for kind in SNAPSHOTS if issubclass(kind, Combined)])
def test_structures_within_are_combined_by_their_own_fields(kind: type[Combined]) -> None:
    for name, annotation in kind.__annotations__.items():
        rule, _, inner = annotation.partition("[")
        if rule == "Merged" and not inner.startswith(("tuple[", "Callable[")):
            assert issubclass(getattr(source, inner.removesuffix("]").removesuffix(" | None")), Combined), (
                name
            )
