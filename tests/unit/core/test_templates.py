"""Templates of scoped signing keys: which subjects they become for a user."""

from __future__ import annotations

import pytest

from headrace.core.templates import MAX_SUBJECTS, TemplateError, TemplateValues, expand
from headrace.protocol.jwt.claims import PermissionClaims, SubjectClaims, UserLimitClaims

VALUES = TemplateValues(
    user_name="joe",
    user_key="UKEY",
    user_tags=("dept:a", "dept:b", "empty:", "odd:x y", "team:z"),
    account_name="acme",
    issuer_account="AKEY",
    account_tags=("region:eu",),
)


def allowed(*entries: str, values: TemplateValues = VALUES) -> SubjectClaims:
    template = UserLimitClaims(PermissionClaims(publish=SubjectClaims(allow=entries)))
    return expand(template, values).permissions.publish


def denied(*entries: str) -> SubjectClaims:
    template = UserLimitClaims(PermissionClaims(subscribe=SubjectClaims(deny=entries)))
    return expand(template, VALUES).permissions.subscribe


@pytest.mark.parametrize(
    ("entry", "subjects"),
    [
        ("plain.>", ["plain.>"]),
        ("u.{{name()}}", ["u.joe"]),
        ("u.{{ NAME() }}.{{subject()}}", ["u.joe.UKEY"]),
        ("{{account-name()}}.{{account-subject()}}", ["acme.AKEY"]),
        ("d.{{tag(dept)}}", ["d.a", "d.b"]),
        ("d.{{tag(DEPT)}}", ["d.a", "d.b"]),
        ("r.{{account-tag(region)}}.{{tag(dept)}}", ["r.eu.a", "r.eu.b"]),
        ("{{name()}}.{{name()}}", ["joe.joe"]),
        ("{{tag(dept)}}.{{tag(team)}}.x", ["a.z.x", "b.z.x"]),
    ],
)
def test_expand_gives_the_users_subjects(entry: str, subjects: list[str]) -> None:
    assert allowed(entry) == SubjectClaims(tuple(subjects))
    assert denied(entry) == SubjectClaims(None, tuple(subjects))


def test_expand_of_the_same_tag_twice_replaces_both_at_once() -> None:
    assert allowed("{{tag(dept)}}.{{tag(dept)}}").allow == ("a.a", "a.a", "b.b", "b.b")


@pytest.mark.parametrize(
    "entry", ["d.{{tag(none)}}", "d.{{tag(empty)}}", "d.{{tag(odd)}}", "{{tag(team)}} q"]
)
def test_expand_to_no_subject_is_left_out_of_what_is_allowed_and_refused_in_what_is_denied(
    entry: str,
) -> None:
    assert allowed("x", entry).allow == ("x",)
    assert allowed(entry) == SubjectClaims((), (">",))
    with pytest.raises(TemplateError, match="invalid subject"):
        denied(entry)


def test_expand_without_any_template_keeps_entries_as_they_are() -> None:
    assert allowed("a q", "..").allow == ("a q", "..")


@pytest.mark.parametrize("entry", ["{{other()}}", "{{}}{{x}}", "{{{name()}}", "{{tag(dept}}"])
def test_expand_of_an_unknown_operation_is_refused(entry: str) -> None:
    with pytest.raises(TemplateError, match="not defined"):
        allowed(entry)


def test_expand_beyond_the_limit_is_refused() -> None:
    tags = tuple(f"t:{number}" for number in range(64))
    many = TemplateValues("n", "U", tags, "a", "A", ())
    assert len(allowed("{{tag(t)}}.{{tag(t)}}", values=many).allow or ()) == MAX_SUBJECTS
    with pytest.raises(TemplateError, match="exceeds limit"):
        allowed("{{tag(t)}}.{{tag(t)}}.{{tag(t)}}", values=many)
    with pytest.raises(TemplateError, match="exceeds limit"):
        allowed("x", "{{tag(t)}}.{{tag(t)}}", values=many)


def test_expand_keeps_the_other_limits() -> None:
    template = UserLimitClaims(payload=5, bearer_token=True, connection_types=("MQTT",))
    assert expand(template, VALUES) == template
