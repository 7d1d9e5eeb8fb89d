"""Fuzz inputs with messages that ask to be traced, and a tracer that answers all a tracer may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.core.tracing import DEST, ConnectionKind, MessageTrace, TracedConnection, disabled, wanted

if TYPE_CHECKING:
    import random

_FIRST: Final = b"NATS/1.0\r\n"
_LINES: Final = [
    b"Nats-Trace-Dest: t\r\n", b"Nats-Trace-Dest:t\r\n", b"Nats-Trace-Dest: drop\r\n",
    b"Nats-Trace-Dest: off\r\n", b"Nats-Trace-Dest: trace disabled\r\n", b"Nats-Trace-Dest:\r\n",
    b"Nats-Trace-Only: true\r\n", b"Nats-Trace-Hop: 1.2\r\n", b"traceparent: 00-a-b-01\r\n",
    b"TraceParent:00-a-b-00\r\n", b"D: D\r\n", b"x\r\n", b"\n", b"Nats-Trace-D\r\n",
]  # fmt: skip


def block(rng: random.Random) -> bytes:
    """Headers that mostly ask for a trace; some are cut, or begin elsewhere."""
    made = _FIRST + b"".join(rng.choices(_LINES, k=rng.choice((1, 1, 2, 3, 8)))) + b"\r\n"
    if rng.random() < 0.2:
        made = made[rng.randrange(len(made)) :]
    return made[: rng.randrange(len(made)) + 1] if rng.random() < 0.2 else made


class Tracer:
    """As `engine.tracing` says. What is traced to `drop` or `off` is dropped, or gets other headers."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0

    def begin(
        self, _session: object, _account: bytes | None, message: tuple[bytes, bytes, int], error: str | None
    ) -> MessageTrace | bytes | bool | None:
        subject, headers, _ = message
        asked = wanted(headers)
        if asked is None:
            return None
        dest = asked.first(DEST.decode())
        if dest in ("drop", "off"):
            return True if dest == "drop" else disabled(headers)
        self.begun += 1
        trace = _Trace(
            source=_SOMEBODY.traced_connection,
            account="A",
            subject=subject.decode("latin-1"),
            wanted=asked,
            dest=b"t",
            system="S",
            now_ns=lambda: 0,
            send=self._sent,
        )
        if error is None:
            return trace
        trace.finish()
        return None

    def _sent(self, _trace: MessageTrace) -> None:
        self.ended += 1


class _Trace(MessageTrace):
    """The links of a play have sessions that say nothing of themselves."""

    def egress(self, _session: Any, *what: Any) -> None:
        super().egress(_SOMEBODY, *what)


class _Somebody:
    traced_connection = TracedConnection(ConnectionKind.ROUTER, 1, "somebody")


_SOMEBODY: Final = _Somebody()
