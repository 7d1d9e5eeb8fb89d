"""Point reads of a file of records: one small read each; nothing where a scan has to look."""

from __future__ import annotations

import os
import tempfile
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from headrace.engine.log_reading import PointReads
from headrace.engine.memory import live_objects
from headrace.engine.messages import NewMessages
from headrace.engine.records import HEADER_BYTES, encode, encode_removal, erased
from headrace.engine.subject_index import SubjectIndex
from headrace.log.port import StoredMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

SALT: Final = 0x1234
NOW: Final = 1_000
STEP: Final = 4096
"""Bytes between two places that are remembered."""


def pack(first: int, *payloads: bytes, salt: int = SALT) -> bytes:
    batch = [(b"a.b", payload, b"r", b"NATS/1.0\r\nA: b\r\n\r\n", 0, 9) for payload in payloads]
    return encode(NewMessages(tuple, batch), first, 0, NOW, salt, SubjectIndex())


def stored(sequence: int, payload: bytes) -> StoredMessage:
    return StoredMessage(sequence, NOW, b"a.b", b"r", b"NATS/1.0\r\nA: b\r\n\r\n", payload)


class Records:
    """A file of records, one block of a log whose last sequence is `last`. `asked`: what was looked for."""

    def __init__(self, data: bytes = b"", first: int = 1, end: int = 0) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
        self._block = first, end
        self.asked: list[int] = []
        self.last = 0
        self.points = PointReads(self._locate, StoredMessage)
        self.write(data)

    def _locate(self, sequence: int) -> tuple[int, int, int, int, int]:
        self.asked.append(sequence)
        return self._file.fileno(), SALT, 0, *self._block

    def write(self, data: bytes, at: int | None = None) -> int:
        """Adds bytes, or overwrites some; gives where they are."""
        place = os.fstat(self._file.fileno()).st_size if at is None else at
        os.pwrite(self._file.fileno(), data, place)
        return place

    def cut(self, size: int) -> None:
        self._file.truncate(size)

    def read(self, sequence: int) -> StoredMessage | None:
        return self.points.message(sequence, self.last)

    def cost(self, sequence: int) -> tuple[int, int]:
        """Calls and bytes of one read."""
        before = self.points.reads, self.points.read_bytes
        assert self.read(sequence) is not None
        return self.points.reads - before[0], self.points.read_bytes - before[1]

    def close(self) -> None:
        self.points.forget(self._file.fileno())
        self._file.close()


@pytest.fixture
def records() -> Iterator[Records]:
    made = Records()
    yield made
    made.close()


def test_every_message_is_read_whole_in_any_order(records: Records) -> None:
    payloads = [b"%d" % n * (n % 90) for n in range(2000)]
    records.write(pack(1, *payloads))
    records.last = len(payloads)
    sequences = list(range(1, records.last + 1))
    Random(7).shuffle(sequences)
    for sequence in sequences:
        assert records.read(sequence) == stored(sequence, payloads[sequence - 1])


def test_a_second_read_in_a_block_is_one_small_read(records: Records) -> None:
    records.write(pack(1, *[b"p" * 100] * 300))
    records.last = 300
    assert records.read(300) is not None
    for sequence in (1, 150, 300, 299):
        calls, size = records.cost(sequence)
        assert calls == 1
        assert size <= STEP + HEADER_BYTES
    assert records.asked == [300]


def test_messages_in_order_are_read_together(records: Records) -> None:
    payloads = [b"%d" % n * (n % 40) for n in range(600)]
    records.write(pack(1, *payloads))
    records.last = len(payloads)
    assert records.read(records.last) is not None
    before = records.points.reads
    for sequence in range(1, records.last + 1):
        assert records.read(sequence) == stored(sequence, payloads[sequence - 1])
    read = records.points.reads - before
    assert read * STEP <= 2 * len(pack(1, *payloads))
    assert records.cost(records.last)[0] == 1, "no message behind the last one"
    assert records.cost(records.last - 1)[0] == 1, "it is before the one that was read"


def test_a_message_behind_a_large_one_is_read_after_it(records: Records) -> None:
    records.write(pack(1, b"1", b"L" * 9000, b"3", b"4"))
    records.last = 4
    for _ in range(2):
        for sequence, payload in enumerate((b"1", b"L" * 9000, b"3", b"4"), 1):
            assert records.read(sequence) == stored(sequence, payload)


def test_what_was_read_is_not_kept_of_a_file_that_has_other_records_now(records: Records) -> None:
    records.write(pack(1, b"one", b"two"))
    records.last = 2
    assert records.read(1) == stored(1, b"one")
    records.points.forget(records._file.fileno())
    records.write(pack(1, b"ONE", b"TWO"), 0)
    assert records.read(2) == stored(2, b"TWO")


def test_a_small_message_beside_large_ones_is_read_without_them(records: Records) -> None:
    records.write(pack(1, b"L" * 3_000_000, b"small", b"L" * 3_000_000))
    records.last = 3
    assert records.read(3) == stored(3, b"L" * 3_000_000)
    assert records.cost(2)[1] <= STEP + HEADER_BYTES
    assert records.read(2) == stored(2, b"small")
    assert records.cost(1) == (2, len(pack(1, b"L" * 3_000_000)))


def test_messages_appended_later_are_found(records: Records) -> None:
    for sequence in range(1, 200):
        records.write(pack(sequence, b"x" * 50))
        records.last = sequence
        assert records.read(sequence) == stored(sequence, b"x" * 50)
    assert records.read(17) == stored(17, b"x" * 50)
    assert records.asked == [1]


def test_records_of_removals_are_stepped_over(records: Records) -> None:
    records.write(pack(1, b"1") + encode_removal([(5, 9)] * 9000, 0, 1, NOW, SALT) + pack(2, b"2"))
    records.last = 2
    assert records.read(2) == stored(2, b"2")
    assert records.cost(2)[1] <= STEP + HEADER_BYTES


def test_what_a_failed_write_left_behind_is_not_remembered(records: Records) -> None:
    records.write(pack(1, b"one"))
    records.last = 1
    refused = encode_removal([(5, 9)], 0, 1, NOW, SALT) + pack(2, b"refused", b"refused")
    end = records.write(refused)
    assert records.read(1) is not None
    assert records.read(2) is None
    records.cut(end)
    records.write(pack(2, b"a longer one that was taken", b"and another"))
    records.last = 3
    assert records.read(3) == stored(3, b"and another")
    assert records.read(2) == stored(2, b"a longer one that was taken")


@pytest.mark.parametrize("offset", range(HEADER_BYTES + 30))
def test_a_damaged_message_is_not_given(records: Records, offset: int) -> None:
    data = pack(1, b"1" * 9)
    records.write(data)
    start = records.write(pack(2, b"2" * 9))
    records.write(pack(3, b"3" * 9))
    records.last = 3
    records.write(bytes([(pack(2, b"2" * 9)[offset]) ^ 0x40]), start + offset)
    assert records.read(2) is None
    assert records.read(1) == stored(1, b"1" * 9)
    assert records.read(3) in (None, stored(3, b"3" * 9))


def test_damage_after_a_block_was_gone_over_is_found(records: Records) -> None:
    start = len(pack(1, b"1"))
    records.write(pack(1, b"1", b"2", b"3"))
    records.last = 3
    assert records.read(3) is not None
    records.write(b"\xff", start + 20)
    assert records.read(2) is None
    assert records.read(3) is None  # behind it: a scan finds it
    assert records.read(1) is not None


@pytest.mark.parametrize("keep", range(len(pack(2, b"2"))))
def test_a_file_that_is_cut_gives_what_is_whole(records: Records, keep: int) -> None:
    whole = records.write(pack(1, b"1"))
    whole = records.write(pack(2, b"2"))
    records.last = 2
    records.cut(whole + keep)
    assert records.read(2) is None
    assert records.read(1) == stored(1, b"1")


def test_a_file_that_is_cut_after_it_was_gone_over_gives_what_is_whole(records: Records) -> None:
    records.write(pack(1, b"1", b"2" * 9000, b"3"))
    records.last = 3
    assert records.read(3) is not None
    records.cut(len(pack(1, b"1")) + 100)
    assert records.read(1) == stored(1, b"1")
    assert records.read(2) is None
    assert records.read(3) is None


def test_records_of_another_segment_are_none(records: Records) -> None:
    records.write(pack(1, b"1", salt=SALT + 1))
    records.last = 1
    assert records.read(1) is None


def test_erased_and_sealed_messages_are_left_to_who_can_say_more(records: Records) -> None:
    sealed = encode(
        NewMessages(tuple, [(b"a", b"p", b"", b"", 0, 0)]), 2, 0, NOW, SALT, SubjectIndex(), b"",
        lambda plain, _: plain + b"tag.", 4,
    )  # fmt: skip
    records.write(erased(pack(1, b"1"), SALT) + sealed + pack(3, b"3"))
    records.last = 3
    assert records.read(1) is None
    assert records.read(2) is None
    assert records.read(3) == stored(3, b"3")


def test_a_sequence_that_has_no_record_is_not_found(records: Records) -> None:
    records.write(pack(1, b"1") + pack(5, b"5"))
    records.last = 5
    assert records.read(3) is None
    assert records.read(5) == stored(5, b"5")
    assert records.read(3) is None


def test_a_record_out_of_order_is_not_given() -> None:
    records = Records(pack(5, b"5") + pack(2, b"twice"))
    records.last = 9
    assert records.read(5) == stored(5, b"5")
    assert records.read(6) is None
    assert records.read(2) is None
    records.close()


def test_a_block_ends_where_it_was_said_to_end() -> None:
    records = Records(pack(1, b"1", b"2", b"3"), end=3)
    records.last = 3
    assert records.read(2) == stored(2, b"2")
    with pytest.raises(ValueError, match="not in the block"):
        records.read(3)
    records.close()


def test_the_last_block_of_a_log_ends_when_it_is_long(records: Records) -> None:
    records.write(pack(1, *[b"p" * 1000] * 400))
    records.last = 400
    assert records.read(1) is not None
    assert records.read(140) is not None
    assert records.asked == [1]
    assert records.read(300) is not None
    assert records.asked == [1, 300]  # the index knows a mark that is nearer by now


def test_nothing_is_read_where_no_file_is_named() -> None:
    points = PointReads(lambda _: None, StoredMessage)
    assert points.message(1, 1) is None
    assert (points.reads, len(points)) == (0, 0)


def test_an_error_of_who_names_files_is_not_swallowed() -> None:
    def fails(_: int) -> None:
        raise KeyError

    points = PointReads(fails, StoredMessage)
    with pytest.raises(KeyError):
        points.message(1, 1)


def test_a_descriptor_that_is_none_gives_nothing() -> None:
    points = PointReads(lambda sequence: (-1, SALT, 0, sequence, 0), StoredMessage)
    assert points.message(1, 1) is None


def test_a_file_that_was_closed_is_asked_for_again(records: Records) -> None:
    records.write(pack(1, b"1"))
    records.last = 1
    before = live_objects()["blocks"]
    assert records.read(1) is not None
    records.points.forget(10_000)
    assert len(records.points) == 1
    records.points.forget(records._file.fileno())
    assert len(records.points) == 0
    assert live_objects()["blocks"] == before
    assert records.read(1) is not None
    assert records.asked == [1, 1]


def test_blocks_beyond_the_bound_are_given_up() -> None:
    size = len(pack(1, b"x"))
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
    count = 5000
    os.pwrite(file.fileno(), pack(1, *[b"x"] * count), 0)
    points = PointReads(lambda s: (file.fileno(), SALT, (s - 1) * size, s, s + 1), StoredMessage)
    order = list(range(1, count + 1))
    Random(3).shuffle(order)
    for sequence in order + order[:50]:
        assert points.message(sequence, count) == stored(sequence, b"x")
    assert len(points) == 4096
    points.forget(file.fileno())
    file.close()
