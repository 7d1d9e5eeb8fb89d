"""The table of the console's files, and what the page is told."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from headrace.conf.console_options import PAGES, ConsoleOptions
from headrace.console.files import INDEX, ConsoleFile, content_type_of, table
from headrace.console.settings import settings
from headrace.errors import HeadraceError
from headrace.version import __version__


def test_table_has_every_file_of_the_page_as_it_is() -> None:
    static = files("headrace.console") / "static"
    found = table()

    assert INDEX in found
    for path, file in found.items():
        assert static.joinpath(*path.split("/")).read_bytes() == file.body, path


def test_no_file_of_the_page_is_left_out() -> None:
    static = Path(str(files("headrace.console") / "static"))
    there = {path.relative_to(static).as_posix() for path in static.rglob("*") if path.is_file()}
    there = {path for path in there if not path.endswith(".d.ts")}  # for tsc, which finds them there only

    assert there == set(table()), "a file of a type that is not served (files.CONTENT_TYPES)"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("index.html", "text/html; charset=utf-8"),
        ("live.js", "text/javascript; charset=utf-8"),
        ("look.css", "text/css; charset=utf-8"),
        ("favicon.svg", "image/svg+xml"),
        ("MANIFEST", "text/plain; charset=utf-8"),
        ("page.php", None),
        ("module.py", None),
    ],
)
def test_content_type_is_that_of_the_ending(name: str, kind: str | None) -> None:
    assert content_type_of(name) == kind


def test_a_file_is_packed_where_that_saves_something() -> None:
    long, short = ConsoleFile(b"x" * 10_000, "text/css"), ConsoleFile(b"x" * 100, "text/css")

    assert long.packed is not None
    assert gzip.decompress(long.packed) == long.body
    assert len(long.packed) < 100
    assert short.packed is None


def test_tag_is_of_the_bytes() -> None:
    one, other = ConsoleFile(b"a", "text/css"), ConsoleFile(b"b", "text/css")

    assert one.etag == ConsoleFile(b"a", "text/html").etag
    assert one.etag != other.etag


def test_installation_without_a_page_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    table.cache_clear()
    monkeypatch.setattr("headrace.console.files.INDEX", "no-page.html")
    try:
        with pytest.raises(HeadraceError, match="has no page"):
            table()
    finally:
        table.cache_clear()


def test_page_is_told_the_options_and_no_secret() -> None:
    options = ConsoleOptions(
        path="/look", read_only=True, hide=("map",), pipelines="ops.p", operator_secret="hush"
    )

    text = settings(options, socket="wss://a.example/", server_name="n1")

    assert json.loads(text) == {
        "version": __version__,
        "server_name": "n1",
        "path": "/look",
        "socket": "wss://a.example/",
        "read_only": True,
        "hide": ["map"],
        "system": False,
        "pipelines": "ops.p",
        "idle_lock": 1800.0,
    }
    assert b"hush" not in text
    assert "hush" not in repr(options)


def test_pages_that_can_be_hidden_are_those_of_the_page() -> None:
    index = Path(str(files("headrace.console") / "static" / "pages" / "index.js")).read_text(encoding="utf-8")

    assert tuple(re.findall(r'\{ name: "(\w+)"', index)) == PAGES


def test_vendored_libraries_are_those_of_the_manifest() -> None:
    vendor = Path(str(files("headrace.console") / "static" / "vendor"))
    lines = (vendor / "MANIFEST").read_text(encoding="utf-8").splitlines()
    told = {name: digest for kind, digest, name in (line.split() for line in lines if line[:5] == "file ")}
    shipped = {path.name for path in vendor.iterdir() if not path.name.endswith(".d.ts")} - {"MANIFEST"}

    assert told == {name: hashlib.sha256((vendor / name).read_bytes()).hexdigest() for name in shipped}


def test_dark_palette_is_the_same_by_system_and_by_choice() -> None:
    tokens = Path(str(files("headrace.console") / "static" / "styles" / "tokens.css")).read_text(
        encoding="utf-8"
    )
    by_system, by_choice = (
        re.findall(r"--[\w-]+: [^;]+;", tokens.partition(beginning)[2].partition("}")[0])
        for beginning in (':root:not([data-theme="light"]) {', ':root[data-theme="dark"] {')
    )

    assert by_system == by_choice
    assert len(by_system) > 20
