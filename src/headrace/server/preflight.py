"""The checks before a server starts: whether its options can be, who decides about clients, what its log says
first.

Never lives here: ports and certificates (`listeners`), the start itself (`server`).
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Protocol

from headrace import limits
from headrace.conf.account_options import DEFAULT_SYSTEM_ACCOUNT
from headrace.conf.account_rules import account_problems
from headrace.errors import ConfigError, ConfigProblem, StartError
from headrace.protocol.info import COMPATIBLE_VERSION
from headrace.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.conf.options import Options
    from headrace.core.service import Service
    from headrace.server.account_services import AccountServices, HostedAccounts
    from headrace.server.auth import Authenticator
    from headrace.server.authorizer import AuthorizerHost, ExternalAuthorizer
    from headrace.server.port import AccountServicesHost, LogHost

    class _Announced(LogHost, Protocol):
        @property
        def name(self) -> str: ...
        @property
        def server_id(self) -> str: ...
        @property
        def authenticator(self) -> Authenticator: ...


def check_accounts(options: Options) -> None:
    """Check the accounts of options.

    Raises: ConfigError for accounts that cannot be; those of a file were checked with it.
    """
    if options.operator is not None:  # accounts are in tokens then
        return
    if not options.accounts and options.system_account in (None, DEFAULT_SYSTEM_ACCOUNT):
        return
    problems = [ConfigProblem(message) for message, _ in account_problems(options)]
    if problems:
        raise ConfigError(problems)


def check_alone(options: Options) -> None:
    """Check that options ask for one process.

    Raises: StartError if for several: a server in a program is one.
    """
    from headrace.conf.processes import count as count_of

    if count_of(options.processes) > 1:
        raise StartError("processes is for headrace serve: a server inside a program is one process")


def check_services(
    options: Options, services: Sequence[Service], account_services: HostedAccounts | None
) -> None:
    """Check the services that were given. Raises: StartError when the options ask for others."""
    if options.streaming is not None and not services:
        raise StartError("streaming is configured, but no service was given that would do it")
    if options.jetstream is not None and account_services is None:
        raise StartError("JetStream is configured, but nothing was given that would do it")
    if options.streaming is not None and options.streaming.nats_server is not None:
        raise StartError("streaming is configured to use a NATS server elsewhere, not this one")


def external_authorizer(server: AuthorizerHost) -> ExternalAuthorizer | None:
    """Make the authorizer that asks others about clients; a server without one does not load its modules."""
    options = server.options
    if options.operator is None and options.authorization.callout is None:
        return None
    from headrace.server.authorizer import ExternalAuthorizer

    return ExternalAuthorizer(server)


def hosted(server: AccountServicesHost, services: AccountServices | None) -> HostedAccounts | None:
    if services is None:
        return None
    from headrace.server.account_services import HostedAccounts

    return HostedAccounts(server, services)


def announce(server: _Announced) -> None:
    """Log the first lines: version, names, the configuration file and its warnings."""
    options, log = server.options, server.log
    log.info("Starting headrace")
    log.info("  Version:  %s (speaks nats-server %s)", __version__, COMPATIBLE_VERSION)
    log.info("  Python:   %s", platform.python_version())
    if options.cluster is not None and options.cluster.name and options.cluster.port:
        log.info("  Cluster:  %s", options.cluster.name)
    log.info("  Name:     %s", server.name)
    log.info("  ID:       %s", server.server_id)
    if options.config_file:
        log.info("Using configuration file: %s (%s)", options.config_file, options.config_digest)
    for warning in (*options.warnings, *options.remarks):
        log.warning("%s", warning)
    if options.max_payload > limits.MAX_PAYLOAD_WARNING:
        log.warning(
            "Maximum payloads over %.2f MB are generally discouraged and could lead to poor performance",
            limits.MAX_PAYLOAD_WARNING / (1 << 20),
        )
    if server.authenticator.plaintext_passwords_configured:
        log.warning("Plaintext passwords detected, use nkeys or bcrypt")
    if options.jetstream is None and any(account.jetstream for account in options.accounts):
        log.warning("Accounts have JetStream enabled, and the server has not: they have none")
