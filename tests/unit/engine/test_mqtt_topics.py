"""Topics and subjects: the table of both directions, what may be none, and that every topic comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.mqtt_topics import subject_of_topic, topic_of_subject

TABLE = [
    ("a/b", "a.b"),
    ("/a", "/.a"),
    ("a/", "a./"),
    ("a//b", "a./.b"),
    ("/", "/./"),
    ("//", "/././"),
    ("///", "/./././"),
    ("/a/", "/.a./"),
    ("a///b", "a././.b"),
    ("a.b", "a//b"),
    (".a", "//a"),
    ("a.", "a//"),
    ("a/.b", "a.//b"),
    ("a./b", "a//.b"),
    ("..", "////"),
    ("a*b", "a*b"),
    ("a>b", "a>b"),
    ("$x/y", "$x.y"),
    ("é/ü", "é.ü"),
]


@pytest.mark.parametrize(("topic", "subject"), TABLE)
def test_a_topic_has_its_subject_and_comes_back(topic: str, subject: str) -> None:
    for is_filter in (False, True):
        assert subject_of_topic(topic.encode(), is_filter=is_filter) == subject.encode()
    assert topic_of_subject(subject.encode()) == topic.encode()


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("x.y", "x/y"),
        ("/.x", "/x"),
        ("x./", "x/"),
        ("x./.y", "x//y"),
        ("x//y", "x.y"),
        ("x/y", "xy"),
        ("x/", "x"),
        ("", ""),
    ],
)
def test_a_subject_of_a_nats_client_has_a_topic(subject: str, topic: str) -> None:
    assert topic_of_subject(subject.encode()) == topic.encode()


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        (b"", "topic cannot be empty"),
        (b"a\0b", 'invalid null character in topic "a\\x00b"'),
        (b"a\xff", 'invalid utf8 for topic "a\\xff"'),
        (b"\xed\xa0\x80", "invalid utf8"),  # a surrogate
        (b"\xc0\x80", "invalid utf8"),  # longer than it need be
        (b"\xf4\x90\x80\x80", "invalid utf8"),  # beyond the last character
        (b"a\xe2\x82", "invalid utf8"),  # cut off
        *((b"a%bb" % c, "character not supported") for c in (b" ", b"\t", b"\r", b"\n", b"\x0c", b"\x7f")),
    ],
)
def test_what_is_no_topic_is_no_filter_either(topic: bytes, text: str) -> None:
    for is_filter in (False, True):
        with pytest.raises(ValueError, match=r".") as caught:
            subject_of_topic(topic, is_filter=is_filter)
        assert str(caught.value).startswith(text)


@pytest.mark.parametrize("topic", [b"a/+", b"#", b"a+b"])
def test_a_topic_has_no_wildcards(topic: bytes) -> None:
    with pytest.raises(ValueError, match="wildcards not allowed"):
        subject_of_topic(topic, is_filter=False)


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        (b"#", b">"),
        (b"+", b"*"),
        (b"a/+/b", b"a.*.b"),
        (b"a/#", b"a.>"),
        (b"+/#", b"*.>"),
        (b"/+", b"/.*"),
        (b"a+", b"a*"),
        (b"#a", b">a"),
        (b"$share/g/a/+", b"$share.g.a.*"),
    ],
)
def test_wildcards_of_filters_are_those_of_subjects(text: bytes, subject: bytes) -> None:
    assert subject_of_topic(text, is_filter=True) == subject


@pytest.mark.parametrize("text", [b"a/#/x", b"#/a", b"/#/"])
def test_a_multi_level_wildcard_is_the_last_level(text: bytes) -> None:
    with pytest.raises(ValueError, match="invalid topic filter"):
        subject_of_topic(text, is_filter=True)


LETTERS = st.text(st.sampled_from("/..ab$é*>"), min_size=1, max_size=40)
ANY = st.text(min_size=1, max_size=40)


@given(LETTERS | ANY)
def test_every_topic_comes_back_from_its_subject(topic: str) -> None:
    data = topic.encode()
    try:
        subject = subject_of_topic(data, is_filter=False)
    except ValueError:
        assert set(topic) & set("\0+# \t\r\n\x0c\x7f")
        return
    assert topic_of_subject(subject) == data
    assert not subject.startswith(b".")
    assert not subject.endswith(b".")
    assert b".." not in subject


@given(st.binary(max_size=60))
def test_utf_8_is_what_python_says(data: bytes) -> None:
    try:
        is_text = b"\0" not in data and bool(data.decode()) and bool(data)
    except UnicodeDecodeError:
        is_text = False
    try:
        subject_of_topic(data, is_filter=False)
    except ValueError as error:
        said = str(error)
    else:
        said = ""
    if is_text:
        assert not said or "wildcards" in said or "not supported" in said
    else:
        assert said


def test_the_longest_topic_has_a_subject() -> None:
    topic = b"/" * 65535
    assert topic_of_subject(subject_of_topic(topic, is_filter=False)) == topic
