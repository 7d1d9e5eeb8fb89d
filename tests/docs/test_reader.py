"""The reader of documents notices what does not happen as it is shown."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

import pytest

from harness.documents import Reader, assert_shown, blocks, commands

if TYPE_CHECKING:
    from pathlib import Path


def read(folder: Path, *parts: tuple[str, str]) -> None:
    document = "\n".join(f"Text.\n\n```{language}\n{text}```" for language, text in parts)
    with Reader(folder) as reader:
        reader.read(document)


def test_blocks_have_their_language_name_and_line() -> None:
    document = "# T\n\n```python\n# a.py\nx = 1\n```\n\n```\nplain\n```\n"

    first, second = blocks(document)

    assert (first.language, first.name, first.line) == ("python", "a.py", 4)
    assert (second.language, second.name, second.text) == ("", None, "plain\n")


def test_block_of_sql_has_its_name_in_a_comment_of_sql() -> None:
    [block] = blocks("```sql\n-- a.sql\nSELECT 1;\n```\n")

    assert block.name == "a.sql"


def test_block_that_is_not_run_says_so_directly_before(tmp_path: Path) -> None:
    left_out = "<!-- not run: there is no such package -->\n```python\nimport headrace_of_nobody\n```\n"

    with Reader(tmp_path) as reader:
        reader.read(left_out)
        with pytest.raises(AssertionError, match="headrace_of_nobody"):
            reader.read(left_out.replace("-->\n", "-->\n\n"))


def test_commands_have_what_is_shown_behind_them() -> None:
    first, second = commands("$ echo a \\\n    b  # both\na b\n$ true\n")

    assert (first.words, first.output) == (["echo", "a", "b"], "a b\n")
    assert (second.text, second.output) == ("true", "")


def test_saved_blocks_are_there_for_the_commands_behind_them(tmp_path: Path) -> None:
    saved = ("python", '# greet.py\nprint("hello")\n')

    read(tmp_path, saved, ("console", "$ python greet.py\nhello\n"))

    assert (tmp_path / "reader" / "greet.py").read_text() == saved[1]


@pytest.mark.parametrize(
    ("shown", "happened"),
    [
        ("", ""),
        ("", "\n"),
        ("one\n", "one\n\n"),
        ("port …\n", "port 17\n"),
        ("…\nlast\n", "a\nb\nlast\n"),
        ("…\nlast\n", "last\n"),
        ("[…] … ready\n", "[7] 12:00 ready\n"),
    ],
)
def test_what_is_shown_is_what_happened(shown: str, happened: str) -> None:
    assert_shown(shown, happened)


@pytest.mark.parametrize(
    ("shown", "happened"),
    [
        ("", "x\n"),
        ("one\n", ""),
        ("one\n", "one\ntwo\n"),
        ("one\ntwo\n", "one\n"),
        ("port …\n", "port\n17\n"),
        ("a.c\n", "abc\n"),
        ("…\nlast\n", "last\nafter\n"),
    ],
)
def test_what_is_not_shown_is_told(shown: str, happened: str) -> None:
    with pytest.raises(AssertionError, match="the document shows"):
        assert_shown(shown, happened)


@pytest.mark.parametrize(
    ("language", "text", "told"),
    [
        ("console", "$ echo one\ntwo\n", "line 4: the document shows"),
        ("console", "$ echo one >&2\ntwo\n", "line 4: the document shows"),
        ("console", "$ exit 3\n", "ended with 3"),
        ("console", "output\n", "no command before"),
        ("console", "^C\n", "no server to end"),
        ("console", "$ headrace no-such-command\n", "ended with 2"),
        ("console", "$ pip install\n", "nothing to install"),
        ("console", "$ pip install 'headrace[nothing]'\n", "no extras"),
        ("console", "$ pip install 'headrace>1000'\n", "not what the tests have"),
        ("console", "$ make tea\n", "no target tea"),
        ("python", "print(1)\n", "the document shows"),
        ("python", "raise SystemExit(1)\n", "ended with 1"),
    ],
)
def test_reader_tells_what_goes_wrong(tmp_path: Path, language: str, text: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        read(tmp_path, (language, text))


def test_package_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        read(tmp_path, ("console", "$ pip install headrace-of-nobody\n"))


HELLO = """\
import socket

with socket.create_connection(("127.0.0.1", 4222)) as peer:
    assert b'"server_name":"NAME"' in peer.recv(4096)
"""


def test_server_is_started_at_a_free_port_and_ends_with_the_reader(tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        for name in ("first", "next"):  # which takes the place of the first
            started = f"$ headrace serve --name {name}\n…\n[…] … [INF] Server is ready\n"
            program = HELLO.replace("NAME", name)
            reader.read(f"```console\n{started}```\n\n```python\n{program}```\n")
        assert reader.server is not None
        assert reader.server.port != 4222
        assert reader.server.process.poll() is None
    assert reader.server.process.poll() == 0


def test_file_is_continued(tmp_path: Path) -> None:
    parts = ("# a.py\nx = 1\n", "# a.py, continued\nprint(x)\n")

    read(tmp_path, *(("python", text) for text in parts), ("console", "$ python a.py\n1\n"))

    assert (tmp_path / "reader" / "a.py").read_text() == "\n".join(parts)


@pytest.mark.parametrize("texts", [["# a.py, continued\n"], ["# a.py\n", "# a.py\n"]])
def test_file_that_is_not_there_is_not_continued_and_one_that_is_not_saved_again(
    tmp_path: Path, texts: list[str]
) -> None:
    with pytest.raises(AssertionError, match=r"a\.py is there"):
        read(tmp_path, *(("python", text) for text in texts))


@pytest.mark.parametrize("program", ["headrace serve", "nats-server"])
def test_server_is_ended_where_the_document_says_so(tmp_path: Path, program: str) -> None:
    with Reader(tmp_path) as reader:
        reader.read(
            f"```console\n$ {program} -P server.pid\n…\n$ cat server.pid\n…\n^C\n$ echo gone\ngone\n```\n"
        )
        assert reader.server is not None
        assert reader.server.process.poll() is not None


def test_what_is_printed_on_standard_error_only_is_compared(tmp_path: Path) -> None:
    read(tmp_path, ("console", "$ echo one >&2\none\n$ echo unseen >&2\n$ echo 1; echo 2 >&2\n1\n"))


def test_log_that_is_not_the_servers_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the document shows"):
        read(tmp_path, ("console", "$ headrace serve\nServer is asleep\n"))
