"""Configurations of an account's streams: whose subjects meet, and what is set aside."""

from __future__ import annotations

import random

from headrace.jetstream.stream_configs import StreamConfigs
from headrace.protocol.jetstream.configs import Storage, StreamConfig
from headrace.subjects.grammar import is_valid_subject, overlaps


def stream(name: str, *subjects: str, max_bytes: int = -1, replicas: int = 1) -> StreamConfig:
    return StreamConfig(name=name, subjects=list(subjects), max_bytes=max_bytes, num_replicas=replicas)


def test_subjects_meet_as_the_grammar_says() -> None:
    drawn = random.Random(1)
    tokens = ("a", "b", "*", ">")
    subjects = {".".join(drawn.choices(tokens, k=drawn.randint(1, 4))) for _ in range(200)}
    valid = sorted(subject for subject in subjects if is_valid_subject(subject.encode()))
    assert len(valid) > 50
    for mine in valid:
        configs = StreamConfigs([stream("A", mine)])
        for its in valid:
            assert configs.meets_others(stream("B", its)) == overlaps(mine.encode(), its.encode()), (
                mine,
                its,
            )


def test_a_stream_does_not_meet_itself() -> None:
    configs = StreamConfigs([stream("A", "a.>", "b")])

    assert not configs.meets_others(stream("A", "a.x", "b"))
    assert configs.meets_others(stream("B", "c", "a.x"))


def test_what_is_replaced_or_dropped_leaves_nothing() -> None:
    configs = StreamConfigs([stream("A", "a.b", "a.b.c", max_bytes=10)])

    configs.put(stream("A", "x", max_bytes=20))
    assert not configs.meets_others(stream("B", "a.>"))
    assert configs.meets_others(stream("B", "x"))
    assert configs.reserved(Storage.FILE) == {1: 20}
    configs.drop("A")
    configs.drop("A")
    assert not configs.meets_others(stream("B", ">"))
    assert sum(configs.reserved(Storage.FILE).values()) == 0
    assert dict(configs) == {}


def test_numbers_and_bytes_are_those_of_the_others() -> None:
    configs = StreamConfigs(
        [
            stream("A", "a", max_bytes=1),
            stream("B", "b", max_bytes=2, replicas=3),
            stream("C", "c", max_bytes=4),
        ]
    )

    assert configs.number(without="A") == 2
    assert configs.number(without="Z") == 3
    assert configs.number(without="A", replicas=1) == 1
    assert configs.number(without="B", replicas=1) == 2
    assert configs.reserved(Storage.FILE, without="A") == {1: 4, 3: 2}
    assert configs.reserved(Storage.MEMORY, without="A") == {}
