"""Headrace: a NATS-compatible messaging server whose streams are Spark tables.

`Server` runs inside an asyncio program, `headrace.testing.Server` inside a test, `headrace serve` as a
process. Importing this package loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.conf.options import Options as Options
    from headrace.server.server import Server as Server

__version__ = "0.1.0"
__all__ = ["Options", "Server", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Server":
        from headrace.server.server import Server

        return Server
    if name == "Options":
        from headrace.conf.options import Options

        return Options
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
