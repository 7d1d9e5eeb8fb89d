"""`headrace reload`: a running server takes over its changed configuration, and whether it did.

Here lives the order: check the file, signal, look at the server's monitoring. Never lives here: what a
server does then (`headrace.server.reload`).

Exit codes: 0 done (or sent, where nothing can be seen), 1 not done, 2 wrong use.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.request
from typing import TYPE_CHECKING, Any, Final

from headrace.cli import running
from headrace.cli.arguments import UsageError
from headrace.cli.signals import process_id, signal_process
from headrace.errors import ConfigError, HeadraceError
from headrace.protocol.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.conf.options import Options

EXIT_FAILURE: Final = 1
_ASK_EVERY: Final = 0.05  # seconds
_HTTP_TIMEOUT: Final = 2.0
_LONGEST_ANSWER: Final = 1 << 20  # bytes


def run(arguments: Sequence[str], program: str) -> int:
    """Do what the arguments say; gives the exit code."""
    name = f"{program} reload"
    options = parser(program).parse_args(arguments)
    try:
        return _reload(process_id(options.process), options.wait, name)
    except ConfigError as error:
        for problem in error.problems:
            print(f"{name}: {problem}", file=sys.stderr)
        print(f"{name}: the configuration is wrong; the server was not told", file=sys.stderr)
    except HeadraceError as error:
        print(f"{name}: {error}", file=sys.stderr)
    return EXIT_FAILURE


def parser(program: str) -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    made = argparse.ArgumentParser(
        prog=f"{program} reload",
        description="Have a running server read its configuration file again and take over what has changed. "
        "The file is checked first. Where the server has monitoring on a port of the configuration, the "
        "command waits until it is done; else the server's log says whether it was.",
        allow_abbrev=False,
    )
    made.add_argument("process", help="process id of the server, or the file that holds it")
    made.add_argument(
        "--wait",
        type=_duration,
        default=10.0,
        metavar="TIME",
        help="how long to wait for monitoring to show it (10s)",
    )
    return made


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None


def _reload(pid: int, seconds: float, name: str) -> int:
    """Tell a server to reload its configuration; wait for the outcome and return the exit code.

    Raises: UsageError, ConfigError.
    """
    url = _monitor(_options(pid))
    before = _loaded(url)
    signal_process(pid, "reload")
    if url is None or before is None:
        print("signal sent; the server's log says whether it was reloaded")
        return 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        after = _loaded(url)
        if after is not None and after != before:
            print(f"reloaded ({after[1]})")
            return 0
        time.sleep(_ASK_EVERY)
    print(f"{name}: the server has not reloaded; its log says why", file=sys.stderr)
    return EXIT_FAILURE


def _options(pid: int) -> Options | None:
    """Load the options that the server would have now; None if its command line cannot be read.

    Raises: ConfigError.
    """
    try:
        return running.options_of(pid)
    except UsageError:
        return None


def _monitor(options: Options | None) -> str | None:
    """Return the monitoring URL that shows the loaded configuration, if it can be known."""
    if options is None or options.http_port is None or options.http_port <= 0:
        return None
    host = options.http_host or options.host
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{reachable}]" if ":" in reachable else reachable
    return f"http://{shown}:{options.http_port}{options.http_base_path}/varz"


def _loaded(url: str | None) -> tuple[Any, Any] | None:
    """Return the time and the digest of the loaded configuration; None if the server does not show them."""
    if url is None:
        return None
    try:
        with urllib.request.urlopen(url, timeout=_HTTP_TIMEOUT) as answer:
            document = json.loads(answer.read(_LONGEST_ANSWER))
    except (OSError, ValueError):
        return None
    return document.get("config_load_time"), document.get("config_digest")
