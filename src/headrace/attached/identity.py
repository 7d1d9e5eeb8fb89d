"""The identity at the NATS server elsewhere: user, token, nkey or JWT for its CONNECT, and TLS.

Files are read when a connection begins, so that renewed credentials are taken at the next one. Never lives
here: sockets, signatures (`headrace.client.machine`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.address import Credentials, read_credentials_file, read_seed_file
from headrace.client.errors import CredentialsError, TLSFileError
from headrace.client.tls import client_context
from headrace.errors import StartError

if TYPE_CHECKING:
    import ssl

    from headrace.conf.account_options import AuthorizationOptions
    from headrace.conf.streaming_options import NATSServerOptions


class AttachedIdentity:
    """The credentials of this client, from options and from the files that they name."""

    def __init__(self, options: NATSServerOptions, authorization: AuthorizationOptions) -> None:
        self._options = options
        self.plain = _plain(options, authorization)

    def check(self) -> None:
        """Read the files once, to fail early. Raises: StartError."""
        self.with_key(Credentials())

    def with_key(self, credentials: Credentials) -> Credentials:
        """Return these credentials with the JWT and seed of the files, as they are now.

        Raises: StartError for files that cannot be used.
        """
        try:
            if self._options.credentials:
                key = read_credentials_file(self._options.credentials)
            elif self._options.nkey_seed_file:
                key = read_seed_file(self._options.nkey_seed_file)
            else:
                return credentials
        except CredentialsError as error:
            raise StartError(str(error)) from error
        return credentials._replace(jwt=key.jwt, seed=key.seed)


def _plain(options: NATSServerOptions, authorization: AuthorizationOptions) -> Credentials | None:
    """User or token of the section; else those of --user, --pass and --auth, which have no other use here."""
    if options.username is not None:
        return Credentials(user=options.username, password=options.password or "")
    if options.token is not None:
        return Credentials(token=options.token)
    if options.credentials or options.nkey_seed_file:
        return None
    if authorization.token is not None:
        return Credentials(token=authorization.token)
    for user in authorization.users[:1]:
        if user.user is not None:
            return Credentials(user=user.user, password=user.password or "")
    return None


def tls_context(options: NATSServerOptions) -> ssl.SSLContext | None:
    """Return the TLS context for a server that asks for TLS; None: the system's authorities are enough.

    Raises: StartError for files that cannot be used.
    """
    files = (options.client_cert, options.client_ca)
    if not (options.secure or options.skip_verify or options.server_name or any(files)):
        return None
    try:
        return client_context(
            options.client_ca, options.client_cert, options.client_key, verify=not options.skip_verify
        )
    except TLSFileError as error:
        raise StartError(f"TLS for the NATS server: {error}") from error
