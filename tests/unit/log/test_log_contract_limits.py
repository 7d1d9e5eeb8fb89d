"""What gives way when a log is full or old: the contract's limits, for the log in memory and in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from log_makers import HEADERS, SECOND, START, is_sound, message, pages, put, sequences
from msgspec.structs import replace

from headrace.errors import LogFull, MessageTooLarge
from headrace.log.port import FOREVER, LARGEST_TIME, Limits, LogDiscard, NewMessage, size_of

if TYPE_CHECKING:
    from log_makers import Clock, Maker

    from headrace.log.port import MessageLog


class TestLimits:
    def test_count(self, make: Maker) -> None:
        log = make(Limits(max_messages=3))
        put(log, *[b"a"] * 5)

        assert sequences(log) == [3, 4, 5]
        assert sequences(make.reopen(log)) == [3, 4, 5]

    def test_of_a_batch_over_the_limit_the_last_stay(self, make: Maker) -> None:
        log = make(Limits(max_messages=3))

        assert log.append([message()] * 10) == 1

        assert sequences(log) == [8, 9, 10]
        is_sound(log)

    def test_bytes(self, make: Maker) -> None:
        one = size_of(message())
        log = make(Limits(max_bytes=3 * one))
        put(log, *[b"a"] * 5)

        assert sequences(log) == [3, 4, 5]
        log.limits = Limits(max_bytes=3 * one - 1)
        assert sequences(log) == [4, 5]

    def test_the_newest_stays_however_large(self, make: Maker) -> None:
        log = make(Limits(max_bytes=40, max_messages=10))
        put(log, b"a", b"a")
        put(log, b"a", payload=b"p" * 5000)

        assert sequences(log) == [3]
        put(log, b"a")
        assert sequences(log) == [4]

    def test_per_subject(self, make: Maker) -> None:
        log = make(Limits(max_messages_per_subject=2))
        put(log, b"a", b"b", b"a", b"a", b"c", b"b", b"b", b"a")

        assert sequences(log) == [4, 5, 6, 7, 8]
        is_sound(log)
        log = make.reopen(log)
        assert sequences(log) == [4, 5, 6, 7, 8]
        put(log, b"c", b"c", b"a")
        assert sequences(log) == [6, 7, 8, 9, 10, 11]

    def test_one_per_subject_is_a_table(self, make: Maker) -> None:
        log = make(Limits(max_messages_per_subject=1))
        for n in range(500):
            put(log, b"k.%d" % (n * n % 11), payload=b"%d" % n)

        assert log.state().messages == log.state().subjects == len({n * n % 11 for n in range(11)})
        is_sound(log)
        log = make.reopen(log)
        assert log.last(b"k.4").payload == b"%d" % max(n for n in range(500) if n * n % 11 == 4)  # type: ignore[union-attr]
        is_sound(log)

    def test_per_subject_goes_before_the_others(self, make: Maker) -> None:
        log = make(Limits(max_messages=3, max_messages_per_subject=1))
        put(log, b"a", b"b", b"c", b"c", b"b")

        assert sequences(log) == [1, 4, 5]

    def test_per_subject_within_one_batch(self, make: Maker) -> None:
        log = make(Limits(max_messages_per_subject=2))
        log.append([message(s) for s in (b"a", b"a", b"b", b"a", b"a", b"b")])

        assert sequences(log) == [3, 4, 5, 6]

    def test_message_size_counts_headers_and_payload(self, make: Maker) -> None:
        log = make(Limits(max_message_size=len(HEADERS) + 10))
        fits = message(b"s" * 100, b"p" * 10, headers=HEADERS, reply=b"r" * 100)
        log.append([fits])

        with pytest.raises(MessageTooLarge):
            log.append([fits, fits._replace(payload=b"p" * 11)])

        assert log.state().last_sequence == 1
        put(log, b"a")
        assert sequences(log) == [1, 2]

    def test_age(self, make: Maker, clock: Clock) -> None:
        log = make(Limits(max_age_ns=10 * SECOND))
        put(log, b"a")
        clock.now += 4 * SECOND
        put(log, b"b")

        assert log.next_expiry() is not None
        assert log.next_expiry() <= START + 10 * SECOND  # type: ignore[operator]
        assert log.expire(START + 10 * SECOND - 1) == 0
        assert log.expire(START + 10 * SECOND) == 1
        assert sequences(log) == [2]
        assert START + 10 * SECOND < log.next_expiry() <= START + 14 * SECOND  # type: ignore[operator]
        assert log.expire(START + 100 * SECOND) == 1
        assert log.next_expiry() is None
        assert log.state().first_sequence == 3
        assert sequences(make.reopen(log)) == []

    def test_ttl(self, make: Maker) -> None:
        log = make()
        ttls = [5, 0, 1, 3, 2]
        for ttl in ttls:
            log.append([message(ttl_ns=ttl * SECOND)])

        log = make.reopen(log)

        assert log.next_expiry() <= START + SECOND  # type: ignore[operator]
        assert log.expire(START + SECOND - 1) == 0
        assert log.expire(START + 2 * SECOND) == 2
        assert sequences(log) == [1, 2, 4]
        log = make.reopen(log)
        assert START + 2 * SECOND < log.next_expiry() <= START + 3 * SECOND  # type: ignore[operator]
        assert log.expire(START + 3 * SECOND) == 1
        assert log.expire(START + 5 * SECOND) == 1
        assert sequences(log) == [2]
        assert log.next_expiry() is None
        is_sound(log)

    def test_ttl_counts_from_the_stored_time(self, make: Maker) -> None:
        log = make()
        log.append([message(time_ns=START + SECOND), message(time_ns=START, ttl_ns=SECOND)])

        assert log.expire(START + 2 * SECOND - 1) == 0
        assert log.expire(START + 2 * SECOND) == 1

    def test_the_earlier_of_age_and_ttl(self, make: Maker) -> None:
        log = make(Limits(max_age_ns=5 * SECOND))
        log.append([message(ttl_ns=10 * SECOND), message(ttl_ns=SECOND), message()])

        assert log.expire(START + SECOND) == 1
        assert sequences(log) == [1, 3]
        assert log.expire(START + 5 * SECOND) == 2

    def test_what_is_over_its_age_is_there_until_expire(self, make: Maker, clock: Clock) -> None:
        log = make(Limits(max_age_ns=SECOND))
        put(log, b"a")
        clock.now += 10 * SECOND

        assert log.read(1) is not None
        assert log.expire(clock.now) == 1
        assert log.read(1) is None

    def test_expiry_of_removed_messages_is_forgotten(self, make: Maker) -> None:
        log = make()
        log.append([message(ttl_ns=SECOND), message(ttl_ns=2 * SECOND), message(ttl_ns=3 * SECOND)])
        log.delete(1)
        log.purge(up_to=3)

        assert log.expire(START + 2 * SECOND) == 0
        assert log.next_expiry() in range(START + 2 * SECOND + 1, START + 3 * SECOND + 1)
        log.purge()
        assert log.expire(START + 9 * SECOND) == 0
        assert log.next_expiry() is None

    def test_new_limits_take_effect_at_once(self, make: Maker, clock: Clock) -> None:
        log = make()
        for n in range(20):
            clock.now = START + n * SECOND
            put(log, b"s.%d" % (n % 4))
        one = size_of(message(b"s.0"))

        log.limits = Limits(max_messages=18)
        assert sequences(log) == list(range(3, 21))
        log.limits = Limits(max_bytes=15 * one)
        assert sequences(log) == list(range(6, 21))
        log.limits = Limits(max_messages_per_subject=3)
        assert sequences(log) == list(range(9, 21))
        log.limits = Limits(max_age_ns=5 * SECOND)
        assert log.limits == Limits(max_age_ns=5 * SECOND)
        assert sequences(log) == [16, 17, 18, 19, 20]
        log.limits = Limits(max_messages=2)
        assert sequences(log) == [19, 20]
        is_sound(log)
        assert sequences(make.reopen(log, Limits())) == [19, 20]

    def test_with_discard_new_only_those_by_subject_remove(self, make: Maker) -> None:
        log = make()
        put(log, b"a", b"b", b"b", b"b", b"c")
        limits = Limits(max_messages=2, max_bytes=1, max_messages_per_subject=2, discard=LogDiscard.NEW)

        log.limits = limits
        assert sequences(log) == [1, 3, 4, 5]
        is_sound(log)
        assert sequences(make.reopen(log, limits)) == [1, 3, 4, 5]

    @pytest.mark.parametrize(
        ("limits", "left"),
        [
            (Limits(max_messages=2), [9, 10]),
            (Limits(max_bytes=2 * size_of(message(b"s"))), [9, 10]),
            (Limits(max_messages_per_subject=1), [9, 10]),
            (Limits(max_age_ns=3 * SECOND), [8, 9, 10]),
        ],
    )
    def test_opening_under_new_limits(
        self, make: Maker, clock: Clock, limits: Limits, left: list[int]
    ) -> None:
        log = make()
        for n in range(10):
            clock.now = START + n * SECOND
            put(log, b"st"[n % 2 : n % 2 + 1])

        log = make.reopen(log, limits)

        assert sequences(log) == left
        is_sound(log)


class TestDiscardNew:
    def full(self, log: MessageLog, index: int, *batch: NewMessage) -> None:
        """The batch is refused for the message at `index`, and nothing happens."""
        before, written = log.state(), log.written
        with pytest.raises(LogFull) as refused:
            log.append(batch)
        assert refused.value.index == index
        assert (log.state(), log.written) == (before, written)

    def test_count(self, make: Maker) -> None:
        log = make(Limits(max_messages=3, discard=LogDiscard.NEW))
        put(log, b"a", b"a")

        self.full(log, 1, message(), message())
        put(log, b"a")
        self.full(log, 0, message())
        log.delete(2)
        put(log, b"a")
        assert sequences(log) == [1, 3, 4]

    def test_over_a_limit_that_is_younger_than_the_messages(self, make: Maker) -> None:
        log = make()
        put(log, b"a", b"a", b"b", b"c")
        log.limits = Limits(max_messages=2, max_messages_per_subject=1, discard=LogDiscard.NEW)

        self.full(log, 0, message(b"d"))
        self.full(log, 1, message(b"b"), message(b"d"))
        put(log, b"b")
        assert sequences(log) == [2, 4, 5]

    def test_bytes(self, make: Maker) -> None:
        one = size_of(message())
        log = make(Limits(max_bytes=3 * one, discard=LogDiscard.NEW))
        put(log, b"a", b"a")

        self.full(log, 0, message(payload=b"xx"))
        self.full(log, 1, message(), message())
        put(log, b"a")
        assert log.state().bytes == log.size == 3 * one

    def test_bytes_of_one_message(self, make: Maker) -> None:
        log = make(Limits(max_bytes=100, discard=LogDiscard.NEW))

        self.full(log, 0, message(payload=b"x" * 100))

    def test_per_subject_makes_room(self, make: Maker) -> None:
        log = make(Limits(max_messages=3, max_messages_per_subject=2, discard=LogDiscard.NEW))
        put(log, b"a", b"a", b"b")

        self.full(log, 0, message(b"c"))
        self.full(log, 1, message(b"a"), message(b"b"))
        log.append([message(b"a"), message(b"a"), message(b"a")])
        assert sequences(log) == [3, 5, 6]
        is_sound(log)

    def test_per_subject_makes_room_for_no_more_bytes_than_it_frees(self, make: Maker) -> None:
        limits = Limits(max_bytes=2 * size_of(message()), max_messages_per_subject=1, discard=LogDiscard.NEW)
        log = make(limits)
        put(log, b"a", b"b")

        self.full(log, 0, message(b"a", b"xx"))
        log.append([message(b"a", b"")])
        self.full(log, 1, message(b"a", b""), message(b"b", b"xxx"))
        log.append([message(b"b", b"xx")])
        assert sequences(log) == [3, 4]

    def test_room_within_one_batch_is_what_each_message_frees(self, make: Maker) -> None:
        """The subject's messages go in order: 100 bytes of payload first, then 10, then the batch's own."""
        sizes = [100, 10]
        limits = Limits(
            max_bytes=sum(size_of(message(payload=b"p" * size)) for size in sizes),
            max_messages_per_subject=2,
            discard=LogDiscard.NEW,
        )
        log = make(limits)
        for size in sizes:
            put(log, b"a", payload=b"p" * size)

        self.full(log, 1, message(payload=b"p" * 100), message(payload=b"p" * 11))
        self.full(log, 2, *[message(payload=b"p" * size) for size in (50, 60, 61)])
        log.append([message(payload=b"p" * size) for size in (50, 60, 50)])
        assert sequences(log) == [4, 5]

    def test_per_subject_refuses_when_told_to(self, make: Maker) -> None:
        limits = Limits(max_messages_per_subject=2, discard=LogDiscard.NEW, discard_new_per_subject=True)
        log = make(limits)
        put(log, b"a", b"b")

        self.full(log, 2, message(b"b"), message(b"a"), message(b"a"))
        put(log, b"a")
        self.full(log, 0, message(b"a"))
        log.delete(1)
        put(log, b"a")
        assert sequences(log) == [2, 3, 4]
        log.limits = replace(limits, discard=LogDiscard.OLD)
        put(log, b"a")
        assert sequences(log) == [2, 4, 5]

    def test_a_message_too_large_is_told_first(self, make: Maker) -> None:
        log = make(Limits(max_messages=1, max_message_size=10, discard=LogDiscard.NEW))
        put(log, b"a")

        with pytest.raises(MessageTooLarge):
            log.append([message(), message(payload=b"p" * 11)])


class TestForever:
    def test_a_message_that_stays(self, make: Maker, clock: Clock) -> None:
        log = make(Limits(max_age_ns=10 * SECOND))
        forever = [NewMessage(b"f", b"x", ttl_ns=FOREVER)] * 3
        log.append([*forever, message(b"a"), *forever, message(b"b")])
        clock.now += 5 * SECOND
        log.append([message(b"c"), NewMessage(b"d", b"", ttl_ns=2 * SECOND)])
        assert list(log.expired(clock.now + 2 * SECOND)) == [(10, b"d")]
        assert list(log.expired(clock.now + 5 * SECOND)) == [(4, b"a"), (8, b"b"), (10, b"d")]

        clock.now += 5 * SECOND
        assert log.expire(clock.now) == 3
        assert [m.sequence for m in pages(log, 1)] == [1, 2, 3, 5, 6, 7, 9]
        assert log.next_expiry() == START + 15 * SECOND
        log = make.reopen(log)
        clock.now += 5 * SECOND
        log.expire(clock.now)
        assert [m.subject for m in pages(log, 1)] == [b"f"] * 6
        assert log.next_expiry() is None
        assert list(log.expired(LARGEST_TIME - 1)) == []
        assert log.purge() == 6
        log.append([message(b"a")])
        clock.now += 10 * SECOND
        assert log.expire(clock.now) == 1
        is_sound(log)

    def test_thousands_at_the_front(self, make: Maker, clock: Clock) -> None:
        log = make(Limits(max_age_ns=10 * SECOND))
        log.append([NewMessage(b"f", b"", ttl_ns=FOREVER)] * 3000)
        log.append([message(b"a")] * 10)
        clock.now += 10 * SECOND
        assert [s for s, _ in log.expired(clock.now)] == list(range(3001, 3011))
        assert log.expire(clock.now) == 10
        assert log.expire(clock.now) == 0
        assert log.next_expiry() is None


def test_what_has_expired_can_be_walked_while_it_is_removed(make: Maker, clock: Clock) -> None:
    log = make(Limits(max_age_ns=10 * SECOND, waits_for_expire=True))
    log.append([NewMessage(b"s.%d" % n, b"x" * 99, ttl_ns=SECOND * (n % 3)) for n in range(300)])
    clock.now += 5 * SECOND
    put(log, b"new")
    clock.now += 5 * SECOND
    found = []
    for sequence, subject in log.expired(clock.now):
        found.append((sequence, subject))
        log.remove([sequence, sequence - 1])
        put(log, b"new")
    assert found == [(n + 1, b"s.%d" % n) for n in range(300)]
    assert log.state().messages == 301
    assert log.expire(clock.now) == 0


def test_a_log_that_waits_to_be_told_to_expire(make: Maker, clock: Clock) -> None:
    limits = Limits(max_age_ns=10 * SECOND, waits_for_expire=True)
    log = make(limits)
    log.append([message(b"a"), NewMessage(b"b", b"", ttl_ns=SECOND)])
    clock.now += 10 * SECOND
    log = make.reopen(log)
    log.limits = replace(limits, max_age_ns=5 * SECOND)
    put(log, b"c")
    assert sequences(log) == [1, 2, 3]
    assert list(log.expired(clock.now)) == [(1, b"a"), (2, b"b")]
    assert log.expire(clock.now) == 2
    log.limits = Limits(max_age_ns=0)
    assert sequences(log) == [3]
