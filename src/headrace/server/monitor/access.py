"""Access to the monitoring port, if `http_authorization` restricts it.

Here lives the decision over one request's `Authorization` header: Basic for a user and password, Bearer for a
token. Never lives here: responses (`handlers`), reading the configuration. No secret leaves this module.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

from aiohttp import BasicAuth, hdrs, web

from headrace.server import passwords

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler, Middleware

    from headrace.conf.options import MonitorAuthorization

_BEARER: Final = "bearer "


class Guard:
    """Checks headers against one user's, or one token's, configured secret.

    Hashes are checked in a thread, one at a time: who guesses gets no more of the machine than that. A header
    that was right is known again by a digest, so that a scrape every few seconds costs no hash.
    """

    def __init__(self, authorization: MonitorAuthorization) -> None:
        self._user = authorization.user
        self._secret = authorization.token or authorization.password or ""
        self._is_token = authorization.token is not None
        self._key = secrets.token_bytes(32)
        self._known = b""
        self._hashing = asyncio.Lock()

    @property
    def challenge(self) -> str:
        """The value of `WWW-Authenticate` for a refused client."""
        return f'{"Bearer" if self._is_token else "Basic"} realm="monitoring"'

    async def permits(self, header: str) -> bool:
        """True if the value of an `Authorization` header is right."""
        given = self._token_of(header) if self._is_token else self._password_of(header)
        if given is None:
            return False
        if not passwords.is_bcrypt(self._secret):
            return passwords.matches(self._secret, given)
        digest = hashlib.blake2b(header.encode("utf-8", "surrogatepass"), key=self._key).digest()
        if hmac.compare_digest(digest, self._known):
            return True
        async with self._hashing:
            is_right = await asyncio.to_thread(passwords.matches, self._secret, given)
        if is_right:
            self._known = digest
        return is_right

    def _token_of(self, header: str) -> str | None:
        return header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else None

    def _password_of(self, header: str) -> str | None:
        try:
            given = BasicAuth.decode(header, encoding="utf-8")
        except ValueError:
            return None
        is_user = passwords.matches(self._user or "", given.login)
        return given.password if is_user else None


def guarding(guard: Guard, report: Callable[[str, str], None]) -> Middleware:
    """Answer 401 to every request that the guard does not permit; `report` hears where it came from."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        header = request.headers.get(hdrs.AUTHORIZATION)
        if header is not None and await guard.permits(header):
            return await handler(request)
        if header is not None:  # who sends none is a browser that asks what to send
            address = request.remote or ""
            report(f"Monitoring authentication error from {address}", address)
        return web.Response(
            status=401,
            text="401 unauthorized\n",
            headers={hdrs.WWW_AUTHENTICATE: guard.challenge, "X-Content-Type-Options": "nosniff"},
        )

    return middleware
