"""One call of a client command: its options, its output and its connection.

Here lives what commands ask for: `connected()`, `reconnecting()`, `api()`, `progress()`. Never lives here:
how arguments are read (`tree`), what a command does (`client`).
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.cli.output import Output

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from headrace.cli.command_rows import CommandRow
    from headrace.cli.connection_flags import ConnectionSettings
    from headrace.cli.progress import ProgressBars
    from headrace.client.blocking import Connection
    from headrace.client.jetstream_api import JetStreamApi
    from headrace.client.reconnecting import ReconnectingConnection


class Call:
    """A command that is being run.

    `options` are the arguments and flags of its row, by name; `shared` those of every command. `is_nats`: it
    came through the program's link `nats`.
    """

    def __init__(
        self,
        row: CommandRow,
        options: argparse.Namespace,
        shared: argparse.Namespace,
        program: str,
        *,
        is_nats: bool = False,
    ) -> None:
        self.row = row
        self.options = options
        self.shared = shared
        self.program = program
        self.is_nats = is_nats
        self.out = Output(
            f"{program} {row.name}",
            json=shared.json,
            template=shared.format,
            is_quiet=shared.quiet,
            color=shared.color,
        )

    @cached_property
    def settings(self) -> ConnectionSettings:
        """The server and who to be there. Raises: CommandError, CredentialsError, TLSFileError."""
        from headrace.cli.connection_flags import connection_settings, take_user_as_token

        if self.is_nats:
            take_user_as_token(self.shared)
        return connection_settings(self.shared, self.out.warn, self._trace if self.shared.trace else None)

    @property
    def timeout(self) -> float:
        """The seconds of `--timeout`."""
        from headrace.cli.connection_flags import timeout_of

        return timeout_of(self.shared)

    @contextmanager
    def connected(self, **changes: Any) -> Iterator[Connection]:
        """A connection for a block; `changes` are options of it (`ConnectOptions`) that the command needs.

        Raises: ClientError.
        """
        from headrace.client.blocking import connect

        settings = self.settings
        with connect(settings.url, settings.options._replace(**changes)) as connection:
            yield connection

    @contextmanager
    def reconnecting(self, *, resumes: bool = False, **changes: Any) -> Iterator[ReconnectingConnection]:
        """A connection that comes back after outages and says so, for commands that go on.

        `resumes`: the command goes on behind what it has had, so nothing is missing.

        Raises: ClientError if no server can be reached at first.
        """
        from headrace.client.reconnecting import reconnecting

        settings = self.settings
        missing = "" if resumes else "; messages of the time between may be missing"
        with reconnecting(
            settings.url,
            settings.options._replace(**changes),
            on_loss=lambda error: self.out.warn(f"{error}; connecting again"),
            on_return=lambda: self.out.warn(f"connected again{missing}"),
        ) as connection:
            yield connection

    @property
    def api_prefix(self) -> str:
        """The beginning of JetStream's API subjects, of the domain that flags and context say."""
        from headrace.client.jetstream_api import DEFAULT_PREFIX

        return self.settings.api_prefix or DEFAULT_PREFIX

    def api(self, connection: Connection) -> JetStreamApi:
        """JetStream's API over a connection, in the domain that the flags say."""
        from headrace.client.jetstream_api import JetStreamApi

        return JetStreamApi(connection, self.api_prefix, timeout=self.timeout)

    def progress(self, what: str, unit: str) -> ProgressBars:
        """The progress of long work, for a block; silent with `--no-progress` and `--quiet`."""
        from headrace.cli.progress import ProgressBars

        return ProgressBars(what, unit=unit, is_shown=not (self.shared.no_progress or self.shared.quiet))

    def confirm(self, loss: str, *, name: str | None = None) -> None:
        """Return if the loss is agreed to, by `--force` or an answer. Raises: CommandError if it is not."""
        from headrace.cli.confirm import confirm

        confirm(loss, force=self.options.force, no_interaction=self.shared.no_interaction, name=name)

    def body(self, words: Sequence[str] | str | None) -> bytes:
        """Return the body of a message: the text given, or standard input for `-`; b"" for none.

        Standard input is read for nothing else, so a script that has one is never waited for.
        """
        if words == "-":
            return sys.stdin.buffer.read()
        return b"" if words is None else str(words).encode("utf-8", "surrogateescape")

    def _trace(self, what: str, data: bytes) -> None:
        from headrace.cli.output import escaped

        text = escaped(without_secrets(data.decode("utf-8", "backslashreplace")))
        print(f"{what} {text}", file=sys.stderr, flush=True)


def without_secrets(text: str) -> str:
    """Return a document without the values of fields that are secrets."""
    import re

    return re.sub(
        r'("(?:pass|password|token|auth_token|jwt|user_jwt|seed|user_seed|sig)"\s*:\s*)"(?:[^"\\]|\\.)*"',
        r'\1"[set]"',
        text,
    )
