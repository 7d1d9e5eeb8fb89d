"""Headrace: a NATS-compatible messaging server whose streams are Spark tables.

`Server` runs inside an asyncio program, `headrace.testing.Server` inside a test, `headrace serve` as a
process. Importing this package loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.version import __version__

if TYPE_CHECKING:
    from headrace.conf.options import JetStreamOptions as JetStreamOptions
    from headrace.conf.options import Options as Options
    from headrace.conf.options import StreamingOptions as StreamingOptions
    from headrace.embedding import Server as Server

__all__ = ["JetStreamOptions", "Options", "Server", "StreamingOptions", "__version__"]
_OPTIONS = frozenset(("Options", "JetStreamOptions", "StreamingOptions"))


def __getattr__(name: str) -> object:
    if name == "Server":
        from headrace.embedding import Server

        return Server
    if name in _OPTIONS:
        from headrace.conf import options

        return getattr(options, name)
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
