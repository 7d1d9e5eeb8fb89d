"""Messages many at a time: what Python sees of them, what is refused, and who keeps their bytes alive."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from headrace.engine.memory import live_objects
from headrace.engine.messages import NewMessages, StoredMessages
from headrace.errors import MessageTooLarge
from headrace.log.port import NewMessage, StoredMessage

NEW = [NewMessage(b"s%d" % n, b"p" * n, b"r" if n % 2 else b"", b"h" * n, n, 2 * n) for n in range(20)]
STORED = [StoredMessage(n, n, b"s", b"r" * n, b"h", b"p" * n) for n in range(1, 20)]


def test_they_are_sequences_of_the_tuples_they_were_made_of() -> None:
    for kind, made, batch in ((NewMessages, NewMessage, NEW), (StoredMessages, StoredMessage, STORED)):
        messages: Any = kind(made, batch)
        assert len(messages) == len(batch)
        assert list(messages) == batch == messages
        assert all(type(message) is made for message in messages)
        assert (messages[0], messages[-1], messages[3:7]) == (batch[0], batch[-1], batch[3:7])
        assert messages != batch[1:]
        for wrong in (len(batch), -len(batch) - 1):
            with pytest.raises(IndexError):
                messages[wrong]


def test_parts_outlive_the_objects_they_came_from() -> None:
    messages = NewMessages(
        NewMessage, (NewMessage(bytes([65 + n % 26]) * 50, b"%d" % n * 50) for n in range(500))
    )
    gc.collect()
    assert [m.subject for m in messages] == [bytes([65 + n % 26]) * 50 for n in range(500)]
    assert [m.payload for m in messages] == [b"%d" % n * 50 for n in range(500)]


def test_nothing_stays_allocated() -> None:
    before = live_objects()
    messages = NewMessages(NewMessage, NEW * 100)
    with pytest.raises(TypeError):
        NewMessages(NewMessage, [*NEW, (b"a",)])
    assert live_objects()["blocks"] == before["blocks"] + 1
    del messages
    assert live_objects() == before


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (("a", b"", b"", b"", 0, 0), TypeError),
        ((b"a", None, b"", b"", 0, 0), TypeError),
        ((b"a",), TypeError),
        (b"a", TypeError),
        ((b"a", b"", b"", b"", -1, 0), ValueError),
        ((b"a", b"", b"", b"", 0, 1 << 63), ValueError),
        ((b"a", b"", b"", b"", 0, "1"), TypeError),
    ],
)
def test_what_is_not_a_message(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        NewMessages(NewMessage, [wrong])


def test_class_must_be_a_plain_tuple() -> None:
    class Wide(tuple):  # type: ignore[type-arg]
        pass

    for wrong in (list, Wide):
        with pytest.raises(TypeError):
            NewMessages(wrong)  # type: ignore[type-var]


def test_measure() -> None:
    messages = NewMessages(
        NewMessage, [NewMessage(b"ab", b"cde", b"f", b"gh"), NewMessage(b"i", b"", ttl_ns=5)]
    )
    assert messages.measure(0, 2, 8) == 8 + 1 + 8
    assert messages.measure(5, 2, 8) == 17
    for most, longest, largest in ((4, 2, 8), (0, 1, 8), (0, 2, 7)):
        with pytest.raises(MessageTooLarge):
            messages.measure(most, longest, largest)


def test_subjects_and_sequences() -> None:
    batch = [NewMessage(subject, b"") for subject in (b"a", b"a", b"b", b"", b"a")]
    assert NewMessages(NewMessage, batch).subjects() == {b"a", b"b", b""}
    assert StoredMessages(StoredMessage, STORED).sequences() == range(1, 20)


@pytest.mark.parametrize("order", [[1, 2, 4], [1, 3, 2], [3, 2, 1], [1, 5, 3], [2, 2], [7, 1, 2, 3]])
def test_sequences_that_do_not_follow_one_another(order: list[int]) -> None:
    batch = [STORED[0]._replace(sequence=sequence) for sequence in order]
    assert StoredMessages(StoredMessage, batch).sequences() == order


@pytest.mark.parametrize("order", [range(0), range(7, 8), range(2**64 - 3, 2**64)])
def test_sequences_that_follow_one_another(order: range) -> None:
    batch = [STORED[0]._replace(sequence=sequence) for sequence in order]
    assert StoredMessages(StoredMessage, batch).sequences() == order
