"""`headrace streaming adopt`: a durable subscription of an adopted channel goes over to a JetStream consumer.

Exit codes: 0 done, 1 not done, 2 wrong use.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from headrace.cli import streaming_access as access
from headrace.cli.outcomes import exit_code
from headrace.client.streaming_admin import StreamingAdmin

if TYPE_CHECKING:
    from collections.abc import Sequence

_ABOUT: Final = (
    "Make a JetStream consumer of a durable subscription that nobody uses: it goes on where the subscription "
    "was, with what was pending. The channel is named in `streaming { adopt }` of the server's configuration."
)


def run(arguments: Sequence[str], program: str) -> int:
    """Make a consumer of a durable subscription; gives the exit code."""
    reading = parser(program)
    options = access.check_place(reading, reading.parse_args(arguments))
    return exit_code(reading.prog, lambda: _adopt(options))


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    made = argparse.ArgumentParser(prog=f"{program} streaming adopt", description=_ABOUT, allow_abbrev=False)
    made.add_argument("channel")
    made.add_argument("durable", help="its durable name; of a durable queue group durable:group")
    made.add_argument("--client", metavar="ID", help="client ID of the subscription; none for a queue group")
    made.add_argument("--consumer", metavar="NAME", help="name of the consumer (default: the durable name)")
    made.add_argument(
        "--server", metavar="URL", help=f"the server, nats://host:port (default: {access.URL_VARIABLE})"
    )
    access.add_server_login(made)
    return made


def _adopt(options: argparse.Namespace) -> int:
    with access.connected(options) as connection:
        stream, consumer, pending = StreamingAdmin(connection, options.cluster_id).adopt(
            options.channel,
            options.durable,
            client_id=options.client or "",
            consumer=options.consumer or "",
        )
    print(
        f"{options.channel}: {options.durable} is consumer {consumer} of stream {stream}, {pending} pending"
    )
    return 0
