"""Imported subjects: both names of a message lead to each other; parts are neither too wide nor narrow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.subjects import grammar
from headrace.subjects.imports import BadImport, ImportedSubject, SingleSubject, intersection

LITERAL = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda t: ".".join(t).encode())


@st.composite
def patterns(draw: st.DrawFn) -> bytes:
    tokens = draw(st.lists(st.sampled_from("abc**"), min_size=1, max_size=4))
    return ".".join([*tokens, ">"] if draw(st.booleans()) else tokens).encode()


@st.composite
def imports(draw: st.DrawFn) -> ImportedSubject:
    """Any exported pattern, and a local one with the same wildcards in any order among other tokens."""
    exported = draw(patterns())
    tokens = grammar.tokens(exported)
    wildcards = [b"$%d" % (n + 1) for n in range(tokens.count(b"*"))]
    local = draw(st.permutations([*wildcards, *draw(st.lists(st.sampled_from([b"x", b"y"]), max_size=2))]))
    if tokens[-1] == b">":
        local = [*local, b">"]
    return ImportedSubject(exported, b".".join(local or [b"x"]))


@given(imports(), LITERAL)
def test_translation_there_and_back(pair: ImportedSubject, subject: bytes) -> None:
    if grammar.matches(pair.exported, subject):
        local = pair.to_local(subject)
        assert grammar.matches(pair.local, local)
        assert pair.to_exported(local) == subject


@given(imports(), patterns(), LITERAL)
def test_wanted_part_is_what_the_subscription_would_match(
    pair: ImportedSubject, subscription: bytes, subject: bytes
) -> None:
    if not grammar.matches(pair.exported, subject):
        return
    wanted = pair.wanted_by(subscription)
    is_wanted = wanted is not None and grammar.matches(wanted, subject)
    assert is_wanted == grammar.matches(subscription, pair.to_local(subject))


@given(patterns(), patterns(), LITERAL)
def test_intersection_matches_what_both_match(first: bytes, second: bytes, subject: bytes) -> None:
    common = intersection(first, second)
    is_common = common is not None and grammar.matches(common, subject)
    assert is_common == (grammar.matches(first, subject) and grammar.matches(second, subject))


@pytest.mark.parametrize(
    ("exported", "local", "complaint"),
    [
        (b"a.*", b"b", "not using all of the token wildcard"),
        (b"a.*", b"b.$2", "out of range"),
        (b"a.*", b"b.$0", "out of range"),
        (b"a.*", b"b.$1.$1", "used twice"),
        (b"a.*", b"b.{{partition(3,1)}}", "the only mapping function"),
        (b"a.>", b"b", "invalid subject"),
        (b"a", b"b.>", "invalid subject"),
        (b"a..b", b"c", "invalid subject"),
        (b"a", b"b..c", "invalid subject"),
        (b"a", b"", "invalid subject"),
    ],
)
def test_pair_that_does_not_fit_is_refused(exported: bytes, local: bytes, complaint: str) -> None:
    with pytest.raises(BadImport, match=complaint.replace("(", r"\(")):
        ImportedSubject(exported, local)


def test_forms_of_a_wildcard() -> None:
    for local in (b"x.$2.$1", b"x.{{wildcard(2)}}.{{ Wildcard( 1 ) }}".replace(b" ", b"")):
        assert ImportedSubject(b"a.*.*", local).to_local(b"a.1.2") == b"x.2.1"
    assert ImportedSubject(b"a.*.*", b"x.*.*").to_local(b"a.1.2") == b"x.1.2"


def test_single_subject_takes_all_that_a_pattern_matches() -> None:
    pair = SingleSubject(b"svc.one", b"my.*.>")
    assert (pair.exported, pair.local) == (b"svc.one", b"my.*.>")
    assert pair.to_exported(b"my.a.b") == b"svc.one"


@pytest.mark.parametrize("local", [b"a..*", b"*.>.b", b"*.$1", b"*.{{wildcard(1)}}", b"*.{{split(1,a)}}"])
def test_pattern_for_a_single_subject_must_be_one(local: bytes) -> None:
    with pytest.raises(BadImport, match="invalid"):
        SingleSubject(b"svc", local)
