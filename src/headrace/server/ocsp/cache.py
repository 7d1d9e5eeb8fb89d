"""Answers of responders that are remembered, so that a certificate is asked about once while an answer holds.

In memory. Source: what counts as a hit compared with the Go server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.server.monitor.source import OCSPCacheSnapshot
from headrace.server.ocsp.answers import GOOD, REVOKED, UNKNOWN

if TYPE_CHECKING:
    from headrace.conf.options import OCSPCacheOptions
    from headrace.server.ocsp.answers import CertificateStatus

MAX_ANSWERS: Final = 10_000
"""One more, and the oldest is forgotten."""

_Key = tuple[str, str]


class Cache:
    """The remembered answers of responders, by certificate and authority."""

    def __init__(self, options: OCSPCacheOptions) -> None:
        self._options = options
        self._answers: dict[_Key, CertificateStatus] = {}
        self._hits = self._misses = 0

    def use(self, options: OCSPCacheOptions) -> None:
        self._options = options
        if not options.keeps:
            self._answers.clear()

    def get(self, key: _Key) -> CertificateStatus | None:
        """Return a remembered answer, also one that is too old: the caller says so by `outlived`."""
        answer = self._answers.get(key)
        if self._options.keeps:
            self._hits += answer is not None
            self._misses += answer is None
        return answer

    def outlived(self, key: _Key) -> None:
        """Count a cached answer that does not hold any more as a miss."""
        self._hits -= 1
        self._misses += 1
        if not (self._options.preserve_revoked and self._answers[key].status == REVOKED):
            del self._answers[key]

    def put(self, key: _Key, answer: CertificateStatus) -> None:
        if not self._options.keeps:
            return
        self._answers.pop(key, None)
        self._answers[key] = answer
        if len(self._answers) > MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def snapshot(self) -> OCSPCacheSnapshot | None:
        """Return the counts for monitoring; None: no answer is remembered."""
        if not self._options.keeps:
            return None
        statuses = [answer.status for answer in self._answers.values()]
        return OCSPCacheSnapshot(
            hits=self._hits,
            misses=self._misses,
            revoked=statuses.count(REVOKED),
            good=statuses.count(GOOD),
            unknown=statuses.count(UNKNOWN),
        )
