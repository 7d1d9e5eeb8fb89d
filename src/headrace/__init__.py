"""Headrace: a NATS-compatible messaging server whose streams are Spark tables.

`Server` runs inside an asyncio program, `headrace.testing.Server` inside a test, `headrace serve` as a
process. Importing this package loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.version import __version__

if TYPE_CHECKING:
    from headrace.conf.jetstream_options import JetStreamOptions as JetStreamOptions
    from headrace.conf.options import Options as Options
    from headrace.conf.streaming_options import StreamingOptions as StreamingOptions
    from headrace.embedding import Server as Server

__all__ = ["JetStreamOptions", "Options", "Server", "StreamingOptions", "__version__"]
_OPTIONS = {
    "Options": "options",
    "JetStreamOptions": "jetstream_options",
    "StreamingOptions": "streaming_options",
}


def __getattr__(name: str) -> object:
    if name == "Server":
        from headrace.embedding import Server

        return Server
    if name in _OPTIONS:
        from importlib import import_module

        return getattr(import_module(f"headrace.conf.{_OPTIONS[name]}"), name)
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
