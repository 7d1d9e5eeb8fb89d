"""Direct gets of many messages: what is answered, and the most of one answer."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from harness.js_account import API, Place, encoded
from headrace.protocol.jetstream import headers as block

if TYPE_CHECKING:
    from collections.abc import Iterable


def filled(subjects: Iterable[str]) -> Place:
    place = Place()
    place.stream("S", subjects=["s.>"], allow_direct=True)
    for number, subject in enumerate(subjects, 1):
        place.host.put(subject.encode(), b"m%d" % number)
    place.host.tick()
    return place


def got(place: Place, **request: Any) -> tuple[list[int], list[str]]:
    """Sequences of the messages, and the lines of the end."""
    place.host.sent.clear()
    place.host.put(f"{API}DIRECT.GET.S".encode(), encoded(request), b"_INBOX.get")
    place.host.tick()
    *messages, end = [one for one in place.host.sent if one.to == b"_INBOX.get"]
    sequences = [int(block.value(one.headers, b"Nats-Sequence")) for one in messages]
    return sequences, end.headers.decode().split("\r\n")[:-2]


def test_the_most_of_one_answer() -> None:
    place = filled(f"s.{number}" for number in range(1025))
    assert got(place, multi_last=["s.>"]) == ([], ["NATS/1.0 413 Too Many Results"])
    place.ask("STREAM.PURGE.S", {"filter": "s.0"})
    sequences, end = got(place, multi_last=["s.>"])
    assert len(sequences) == 1024
    assert end[0] == "NATS/1.0 204 EOB"
    sequences, _ = got(place, batch=1000, seq=1, max_bytes=11)
    assert sequences == [2, 3, 4]


def test_an_answer_goes_on_in_the_next_request() -> None:
    place = filled(["s.a", "s.b", "s.a", "s.c", "s.b"])
    assert got(place, multi_last=["s.*"], batch=2)[0] == [3, 4]
    sequences, end = got(place, multi_last=["s.*"], batch=2, seq=5, up_to_seq=5)
    assert sequences == [5]
    assert "Nats-UpTo-Sequence: 5" in end


def test_how_it_was() -> None:
    """The last messages up to a sequence, however far back they are."""
    subjects = list(itertools.islice(itertools.cycle(["s.a", "s.b", "s.c"]), 3000))
    place = filled(["s.rare", *subjects])
    assert got(place, multi_last=["s.rare", "s.a"], up_to_seq=10)[0] == [1, 8]
    assert got(place, multi_last=["s.b"], up_to_seq=2)[1] == ["NATS/1.0 404 No Results"]
    rare = filled(["s.rare", *subjects, "s.rare"])
    assert got(rare, multi_last=["s.rare"], up_to_seq=3001)[0] == [1]


def test_a_batch_of_a_subject() -> None:
    place = filled(["s.a", "s.b", "s.a", "s.a"])
    sequences, end = got(place, batch=2, next_by_subj="s.a", seq=1)
    assert sequences == [1, 3]
    assert end == ["NATS/1.0 204 EOB", "Nats-Num-Pending: 1", "Nats-Last-Sequence: 3"]
    assert got(place, batch=2, seq=9)[1] == ["NATS/1.0 404 Message Not Found"]
