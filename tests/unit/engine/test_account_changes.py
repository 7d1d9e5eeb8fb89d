"""Accounts that change under their clients: afterwards messages go as if they had always been like that."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from engine_peers import NO_RESPONDERS, Broker

from headrace.conf.account_options import (
    AccountOptions,
    ExportOptions,
    ImportOptions,
    LatencyOptions,
    SubjectMapping,
)
from headrace.conf.options import Options
from headrace.core.accounts import Accounts
from headrace.core.service import Delivery
from headrace.engine.service import ServiceLink
from headrace.errors import ConfigError
from headrace.subjects.imports import BadImport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_peers import Peer

    from headrace.core.account import Account

MADE = re.compile(rb"_R_\.[0-9a-f]{8}\.[0-9a-f]{18}")
SECOND = 1_000_000_000


class Meter:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.failures: list[int] = []
        self.answers = 0
        self.is_closed = False

    def begins(self, requestor: bytes | None, headers: bytes, /, *, has_reply: bool) -> Meter:
        return self

    def answered(self, responder: object) -> None:
        self.answers += 1

    def failed(self, status: int) -> None:
        self.failures.append(status)

    def close(self) -> None:
        self.is_closed = True


class World:
    """A broker with accounts that are wired by `core.accounts`."""

    def __init__(self, broker: Broker, *accounts: AccountOptions, system: str | None = None) -> None:
        self.broker = broker
        self.failures: list[Exception] = []
        self.meters: list[Meter] = []
        options = Options(accounts=accounts, system_account=system)
        self.accounts = Accounts(options, broker.router, self.failures.append, self._meter)

    def _meter(self, options: LatencyOptions, exporter: Account) -> Meter:
        self.meters.append(Meter())
        return self.meters[-1]

    def peer(self, account: str, hello: bytes = b"") -> Peer:
        peer = self.broker.peer(b"")
        peer.link.interest = self.accounts[account].interest
        return peer.send(hello or b'CONNECT {"verbose":false,"pedantic":false}\r\n')

    def subscriptions(self, account: str) -> int:
        return int(self.accounts[account].interest.statistics()["subscriptions"])

    def stop(self) -> None:
        assert self.failures == []
        self.accounts.close()
        vars(self).clear()


@pytest.fixture
def worlds(broker: Broker) -> Iterator[Any]:
    made: list[World] = []

    def make(*accounts: AccountOptions, system: str | None = None) -> World:
        made.append(World(broker, *accounts, system=system))
        return made[-1]

    yield make
    for world in made:
        world.stop()


def stream(subject: str, **options: Any) -> ExportOptions:
    return ExportOptions(subject, **options)


def service(subject: str, **options: Any) -> ExportOptions:
    return ExportOptions(subject, is_service=True, **options)


def takes(account: str, subject: str, local: str = "", *, is_service: bool = False) -> ImportOptions:
    return ImportOptions(account, subject, local or subject, is_service=is_service)


A_STREAM = AccountOptions("A", exports=(stream("st.>"),))
B_STREAM = AccountOptions("B", imports=(takes("A", "st.>", "in.>"),))
A_SERVICE = AccountOptions("A", exports=(service("svc"),))
B_SERVICE = AccountOptions("B", imports=(takes("A", "svc", "my", is_service=True),))


# -- streams ------------------------------------------------------------------------------------------


def test_new_import_reaches_subscriptions_that_are_there(worlds: Any) -> None:
    world = worlds(A_STREAM, AccountOptions("B"))
    b = world.peer("B").send(b"SUB in.x 1\r\nSUB > q 2\r\nSUB other 3\r\n")
    a = world.peer("A").send(b"PUB st.x 1\r\n1\r\n")
    assert b.received() == b""

    world.accounts.replace([B_STREAM])
    a.send(b"PUB st.x 1\r\n2\r\nPUB st.y 1\r\n3\r\n")

    frames = sorted(b.received().split(b"MSG ")[1:])
    assert frames == [b"in.x 1 1\r\n2\r\n", b"in.x 2 1\r\n2\r\n", b"in.y 2 1\r\n3\r\n"]
    assert world.subscriptions("A") == 2


def test_import_that_ends_reaches_nobody_any_more(worlds: Any) -> None:
    world = worlds(A_STREAM, B_STREAM)
    b = world.peer("B").send(b"SUB in.x 1\r\nSUB in.> q 2\r\n")
    a = world.peer("A").send(b"PUB st.x 1\r\n1\r\nPUB st.x 1\r\n1\r\n")  # the second time from a kept plan
    assert b.received().count(b"MSG") == 4

    world.accounts.replace([AccountOptions("B")])
    assert world.subscriptions("A") == 0
    a.send(b"PUB st.x 1\r\n2\r\n")
    b.send(b"PUB in.x 1\r\n3\r\n")

    assert sorted(b.received().split(b"MSG ")[1:]) == [b"in.x 1 1\r\n3\r\n", b"in.x 2 1\r\n3\r\n"]
    b.send(b"UNSUB 1\r\nUNSUB 2\r\n")
    assert world.subscriptions("B") == 0


def test_export_that_is_taken_back_ends_the_import(worlds: Any) -> None:
    world = worlds(A_STREAM, B_STREAM)
    b = world.peer("B").send(b"SUB in.x 1\r\n")

    world.accounts.replace([AccountOptions("A", exports=(stream("st.>", accounts=("C",)),))])
    world.peer("A").send(b"PUB st.x 1\r\n1\r\n")
    assert b.received() == b""

    world.accounts.replace([A_STREAM])
    world.peer("A").send(b"PUB st.x 1\r\n2\r\n")
    assert b.received() == b"MSG in.x 1 1\r\n2\r\n"


def test_import_that_stays_is_the_same_object(worlds: Any) -> None:
    world = worlds(A_STREAM, B_STREAM)
    before = world.accounts["B"].interest.imports

    world.accounts.replace([A_STREAM, B_STREAM])

    assert world.accounts["B"].interest.imports[0] is before[0]


def test_account_may_import_from_itself_later(worlds: Any) -> None:
    world = worlds(A_STREAM)
    a = world.peer("A").send(b"SUB again.> 1\r\nSUB > 2\r\n")

    world.accounts.replace(
        [AccountOptions("A", exports=(stream("st.>"),), imports=(takes("A", "st.x", "again.x"),))]
    )
    a.send(b"PUB st.x 1\r\n.\r\n")

    assert sorted(a.received().split(b"MSG ")[1:]) == [
        b"again.x 1 1\r\n.\r\n",
        b"again.x 2 1\r\n.\r\n",
        b"st.x 2 1\r\n.\r\n",
    ]


def test_services_of_this_process_get_imports_too(worlds: Any) -> None:
    class Session:
        def __init__(self) -> None:
            self.batches: list[Delivery] = []

        def deliver(self, batch: list[Delivery]) -> None:
            self.batches += batch

    world = worlds(A_STREAM, AccountOptions("B"))
    session = Session()
    link = ServiceLink(world.broker.router, session, Delivery)
    link.interest = world.accounts["B"].interest
    link.subscribe(b"in.>")

    world.accounts.replace([B_STREAM])
    world.peer("A").send(b"PUB st.x 1\r\n.\r\n")
    world.broker.end_tick()

    assert [delivery.subject for delivery in session.batches] == [b"in.x"]
    link.detach()


def test_end_of_the_exporter_and_of_the_importer(worlds: Any) -> None:
    world = worlds(A_STREAM, B_STREAM)
    b = world.peer("B").send(b"SUB in.x 1\r\n")
    a = world.peer("A").send(b"SUB st.x 1\r\n")

    world.accounts.replace([AccountOptions("B")], removed=["A"])
    assert "A" not in world.accounts
    a.send(b"PUB st.x 1\r\n1\r\n")  # it has not been closed yet
    assert (a.received(), b.received()) == (b"MSG st.x 1 1\r\n1\r\n", b"")

    world.accounts.replace([A_STREAM, B_STREAM])
    a.send(b"PUB st.x 1\r\n2\r\n")  # a client of the account that is gone
    assert b.received() == b""
    world.peer("A").send(b"PUB st.x 1\r\n3\r\n")
    assert b.received() == b"MSG in.x 1 1\r\n3\r\n"

    world.accounts.replace([], removed=["B"])
    assert world.subscriptions("A") == 0
    b.link.detach()


# -- services -----------------------------------------------------------------------------------------


def made(peer: Peer) -> bytes:
    found = MADE.findall(peer.received())
    assert len(found) == 1
    return bytes(found[0])


def test_answer_under_way_comes_when_the_service_is_imported_as_before(worlds: Any) -> None:
    world = worlds(A_SERVICE, B_SERVICE)
    a = world.peer("A").send(b"SUB svc 1\r\n")
    b = world.peer("B").send(b"SUB r 1\r\nPUB my r 1\r\n?\r\n")
    reply = made(a)

    streamed = AccountOptions("A", exports=(service("svc", response_type="stream", response_threshold=1.0),))
    world.accounts.replace([streamed, B_SERVICE])
    a.send(b"PUB %b 1\r\n1\r\nPUB %b 1\r\n2\r\n" % (reply, reply))

    assert b.received() == b"MSG r 1 1\r\n1\r\nMSG r 1 1\r\n2\r\n"  # under the new rules
    world.broker.router.now += 2 * SECOND
    world.accounts.expire()
    assert world.accounts["A"].link.awaited == 0


@pytest.mark.parametrize("how", ["import gone", "export gone", "importer gone", "exporter gone"])
def test_answer_under_way_is_given_up_with_the_import(worlds: Any, how: str) -> None:
    measured = AccountOptions("A", exports=(service("svc", latency=LatencyOptions("took")),))
    world = worlds(measured, B_SERVICE)
    a = world.peer("A").send(b"SUB svc 1\r\n")
    b = world.peer("B").send(b"SUB r 1\r\nPUB my r 1\r\n?\r\n")
    reply = made(a)
    meter = world.meters[0]

    match how:
        case "import gone":
            world.accounts.replace([AccountOptions("B")])
        case "export gone":
            world.accounts.replace([AccountOptions("A")])
        case "importer gone":
            world.accounts.replace([], removed=["B"])
        case _:
            world.accounts.replace([AccountOptions("B")], removed=["A"])
    assert meter.failures == [504]
    assert meter.is_closed == (how in ("export gone", "exporter gone"))
    a.send(b"PUB %b 1\r\n1\r\n" % reply)
    assert b.received() == b""
    assert all(account.link.awaited == 0 for account in world.accounts)


def test_request_after_the_import_is_gone_has_nobody(worlds: Any) -> None:
    world = worlds(A_SERVICE, B_SERVICE)
    a = world.peer("A").send(b"SUB svc 1\r\n")
    b = world.peer("B", NO_RESPONDERS).send(b"SUB r 1\r\n")

    world.accounts.replace([AccountOptions("B")])
    b.send(b"PUB my r 0\r\n\r\n")

    assert b.received().startswith(b"HMSG r 1 34 34\r\nNATS/1.0 503")
    assert a.received() == b""


def test_place_of_a_service_that_went_is_used_again(worlds: Any) -> None:
    exporter = AccountOptions("A", exports=(service("x"), service("y"), service("z")))
    imports = {name: takes("A", name, is_service=True) for name in "xyz"}
    world = worlds(exporter, AccountOptions("B", imports=(imports["x"], imports["y"])))
    a = world.peer("A").send(b"SUB * 1\r\n")

    world.accounts.replace([AccountOptions("B", imports=(imports["y"],))])
    world.accounts.replace([AccountOptions("B", imports=(imports["y"], imports["z"]))])
    world.peer("B").send(b"PUB x 1\r\n1\r\nPUB y 1\r\n2\r\nPUB z 1\r\n3\r\n")

    assert a.received() == b"MSG y 1 1\r\n2\r\nMSG z 1 1\r\n3\r\n"
    assert len(world.accounts["B"].link.services) == 2


def test_export_that_changed_is_one_for_old_and_new_imports(worlds: Any) -> None:
    """A request passes an export once: a new import must know it as those from before do."""
    to_c = takes("C", "svc", is_service=True)
    from_a = takes("A", "svc", is_service=True)
    first = AccountOptions("A", exports=(service("svc"),), imports=(to_c,))
    world = worlds(
        first, AccountOptions("B", imports=(from_a,)), AccountOptions("C", exports=(service("svc"),))
    )
    a, c = (world.peer(name).send(b"SUB svc 1\r\n") for name in "AC")

    slower = AccountOptions("A", exports=(service("svc", response_threshold=3.0),), imports=(to_c,))
    world.accounts.replace([slower, AccountOptions("C", exports=(service("svc"),), imports=(from_a,))])
    world.peer("B").send(b"PUB svc 1\r\n.\r\n")

    assert (a.received().count(b"MSG"), c.received().count(b"MSG")) == (1, 1)


def test_imported_streams_do_not_reach_what_passes_services_on(worlds: Any) -> None:
    exporter = AccountOptions("A", exports=(stream("x"), service("y")))
    world = worlds(exporter, AccountOptions("B", imports=(takes("A", "y", "in", is_service=True),)))
    a = world.peer("A").send(b"SUB y 1\r\n")

    both = (takes("A", "y", "in", is_service=True), takes("A", "x", "in"))
    world.accounts.replace([AccountOptions("B", imports=both)])
    a.send(b"PUB x 1\r\n.\r\n")

    assert a.received() == b""
    assert world.subscriptions("A") == 1


# -- mappings, refusals -------------------------------------------------------------------------------


def test_mappings_change_and_what_was_remembered_is_forgotten(worlds: Any) -> None:
    world = worlds(AccountOptions("A", mappings=(SubjectMapping("x", "y"),)))
    a = world.peer("A").send(b"SUB * 1\r\n" + b"PUB x 1\r\n1\r\n" * 3)
    assert a.received() == b"MSG y 1 1\r\n1\r\n" * 3

    world.accounts.replace([AccountOptions("A", mappings=(SubjectMapping("x", "z"),))])
    a.send(b"PUB x 1\r\n2\r\n" * 3)
    assert a.received() == b"MSG z 1 1\r\n2\r\n" * 3

    world.accounts.replace([AccountOptions("A")])
    a.send(b"PUB x 1\r\n3\r\n" * 3)
    assert a.received() == b"MSG x 1 1\r\n3\r\n" * 3

    world.accounts.replace([AccountOptions("A", mappings=(SubjectMapping("x", "y"),))])
    a.send(b"PUB x 1\r\n4\r\n")
    assert a.received() == b"MSG y 1 1\r\n4\r\n"


@pytest.mark.parametrize(
    ("changed", "removed", "error"),
    [
        (
            [AccountOptions("A"), AccountOptions("B", mappings=(SubjectMapping("a..b", "c"),))],
            (),
            ConfigError,
        ),
        ([AccountOptions("A"), AccountOptions("B", imports=(takes("A", "st.*", "x.$2"),))], (), BadImport),
        ([AccountOptions("A")], ("nobody",), KeyError),
        ([AccountOptions("A")], ("$G",), ValueError),
        ([AccountOptions("A")], ("B", "$SYS"), ValueError),
    ],
)
def test_what_cannot_be_changes_nothing(
    worlds: Any, changed: list[AccountOptions], removed: tuple[str, ...], error: type[Exception]
) -> None:
    world = worlds(A_STREAM, B_STREAM, system="$SYS")
    b = world.peer("B").send(b"SUB in.x 1\r\n")

    with pytest.raises(error):
        world.accounts.replace(changed, removed)

    world.peer("A").send(b"PUB st.x 1\r\n1\r\n")
    assert b.received() == b"MSG in.x 1 1\r\n1\r\n"
    assert [account.name for account in world.accounts] == ["$G", "A", "B", "$SYS"]


# -- any change, under traffic ------------------------------------------------------------------------

NAMES = "ABCD"
SUBJECTS = ("a.x", "a.y", "b.x", "c")
PATTERNS = ("a.*", "a.x", "b.>", ">", "c", "*.x")


def some_accounts(draw: random.Random) -> list[AccountOptions]:
    """Accounts whose imports need not be permitted, nor be from an account that there is."""
    accounts = []
    for name in draw.sample(NAMES, draw.randint(1, len(NAMES))):
        exports = tuple(
            ExportOptions(
                pattern, is_service=draw.random() < 0.4, accounts=draw.choice((None, None, ("A", "C")))
            )
            for pattern in draw.sample(PATTERNS, draw.randint(0, 3))
        )
        imports = tuple(
            takes(draw.choice(NAMES), pattern, is_service=draw.random() < 0.4)
            for pattern in draw.sample(("a.*", "a.x", "b.>", "c"), draw.randint(0, 3))
        )
        mappings = (SubjectMapping("c", "a.x"),) if draw.random() < 0.2 else ()
        accounts.append(AccountOptions(name, exports=exports, imports=imports, mappings=mappings))
    return accounts


def subscribed(draw: random.Random) -> bytes:
    ops = []
    for sid in range(draw.randint(1, 4)):
        queue = draw.choice((b"", b"", b"q "))
        ops.append(b"SUB %b %b%d\r\n" % (draw.choice(PATTERNS).encode(), queue, sid))
    return b"".join(ops)


def heard(peers: list[Peer], publisher: Peer, subject: str) -> list[int]:
    """How many messages each hears of one; those of queue groups are counted as one group's."""
    for peer in peers:
        peer.received()
    publisher.send(b"PUB %b 1\r\n.\r\n" % subject.encode())
    frames = [peer.received() for peer in peers]
    return [frame.count(b"MSG") for frame in frames]


@pytest.mark.parametrize("seed", range(40))
def test_after_any_changes_messages_go_as_from_the_beginning(plain_broker: Broker, seed: int) -> None:
    draw = random.Random(seed)
    present = {options.name: options for options in some_accounts(draw)}
    changing = World(plain_broker, *present.values())
    clients: list[tuple[str, bytes, Peer]] = []
    for _ in range(6):
        changed = some_accounts(draw)[: draw.randint(1, 2)]
        gone = {name for name in present if draw.random() < 0.2} - {options.name for options in changed}
        present = {name: options for name, options in present.items() if name not in gone}
        present |= {options.name: options for options in changed}
        for name, _, peer in clients:
            if name in gone:
                peer.link.detach()
        clients = [client for client in clients if client[0] not in gone]
        changing.accounts.replace(changed, gone)
        for account in changed:
            ops = subscribed(draw).replace(b"q ", b"")
            clients.append((account.name, ops, changing.peer(account.name).send(ops)))
        other = Broker()
        fresh = World(other, *present.values())
        twins = [fresh.peer(name).send(ops) for name, ops, _ in clients]
        for number, (_, _, peer) in enumerate(clients):
            for subject in SUBJECTS:
                ours = heard([client for _, _, client in clients], peer, subject)
                assert ours == heard(twins, twins[number], subject), (present, subject, number)
        if draw.random() < 0.5:
            plain_broker.end_tick()
        fresh.stop()
        other.stop()
    changing.stop()


@pytest.mark.parametrize("seed", range(10))
def test_changes_between_the_pieces_of_traffic(broker: Broker, seed: int) -> None:
    """Nothing is said about who gets what, only that everything is given back, with queue groups too."""
    draw = random.Random(seed)
    world = World(broker, *some_accounts(draw))
    peers: list[tuple[str, Peer]] = []
    for _ in range(30):
        names = [account.name for account in world.accounts]
        peers.append((name := draw.choice(names), world.peer(name).send(subscribed(draw))))
        for _, peer in draw.sample(peers, min(4, len(peers))):
            subject = draw.choice(SUBJECTS).encode()
            peer.send(
                b"PUB %b r 1\r\n.\r\nUNSUB %d 2\r\nPUB %b 1\r\n" % (subject, draw.randint(0, 4), subject)
            )
        wanted = some_accounts(draw)
        world.accounts.replace(wanted, {*names} - {"$G", "$SYS"} - {options.name for options in wanted})
        for _, peer in draw.sample(peers, min(4, len(peers))):
            peer.send(b".\r\n")
        if draw.random() < 0.3:
            broker.end_tick()
    world.stop()
