"""Subject mappings: choice by specificity and weight, and every configuration mistake."""

from __future__ import annotations

from collections import Counter

import pytest

from headrace.conf.account_options import SubjectMapping
from headrace.core.mapping import LOST, Mappings
from headrace.errors import ConfigError


def mappings(*entries: tuple[str, str] | tuple[str, str, int]) -> Mappings:
    """Mappings whose draws go 0, 1, … 99 and around, so that weights come out exactly."""
    draws = iter(range(1_000_000))
    return Mappings([SubjectMapping(*entry) for entry in entries], lambda below: next(draws) % below)


def spread(mapping: Mappings, subject: bytes) -> Counter[bytes | None]:
    return Counter(mapping.map(subject) for _ in range(100))


def test_map_no_mapping_applies_gives_none() -> None:
    mapping = mappings(("a", "b"))
    assert mapping.map(b"x") is None
    assert not mapping.is_random(b"x")


def test_mappings_without_entries_are_falsy() -> None:
    assert not mappings()
    assert mappings(("a", "b"))


def test_map_rewrites_wildcards() -> None:
    assert mappings(("old.*", "new.$1")).map(b"old.x") == b"new.x"


def test_map_result_is_not_mapped_again() -> None:
    assert mappings(("a", "b"), ("b", "c")).map(b"a") == b"b"


@pytest.mark.parametrize("order", [1, -1])
def test_map_several_match_most_specific_wins_whatever_the_order(order: int) -> None:
    entries = [("a.>", "tail.>"), ("a.*", "star.$1"), ("a.b", "literal"), ("*.b", "late.$1"), (">", "all.>")]
    mapping = mappings(*entries[::order])
    assert mapping.map(b"a.b") == b"literal"
    assert mapping.map(b"a.c") == b"star.c"
    assert mapping.map(b"a.c.d") == b"tail.c.d"
    assert mapping.map(b"x.b") == b"late.x"
    assert mapping.map(b"x.y") == b"all.x.y"


def test_map_weights_share_the_messages() -> None:
    mapping = mappings(("a", "b", 50), ("a", "c", 30), ("a", "d", 20))
    assert spread(mapping, b"a") == {b"b": 50, b"c": 30, b"d": 20}
    assert mapping.is_random(b"a")


def test_map_weights_below_hundred_leave_the_rest_unmapped() -> None:
    assert spread(mappings(("a.*", "b.$1", 20)), b"a.1") == {b"b.1": 20, b"a.1": 80}


def test_map_weights_below_hundred_with_the_source_listed_lose_the_rest() -> None:
    assert spread(mappings(("a", "b", 20), ("a", "a", 30)), b"a") == {b"b": 20, b"a": 30, LOST: 50}


def test_map_weight_zero_is_never_chosen() -> None:
    assert spread(mappings(("a", "b", 0)), b"a") == {b"a": 100}
    assert spread(mappings(("a", "b", 0), ("a", "c", 100)), b"a") == {b"c": 100}


def test_map_all_lost_gives_lost_without_chance() -> None:
    mapping = mappings(("a", "a", 0))
    assert mapping.map(b"a") == LOST
    assert not mapping.is_random(b"a")


def in_cluster(cluster: str, *entries: tuple[str, str, int, str]) -> Mappings:
    draws = iter(range(1_000_000))
    return Mappings(
        [SubjectMapping(*entry) for entry in entries], lambda below: next(draws) % below, cluster=cluster
    )


def test_map_destinations_of_the_own_cluster_hold_else_those_of_none() -> None:
    entries = (("a", "b", 100, ""), ("a", "e", 100, "east"), ("a", "w", 60, "west"), ("a", "v", 30, "west"))
    assert spread(in_cluster("", *entries), b"a") == {b"b": 100}
    assert spread(in_cluster("north", *entries), b"a") == {b"b": 100}
    assert spread(in_cluster("east", *entries), b"a") == {b"e": 100}
    assert spread(in_cluster("west", *entries), b"a") == {b"w": 60, b"v": 30, b"a": 10}
    assert not in_cluster("east", *entries).is_random(b"a")
    assert in_cluster("west", *entries).is_random(b"a")


def test_map_with_destinations_of_other_clusters_only_leaves_the_subject() -> None:
    assert in_cluster("west", ("a.*", "e.$1", 50, "east")).map(b"a.1") == b"a.1"


def test_map_source_listed_for_one_cluster_means_loss_in_all_of_them() -> None:
    """As in the Go server."""
    entries = (("a", "a", 30, "east"), ("a", "w", 60, "west"))
    assert spread(in_cluster("east", *entries), b"a") == {b"a": 30, LOST: 70}
    assert spread(in_cluster("west", *entries), b"a") == {b"w": 60, LOST: 40}
    assert spread(in_cluster("", *entries), b"a") == {LOST: 100}


def test_is_random_only_where_chance_decides() -> None:
    mapping = mappings(("a", "b"), ("r.*", "x.{{random(3)}}"), ("w", "x", 50))
    assert not mapping.is_random(b"a")
    assert mapping.is_random(b"r.1")
    assert mapping.is_random(b"w")


def test_map_published_wildcard_is_mapped_only_within_the_source() -> None:
    mapping = mappings(("a.*", "b.$1"))
    assert mapping.map(b"a.*") == b"b.*"
    assert mapping.map(b"a.>") is None
    assert mapping.map(b"a..") is None


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([("a..b", "x")], 'Subject "a..b" is not a valid subject'),
        ([("a.*", "b.$2")], 'Error adding mapping for "a.*" to "b.$2" : invalid mapping destination: '),
        ([("a", "b", 60), ("a", "c", 60)], 'Error adding mapping for "a" : total weight needs to be <= 100'),
        (
            [("a", "b", 60, "x"), ("a", "c", 60, "x"), ("a", "d", 10)],
            'Error adding mapping for "a" : total weight needs to be <= 100',
        ),
        (
            [("a", "b", 50, "x"), ("a", "b", 30, "y")],
            'Error adding mapping for "a" : duplicate entry for "b"',
        ),
        ([("a", "b", 50), ("a", "b", 30)], 'Error adding mapping for "a" : duplicate entry for "b"'),
        ([("a", "b", 101)], "Invalid weight 101 for mapping destination"),
        ([("a", "b", -1)], "Invalid weight -1 for mapping destination"),
    ],
)
def test_mappings_mistake_is_a_config_error(entries: list[tuple[str, str]], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        mappings(*entries)
    assert problem in str(raised.value)


def test_mappings_mistakes_are_reported_together() -> None:
    with pytest.raises(ConfigError) as raised:
        mappings(("a..b", "x"), ("c", "d..e"))
    assert len(raised.value.problems) == 2
