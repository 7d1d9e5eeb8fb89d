"""Checks of who gets in: authentication, passwords, TLS, monitoring, certificates.

Never lives here: their texts and severities (`table`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.diagnosis.symptoms import Symptom
from headrace.cli.values import exact_time, shown_duration
from headrace.server.passwords import is_bcrypt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.cli.diagnosis.evidence import Evidence
    from headrace.conf.account_options import UserOptions
    from headrace.conf.mqtt_options import MqttOptions
    from headrace.conf.options import Options

SOON_NS: Final = 30 * 86_400 * 1_000_000_000
"""The time before its end in which a certificate ends soon: 30 days."""

_GROUP_AND_OTHERS: Final = 0o077
_TLS_BLOCKS: Final = ("cluster", "gateway", "leaf", "websocket", "mqtt")


def is_public(host: str | None) -> bool:
    """True if other machines may reach a port at an address: it is not one of this machine only."""
    if not host:
        return True
    from ipaddress import ip_address

    try:
        return not ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower().rstrip(".") != "localhost"


def no_authentication(evidence: Evidence) -> Iterator[Symptom]:
    """Ports for clients, public ones, that ask nobody who they are."""
    options = evidence.options
    if options is not None and is_public(options.host):
        asks = options.requires_authentication or (options.tls is not None and options.tls.verify)
        if not asks:
            yield Symptom(_file(evidence), f"{options.host}:{options.port} lets everybody in")
    mqtt = _public_mqtt(options)
    if mqtt is not None and not _asks_mqtt(options) and not (mqtt.tls is not None and mqtt.tls.verify):
        yield Symptom(_file(evidence), f"mqtt: {mqtt.host}:{mqtt.port} lets everybody in")
    for server in evidence.servers:
        varz = server.varz
        if "host" not in varz:
            continue  # a user of an account is told nothing about who may come
        if is_public(varz["host"]) and not (varz.get("auth_required") or varz.get("tls_verify")):
            yield Symptom(server.name, f"{varz.get('host')}:{varz.get('port')} lets everybody in")


def open_user(evidence: Evidence) -> Iterator[Symptom]:
    """A `no_auth_user` that may do everything, at a public address."""
    options = evidence.options
    if options is None or not options.no_auth_user or not is_public(options.host):
        return
    name = options.no_auth_user
    defaults = options.authorization.default_permissions
    for account, user in _users(options):
        may_all = user.permissions is None and (defaults is None or account is not None)
        if name in (user.user, user.nkey) and may_all:
            yield Symptom(_file(evidence), f"no_auth_user {name!r} has no permissions that limit it")


def plain_passwords(evidence: Evidence) -> Iterator[Symptom]:
    """Passwords and tokens that stand in the configuration as they are."""
    options = evidence.options
    if options is None:
        return
    plain = [
        f"user {user.user!r}" + ("" if account is None else f" of account {account!r}")
        for account, user in _users(options)
        if user.password and not is_bcrypt(user.password)
    ]
    monitor = options.http_authorization
    tokens = {
        "the token of authorization": options.authorization.token,
        "the password of http_authorization": None if monitor is None else monitor.password,
        "the token of http_authorization": None if monitor is None else monitor.token,
    }
    plain += [name for name, secret in tokens.items() if secret and not is_bcrypt(secret)]
    for name in plain:
        yield Symptom(
            _file(evidence), f"the password of {name} is plain" if "user" in name else f"{name} is plain"
        )


def secrets_readable(evidence: Evidence) -> Iterator[Symptom]:
    """A configuration with secrets that others of this machine may read."""
    options, file = evidence.options, evidence.file
    if options is None or file is None or not file.mode & 0o044:
        return
    secrets = [user.password for _, user in _users(options)]
    secrets += [options.authorization.token]
    if options.jetstream is not None:
        secrets.append(options.jetstream.encryption_key)
    if any(secret and not is_bcrypt(secret) for secret in secrets):
        yield Symptom(file.path, f"its mode is {file.mode & 0o777:04o}, and it has secrets")


def no_tls(evidence: Evidence) -> Iterator[Symptom]:
    """Public ports that passwords, tokens and messages reach in the open."""
    options = evidence.options
    if options is not None and is_public(options.host) and options.requires_authentication:
        if options.tls is None:
            yield Symptom(_file(evidence), f"{options.host}:{options.port} has no tls")
        elif options.allow_non_tls:
            yield Symptom(_file(evidence), f"{options.host}:{options.port} takes clients without TLS, too")
    mqtt = _public_mqtt(options)
    if mqtt is not None and mqtt.tls is None and _asks_mqtt(options):
        yield Symptom(_file(evidence), f"mqtt: {mqtt.host}:{mqtt.port} has no tls")
    for server in evidence.servers:
        varz = server.varz
        if varz.get("auth_required") and is_public(varz.get("host")) and not varz.get("tls_required"):
            yield Symptom(server.name, f"{varz.get('host')}:{varz.get('port')} does not ask for TLS")


def open_routes(evidence: Evidence) -> Iterator[Symptom]:
    """Public ports for routes, gateways or leaf nodes that any server may join."""
    options = evidence.options
    if options is None:
        return
    blocks: list[tuple[str, Any]] = [
        ("cluster", options.cluster),
        ("gateway", options.gateway),
        ("leafnodes", options.leafnodes),
    ]
    for name, block in blocks:
        port = getattr(block, "port", None)
        if block is None or not port or not is_public(getattr(block, "host", None)):
            continue
        if name == "leafnodes" and options.requires_authentication:
            continue  # its port takes the users of accounts
        # Routes and gateways with TLS always ask for a certificate.
        has_certificates = block.tls is not None and (name != "leafnodes" or block.tls.verify)
        if not has_certificates and not _asks(block):
            yield Symptom(_file(evidence), f"{name}: any server may join at {block.host}:{port}")


def open_monitoring(evidence: Evidence) -> Iterator[Symptom]:
    """Monitoring at a public address that anybody may read."""
    options = evidence.options
    if options is not None and (options.http_port or options.https_port):
        host = options.http_host or options.host
        if is_public(host) and options.http_authorization is None:
            yield Symptom(
                _file(evidence), f"{host}:{options.http_port or options.https_port} answers anybody"
            )
    for address in evidence.open_monitors:
        if is_public(address):
            yield Symptom(address, "monitoring answered without credentials")


def certificates_ended(evidence: Evidence) -> Iterator[Symptom]:
    """Certificates that are good no more."""
    for place, name, not_after in _certificates(evidence):
        if not_after <= evidence.now_ns:
            yield Symptom(place, f"{name} ended at {exact_time(not_after)}")


def certificates_end_soon(evidence: Evidence) -> Iterator[Symptom]:
    """Certificates that end within `SOON_NS`."""
    for place, name, not_after in _certificates(evidence):
        left = not_after - evidence.now_ns
        if 0 < left <= SOON_NS:
            yield Symptom(place, f"{name} ends in {shown_duration(left)}, at {exact_time(not_after)}")


def _certificates(evidence: Evidence) -> Iterator[tuple[str, str, int]]:
    from headrace.cli.values import read_time

    if evidence.file is not None:
        for certificate in evidence.file.certificates:
            yield _file(evidence), certificate.place, certificate.not_after_ns
    for server in evidence.servers:
        blocks = {"": server.varz, **{name: server.varz.get(name) or {} for name in _TLS_BLOCKS}}
        for name, block in blocks.items():
            told = block.get("tls_cert_not_after")
            if isinstance(told, str) and not told.startswith("0001-"):
                yield server.name, f"the certificate of {name or 'clients'}", read_time(told)


def _users(options: Options) -> Iterator[tuple[str | None, UserOptions]]:
    """Yield the users with the name of their account, None for those of `authorization`."""
    for user in options.authorization.users:
        yield None, user
    for account in options.accounts:
        for user in account.users:
            yield account.name, user


def _public_mqtt(options: Options | None) -> MqttOptions | None:
    """Return the MQTT port that other machines may reach, if there is one."""
    mqtt = None if options is None else options.mqtt
    return mqtt if mqtt is not None and is_public(mqtt.host) else None


def _asks_mqtt(options: Options | None) -> bool:
    """True if clients over MQTT have to say who they are."""
    if options is None or options.mqtt is None:
        return False
    return options.requires_authentication or options.mqtt.authorization.required


def _asks(block: Any) -> bool:
    """True if a block of peers has credentials that are asked for."""
    rules = getattr(block, "authorization", None)
    candidates: Iterable[Any] = (block, rules) if rules is not None else (block,)
    return any(getattr(each, name, None) for each in candidates for name in ("user", "users", "token"))


def _file(evidence: Evidence) -> str:
    assert evidence.file is not None
    return evidence.file.path
