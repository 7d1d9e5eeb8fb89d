"""The record codec: checksums, bytes on disk, and what it makes of damaged and hostile buffers."""

from __future__ import annotations

import struct
from random import Random
from typing import Final

import pytest

from headrace.engine.messages import NewMessages, StoredMessages
from headrace.engine.records import (
    HEADER_BYTES,
    Scan,
    crc32c,
    encode,
    encode_removal,
    erased,
    join,
    join_checked,
)
from headrace.engine.sequence_set import SequenceSet
from headrace.engine.subject_index import SubjectIndex
from headrace.errors import MessageTooLarge
from headrace.log.outline import Outline
from headrace.log.port import StoredMessage
from headrace.subjects import grammar

SALT: Final = 0x1234
END: Final = (1 << 63) - 1
NOW: Final = 1_000


New = tuple[bytes, bytes, bytes, bytes, int, int]


def new(subject: bytes = b"a", payload: bytes = b"p", **rest: int | bytes) -> New:
    values = {"reply": b"", "headers": b"", "time": 0, "ttl": 0, **rest}
    return (subject, payload, values["reply"], values["headers"], values["time"], values["ttl"])  # type: ignore[return-value]


def pack(*batch: New, first: int = 1, salt: int = SALT) -> bytes:
    return encode(NewMessages(tuple, batch), first, 0, NOW, salt, SubjectIndex())


def read(
    data: bytes, *, final: bool = True, filters: list[bytes] | bytes | None = None, window: int = 0
) -> tuple[StoredMessages[StoredMessage], Scan]:
    """Everything in a segment's records, in one buffer or in windows of a size."""
    scan = Scan(SALT, 1, END)
    out = StoredMessages(StoredMessage)
    offset = 0
    while True:
        size = max(window, scan.need) if window else len(data)
        part = data[offset : offset + size]
        last = offset + len(part) == len(data)
        scan.messages_in(part, final and last, 1, END, filters, SequenceSet(), 0, out, 1 << 30, 1 << 40)
        offset = scan.base + scan.at
        if last:
            return out, scan


class TestChecksum:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"", 0),
            (b"123456789", 0xE3069283),
            (bytes(32), 0x8A9136AA),
            (b"\xff" * 32, 0x62A8AB43),
            (bytes(range(32)), 0x46DD794E),
            (bytes(range(31, -1, -1)), 0x113FDB5C),
        ],
    )
    def test_published_values(self, data: bytes, expected: int) -> None:
        """RFC 3720, appendix B.4."""
        assert crc32c(data) == crc32c(data, 0, True) == expected

    def test_both_ways_agree_and_go_on(self) -> None:
        random = Random(1)
        for n in (*range(200), *range(200, 3000, 37), 768, 960, 1535, 1536):  # long ones go in threes
            data, start = random.randbytes(n), random.getrandbits(32)
            assert crc32c(data, start) == crc32c(data, start, True)
            assert crc32c(data[n // 3 :], crc32c(data[: n // 3])) == crc32c(data)

    @pytest.mark.parametrize("size", [0, 1, (64 << 10) - 1, 64 << 10, 200_001])
    def test_a_view_of_bytes_has_their_checksum(self, size: int) -> None:
        data = Random(size).randbytes(size + 2)
        for view in (memoryview(data)[1:-1], memoryview(bytearray(data))[1:-1]):
            assert crc32c(view) == crc32c(data[1:-1]) == crc32c(data[1:-1], 0, True)

    def test_what_has_no_bytes_in_a_row_has_no_checksum(self) -> None:
        for wrong, error in (("text", TypeError), (None, TypeError), (memoryview(b"abcd")[::2], BufferError)):
            with pytest.raises(error):
                crc32c(wrong)  # type: ignore[arg-type]


class TestJoin:
    @pytest.mark.parametrize(
        "sizes", [(), (0,), (1,), (3, 0, 70_000, 1, 64 << 10, (64 << 10) - 1), (1,) * 999]
    )
    def test_is_what_bytes_join_gives(self, sizes: tuple[int, ...]) -> None:
        random = Random(1)
        pieces = tuple(random.randbytes(size) for size in sizes)
        assert join(pieces) == b"".join(pieces)

    @pytest.mark.parametrize("wrong", [(b"a", None), (b"a", "b"), (bytearray(b"a"),), [b"a"], None])
    def test_takes_bytes_only(self, wrong: object) -> None:
        with pytest.raises(TypeError):
            join(wrong)  # type: ignore[arg-type]


class TestJoinChecked:
    @pytest.mark.parametrize("sizes", [(), (0,), (1,), (3, 0, 70_000, 1, 64 << 10), (200,) * 999])
    def test_is_the_magic_the_checksum_and_the_pieces(self, sizes: tuple[int, ...]) -> None:
        random = Random(1)
        pieces = tuple(random.randbytes(size) for size in sizes)
        given = tuple(piece if i % 2 else memoryview(piece) for i, piece in enumerate(pieces))
        joined = b"".join(pieces)
        assert join_checked(b"HRwl", given) == b"HRwl" + struct.pack("<I", crc32c(joined)) + joined

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [("a", TypeError), (None, TypeError), (memoryview(b"abcd")[::2], BufferError)],
    )
    def test_what_has_no_bytes_in_a_row_is_refused(self, wrong: object, error: type[Exception]) -> None:
        held = bytearray(b"b")
        with pytest.raises(error):
            join_checked(b"HRwl", (held, wrong))  # type: ignore[arg-type]
        held.append(1)  # nothing holds it any more

    def test_another_length_of_the_magic_is_refused(self) -> None:
        with pytest.raises(ValueError, match="four bytes"):
            join_checked(b"HRw", (b"a",))


class TestBytes:
    def test_a_record_byte_by_byte(self) -> None:
        data = pack(new(b"sub", b"payload", reply=b"re", headers=b"head", time=77, ttl=5), first=9)

        body = struct.pack("<q", 5) + b"sub" + b"re" + b"head" + b"payload"
        head = struct.pack("<IBBHIQqQIHH", crc32c(body, SALT), 1, 1, 3, len(body), 9, 77, 0, 4, 2, 1)
        assert data == struct.pack("<I", crc32c(head, SALT)) + head + body
        assert len(head) + 4 == HEADER_BYTES

    def test_removals_byte_by_byte(self) -> None:
        data = encode_removal([(3, 5), (8, 8)], 2, 10, 77, SALT)

        body = struct.pack("<QQQQ", 3, 5, 8, 8)
        heads = [
            struct.pack("<IBBHIQqQIHH", crc32c(b"", SALT), 1, 3, 0, 0, 2, 77, 10, 0, 0, 0),
            struct.pack("<IBBHIQqQIHH", crc32c(body, SALT), 1, 2, 0, 32, 3, 77, 10, 0, 0, 0),
        ]
        floor, ranges = [struct.pack("<I", crc32c(head, SALT)) + head for head in heads]
        assert data == floor + ranges + body

    def test_links_to_the_message_before_of_the_subject(self) -> None:
        table = SubjectIndex()
        table.add(b"a", 4)
        batch = NewMessages(tuple, [new(b"a"), new(b"b"), new(b"a"), new(b"b")])
        data = encode(batch, 10, 0, NOW, SALT, table)

        out: list[Outline] = []
        Scan(SALT, 1, END).outline(data, True, Outline, 1, END, None, SequenceSet(), 0, out, 100)

        assert [(o.sequence, o.previous) for o in out] == [(10, 4), (11, 0), (12, 10), (13, 11)]

    def test_times_never_go_back(self) -> None:
        batch = NewMessages(tuple, [new(time=5), new(), new(time=1_500), new()])
        data = encode(batch, 1, 900, NOW, SALT, SubjectIndex())

        assert [m.time_ns for m in read(data)[0]] == [900, 1_000, 1_500, 1_500]

    @pytest.mark.parametrize(
        "wrong", [("a", b"", b"", b"", 0, 0), (b"a", None, b"", b"", 0, 0), (b"a",), b"a"]
    )
    def test_what_is_not_a_message(self, wrong: object) -> None:
        with pytest.raises(TypeError):
            pack(new(), wrong)  # type: ignore[arg-type]

    def test_lengths_that_do_not_fit(self) -> None:
        assert read(pack(new(b"s" * 65_535)))[0][0].subject == b"s" * 65_535
        with pytest.raises(MessageTooLarge):
            pack(new(b"s" * 65_536))
        with pytest.raises(MessageTooLarge):
            pack(new(reply=b"s" * 65_536))

    def test_erased(self) -> None:
        data = pack(new(b"secret", b"secret", headers=b"secret", ttl=9), new(b"b"))
        n = len(pack(new(b"secret", b"secret", headers=b"secret", ttl=9)))

        gone = erased(data[:n], SALT) + data[n:]

        assert len(gone) == len(data)
        assert b"secret" not in gone
        assert [m.sequence for m in read(gone)[0]] == [2]
        assert read(gone)[1].damaged == []
        with pytest.raises(ValueError, match="whole record"):
            erased(data[: n - 1], SALT)


class TestReading:
    @pytest.mark.parametrize("window", [0, 1, 47, 48, 49, 100, 1000])
    def test_in_windows_of_any_size(self, window: int) -> None:
        random = Random(2)
        batch = [new(b"s%d" % n, random.randbytes(random.randrange(300)), reply=b"r") for n in range(50)]

        found, scan = read(pack(*batch), window=window)

        assert [(m.subject, m.payload) for m in found] == [b[:2] for b in batch]
        assert (scan.damaged, scan.bad_from, scan.expected) == ([], None, 51)

    def test_filters_are_those_of_the_grammar(self) -> None:
        subjects = [b"a", b"a.b", b"a.b.c", b"a..b", b"", b".a", b"a.", b"a.*", b"a.>", b"b.b", b">"]
        patterns = [*subjects, b"*", b"*.b", b"a.*.c", b"*.>", b"*.*.*"]
        data = pack(*[new(s) for s in subjects])
        for pattern in patterns:
            found = {m.subject for m in read(data, filters=[pattern])[0]}
            assert found == {s for s in subjects if grammar.matches(pattern, s)}, pattern
            assert {m.subject for m in read(data, filters=pattern)[0]} == {pattern} & set(subjects)

    def test_bounds(self) -> None:
        data = pack(*[new(payload=b"x" * 10) for _ in range(10)])
        for most, room, expected in [(3, 1 << 30, 3), (100, 3 * 43, 3), (100, 3 * 43 - 1, 2), (1, 0, 1)]:
            out = StoredMessages(StoredMessage)
            scan = Scan(SALT, 1, END)
            left = scan.messages_in(data, True, 1, END, None, SequenceSet(), 0, out, most, room)
            assert (len(out), left, scan.expected) == (expected, -1, expected + 1)

    def test_removed_and_below_the_floor(self) -> None:
        removed = SequenceSet()
        removed.add(4, 5)
        out = StoredMessages(StoredMessage)
        data = pack(*[new()] * 8)
        Scan(SALT, 1, END).messages_in(data, True, 2, 7, None, removed, 3, out, 100, 1 << 30)
        assert [m.sequence for m in out] == [3, 6, 7]


class TestDamage:
    def test_every_bit_of_a_record(self) -> None:
        """It costs that message, by name, and nothing else; no other message is ever made of it."""
        batch = [new(b"a%d" % n, b"payload", reply=b"r") for n in range(3)]
        data = pack(*batch)
        size = len(data) // 3
        for bit in range(8 * size):
            bad = bytearray(data)
            bad[size + bit // 8] ^= 1 << bit % 8
            found, scan = read(bytes(bad))
            assert [m.sequence for m in found] == [1, 3], bit
            assert scan.damaged == [(2, 2)], bit

    def test_cut_at_every_byte(self) -> None:
        data = pack(new(b"a"), new(b"b", b"x" * 20))
        size = len(pack(new(b"a")))
        for cut in range(size + 1, len(data)):
            found, scan = read(data[:cut])
            assert [m.sequence for m in found] == [1]
            assert (scan.bad_from, scan.damaged, scan.settled) == (size, [], 2)
            scan.finish()

    def test_random_bytes(self) -> None:
        random = Random(3)
        for n in range(2_000):
            found, scan = read(random.randbytes(n % 400))
            scan.finish()
            assert found == []

    def test_valid_checksums_over_impossible_lengths(self) -> None:
        """A file made by someone who knows the salt: nothing is read outside the buffer."""
        good = pack(new(b"a"))
        for subject, body, headers, reply, flags in [
            (0xFFFF, 2, 0, 0, 0),
            (1, 0xFFFFFFFF, 0, 0, 0),
            (1, 2, 0xFFFFFFFF, 0, 0),
            (1, 2, 0, 0xFFFF, 0),
            (1, 2, 0, 0, 1),
            (1, 0x7FFFFFFF, 0, 0, 0),
            (0, 0, 0, 0, 1),
        ]:
            content = b"ap"
            head = struct.pack(
                "<IBBHIQqQIHH", crc32c(content, SALT), 1, 1, subject, body, 1, NOW, 0, headers, reply, flags
            )
            bad = struct.pack("<I", crc32c(head, SALT)) + head + content
            found, _ = read(bad + pack(new(b"b"), first=2))
            assert [m.subject for m in found] in ([b"b"], [])
            assert read(good)[0][0].subject == b"a"

    def test_a_sequence_that_comes_again_or_goes_back(self) -> None:
        found, scan = read(pack(new(b"1"), first=5) + pack(new(b"2"), first=5) + pack(new(b"3"), first=4))
        assert [m.subject for m in found] == [b"1"]
        assert scan.bad_from == len(pack(new(b"1")))

    def test_ranges_wider_than_a_log(self) -> None:
        data = encode_removal([(1, (1 << 63) - 2), (4, 4)], 0, 9, 0, SALT)
        removed = SequenceSet()
        assert Scan(SALT, 1, END).removals(data, True, removed, 100) == 1
        assert len(removed) == 1

    def test_another_salt(self) -> None:
        assert read(pack(new(), salt=SALT + 1))[0] == []


class TestSequenceSet:
    def test_against_a_set(self) -> None:
        random = Random(4)
        for _ in range(30):
            ours, model = SequenceSet(), set[int]()
            for _ in range(200):
                first = random.randrange(20_000)
                last = first + random.choice([0, 0, 5, 9_000])
                ours.add(first, last)
                model |= set(range(first, last + 1))
            assert len(ours) == len(model)
            assert all((s in ours) == (s in model) for s in range(0, 30_000, 7))
            for _ in range(20):
                first, last = sorted(random.sample(range(32_000), 2))
                assert ours.between(first, last) == sum(first <= s <= last for s in model)
                assert ours.between(last + 1, first) == 0
            again = SequenceSet()
            again.load(ours.dump())
            assert len(again) == len(model)
            ours.drop_below(8_192)
            assert len(ours) == sum(s >= 8_192 for s in model)

    def test_a_dump_that_is_cut_off(self) -> None:
        ours = SequenceSet()
        ours.add(1, 5)
        with pytest.raises(ValueError, match="cut off"):
            SequenceSet().load(ours.dump()[:-1])


class TestSubjectIndex:
    def test_against_a_dictionary(self) -> None:
        random = Random(5)
        table, model = SubjectIndex(), dict[bytes, list[int]]()
        for sequence in range(1, 20_000):
            subject = b"s.%d" % random.randrange(500)
            if subject in model and random.random() < 0.5:
                gone = model[subject].pop(random.choice([0, -1]))
                assert table.remove(subject, gone, max([s for s in model[subject] if s < gone], default=0))
                if not model[subject]:
                    del model[subject]
            else:
                model.setdefault(subject, []).append(sequence)
                table.add(subject, sequence)
        assert len(table) == len(model)
        again = SubjectIndex()
        again.load(table.dump())
        for one in (table, again):
            for subject, sequences in model.items():
                known = one.get(subject)
                assert known is not None
                count, first, last, first_exact, last_exact = known
                assert count == len(sequences)
                assert first == sequences[0] if first_exact else first <= sequences[0]
                assert last == sequences[-1] if last_exact else last >= sequences[-1]
            assert set(one.matching(b"s.*", 0, 1 << 30)[0]) == set(model)
            assert one.span(b">")[0] == sum(map(len, model.values()))
        assert table.get(b"none") is None
        assert not table.remove(b"none", 1, 0)
        table.clear()
        assert len(table) == 0
        assert table.matching(None, 0, 10) == ([], 0)

    def test_in_steps(self) -> None:
        table = SubjectIndex()
        for n in range(100):
            table.add(b"%d" % n, n + 1)
        found: list[bytes] = []
        place = 0
        while True:
            some, place = table.matching(None, place, 7)
            found += some
            if not place:
                break
        assert sorted(found) == sorted(b"%d" % n for n in range(100))

    @pytest.mark.parametrize("cut", [1, 5, 30])
    def test_a_dump_that_is_cut_off(self, cut: int) -> None:
        table = SubjectIndex()
        table.add(b"subject", 1)
        with pytest.raises(ValueError, match="subject index"):
            SubjectIndex().load(table.dump()[:-cut])
