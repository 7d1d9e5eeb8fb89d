"""Backups of streams: the formats they are in, sent and taken back over NATS, and what is wrong with some."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.js_account import API, Place, encoded
from headrace.jetstream.assets import stream_log
from headrace.protocol import archive, s2
from headrace.protocol.jetstream import headers as block

GO = (Path(__file__).parent / "golden" / "stream_of_go_2_15_1.backup").read_bytes()
"""49 messages of 50 on five subjects, every second with a header, and a consumer that had five of them."""
SUBJECT = b"_INBOX.backup"


# -- the formats ---------------------------------------------------------------------------------------


def unpacked(data: bytes, step: int = 1 << 20) -> bytes:
    reader = s2.S2Reader()
    made = b"".join(part for at in range(0, len(data), step) for part in reader.feed(data[at : at + step]))
    assert reader.is_between_frames
    return made


def entries(data: bytes, step: int = 1 << 20) -> list[archive.ArchiveEntry]:
    reader = archive.ArchiveReader(1 << 20)
    return [entry for at in range(0, len(data), step) for entry in reader.feed(data[at : at + step])]


def test_a_backup_of_the_go_server_is_read_whole_and_in_any_pieces() -> None:
    plain = unpacked(GO)
    found = entries(plain)
    assert unpacked(GO, 1) == plain
    assert entries(plain, 7) == found
    assert found[0].name == b"state.json"
    assert found[-1].is_end
    assert [entry.sequence for entry in found[2:-1]] == [1, 2, *range(4, 51)]
    assert b"".join([archive.MAGIC, *map(archive.encode, found)]) == plain


@given(st.lists(st.binary(max_size=3000), max_size=5))
def test_what_is_written_is_read(parts: list[bytes]) -> None:
    data = s2.STREAM_BEGIN + b"".join(map(s2.frames, parts))
    assert unpacked(data, 1000) == b"".join(parts)


@given(
    st.lists(
        st.builds(
            archive.ArchiveEntry,
            st.binary(max_size=200),
            st.integers(-(1 << 62), 1 << 62),
            st.integers(0, (1 << 63) - 1),
            st.binary(max_size=300),
            st.binary(max_size=300),
        )
    )
)
def test_entries_that_are_written_are_read(written: list[archive.ArchiveEntry]) -> None:
    assert entries(b"".join([archive.MAGIC, *map(archive.encode, written)]), 97) == written


@pytest.mark.parametrize(
    ("packed", "plain"),
    [
        (b"\x05\x10hello", b"hello"),
        (b"\x0a\x04ab\x11\x02", b"ab" * 5),  # the offset is smaller than the length
        (b"\x0e\x0cabcd\x01\x04\x09\x00\x01", None),  # a repeat without more of it
        (b"\x0c\x0cabcd\x01\x04\x01\x00", b"abcd" * 3),
        (b"\x10\x0cabcd\x01\x04\x15\x00\x00", b"abcd" * 4),
        (b"\x04\xf0\x03abcd", b"abcd"),
        (b"\x08\x0cabcd\x0e\x04\x00", b"abcdabcd"),
        (b"\x08\x0cabcd\x0f\x04\x00\x00\x00", b"abcdabcd"),
        (b"\x05\x0cabcd", None),  # shorter than it says
        (b"\x03\x0cabcd", None),
        (b"\x08\x0cabcd\x01\x05", None),  # a copy of what is not there
        (b"\x08\x01\x00", None),  # a repeat of no offset
        (b"\x05\x10hell", None),
        (b"\x05\xf4\xff", None),
        (b"\xff\xff\xff\xff\x7f\x00", None),
        (b"\xff\xff\xff\xff\xff\x01", None),
        (b"", None),
    ],
)
def test_blocks(packed: bytes, plain: bytes | None) -> None:
    if plain is None:
        with pytest.raises(s2.BadStream):
            s2.decompress(packed)
    else:
        assert s2.decompress(packed) == plain


@pytest.mark.parametrize(
    "data",
    [
        b"\x01\x05\x00\x00aaaaa",
        b"\xff\x06\x00\x00other!",
        s2.STREAM_BEGIN + b"\x02\x01\x00\x00a",
        s2.STREAM_BEGIN + b"\x01\x02\x00\x00aa",
        s2.STREAM_BEGIN + b"\x01\xff\xff\xff",
        s2.STREAM_BEGIN + s2.frames(b"hello")[:-1] + b"x",
    ],
)
def test_streams_that_are_none(data: bytes) -> None:
    with pytest.raises(s2.BadStream):
        list(s2.S2Reader().feed(data))


def test_frames_that_are_passed_over() -> None:
    data = s2.STREAM_BEGIN + b"\xfe\x03\x00\x00abc" + s2.STREAM_BEGIN + s2.frames(b"x") + b"\x99\x01\x00\x00z"
    assert unpacked(data) == b"x"


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for feed in (s2.S2Reader().feed, archive.ArchiveReader(1000).feed):
        with contextlib.suppress(ValueError):
            list(feed(data))
    with contextlib.suppress(ValueError):
        s2.decompress(data)


@pytest.mark.parametrize(
    "data", [b"NATSARC2", archive.MAGIC + b"\xff" * 11, archive.MAGIC + b"\x00\x00\x00\x00\xff\x7f"]
)
def test_archives_that_are_none(data: bytes) -> None:
    with pytest.raises(archive.BadArchive):
        list(archive.ArchiveReader(1000).feed(data))


# -- over NATS -----------------------------------------------------------------------------------------


def taken(
    place: Place, stream: str = "S", *, acknowledges: bool = True, **asked: Any
) -> tuple[bytes, list[Any]]:
    """A backup as a client takes it, and how it ended: the headers of the last message."""
    place.host.sent.clear()
    body = encoded({"deliver_subject": SUBJECT.decode(), **asked})
    place.host.put(f"{API}STREAM.SNAPSHOT.{stream}".encode(), body, b"_INBOX.ask")
    place.host.tick()
    data, ends = b"", []
    for _ in range(10_000):
        place.host.pass_time(0.001)
        arrived, place.host.sent[:] = list(place.host.sent), []
        chunks = [one for one in arrived if one.to == SUBJECT]
        if not chunks:
            break
        for chunk in chunks:
            data += chunk.payload
            if not chunk.payload:
                ends.append(chunk.headers)
            elif chunk.reply and acknowledges:
                place.host.put(chunk.reply, b"")
        place.host.tick()
    return data, ends


def give(place: Place, data: bytes, name: str = "S", step: int = 1000, **config: Any) -> Any:
    """A backup as a client gives it back: the answer to its end, or to the chunk that was refused."""
    wanted = {"config": {"name": name, "subjects": [f"{name.lower()}.>"], **config}, "state": {}}
    answer = place.ask(f"STREAM.RESTORE.{name}", wanted)
    if "error" in answer:
        return answer
    for chunk in [data[at : at + step] for at in range(0, len(data), step)] + [b""]:
        said = place.raw(answer["deliver_subject"], chunk)
        assert said is not None
        if said.payload:
            return said.json()
    raise AssertionError("no answer to the end")


def held(place: Place, stream: str = "S") -> list[Any]:
    return list(place.account.streams[stream].log.read_from(0, max_messages=100_000).messages)


def filled(directory: Path | None = None, **config: Any) -> Place:
    place = Place(directory)
    place.stream("S", subjects=["s.>"], **config)
    for number in range(600):
        headers = block.added(b"", (b"A", b"%d" % number)) if number % 3 else b""
        place.host.put(b"s.%d" % (number % 7), b"message %d " % number * 20, b"", headers)
    place.host.tick()
    for gone in (1, 5, 600):
        place.ask("STREAM.MSG.DELETE.S", {"seq": gone})
    return place


@pytest.mark.parametrize(
    "asked", [{}, {"chunk_size": 1024}, {"chunk_size": 5000, "window_size": 5000}, {"jsck": True}]
)
def test_a_stream_comes_back_as_it_was(tmp_path: Path, asked: dict[str, Any]) -> None:
    place = filled(tmp_path)
    place.consumer("S", "c")
    place.consumer("S", "e", durable_name="", inactive_threshold=3600_000_000_000)
    first, _, third = place.fetch("S", "c", 3)
    place.acknowledge(first)
    place.acknowledge(third)
    before, messages = place.ask("STREAM.INFO.S"), held(place)
    consumer = place.ask("CONSUMER.INFO.S.c")
    data, ends = taken(place, **asked)
    assert ends == [b"NATS/1.0 204\r\n\r\n"]
    place.ask("STREAM.DELETE.S")
    answer = give(place, data)
    assert answer["type"] == "io.nats.jetstream.api.v1.stream_create_response"
    assert "error" not in answer
    again = place.restart()
    assert held(again) == messages
    after = again.ask("STREAM.INFO.S")
    assert after["state"] == before["state"] | {"consumer_count": 2}
    same = ("delivered", "ack_floor", "num_ack_pending", "num_pending")
    now = again.ask("CONSUMER.INFO.S.c")
    assert {
        name: now[name].get("stream_seq") if isinstance(now[name], dict) else now[name] for name in same
    } == {
        name: consumer[name].get("stream_seq") if isinstance(consumer[name], dict) else consumer[name]
        for name in same
    }
    assert again.publish("s.new")["seq"] == 601


def test_a_backup_of_the_go_server_is_restored(tmp_path: Path) -> None:
    place = Place(tmp_path)
    answer = give(place, GO, "O")
    assert answer["state"]["messages"] == 49
    assert answer["state"]["last_seq"] == 50
    place = place.restart()
    messages = held(place, "O")
    assert messages[1].subject == b"o.1"
    assert block.value(messages[1].headers, b"A") == b"1"
    info = place.ask("CONSUMER.INFO.O.c")
    assert info["delivered"] | info["ack_floor"] | {"p": info["num_ack_pending"]} != {}
    assert (info["delivered"]["stream_seq"], info["num_ack_pending"], info["num_pending"]) == (5, 1, 45)
    place.host.pass_time(31)
    (message, *_) = place.fetch("O", "c", 1)
    assert message.subject == b"o.4"


def test_without_consumers_and_of_an_empty_stream() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"], first_seq=100)
    place.consumer("S", "c")
    data, ends = taken(place, no_consumers=True)
    assert ends == [b""]  # it fits into one chunk
    place.ask("STREAM.DELETE.S")
    answer = give(place, data)
    assert answer["state"]["consumer_count"] == 0
    assert place.publish("s.a")["seq"] == 100


def test_limits_hold_again_when_everything_is_there() -> None:
    place = filled()
    data, _ = taken(place)
    place.ask("STREAM.DELETE.S")
    answer = give(place, data, max_msgs=10)
    assert answer["state"]["messages"] == 10


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", 10003),
        ({}, 10003),
        ({"deliver_subject": ""}, 10015),
        ({"deliver_subject": "a.*"}, 10015),
        (b"x", 10025),
    ],
)
def test_requests_for_a_backup_that_are_refused(body: Any, expected: int) -> None:
    place = Place()
    place.stream("S")
    assert place.error("STREAM.SNAPSHOT.S", body) == expected
    assert place.error("STREAM.SNAPSHOT.T", {"deliver_subject": "a"}) == 10059


def test_a_receiver_that_does_not_acknowledge() -> None:
    place = filled()
    _, ends = taken(place, chunk_size=1024, window_size=4096, acknowledges=False)
    assert ends == []
    place.host.sent.clear()
    place.host.pass_time(6)
    assert [one.headers for one in place.host.sent if one.to == SUBJECT] == [
        b"NATS/1.0 408 No Flow Response\r\n\r\n"
    ]


def test_nobody_receives() -> None:
    place = filled()
    place.host.deaf.add(SUBJECT)
    taken(place)
    place.host.sent.clear()
    place.host.pass_time(3)
    assert [one.headers for one in place.host.sent if one.to == SUBJECT] == [
        b"NATS/1.0 408 No Interest\r\n\r\n"
    ]


def test_advisories() -> None:
    place = filled()
    place.host.heard.add(b"$JS.EVENT.ADVISORY.STREAM.>")
    place.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "x"})
    place.host.pass_time(0.1)
    kinds = [one["type"].rpartition(".")[2] for one in place.advisories()]
    assert kinds == ["snapshot_create", "snapshot_complete"]


def packed(*parts: archive.ArchiveEntry, magic: bytes = archive.MAGIC) -> bytes:
    return s2.STREAM_BEGIN + s2.frames(magic + b"".join(map(archive.encode, parts)))


STATE = archive.ArchiveEntry(b"state.json", payload=b'{"first_seq":1,"last_seq":2}')
ONE, END = archive.ArchiveEntry(b"s.a", 5, 1, b"", b"x"), archive.ArchiveEntry(b"")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "cut off"),
        (GO[:-1], "cut off"),
        (packed(STATE, ONE), "cut off"),
        (packed(STATE, ONE)[:-1], "cut off"),
        (b"not a backup", "does not begin"),
        (packed(STATE, magic=b"\x1f\x8b tar data"), "before 2.15"),
        (packed(ONE), "state.json"),
        (packed(archive.ArchiveEntry(b"state.json", payload=b"x")), "state.json"),
        (
            packed(archive.ArchiveEntry(b"state.json", payload=b'{"consumer_count":1}'), ONE),
            "expected consumer",
        ),
        (
            packed(
                archive.ArchiveEntry(b"state.json", payload=b'{"consumer_count":1}'),
                archive.ArchiveEntry(b"consumers/c", payload=b"{}"),
            ),
            "consumer c",
        ),
        (packed(STATE, archive.ArchiveEntry(b"s.a", payload=b"x")), "expected message sequence"),
        (packed(STATE, ONE, ONE), "out of order"),
        (packed(STATE, ONE._replace(name=b"s.a\r\nMSG x 1 0\r\n\r\n")), "impossible subject"),
        (packed(STATE, ONE._replace(payload=b"x" * 2_000_000)), "maximum payload"),
        (packed(STATE, ONE, END, ONE), "after its end"),
    ],
)
def test_backups_that_leave_nothing(tmp_path: Path, data: bytes, text: str) -> None:
    place = Place(tmp_path)
    answer = give(place, data, step=100_000)
    assert answer["error"]["err_code"] == 10062
    assert text in answer["error"]["description"]
    assert place.ask("STREAM.NAMES")["streams"] is None
    assert stream_log("A", "S") not in place.file.names()
    assert give(place, packed(STATE, ONE, END))["state"]["last_seq"] == 2
    assert len(held(place)) == 1


def test_what_may_not_be_restored() -> None:
    place = Place()
    place.stream("S", subjects=["s.>"])
    assert give(place, GO)["error"]["err_code"] == 10130
    assert give(place, GO, "T", subjects=["s.x"])["error"]["err_code"] == 10065
    assert place.error("STREAM.RESTORE.T", {"config": {"name": "U"}}) == 10056
    assert place.error("STREAM.RESTORE.T", b"") == 10003


def test_a_restore_that_stalls_and_one_that_a_crash_breaks_off(tmp_path: Path) -> None:
    place = Place(tmp_path)
    wanted = {"config": {"name": "S", "subjects": ["s.>"]}, "state": {}}
    subject = place.ask("STREAM.RESTORE.S", wanted)["deliver_subject"]
    said = place.raw(subject, packed(STATE, ONE))
    assert said is not None
    assert said.payload == b""
    place.host.pass_time(6)
    assert stream_log("A", "S") not in place.file.names()
    assert place.raw(subject, b"") is None
    subject = place.ask("STREAM.RESTORE.S", wanted)["deliver_subject"]
    place.raw(subject, packed(STATE, ONE))
    again = place.restart()
    assert again.ask("STREAM.NAMES")["streams"] is None
    assert stream_log("A", "S") not in again.file.names()
    again.stream("S", subjects=["s.>"])
    assert held(again) == []
