"""`headrace top`: a server and its connections, live on a terminal, once in a pipe, as JSON Lines.

Here live the loop, keys and questions of the screen. Never lives here: what is asked (`top_looks`), lines
(`top_lines`), the terminal (`headrace.cli.screen`).
"""

from __future__ import annotations

import re
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from headrace.cli.client.rows.top import SORT_KEYS
from headrace.cli.client.server_asking import server_source
from headrace.cli.client.top_lines import HELP, TopView, connection_lines, head_lines
from headrace.cli.client.top_looks import as_document, look, ordered
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.client.errors import ClientError
from headrace.client.server_sources import EVERY_SERVER, ServerFilter

if TYPE_CHECKING:
    from queue import SimpleQueue

    from headrace.cli.call import Call
    from headrace.cli.client.top_looks import TopLook
    from headrace.cli.screen import Screen
    from headrace.client.server_sources import ServerSource

_LEAST_DELAY: Final = 0.1
_PIPE_WIDTH: Final = 250
"""The width of a snapshot: wide enough that hardly anything is cut."""
_ENDS: Final = ("q", "Q", "\x03", "\x04")
_ESCAPE: Final = "\x1b"
_ENTER: Final = ("\r", "\n")
_ERASE: Final = ("\x7f", "\b")
_LONGEST: Final = 40
_SEQUENCE: Final = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.)"
"""The bytes of an arrow or a function key, which mean nothing here."""


def watch(call: Call) -> None:
    """Watch until it is ended. Raises: CommandError; ClientError, on a screen only at first."""
    options = call.options
    if options.delay < _LEAST_DELAY:
        raise CommandError(f"--delay is at least {_LEAST_DELAY}", ExitCode.WRONG_USE)
    if options.count is not None and options.count < 1:
        raise CommandError("--count is at least 1", ExitCode.WRONG_USE)
    with ExitStack() as stack:
        poller = _Poller(call, stack)
        is_screen = sys.stdin.isatty() and call.out.is_terminal and options.output is None
        if call.shared.json or call.shared.format is not None:
            _print_lines(call, poller)
        elif is_screen and not call.shared.quiet:
            _TopScreen(call, poller).run()
        else:
            _print_once(call, poller)


class _Poller:
    """Looks at the servers, one after the other, by a source that is made again after an error."""

    def __init__(self, call: Call, stack: ExitStack) -> None:
        options = call.options
        self.view = TopView(options.sort, options.connections, options.subs, options.lookup)
        self.seen: TopLook | None = None
        self._call = call
        self._stack = stack
        self._source: ServerSource | None = None
        self._among = ServerFilter(name=options.server) if options.server else EVERY_SERVER

    def look(self) -> TopLook:
        """Look again. Raises: CommandError (not there) for a server that is none; ClientError."""
        if self._source is None:
            self._source = self._stack.enter_context(server_source(self._call))
        view = self.view
        try:
            seen = look(
                self._source,
                before=self.seen,
                sort=view.sort,
                count=view.count,
                subjects=view.shows_subjects,
                among=self._among,
            )
        except (ClientError, OSError):
            self._source = None
            self._stack.close()
            raise
        if self._call.options.server and self.seen is None and not seen.servers:
            raise CommandError(f"no server is named {self._call.options.server!r}", ExitCode.NOT_THERE)
        self.seen = seen
        return seen


def _print_lines(call: Call, poller: _Poller) -> None:
    left = call.options.count
    while True:
        document = as_document(poller.look(), poller.view.count)
        call.out.event(document, lambda: None)
        if left is not None:
            left -= 1
            if not left:
                return
        time.sleep(call.options.delay)


def _print_once(call: Call, poller: _Poller) -> None:
    poller.look()
    time.sleep(call.options.delay)  # rates are of the time between two looks
    seen = poller.look()
    lines = head_lines(seen, poller.view)
    name_of = _NameLookups(waits=True).name_of
    lines += ["", *connection_lines(seen, poller.view, _PIPE_WIDTH, name_of)]
    path = call.options.output
    if path is None or path == "-":
        for line in lines:
            call.out.line(line)
        return
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    except FileExistsError:
        raise CommandError(f"{path} is there already", ExitCode.EXISTS) from None
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from None


class _TopScreen:
    """The live screen."""

    def __init__(self, call: Call, poller: _Poller) -> None:
        self._call = call
        self._poller = poller
        self._view = poller.view
        self._problem = ""
        self._question: str | None = None
        self._typed = ""
        self._has_help = False
        self._is_over = False
        self._lookups = _NameLookups()

    def run(self) -> None:
        """Watch until a key ends it. Raises: CommandError; ClientError, of the first look."""
        from headrace.cli.screen import Screen

        self._poller.look()
        left = self._call.options.count
        with Screen() as screen:
            while True:
                if left is not None:
                    left -= 1
                self._watch_keys(screen)
                if self._is_over or left == 0:
                    return
                self._look()

    def _look(self) -> None:
        try:
            self._poller.look()
            self._problem = ""
        except (ClientError, OSError) as error:
            self._problem = f"{error}; trying again"

    def _watch_keys(self, screen: Screen) -> None:
        """Show what was seen, and obey keys, until it is time for the next look."""
        until = time.monotonic() + self._call.options.delay
        while True:
            self._draw(screen)
            keys = screen.wait(until - time.monotonic())
            is_due = time.monotonic() >= until
            for key in re.sub(_SEQUENCE, "", keys):
                if self._obey(key):
                    is_due = True
            if self._is_over or (is_due and self._question is None):
                return
            if is_due:
                until = time.monotonic() + self._call.options.delay

    def _obey(self, key: str) -> bool:
        """Do what a key means; True if it asks for another look."""
        if self._question is not None:
            return self._answer(key)
        if self._has_help:
            self._has_help = False
            return False
        self._problem = ""
        view = self._view
        if key in _ENDS:
            self._is_over = True
        elif key in ("o", "n"):
            self._question, self._typed = key, ""
        elif key == "s":
            view.shows_subjects = not view.shows_subjects
            return True
        elif key == "d":
            view.shows_names = not view.shows_names
        elif key == "b":
            view.is_exact = not view.is_exact
        elif key == "?":
            self._has_help = True
        return key == " "

    def _answer(self, key: str) -> bool:
        """Take a key of an answer; True if the answer asks for another look."""
        if key == _ESCAPE:
            self._question = None
        elif key in _ERASE:
            self._typed = self._typed[:-1]
        elif key in _ENTER:
            question, self._question = self._question, None
            return self._set(str(question), self._typed.strip())
        elif key.isprintable() and len(self._typed) < _LONGEST:
            self._typed += key
        return False

    def _set(self, question: str, answer: str) -> bool:
        view = self._view
        if question == "n":
            if answer and not (answer.isascii() and answer.isdigit()):
                self._problem = f"{answer!r} is no number"
                return False
            view.count = int(answer) if answer else None
            return True
        if answer not in SORT_KEYS:
            self._problem = f"no such key: {answer!r}; there are {', '.join(SORT_KEYS)}"
            return False
        view.sort = answer
        return True

    def _draw(self, screen: Screen) -> None:
        seen = self._poller.seen
        assert seen is not None
        width, height = screen.size
        lines = head_lines(seen, self._view)
        lines.append(self._status())
        heading = len(lines)
        if self._has_help:
            lines += HELP
            heading = -1
        else:
            seen.connections[:] = ordered(seen.connections, self._view.sort)
            lines += connection_lines(seen, self._view, width, self._lookups.name_of)
        screen.draw(lines[:height], bold=heading)

    def _status(self) -> str:
        if self._question is not None:
            return f"{'order by' if self._question == 'o' else 'connections'}: {self._typed}_"
        from headrace.errors import on_one_line

        return on_one_line(self._problem)


class _NameLookups:
    """Names of addresses, asked for in the background: until one is known the address is shown.

    `waits`: each is waited for.
    """

    def __init__(self, *, waits: bool = False) -> None:
        self._names: dict[str, str] = {}
        self._waits = waits
        self._asked: SimpleQueue[str] | None = None

    def name_of(self, address: str) -> str:
        """Return the name of an address, or the address."""
        if address not in self._names:
            self._names[address] = address
            if self._waits:
                self._ask(address)
            else:
                self._ask_later(address)
        return self._names[address]

    def _ask_later(self, address: str) -> None:
        from queue import SimpleQueue
        from threading import Thread

        if self._asked is None:
            self._asked = SimpleQueue()
            Thread(target=self._work, args=(self._asked,), daemon=True).start()
        self._asked.put(address)

    def _work(self, asked: SimpleQueue[str]) -> None:
        while True:
            self._ask(asked.get())

    def _ask(self, address: str) -> None:
        import socket

        try:
            self._names[address] = socket.getnameinfo((address, 0), 0)[0]
        except (OSError, UnicodeError):
            self._names[address] = address
