"""Advisories and metrics: composed and published when somebody listens, and else not even thought of.

What stands in which, and when one is due, is its sender's. Source: JetStream specification, 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from headrace.protocol.nuid import new_nuid
from headrace.protocol.rfc3339 import format_time

if TYPE_CHECKING:
    from headrace.core.service import Host

_ADVISORY: Final = ("$JS.EVENT.ADVISORY.", "io.nats.jetstream.advisory.v1.")
_METRIC: Final = ("$JS.EVENT.METRIC.", "io.nats.jetstream.metric.v1.")


class Advisories:
    """Publishes in one account; `domain` is left out where there is none."""

    def __init__(self, host: Host, domain: str) -> None:
        self._host = host
        self._domain = domain

    def advise(self, suffix: str, kind: str, **fields: object) -> None:
        self._publish(_ADVISORY, suffix, kind, fields)

    def metric(self, suffix: str, kind: str, **fields: object) -> None:
        self._publish(_METRIC, suffix, kind, fields)

    def heard(self, suffix: str) -> bool:
        """True if an advisory has a listener."""
        return self._host.backlog((_ADVISORY[0] + suffix).encode()) is not None

    def _publish(self, family: tuple[str, str], suffix: str, kind: str, fields: dict[str, object]) -> None:
        prefix, type_prefix = family
        subject = (prefix + suffix).encode()
        if self._host.backlog(subject) is None:
            return
        body = {
            "type": type_prefix + kind,
            "id": new_nuid(),
            "timestamp": format_time(self._host.now_ns()),
            **fields,
        }
        if self._domain:
            body["domain"] = self._domain
        self._host.publish(subject, msgspec.json.encode(body))
