"""OCSP checks of peers after the TLS handshake: responders are asked about each link of the chain.

Here live the policy and its words. Never lives here: requests, answers, the handshake (`server.handshakes`).
Source: order, exceptions, log lines and events compared with the Go server 2.15.1, which tries every chain
that it can build; OpenSSL builds one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from headrace.server.handshakes import PeerRefused
from headrace.server.ocsp.answers import REVOKED, UNKNOWN, AnswerError, Cache, DelegationError, now_utc, read
from headrace.server.ocsp.chains import Certificate, Chains, links
from headrace.server.ocsp.responders import Responders, UnreachableError

if TYPE_CHECKING:
    import ssl

    from headrace.conf.tls_options import OCSPPeerOptions
    from headrace.server.handshakes import PeerCheck
    from headrace.server.monitor.source import OCSPCacheSnapshot
    from headrace.server.ocsp.answers import CertificateStatus
    from headrace.server.ocsp.chains import CheckedCertificate
    from headrace.server.port import LogHost

    class _Events(Protocol):
        def peer_refused(self, kind: str, peer: Certificate, reason: str) -> None:
            """Tell that a peer was sent away."""

        def link_invalid(self, peer: Certificate, link: Certificate, reason: str) -> None:
            """Tell of a certificate of the peer's chain."""

    class ChecksHost(LogHost, Protocol):
        """A server, as the checks of peers see it."""

        @property
        def events(self) -> _Events: ...


class Checks:
    """The checks of one server. `close` ends them, and those who wait."""

    def __init__(self, server: ChecksHost) -> None:
        self._server = server
        self._chains = Chains()
        self._cache = Cache(server.options.ocsp_cache)
        self._responders = Responders(lambda text: self._say(logging.DEBUG, text))
        self._waiting: set[asyncio.Task[object]] = set()
        self._is_over = False

    def reload(self) -> None:
        """Take over the server's options, which may be others."""
        self._cache.use(self._server.options.ocsp_cache)

    def snapshot(self) -> OCSPCacheSnapshot | None:
        return self._cache.snapshot()

    async def close(self) -> None:
        """Cancel the checks that wait for an answer, and let no peer in any more."""
        self._is_over = True
        for task in self._waiting:
            task.cancel()
        await self._responders.close()

    async def check(self, connection: ssl.SSLObject, check: PeerCheck) -> None:
        """Check the chain of a peer.

        Raises: PeerRefused if it may not stay, or if the check fails by a mistake of ours.
        """
        if self._is_over:
            raise PeerRefused("the server is stopping")
        task = asyncio.current_task()
        assert task is not None, "it runs on an event loop"
        self._waiting.add(task)
        try:
            await self._check(connection, check)
        except PeerRefused:
            raise
        except Exception as error:  # whatever it is, nobody is let in by it
            self._server.log.error("internal error while a peer was checked", exc_info=error)
            raise PeerRefused(f"{check.role} not OCSP valid") from error
        finally:
            self._waiting.discard(task)

    async def _check(self, connection: ssl.SSLObject, check: PeerCheck) -> None:
        refusal = f"{check.role} not OCSP valid"
        chain = [Certificate(der) for der in self._chains.of(connection)]
        if not chain:
            self._say(logging.ERROR, "Peer certificate is nil, rejecting OCSP peer")
            raise PeerRefused(refusal)
        events = self._server.events
        try:
            eligible = list(links(chain))
        except ValueError as error:
            self._say(logging.ERROR, f"OCSP verify fail for [{chain[0].subject}]: {error}")
            events.peer_refused(check.kind, chain[0], refusal)
            raise PeerRefused(refusal) from None
        for link in eligible:
            reason = await self._why_not(link, check.options)
            if reason is not None:
                self._say(logging.DEBUG, reason)
                events.link_invalid(chain[0], link.certificate, reason)
                events.peer_refused(check.kind, chain[0], refusal)
                raise PeerRefused(refusal)

    async def _why_not(self, link: CheckedCertificate, options: OCSPPeerOptions) -> str | None:
        """Why a link breaks its chain; None when it does not."""
        subject = link.certificate.subject
        answer, was_revoked = self._remembered(link, options)
        if answer is None:
            try:
                data = await self._responders.ask(link, options.ca_timeout)
            except UnreachableError as error:
                return self._unreachable(subject, error, options, was_revoked=was_revoked)
            try:
                answer = read(data, link, now_utc())
            except DelegationError:
                reason = f"Invalid OCSP response delegation: {subject}"
                return self._excused(subject, reason, reason, options)
            except AnswerError as error:
                line = f"Could not parse OCSP CA response for [{subject}]: {error}"
                return self._excused(subject, line, "Failed OCSP response parse", options, logging.ERROR)
            late = answer.why_not(options, now_utc())
            if late is not None:
                line = f"New OCSP CA response obtained for [{subject}] but not current: {late}"
                return self._excused(subject, line, "OCSP response not in effectivity window", options)
            self._cache.put(link.key, answer)
        if answer.status == REVOKED or (answer.status == UNKNOWN and not options.unknown_is_good):
            line = f"OCSP verify fail for [{subject}] with CA status [{answer.status}]"
            return self._excused(subject, line, f"Invalid OCSP response status: {answer.status}", options)
        self._say(logging.DEBUG, f"OCSP verify pass for [{subject}]")
        return None

    def _remembered(
        self, link: CheckedCertificate, options: OCSPPeerOptions
    ) -> tuple[CertificateStatus | None, bool]:
        """An answer that holds still, and whether the last one said that the certificate is revoked."""
        answer = self._cache.get(link.key)
        if answer is None:
            return None, False
        if answer.why_not(options, now_utc()) is not None:
            self._cache.outlived(link.key)
            return None, answer.status == REVOKED
        return answer, answer.status == REVOKED

    def _unreachable(
        self, subject: str, error: UnreachableError, options: OCSPPeerOptions, *, was_revoked: bool
    ) -> str | None:
        line = f"Attempt to obtain OCSP response from CA responder for [{subject}] failed: {error}"
        reason = self._excused(subject, line, "Failed OCSP response fetch", options)
        if reason is None or not options.allow_when_ca_unreachable:
            return reason
        nobody = f"Failed to obtain OCSP CA response for [{subject}] but AllowWhenCAUnreachable set"
        if was_revoked:
            self._say(logging.WARNING, f"{nobody}; it was revoked when last heard of, so rejecting")
            return reason
        self._say(logging.WARNING, f"{nobody}; no cached revocation so allowing")
        return None

    def _excused(
        self, subject: str, line: str, reason: str, options: OCSPPeerOptions, level: int = logging.WARNING
    ) -> str | None:
        """The reason, unless it is only to be told."""
        self._say(level, line)
        if not options.warn_only:
            return reason
        self._say(logging.WARNING, f"OCSP verify fail for [{subject}] but WarnOnly is true so allowing")
        return None

    def _say(self, level: int, text: str) -> None:
        """Write a log line; lines that peers cause again and again are only counted."""
        if level == logging.DEBUG or self._server.log_limits.admits(text, source=""):
            self._server.log.log(level, "%s", text)
