"""The address of a server, and the credentials for it: of a NATS URL, a credentials file, a file with a seed.

Shapes: `nats://host:4222`, `tls://host`, `host`, `nats://user:password@host`, `nats://token@host`,
`[::1]:4222`; several with commas between them. Frozen data out; nothing is looked up. What is in the files,
and how a nonce is signed, is `headrace.protocol.user_seeds`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace import limits
from headrace.client.errors import AddressError, CredentialsError

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_URL: Final = f"nats://127.0.0.1:{limits.DEFAULT_PORT}"
_SCHEMES: Final = ("nats", "tls")
_SIMPLE: Final = r"(?:(nats|tls)://)?([a-z0-9.-]+)(?::([0-9]{1,5}))?"
"""A URL without anything special, which is read without the modules for others."""


class Credentials(NamedTuple):
    """The credentials that CONNECT carries; if all are None, none are sent.

    `seed` is a user's private nkey, with which the server's nonce is signed; `jwt` says who that user is.
    """

    user: str | None = None
    password: str | None = None
    token: str | None = None
    jwt: str | None = None
    seed: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"  # the rest is secret

    def __bool__(self) -> bool:
        return self.user is not None or self.token is not None or self.seed is not None


class ServerAddress(NamedTuple):
    """One server; its text form never shows the credentials."""

    host: str
    port: int = limits.DEFAULT_PORT
    tls: bool = False
    credentials: Credentials = Credentials()

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}"


def parse_address(url: str) -> ServerAddress:
    """One URL. Raises: AddressError naming what is wrong (never repeating a password)."""
    simple = re.fullmatch(_SIMPLE, url)
    if simple is not None and int(simple[3] or 0) < 1 << 16:
        scheme, host, digits = simple.groups()
        return ServerAddress(host, int(digits or limits.DEFAULT_PORT), scheme == "tls")
    from urllib.parse import unquote, urlsplit

    full = url.strip() if "://" in url else f"nats://{url.strip()}"
    try:
        parts = urlsplit(full)
        name, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressError(f"a server URL has a bad host or port: {_without_userinfo(full)}") from error
    if parts.scheme not in _SCHEMES:
        raise AddressError(f"scheme {parts.scheme!r} of a server URL is not one of {', '.join(_SCHEMES)}")
    if not name:
        raise AddressError(f"a server URL has no host: {_without_userinfo(full)}")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise AddressError(f"a server URL ends after the port: {_without_userinfo(full)}")
    user = None if parts.username is None else unquote(parts.username)
    if user is None:
        credentials = Credentials()
    elif parts.password is None:
        credentials = Credentials(token=user)
    else:
        credentials = Credentials(user=user, password=unquote(parts.password))
    return ServerAddress(
        name, limits.DEFAULT_PORT if port is None else port, parts.scheme == "tls", credentials
    )


def parse_addresses(urls: str) -> tuple[ServerAddress, ...]:
    """All servers of a comma list. Raises: AddressError if there is none or one is wrong."""
    addresses = tuple(parse_address(url) for url in urls.split(",") if url.strip())
    if not addresses:
        raise AddressError("the server URL is empty")
    return addresses


def _without_userinfo(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def read_credentials_file(path: str | Path) -> Credentials:
    """The JWT and the seed of a `.creds` file. Raises: CredentialsError, never showing a secret."""
    return credentials_of(_text(path), str(path))


def credentials_of(text: str, where: str) -> Credentials:
    """The JWT and the seed in the text of a credentials file. Raises: CredentialsError naming `where`."""
    from headrace.protocol.seeds import SeedError
    from headrace.protocol.user_seeds import read_credentials

    try:
        jwt, seed = read_credentials(text, where)
    except SeedError as error:
        raise CredentialsError(str(error)) from None
    return Credentials(jwt=jwt, seed=seed)


def read_seed_file(path: str | Path) -> Credentials:
    """The seed in a file with nothing else but comments. Raises: CredentialsError, never showing a secret."""
    return seed_of(_text(path), str(path))


def seed_of(text: str, where: str) -> Credentials:
    """The seed in a text with nothing else but comments. Raises: CredentialsError naming `where`."""
    from headrace.protocol.seeds import SeedError
    from headrace.protocol.user_seeds import find_seed

    try:
        return Credentials(seed=find_seed(text, where))
    except SeedError as error:
        raise CredentialsError(str(error)) from None


def _text(path: str | Path) -> str:
    from pathlib import Path

    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise CredentialsError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{path} is not a text file") from error
