"""What is imported before the first client can connect: a start is mostly imports, and clients wait for it.

A module that this test names is imported where it is needed first (ADR 0006 says who pays for a package), or
is added here with the reason. What is needed to serve every client is imported before, not by the first one.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

START = """
import sys
import headrace.cli.msgspec_importing, headrace.app as app
def report(self):
    print(*sys.modules, flush=True)
    raise SystemExit
app.Process.before_clients = report
from headrace.cli.main import main
main(["headrace", *sys.argv[1:]])
"""

TYPING_EXTENSIONS = """
import headrace.cli.msgspec_importing
import msgspec, typing_extensions
class Order(typing_extensions.TypedDict):
    number: int
    note: typing_extensions.NotRequired[str]
print(*msgspec.json.decode(b'{"number": 1}', type=Order))
"""

ASYNCIO_AND_TLS = "import sys, asyncio, ssl; print(*sys.modules)"
"""What a server of asyncio cannot do without."""

THIRD_PARTY = {
    "msgspec",  # every value of ours is a Struct
}

STANDARD = {
    *("__future__", "_json", "json", "gc", "resource", "copy", "copyreg", "select", "typing"),
    *("datetime", "_datetime", "uuid", "_uuid", "platform", "decimal", "_decimal", "numbers"),  # of msgspec
    *("bisect", "_bisect"),
    *("pathlib", "fnmatch", "ntpath", "nt", "_winapi", "urllib", "ipaddress"),
    *("zlib", "stat", "mmap", "locale", "_locale", "math", "contextvars", "_contextvars"),
}

EVERY_SERVER = {
    *(
        "headrace",
        "headrace.app",
        "headrace.errors",
        "headrace.limits",
        "headrace.structures",
        "headrace.version",
    ),
    *("headrace.interruption", "headrace.internal_errors", "headrace.importing"),
    *("headrace.cli", "headrace.conf", "headrace.core", "headrace.engine", "headrace.protocol"),
    *("headrace.server", "headrace.subjects"),
}
STORED = {"headrace.log", "headrace.turns", "headrace.change_log", "headrace.refusals"}

COMMANDS = {
    "serve": (EVERY_SERVER, 277),
    "streaming": (EVERY_SERVER | STORED | {"headrace.streaming"}, 357),
    "serve -js": (EVERY_SERVER | STORED | {"headrace.jetstream"}, 359),
}
"""The packages of ours by command, and how many modules there may be, those of Python included."""

NOT_BEFORE_IT_IS_USED = {
    *(
        "headrace.conf.websocket_options",
        "headrace.conf.operator",
        "headrace.conf.toplevel",
        "headrace.conf.parser",
        "headrace.conf.changes",
    ),
    *("headrace.protocol.jwt", "headrace.protocol.keypairs", "headrace.core.trust", "headrace.core.callout"),
    *("headrace.server.tls", "headrace.server.websocket", "headrace.server.syslog", "headrace.server.reload"),
    *(
        "headrace.server.monitor.handlers",
        "headrace.server.monitor.listener",
        "headrace.server.monitor.metrics",
        "headrace.server.monitor.aggregate",
    ),
    *("headrace.server.peers.routes", "headrace.server.peers.leafs", "headrace.server.peers.gateways"),
    *("headrace.server.lame_duck", "headrace.server.operator_mode", "headrace.cluster.mesh"),
    *("headrace.server.snapshot", "headrace.server.connection_snapshot", "headrace.server.monitor.source"),
    *("headrace.jetstream.stream", "headrace.jetstream.consumer.consumer", "headrace.jetstream.batch"),
    *("headrace.jetstream.api.endpoints", "headrace.jetstream.api.request", "headrace.jetstream.stats"),
    *("headrace.protocol.jetstream.requests", "headrace.protocol.jetstream.go_decode"),
    *("headrace.jetstream.sourcing", "headrace.jetstream.schedule"),
    *("headrace.streaming.replaying", "headrace.streaming.administration", "headrace.streaming.stored"),
    *("headrace.protocol.replay", "headrace.protocol.admin", "headrace.protocol.columns"),
    *("headrace.streaming.importing.reader",),
}


def modules(code: str, *arguments: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stdout, ended.stderr
    return set(ended.stdout.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_only_what_serving_needs_is_imported_before_the_first_client(command: str, tmp_path: Path) -> None:
    packages, most = COMMANDS[command]
    store = ("-sd", str(tmp_path)) if command == "serve -js" else ()
    found = modules(START, *f"{command} -a 127.0.0.1 -p -1".split(), *store)
    started = found - modules(ASYNCIO_AND_TLS)

    ours = {name for name in started if name.partition(".")[0] == "headrace"}
    others = {name.partition(".")[0] for name in started - ours if "cython" not in name}  # the engine's own
    assert {".".join(name.split(".")[:2]) for name in ours} <= packages
    assert others <= THIRD_PARTY | STANDARD | {"org"}  # `org`: asked for by a module of Python's, never there
    assert not {name for name in ours for late in NOT_BEFORE_IT_IS_USED if f"{name}.".startswith(f"{late}.")}
    assert len(found) <= most, "import what few need where they need it"


def test_typing_extensions_is_there_for_everybody_else() -> None:
    """The command line keeps it from msgspec's import, not from a program or from what is decoded."""
    assert modules(TYPING_EXTENSIONS) == {"number"}
