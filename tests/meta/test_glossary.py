"""Every module has a name that a newcomer knows: plain English, or a word of docs/glossary.md.

`plain_words.txt` has the plain words. A word belongs there if a beginner's dictionary or a first book on
programming has it with the meaning it has here; any other word is explained in the glossary, or is not used.
"""

from __future__ import annotations

import re
from typing import Final

import pytest
from source_tree import ROOT, SRC, modules

PLAIN: Final = frozenset(
    word
    for line in (ROOT / "tests/meta/plain_words.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
    for word in line.split()
)
ENTRIES: Final = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| Word |")
]
TERMS: Final = frozenset(
    term.strip().lower().replace("-", " ") for entry in ENTRIES for term in entry[0].split(",")
)
_ENDINGS: Final = ("", "s", "es")
"""A name may be the plural of a word."""


def _is_one_of(words: frozenset[str], name: str) -> bool:
    singular = (name.removesuffix(ending) for ending in _ENDINGS)
    return any(form in words for form in singular) or f"{name.removesuffix('ies')}y" in words


def is_known(name: str, terms: frozenset[str] = TERMS) -> bool:
    """True if a module's name is a term of the glossary, or made of such terms and of plain words."""
    words = name.strip("_").split("_")
    return _is_one_of(terms, " ".join(words)) or all(
        _is_one_of(terms, word) or _is_one_of(PLAIN, word) for word in words
    )


def test_modules_have_names_that_are_known() -> None:
    unknown = {
        module.relative: part
        for module in modules()
        for part in module.name.split(".")[1:]
        if not is_known(part)
    }

    assert not unknown, "neither in docs/glossary.md nor in tests/meta/plain_words.txt"


@pytest.mark.parametrize("name", ["outlooks", "holdings", "begun", "twins", "apologies", "far", "rivals"])
def test_a_riddle_is_not_known(name: str) -> None:
    assert not is_known(name)


@pytest.mark.parametrize(
    "name", ["sparse_index", "subject_index", "dead_letters", "advisories", "anti_entropy"]
)
def test_a_term_of_the_glossary_is_known(name: str) -> None:
    assert is_known(name)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[0])
def test_entry_is_whole_and_its_places_exist(entry: list[str]) -> None:
    term, meaning, where = entry
    places = re.findall(r"`([\w/]+)`", where)

    assert term
    assert meaning.endswith(".")
    assert places
    assert not [place for place in places if not any((SRC / "headrace").glob(f"{place}*"))]


def test_no_term_is_explained_twice() -> None:
    listed = [term.strip().lower() for entry in ENTRIES for term in entry[0].split(",")]

    assert len(listed) == len(set(listed))


def test_plain_words_are_used() -> None:
    """A list that only grows would one day let riddles in."""
    used = {
        form
        for module in modules()
        for part in module.name.split(".")
        for word in part.strip("_").split("_")
        for form in (word, word.removesuffix("s"), word.removesuffix("es"), f"{word.removesuffix('ies')}y")
    }

    assert not PLAIN - used
