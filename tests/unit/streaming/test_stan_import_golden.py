"""Everything a real server wrote is read: stores of nats-streaming-server 0.25.6, with what it delivered."""

from __future__ import annotations

import hashlib

import pytest
from stan_import_store import GOLDEN, GOLDEN_NAMES, read_all, truth

from headrace.protocol.stan import ClientInfo, ServerInfo
from headrace.streaming.importing.checksums import IEEE
from headrace.streaming.importing.reader import SourceChannelStore, open_store

_THROUGH_A_DOUBLE = 512


def _golden(name: str) -> SourceChannelStore:
    return open_store(GOLDEN / name / "store")


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_every_message_of_every_channel_is_read(name: str) -> None:
    channels = {channel.name.decode(): channel for channel in _golden(name).channels}
    expected = truth(name)["channels"]
    assert channels.keys() == expected.keys()
    for channel, rows in expected.items():
        messages, findings = read_all(channels[channel])
        assert not findings
        assert [message.sequence for message in messages] == [row["seq"] for row in rows]
        for message, row in zip(messages, rows, strict=True):
            assert abs(message.time_ns - int(row["time_ns"])) <= _THROUGH_A_DOUBLE
            assert len(message.payload) == row["size"]
            assert hashlib.sha256(message.payload).hexdigest() == row["sha256"]


@pytest.mark.parametrize("name", ["clean", "sliced"])
def test_every_durable_is_read_with_what_it_acknowledged(name: str) -> None:
    found = {
        (channel.name.decode(), s.state.durable_name or s.state.q_group.partition(b":")[0]): s
        for channel in _golden(name).channels
        for s in channel.subscriptions
    }
    expected = {(row["channel"], row["durable"].encode()): row for row in truth(name)["durables"]}
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        subscription = found[key]
        assert list(subscription.pending) == row["pending"]
        sent = set(range(1, subscription.state.last_sent + 1))
        assert sent - set(subscription.pending) == set(row["acked"])
        assert subscription.state.max_in_flight == row["max_in_flight"]
        assert subscription.state.ack_wait_in_secs == row["ack_wait_s"]
        if row["queue"]:
            assert subscription.state.q_group == f"{row['durable']}:{row['queue']}".encode()
            assert subscription.state.client_id == b""  # its last member has closed
        else:
            assert subscription.state.client_id == row["client"].encode()


def test_after_kill_what_the_file_does_not_say_was_acknowledged_comes_again() -> None:
    """The last acknowledgements were in the dead server's buffer: they are in nobody's file."""
    subscriptions = {c.name.decode(): c.subscriptions for c in _golden("killed").channels}
    for row in truth("killed")["durables"]:
        (subscription,) = subscriptions[row["channel"]]
        acked = set(range(1, subscription.state.last_sent + 1)) - set(subscription.pending)
        assert acked <= set(row["acked"])
        not_acked = set(row["pending"])
        passed_over = {n for n in not_acked if n <= subscription.state.last_sent} - set(subscription.pending)
        assert not passed_over
    audit = subscriptions["orders.eu"][0]
    assert audit.state.last_sent == 61
    assert audit.pending == (10, *range(14, 62))


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_an_unsubscribed_durable_is_absent(name: str) -> None:
    channels = {channel.name: channel for channel in _golden(name).channels}
    assert truth(name)["removed_durable"]["channel"] == "big"
    assert channels[b"big"].subscriptions == ()


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_server_and_clients_are_read(name: str) -> None:
    store = _golden(name)
    assert store.server == ServerInfo(
        b"golden",
        b"_STAN.discover.golden",
        b"_STAN.pub.golden",
        b"_STAN.sub.golden",
        b"_STAN.unsub.golden",
        b"_STAN.close.golden",
        b"_STAN.subclose.golden",
        b"_STAN.ack.golden",
    )
    assert [client.id for client in store.clients] == [b"publisher", b"reader-1"]
    assert store.clients_are_whole
    assert not store.findings
    assert store.checksum is not None
    assert store.checksum.polynomial == IEEE


def test_a_client_has_all_its_fields() -> None:
    assert _golden("clean").clients[0] == ClientInfo(
        b"publisher", b"_INBOX.1NV01X2CJRGDRVDYC4LZC7", b"1NV01X2CJRGDRVDYC4LZGP", 1, 5, 88
    )


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_read_without_checksums_it_is_the_same(name: str) -> None:
    with_them, without = _golden(name), open_store(GOLDEN / name / "store", verify=False)
    assert without.checksum is None
    assert without.clients == with_them.clients
    for one, other in zip(with_them.channels, without.channels, strict=True):
        assert read_all(one) == read_all(other)
        assert one.subscriptions == other.subscriptions
        assert not other.findings
