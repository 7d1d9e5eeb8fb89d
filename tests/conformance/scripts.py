"""Byte scripts that are played to two servers, and what they say back in a form that can be compared.

A script (see `wire_files`) is a list of steps on named connections. After each step the connection is
brought to rest by a PING whose PONG comes back after everything the step caused; a step that leaves the
server waiting for more bytes is marked `partial` and is followed by one that completes it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from harness.processes import ServerProcess
    from harness.wire import Wire

COMPARED_INFO: Final = ("auth_required", "connect_info", "headers", "max_payload", "remote_account", "proto")
"""INFO fields whose values must be the same; of the others only nothing is said here."""


@dataclass(frozen=True, slots=True)
class Step:
    """Bytes on a connection. `partial`: not at rest after it; `ends`: the sending side is closed after it."""

    conn: str
    data: bytes
    partial: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """A case: `config` names one of the configurations of the tables."""

    name: str
    steps: tuple[Step, ...]
    config: str = ""


@dataclass(slots=True)
class Transcript:
    """What each connection heard, frame by frame, and whether it was closed."""

    heard: dict[str, list[str]] = field(default_factory=dict)
    closed: dict[str, bool] = field(default_factory=dict)

    def text(self) -> str:
        return "\n".join(
            f"{name}: {'closed' if self.closed[name] else 'open'}\n    " + "\n    ".join(frames)
            for name, frames in self.heard.items()
        )


def play(script: Script, server: ServerProcess) -> Transcript:
    wires: dict[str, Wire] = {}
    heard: dict[str, bytearray] = {}
    unanswered: dict[str, bytes] = {}
    try:
        for step in script.steps:
            if step.conn not in wires:
                wires[step.conn] = server.connect()
                heard[step.conn] = bytearray(b"INFO " + json.dumps(wires[step.conn].info).encode() + b"\r\n")
            wire = wires[step.conn]
            if step.data:
                wire.send(step.data)
            if step.ends:
                wire.half_close()
                heard[step.conn] += wire.take_rest()
            else:
                unanswered[step.conn] = unanswered.get(step.conn, b"") + step.data
            if not step.partial and not step.ends:
                heard[step.conn] += _rest(wire, unanswered.pop(step.conn))
        for name, wire in wires.items():
            heard[name] += _rest(wire, unanswered.pop(name, b""))
        return Transcript(
            {name: _normal(_frames(bytes(data))) for name, data in heard.items()},
            {name: wire.closed for name, wire in wires.items()},
        )
    finally:
        for wire in wires.values():
            wire.close()


def _rest(wire: Wire, sent: bytes) -> bytes:
    """What came until the answer to a PING after what was sent, or until the connection was closed."""
    pongs = len(re.findall(rb"(?i)ping", sent)) + 1
    wire.send(b"PING\r\n")
    while wire.received.count(b"PONG\r\n") < pongs and wire.fill(1.0):
        pass
    return wire.take()


_WITH_BODY: Final = re.compile(rb"H?MSG [^\n]*?(\d+)\r\n")


def _frames(data: bytes) -> list[str]:
    """The frames of one connection; what is no frame stays as it came."""
    frames = []
    at = 0
    while at < len(data):
        match = _WITH_BODY.match(data, at)
        end = match.end() + int(match.group(1)) + 2 if match else data.find(b"\n", at) + 1 or len(data)
        frames.append(data[at:end])
        at = end
    return [_masked(frame) for frame in frames]


def _masked(frame: bytes) -> str:
    if not frame.startswith(b"INFO {"):
        return repr(frame)
    info = json.loads(frame[5:])
    shown = {name: info[name] for name in COMPARED_INFO if name in info}
    return f"INFO {shown} nonce={'nonce' in info}"


def _normal(frames: list[str]) -> list[str]:
    """Neighbouring copies of one message on one connection come in no particular order."""
    normal: list[str] = []
    run: list[str] = []
    for frame in [*frames, ""]:
        if run and _message(frame) != _message(run[0]):
            normal += sorted(run)
            run = []
        if _message(frame) is None:
            normal.append(frame)
        else:
            run.append(frame)
    return [frame for frame in normal if frame]


def _message(frame: str) -> tuple[str, str] | None:
    """Subject and body of a message frame, without the sid."""
    if not frame.startswith(("b'MSG ", 'b"MSG ', "b'HMSG ", 'b"HMSG ')):
        return None
    words = frame.split(" ", 3)
    return words[1], words[3]
