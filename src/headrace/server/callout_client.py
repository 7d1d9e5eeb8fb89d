"""The way of a question to the service that decides about users, and of its answer back.

Here live publishing and waiting, in one account, and the form in which a question describes a client's TLS
connection (nats-server 2.15.1: names of versions and ciphers as Go's library has them). Never lives here:
what is asked and what an answer means (`core.callout`). An answer that comes late, twice or to nobody's
question is nobody's.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Final

from headrace.core.callout import SUBJECT
from headrace.protocol.jwt.claims import TLSClaims
from headrace.server.services import ServiceHost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.core.account import Account
    from headrace.core.callout import CalloutRequest
    from headrace.core.service import Delivery, Host
    from headrace.engine.batches import Gathered
    from headrace.server.port import Applicant, Runtime

_TOKEN_BYTES: Final = 12  # of randomness in an inbox: too many to guess


class CalloutClient:
    """Asks in one account; a `core.service.Service`. There are as many questions as clients that wait."""

    def __init__(self, server: Runtime, account: Account) -> None:
        self._inbox = f"$SYS._INBOX.{secrets.token_hex(_TOKEN_BYTES)}.".encode()
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self._host = ServiceHost(
            self,
            server.router,
            account,
            loop=server.loop,
            wake=server.ticks.wake,
            log=server.log,
            max_payload=server.options.max_payload,
        )
        self._host.start()

    async def ask(self, question: CalloutRequest, patience: float) -> bytes:
        """Ask the service; return the payload of its first answer.

        `patience` is seconds. Raises: TimeoutError.
        """
        reply = self._inbox + secrets.token_hex(_TOKEN_BYTES).encode()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[reply] = answer
        try:
            self._host.publish(
                SUBJECT.encode(), question.payload, reply=reply, headers=_headers(question.headers)
            )
            async with asyncio.timeout(patience):
                return await answer
        finally:
            del self._waiting[reply]

    def close(self) -> None:
        """Send no question any more; cancel those who wait for an answer."""
        self._host.stop()
        self._host.close()

    # -- core.service.Service ---------------------------------------------------------------------

    def start(self, host: Host) -> None:
        host.subscribe(self._inbox + b"*")

    def deliver(self, batch: Sequence[Delivery | Gathered[Delivery]]) -> None:
        for delivery in batch:
            assert isinstance(delivery, tuple), "nothing was asked to be gathered"
            answer = self._waiting.get(delivery.subject)
            if answer is not None and not answer.done():
                answer.set_result(delivery.payload)

    def stop(self) -> None:
        for answer in self._waiting.values():
            answer.cancel()


def _headers(lines: tuple[tuple[str, str], ...]) -> bytes:
    if not lines:
        return b""
    return "".join(["NATS/1.0\r\n", *(f"{name}: {value}\r\n" for name, value in lines), "\r\n"]).encode()


def tls_claims(session: Applicant) -> TLSClaims | None:
    """Return the TLS claims of a connection; None without TLS.

    Certificates are those that were verified, the client's first.
    """
    if not session.tls_version:
        return None
    from ssl import DER_cert_to_PEM_cert  # loaded already: there is a TLS connection

    chain = tuple(DER_cert_to_PEM_cert(raw) for raw in session.credentials.peer_certificates)
    return TLSClaims(
        version=session.tls_version, cipher=session.tls_cipher, verified_chains=(chain,) if chain else ()
    )
