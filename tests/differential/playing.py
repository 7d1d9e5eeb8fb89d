"""Plays scripts to a server, and what its clients heard in a form that can be compared.

After each step its client sends a PING, whose PONG comes after everything the step caused anywhere; what
other clients were sent is read when it is their turn, or at the end. Frames of one message on one
connection come in no particular order; reply subjects that the server made are named after the payload they
came with; of a queue group with several members only how often it got a message counts.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.request
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

from conformance.scripts import masked, without_requester
from differential.steps import CLIENTS, Answer, Connect, Leave, Publish, Script, Step, Subscribe, Unsubscribe
from harness.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.processes import ServerProcess
    from harness.wire import Wire

_PONG: Final = b"PONG\r\n"
_PING: Final = b"PING\r\n"
_MADE: Final = re.compile(rb"_R_\.[A-Za-z0-9.]+")
_HEADERS: Final = b"NATS/1.0\r\nK: v\r\n\r\n"


@dataclass(frozen=True)
class Heard:
    """What one script gave: for each client its frames and closes, and for each shared group what it got."""

    clients: dict[int, list[str]]
    groups: list[str]

    def text(self) -> str:
        lines = [f"client {number}:\n    " + "\n    ".join(frames) for number, frames in self.clients.items()]
        return "\n".join([*lines, *self.groups])


@dataclass(frozen=True)
class Frame:
    """What came, whole; `text` is the part of it that is the same every time."""

    text: str
    reply: bytes = b""
    payload: bytes | None = None
    """Of messages; which step they come from."""


@dataclass
class _Client:
    """One client's connections, one after the other."""

    wire: Wire | None = None
    sids: list[int] = field(default_factory=list)
    rest: bytes = b""
    frames: list[Frame] = field(default_factory=list)


def play(script: Script, server: ServerProcess) -> Heard:
    """Play a script. Raises: AssertionError when the server neither answers nor closes."""
    player = _Player(script, server)
    try:
        for number, step in enumerate(script.steps):
            player.do(number, step)
        for client in player.clients.values():
            player.listen(client)
        return player.heard()
    finally:
        player.leave()


class _Player:
    def __init__(self, script: Script, server: ServerProcess) -> None:
        self._script = script
        self._server = server
        self._names: dict[bytes, bytes] = {}
        self._groups: list[str] = []
        self.clients: dict[int, _Client] = {}

    def do(self, number: int, step: Step) -> None:
        client = self.clients.setdefault(step.client, _Client())
        if isinstance(step, Connect) and client.wire is None:
            client.wire = self._server.connect()
            info = b"INFO " + json.dumps(client.wire.info).encode() + b"\r\n"
            client.frames.append(Frame(masked(info)))
        if isinstance(step, Leave):
            self._leave(client)
        elif isinstance(step, Answer):
            self._answer(number, step)
        elif client.wire is not None:
            if isinstance(step, Subscribe):
                client.sids.append(number)
            self.listen(client, _bytes(number, step, client.wire.info.get("nonce", "")))

    def _answer(self, number: int, step: Answer) -> None:
        for other in self.clients.values():
            self.listen(other)
        for place in range(CLIENTS):
            client = self.clients.get((step.client + place) % CLIENTS, _Client())
            requests = [frame for frame in _ordered(client.frames) if frame.reply]
            if client.wire is not None and requests:
                reply = requests[-1 - step.nth % len(requests)].reply
                self.listen(client, _published(number, reply, step))
                return

    def listen(self, client: _Client, data: bytes = b"") -> None:
        """Sends something, and takes everything until its end and before."""
        wire = client.wire
        if wire is None:
            return
        wire.send(data + _PING)
        while _PONG not in wire.received and wire.fill(PATIENCE):
            pass
        assert wire.closed or _PONG in wire.received, f"no PONG to {data!r}: {bytes(wire.received)!r}"
        self._take(client, wire.take())
        if wire.closed:
            client.frames.append(Frame("closed"))
            self._gone(client, is_silent=not client.sids)

    def heard(self) -> Heard:
        clients = {
            number: [frame.text for frame in _ordered(client.frames)]
            for number, client in sorted(self.clients.items())
        }
        return Heard(clients, sorted(self._groups))

    def leave(self) -> None:
        """Close all clients, so that nothing of them stays behind."""
        for client in self.clients.values():
            self._leave(client)

    def _leave(self, client: _Client) -> None:
        if client.wire is not None:
            self.listen(client, b"".join(b"UNSUB %d\r\n" % sid for sid in client.sids))
        if client.wire is not None:
            self._gone(client, is_silent=True)

    def _gone(self, client: _Client, *, is_silent: bool) -> None:
        """A connection has ended; where that can be seen by others the server has noticed it."""
        assert client.wire is not None
        client.wire.close()
        client.wire, client.sids, client.rest = None, [], b""
        if self._script.world.crowded or not is_silent:
            wait_until(self._has_settled, "the server forgets a connection")
            self._has_settled()  # the last of its subscriptions go just after it

    def _has_settled(self) -> bool:
        alive = sum(client.wire is not None for client in self.clients.values())
        with urllib.request.urlopen(f"{self._server.monitor_url}/connz?limit=1") as response:
            return bool(json.load(response)["total"] == alive)

    def _take(self, client: _Client, data: bytes) -> None:
        data = client.rest + data
        at = 0
        while (end := data.find(b"\r\n", at) + 2) > 1:
            line = data[at:end]
            if line.startswith((b"MSG ", b"HMSG ")):
                end += int(line.split()[-1]) + 2
                self._note(client, line, data[at:end])
            elif line not in (_PING, _PONG):
                client.frames.append(Frame(masked(self._named(line))))
            at = end
        client.rest = data[at:]

    def _note(self, client: _Client, line: bytes, frame: bytes) -> None:
        words = line.split()
        if words[1].startswith(b"$SYS."):  # events come when they come; tests of their own look at them
            return
        has_reply = len(words) == (6 if line.startswith(b"H") else 5)
        reply = words[3] if has_reply else b""
        payload = frame[len(line) : -2].rpartition(b"\r\n\r\n")[2]
        if _MADE.match(reply):
            self._names.setdefault(reply, b"_R_." + payload)
        step = self._script.steps[int(words[2])]
        if isinstance(step, Subscribe) and step.queue in self._script.shared:
            self._groups.append(f"group {step.queue} got {payload!r}")
            return
        text = masked(without_requester(self._named(frame)))
        if b"\r\nNATS/1.0 503\r\n" in frame:  # on any of those subscriptions that the reply has
            text = text.replace(f" {words[2].decode()} ", " ", 1)
        client.frames.append(Frame(text, reply, payload))

    def _named(self, frame: bytes) -> bytes:
        return _MADE.sub(lambda match: self._names.get(match[0], b"_R_.unknown"), frame)


def _ordered(frames: Iterable[Frame]) -> list[Frame]:
    """Neighbouring frames of one message in an order of their own."""
    ordered: list[Frame] = []
    for payload, neighbours in groupby(frames, key=lambda frame: frame.payload):
        run = list(neighbours)
        ordered += run if payload is None else sorted(run, key=lambda frame: frame.text)
    return ordered


def _bytes(number: int, step: Step, nonce: str) -> bytes:
    match step:
        case Connect():
            return b"" if step.secret == "silent" else _connect(step, nonce)
        case Subscribe():
            return b"SUB %s %s %d\r\n" % (step.subject.encode(), step.queue.encode(), number)
        case Unsubscribe():
            return b"UNSUB %d %s\r\n" % (step.sid, b"%d" % step.most if step.most else b"")
        case Publish():
            return _published(number, step.subject.encode(), step)
    raise AssertionError(step)


def _published(number: int, subject: bytes, step: Publish | Answer) -> bytes:
    payload = b"" if step.size < 0 else (b"%d" % number).ljust(step.size, b".")
    reply = step.reply.encode()
    if step.headers:
        size = len(_HEADERS)
        return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (
            subject, reply, size, size + len(payload), _HEADERS, payload
        )  # fmt: skip
    return b"PUB %s %s %d\r\n%s\r\n" % (subject, reply, len(payload), payload)


def _connect(step: Connect, nonce: str) -> bytes:
    options: dict[str, object] = {
        "verbose": step.verbose,
        "pedantic": step.pedantic,
        "echo": step.echo,
        "headers": step.headers,
        "no_responders": step.no_responders,
        "protocol": step.protocol,
        "name": "n",
    }
    login = step.login
    if step.secret != "missing":
        wrong = "x" if step.secret == "wrong" else ""
        if login.key is not None:
            signature = login.key.sign((nonce + wrong).encode())
            options |= {
                "nkey": login.key.public,
                "sig": base64.urlsafe_b64encode(signature).decode().rstrip("="),
            }
        elif login.token:
            options["auth_token"] = login.token + wrong
        elif login.user:
            options |= {"user": login.user, "pass": login.password + wrong}
    return b"CONNECT " + json.dumps(options).encode() + b"\r\n"
