"""Under which name the program runs and which version it shows.

Here lives the rule that a program called `nats-server` behaves as one. Never lives here: flags, commands.
"""

from __future__ import annotations

import os
from typing import Final

from headrace import __version__

PROGRAM: Final = "headrace"
DROP_IN: Final = "nats-server"
"""A link or script of this name that leads to us takes the flags of `headrace serve` directly."""


def program_name(argv0: str) -> str:
    """The name to use in messages: `nats-server` if started as that, else `headrace`."""
    return DROP_IN if os.path.basename(argv0) == DROP_IN else PROGRAM


def version_line(program: str) -> str:
    """The line `--version` prints; tools of other projects parse the first `v` and three numbers.

    Shape: `headrace: v0.1.0 (speaks nats-server 2.15.1)`, or `nats-server: v2.15.1`.
    """
    from headrace.protocol.info import COMPATIBLE_VERSION

    if program == DROP_IN:
        return f"{DROP_IN}: v{COMPATIBLE_VERSION}"
    return f"{PROGRAM}: v{__version__} (speaks {DROP_IN} {COMPATIBLE_VERSION})"
