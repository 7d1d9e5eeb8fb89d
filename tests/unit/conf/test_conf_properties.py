"""Properties that hold for any text: it is read or refused, and JSON is read as JSON."""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.conf.binding import load_options
from headrace.conf.digest import config_digest
from headrace.conf.language import parse_text
from headrace.conf.options import Options
from headrace.conf.tree import plain
from headrace.errors import ConfigError

FRAGMENTS = [
    *(
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ":",
        "=",
        ",",
        ";",
        "\n",
        " ",
        "\t",
        "\r\n",
        "#",
        "//",
        '"',
        "'",
        "\\",
        "$",
    ),
    *(
        "\n)\n",
        "(\n",
        "a",
        "port",
        "include ",
        "true",
        "1",
        "-1",
        "1.5",
        "1kb",
        "12-",
        "1e5",
        "$x",
        "$2a$",
        "é",
    ),
    *(
        "authorization",
        "users",
        "permissions",
        "publish",
        "tls",
        "mappings",
        "jetstream",
        "allow",
        "user",
        "a.*",
    ),
    *('"\\u00e9"', "'s'", "\ufeff", "\u2028", "\x1c", "x: $x", "listen: ", "max_payload: "),
]
SOUP = st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join)
ENVIRON = {"x": "[$a, {b: $port}]", "a": "$x", "port": "'5'"}

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = NUMBERS | st.booleans() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
KEYS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
DOCUMENTS = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=12,
    ),
    max_size=4,
)


@settings(deadline=None)
@given(SOUP | st.text(max_size=200))
@example('include "\r\n"')
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        root = parse_text(text, ENVIRON)
    except ConfigError as error:
        complaints = [str(problem) for problem in error.problems]
    else:
        complaints = []
        plain(root)
        assert config_digest(root).startswith("sha256:")
    assert not any("\n" in complaint for complaint in complaints)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ConfigError):
        parse_text(data, {})


@settings(deadline=None)
@given(SOUP)
def test_any_text_gives_options_or_is_refused(text: str) -> None:
    with suppress(ConfigError):
        assert isinstance(load_options(text=text, environ=ENVIRON), Options)


@settings(deadline=None)
@given(DOCUMENTS, st.sampled_from([None, 0, 2]), st.booleans())
def test_any_json_object_is_a_configuration(
    document: dict[str, object], indent: int | None, ascii_: bool
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_)
    assert plain(parse_text(text, {})) == json.loads(text)


@settings(deadline=None)
@given(DOCUMENTS)
def test_any_json_layout_is_read(document: dict[str, object]) -> None:
    # New lines wherever JSON lets them stand; strings hold none unescaped.
    text = json.dumps(document, separators=("\n,\n", "\n:\n"))
    assert plain(parse_text(text, {})) == document
