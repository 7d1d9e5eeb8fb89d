"""The output of commands: answers to standard output, everything else to standard error.

Here lives the choice between people, pipes, `--json`, `--format` and `--quiet`. A command gives the answer as
a document, and how people are shown it. Never lives here: what is in an answer.

Texts of others have their control characters escaped, so that no payload or name reaches a terminal as
commands to it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import KINDS, CommandError, ExitCode, code_of
from headrace.errors import on_one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TextIO

    from headrace.cli.text_table import ColumnKind, TextColumn

_PLACE: Final = r"\{\{|\}\}|\{([^{}]*)\}|[{}]"
_UNPRINTED: Final = r"[^\x20-\x7e]"
_WIDTH: Final = 80
_NUMBERS: Final = ("code", "err_code", "expected", "revision")
"""Attributes of errors that are shown where they are numbers."""
_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_ESCAPES: Final = {"\\t": "\t", "\\n": "\n", "\\\\": "\\"}


class Output:
    """The output of one command.

    `json`, `template` (of `--format`), `is_quiet` and `color` are what its flags say; `name` is the
    command's, for messages on standard error.
    """

    def __init__(
        self,
        name: str,
        *,
        json: bool = False,
        template: str | None = None,
        is_quiet: bool = False,
        color: str = "auto",
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self.name = name
        self.is_json = json
        self.is_quiet = is_quiet
        self._template = None if template is None else FormatTemplate(template)
        self._out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        self.is_terminal = self._out.isatty()
        """True if a person reads the answer; False if a program or a file does."""
        self._has_color = color == "always" or (
            color == "auto" and self.is_terminal and not os.environ.get("NO_COLOR")
        )

    # -- answers

    def document(
        self, document: Mapping[str, Any], show: Callable[[], object], *, quiet: str | None = None
    ) -> None:
        """Print an answer: as JSON, by the template, only `quiet`, or by calling `show`, which prints."""
        if self.is_json:
            self._write(to_json(document, pretty=self.is_terminal))
        elif self._template is not None:
            self._write(self._template.filled(document))
        elif self.is_quiet:
            if quiet is not None:
                self._write(on_one_line(quiet))
        else:
            show()

    def listing(
        self,
        items: Sequence[Mapping[str, Any]],
        show: Callable[[], object],
        *,
        total: int | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
        name: str = "name",
        more: Mapping[str, Any] | None = None,
        as_line: bool = False,
    ) -> None:
        """Print a list: one JSON document, a line by the template for each item, or by calling `show`.

        `total` is more than there are items where the list was cut; `name` is the key that `--quiet` prints,
        as in a template; `more` has keys of the document beside these. `as_line`: it is one of many, a line
        of JSON each.
        """
        if self.is_json:
            count = len(items) if total is None else total
            found: dict[str, Any] = {"items": list(items), "total": count, "truncated": count > len(items)}
            if errors:
                found["errors"] = list(errors)
            self._write(to_json(found | dict(more or {}), pretty=self.is_terminal and not as_line))
        elif self._template is not None:
            for item in items:
                self._write(self._template.filled(item))
        elif self.is_quiet:
            for item in items:
                self._write(on_one_line(_flat(item, name)))
        else:
            show()
        for error in errors:
            of = error.get("server") or error.get("name", "a server")
            self.warn(f"{of}: {error.get('error', 'no answer')}")
        if as_line:
            self._out.flush()

    def event(
        self, document: Mapping[str, Any], show: Callable[[], object], *, quiet: str | None = None
    ) -> None:
        """Print one of many: a line of JSON Lines, of the template, or what `show` prints; flushed."""
        if self.is_json:
            self._write(to_json(document))
        else:
            self.document(document, show, quiet=quiet)
        self._out.flush()

    # -- what people are shown

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line for people; control characters in it are escaped."""
        self._write(self.styled(on_one_line(text), style))

    def table(self, columns: Sequence[TextColumn], rows: Sequence[Sequence[Any]]) -> None:
        """Print a table: fitted to a terminal, or with tabs where another program reads."""
        from headrace.cli.text_table import fitted, tab_separated

        if not self.is_terminal:
            for line in tab_separated(columns, rows):
                self._write(line)
            return
        lines, left_out = fitted(columns, rows, self.width)
        lines[0] = self.styled(lines[0], "bold")
        for line in lines:
            self._write(line)
        if left_out:
            self._write(self.styled(f"no room for: {', '.join(left_out)}", "dim"))

    def facts(self, facts: Iterable[tuple[str, Any] | tuple[str, Any, ColumnKind]], title: str = "") -> None:
        """Print names and values: aligned for people, else a tab between both. A value None is left out."""
        from headrace.cli.text_table import ColumnKind, exact_value, padded, shown_value

        kept = [(each[0], each[1], each[2] if len(each) > 2 else ColumnKind.TEXT) for each in facts]
        kept = [each for each in kept if each[1] is not None]
        if not self.is_terminal:
            for name, value, kind in kept:
                self._write(f"{name.lower().replace(' ', '_')}\t{exact_value(value, kind)}")
            return
        if title:
            self.line(title, "bold")
        width = max((len(name) for name, _, _ in kept), default=0)
        for name, value, kind in kept:
            self._write(f"  {self.styled(padded(name, width), 'dim')}  {shown_value(value, kind)}")

    def body(self, data: bytes, *, raw: bool = False, end: bytes = b"\n") -> None:
        """Print a payload. `raw`: as it is; else control characters but line ends and tabs are escaped."""
        if raw:
            self._out.flush()
            binary = getattr(self._out, "buffer", None)
            if binary is None:
                self._out.write((data + end).decode("utf-8", "backslashreplace"))
            else:
                binary.write(data + end)
                binary.flush()
        else:
            self._write(escaped(data.decode("utf-8", "backslashreplace")), end=end.decode())

    def clear(self) -> None:
        """Empty the terminal, for what is shown again and again."""
        self._write("\x1b[H\x1b[2J", end="")

    @property
    def is_for_people(self) -> bool:
        """True if what is printed has a layout: neither `--json` nor `--format` nor `--quiet` is set."""
        return not (self.is_json or self.is_quiet or self._template is not None)

    def is_raw(self, count: int) -> bool:
        """True if bodies are printed as they are, for a `--raw` given `count` times.

        Once is enough where no terminal obeys what others wrote; twice is enough anywhere.
        """
        return count > 1 or (count == 1 and not self.is_terminal)

    def styled(self, text: str, style: str) -> str:
        """Return a text in a style: bold, dim, or a colour; as it is where there are no colours."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and self._has_color else text

    @property
    def width(self) -> int:
        """The width of the terminal in cells."""
        from shutil import get_terminal_size

        return get_terminal_size((_WIDTH, 24)).columns

    # -- standard error

    def note(self, text: str) -> None:
        """Say something beside the answer: that it listens, how far it came. Not with `--quiet`."""
        if not self.is_quiet:
            print(on_one_line(text), file=self._err, flush=True)

    def warn(self, text: str) -> None:
        """Say that something is not as it should be."""
        print(f"{self.name}: {on_one_line(text)}", file=self._err, flush=True)

    def failed(self, error: BaseException) -> ExitCode:
        """Say what ended the command, as JSON with `--json`; return the exit code."""
        code = code_of(error)
        text = str(error) or type(error).__name__
        if self.is_json:
            found: dict[str, Any] = {"kind": KINDS[code], "text": text}
            numbers = {name: getattr(error, name, None) for name in _NUMBERS}
            found |= {name: number for name, number in numbers.items() if isinstance(number, int) and number}
            print(to_json({"error": found}), file=self._err, flush=True)
        else:
            for line in text.splitlines() or [""]:
                self.warn(line)
        return code

    def _write(self, text: str, end: str = "\n") -> None:
        self._out.write(text + end)


class FormatTemplate:
    """The template of `--format`: `{key}` and `{key.key}` stand for values, `{{` and `}}` for brackets."""

    def __init__(self, text: str) -> None:
        """Read a template. Raises: CommandError (wrong use) for a bracket that stands alone."""
        plain = re.sub(r"\\[tn\\]", lambda match: _ESCAPES[match[0]], text)
        self._parts: list[tuple[str, str | None]] = []
        end = 0
        for match in re.finditer(_PLACE, plain):
            before = plain[end : match.start()]
            end = match.end()
            if match[0] in ("{{", "}}"):
                self._parts.append((before + match[0][0], None))
            elif not match[1]:
                raise CommandError(f"--format has a bracket that names no key: {text!r}", ExitCode.WRONG_USE)
            else:
                self._parts.append((before, match[1].strip()))
        self._rest = plain[end:]

    def filled(self, document: Mapping[str, Any]) -> str:
        """Return the text for a document; a key that it does not have is an empty text."""
        return (
            "".join(text + ("" if key is None else _flat(document, key)) for text, key in self._parts)
            + self._rest
        )


def _flat(document: Mapping[str, Any], key: str) -> str:
    value: Any = document
    for name in key.split("."):
        if isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return ""
    if isinstance(value, str):
        return escaped(value)
    return "" if value is None else to_json(value)


def to_json(document: Any, *, pretty: bool = False) -> str:
    """Return JSON that is safe on a terminal: what cannot be printed is escaped."""
    text = json.dumps(document, ensure_ascii=False, indent=2 if pretty else None)
    if text.isascii() and "\x7f" not in text:
        return text
    return re.sub(_UNPRINTED, lambda match: _escaped_in_json(match[0]), text)


def _escaped_in_json(char: str) -> str:
    return char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1].replace("\x7f", "\\u007f")


def escaped(text: str) -> str:
    """Return a text of others with control characters escaped, but for line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)
