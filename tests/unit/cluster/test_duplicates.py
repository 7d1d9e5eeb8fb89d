"""Two servers of one mesh that serve what only one can: which of them ends, as both see it."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Any

import pytest
from mesh_harness import CONNECT, PEER, PEER_INFO

from headrace import limits

if TYPE_CHECKING:
    from mesh_harness import Made, TestPort, TestWire

MINUTE = 60 * 10**9
JETSTREAM = b',"git_commit":"headrace-1","jetstream":true,"domain":"d","headrace_serving_ns":%d'
ONE_BUCKET = JETSTREAM % MINUTE + b',"headrace_bucket":"s3://b/p"'
IN_D = (
    'JetStream: server "peer" of this cluster has JetStream in domain "d" as well;'
    " streams are not replicated, so one server of a cluster can have it, or each a domain of its own"
)


def meeting(make: Made, own: dict[str, Any], said: bytes) -> TestPort:
    """A port that has met a peer which says that."""
    port = make(own=own)
    wire = port.accepts()
    wire.says(CONNECT + PEER_INFO % said)
    return port


@pytest.mark.parametrize(
    ("mine", "theirs", "ends"),
    [
        (0, 1, True),
        (1, 0, False),
        (0, 100 * MINUTE, True),
        (100 * MINUTE, 0, False),
        (MINUTE, 2 * MINUTE, True),
        (2 * MINUTE, MINUTE, False),
        (0, 0, False),  # NME is lower than NPEER
        (MINUTE, MINUTE + 10**6, False),
        (MINUTE + 10**6, MINUTE, False),
    ],
)
def test_which_of_two_ends(make: Made, mine: int, theirs: int, ends: bool) -> None:
    port = meeting(make, {"jetstream": True, "domain": "d", "serving_ns": mine}, JETSTREAM % theirs)
    assert port.ends == ([IN_D] if ends else [])
    assert list(port.mesh.duplicates.conflicts.values()) == ([] if ends else [IN_D])


@pytest.mark.parametrize(("own_id", "ends"), [("NA", False), ("NZ", True)])
def test_at_the_same_moment_the_lower_id_stays(make: Made, own_id: str, ends: bool) -> None:
    own = {"server_id": own_id, "jetstream": True, "domain": "d", "serving_ns": 0}
    assert bool(meeting(make, own, JETSTREAM % 0).ends) == ends


def test_both_sides_come_to_the_same_result(make: Made) -> None:
    """Whatever they say, exactly one of the two ends."""
    numbers = random.Random(7)
    near = int(limits.SERVING_TIE * 1e9)
    for _ in range(200):
        ids = numbers.sample(["NA", "NB", "NC"], 2)
        base = numbers.choice([0, 1, near, MINUTE])
        times = [numbers.choice([0, base, base + near - 1, base + near, base + near + 1]) for _ in ids]
        ports = [
            make(own={"server_id": each, "server_name": each, "jetstream": True, "serving_ns": time})
            for each, time in zip(ids, times, strict=True)
        ]
        wires = [port.accepts() for port in ports]
        said = [wire.said() for wire in wires]
        for wire, other in zip(wires, reversed(said), strict=True):
            wire.says(CONNECT + other)
        assert sum(bool(port.ends) for port in ports) == 1, (ids, times)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({}, JETSTREAM % MINUTE),
        ({"jetstream": True, "domain": "e"}, JETSTREAM % MINUTE),
        ({"jetstream": True}, JETSTREAM % MINUTE),
        ({"jetstream": True, "domain": "d"}, b',"git_commit":"headrace-1","domain":"d"'),
        (
            {"streaming": "_STAN.discover.c"},
            b',"headrace_streaming":"_STAN.discover.d","headrace_serving_ns":9',
        ),
        ({"streaming": ""}, b',"headrace_streaming":""'),
        ({"jetstream": True, "domain": "d", "bucket": "s3://b/p"}, ONE_BUCKET),
        (
            {"streaming": "_STAN.discover.c", "streaming_bucket": "s3://b/p"},
            b',"headrace_streaming":"_STAN.discover.c","headrace_streaming_bucket":"s3://b/p"',
        ),
    ],
)
def test_what_several_can_serve(make: Made, own: dict[str, Any], said: bytes) -> None:
    port = meeting(make, own, said)
    assert not port.ends
    assert not port.mesh.duplicates.conflicts


@pytest.mark.parametrize("bucket", ["", "s3://b/other"])
def test_streams_in_two_buckets_are_not_those_of_one(make: Made, bucket: str) -> None:
    port = meeting(make, {"jetstream": True, "domain": "d", "bucket": bucket, "serving_ns": 1}, ONE_BUCKET)
    assert port.ends


def test_streaming_with_one_cluster_id(make: Made) -> None:
    said = b',"git_commit":"headrace-1","headrace_streaming":"_STAN.discover.c{}","headrace_serving_ns":9'
    port = meeting(make, {"streaming": "_STAN.discover.c{}"}, said)
    (text,) = port.ends
    assert text.endswith('server "peer" of this cluster is a streaming server with cluster ID "c{}" as well')
    assert text.startswith("STREAM: Failed to start: ")


@pytest.mark.parametrize("serving_ns", [0, int(limits.SERVING_NEW * 1e9) - 1, int(limits.SERVING_NEW * 1e9)])
def test_another_kind_of_server_does_not_give_way(make: Made, serving_ns: int) -> None:
    own = {"jetstream": True, "serving_ns": serving_ns}
    port = meeting(make, own, b',"git_commit":"abc","jetstream":true')
    is_new = serving_ns < limits.SERVING_NEW * 1e9
    assert bool(port.ends) == is_new
    assert bool(port.mesh.duplicates.conflicts) != is_new


def test_a_conflict_is_told_once_and_ends_with_the_peer(make: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    port = make(own={"jetstream": True, "serving_ns": MINUTE}, pool_size=3)
    wires = []
    for index in range(2):
        wire = port.accepts()
        wire.says(
            CONNECT + PEER_INFO % (b',"jetstream":true,"route_pool_size":3,"route_pool_idx":%d' % index)
        )
        wires.append(wire)
    lines = [line for wire in wires for line in wire.lines if "JetStream" in line]
    assert len(lines) == 1
    wires[0].lost()
    assert port.mesh.duplicates.conflicts
    assert port.have_left == []
    wires[1].lost()
    assert not port.mesh.duplicates.conflicts
    assert port.have_left == ["NPEER"]


@pytest.mark.parametrize("pool_ends_first", [True, False])
def test_a_conflict_ends_with_the_last_connection_of_any_kind(make: Made, pool_ends_first: bool) -> None:
    port = make(("A",), own={"jetstream": True, "serving_ns": MINUTE}, pool_size=1, accounts=("A",))
    pool, own = port.accepts(), port.accepts()

    def introduce_own() -> None:
        own.says(
            CONNECT + PEER_INFO % b',"jetstream":true,"route_pool_size":1,"route_account":"A"',
        )

    pool.says(CONNECT + PEER_INFO % b',"jetstream":true,"route_pool_size":1,"route_pool_idx":0')
    if not pool_ends_first:
        introduce_own()
    pool.lost()
    if pool_ends_first:
        introduce_own()
    assert port.mesh.duplicates.conflicts
    own.lost()
    assert not port.mesh.duplicates.conflicts


def test_who_has_to_end_tells_no_interest(make: Made) -> None:
    port = make(own={"jetstream": True})
    client = port.client()
    client.feed(b"SUB a 1\r\n")
    assert b"RS+ $G a\r\n" in port.accepts().says(CONNECT + PEER_INFO % b"")
    said = b',"jetstream":true'
    assert b"RS+" not in port.accepts().says(CONNECT + PEER_INFO.replace(b"NPEER", b"NB") % said)
    client.detach()


# ---- other domains ------------------------------------------------------------------------------

API, OTHERS = b"RS+ $G $JS.API.>\r\n", b"RS+ $G $JS.a.API.>\r\n"
BESIDE = b',"jetstream":true,"domain":"b"'


def interest(port: TestPort) -> bytes:
    """What a peer without JetStream, that connects now, is told."""
    wire = port.accepts()
    wire.said()
    lines = wire.says(CONNECT + PEER_INFO.replace(b"NPEER", b"NNEW") % b"").splitlines(keepends=True)
    return b"".join(sorted(line for line in lines if line.startswith(b"RS+ $G ")))


@pytest.mark.parametrize(("domain", "told"), [("a", OTHERS), ("", API + OTHERS)])
def test_beside_another_domain_only_one_without_a_name_is_told_of(
    make: Made, domain: str, told: bytes
) -> None:
    port = make(own={"jetstream": True, "domain": domain, "serving_ns": MINUTE})
    client = port.client()
    client.feed(b"SUB $JS.API.> 1\r\nSUB $JS.a.API.> 2\r\n")
    assert interest(port) == API + OTHERS
    wire = port.accepts()
    wire.says(CONNECT + PEER_INFO % BESIDE)
    assert (port.heard_anew, port.ends, port.mesh.duplicates.conflicts) == (1, [], {})
    wire.lost()
    for each in list(port.mesh.routes()):
        each.wire.lost()
    assert interest(port) == told
    client.detach()


def test_requests_without_a_domain_are_not_given_to_another_one(make: Made) -> None:
    port = make(own={"jetstream": True, "domain": "a", "serving_ns": MINUTE})
    wire = port.accepts()
    wire.says(CONNECT + PEER_INFO % BESIDE + b"RS+ $G $JS.API.>\r\nRS+ $G $JS.b.API.>\r\n")
    client = port.client()
    client.feed(b"PUB $JS.API.INFO 0\r\n\r\nPUB $JS.b.API.INFO 0\r\n\r\n")
    assert wire.said() == b"RMSG $G $JS.b.API.INFO 0\r\n\r\n"
    client.detach()


# ---- looking for others -------------------------------------------------------------------------


class Looking:
    """What a port does that looks from the start."""

    def __init__(self, make: Made, **given: Any) -> None:
        self.port = make(own={"jetstream": True}, **given)
        self.is_done = False
        self.port.mesh.duplicates.look(self._done)

    def _done(self) -> None:
        assert not self.is_done
        self.is_done = True


def answer_pings(wire: TestWire, said: bytes) -> None:
    assert b"PING\r\n" in said
    wire.says(b"PONG\r\n" * said.count(b"PING\r\n"))


def test_nobody_to_look_for(make: Made) -> None:
    assert Looking(make).is_done


def test_a_peer_that_cannot_be_reached_counts_once(make: Made) -> None:
    looking = Looking(make, routes=(PEER,))
    assert not looking.is_done
    looking.port.dials[0][2]("refused")
    assert looking.is_done
    looking.port.due(limits.ROUTE_RETRY)
    looking.port.dials[0][2]("refused")


def test_a_route_to_oneself_is_no_peer(make: Made) -> None:
    looking = Looking(make, routes=(PEER,))
    looking.port.dials[0][2](None)
    assert looking.is_done


def test_a_peer_has_been_met_when_it_has_answered(make: Made) -> None:
    looking = Looking(make, routes=(PEER,))
    wire = looking.port.reaches()
    assert not looking.is_done
    said = wire.says(PEER_INFO % b"")
    assert not looking.is_done
    answer_pings(wire, said)
    assert looking.is_done


def test_peers_of_peers_are_waited_for(make: Made) -> None:
    looking = Looking(make, routes=(PEER,))
    wire = looking.port.reaches()
    said = wire.says(PEER_INFO % b"")
    other = b'"server_id":"NOTHER","host":"10.1.1.1","port":7,"ip":"nats-route://10.1.1.1:7/"'
    wire.says(b'INFO {%s,"cluster":"C1"}\r\n' % other)
    answer_pings(wire, said)
    assert not looking.is_done
    looking.port.dials[-1][2]("refused")
    assert looking.is_done


def test_a_connection_that_ends_is_waited_for_no_more(make: Made) -> None:
    looking = Looking(make, routes=(PEER,))
    wire = looking.port.reaches()
    wire.lost()
    assert looking.is_done


def test_who_connects_meanwhile_is_waited_for(make: Made) -> None:
    looking = Looking(make, routes=(PEER,))
    wire = looking.port.accepts()
    looking.port.dials[0][2]("refused")
    assert not looking.is_done
    said = wire.says(CONNECT + PEER_INFO % b"")
    answer_pings(wire, said)
    assert looking.is_done


def test_looking_may_be_given_up(make: Made, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    looking = Looking(make, routes=(PEER,))
    looking.port.mesh.duplicates.stop_looking()
    looking.port.dials[0][2]("refused")
    assert not looking.is_done
