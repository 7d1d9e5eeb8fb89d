"""Subject transforms: every function, by examples whose results the Go server gave, and every error."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.subjects.transform import SubjectTransform, TransformError, fnv1a


def rewrite(source: str, destination: str, subject: str) -> str | None:
    result = SubjectTransform(source.encode(), destination.encode()).match(subject.encode())
    return None if result is None else result.decode()


@pytest.mark.parametrize(
    ("source", "destination", "subject", "expected"),
    [
        ("a", "b", "a", "b"),
        ("a", "b", "c", None),
        ("a.*.*", "b.$2.$1", "a.1.2", "b.2.1"),
        ("a.*.*", "b.$2.$1", "a.1", None),
        ("a.*.*", "b.$2.$1", "a.*.>", None),
        ("a.*.*", "b.$2.$1", "a.*.x", "b.x.*"),
        ("a.*.*", "b", "a..x", None),
        ("a.*.*", "b.{{wildcard(2)}}.{{ Wildcard( 1 ) }}.x", "a.1.2", "b.2.1.x"),
        ("a.>", "b.>", "a.1.2", "b.1.2"),
        ("a.*.>", "b.$1.>", "a.1.2.3", "b.1.2.3"),
        (">", "x.>", "a.b", "x.a.b"),
        (">", ">", "a.b", "a.b"),
        ("a.*", "b.$x.$", "a.1", "b.$x.$"),
        ("*", "x{{wildcard(1)}}y", "b", "x{{wildcard(1)}}y"),
        ("*", "{{wildcard(1)}}", "b", "b"),
        ("*", "x.{{}}", "b", "x.{{}}"),
        ("*.*", "x.$2", "1.2", "x.2"),
        ("*.*", "p.{{partition(7,1,2)}}.{{wildcard(1)}}", "a.b", "p.2.a"),
        ("*.*", "p.{{partition(7,1,2)}}", "ab.c", "p.5"),
        ("*.*", "p.{{partition(7,1,2)}}", "foo.bar", "p.0"),
        ("*.*", "p.{{Partition(7, 1, 2)}}", "x.y", "p.4"),
        ("*.*", "p.{{partition(7)}}", "a.b", "p.5"),
        ("*.*", "p.{{partition(7)}}", "ab.c", "p.1"),
        ("*.*", "p.{{partition(7)}}", "foo.bar", "p.3"),
        ("a", "p.{{partition(3)}}", "a", "p.1"),
        ("*.*", "p.{{partition(0,1)}}.{{random(0)}}", "a.b", "p.0.0"),
        ("*", "x.{{SplitFromLeft(1,3)}}", "abcdef", "x.abc.def"),
        ("*", "x.{{splitFromLeft(1,3)}}", "abc", "x.abc"),
        ("*", "x.{{splitFromRight(1, 2)}}.y", "abcdef", "x.abcd.ef.y"),
        ("*", "x.{{splitfromright(1, 2)}}.y", "a", "x.a.y"),
        ("*", "x.{{SliceFromLeft(1,3)}}", "abcdefgh", "x.abc.def.gh"),
        ("*", "x.{{SliceFromLeft(1,3)}}", "abcdef", "x.abc.def"),
        ("*", "x.{{SliceFromLeft(1,3)}}", "abc", "x.abc"),
        ("*", "x.{{sliceFromRight(1,3)}}", "abcdefgh", "x.ab.cde.fgh"),
        ("*", "x.{{sliceFromRight(1,3)}}", "abcdef", "x.abc.def"),
        ("*", "x.{{split(1,-)}}", "a-b-c", "x.a.b.c"),
        ("*", "x.{{split(1,-)}}", "-a-b", "x.a.b"),
        ("*", "x.{{split(1,-)}}", "a--b", "x.a.b"),
        ("*", "x.{{split(1,-)}}", "a-b-", "x.a.b"),
        ("*", "x.{{split(1, -)}}", "a-b", "x.a.b"),
        ("*", "x.{{split(1,--)}}", "a--b---c", "x.a.b.-c"),
        ("*", "x.{{split(1,)}}", "abc", "x.a.b.c"),
        ("*", "x.{{left(1,2)}}.{{right(1,2)}}", "abcdef", "x.ab.ef"),
        ("*", "x.{{Left(1,2)}}.{{Right(1,2)}}", "ab", "x.ab.ab"),
        ("*", "x.{{left(1,0)}}.{{right(1,-1)}}", "abcdef", "x.abcdef.abcdef"),
    ],
)
def test_match_rewrites_as_the_go_server(
    source: str, destination: str, subject: str, expected: str | None
) -> None:
    assert rewrite(source, destination, subject) == expected


@pytest.mark.parametrize(
    ("source", "destination", "problem"),
    [
        ("a..b", "x", "invalid subject"),
        ("a.>", "b", "invalid subject"),
        ("a", "b.>", "invalid subject"),
        ("a.*", "b.*", "invalid subject"),
        ("a", "x..y", "invalid mapping destination: invalid transform"),
        ("a", "", "invalid mapping destination: invalid transform"),
        ("a", "x y", "invalid mapping destination: invalid transform"),
        (">", ">.a", "invalid mapping destination: invalid transform"),
        ("a.*", "b.$2", "wildcard index out of range in $2: [2]"),
        ("a.*", "b.{{wildcard(2)}}", "wildcard index out of range in {{wildcard(2)}}: [2]"),
        ("a.*", "b.{{wildcard(0)}}", "wildcard index out of range in {{wildcard(0)}}: [0]"),
        ("a.*", "b.$-1", "wildcard index out of range in $-1: [-1]"),
        ("a", "b.$1", "wildcard index out of range in $1"),
        ("*.*", "p.{{partition(7,1,5)}}", "wildcard index out of range in {{partition(7,1,5)}}: [5]"),
        ("a.*", "b.{{foo(2)}}", "unknown function in {{foo(2)}}"),
        ("a.*", "b.{{wildcard}}", "unknown function in {{wildcard}}"),
        ("a.*", "b.{{WILDCARD(1)}}", "unknown function in {{WILDCARD(1)}}"),
        ("a.*", "b.{{wildcard()}}", "not enough arguments passed to the function in {{wildcard()}}"),
        ("a.*", "b.{{wildcard(1,2)}}", "too many arguments passed to the function in {{wildcard(1,2)}}"),
        ("a.*", "b.{{split(1)}}", "not enough arguments passed to the function in {{split(1)}}"),
        ("a.*", "b.{{left(1)}}", "not enough arguments passed to the function in {{left(1)}}"),
        ("a.*", "b.{{left(1,2,3)}}", "too many arguments passed to the function in {{left(1,2,3)}}"),
        ("a.*", "b.{{wildcard(x)}}", "function argument is invalid or in the wrong format"),
        ("a.*", "b.{{random()}}", "function argument is invalid or in the wrong format"),
        ("a.*", "b.{{random(-1)}}", "function argument is invalid or in the wrong format"),
        ("a.*", "b.{{partition()}}", "function argument is invalid or in the wrong format"),
        ("a.*", "b.{{partition(-3,1)}}", "function argument is invalid or in the wrong format"),
        ("a.*", "b.{{partition(99999999999,1)}}", "function argument is invalid or in the wrong format"),
        ("a.*", "b.{{left(1,99999999999)}}", "function argument is invalid or in the wrong format"),
        ("a.*", "b.{{split(1,a b)}}", "function argument is invalid or in the wrong format"),
        ("*", "{{wildcard(1)}}{{wildcard(1)}}", "function argument is invalid or in the wrong format"),
    ],
)
def test_transform_malformed_says_what_is_wrong(source: str, destination: str, problem: str) -> None:
    with pytest.raises(TransformError) as raised:
        SubjectTransform(source.encode(), destination.encode())
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_random_uses_the_injected_source_and_is_marked_random() -> None:
    asked: list[int] = []

    def draw(below: int) -> int:
        asked.append(below)
        return below - 1

    transform = SubjectTransform(b"a.*", b"b.{{random(5)}}.$1", draw)
    assert transform.is_random
    assert transform.match(b"a.x") == b"b.4.x"
    assert asked == [5]
    assert not SubjectTransform(b"a.*", b"b.$1").is_random


@pytest.mark.parametrize(
    ("data", "expected"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)]
)
def test_fnv1a_published_vectors_agree(data: bytes, expected: int) -> None:
    assert fnv1a(data) == expected


CALLS = st.from_regex(
    r"\{\{ ?(wildcard|partition|split|left|sliceFromRight|random)\([0-9,\- a]{0,6}\)\}\}", fullmatch=True
)
DESTINATIONS = st.lists(
    st.one_of(CALLS, st.sampled_from(["a", "$1", "$2", "$x", ">", "*", "{{", "{{}}", ""])),
    min_size=1,
    max_size=4,
).map(".".join)


@settings(deadline=None)
@given(
    st.sampled_from(["a", "*", "*.*", "a.*.>", ">"]),
    DESTINATIONS,
    st.text("ab-ü*>.", min_size=1, max_size=8),
)
def test_transform_any_destination_is_refused_in_one_line_or_rewrites(
    source: str, destination: str, subject: str
) -> None:
    problem = ""
    try:
        SubjectTransform(source.encode(), destination.encode()).match(subject.encode())
    except TransformError as error:
        problem = str(error)
    assert "\n" not in problem
