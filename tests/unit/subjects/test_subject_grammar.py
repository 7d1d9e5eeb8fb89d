"""Subject grammar and matching, by example and against a naive oracle."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.subjects import grammar

TOKENS = st.sampled_from([b"a", b"b", b"*", b">", b"a*", b">b"])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=4).map(b".".join)
SHORT_SUBJECTS = st.lists(TOKENS, min_size=1, max_size=3).map(b".".join).filter(grammar.is_valid_subject)
WITH_EMPTY_TOKENS = st.lists(st.one_of(TOKENS, st.just(b"")), min_size=1, max_size=4).map(b".".join)
ALPHABET = (b"a", b"b", b"a*", b">b", b"z")
LITERALS = [b".".join(parts) for size in range(1, 5) for parts in itertools.product(ALPHABET, repeat=size)]


def oracle_matches(pattern: list[bytes], literal: list[bytes]) -> bool:
    """Matching by its definition, one token at a time."""
    if not pattern:
        return not literal
    if pattern == [b">"]:
        return len(literal) >= 1
    if not literal:
        return False
    return pattern[0] in (b"*", literal[0]) and oracle_matches(pattern[1:], literal[1:])


def oracle_valid(subject: list[bytes]) -> bool:
    return all(subject) and b">" not in subject[:-1]


@pytest.mark.parametrize(
    "subject",
    [
        b"a",
        b"a.b",
        b"*",
        b">",
        b"a.*.b",
        b"a.>",
        b"*.*.>",
        b"foo*",
        b"f>",
        b"a.b*.c",
        b"$SYS.x",
        "ü.é".encode(),
        b"\xff",
    ],
)
def test_is_valid_subject_well_formed_is_true(subject: bytes) -> None:
    assert grammar.is_valid_subject(subject)


@pytest.mark.parametrize(
    "subject", [b"", b".", b"a.", b".a", b"a..b", b">.a", b"a.>.b", b"a b", b"a.\t", b"a\n", b"a.\r", b"\f"]
)
def test_is_valid_subject_malformed_is_false(subject: bytes) -> None:
    assert not grammar.is_valid_subject(subject)


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (b"a", True),
        (b"a.b", True),
        (b"a*", True),
        (b"a.>b", True),
        (b"*", False),
        (b"a.*", False),
        (b"a.>", False),
        (b">", False),
        (b">.a", False),
        (b"a..b", False),
        (b"", False),
        (b"a.", False),
    ],
)
def test_is_valid_literal_is_the_pedantic_publish_rule(subject: bytes, expected: bool) -> None:
    assert grammar.is_valid_literal(subject) is expected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [(b"a.b", False), (b"a*", False), (b"f>", False), (b"*", True), (b"a.>", True), (b">.a", True)],
)
def test_has_wildcard_counts_whole_tokens_only(subject: bytes, expected: bool) -> None:
    assert grammar.has_wildcard(subject) is expected
    assert grammar.is_literal(subject) is not expected


@pytest.mark.parametrize(
    ("pattern", "literal", "expected"),
    [
        (b"a.*.c", b"a.b.c", True),
        (b"a.*.c", b"a.b.b.c", False),
        (b"a.*.c", b"a.c", False),
        (b"a.>", b"a", False),
        (b"a.>", b"a.b.c", True),
        (b">", b"a", True),
        (b"foo*", b"foobar", False),
        (b"foo*", b"foo*", True),
        (b"A", b"a", False),
        # Published wildcards are ordinary characters.
        (b"a.*", b"a.*", True),
        (b"a.>", b"a.*", True),
        (b"a.b", b"a.*", False),
        # Nobody receives a subject with an empty token.
        (b">", b"a..b", False),
        (b"a.*.b", b"a..b", False),
        (b"a..b", b"a..b", False),
        (b">", b"", False),
        (b"a.*", b"a.", False),
    ],
)
def test_matches_examples(pattern: bytes, literal: bytes, expected: bool) -> None:
    assert grammar.matches(pattern, literal) is expected


@pytest.mark.parametrize(
    ("narrow", "wide", "expected"),
    [
        (b"a", b"a", True),
        (b"a.b", b"a.*", True),
        (b"a.*", b"a.*", True),
        (b"a.*", b"a.b", False),
        (b"a.>", b"a.*", False),
        (b"a.*", b"a.>", True),
        (b"a.*.>", b"a.>", True),
        (b"a.>", b"a.*.>", False),
        (b">", b"*", False),
        (b"*", b">", True),
        (b">", b">", True),
        (b"a", b"a.>", False),
        (b"a..b", b">", False),
    ],
)
def test_is_subset_examples(narrow: bytes, wide: bytes, expected: bool) -> None:
    assert grammar.is_subset(narrow, wide) is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (b"a.*", b"*.b", True),
        (b"a.>", b"*.b", True),
        (b"a.>", b"a", False),
        (b"a.*", b"a.*.*", False),
        (b"a.b", b"a.c", False),
        (b">", b"*.*", True),
        (b"a.*.c", b"a.>", True),
        (b"a.*.c", b"*.b.d", False),
    ],
)
def test_overlaps_examples(first: bytes, second: bytes, expected: bool) -> None:
    assert grammar.overlaps(first, second) is expected
    assert grammar.overlaps(second, first) is expected


@settings(deadline=None)
@given(WITH_EMPTY_TOKENS)
def test_tokens_joined_give_the_subject_back(subject: bytes) -> None:
    assert b".".join(grammar.tokens(subject)) == subject


@settings(deadline=None)
@given(WITH_EMPTY_TOKENS)
def test_is_valid_subject_agrees_with_definition(subject: bytes) -> None:
    assert grammar.is_valid_subject(subject) is oracle_valid(subject.split(b"."))


@settings(deadline=None)
@given(SUBJECTS.filter(grammar.is_valid_subject), st.sampled_from(LITERALS))
def test_matches_agrees_with_oracle(pattern: bytes, literal: bytes) -> None:
    assert grammar.matches(pattern, literal) is oracle_matches(pattern.split(b"."), literal.split(b"."))


@settings(max_examples=60, deadline=None)
@given(SHORT_SUBJECTS, SHORT_SUBJECTS)
def test_is_subset_and_overlaps_agree_with_the_literals_matched(one: bytes, other: bytes) -> None:
    # Literals of up to four tokens, one of them in no pattern, tell apart all patterns of up to three.
    first = {literal for literal in LITERALS if oracle_matches(one.split(b"."), literal.split(b"."))}
    second = {literal for literal in LITERALS if oracle_matches(other.split(b"."), literal.split(b"."))}
    assert grammar.is_subset(one, other) is (first <= second)
    assert grammar.overlaps(one, other) is bool(first & second)
