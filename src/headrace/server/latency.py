"""Latency of services of other accounts: one message for each request that is sampled.

Here live the sampling, by chance or by the headers that tracing systems set, and the form of the message.
Never lives here: which requests there are (`engine.service_imports` tells).
Source: which headers count, statuses and the message's fields compared with the Go server 2.15.1.
"""

from __future__ import annotations

import json
import random
import string
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Final, Protocol

from headrace.core.service import Delivery
from headrace.engine.service import ServiceLink
from headrace.protocol.nuid import new_nuid
from headrace.protocol.rfc3339 import short_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.conf.account_options import LatencyOptions
    from headrace.core.account import Account
    from headrace.engine.link import Router

_TYPE: Final = "io.nats.server.metric.v1.service_latency"
_ALL: Final = 100
_DESCRIPTIONS: Final = {400: "Bad Request", 503: "Service Unavailable", 504: "Service Timeout"}
_B3: Final = ("X-B3-Sampled", "X-B3-Traceid", "X-B3-Parentspanid", "X-B3-Spanid")

Headers = dict[str, list[str]]


class _Responder(Protocol):
    def request_info(self, shares: bool, service: str | None, names_server: bool) -> bytes | None:
        """Describe the client that has answered."""


class LatencyMeter:
    """Publishes the latencies of one exported service, in the account that exports it."""

    def __init__(
        self,
        options: LatencyOptions,
        exporter: Account,
        router: Router,
        wake: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._options = options
        self.wake = wake
        self.failed = failed
        self._link = ServiceLink(router, self, Delivery)
        self._link.interest = exporter.interest

    def begins(self, requestor: bytes | None, headers: bytes, *, has_reply: bool) -> Measurement | None:
        """A request is passed on; None: it is not sampled, or cannot be answered, which is said at once."""
        traced = None
        if self._options.sampling < _ALL and random.randrange(_ALL) >= self._options.sampling:
            traced = sampled(headers)
            if traced is None:
                return None
        measurement = Measurement(self, requestor, traced)
        if has_reply:
            return measurement
        measurement.failed(400)
        return None

    def publish(self, message: bytes) -> None:
        self._link.publish(self._options.subject.encode(), message)

    def close(self) -> None:
        """Publish no latency any more."""
        self._link.detach()

    # -- called by the link, which subscribes to nothing ------------------------------------------

    def unpublishable(self, subject: bytes) -> None:
        """The configuration has been checked."""

    def request_info(self, shares: bool, service: str | None, names_server: bool) -> None:
        """Return nothing: a message about a service does not name the requester."""


class Measurement:
    """One request under way. The time the service takes is without the round trips to both clients."""

    __slots__ = ("_began", "_began_wall", "_headers", "_meter", "_requestor")

    def __init__(self, meter: LatencyMeter, requestor: bytes | None, headers: Headers | None) -> None:
        self._meter = meter
        self._requestor = requestor
        self._headers = headers
        self._began = monotonic_ns()
        self._began_wall = time_ns()

    def answered(self, responder: _Responder) -> None:
        """The response has come from this session."""
        now = monotonic_ns()
        info = responder.request_info(True, None, True)
        asking, answering = _round_trip(self._requestor), _round_trip(info)
        service = now - self._began - answering
        message = self._head(200) + self._people(info) + self._times(asking)
        system = monotonic_ns() - now
        total = asking + service + answering + system
        message += b'"service":%d,"system":%d,"total":%d}' % (service, system, total)
        self._meter.publish(message)

    def failed(self, status: int) -> None:
        """Note that there is no response: 400 none can be, 503 no service listens, 504 it took too long."""
        message = self._head(status) + self._people(None) + self._times(_round_trip(self._requestor))
        self._meter.publish(message + b'"service":0,"system":0,"total":0}')

    def _head(self, status: int) -> bytes:
        fields = {
            "type": _TYPE,
            "id": new_nuid(),
            "timestamp": short_time(time_ns()),
            "status": status,
        }
        if status in _DESCRIPTIONS:
            fields["description"] = _DESCRIPTIONS[status]
        return json.dumps(fields, separators=(",", ":"))[:-1].encode() + b","

    def _people(self, responder: bytes | None) -> bytes:
        people = b'"requestor":%b,' % self._requestor if self._requestor is not None else b""
        if responder is not None:
            people += b'"responder":%b,' % responder
        if self._headers:
            people += b'"header":%b,' % json.dumps(self._headers, separators=(",", ":")).encode()
        return people

    def _times(self, round_trip: int) -> bytes:
        return b'"start":"%b",' % short_time(self._began_wall - round_trip).encode()


def _round_trip(info: bytes | None) -> int:
    return int(json.loads(info).get("rtt", 0)) if info is not None else 0


def sampled(block: bytes) -> Headers | None:
    """The tracing headers of a header block when they ask for a sample, else None."""
    headers = _parsed(block)
    if "Uber-Trace-Id" in headers:
        return _uber(headers)
    if "X-B3-Sampled" in headers and headers["X-B3-Sampled"][0] in ("0", "1"):
        return _chosen(headers, _B3) if headers["X-B3-Sampled"][0] == "1" else None
    if "X-B3-Traceid" in headers:
        return _chosen(headers, _B3)
    if "B3" in headers:
        parts = headers["B3"][0].split("-")
        refuses = (len(parts) > 2 and parts[2] == "0") or parts == ["0"]
        return None if refuses else _chosen(headers, ("B3",))
    if "Traceparent" in headers:
        parts = headers["Traceparent"][0].split("-")
        is_wanted = len(parts) == 4 and parts[3] == "01"
        return _chosen(headers, ("Traceparent", "Tracestate")) if is_wanted else None
    return None


def _uber(headers: Headers) -> Headers | None:
    parts = headers["Uber-Trace-Id"][0].split(":")
    if len(parts) != 4 or len(parts[3]) not in (1, 2) or not set(parts[3]) <= set(string.hexdigits):
        return None
    if not int(parts[3], 16) & 1:
        return None
    return _chosen(headers, ("Uber-Trace-Id", *(n for n in headers if n.startswith("Uberctx-"))))


def _chosen(headers: Headers, names: tuple[str, ...]) -> Headers:
    return {name: headers[name] for name in sorted(names) if name in headers}


def _parsed(block: bytes) -> Headers:
    """Header lines by their name, in which every word begins with a capital letter."""
    found: Headers = {}
    for line in block.decode("utf-8", "replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            words = [word.capitalize() for word in name.split("-")]
            found.setdefault("-".join(words), []).append(value.strip())
    return found
