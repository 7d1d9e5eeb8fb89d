"""The TLS connection of a client as the question of a callout describes it.

Here lives the form only. Source: nats-server 2.15.1: names of versions and ciphers as Go's library has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.protocol.jwt.claims import TLSClaims

if TYPE_CHECKING:
    from headrace.server.port import Applicant


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
