"""`headrace checkpoints`: an object store served to Spark for its checkpoints, until it is told to stop.

Here live the flags and what is printed. Never lives here: the gateway (`headrace.checkpoints`).

Exit codes: 0 stopped, 1 it could not start, 2 wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FAILURE: Final = 1
DEFAULT_PORT: Final = 9864


def run(arguments: Sequence[str], program: str) -> int:
    """Do what the arguments say; gives the exit code."""
    name = f"{program} checkpoints"
    options = parser(program).parse_args(arguments)
    try:
        secret = options.secret_file.read_text("utf-8").strip() if options.secret_file else ""
        asyncio.run(_serve(options, secret))
    except BrokenPipeError:  # `main` knows what it means
        raise
    except (HeadraceError, OSError, UnicodeError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return EXIT_FAILURE
    return 0


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    made = argparse.ArgumentParser(
        prog=f"{program} checkpoints",
        description="Serve an object store to Spark for its checkpoints, as WebHDFS. Prints the location to "
        "put them below; whoever has it can read and change everything there. Credentials of the store come "
        "from the environment (AWS_*, GOOGLE_*, AZURE_*).",
        allow_abbrev=False,
    )
    made.add_argument("store", help="URL such as s3://bucket/prefix")
    made.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    made.add_argument("--port", type=_port, default=DEFAULT_PORT, help="port; 0: any (%(default)s)")
    made.add_argument(
        "--secret-file",
        type=Path,
        metavar="FILE",
        help="the secret part of the location, 8 to 128 letters, digits, - or _ (a new one for each start)",
    )
    return made


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"not a port: {text}")
    return int(text)


async def _serve(options: argparse.Namespace, secret: str) -> None:
    """Serve checkpoints until SIGINT or SIGTERM. Raises: UnsupportedError, StartError."""
    from headrace.checkpoints.gateway import Gateway

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stop.set)
    gateway = Gateway(options.store, host=options.host, port=options.port, secret=secret)
    try:
        await gateway.start()
        print(gateway.location, flush=True)
        await stop.wait()
    finally:
        await gateway.stop()
