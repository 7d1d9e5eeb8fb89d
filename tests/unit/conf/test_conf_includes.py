"""Inclusion of files: paths, places, cycles, bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.conf.includes import MAX_INCLUDES
from headrace.conf.language import parse_file, parse_text
from headrace.conf.tree import plain
from headrace.errors import ConfigError


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    for name, text in files.items():
        path = Path(name.replace("__", "/") + ".conf")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def read(name: str) -> object:
    return plain(parse_file(name, {}))


def complaints(name: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_file(name, {})
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("form", ["./b.conf", "b.conf", "'b.conf'", '"b.conf"', "b.conf # c", "b.conf;"])
def test_include_gives_the_keys_of_the_file(form: str, directory: Path) -> None:
    write(a=f"x: 1\ninclude {form}\nz: 3", b="y: 2")
    assert read("a.conf") == {"x": 1, "y": 2, "z": 3}


def test_include_in_a_block_gives_keys_to_the_block(directory: Path) -> None:
    write(a="m { include b.conf }\nn { Include 'b.conf'; x: 1 }", b="y: 2")
    assert read("a.conf") == {"m": {"y": 2}, "n": {"y": 2, "x": 1}}


def test_include_starts_at_the_directory_of_the_including_file(directory: Path) -> None:
    write(a="include sub/b.conf", sub__b="include ./c.conf\ninclude ../d.conf", sub__c="c: 1", d="d: 2")
    assert read("a.conf") == {"c": 1, "d": 2}


def test_include_from_text_starts_at_the_working_directory(directory: Path) -> None:
    write(b="y: 2")
    assert plain(parse_text("include b.conf", {})) == {"y": 2}


def test_include_of_absolute_path_is_taken_as_it_is(directory: Path) -> None:
    write(sub__a=f"include {directory}/b.conf", b="y: 2")
    assert read("sub/a.conf") == {"y": 2}


def test_include_defines_variables_for_what_follows(directory: Path) -> None:
    write(a="include b.conf\nx: $V", b="V: 5")
    assert read("a.conf") == {"V": 5, "x": 5}


def test_include_does_not_see_variables_of_the_including_file(directory: Path) -> None:
    write(a="V: 5\ninclude b.conf", b="x: $V")
    assert complaints("a.conf")[0].startswith('b.conf:1:4: variable "V" is not defined')


def test_include_later_key_wins(directory: Path) -> None:
    write(a="x: 1\ninclude b.conf\ny: 4", b="x: 2\ny: 3")
    assert read("a.conf") == {"x": 2, "y": 4}


def test_include_of_same_file_twice_is_fine(directory: Path) -> None:
    write(a="m { include b.conf }\nn { include b.conf }", b="y: 2")
    assert read("a.conf") == {"m": {"y": 2}, "n": {"y": 2}}


def test_include_reports_mistakes_of_all_files(directory: Path) -> None:
    write(a="include b.conf\nx: .5", b="y: .5")
    assert [text.split(": ")[0] for text in complaints("a.conf")] == ["b.conf:1:4", "a.conf:2:4"]


def test_include_of_itself_is_an_error(directory: Path) -> None:
    write(a="include a.conf")
    assert complaints("a.conf") == ["a.conf:1:9: include cycle: a.conf includes itself"]


def test_include_cycle_is_an_error(directory: Path) -> None:
    write(a="include b.conf", b="include ./sub/../a.conf")
    assert complaints("a.conf") == ["b.conf:1:9: include cycle: a.conf includes itself"]


def test_include_of_missing_file_is_an_error_at_the_include(directory: Path) -> None:
    write(a="x: 1\n  include b.conf")
    assert complaints("a.conf") == ["a.conf:2:11: include: open b.conf: no such file or directory"]


def test_include_of_binary_file_is_an_error_in_that_file(directory: Path) -> None:
    write(a="include b.conf")
    Path("b.conf").write_bytes(b"x: 1\n\xff\xfe")
    assert complaints("a.conf") == ["b.conf:2:1: include: not UTF-8 text: byte 0xff"]


def test_include_chain_has_a_limit(directory: Path) -> None:
    write(**{f"f{n}": f"include f{n + 1}.conf" for n in range(40)})
    assert "too many included files" in complaints("f0.conf")[0]


def test_include_count_has_a_limit(directory: Path) -> None:
    write(a="include b.conf\n" * 11, b="include c.conf\n" * 10, c="include d.conf\n" * 10, d="x: 1")
    assert MAX_INCLUDES == 1000
    assert "too many included files" in complaints("a.conf")[0]


def test_include_junk_after_the_name_is_an_error(directory: Path) -> None:
    write(a="include b.conf c.conf", b="x: 1")
    assert "expected a new line" in complaints("a.conf")[0]
