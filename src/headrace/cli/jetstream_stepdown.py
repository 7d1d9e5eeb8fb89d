"""`headrace jetstream stepdown`: who serves the streams of a cluster hands them to another server."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from headrace.cli import streaming_access as access
from headrace.cli.outcomes import exit_code
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORDS: Final = """\
It asks in the system account, whose user must be named: $JS.API.META.LEADER.STEPDOWN, as for nats-server.

exit codes:
  0    done: another server takes over
  1    not done: see the message
  2    wrong use
"""


class StepDownError(HeadraceError):
    """An answer that does not say that it was done; the text is one line."""


def run(arguments: Sequence[str], program: str) -> int:
    """Ask for it."""
    form = parser(program)
    options = access.check_place(form, form.parse_args(arguments))
    return exit_code(form.prog, lambda: _ask(options))


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of `stepdown`."""
    form = argparse.ArgumentParser(
        prog=f"{program} jetstream stepdown",
        description="Have another server of the cluster serve the streams.",
        epilog=_WORDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    form.add_argument(
        "--server", metavar="URL", help=f"any server of the cluster (default: {access.URL_VARIABLE})"
    )
    access.add_login(form)
    return form


def _ask(options: argparse.Namespace) -> int:
    from headrace.client.errors import ClientTimeoutError, NoRespondersError
    from headrace.client.jetstream_api import JetStreamApi

    with access.connected(options) as connection:
        try:
            answer = JetStreamApi(connection).ask("META.LEADER.STEPDOWN")
        except (ClientTimeoutError, NoRespondersError) as error:
            raise StepDownError(
                f"{error}: only a user of the system account is heard, and by servers with a bucket"
            ) from error
    if answer.get("success") is not True:
        raise StepDownError("the server did not say that it was done")
    print("the server steps down, another one takes over")
    return 0
