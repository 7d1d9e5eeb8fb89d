"""Permissions: lists, queue groups, delivery filters; the cases were compared with the Go server."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.conf.account_options import Permissions, ResponsePermission, SubjectPermission
from headrace.core.permissions import PermissionSet
from headrace.errors import ConfigError
from headrace.subjects import grammar

SUBJECTS = st.lists(st.sampled_from(["a", "b", "*", ">"]), min_size=1, max_size=3).map(".".join)
VALID_SUBJECTS = SUBJECTS.filter(lambda subject: grammar.is_valid_subject(subject.encode()))


def publish(
    allow: list[str] | None = None, deny: list[str] | None = None, respond: bool = False
) -> PermissionSet:
    rule = SubjectPermission(None if allow is None else tuple(allow), tuple(deny or ()))
    return PermissionSet(Permissions(publish=rule, allow_responses=ResponsePermission() if respond else None))


def subscribe(allow: list[str] | None = None, deny: list[str] | None = None) -> PermissionSet:
    rule = SubjectPermission(None if allow is None else tuple(allow), tuple(deny or ()))
    return PermissionSet(Permissions(subscribe=rule))


def may_subscribe(permissions: PermissionSet, text: str) -> bool:
    subject, *queue = text.encode().split()
    return permissions.may_subscribe(subject, queue[0] if queue else None)


def test_no_lists_permit_everything() -> None:
    permissions = PermissionSet(Permissions())
    assert permissions.may_publish(b"a")
    assert permissions.may_subscribe(b">", None)
    assert permissions.may_deliver(b"a", b"q")
    assert not permissions.filters_delivery(b">", b"q")
    assert permissions.responses is None
    assert permissions.response_tracker(lambda: 0) is None


@pytest.mark.parametrize(
    ("subject", "expected"),
    [(b"ok.a", True), (b"svc", True), (b"foo", False), (b"ok.no", False), (b"ok", False), (b"ok.a.b", True)],
)
def test_may_publish_allow_and_deny_deny_wins(subject: bytes, expected: bool) -> None:
    assert publish(["ok.>", "svc"], ["ok.no"]).may_publish(subject) is expected


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (b"x.1", True),
        (b"x.>", True),
        (b"x.*", True),
        (b"*.*", False),
        (b"x..y", False),
        (b">", False),
        (b"y.>", True),
        (b"y..a", False),
        (b"y.", False),
    ],
)
def test_may_publish_wildcards_and_empty_tokens_are_taken_literally(subject: bytes, expected: bool) -> None:
    assert publish(["x.*", "y.>"]).may_publish(subject) is expected


@pytest.mark.parametrize("subject", [b"x..y", b"a..b", b"a", b"*.*", b"x.1.2"])
def test_may_publish_not_matched_by_deny_is_permitted(subject: bytes) -> None:
    assert publish(deny=["x.*"]).may_publish(subject)


def test_may_publish_empty_allow_list_permits_everything() -> None:
    assert publish([]).may_publish(b"a")


def test_may_publish_with_allow_responses_and_no_allow_list_permits_nothing_else() -> None:
    assert not publish(deny=["x"], respond=True).may_publish(b"a")
    assert publish(["p.>"], respond=True).may_publish(b"p.a")
    assert not PermissionSet(Permissions(allow_responses=ResponsePermission())).may_publish(b"a")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("foo.*", True),
        ("foo.a", True),
        ("bar.>", True),
        ("bar.*", True),
        ("bar.*.>", True),
        ("lit", True),
        ("lit q", True),
        ("foo.* q", True),
        ("*.*", False),
        ("*.>", False),
        (">", False),
        ("*", False),
        ("foo", False),
        ("foo.a.b", False),
        # The Go server lets this one pass and then delivers foo.a.b.
        ("foo.>", False),
    ],
)
def test_may_subscribe_must_lie_within_allow(wanted: str, expected: bool) -> None:
    assert may_subscribe(subscribe(["foo.*", "bar.>", "lit"]), wanted) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("q qg", True),
        ("q", False),
        ("q o", False),
        ("w w.1", True),
        ("w w.*", True),
        ("w w.1.2", False),
        ("w w", False),
        ("e e.1.2", True),
        ("e", False),
        ("both", True),
        ("both z", True),
        ("both y", False),
        ("st x", True),
        ("st x.y", False),
        ("s2 v.1", True),
        ("s2 v.>", False),
    ],
)
def test_may_subscribe_queue_entries(wanted: str, expected: bool) -> None:
    permissions = subscribe(["q qg", "w w.*", "e e.>", "both", "both z", "st *", "s2  v.* "])
    assert may_subscribe(permissions, wanted) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("q", True),
        ("q qg", False),
        ("q o", True),
        ("w w.1", False),
        ("w w.*", False),
        ("w w.2.3", True),
        ("d.a", False),
        ("d.> q", False),
        ("> q", True),
        ("x.1 qq", False),
        ("x.* qq", False),
        ("x.> qq", False),
        ("x.1 o", True),
        ("x.1", True),
    ],
)
def test_may_subscribe_denied(wanted: str, expected: bool) -> None:
    assert may_subscribe(subscribe(deny=["q qg", "w w.*", "d.>", "x.* qq"]), wanted) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"), [(">", True), ("*.*", True), ("*.a", True), ("foo.*", False)]
)
def test_may_subscribe_wider_than_deny_is_accepted(wanted: str, expected: bool) -> None:
    assert may_subscribe(subscribe([">"], ["foo.*"]), wanted) is expected


def test_filters_delivery_only_where_a_denied_message_could_come() -> None:
    permissions = subscribe(deny=["s.no.*", "x q"])
    assert permissions.filters_delivery(b"s.>")
    assert permissions.filters_delivery(b">", b"g")
    assert permissions.filters_delivery(b"x", b"g")
    assert not permissions.filters_delivery(b"s.yes.*")
    assert not permissions.filters_delivery(b"t.>")
    assert not permissions.filters_delivery(b"x")


def test_may_deliver_denied_subject_is_withheld() -> None:
    permissions = subscribe(["s.>"], ["s.no.*"])
    assert permissions.may_deliver(b"s.yes")
    assert not permissions.may_deliver(b"s.no.x")
    assert permissions.may_deliver(b"s.no.x.y")


def test_may_deliver_deny_for_a_group_withholds_only_from_it() -> None:
    permissions = subscribe(deny=["foo.* q"])
    assert permissions.may_deliver(b"foo.a")
    assert permissions.may_deliver(b"foo.a", b"r")
    assert not permissions.may_deliver(b"foo.a", b"q")


@pytest.mark.parametrize(
    ("permissions", "named"),
    [
        (Permissions(publish=SubjectPermission(("a q",))), "a q"),
        (Permissions(publish=SubjectPermission(None, ("a..b",))), "a..b"),
        (Permissions(subscribe=SubjectPermission(("a b c",))), "a b c"),
        (Permissions(subscribe=SubjectPermission(None, ("a.>.b",))), "a.>.b"),
        (Permissions(subscribe=SubjectPermission(("",))), ""),
        (Permissions(subscribe=SubjectPermission(("a q..r",))), "a q..r"),
    ],
)
def test_permission_set_malformed_subject_is_a_config_error(permissions: Permissions, named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        PermissionSet(permissions)
    assert f'subject "{named}" is not a valid subject' in str(raised.value)


@settings(deadline=None)
@given(
    st.lists(VALID_SUBJECTS, max_size=3), st.lists(VALID_SUBJECTS, max_size=3), VALID_SUBJECTS, VALID_SUBJECTS
)
def test_an_accepted_subscription_never_yields_a_message_outside_the_lists(
    allow: list[str], deny: list[str], wanted: str, published: str
) -> None:
    permissions = subscribe(allow or None, deny)
    subject, message = wanted.encode(), published.encode()
    if not grammar.is_literal(message) or not grammar.matches(subject, message):
        return
    if not permissions.may_subscribe(subject):
        return
    delivered = not permissions.filters_delivery(subject) or permissions.may_deliver(message)
    is_denied = any(grammar.matches(entry.encode(), message) for entry in deny)
    is_allowed = not allow or any(grammar.matches(entry.encode(), message) for entry in allow)
    assert is_allowed
    assert delivered is not is_denied
