"""Subject mappings."""

from __future__ import annotations

import pytest
from conf_verdicts import MAPPINGS, Case, Verdict

from headrace.conf.account_options import SubjectMapping
from headrace.conf.binding import load_options
from headrace.core.mapping import Mappings


def mappings(text: str) -> tuple[SubjectMapping, ...]:
    return load_options(text=f"mappings {{ {text} }}", environ={}).mappings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("a: b", (SubjectMapping("a", "b", 100),)),
        ("a: b, c: d", (SubjectMapping("a", "b"), SubjectMapping("c", "d"))),
        ('"a.*": "b.$1"', (SubjectMapping("a.*", "b.$1"),)),
        ("a: {dest: b, weight: 10}", (SubjectMapping("a", "b", 10),)),
        ("a: [{destination: b, weight: 10%}]", (SubjectMapping("a", "b", 10),)),
        (
            'a: [{Destination: b, weight: 0}\n{dest: c, WEIGHT: "100%"}]',
            (SubjectMapping("a", "b", 0), SubjectMapping("a", "c", 100)),
        ),
        ("a: []", ()),
        ("a: {dest: b, weight: 10, cluster: east}", (SubjectMapping("a", "b", 10, "east"),)),
        (
            'a: [{dest: b, weight: 9, Cluster: x}, {dest: c, weight: 5}, {dest: d, weight: 5, cluster: ""}]',
            (
                SubjectMapping("a", "b", 9, "x"),
                SubjectMapping("a", "c", 5),
                SubjectMapping("a", "d", 5),
            ),
        ),
    ],
)
def test_mappings_in_all_forms(text: str, expected: tuple[SubjectMapping, ...]) -> None:
    assert mappings(text) == expected


@pytest.mark.parametrize(
    "case", [case for case in MAPPINGS if case.verdict is Verdict.ACCEPT], ids=lambda case: case.name
)
def test_mappings_accepted_here_can_be_made(case: Case) -> None:
    Mappings(load_options(text=case.text, environ={}).mappings)


@pytest.mark.parametrize(
    "token",
    [
        *(
            "{{wildcard(1)}}",
            "{{ Wildcard( 2 ) }}",
            "$2",
            "$x",
            "$",
            "{{partition(5)}}",
            "{{partition(5,1,2)}}",
        ),
        *("{{split(1,-)}}", "{{SplitFromLeft(1,2)}}", "{{splitFromRight(2, 2)}}", "{{sliceFromLeft(1,2)}}"),
        *("{{SliceFromRight(1,2)}}", "{{left(1,2)}}", "{{Right(2,1)}}", "{{random(9)}}", "x{{y}}", "{{}}"),
    ],
)
def test_mapping_functions_accepted_here_can_be_made(token: str) -> None:
    made = mappings(f'"a.*.*": "b.{token}"')
    assert made == (SubjectMapping("a.*.*", f"b.{token}"),)
    Mappings(made)
