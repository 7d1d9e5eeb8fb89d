"""The streaming service goes on where the real server stopped: on what was imported from its store."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import pytest
from stan_harness import PINGS, ManualHost, World
from stan_import_store import GOLDEN, T0, client, truth, write_server

from headrace.log.store import MemoryStore
from headrace.protocol.stan import MsgProto, Ping, PingResponse, StartPosition
from headrace.streaming.importing.importer import import_store
from headrace.streaming.importing.reader import open_store

if TYPE_CHECKING:
    from pathlib import Path

_HOUR = 3_600_000_000_000
_AUDIT_INBOX = b"_INBOX.1NV01X2CJRGDRVDYC4M9PP"
_READER_HEARTBEATS = b"_INBOX.1NV01X2CJRGDRVDYC4M9EG"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A service on the real store `clean`, under the harness's cluster ID."""
    path = tmp_path / "store"
    shutil.copytree(GOLDEN / "clean" / "store", path)
    clients = (path / "clients.dat").read_bytes()
    write_server(path, cluster=b"test-cluster")
    (path / "clients.dat").write_bytes(clients)
    store = MemoryStore()
    import_store(open_store(path), store)
    world = World(store=store, host=ManualHost(T0 + _HOUR), start=False)
    world.alive.add(_READER_HEARTBEATS)
    world.start()
    return world


def test_recovered_clients_need_no_reconnect(world: World) -> None:
    ping = Ping(b"1NV01X2CJRGDRVDYC4M9IY")
    assert world.request(PINGS, ping.encode(), PingResponse) == PingResponse()
    assert world.publish(b"single", b"more", client_id=b"reader-1") == [b""]


def test_a_durable_gets_what_it_has_not_acknowledged(world: World) -> None:
    (audit,) = [row for row in truth("clean")["durables"] if row["durable"] == "audit"]
    messages = [MsgProto.decode(payload) for payload in world.take(_AUDIT_INBOX)]
    assert [message.sequence for message in messages] == audit["pending"]
    assert all(message.redelivered for message in messages)


def test_a_durable_queue_goes_on_with_a_new_member(world: World) -> None:
    (shared,) = [row for row in truth("clean")["durables"] if row["durable"] == "shared"]
    world.connect(b"worker")
    sub = world.subscribe(
        b"orders.us", client_id=b"worker", queue=b"workers", durable=b"shared", max_in_flight=50
    )
    world.advance(1)
    messages = world.received(sub)
    assert [message.sequence for message in messages] == shared["pending"]
    assert all(message.redelivered for message in messages)


def test_an_unsubscribed_durable_starts_anew(world: World) -> None:
    world.connect(b"worker")
    sub = world.subscribe(b"big", client_id=b"worker", durable=b"gone", start=StartPosition.FIRST)
    assert world.sequences(sub) == [1, 2, 3]


def test_a_replay_has_every_payload_and_publishing_goes_on(world: World) -> None:
    world.connect(b"worker")
    for channel, rows in truth("clean")["channels"].items():
        sub = world.subscribe(
            channel.encode(), client_id=b"worker", start=StartPosition.FIRST, max_in_flight=1000
        )
        messages = world.received(sub)
        assert [message.sequence for message in messages] == [row["seq"] for row in rows]
        for message, row in zip(messages, rows, strict=True):
            assert hashlib.sha256(message.data).hexdigest() == row["sha256"]
        assert world.publish(channel.encode(), b"next", client_id=b"worker") == [b""]
        assert world.sequences(sub) == [len(rows) + 1]


def test_the_state_is_the_same_after_another_restart(world: World) -> None:
    world.take(_AUDIT_INBOX)
    world.restart()
    pending = [MsgProto.decode(payload).sequence for payload in world.take(_AUDIT_INBOX)]
    assert pending == truth("clean")["durables"][0]["pending"]


def test_a_store_of_clients_only(tmp_path: Path) -> None:
    write_server(tmp_path, client(b"me"), cluster=b"test-cluster")
    store = MemoryStore()
    import_store(open_store(tmp_path), store)
    world = World(store=store)
    assert world.publish(b"foo", b"x", conn_id=b"conn-me") == [b""]
