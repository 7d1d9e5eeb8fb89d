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
    from collections.abc import Iterable

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
    replies = Replies()
    try:
        for step in script.steps:
            data = replies.filled(step.data, heard.values())
            if step.conn not in wires:
                wires[step.conn] = server.connect()
                heard[step.conn] = bytearray(b"INFO " + json.dumps(wires[step.conn].info).encode() + b"\r\n")
            wire = wires[step.conn]
            if data:
                wire.send(data)
            if step.ends:
                wire.half_close()
                heard[step.conn] += wire.take_rest()
            else:
                unanswered[step.conn] = unanswered.get(step.conn, b"") + data
            if not step.partial and not step.ends:
                heard[step.conn] += _rest(wire, unanswered.pop(step.conn))
        for name, wire in wires.items():
            heard[name] += _rest(wire, unanswered.pop(name, b""))
        replies.note(heard.values())
        return Transcript(
            {name: _normal(_frames(bytes(data), replies)) for name, data in heard.items()},
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


def _frames(data: bytes, replies: Replies) -> list[str]:
    """The frames of one connection; what is no frame stays as it came."""
    frames = []
    at = 0
    while at < len(data):
        match = _WITH_BODY.match(data, at)
        end = match.end() + int(match.group(1)) + 2 if match else data.find(b"\n", at) + 1 or len(data)
        frames.append(data[at:end])
        at = end
    return [masked(replies.masked(without_requester(frame))) for frame in frames]


class Replies:
    """Reply subjects that a server made for requests to services of other accounts, as they came."""

    _MADE: Final = re.compile(rb"_R_\.[A-Za-z0-9.]+")
    _WANTED: Final = re.compile(rb"\{SERVICE (\d)\}")

    def __init__(self) -> None:
        self._found: list[bytes] = []

    def note(self, heard: Iterable[bytes | bytearray]) -> None:
        for data in heard:
            for reply in self._MADE.findall(data):
                if reply not in self._found:
                    self._found.append(reply)

    def filled(self, data: bytes, heard: Iterable[bytes | bytearray]) -> bytes:
        """A step's bytes with the reply subjects it asks for by number; one that never came is unknown."""
        if not self._WANTED.search(data):
            return data
        self.note(heard)
        known = dict(enumerate(self._found, 1))
        return self._WANTED.sub(lambda match: known.get(int(match[1]), b"_R_.unknown"), data)

    def masked(self, frame: bytes) -> bytes:
        """A frame in which those subjects are numbers."""
        for number, reply in enumerate(self._found, 1):
            frame = frame.replace(reply, b"_R_.%d" % number)
        return frame


_REQUESTER: Final = re.compile(rb"Nats-Request-Info: (.*)\r\n")
_SIZES: Final = re.compile(rb" (\d+) (\d+)\r\n")


def without_requester(frame: bytes) -> bytes:
    """The frame with what is the same each time of the words about who asked, sizes without them."""
    found = _REQUESTER.search(frame)
    if found is None:
        return frame
    fields = json.loads(found[1])
    shown = {name: fields[name] for name in fields if name not in ("rtt", "start", "id", "server")}
    names = sorted(fields.keys() - {"rtt"})
    frame = _SIZES.sub(
        lambda match: b" %d %d\r\n" % (int(match[1]) - len(found[1]), int(match[2]) - len(found[1])),
        frame,
        count=1,
    )
    return frame.replace(found[1], f"{names} {shown}".encode())


def masked(frame: bytes) -> str:
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
