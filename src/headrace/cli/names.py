"""The name under which the program runs, and the version that it shows.

Here lives the rule that a program called `nats-server` or `nats-streaming-server` behaves as one. Never lives
here: flags, commands.
"""

from __future__ import annotations

import os
from typing import Final

from headrace.version import __version__

PROGRAM: Final = "headrace"
DROP_IN: Final = "nats-server"
"""A link or script of this name that leads to us takes the flags of `headrace serve` directly."""


STREAMING_DROP_IN: Final = "nats-streaming-server"
"""A link or script of this name takes the flags of `headrace streaming` directly."""

CLIENT_DROP_IN: Final = "nats"
"""A link of this name takes the commands of the client directly, as scripts for that tool call them."""


def program_name(argv0: str) -> str:
    """The name to use in messages: that of a program we stand for if started as one, else `headrace`."""
    name = os.path.basename(argv0)
    return name if name in (DROP_IN, STREAMING_DROP_IN, CLIENT_DROP_IN) else PROGRAM


def version_line(program: str) -> str:
    """The line `--version` prints; tools of other projects parse the first `v` and three numbers.

    Shape: `headrace: v0.2.0 (speaks nats-server 2.15.1)`, or `nats-server: v2.15.1`, or
    `nats-streaming-server version 0.25.6, nats-server: v2.15.1`.
    """
    from headrace.cli import msgspec_importing  # noqa: F401 - the next one imports it
    from headrace.protocol.info import COMPATIBLE_VERSION

    if program == STREAMING_DROP_IN:
        from headrace.protocol import stan

        return f"{program} version {stan.COMPATIBLE_VERSION}, {DROP_IN}: v{COMPATIBLE_VERSION}"
    if program == DROP_IN:
        return f"{DROP_IN}: v{COMPATIBLE_VERSION}"
    return f"{PROGRAM}: v{__version__} (speaks {DROP_IN} {COMPATIBLE_VERSION})"
