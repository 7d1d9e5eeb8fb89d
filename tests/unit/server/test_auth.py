"""Authentication: every method, side by side, and that no secret gets out."""

from __future__ import annotations

import base64
import subprocess
import sys
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headrace.conf.account_options import AuthorizationOptions, Permissions, SubjectPermission, UserOptions
from headrace.conf.options import Options
from headrace.core.grants import Home, identity_of
from headrace.errors import ConfigError
from headrace.protocol import nkeys
from headrace.protocol.info import ClientConnect
from headrace.protocol.jwt.claims import UserClaims, UserLimitClaims
from headrace.server.auth import Authenticator, Identity
from headrace.server.authorizer import answered

HASH = "$2a$04$abcdefghijklmnopqrstuuVCBXHHrUT343LijgO78P7iXRt4cI2TC"
HASHED = "s3cr3t-bcrypt"
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
NKEY = nkeys.encode_public(nkeys.KeyKind.USER, PRIVATE.public_key().public_bytes_raw())
NONCE = b"abcdefghijklmno"
ONLY_B = Permissions(publish=SubjectPermission(allow=("b",)))


@dataclass(frozen=True)
class Connect:
    user: str | None = None
    password: str | None = None
    auth_token: str | None = None
    nkey: str | None = None
    sig: str | None = None


def signature(nonce: bytes = NONCE) -> str:
    return base64.urlsafe_b64encode(PRIVATE.sign(nonce)).decode().rstrip("=")


def authenticator(
    *users: UserOptions,
    token: str | None = None,
    no_auth_user: str | None = None,
    default_permissions: Permissions | None = None,
) -> Authenticator:
    authorization = AuthorizationOptions(token=token, users=users, default_permissions=default_permissions)
    return Authenticator(Options(authorization=authorization, no_auth_user=no_auth_user))


def user(name: str, password: str | None, publish: str | None = None) -> UserOptions:
    permissions = Permissions(publish=SubjectPermission((publish,))) if publish else None
    return UserOptions(user=name, password=password, permissions=permissions)


def accepts(auth: Authenticator, connect: Connect, nonce: bytes = NONCE) -> bool:
    return auth.authenticate(connect, nonce) is not None


def test_nothing_configured_accepts_anything_and_keeps_the_given_name() -> None:
    auth = authenticator()
    assert not auth.required
    assert not auth.needs_nonce
    assert auth.default_identity() == Identity()
    assert auth.authenticate(Connect(), b"") == Identity(None, None, "$G")
    assert auth.authenticate(Connect(user="u", password="x"), b"") == Identity("u")
    assert auth.authenticate(Connect(auth_token="secret"), b"") == Identity("[REDACTED]")
    assert auth.authenticate(Connect(nkey=NKEY), b"") == Identity(NKEY)
    assert not auth.is_slow(Connect(user="u", password="x"))


@pytest.mark.parametrize(
    ("connect", "expected"),
    [
        (Connect(auth_token="tok"), True),
        (Connect(auth_token="tok", user="x", password="y"), True),
        (Connect(auth_token="tok", nkey=NKEY), True),
        (Connect(auth_token="to"), False),
        (Connect(auth_token="tök"), False),
        (Connect(auth_token=""), False),
        (Connect(user="tok", password="tok"), False),
        (Connect(), False),
    ],
)
def test_token(connect: Connect, expected: bool) -> None:
    auth = authenticator(token="tok")
    assert auth.required
    assert auth.default_identity() is None
    assert accepts(auth, connect) is expected


def test_token_identity_names_the_user_or_hides_the_token() -> None:
    auth = authenticator(token="tok")
    assert auth.authenticate(Connect(auth_token="tok"), b"") == Identity("[REDACTED]")
    assert auth.authenticate(Connect(auth_token="tok", user="x"), b"") == Identity("x")


def test_only_credentials_of_its_own_prove_who_a_user_is() -> None:
    def proven(auth: Authenticator, connect: Connect) -> str | None:
        identity = auth.authenticate(connect, NONCE)
        assert identity is not None
        return identity.proven

    assert proven(authenticator(), Connect(user="alice", password="x")) is None
    assert proven(authenticator(token="tok"), Connect(auth_token="tok", user="alice")) is None
    assert proven(authenticator(user("alice", "p")), Connect(user="alice", password="p")) == "alice"


@pytest.mark.parametrize(("name", "shown", "proven"), [("joe", "joe", "joe"), ("", "alice", None)])
def test_a_callout_proves_the_name_that_it_gives(name: str, shown: str, proven: str | None) -> None:
    """The key in its answer is another one each time, and what a client calls itself proves nothing."""
    answer = UserClaims(subject="U1", name=name)
    found = identity_of(answer, UserLimitClaims(), Home("A", "A"), None)
    identity = answered(found, "AUTH", ClientConnect(user="alice"), answer)
    assert (identity.user, identity.proven) == (shown, proven)


@pytest.mark.parametrize(
    ("connect", "expected"),
    [
        (Connect(user="u", password="p"), True),
        (Connect(user="ü", password="é"), True),
        (Connect(user="u", password="p", auth_token="junk"), True),
        (Connect(user="u", password="p", nkey="junk"), True),
        (Connect(user="v", password=""), True),
        (Connect(user="v"), True),
        (Connect(user="v", password="x"), False),
        (Connect(user="u", password="x"), False),
        (Connect(user="u", password=""), False),
        (Connect(user="u"), False),
        (Connect(user="U", password="p"), False),
        (Connect(user="w", password="p"), False),
        (Connect(user="", password="p"), False),
        (Connect(user="u", password="\ud800"), False),
        (Connect(auth_token="p"), False),
        (Connect(), False),
    ],
)
def test_users(connect: Connect, expected: bool) -> None:
    auth = authenticator(user("u", "p"), user("v", None), user("ü", "é"))
    assert accepts(auth, connect) is expected
    assert not auth.is_slow(connect)


def test_users_identity_carries_own_or_default_permissions() -> None:
    default = Permissions(publish=SubjectPermission(("default",)))
    auth = authenticator(user("own", "p", "mine"), user("plain", "p"), default_permissions=default)
    own = auth.authenticate(Connect(user="own", password="p"), b"")
    plain = auth.authenticate(Connect(user="plain", password="p"), b"")
    assert own is not None
    assert plain is not None
    assert own.user == "own"
    assert own.permissions is not None
    assert plain.permissions is not None
    assert own.permissions.may_publish(b"mine")
    assert not own.permissions.may_publish(b"default")
    assert plain.permissions.may_publish(b"default")


def test_users_without_any_permissions_have_none() -> None:
    assert authenticator(user("u", "p")).authenticate(Connect(user="u", password="p"), b"") == Identity(
        "u", proven="u"
    )


def test_permissions_malformed_are_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r'subject "a\.\.b" is not a valid subject'):
        authenticator(user("u", "p", "a..b"))


@pytest.mark.parametrize(
    ("password", "expected"),
    [
        (HASHED, True),
        (HASH, False),
        ("", False),
        (None, False),
        ("x" * 200, False),
        ("a\0b", False),
        ("é" * 80, False),
    ],
)
def test_bcrypt_user(password: str | None, expected: bool) -> None:
    auth = authenticator(user("u", HASH))
    connect = Connect(user="u", password=password)
    assert auth.is_slow(connect)
    assert accepts(auth, connect) is expected


@pytest.mark.parametrize("kind", ["2a", "2b", "2y", "2x"])
def test_bcrypt_all_spellings_of_the_hash_are_understood(kind: str) -> None:
    auth = authenticator(user("u", HASH.replace("2a", kind)))
    assert accepts(auth, Connect(user="u", password=HASHED))


def test_bcrypt_token() -> None:
    auth = authenticator(token=HASH)
    assert auth.is_slow(Connect(auth_token=HASHED))
    assert accepts(auth, Connect(auth_token=HASHED))
    assert not accepts(auth, Connect(auth_token=HASH))


def test_bcrypt_broken_hash_accepts_nothing() -> None:
    auth = authenticator(user("u", "$2a$04$broken"))
    assert not accepts(auth, Connect(user="u", password="$2a$04$broken"))


def test_bcrypt_long_password_counts_seventy_two_bytes() -> None:
    import bcrypt

    stored = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
    assert accepts(authenticator(user("u", stored)), Connect(user="u", password="x" * 100))


@pytest.mark.parametrize(
    ("connect", "expected"),
    [
        (Connect(nkey=NKEY, sig=signature()), True),
        (Connect(nkey=NKEY, sig=base64.b64encode(PRIVATE.sign(NONCE)).decode()), True),
        (Connect(nkey=NKEY, sig=signature(), user="al", password="wrong"), True),
        (Connect(user="al", password="x"), True),
        (Connect(nkey=NKEY), False),
        (Connect(nkey=NKEY, sig=signature(b"other")), False),
        (Connect(nkey=NKEY, user="al", password="x"), False),
        (Connect(nkey="UX", sig=signature()), False),
        (Connect(nkey="UX", user="al", password="x"), False),
        (Connect(user=NKEY, password=""), False),
        (Connect(sig=signature()), False),
        (Connect(), False),
    ],
)
def test_nkeys_and_passwords_side_by_side(connect: Connect, expected: bool) -> None:
    auth = authenticator(UserOptions(nkey=NKEY), user("al", "x"))
    assert auth.needs_nonce
    assert not auth.is_slow(connect)
    assert accepts(auth, connect) is expected


def test_nkey_identity_is_the_public_key() -> None:
    identity = authenticator(UserOptions(nkey=NKEY)).authenticate(Connect(nkey=NKEY, sig=signature()), NONCE)
    assert identity == Identity(NKEY, proven=NKEY)


def test_nkey_without_a_nonce_is_refused() -> None:
    assert not accepts(authenticator(UserOptions(nkey=NKEY)), Connect(nkey=NKEY, sig=signature()), b"")


@pytest.mark.parametrize(
    ("connect", "expected"),
    [
        (Connect(), "guest"),
        (Connect(user="", password="", auth_token=""), "guest"),
        (Connect(user="guest", password="g"), "guest"),
        (Connect(user="al", password="x"), "al"),
        (Connect(user="guest", password=""), None),
        (Connect(user="guest"), None),
        (Connect(user="al", password="y"), None),
        (Connect(password="g"), None),
        (Connect(auth_token="g"), None),
        (Connect(nkey=NKEY), None),
    ],
)
def test_no_auth_user(connect: Connect, expected: str | None) -> None:
    auth = authenticator(
        user("guest", "g", "g.>"), user("al", "x"), UserOptions(nkey=NKEY), no_auth_user="guest"
    )
    assert not auth.required
    identity = auth.authenticate(connect, NONCE)
    assert (identity.user if identity else None) == expected


def test_no_auth_user_default_identity_has_its_permissions() -> None:
    identity = authenticator(user("guest", "g", "g.>"), no_auth_user="guest").default_identity()
    assert identity is not None
    assert identity.user == "guest"
    assert identity.permissions is not None
    assert not identity.permissions.may_publish(b"x")


def test_no_auth_user_without_nkey_users_ignores_an_nkey() -> None:
    auth = authenticator(user("guest", "g"), no_auth_user="guest")
    assert auth.authenticate(Connect(nkey=NKEY), NONCE) == Identity("guest", proven="guest")


def test_no_auth_user_with_a_hash_is_not_slow_when_nothing_is_checked() -> None:
    auth = authenticator(user("guest", HASH), no_auth_user="guest")
    assert not auth.is_slow(Connect())
    assert auth.is_slow(Connect(user="guest", password="x"))
    assert accepts(auth, Connect())


@pytest.mark.parametrize("connect", [Connect(), Connect(nkey=NKEY), Connect(nkey=NKEY, sig="AA")])
def test_no_auth_user_may_be_an_nkey_which_then_need_not_sign(connect: Connect) -> None:
    auth = authenticator(UserOptions(nkey=NKEY), user("u", "p"), no_auth_user=NKEY)
    assert auth.authenticate(connect, NONCE) == Identity(NKEY, proven=NKEY)


def test_always_enable_nonce_asks_for_a_nonce() -> None:
    assert Authenticator(Options(always_enable_nonce=True)).needs_nonce


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        (authenticator(user("u", "p")), True),
        (authenticator(user("u", HASH)), False),
        (authenticator(user("u", HASH), user("v", "p")), True),
        (authenticator(UserOptions(nkey=NKEY)), False),
        (authenticator(token="tok"), False),
        (authenticator(), False),
    ],
)
def test_plaintext_passwords_configured(auth: Authenticator, expected: bool) -> None:
    assert auth.plaintext_passwords_configured is expected


@pytest.mark.parametrize(
    ("authorization", "user", "subject", "expected"),
    [
        (AuthorizationOptions(), "x", b"a", True),
        (AuthorizationOptions(token="t"), "x", b"a", True),
        (AuthorizationOptions(users=(UserOptions("u", "p"),)), "u", b"a", True),
        (AuthorizationOptions(users=(UserOptions("u", "p"),)), "x", b"a", False),
        (AuthorizationOptions(users=(UserOptions("u", "p", permissions=ONLY_B),)), "u", b"a", False),
        (AuthorizationOptions(users=(UserOptions("u", "p", permissions=ONLY_B),)), "u", b"b", True),
    ],
)
def test_names_of_users_and_what_they_may_publish(
    authorization: AuthorizationOptions, user: str, subject: bytes, expected: bool
) -> None:
    assert Authenticator(Options(authorization=authorization)).may_publish(user, subject) is expected


def test_no_secret_is_shown() -> None:
    auth = authenticator(user("u", "pass-secret", "a"), UserOptions(nkey=NKEY))
    identity = auth.authenticate(Connect(user="u", password="pass-secret"), NONCE)
    tokened = authenticator(token="token-secret")
    shown = [auth, identity, tokened, tokened.authenticate(Connect(auth_token="token-secret"), b"")]
    assert "secret" not in "".join(map(repr, shown))


def test_packages_are_loaded_only_where_the_configuration_needs_them() -> None:
    code = (
        "import sys; from headrace.server.auth import Authenticator;"
        "from headrace.conf.account_options import *; from headrace.conf.options import Options;"
        "Authenticator(Options(authorization=AuthorizationOptions(users=(UserOptions('u', 'p'),))));"
        "sys.exit('bcrypt' in sys.modules or 'cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
