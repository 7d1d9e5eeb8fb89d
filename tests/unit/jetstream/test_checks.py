"""The table of checks: each row refuses what it says, and everything else is derived from the rows.

The order of the rows is compared with the Go server's in `tests/conformance/test_jetstream_checks.py`.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from js_streams import DEFAULTS, World, block

from headrace.jetstream.stream.acceptance import MOST_WALKS, Acceptance, Before, Check, CheckTable, Rows
from headrace.jetstream.stream.checks import CHECKS
from headrace.jetstream.stream.publication import Publication, PublicationKind
from headrace.log.port import StoredMessage
from headrace.protocol.jetstream import headers as hdr
from headrace.protocol.jetstream.configs import StreamConfig, SubjectTransformConfig
from headrace.protocol.jetstream.errors import ERRORS, ApiError

SCHEDULE: Final = {"Nats_Schedule": "@every 1h", "Nats_Schedule_Target": "s.t"}
SCHEDULES: Final = {"allow_msg_schedules": True, "allow_rollup_hdrs": True}
COUNTERS: Final = {"allow_msg_counter": True}
SCHEMA: Final = {"headrace.schema": "{}", "headrace.schema.type": "json"}
CHECKED: Final = {**SCHEMA, "headrace.schema.check": "true"}
LAST: Final = "Nats_Expected_Last_Sequence"
OF_SUBJECT: Final = "Nats_Expected_Last_Subject_Sequence"
SUBJECT: Final = "Nats_Expected_Last_Subject_Sequence_Subject"
LAST_ID: Final = "Nats_Expected_Last_Msg_Id"

REFUSED: Final[list[tuple[str, int, dict[str, Any], dict[str, str]]]] = [
    ("sealed", 10109, {"sealed": True}, {}),
    ("room", 10002, {}, {}),
    ("size", 10054, {"max_msg_size": 3}, {}),
    ("header size", 10097, {}, {"X": "x" * 65_536}),
    ("no atomic batches", 10174, {}, {"Nats_Batch_Id": "b"}),
    ("batch id", 10179, {"allow_atomic": True}, {"Nats_Batch_Id": "b" * 65}),
    ("no fast ingest", 10205, {}, {}),
    ("last id in a batch", 10177, {}, {LAST_ID: "x"}),
    ("increment", 10171, {}, {"Nats_Incr": "x"}),
    ("no counter", 10168, {}, {"Nats_Incr": "1"}),
    ("counting", 10170, COUNTERS, {"Nats_Incr": "1"}),
    ("expected stream", 10060, {}, {"Nats_Expected_Stream": "T"}),
    ("required id", 10077, {"metadata": {"headrace.require_msg_id": "true"}}, {}),
    ("payload", 10077, {"metadata": CHECKED}, {"Nats_Msg_Id": "1"}),
    ("no TTL", 10166, {}, {"Nats_TTL": "1h"}),
    ("no TTL in a batch", 10166, {}, {"Nats_TTL": "soon"}),
    ("TTL in a batch", 10165, {"allow_msg_ttl": True}, {"Nats_TTL": "soon"}),
    ("subject's last sequence", 10071, {}, {OF_SUBJECT: "7"}),
    ("subject's last sequence", 10193, {}, {SUBJECT: "s.x"}),
    ("last sequence", 10071, {}, {LAST: "7"}),
    ("schedule", 10166, SCHEDULES, {**SCHEDULE, "Nats_Schedule_TTL": "1h"}),
    ("schedule", 10188, {}, SCHEDULE),
    ("schedule", 10189, SCHEDULES, {**SCHEDULE, "Nats_Schedule": "now"}),
    ("schedule", 10190, SCHEDULES, {"Nats_Schedule": "@every 1h"}),
    ("schedule", 10191, SCHEDULES, {**SCHEDULE, "Nats_Schedule_TTL": "x"}),
    ("schedule", 10192, SCHEDULES, {**SCHEDULE, "Nats_Rollup": "all"}),
    ("schedule", 10203, SCHEDULES, {**SCHEDULE, "Nats_Schedule_Source": "x"}),
    ("schedule", 10212, SCHEDULES, {"Nats_Scheduler": "s.s"}),
    ("schedule", 10223, SCHEDULES, {**SCHEDULE, "Nats_Schedule_Time_Zone": "x"}),
    ("id in a batch", 10201, {}, {"Nats_Msg_Id": "1"}),
    ("source", 10227, {}, {"Nats_Stream_Source": "O 1 > >"}),
    ("last id", 10070, {}, {LAST_ID: "x"}),
    ("no roll-up", 10111, {}, {"Nats_Rollup": "sub"}),
    ("no roll-up", 10111, {"allow_rollup_hdrs": True, "deny_purge": True}, {"Nats_Rollup": "sub"}),
    ("roll-up", 10111, {"allow_rollup_hdrs": True}, {"Nats_Rollup": "some"}),
    ("counter", 10169, COUNTERS, {}),
    ("counter", 10172, COUNTERS, {"Nats_Incr": "1"}),
    ("last sequence in a batch", 10071, {}, {LAST: "7"}),
    ("last sequence in a batch", 10164, {}, {LAST: "4"}),
    ("subject's last sequence in a batch", 10071, {}, {OF_SUBJECT: "7"}),
    ("subject's last sequence in a batch", 10193, {}, {SUBJECT: "s.x"}),
    ("schedule in a batch", 10188, {}, SCHEDULE),
    ("no roll-up in a batch", 10111, {}, {"Nats_Rollup": "sub"}),
    ("second roll-up in a batch", 10111, {"allow_rollup_hdrs": True}, {"Nats_Rollup": "sub"}),
    ("second roll-up in a batch", 10111, {"allow_rollup_hdrs": True}, {"Nats_Rollup": "all"}),
    ("roll-up in a batch", 10111, {"allow_rollup_hdrs": True}, {"Nats_Rollup": "some"}),
    ("last id in fast ingest", 10070, {}, {LAST_ID: "x"}),
    ("stored size", 10054, {"max_msg_size": 75, **SCHEDULES}, SCHEDULE),
    ("stored header size", 10097, SCHEDULES, {**SCHEDULE, "X": "x" * 65_455}),
    ("size in a batch", 10054, {"max_msg_size": 3}, {}),
    ("header size in a batch", 10097, {}, {"X": "x" * 65_536}),
    ("mirrored size", 10054, {"max_msg_size": 3}, {}),
    ("TTL", 10165, {}, {"Nats_TTL": "x"}),
    ("restored TTL", 10165, {"allow_msg_ttl": True}, {"Nats_TTL": "x"}),
]
"""A row, the error, the stream, the headers of a message of five bytes that is the second of its batch."""


class Met(Before):
    """What the messages of `REFUSED` meet."""

    @property
    def last_sequence(self) -> int:
        return 4

    def last_of(self, subject: bytes) -> int:
        return 2

    def last(self, subject: bytes) -> StoredMessage | None:
        return StoredMessage(2, 0, subject, b"", b"", b"no counter") if subject == b"s.a" else None

    def is_of_batch(self, subject: bytes) -> bool:
        return True

    def find(self, msg_id: bytes) -> None:
        raise ApiError(10201)


def config(**fields: Any) -> StreamConfig:
    return StreamConfig(**{"name": "S", "subjects": ["s.>"], **DEFAULTS, **fields})


def message(payload: bytes = b"", **headers: str) -> Publication:
    return Publication(b"s.a", payload, block(**headers))


def walked(rows: Rows, kind: PublicationKind = PublicationKind.SINGLE, **headers: str) -> list[str]:
    return [check.name for check in rows.walk(kind, block(**headers)).checks]


# -- each row


@pytest.mark.parametrize(("name", "code", "stream", "headers"), REFUSED)
def test_a_row_refuses_with_its_errors(
    name: str, code: int, stream: dict[str, Any], headers: dict[str, str]
) -> None:
    """All rows before it let the message pass."""
    (row,) = (check for check in CHECKS.checks if check.name == name)
    before = Met(config(**stream))
    before.count = 1
    payload = b"" if "Nats_Incr" in headers and code != 10170 else b"12345"
    p = message(b"1234," if name == "payload" else payload, **headers)
    before.refused = lambda _size: 10002 if name == "room" else 0  # type: ignore[method-assign]
    refused_by = None
    for check in CHECKS.rows(before.config).walk(next(iter(row.kinds)), p.headers).checks:
        try:
            check.judge(before, p)
        except ApiError as error:
            refused_by = check.name, error.err_code
            break
    assert refused_by == (name, code)
    assert code in row.errors


def test_every_row_that_refuses_has_an_example() -> None:
    assert {name for name, *_ in REFUSED} == {check.name for check in CHECKS.checks if check.errors}


def test_rows_have_names_of_their_own_and_known_errors() -> None:
    names = [check.name for check in CHECKS.checks]
    assert len(set(names)) == len(names)
    for check in CHECKS.checks:
        assert check.kinds
        assert set(check.errors) <= ERRORS.keys()


# -- walks


def test_a_message_passes_the_checks_that_its_headers_ask_for() -> None:
    rows = CHECKS.rows(config())
    plain = ["size", "header size", "trace"]
    assert walked(rows) == plain
    assert walked(rows, Other="x") == plain
    assert walked(rows, Nats_Unknown="x") == plain
    assert walked(rows, Nats_Msg_Id="1") == ["size", "header size", "id", "trace"]
    assert walked(rows, Nats_Expected_Last_Sequence="1") == ["size", "header size", "last sequence", "trace"]
    assert walked(rows, PublicationKind.MIRRORED, Nats_Expected_Last_Sequence="1") == []


@pytest.mark.parametrize(
    ("headers", "reads_log", "is_plain"),
    [
        ({}, False, True),
        ({"Nats_Msg_Id": "1"}, False, True),
        ({"Nats_Msg_Id": "1", "Nats_TTL": "1h"}, False, False),
        ({"Nats_Msg_Id": "1", "Nats_Batch_Id": "b"}, False, False),
        ({"Nats_Stream_Source": "S"}, False, False),
        ({"Nats_Expected_Last_Msg_Id": "1"}, True, False),
        ({"Nats_Rollup": "sub"}, True, False),
        ({"Nats_Scheduler": "s.s"}, True, False),
    ],
)
def test_what_a_message_needs_follows_from_its_checks(
    headers: dict[str, str], reads_log: bool, is_plain: bool
) -> None:
    walk = CHECKS.rows(config(allow_rollup_hdrs=True)).walk(PublicationKind.SINGLE, block(**headers))
    assert (walk.reads_log, walk.is_plain) == (reads_log, is_plain)


def test_headers_in_any_combination_do_not_pile_up() -> None:
    names = [f"Nats-{number}".encode() for number in range(12)]
    check = Check("many", PublicationKind.SINGLE, _pass, headers=tuple(names))
    rows = Rows([check])
    for chosen in range(1, 1 << len(names)):
        lines = (b"%b: x\r\n" % name for place, name in enumerate(names) if chosen >> place & 1)
        walk = rows.walk(PublicationKind.SINGLE, b"NATS/1.0\r\n" + b"".join(lines) + b"\r\n")
        assert walk.checks == (check,)
    assert len(rows._walks) <= MOST_WALKS


PIECES: Final = (
    *(b"Nats-TTL", b"Nats-TTL-More", b"Nats-Expected-Stream", b"nats-ttl", b"Nats-", b"Other", b"NATS/1.0"),
    *(b":", b": ", b" ", b"\r\n", b"\r\n", b"\r", b"\n", b"\x00", b"x", b"503"),
)
NAMES: Final = (b"Nats-TTL", b"Nats-TTL-More", b"Nats-Expected-Stream")


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_no_block_of_headers_hides_one_from_its_check(pieces: list[bytes]) -> None:
    """What a check would find in headers, whatever they are, is what it is asked for."""
    rows = Rows([Check(name.decode(), PublicationKind.SINGLE, _pass, headers=(name,)) for name in NAMES])
    headers = b"".join(pieces)
    asked = [check.name.encode() for check in rows.walk(PublicationKind.SINGLE, headers).checks]
    assert asked == [name for name in NAMES if hdr.has(headers, name)]


def _pass(_before: Before, _p: Publication) -> None:
    """A check that lets everything pass."""


def test_streams_that_the_same_rows_concern_share_them() -> None:
    rows = CHECKS.rows(config(name="S", max_msgs=5))
    assert CHECKS.rows(config(name="T")) is rows
    assert CHECKS.rows(config(allow_msg_ttl=True)) is not rows


# -- compiled code


COMPILED: Final[list[tuple[dict[str, Any], bool]]] = [
    ({}, True),
    ({"max_msg_size": 10}, True),
    ({"allow_msg_ttl": True}, True),
    ({"deny_delete": True, "deny_purge": True}, True),
    ({"allow_atomic": True, "allow_batched": True}, True),
    (SCHEDULES, True),
    ({"subject_transform": SubjectTransformConfig(src=">", dest="")}, True),
    ({"sealed": True}, False),
    (COUNTERS, False),
    ({"metadata": {"headrace.require_msg_id": "true"}}, False),
    ({"metadata": {"headrace.require_msg_id": "false"}}, True),
    ({"metadata": SCHEMA}, True),
    ({"metadata": CHECKED}, False),
    ({"subject_transform": SubjectTransformConfig(src="s.*", dest="t.$1")}, False),
]


@pytest.mark.parametrize(("stream", "is_compiled"), COMPILED)
def test_the_rows_say_where_compiled_code_may_take_messages(
    stream: dict[str, Any], is_compiled: bool
) -> None:
    rows = CHECKS.rows(config(**stream))
    assert rows.is_compiled is is_compiled
    assert rows.judges_all is not is_compiled


def _refuse(_before: Before, _p: Publication) -> None:
    raise ApiError(10109)


@pytest.mark.parametrize(
    ("fields", "is_compiled", "judges_all"),
    [
        ({}, False, True),
        ({"headers": (b"Nats-New",)}, True, False),
        ({"headers": (b"Nats-Msg-Id",)}, False, False),
        ({"headers": (b"Content-Type",)}, False, True),
        ({"streams": lambda stream: stream.deny_delete}, True, False),
        ({"is_compiled": True}, True, False),
    ],
)
def test_a_new_row_keeps_compiled_code_away(
    fields: dict[str, Any], is_compiled: bool, judges_all: bool
) -> None:
    """Compiled code never takes a message with a header of ours, but for an id."""
    table = CheckTable(*CHECKS.checks, Check("new", PublicationKind.SINGLE, _refuse, (10109,), **fields))
    rows = table.rows(config())
    assert (rows.is_compiled, rows.judges_all) == (is_compiled, judges_all)


def test_a_new_row_is_asked_for_every_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row without a word on compiled code: no message passes it by, in a batch of Python or by a lane."""
    refusing = CheckTable(*CHECKS.checks, Check("new", PublicationKind.SINGLE, _refuse, (10109,)))
    monkeypatch.setattr("headrace.jetstream.stream.stream.CHECKS", refusing)
    world = World()
    world.receive(b"s.a", (b"s.b", block(Nats_Msg_Id="1"), b""), (b"s.c", block(Other="1"), b"x"))
    assert [answer["error"]["err_code"] for answer in world.acks()] == [10109] * 3
    assert world.held() == []


# -- other configurations


def test_another_configuration_chooses_other_rows() -> None:
    acceptance = Acceptance(CHECKS, Before(config()))
    acceptance.judge(PublicationKind.SINGLE, message(b"12345"))
    acceptance.configure(config(sealed=True))
    with pytest.raises(ApiError) as refused:
        acceptance.judge(PublicationKind.SINGLE, message(b"12345"))
    assert refused.value.err_code == 10109
