"""Access to channels for commands: the flags of a NATS server, a cluster ID, a store's key.

Here live the flags that several commands share and what is made of them. Never lives here: what commands do.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headrace.conf.streaming_rules import CIPHERS, ENCRYPTION_KEY_VARIABLE
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from ssl import SSLContext

    from headrace.client.address import Credentials
    from headrace.client.blocking import Connection
    from headrace.log.encryption import Cipher

URL_VARIABLE: Final = "NATS_URL"
DEFAULT_CLUSTER: Final = "test-cluster"


class AccessError(HeadraceError):
    """A store or server that cannot be had with these flags; the text is one line."""


def add_server_login(parser: argparse.ArgumentParser) -> None:
    """The cluster ID and who to be, for commands that take `--server`."""
    flags = parser.add_argument_group("with --server, and the cluster ID with --from")
    flags.add_argument(
        "-cid", "--cid", "--cluster_id", dest="cluster_id", default=DEFAULT_CLUSTER, metavar="ID",
        help=f"cluster ID of the streaming server (default: {DEFAULT_CLUSTER})",
    )  # fmt: skip
    add_login(flags)


def add_login(flags: argparse._ActionsContainer) -> None:
    """The flags that say who to be at a server, and whom to trust."""
    flags.add_argument("--user", help="user name (default: of the URL, or NATS_USER)")
    flags.add_argument("--password", help="its password (default: of the URL, or NATS_PASSWORD)")
    flags.add_argument("--token", help="authorization token (default: of the URL, or NATS_TOKEN)")
    flags.add_argument("--creds", metavar="FILE", help="credentials file (default: NATS_CREDS)")
    flags.add_argument("--nkey", metavar="FILE", help="file with the seed of a user's nkey")
    flags.add_argument("--tlsca", metavar="FILE", help="certificates of the authorities to trust")
    flags.add_argument("--tlscert", metavar="FILE", help="certificate to show the server")
    flags.add_argument("--tlskey", metavar="FILE", help="its private key")


def check_place(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.Namespace:
    """The options, if they say where to look. Ends the program with 2 when they do not."""
    places = [name for name in ("dir", "url", "server", "bucket_url") if hasattr(options, name)]
    if not any(getattr(options, name) for name in places) and server_of(options) is None:
        *others, last = (f"--{'from' if name == 'bucket_url' else name}" for name in places)
        parser.error(f"one of {', '.join(others)} and {last} is needed, or {URL_VARIABLE}")
    return options


def server_of(options: argparse.Namespace) -> str | None:
    """The server that is meant: the one given, or NATS_URL when nothing else says where to look."""
    if options.server:
        return str(options.server)
    others = [getattr(options, name, None) for name in ("dir", "url", "bucket_url")]
    return None if any(others) else os.environ.get(URL_VARIABLE) or None


@contextmanager
def connected(options: argparse.Namespace) -> Iterator[Connection]:
    """A connection to the server that is meant. Raises: AccessError, ClientError."""
    from headrace.client.blocking import connect
    from headrace.client.options import ConnectOptions

    chosen = ConnectOptions(name="headrace streaming", credentials=_credentials(options), tls=_tls(options))
    with connect(server_of(options), chosen) as connection:
        yield connection


def _credentials(options: argparse.Namespace) -> Credentials | None:
    from headrace.client.address import Credentials, read_credentials_file, read_seed_file

    ways = [name for name in ("user", "token", "creds", "nkey") if getattr(options, name) is not None]
    if len(ways) > 1:
        raise AccessError(f"give one of {' and '.join(f'--{name}' for name in ways)}")
    if options.password is not None and options.user is None:
        raise AccessError("--password needs --user")
    if options.creds is not None:
        return read_credentials_file(options.creds)
    if options.nkey is not None:
        return read_seed_file(options.nkey)
    return Credentials(options.user, options.password, options.token) if ways else None


def _tls(options: argparse.Namespace) -> SSLContext | None:
    if (options.tlscert is None) != (options.tlskey is None):
        raise AccessError("--tlscert and --tlskey need each other")
    if options.tlsca is None and options.tlscert is None:
        return None
    from headrace.client.errors import TLSFileError
    from headrace.client.tls import client_context

    try:
        return client_context(options.tlsca, options.tlscert, options.tlskey)
    except TLSFileError as error:
        flag = "--tlscert" if error.path == options.tlscert else "--tlsca"
        raise AccessError(f"{flag} {error}") from error


def add_keys(parser: argparse.ArgumentParser) -> None:
    """Add the flags for an encrypted store, named like the server's."""
    flags = parser.add_argument_group("an encrypted store (--dir, --from)")
    flags.add_argument(
        "--encrypt",
        action="store_true",
        help=f"the store is encrypted; {ENCRYPTION_KEY_VARIABLE} has the key",
    )
    flags.add_argument("--encryption_cipher", type=str.upper, choices=tuple(CIPHERS), help="default: AES")
    flags.add_argument("--encryption_key", metavar="KEY", help="the key (others can see it: better not here)")


def cipher_of(options: argparse.Namespace) -> Cipher | None:
    """Return the cipher of a store, chosen as the server does: by `--encrypt`, or by a key that is given. The
    environment's key wins.

    Raises: AccessError.
    """
    if not options.encrypt and not options.encryption_key:
        if options.encryption_cipher:
            raise AccessError("--encryption_cipher has no effect without --encrypt")
        return None
    secret = os.environ.get(ENCRYPTION_KEY_VARIABLE) or options.encryption_key
    if not secret:
        raise AccessError(f"encryption needs a key: set {ENCRYPTION_KEY_VARIABLE}")
    from headrace.log.store_cipher import store_cipher

    return store_cipher(secret, CIPHERS[options.encryption_cipher or "AES"])


def sealed_hint(error: HeadraceError, cipher: Cipher | None) -> str:
    """Return the hint for an error of a store that was opened without the key it needs."""
    is_sealed = cipher is None and "encrypted" in str(error)
    return f": say --encrypt, with the key in {ENCRYPTION_KEY_VARIABLE}" if is_sealed else ""
