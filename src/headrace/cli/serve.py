"""`headrace serve` and `headrace streaming`: from the command line to a running server.

Here lives what happens with flags before a server exists: help, version, signals, the check of a
configuration, options. Never lives here: running (`headrace.app`).
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headrace.cli import flags
from headrace.cli.arguments import UsageError
from headrace.cli.names import PROGRAM, version_line
from headrace.errors import ConfigError, HeadraceError
from headrace.interruption import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.cli.flags import Invocation
    from headrace.conf.options import Options

_FAILURE: Final = 1

_TLS_HELP: Final = """\
TLS is configured in a block of the configuration file:

    tls {
        cert_file: "./server-cert.pem"   # certificate chain of the server
        key_file: "./server-key.pem"     # its private key, without a pass phrase
        ca_file: "./ca.pem"              # authorities that clients' certificates need
        verify: true                     # ask clients for a certificate
        timeout: "2s"                    # a handshake must be finished by then
        handshake_first: false           # true, "auto" or a time to wait: TLS before INFO
        min_version: "1.3"               # 1.2 or 1.3
    }

or by the flags --tls --tlscert --tlskey --tlsverify --tlscacert."""


def run(
    arguments: Sequence[str], program: str = PROGRAM, *, streaming: bool = False, more_help: str = ""
) -> int:
    """Do what the arguments say; gives the exit code, after the server has stopped if one was started.

    `program` is the name shown in messages. `streaming`: take the flags of nats-streaming-server as well and
    run it; `more_help` ends the text of --help.
    """
    try:
        invocation = flags.read_invocation(arguments, streaming=streaming)
        if invocation.version:
            print(version_line(program))
        elif invocation.help:
            command = "streaming" if streaming else "serve"
            usage = f"{program} {command}" if program == PROGRAM else program
            print(flags.help_text(usage, streaming=streaming), *filter(None, [more_help]), sep="\n")
        elif invocation.help_tls:
            print(_TLS_HELP)
        elif invocation.signal:
            from headrace.cli.signals import send_signal

            send_signal(invocation.signal)
        elif invocation.test_config:
            with _without_collections():
                return _test_config(invocation, program)
        else:
            with _without_collections():
                return _serve(invocation)
    except ConfigError as error:
        for problem in error.problems:
            # Test tools look for the words of nats-server.
            _complain(program, f"Parse error: {problem}" if problem.is_syntax else str(problem))
        return _FAILURE
    except HeadraceError as error:
        _complain(program, str(error))
        return _FAILURE
    return 0


@contextmanager
def _without_collections() -> Iterator[None]:
    """A start makes much that stays and little that goes; whoever serves turns the collector on again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _serve(invocation: Invocation) -> int:
    try:
        if invocation.console:
            from secrets import token_urlsafe  # who runs no console does not pay for loading it

            invocation.operator_secret = token_urlsafe(24)
        options = options_of_invocation(invocation)
        if options.processes != 1:
            from headrace.processes import run  # most servers are one process

            return run(options)
        from headrace import app

        return app.run(options)
    except Interrupted:  # there is no log yet that could say it
        return 0


def _test_config(invocation: Invocation, program: str) -> int:
    """Report on the configuration file; as with the Go server, warnings make the check fail."""
    if not invocation.config_file:
        raise UsageError("must specify [-c, --config] option to check configuration file syntax")
    options = options_of_invocation(invocation)
    for warning in options.warnings:
        _complain(program, warning)
    if options.warnings:
        return _FAILURE
    _complain(program, f"configuration file {invocation.config_file} is valid ({options.config_digest})")
    return 0


def options_of_invocation(invocation: Invocation) -> Options:
    """Combine flags and file into options. Raises: UsageError, ConfigError."""
    if invocation.unsupported is not None:
        raise UsageError(f"{invocation.unsupported} is not supported by this version yet")
    from headrace.conf.binding import load_options

    overrides = dict(invocation.overrides)
    if invocation.tls:
        overrides["tls_flags"] = invocation.tls
    if invocation.jetstream:
        overrides["jetstream_flags"] = invocation.jetstream
    if invocation.cluster:
        overrides["cluster_flags"] = invocation.cluster
    if invocation.console:
        overrides["console_flags"] = {"operator_secret": invocation.operator_secret}
    path = invocation.config_file
    if invocation.streaming is not None:
        path = path or invocation.streaming_config_file
        overrides["streaming_flags"] = _streaming_flags(invocation, path)
    return load_options(path or None, overrides=overrides)


def _streaming_flags(invocation: Invocation, path: str) -> object:
    from headrace.conf.streaming_rules import StreamingFlags

    own_file = invocation.streaming_config_file
    return StreamingFlags(
        enabled=invocation.streaming,
        config_file=own_file if own_file != path else None,
        flat=invocation.is_streaming_command or bool(own_file),
        settings=invocation.streaming_settings,
    )


def _complain(program: str, message: str) -> None:
    print(f"{program}: {message}", file=sys.stderr)
