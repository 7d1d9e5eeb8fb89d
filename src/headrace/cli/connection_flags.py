"""The flags of every command: where the server is, who to be there, and how the answer is printed.

Here live the rows of these flags and the connection settings that are made of them, in the order flag,
environment, context, default. Never lives here: connecting (`call`), files of contexts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.cli.command_rows import ValueKind, WordFlag
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    import argparse
    import ssl
    from collections.abc import Callable

    from headrace.client.address import Credentials
    from headrace.client.options import ConnectOptions
    from headrace.client.saved_context import SavedContext

_FLAG, _TEXT, _FILE = WordFlag, ValueKind.TEXT, ValueKind.FILE

CONNECTION_FLAGS: Final = (
    _FLAG(("--server", "-s"), "the server, or several with commas", _TEXT, metavar="URL",
          environment="NATS_URL"),
    _FLAG(("--context",), "a saved context", ValueKind.CONTEXT, environment="NATS_CONTEXT"),
    _FLAG(("--no-context",), "use no context, not even the selected one"),
    _FLAG(("--user",), "user name", _TEXT, environment="NATS_USER"),
    _FLAG(("--password",), "its password; - asks without showing it", _TEXT, environment="NATS_PASSWORD"),
    _FLAG(("--password-file",), "file with the password", _FILE),
    _FLAG(("--token",), "authorization token", _TEXT, environment="NATS_TOKEN"),
    _FLAG(("--creds",), "credentials file", _FILE, environment="NATS_CREDS"),
    _FLAG(("--nkey",), "file with the seed of a user's nkey", _FILE, environment="NATS_NKEY"),
    _FLAG(("--jwt",), "user JWT, with --seed", _TEXT, environment="NATS_JWT"),
    _FLAG(("--seed",), "seed of the user of --jwt", _TEXT, environment="NATS_SEED"),
    _FLAG(("--tls-ca", "--tlsca"), "certificates of the authorities to trust", _FILE, environment="NATS_CA"),
    _FLAG(("--tls-cert", "--tlscert"), "certificate to show the server", _FILE, environment="NATS_CERT"),
    _FLAG(("--tls-key", "--tlskey"), "its private key", _FILE, environment="NATS_KEY"),
    _FLAG(("--tls-first", "--tlsfirst"), "shake hands over TLS before the server says anything"),
    _FLAG(("--timeout",), "how long to wait for a connection or an answer (5s)", ValueKind.DURATION,
          environment="NATS_TIMEOUT"),
    _FLAG(("--js-domain",), "domain of JetStream", _TEXT, metavar="DOMAIN"),
    _FLAG(("--js-api-prefix",), "beginning of JetStream's API subjects", _TEXT, metavar="PREFIX"),
    _FLAG(("--inbox-prefix",), "beginning of reply subjects", _TEXT, metavar="PREFIX"),
    _FLAG(("--name", "--connection-name"), "name of the connection", _TEXT),
    _FLAG(("--trace",), "show each request to the server, and its answer, on standard error"),
)  # fmt: skip
"""The flags of commands that talk to a server."""

OUTPUT_FLAGS: Final = (
    _FLAG(("--json", "-j"), "print JSON; for what does not end a line each"),
    _FLAG(("--format",), "print keys of the answer, such as '{subject} {sequence}'", _TEXT,
          metavar="TEMPLATE"),
    _FLAG(("--quiet", "-q"), "print nothing but names, or the body"),
    _FLAG(("--color",), "colours", _TEXT, default="auto", choices=("auto", "always", "never")),
    _FLAG(("--no-interaction",), "never ask; what would need an answer is not done"),
    _FLAG(("--no-progress",), "no progress of long work"),
)  # fmt: skip
"""The flags of all commands."""

_TIMEOUT: Final = 5.0
_EVENTS: Final = "$JS.EVENT"


class ConnectionSettings(NamedTuple):
    """The server to connect to, and who to be there, by flags, environment and context.

    `timeout` is seconds.
    """

    url: str | None
    options: ConnectOptions
    context: str | None
    """The name of the context that took part, None without one."""
    api_prefix: str | None
    """The beginning of the subjects of JetStream's API, None for the usual one."""
    event_prefix: str
    """The beginning of the subjects of JetStream's events."""
    timeout: float


def connection_settings(
    options: argparse.Namespace,
    warn: Callable[[str], None],
    trace: Callable[[str, bytes], None] | None = None,
) -> ConnectionSettings:
    """Return the settings of a connection. Raises: CommandError, CredentialsError, TLSFileError."""
    from headrace.client.options import ConnectOptions

    name = _context_name(options)
    context = _context(name)
    url = options.server or os.environ.get("NATS_URL") or None
    timeout = timeout_of(options)
    domain = options.js_domain
    prefix = options.js_api_prefix or (f"$JS.{domain}.API" if domain else None)
    if prefix is None and context.jetstream_domain:
        prefix = f"$JS.{context.jetstream_domain}.API"
    return ConnectionSettings(
        url=url or context.url,
        options=ConnectOptions(
            name=options.name or "headrace",
            credentials=_credentials(options, context, has_url=url is not None, warn=warn),
            tls=_tls(options, context),
            tls_first=options.tls_first or context.tls_first,
            timeout=timeout,
            inbox_prefix=options.inbox_prefix or context.inbox_prefix or "_INBOX",
            trace=trace,
        ),
        context=name,
        api_prefix=prefix or context.jetstream_api_prefix,
        event_prefix=context.jetstream_event_prefix or _EVENTS,
        timeout=timeout,
    )


def take_user_as_token(options: argparse.Namespace) -> None:
    """Make a `--user` without a password the token that it is to the tool nats."""
    has_password = options.password is not None or options.password_file is not None
    if options.user is not None and not has_password and not os.environ.get("NATS_PASSWORD"):
        options.token, options.user = options.user, None


def timeout_of(options: argparse.Namespace) -> float:
    """Return the seconds to wait for an answer. Raises: CommandError for a variable that is no duration."""
    if options.timeout is not None:
        return float(options.timeout / 1e9)
    text = os.environ.get("NATS_TIMEOUT")
    if not text:
        return _TIMEOUT
    from headrace.cli.values import read_duration

    try:
        return read_duration(text) / 1e9
    except ValueError as error:
        raise CommandError(f"NATS_TIMEOUT: {error}", ExitCode.WRONG_USE) from None


def _context_name(options: argparse.Namespace) -> str | None:
    if options.no_context:
        if options.context:
            raise CommandError("--context and --no-context exclude each other", ExitCode.WRONG_USE)
        return None
    name = options.context or os.environ.get("NATS_CONTEXT")
    if name:
        return str(name)
    from headrace.client.saved_context import selected_context

    return selected_context()


def _context(name: str | None) -> SavedContext:
    if name is not None:
        from headrace.client.contexts import read_context

        return read_context(name)
    from headrace.client.saved_context import SavedContext

    return SavedContext()


def _credentials(
    options: argparse.Namespace, context: SavedContext, *, has_url: bool, warn: Callable[[str], None]
) -> Credentials | None:
    """Return who to be: of one of the flags, else of the environment or the URL, else of the context."""
    ways = [name for name in ("user", "token", "creds", "nkey", "jwt") if getattr(options, name) is not None]
    if len(ways) > 1:
        text = " and ".join(f"--{name}" for name in ways)
        raise CommandError(f"{text} exclude each other", ExitCode.WRONG_USE)
    for first, second in (("password", "user"), ("password_file", "user"), ("seed", "jwt"), ("jwt", "seed")):
        if getattr(options, first) is not None and getattr(options, second) is None:
            names = f"--{first.replace('_', '-')} needs --{second}"
            raise CommandError(names, ExitCode.WRONG_USE)
    if ways:
        return _of_flag(options, ways[0], warn)
    url = options.server or os.environ.get("NATS_URL") or ""
    if has_url and "@" in url:
        return None  # the URL says it
    return _of_environment() or context.credentials or None


def _of_flag(options: argparse.Namespace, way: str, warn: Callable[[str], None]) -> Credentials:
    from headrace.client.address import Credentials, read_credentials_file, read_seed_file

    match way:
        case "creds":
            return read_credentials_file(options.creds)
        case "nkey":
            return read_seed_file(options.nkey)
        case "token":
            warn("--token can be seen by others on this machine; NATS_TOKEN and contexts cannot")
            return Credentials(token=options.token)
        case "jwt":
            return Credentials(jwt=options.jwt, seed=options.seed)
    return Credentials(user=options.user, password=_password(options, warn))


def _of_environment() -> Credentials | None:
    from headrace.client.address import Credentials, read_credentials_file, read_seed_file

    env = os.environ
    if env.get("NATS_USER"):
        return Credentials(user=env["NATS_USER"], password=env.get("NATS_PASSWORD", ""))
    if env.get("NATS_TOKEN"):
        return Credentials(token=env["NATS_TOKEN"])
    if env.get("NATS_CREDS"):
        return read_credentials_file(env["NATS_CREDS"])
    if env.get("NATS_NKEY"):
        return read_seed_file(env["NATS_NKEY"])
    if env.get("NATS_JWT") and env.get("NATS_SEED"):
        return Credentials(jwt=env["NATS_JWT"], seed=env["NATS_SEED"])
    return None


def _password(options: argparse.Namespace, warn: Callable[[str], None]) -> str:
    if options.password_file is not None:
        if options.password is not None:
            raise CommandError("--password and --password-file exclude each other", ExitCode.WRONG_USE)
        try:
            with open(options.password_file, encoding="utf-8") as file:
                return file.read().rstrip("\r\n")
        except OSError as error:
            text = f"cannot read {options.password_file}: {error.strerror or error}"
            raise CommandError(text, ExitCode.NO_CONNECTION) from None
    if options.password == "-":
        from headrace.cli.confirm import ask_hidden

        return ask_hidden(options.no_interaction, f"password of {options.user}: ")
    if options.password is None:
        return os.environ.get("NATS_PASSWORD", "")
    warn("--password can be seen by others on this machine; better: --password-file, or - to be asked")
    return str(options.password)


def tls_of(options: argparse.Namespace) -> ssl.SSLContext | None:
    """Return the TLS context of the flags alone; None without them. Raises: CommandError, TLSFileError."""
    from headrace.client.saved_context import SavedContext

    return _tls(options, SavedContext())


def _tls(options: argparse.Namespace, context: SavedContext) -> ssl.SSLContext | None:
    env = os.environ
    authorities = options.tls_ca or env.get("NATS_CA") or context.tls_ca_file
    certificate = options.tls_cert or env.get("NATS_CERT") or context.tls_cert_file
    key = options.tls_key or env.get("NATS_KEY") or context.tls_key_file
    if (certificate is None) != (key is None):
        raise CommandError("--tls-cert and --tls-key need each other", ExitCode.WRONG_USE)
    if authorities is None and certificate is None:
        return None
    from headrace.client.tls import client_context

    return client_context(authorities, certificate, key)
