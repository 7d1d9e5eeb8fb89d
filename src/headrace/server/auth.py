"""Authentication of clients by the configuration: a token, users with passwords or nkeys, or none of these.

Here lives the decision over the credentials of one CONNECT, on the loop or beside it. Never lives here: the
wire, timeouts, what an identity may do (`core.permissions`). No secret leaves this module: not in a repr, a
log line or an exception.
Source: client protocol, section 8; order of the checks compared with the Go server 2.15.1.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from headrace import limits
from headrace.conf.account_options import GLOBAL_ACCOUNT, ConnectionType
from headrace.core.permissions import PermissionSet
from headrace.protocol import nkeys
from headrace.server import passwords

if TYPE_CHECKING:
    from headrace.conf.account_options import Permissions, UserOptions
    from headrace.conf.options import Options
    from headrace.core.grants import TokenIdentity
    from headrace.protocol.info import ClientConnect

    _Given = tuple[ClientConnect, bytes, str, tuple[bytes, ...] | None]

    class ApplicantAccess(Protocol):
        """The rules for one port."""

        @property
        def authenticator(self) -> Authenticator:
            """The authenticator of now: a reload replaces it."""

        @property
        def connection_type(self) -> str:
            """STANDARD, WEBSOCKET, LEAFNODE or LEAFNODE_WS: users may be limited to some of them."""

        @property
        def kind(self) -> str:
            """The type of connection in monitoring and in messages about clients."""

        @property
        def maps_certificates(self) -> bool:
            """True if a certificate says which user a client is."""


AUTHORIZATION_VIOLATION: Final = "Authorization Violation"
"""The text of the -ERR that refuses a connection, also the first words of the log line about it."""


_STANDARD: Final = ConnectionType.STANDARD.value
_TOKEN_USER: Final = "[REDACTED]"


def authentication_timeout(options: Options) -> float:
    """Seconds that a client has for its CONNECT."""
    configured = options.authorization.timeout
    if configured is not None:
        return configured
    return options.tls.timeout + 1.0 if options.tls else limits.AUTH_TIMEOUT


class ConnectCredentials(Protocol):
    """The part of a CONNECT that authentication reads; None or "" means not given."""

    @property
    def user(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...
    @property
    def auth_token(self) -> str | None: ...
    @property
    def nkey(self) -> str | None: ...
    @property
    def sig(self) -> str | None: ...


class Identity(Struct, frozen=True):
    """The identity that a connection acts as. `permissions` None: everything is permitted.

    `user` is what monitoring and logs may show: a user name, an nkey's public key, "[REDACTED]" for one
    who gave only a token, None for one who gave nothing. `token`: what a JWT grants, where one did.
    `proxy_required`: who does not come through a trusted proxy is refused all the same. `proven`: the user
    that it is let in as, however it calls itself; None where there is none (no users, one token for all).
    """

    user: str | None = None
    permissions: PermissionSet | None = None
    account: str = GLOBAL_ACCOUNT
    token: TokenIdentity | None = None
    proxy_required: bool = False
    proven: str | None = None

    def of_token(self, token: TokenIdentity) -> Identity:
        """Return the identity with what this token grants."""
        return replace(self, permissions=_permission_set(token.permissions), token=token)


class Authenticator:
    """Checks credentials against the configured ones.

    Raises: ConfigError from the constructor if a permission is not a valid subject.
    """

    def __init__(self, options: Options) -> None:
        authorization = options.authorization
        self._token = authorization.token
        self._users: dict[str, UserOptions] = {}
        self._nkeys: dict[str, UserOptions] = {}
        self._accounts: dict[str, str] = {}
        accounts = {GLOBAL_ACCOUNT: authorization.users} | {a.name: a.users for a in options.accounts}
        for account, entry in ((name, entry) for name, users in accounts.items() for entry in users):
            self._accounts[entry.nkey or entry.user or ""] = account
            if entry.nkey is not None:
                self._nkeys[entry.nkey] = entry
            elif entry.user is not None:
                self._users[entry.user] = entry
        self._no_auth_user = options.no_auth_user
        self._always_nonce = options.always_enable_nonce
        self._others_sign = options.operator is not None or bool(options.trusted_proxies)
        self._others_decide = options.operator is not None or authorization.callout is not None
        self._proxy_required = authorization.proxy_required
        self._required = options.requires_authentication
        self._maps_certificates = options.maps_certificates
        defaults = {a.name: _permission_set(a.default_permissions) for a in options.accounts}
        defaults[GLOBAL_ACCOUNT] = _permission_set(authorization.default_permissions)
        self._permissions: dict[str, PermissionSet | None] = {
            name: defaults[self._accounts[name]]
            if entry.permissions is None
            else _permission_set(entry.permissions)
            for name, entry in (*self._users.items(), *self._nkeys.items())
        }
        if authorization.callout is not None:
            self._keep_from_asking(authorization.callout.account, options)
        self._connection_types = {
            name: entry.connection_types
            for name, entry in (*self._users.items(), *self._nkeys.items())
            if entry.connection_types is not None
        }
        self._load_packages()

    @property
    def required(self) -> bool:
        """True if a client must give credentials; INFO says so with `auth_required`.

        False when nothing is configured, and when clients without credentials act as `no_auth_user`.
        """
        return self._required and self._no_auth_user is None

    @property
    def has_users(self) -> bool:
        """True if users or a token are configured: then a client that says nothing is given up in time."""
        return self._required

    @property
    def needs_nonce(self) -> bool:
        """True if INFO must carry a nonce for clients to sign."""
        return self._always_nonce or self._others_sign or bool(self._nkeys)

    @property
    def plaintext_passwords_configured(self) -> bool:
        """True if a password (not a token) stands unhashed in the configuration, which is worth a warning."""
        return any(not passwords.is_bcrypt(entry.password or "") for entry in self._users.values())

    @property
    def has_names(self) -> bool:
        """True if there are users with names, which certificates may have."""
        return bool(self._users)

    def default_identity(self, connection_type: str = _STANDARD) -> Identity | None:
        """The identity of a client before its CONNECT; None where the CONNECT must say who it is."""
        if not self._required:
            return Identity()
        if self._no_auth_user is None or self._no_auth_user in self._nkeys:
            return None  # whoever acts as an nkey has to say CONNECT, if nothing else
        identity = self._identity(self._no_auth_user, connection_type)
        return None if identity is not None and identity.proxy_required else identity

    def is_slow(self, connect: ConnectCredentials, certificates: tuple[bytes, ...] | None = None) -> bool:
        """True if `authenticate` has to check a bcrypt hash, which takes long enough for a worker thread."""
        if certificates:  # whose it is is not known yet
            return any(passwords.is_bcrypt(entry.password or "") for entry in self._users.values())
        stored, _ = self._password_check(connect)
        return stored is not None and passwords.is_bcrypt(stored) and not self._acts_as_no_auth_user(connect)

    def authenticate(
        self,
        connect: ConnectCredentials,
        nonce: bytes,
        connection_type: str = _STANDARD,
        certificates: tuple[bytes, ...] | None = None,
    ) -> Identity | None:
        """The identity of a client; None if its credentials are wrong, missing, or not for its kind of port.

        `certificates`, where they say who a user is: the client's verified chain, its own first; None where
        they do not. `nonce` is the text sent in INFO, b"" if there was none. Thread-safe: it only reads.
        Cost: a bcrypt hash of cost 11 takes 100 ms and more, see `is_slow`.
        """
        if not self._required:
            return Identity(user=shown_user(connect))
        if certificates is not None and self._users and not (connect.nkey and self._nkeys):
            return self._mapped(connect, connection_type, certificates)
        if self._acts_as_no_auth_user(connect):
            assert self._no_auth_user is not None
            return self._identity(self._no_auth_user, connection_type)
        if connect.nkey and self._nkeys:
            # An nkey in CONNECT settles it: a password beside it is not even looked at.
            is_signed = self._is_signed(connect.nkey, connect.sig, nonce)
            return self._identity(connect.nkey, connection_type) if is_signed else None
        return self._by_password(connect, connection_type)

    def _by_password(self, connect: ConnectCredentials, connection_type: str) -> Identity | None:
        stored, given = self._password_check(connect)
        if stored is None or not passwords.matches(stored, given):
            return None
        if not stored and self._maps_certificates and connect.user != self._no_auth_user:
            return None  # nothing but a certificate proves who it is: two empty passwords are no proof
        return self._of_password(connect, connection_type)

    def may_publish(self, user: str, subject: bytes) -> bool:
        """True if the user of this name may publish to a subject; anybody may where names are not asked for.

        Names that are not configured may be those of tokens, or of a callout, and then more is not known.
        """
        if not self._required or self._token is not None:
            return True
        if user not in self._accounts:
            return self._others_decide
        permissions = self._permissions.get(user)
        return permissions is None or permissions.may_publish(subject)

    def account_of(self, identity: Identity) -> str | None:
        """The account of the configured user that an identity is; None: it is none of them (now)."""
        return self._accounts.get(identity.user or "") if self._token is None else None

    def recognised(
        self, identity: Identity, connect: ConnectCredentials, before: Authenticator, connection_type: str
    ) -> Identity | None:
        """The identity of a client that `before` has let in as `identity`, if nothing needs another check.

        That is the signature of an nkey that both know, and a password that stands against the same hash.
        None: `authenticate` must decide. So nobody waits for what has been calculated once.
        """
        if self._acts_as_no_auth_user(connect):
            return None
        if (
            connect.nkey in self._nkeys
            and connect.nkey in before._nkeys
            and connect.nkey != before._no_auth_user
        ):
            return self._identity(connect.nkey or "", connection_type)
        stored, _ = self._password_check(connect)
        if stored is None or not passwords.is_bcrypt(stored) or before._password_check(connect)[0] != stored:
            return None
        # A certificate may have said who it is, and then nobody has looked at the password of another user.
        was_checked = self._token is not None or identity.user == connect.user
        return self._of_password(connect, connection_type) if was_checked else None

    def _of_password(self, connect: ConnectCredentials, connection_type: str) -> Identity | None:
        """The identity of a client whose password, or token, is right."""
        if self._token is not None:
            return Identity(user=shown_user(connect), proxy_required=self._proxy_required)
        return self._identity(connect.user or "", connection_type)

    def _mapped(
        self, connect: ConnectCredentials, connection_type: str, certificates: tuple[bytes, ...]
    ) -> Identity | None:
        """The user that the certificate names; a password that user has must be given as well."""
        from headrace.core.certificate_names import mapped_user  # loaded where certificates are looked at

        allowed = [name for name in self._users if self._identity(name, connection_type) is not None]
        name = mapped_user(certificates[0], allowed) if certificates else None
        if name is None:
            return None
        matches = passwords.matches(self._users[name].password or "", connect.password or "")
        return self._identity(name, connection_type) if matches else None

    def _acts_as_no_auth_user(self, connect: ConnectCredentials) -> bool:
        name = self._no_auth_user
        if name is None or connect.user or connect.password or connect.auth_token:
            return False
        return not connect.nkey or not self._nkeys  # where there are no nkey users, none is looked at

    def _is_signed(self, nkey: str, signature: str | None, nonce: bytes) -> bool:
        if nkey not in self._nkeys:
            return False
        if nkey == self._no_auth_user:
            return True  # anybody may act as this one
        if not signature:
            return False
        return nkeys.verify_signature(nkey, nonce, signature)

    def _password_check(self, connect: ConnectCredentials) -> tuple[str | None, str]:
        """The configured secret that applies (None: none does) and what the client gave for it."""
        if not self._required or (connect.nkey and self._nkeys):
            return None, ""
        if self._token is not None:
            return self._token, connect.auth_token or ""
        entry = self._users.get(connect.user) if connect.user else None
        if entry is None:
            return None, ""
        return entry.password or "", connect.password or ""

    def _identity(self, name: str, connection_type: str) -> Identity | None:
        allowed = self._connection_types.get(name)
        if allowed is not None and connection_type not in allowed:
            return None
        entry = self._users.get(name) or self._nkeys[name]
        return Identity(
            name,
            self._permissions.get(name),
            self._accounts[name],
            proxy_required=entry.proxy_required,
            proven=name,
        )

    def _keep_from_asking(self, account: str, options: Options) -> None:
        """Take from users of a callout's account the right to ask its service, whose word lets others in."""
        from headrace.core.callout import without_asking  # only who has a callout pays for loading it

        default = options.authorization.default_permissions
        default = next((a.default_permissions for a in options.accounts if a.name == account), default)
        for name, entry in (*self._users.items(), *self._nkeys.items()):
            if self._accounts[name] == account:
                self._permissions[name] = PermissionSet(without_asking(entry.permissions or default))

    def _load_packages(self) -> None:
        """Load what the checks will need now, since the first client should not wait for an import."""
        secrets = [entry.password or "" for entry in self._users.values()]
        if any(map(passwords.is_bcrypt, [*secrets, self._token or ""])):
            import bcrypt  # noqa: F401
        if self._nkeys:
            import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401


def _permission_set(permissions: Permissions | None) -> PermissionSet | None:
    return None if permissions is None else PermissionSet(permissions)


def shown_user(connect: ConnectCredentials) -> str | None:
    """The user that a client says it is, as far as that may be shown; None when it says nothing."""
    if connect.nkey or connect.user:
        return connect.nkey or connect.user
    return _TOKEN_USER if connect.auth_token else None


class CredentialCheck:
    """The check of one connection's credentials.

    `nonce`: what INFO had for signatures, empty without. `peer_certificates`: DER, its own first.
    """

    __slots__ = ("_access", "nonce", "peer_certificates")

    def __init__(self, access: ApplicantAccess, nonce: bytes) -> None:
        self._access = access
        self.nonce: Final = nonce
        self.peer_certificates: tuple[bytes, ...] = ()

    @property
    def mapped_certificates(self) -> tuple[bytes, ...] | None:
        """The certificates that say which user this is; None where they do not (`verify_and_map`)."""
        return self.peer_certificates if self._access.maps_certificates else None

    def is_slow(self, connect: ClientConnect) -> bool:
        """True if the check takes long: bcrypt does on purpose."""
        return self._access.authenticator.is_slow(connect, self.mapped_certificates)

    def authenticate(self, connect: ClientConnect) -> Identity | None:
        """Check a CONNECT on the loop; None: these are no credentials of a user."""
        return self._access.authenticator.authenticate(*self._given(connect))

    async def in_thread(self, connect: ClientConnect) -> Identity | None:
        """Check a CONNECT in a thread: the loop goes on, this connection waits.

        The answer is that of the authenticator at the end: it may be replaced meanwhile.
        """
        loop, given = asyncio.get_running_loop(), self._given(connect)
        while True:
            authenticator = self._access.authenticator
            identity = await loop.run_in_executor(None, authenticator.authenticate, *given)
            if authenticator is self._access.authenticator:
                return identity

    async def check(self, connect: ClientConnect) -> Identity | None:
        """Check a CONNECT where it takes the loop no time."""
        return await self.in_thread(connect) if self.is_slow(connect) else self.authenticate(connect)

    def _given(self, connect: ClientConnect) -> _Given:
        return connect, self.nonce, self._access.connection_type, self.mapped_certificates
