"""Which seeds a run plays is decided in one place, and every seed is some commit's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from source_tree import ROOT

from harness.dearest import DEAREST, in_turn
from harness.depth import PARTS, VARIABLE, Choice, of_commit, read

if TYPE_CHECKING:
    from pathlib import Path

VARIABLES: Final = {VARIABLE, "HEADRACE_TEST_GNATSD", "HEADRACE_TEST_PROCESS"}
"""A binary that nobody has to have, and the mark of a process; neither says how much is played."""


@pytest.mark.parametrize("total", [PARTS, 25, 2000])
def test_parts_of_as_many_commits_are_all_seeds_once(total: int) -> None:
    played = [seed for last in range(PARTS) for seed in of_commit(f"{last + 0xABC0 * PARTS:x}").seeds(total)]

    assert played == list(range(total))


def test_a_case_without_a_seed_is_played_in_one_part() -> None:
    played = [read(f"{part}/{PARTS}").takes("test_messaging.py") for part in range(PARTS)]

    assert played.count(True) == 1
    assert read("all").takes("test_messaging.py")


def test_parts_of_the_moments_of_one_run_are_all_of_them_once() -> None:
    played = [moment for part in range(PARTS) for moment in Choice(part, PARTS).every(97)]

    assert sorted(played) == list(range(97))
    assert read("all").every(97) == range(97)
    assert read("40-59").every(97) == range(97)


def test_each_of_the_dearest_tests_has_its_turn_and_one_module() -> None:
    played = [read(f"{part}/{PARTS}").turn(DEAREST) for part in range(PARTS)]
    folders = [ROOT / "tests" / folder for folder in ("console", "docs", "spark")]
    files = [file for folder in folders for file in folder.glob("test_*.py")]
    marks = [about for file in files for about in _turns(file)]

    assert {about for each in played for about in each} == set(DEAREST)
    assert read("all").turn(DEAREST) == DEAREST
    assert sorted(marks) == sorted(DEAREST)
    with pytest.raises(ValueError, match="none of"):
        in_turn("another")


def _turns(file: Path) -> list[str]:
    return re.findall(r'in_turn\("(.*?)"\)', file.read_text())


def test_few_cases_take_turns() -> None:
    played = [read(f"{part}/{PARTS}").turn(["a", "b", "c"]) for part in range(PARTS)]

    assert played[:4] == [["a"], ["b"], ["c"], ["a"]]
    assert read("all").turn(["a", "b", "c"]) == ["a", "b", "c"]
    assert read("40-59").turn(["a", "b", "c"]) == ["a", "b", "c"]


def test_one_commit_has_the_same_seeds_everywhere() -> None:
    commit = "76bbf98d7d2d4f6ad1f6c2a0b8a8e2f4bb7c1f1e"

    assert of_commit(commit) == of_commit(commit)
    assert of_commit("").seeds(100) == range(5)


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("all", range(100)),
        ("0/10", range(10)),
        ("3/10", range(30, 40)),
        ("1/3", range(33, 66)),
        ("7-7", range(7, 8)),
    ],
)
def test_what_the_variable_asks_for_is_played(text: str, seeds: range) -> None:
    chosen = read(text)

    assert chosen.seeds(100) == seeds
    assert str(chosen) == text, "so that a run can say how to play it again"


@pytest.mark.parametrize("text", ["", "10/10", "1/0", "5", "5-4", "-1-3", "everything", "3/10 "])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=VARIABLE):
        read(text)


def test_each_part_of_few_seeds_has_one() -> None:
    played = [Choice(part, PARTS).seeds(7) for part in range(PARTS)]

    assert {len(each) for each in played} == {1}
    assert {seed for each in played for seed in each} == set(range(7))
    assert {n for part in range(PARTS) for n in Choice(part, PARTS).every(7)} == set(range(7))
    assert list(Choice(3, PARTS).every(0)) == []
    with pytest.raises(ValueError, match="no seeds"):
        Choice(0, PARTS).seeds(0)


def test_no_other_variable_says_how_much_is_played() -> None:
    named: set[str] = set()
    for file in [
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("*.md"),
        ROOT / "Makefile",
    ]:
        if file.name != "CHANGELOG.md":
            named |= set(re.findall(r"HEADRACE_TEST_[A-Z]+\b", file.read_text(encoding="utf-8")))

    assert named == VARIABLES
