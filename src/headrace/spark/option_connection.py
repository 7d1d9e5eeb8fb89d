"""Options of the connection: server addresses, credentials, contexts and secrets.

Text in, frozen values out. Files are read beside the driver; nothing is connected here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.client.address import Credentials, parse_addresses, read_credentials_file, read_seed_file
from headrace.client.contexts import read_context
from headrace.client.errors import AddressError, CredentialsError, TLSFileError
from headrace.client.saved_context import SavedContext
from headrace.client.tls import client_context
from headrace.spark.errors import OptionError
from headrace.spark.option_entry import Option, read_boolean

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

DEFAULT_API: Final = "$JS.API"
DEFAULT_INBOX: Final = "_INBOX"


def _option(
    name: str, default: str, meaning: str, kind: str = "text", *, elsewhere: tuple[str, ...] = ()
) -> Option:
    return Option(name, kind, default, meaning, writes=True, elsewhere=elsewhere)


CONNECTING: Final = (
    Option(
        "jetStreamDomain",
        "text",
        "the server's",
        "Domain of the streams",
        ("stream",),
        elsewhere=("domain", "js.domain"),
    ),
    Option("jetStreamApiPrefix", "text", DEFAULT_API, "Where the subjects of the API begin", ("stream",)),
    _option(
        "url",
        "NATS_URL, else nats://127.0.0.1:4222",
        "Server URL; several with commas between them",
        elsewhere=(
            *("kafka.bootstrap.servers", "bootstrap.servers", "bootstrapServers", "brokers"),
            *("servers", "server", "nats.url", "nats.servers", "host"),
        ),
    ),
    _option("context", "none", "Context of the `nats` tool that says what options do not"),
    _option("user", "NATS_USER", "User name", elsewhere=("username", "nats.user")),
    _option("password", "NATS_PASSWORD", "Password; prefer `passwordFile` or the environment"),
    _option("passwordFile", "none", "File that holds the password"),
    _option("token", "NATS_TOKEN", "Token; prefer `tokenFile` or the environment"),
    _option("tokenFile", "none", "File that holds the token"),
    _option(
        "credsFile",
        "NATS_CREDS",
        "Credentials file: a user's JWT and seed",
        elsewhere=("creds", "credentials", "credentialsFile", "userCredentials", "nats.creds"),
    ),
    _option(
        "nkeyFile",
        "none",
        "File that holds a user's seed",
        elsewhere=("nkey", "nkeySeed", "seed", "seedFile"),
    ),
    _option(
        "tlsCaFile",
        "the system's",
        "Certificates to trust, PEM",
        elsewhere=("ca", "caFile", "kafka.ssl.truststore.location"),
    ),
    _option(
        "tlsCertFile",
        "none",
        "Client certificate, PEM; needs `tlsKeyFile`",
        elsewhere=("cert", "certFile", "kafka.ssl.keystore.location"),
    ),
    _option(
        "tlsKeyFile",
        "none",
        "Key of the client certificate, PEM",
        elsewhere=("kafka.ssl.keystore.key",),
    ),
    _option(
        "tlsFirst", "false", "TLS before the server's first line (its `handshake_first`)", "true or false"
    ),
    _option("inboxPrefix", DEFAULT_INBOX, "How reply subjects begin, where permissions want that"),
)
"""The options that make up a `Connecting`."""


@dataclass(frozen=True, slots=True)
class Connecting:
    """The connection that the options describe; `url` None: NATS_URL or the local server."""

    url: str | None = None
    credentials: Credentials = field(default_factory=Credentials)
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    tls_first: bool = False
    jetstream_api: str = DEFAULT_API
    inbox_prefix: str = DEFAULT_INBOX

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; None where the system's certificates do.

        Raises: OptionError if a file cannot be used.
        """
        if not self.tls_ca_file and not self.tls_cert_file:
            return None
        try:
            return client_context(self.tls_ca_file, self.tls_cert_file, self.tls_key_file)
        except TLSFileError as error:
            raise OptionError(f"options tlsCaFile, tlsCertFile, tlsKeyFile: {error}") from error


def read_connecting(values: Mapping[str, str]) -> Connecting:
    """The options of the connection; one that is given wins over the context. Raises: OptionError."""
    context = _context(values.get("context"))
    url = values.get("url") or context.url
    if url is not None:
        try:
            parse_addresses(url)
        except AddressError as error:
            raise OptionError(f"option {'url' if values.get('url') else 'context'}: {error}") from error
    tls_first = read_boolean("tlsFirst", values["tlsfirst"]) if "tlsfirst" in values else context.tls_first
    cert, key = values.get("tlscertfile"), values.get("tlskeyfile")
    if (cert is None) != (key is None):
        raise OptionError("options tlsCertFile and tlsKeyFile need each other: set both or neither")
    return Connecting(
        url=url,
        credentials=_credentials(values) or context.credentials,
        tls_ca_file=values.get("tlscafile") or context.tls_ca_file,
        tls_cert_file=cert or context.tls_cert_file,
        tls_key_file=key or context.tls_key_file,
        tls_first=tls_first,
        jetstream_api=_api(values, context),
        inbox_prefix=values.get("inboxprefix") or context.inbox_prefix or DEFAULT_INBOX,
    )


def _context(name: str | None) -> SavedContext:
    if name is None:
        return SavedContext()
    try:
        return read_context(name)
    except CredentialsError as error:
        raise OptionError(f"option context: {error}") from error


def _api(values: Mapping[str, str], context: SavedContext) -> str:
    domain, prefix = values.get("jetstreamdomain"), values.get("jetstreamapiprefix")
    if domain and prefix:
        raise OptionError("options jetStreamDomain and jetStreamApiPrefix exclude each other")
    if not domain and not prefix:
        domain, prefix = context.jetstream_domain, context.jetstream_api_prefix
    found = prefix.removesuffix(".") if prefix else f"$JS.{domain}.API" if domain else DEFAULT_API
    if any(
        not word or word in ("*", ">") or not word.isprintable() or " " in word for word in found.split(".")
    ):
        raise OptionError(f"options jetStreamDomain, jetStreamApiPrefix: {found!r} is not a subject")
    return found


def _credentials(values: Mapping[str, str]) -> Credentials:
    password = _secret("password", values)
    token = _secret("token", values)
    user = values.get("user")
    ways = [
        name
        for name, value in (
            ("user", user),
            ("token", token),
            ("credsFile", values.get("credsfile")),
            ("nkeyFile", values.get("nkeyfile")),
        )
        if value is not None
    ]
    if len(ways) > 1:
        raise OptionError(f"options {' and '.join(ways)} exclude each other")
    if password is not None and user is None:
        raise OptionError("option password needs option user")
    if user is not None and password is None:
        raise OptionError("option user needs option password or passwordFile")
    try:
        if "credsfile" in values:
            return read_credentials_file(values["credsfile"])
        if "nkeyfile" in values:
            return read_seed_file(values["nkeyfile"])
    except CredentialsError as error:
        raise OptionError(f"option {ways[0]}: {error}") from error
    return Credentials(user, password, token)


def _secret(name: str, values: Mapping[str, str]) -> str | None:
    file = values.get(f"{name}file")
    if file is None:
        return values.get(name)
    if name in values:
        raise OptionError(f"options {name} and {name}File exclude each other")
    try:
        return Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"option {name}File: {error}") from error
