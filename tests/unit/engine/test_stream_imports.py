"""Imported streams in the engine: shadows come and go with their subscription, and nothing else passes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from account_spaces import Spaces
from engine_peers import QUIET_WITH_HEADERS, Broker

from headrace.core.service import Delivery
from headrace.engine.permission_cache import PermissionCache
from headrace.engine.service import ServiceLink
from headrace.subjects import grammar
from headrace.subjects.imports import ImportedSubject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_peers import Peer


@pytest.fixture
def spaces(broker: Broker) -> Iterator[Spaces]:
    spaces = Spaces(broker)
    yield spaces
    spaces.stop()


def subscriptions(spaces: Spaces) -> int:
    return spaces.a.interest.statistics()["subscriptions"]


def test_delivery_has_the_subject_of_the_importer(spaces: Spaces) -> None:
    spaces.b.import_stream(spaces.a, b"st.*.>", b"from.$1.>")
    b = spaces.b.peer().send(b"SUB from.> 12\r\n")
    a = spaces.a.peer()

    a.send(b"PUB st.x.y.z reply 2\r\nhi\r\nPUB st.x.y.z 2\r\nho\r\nPUB st.q.y 1\r\n!\r\n")

    assert b.received() == (
        b"MSG from.x.y.z 12 reply 2\r\nhi\r\nMSG from.x.y.z 12 2\r\nho\r\nMSG from.q.y 12 1\r\n!\r\n"
    )


def test_unsubscribing_takes_the_shadow_along(spaces: Spaces) -> None:
    spaces.b.import_stream(spaces.a, b"st.>")
    b = spaces.b.peer().send(b"SUB st.x 1\r\nSUB st.* q 2\r\nSUB other 3\r\n")
    assert subscriptions(spaces) == 2

    b.send(b"UNSUB 1\r\n")
    assert subscriptions(spaces) == 1

    b.link.detach()
    spaces.broker.end_tick()
    assert subscriptions(spaces) == 0


def test_drop_of_subscriptions_drops_shadows(spaces: Spaces) -> None:
    spaces.b.import_stream(spaces.a, b"st.>")
    b = spaces.b.peer().send(b"SUB st.x 1\r\nSUB st.* 2\r\n")

    b.link.drop_subscriptions()

    assert subscriptions(spaces) == 0


def test_limit_of_an_unsub_takes_the_shadow_along(spaces: Spaces) -> None:
    spaces.b.import_stream(spaces.a, b"st.>")
    b = spaces.b.peer().send(b"SUB st.x 1\r\nUNSUB 1 1\r\nPUB st.x 1\r\nx\r\n")
    a = spaces.a.peer().send(b"PUB st.x 1\r\ny\r\n")

    assert b.received() == b"MSG st.x 1 1\r\nx\r\n"
    assert subscriptions(spaces) == 0
    assert a.received() == b""


def test_several_imports_and_several_parts(spaces: Spaces) -> None:
    spaces.c.import_stream(spaces.a, b"a.*", b"in.*")
    spaces.c.import_stream(spaces.b, b"b.*", b"in.*")
    c = spaces.c.peer().send(b"SUB in.1 1\r\nSUB in.* 2\r\n")

    spaces.a.peer().send(b"PUB a.1 1\r\nA\r\nPUB b.1 1\r\nno\r\n")
    spaces.b.peer().send(b"PUB b.2 1\r\nB\r\nPUB a.2 1\r\nn\r\n")

    frames = sorted(c.received().split(b"MSG ")[1:])
    assert frames == [b"in.1 1 1\r\nA\r\n", b"in.1 2 1\r\nA\r\n", b"in.2 2 1\r\nB\r\n"]


def test_headers_reach_those_who_want_them(spaces: Spaces) -> None:
    spaces.b.import_stream(spaces.a, b"st.>", b"in.>")
    plain = spaces.b.peer().send(b"SUB in.> 1\r\n")
    with_headers = spaces.b.peer(QUIET_WITH_HEADERS).send(b"SUB in.> 1\r\n")

    spaces.a.peer(QUIET_WITH_HEADERS).send(b"HPUB st.x 12 13\r\nNATS/1.0\r\n\r\nx\r\n")

    assert plain.received() == b"MSG in.x 1 1\r\nx\r\n"
    assert with_headers.received() == b"HMSG in.x 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n"


def test_queue_group_over_accounts_takes_one(spaces: Spaces) -> None:
    spaces.b.import_stream(spaces.a, b"st.>")
    receivers = [space.peer().send(b"SUB st.x q 1\r\n") for space in (spaces.a, spaces.b, spaces.b)]

    spaces.a.peer().send(b"PUB st.x 1\r\n.\r\n" * 60)

    counts = [peer.received().count(b"MSG") for peer in receivers]
    assert sum(counts) == 60
    assert all(counts)


def test_imported_message_is_filtered_by_its_local_subject(spaces: Spaces) -> None:
    spaces.b.import_stream(spaces.a, b"st.>", b"in.>")
    b = spaces.b.peer()
    b.session.hooks["subscribe_permission"] = lambda subject, queue: 2
    asked: list[bytes] = []

    def allowed(key: bytes) -> bool:
        asked.append(key)
        return key != b"in.no"

    b.link.restrict(None, PermissionCache(allowed), True, False)
    b.send(b"SUB in.> 1\r\n")

    spaces.a.peer().send(b"PUB st.no 1\r\nx\r\nPUB st.yes 1\r\ny\r\n")

    assert b.received() == b"MSG in.yes 1 1\r\ny\r\n"
    assert asked == [b"in.no", b"in.yes"]


def test_trace_tells_the_local_subject(spaces: Spaces) -> None:
    spaces.b.import_stream(spaces.a, b"st.>", b"in.>")
    b = spaces.b.peer().send(b"SUB in.> 1\r\n")
    b.link.traced = True

    spaces.a.peer().send(b"PUB st.x r 1\r\nx\r\n")

    assert b.session.called("trace_delivery") == [(b"in.x", b"1", b"r", 0, 1)]


def test_service_inside_the_server_receives_a_stream(spaces: Spaces) -> None:
    batches: list[list[Delivery]] = []

    class Session:
        def deliver(self, batch: list[Delivery]) -> None:
            batches.append(batch)

        def wake(self) -> None:
            """The tick's end serves."""

    spaces.b.import_stream(spaces.a, b"st.>", b"in.>")
    link = ServiceLink(spaces.broker.router, Session(), Delivery)
    link.interest = spaces.b.interest
    link.subscribe(b"in.*")

    spaces.a.peer().send(b"PUB st.x r 1\r\nx\r\n")
    spaces.broker.end_tick()

    assert [(d.subject, d.reply, d.payload) for batch in batches for d in batch] == [(b"in.x", b"r", b"x")]
    link.detach()


def test_rows_of_shadows_name_what_hangs_elsewhere(spaces: Spaces) -> None:
    spaces.b.import_stream(spaces.a, b"st.>", b"in.>")
    b = spaces.b.peer().send(b"SUB in.x 1\r\nSUB in.* q 2\r\nSUB y 3\r\n")
    spaces.a.peer().send(b"PUB st.x 1\r\n.\r\n")

    assert sorted(b.link.shadows({id(spaces.a.interest)})) == [
        (b"st.*", b"q", b"2", 1, 0),
        (b"st.x", None, b"1", 1, 0),
    ]
    assert b.link.shadows({id(spaces.c.interest)}) == []


def test_more_subjects_than_are_remembered_are_still_renamed(plain_broker: Broker) -> None:
    spaces = Spaces(plain_broker)
    spaces.b.import_stream(spaces.a, b"st.>", b"in.>")
    b = spaces.b.peer().send(b"SUB in.> 1\r\n")
    a = spaces.a.peer()
    subjects = [b"%d" % n for n in range(2500)] + [b"x" * 600, b"0"]

    a.send(b"".join(b"PUB st.%b 0\r\n\r\n" % subject for subject in subjects))

    assert b.received() == b"".join(b"MSG in.%b 1 0\r\n\r\n" % subject for subject in subjects)
    spaces.stop()


def test_wide_subscription_of_a_wide_import(spaces: Spaces) -> None:
    """`>` there and `>` here: everything passes, and what is published here is not taken for imported."""
    spaces.b.import_stream(spaces.a, b">")
    b = spaces.b.peer().send(b"SUB > 1\r\nPUB x 1\r\n1\r\n")
    a = spaces.a.peer().send(b"SUB > 1\r\nPUB y.z 1\r\n2\r\n")

    assert b.received() == b"MSG x 1 1\r\n1\r\nMSG y.z 1 1\r\n2\r\n"
    assert a.received() == b"MSG y.z 1 1\r\n2\r\n"


TOKENS = ("a", "b", "c")


def _subject(chance: random.Random, *, wild: bool) -> str:
    tokens = [chance.choice(("*", *TOKENS) if wild else TOKENS) for _ in range(chance.randint(1, 3))]
    if wild and chance.random() < 0.3:
        tokens[-1] = ">"
    return ".".join(tokens)


@pytest.mark.parametrize("seed", range(12))
def test_random_play_against_a_model(plain_broker: Broker, seed: int) -> None:
    """What is delivered is what matching says, whatever was subscribed and given up before."""
    chance = random.Random(seed)
    spaces = Spaces(plain_broker)
    imported = ImportedSubject(b"a.*.>", b"b.$1.>"), ImportedSubject(b"*.b", b"c.*")
    for pair in imported:
        spaces.b.import_stream(spaces.a, pair.exported, b"b.$1.>" if pair is imported[0] else b"c.*")
    importers = [spaces.b.peer() for _ in range(3)]
    exporter = spaces.a.peer()
    known: dict[tuple[int, int], bytes] = {}

    for _ in range(400):
        act = chance.random()
        number = chance.randrange(len(importers))
        if act < 0.3:
            sid, subject = chance.randrange(30), _subject(chance, wild=True).encode()
            importers[number].send(b"SUB %b %d\r\n" % (subject, sid))
            known.setdefault((number, sid), subject)
        elif act < 0.45 and known:
            number, sid = chance.choice(sorted(known))
            importers[number].send(b"UNSUB %d\r\n" % sid)
            del known[number, sid]
        else:
            subject = _subject(chance, wild=False).encode()
            exporter.send(b"PUB %b 0\r\n\r\n" % subject)
            assert _received(importers) == _expected(subject, imported, known)
        if chance.random() < 0.2:
            plain_broker.end_tick()
    spaces.stop()


def _received(importers: list[Peer]) -> list[tuple[int, bytes]]:
    return sorted(
        (number, frame)
        for number, peer in enumerate(importers)
        for frame in peer.received().split(b"\r\n\r\n")
        if frame
    )


def _expected(
    subject: bytes, imported: tuple[ImportedSubject, ...], known: dict[tuple[int, int], bytes]
) -> list[tuple[int, bytes]]:
    frames = []
    for pair in imported:
        if grammar.matches(pair.exported, subject):
            local = pair.to_local(subject)
            frames += [
                (number, b"MSG %b %d 0" % (local, sid))
                for (number, sid), pattern in known.items()
                if grammar.matches(pattern, local)
            ]
    return sorted(frames)
