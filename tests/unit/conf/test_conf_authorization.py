"""The authorization block and permissions."""

from __future__ import annotations

import pytest
from conf_verdicts import NKEY

from headrace.conf.account_options import (
    AuthorizationOptions,
    Permissions,
    ResponsePermission,
    SubjectPermission,
    UserOptions,
)
from headrace.conf.binding import load_options
from headrace.conf.names import is_user_nkey, is_valid_subject


def authorization(text: str) -> AuthorizationOptions:
    return load_options(text=f"authorization {{ {text} }}", environ={}).authorization


def permissions(text: str) -> Permissions | None:
    (user,) = authorization(f"users: [{{user: a, permissions: {{ {text} }} }}]").users
    return user.permissions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("token: t", AuthorizationOptions(token="t")),
        ("token: ''", AuthorizationOptions()),
        ("token: 1e5", AuthorizationOptions(token="1e5")),
        ("token: t, timeout: 2", AuthorizationOptions(token="t", timeout=2.0)),
        ("token: t, timeout: 0", AuthorizationOptions(token="t")),
        ("token: t, timeout: '1500ms'", AuthorizationOptions(token="t", timeout=1.5)),
        ("user: a, password: b", AuthorizationOptions(users=(UserOptions("a", "b"),))),
        ("username: a", AuthorizationOptions(users=(UserOptions("a", ""),))),
        ("users: [{user: a}]", AuthorizationOptions(users=(UserOptions("a"),))),
        (f"users: [{{nkey: {NKEY}}}]", AuthorizationOptions(users=(UserOptions(nkey=NKEY),))),
        ("users: []", AuthorizationOptions()),
    ],
)
def test_block_gives_who_may_connect(text: str, expected: AuthorizationOptions) -> None:
    assert authorization(text) == expected


def test_default_permissions_apply_to_listed_users_without_own() -> None:
    found = authorization("permissions: {publish: a}, users: [{user: x}, {user: y, permissions: {}}]")
    assert found.default_permissions == Permissions(publish=SubjectPermission(("a",)))
    assert [user.permissions for user in found.users] == [None, Permissions()]


def test_permissions_of_a_single_user_do_nothing_and_warn() -> None:
    # The Go server ignores them without a word.
    options = load_options(text="authorization {user: a, password: b, permissions: {publish: x}}", environ={})
    assert options.authorization.default_permissions is None
    assert "not a single user" in options.warnings[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Permissions()),
        ("publish: a", Permissions(publish=SubjectPermission(("a",)))),
        ("pub: [a, 'b.*']", Permissions(publish=SubjectPermission(("a", "b.*")))),
        ("import: {allow: a}", Permissions(publish=SubjectPermission(("a",)))),
        ("publish: {deny: [a, b]}", Permissions(publish=SubjectPermission(None, ("a", "b")))),
        ("publish: {allow: '>', deny: a}", Permissions(publish=SubjectPermission((">",), ("a",)))),
        ("subscribe: 'a q'", Permissions(subscribe=SubjectPermission(("a q",)))),
        ("sub: {deny: '> q.*'}", Permissions(subscribe=SubjectPermission(None, ("> q.*",)))),
        ("export: a", Permissions(subscribe=SubjectPermission(("a",)))),
        ("publish: {}", Permissions()),
        ("publish: []", Permissions(publish=SubjectPermission())),
        ("publish: {allow: []}", Permissions(publish=SubjectPermission())),
        ("allow_responses: true", Permissions(allow_responses=ResponsePermission(1, 120.0))),
        ("allow_responses: false", Permissions()),
        ("allow_responses: {}", Permissions(allow_responses=ResponsePermission(1, 120.0))),
        ("allow_responses: {max: 5}", Permissions(allow_responses=ResponsePermission(5, 120.0))),
        ("allow_responses: {max: 0}", Permissions(allow_responses=ResponsePermission(1, 120.0))),
        ("allow_responses: {max_msgs: -5}", Permissions(allow_responses=ResponsePermission(-1, 120.0))),
        ("allow_responses: {expires: '1m'}", Permissions(allow_responses=ResponsePermission(1, 60.0))),
        ("allow_responses: {ttl: '0s'}", Permissions(allow_responses=ResponsePermission(1, 120.0))),
        ("allow_responses: {expiration: '-1s'}", Permissions(allow_responses=ResponsePermission(1, 0.0))),
    ],
)
def test_permissions_in_all_forms(text: str, expected: Permissions) -> None:
    assert permissions(text) == expected


def test_secrets_never_show() -> None:
    found = authorization("users: [{user: a, password: hunter2}]")
    assert "hunter2" not in repr(found)
    assert "hunter2" not in repr(authorization("token: hunter2"))
    overridden = load_options(overrides={"user": "a", "password": "hunter2"})
    assert "hunter2" not in repr(overridden)


@pytest.mark.parametrize("subject", ["a", "a.b", "*", ">", "a.*.>", "a*", "f>", "$SYS.x", "é"])
def test_subject_that_is_valid(subject: str) -> None:
    assert is_valid_subject(subject)


@pytest.mark.parametrize("subject", ["", ".", "a.", ".a", "a..b", "a b", "a\t", "a.>.b", ">.a", "\n"])
def test_subject_that_is_not_valid(subject: str) -> None:
    assert not is_valid_subject(subject)


@pytest.mark.parametrize(
    "text", ["", "U", NKEY[:-1], NKEY + "A", "A" + NKEY[1:], NKEY[:-1] + "5", NKEY.lower()]
)
def test_text_that_is_no_user_nkey(text: str) -> None:
    assert is_user_nkey(NKEY)
    assert not is_user_nkey(text)
