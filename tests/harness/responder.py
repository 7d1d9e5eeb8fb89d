"""An OCSP responder over HTTP, on a thread: what it answers depends on the path of the certificate's URL."""

from __future__ import annotations

import datetime
import threading
from base64 import b64decode
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import ocsp

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from harness.certificates import Authority, Pair

GOOD: Final = ocsp.OCSPCertStatus.GOOD
REVOKED: Final = ocsp.OCSPCertStatus.REVOKED
UNKNOWN: Final = ocsp.OCSPCertStatus.UNKNOWN
HOUR: Final = datetime.timedelta(hours=1)
SILENCE: Final = None
"""The answer that is none: the responder says nothing until the end."""

Reply = tuple[int, dict[str, str], bytes] | None
"""Status, headers and body; SILENCE."""


class Responder:
    """Listens on the loopback interface. `replies`: what a request gets, by the first part of its path.

    `asked` has the parts and the decoded requests, in the order they came. `place(name)` is a URL for
    certificates.
    """

    def __init__(self) -> None:
        self.replies: dict[str, Callable[[bytes], Reply]] = {}
        self.asked: list[tuple[str, bytes]] = []
        self._is_over = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()

    def __enter__(self) -> Responder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def place(self, name: str) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/{name}"

    def times(self, name: str) -> int:
        """How often it was asked at that place."""
        return sum(asked == name for asked, _ in self.asked)

    def _reply(self, path: str) -> Reply:
        name, _, asked = path.removeprefix("/").partition("/")
        request = b64decode(unquote(asked), validate=True)
        self.asked.append((name, request))
        reply = self.replies[name](request)
        if reply is SILENCE:
            self._is_over.wait()
        return reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        responder = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                reply = responder._reply(self.path)
                if reply is SILENCE:
                    return
                status, headers, body = reply
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Connection" not in headers:  # else the body ends with it
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(BrokenPipeError, ConnectionResetError):  # who asked has read enough
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Its log is `asked`."""

        return Handler


def says(body: bytes) -> Callable[[bytes], Reply]:
    return lambda _: (200, {"Content-Type": "application/ocsp-response"}, body)


def answer(
    certificate: x509.Certificate,
    authority: Authority,
    status: ocsp.OCSPCertStatus = GOOD,
    *,
    since: datetime.timedelta = -HOUR,
    until: datetime.timedelta | None = HOUR,
    key: EllipticCurvePrivateKey | None = None,
    signer: x509.Certificate | None = None,
    shows: bool = False,
) -> bytes:
    """What is said of a certificate, DER; from now + `since` until now + `until`.

    `key` and `signer`: whose signature it is, the authority's where there are none; `shows`: with the
    signer's certificate.
    """
    now = datetime.datetime.now(datetime.UTC)
    is_revoked = status is REVOKED
    builder = ocsp.OCSPResponseBuilder().add_response(
        cert=certificate,
        issuer=authority.certificate,
        algorithm=hashes.SHA1(),
        cert_status=status,
        this_update=now + since,
        next_update=None if until is None else now + until,
        revocation_time=now - 24 * HOUR if is_revoked else None,
        revocation_reason=x509.ReasonFlags.key_compromise if is_revoked else None,
    )
    signer = signer or authority.certificate
    builder = builder.responder_id(ocsp.OCSPResponderEncoding.HASH, signer)
    if shows:
        builder = builder.certificates([signer])
    signed = builder.sign(key or authority.key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.DER)


def key_of(pair: Pair) -> EllipticCurvePrivateKey:
    return serialization.load_pem_private_key(pair.key.read_bytes(), None)  # type: ignore[return-value]
