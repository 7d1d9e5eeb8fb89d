"""The time that a message takes from one server to another: sent at the first, received at the second.

One process holds both connections, so that one clock measures; each message carries the time at which it was
sent. The two servers may be the same, or know each other by routes, gateways or leaf nodes. Never here: loads
of many clients (`running`).
"""

from __future__ import annotations

import secrets
import struct
import time
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.client.errors import ClientTimeoutError
from headrace.client.options import ConnectOptions, resolve_addresses
from headrace.load.connection import LoadConnection
from headrace.load.errors import LoadOptionsError
from headrace.load.histogram import LatencyHistogram, taken_histogram
from headrace.load.loops import LatencyBuckets

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.load.comparison import LoadTarget

LEAST_SIZE: Final = 8
"""Bytes of a message: those of its time."""

MOST_RATE: Final = 1_000_000
"""Messages a second, beyond what one process can send."""

_MESSAGES: Final = b"2"
_PROBES: Final = b"3"
_STAMP: Final = struct.Struct("<q")
_ROUND_TRIPS: Final = 5
_LONGEST_WAIT_S: Final = 0.05
_PROBE_EVERY_S: Final = 0.01
_SHOW_NS: Final = 200_000_000


class CrossingOptions(Struct, frozen=True, kw_only=True):
    """The messages that cross: `size` bytes each, `rate` a second, for `duration` seconds."""

    size: int = LEAST_SIZE
    rate: float = 1000.0
    duration: float = 5.0

    @property
    def messages(self) -> int:
        return max(int(self.rate * self.duration), 1)


class CrossingReport(Struct, frozen=True, kw_only=True):
    """The outcome, with both servers in the order first (sent) and second (received).

    `round_trips_ns`: the shortest PING to PONG of each connection. `seconds`: from the first message sent to
    the last one received.
    """

    options: CrossingOptions
    servers: tuple[str, str]
    versions: tuple[str, str]
    round_trips_ns: tuple[int, int]
    sent: int
    received: int
    seconds: float
    latencies: LatencyHistogram
    was_interrupted: bool = False


def measure_crossing(
    options: CrossingOptions,
    targets: tuple[LoadTarget, LoadTarget],
    progress: Callable[[int, int], None] = lambda done, wanted: None,
) -> CrossingReport:
    """Send messages at the first server and receive them at the second.

    After KeyboardInterrupt what was measured until then is the report. Messages that are not received within
    the time limit of the options are lost. Raises: LoadOptionsError; ClientTimeoutError where no message
    reaches the second server; as `LoadConnection`.
    """
    if options.size < LEAST_SIZE:
        raise LoadOptionsError(f"a message has at least {LEAST_SIZE} bytes")
    if not (0 < options.rate <= MOST_RATE and 0 < options.duration < float("inf")):
        raise LoadOptionsError(f"rate and duration are above 0, and the rate at most {MOST_RATE:,}")
    connecting = [target.options or ConnectOptions(name="headrace latency") for target in targets]
    first = LoadConnection(resolve_addresses(targets[0].url), connecting[0])
    try:
        second = LoadConnection(resolve_addresses(targets[1].url), connecting[1])
        try:
            return _Crossing(options, first, second, connecting[1].timeout).run(progress)
        finally:
            second.close()
    finally:
        first.close()


class _Crossing:
    """One measurement over two connections."""

    def __init__(
        self, options: CrossingOptions, first: LoadConnection, second: LoadConnection, timeout: float
    ) -> None:
        if options.size > first.max_payload:
            raise LoadOptionsError(f"a message has at most {first.max_payload} bytes at the first server")
        self._options = options
        self._first = first
        self._second = second
        self._timeout = timeout
        self._subject = b"%b.%b" % (second.inbox_prefix, secrets.token_hex(11).encode())
        self._filler = secrets.token_bytes(options.size - LEAST_SIZE)
        self._buckets = LatencyBuckets()
        self._sent = 0
        self._begun_ns = 0
        self._last_ns = 0

    def run(self, progress: Callable[[int, int], None]) -> CrossingReport:
        round_trips = (_round_trip_ns(self._first), _round_trip_ns(self._second))
        self._second.subscribe(self._subject, _MESSAGES)
        self._wait_until_known()
        was_interrupted = False
        self._begun_ns = self._last_ns = time.monotonic_ns()
        try:
            self._cross(progress)
        except KeyboardInterrupt:
            was_interrupted = True
        return CrossingReport(
            options=self._options,
            servers=(self._first.server, self._second.server),
            versions=(self._first.version, self._second.version),
            round_trips_ns=round_trips,
            sent=self._sent,
            received=self._buckets.count,
            seconds=(self._last_ns - self._begun_ns) / 1e9,
            latencies=taken_histogram(self._buckets),
            was_interrupted=was_interrupted,
        )

    def _wait_until_known(self) -> None:
        """Return once a message of the first server has reached the second. Raises: ClientTimeoutError."""
        probe = self._subject + b".probe"
        self._second.subscribe(probe, _PROBES)
        self._second.flush()
        until = time.monotonic() + self._timeout
        while time.monotonic() < until:
            self._first.publish(probe, b"")
            self._first.step(0.0)
            if any(message.sid == _PROBES for message in self._second.step(_PROBE_EVERY_S)):
                return
        raise ClientTimeoutError(
            f"no message of {self._first.server} reaches {self._second.server} in {self._timeout:g} s: they "
            "do not know each other, or these are users of two accounts"
        )

    def _cross(self, progress: Callable[[int, int], None]) -> None:
        wanted, interval_ns = self._options.messages, 1e9 / self._options.rate
        shown = self._begun_ns
        while self._buckets.count < wanted:
            now = time.monotonic_ns()
            due = self._begun_ns + int(self._sent * interval_ns)
            if self._sent < wanted and now >= due:
                self._send()
                pause = 0.0
            else:
                pause = (due - now) / 1e9 if self._sent < wanted else _LONGEST_WAIT_S
            self._receive(min(pause, _LONGEST_WAIT_S))
            if self._sent == wanted and now - self._last_ns > self._timeout * 1e9:
                return
            if now - shown >= _SHOW_NS:
                shown = now
                progress(self._buckets.count, wanted)

    def _send(self) -> None:
        stamp = _STAMP.pack(time.monotonic_ns())
        self._first.publish(self._subject, stamp + self._filler)
        self._first.step(0.0)
        self._sent += 1
        self._last_ns = time.monotonic_ns()

    def _receive(self, pause: float) -> None:
        for message in self._second.step(pause):
            now = time.monotonic_ns()
            if message.sid == _MESSAGES and len(message.payload) == self._options.size:
                self._buckets.record(now - _STAMP.unpack_from(message.payload)[0])
                self._last_ns = now


def _round_trip_ns(connection: LoadConnection) -> int:
    """The shortest of some round trips. Raises: as `LoadConnection.flush`."""
    trips = []
    for _ in range(_ROUND_TRIPS):
        began = time.monotonic_ns()
        connection.flush()
        trips.append(time.monotonic_ns() - began)
    return min(trips)
