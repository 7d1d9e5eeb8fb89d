"""What can be tried with messages that are traced, and that it fails (THREAT_MODEL.md)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from harness.processes import ServerProcess
    from harness.wire import Wire

CONFIG: Final = """
accounts {
  SHOP {
    users: [
      {user: shop, password: p}
      {user: clerk, password: p, permissions: { publish: ["open", "traces"], subscribe: ">" }}
    ]
    exports: [{service: "price"}, {stream: "news.>"}]
  }
  BUYER {
    users: [{user: buyer, password: p}]
    imports: [{service: {account: SHOP, subject: price}}, {stream: {account: SHOP, subject: "news.>"}}]
  }
  SYS { users: [{user: admin, password: p}] }
}
system_account: SYS
"""
RECEIVERS: Final = 200


@pytest.fixture(scope="module")
def server(attacked: ServerProcess) -> ServerProcess:
    return attacked


def connect(server: ServerProcess, user: str) -> Wire:
    options = {"verbose": False, "headers": True, "no_responders": True, "user": user, "pass": "p"}
    return server.connect(json.dumps(options).encode())


def trace(wire: Wire, subject: bytes, dest: bytes, more: bytes = b"") -> bytes:
    """What the sender of a message that wants a trace is told."""
    block = b"NATS/1.0\r\nNats-Trace-Dest: %b\r\n%b\r\n" % (dest, more)
    wire.send(b"HPUB %b %d %d\r\n%b\r\n" % (subject, len(block), len(block), block))
    return wire.sync() + wire.sync()  # a trace is published when the message has been routed


@pytest.mark.parametrize(
    "dest", [b"secret", b"_INBOX.a", b"$JS.API.STREAM.DELETE.S", b"$SYS.REQ.SERVER.PING"]
)
def test_trace_goes_nowhere_its_sender_may_not_publish(server: ServerProcess, dest: bytes) -> None:
    with connect(server, "shop") as shop, connect(server, "clerk") as clerk:
        shop.send(b"SUB > 1\r\n")
        shop.sync()
        assert b"-ERR 'Permissions Violation for Publish to \"%b\"'" % dest in trace(clerk, b"open", dest)
        assert shop.sync() == b""  # nor is the message delivered


@pytest.mark.parametrize("dest", [b">", b"a.*", b"a b", b"a..b", b".", b"_GR_.a", b"$NRG.a"])
def test_trace_goes_to_no_pattern_and_no_subject_of_servers(server: ServerProcess, dest: bytes) -> None:
    with connect(server, "shop") as shop, connect(server, "admin") as admin:
        shop.send(b"SUB > 1\r\n")
        admin.send(b"SUB > 1\r\n")
        shop.sync()
        admin.sync()
        told = trace(shop, b"open", dest)
        assert b'"request"' not in told
        assert b'"request"' not in admin.sync()


@pytest.mark.parametrize("subject", [b"price", b"news.a"])
def test_other_accounts_tell_nothing_of_themselves(server: ServerProcess, subject: bytes) -> None:
    with connect(server, "shop") as shop, connect(server, "buyer") as buyer:
        asking, other = (buyer, shop) if subject == b"price" else (shop, buyer)
        asking.send(b"SUB traces 1\r\n")
        other.send(b"SUB > 2\r\nSUB %b 3\r\n" % subject)
        other.sync()
        asking.sync()
        document = trace(asking, subject, b"traces")
        events = json.loads(document[document.index(b"{") : document.rindex(b"}") + 1])["events"]
        assert not [event for event in events if event["type"] == "eg"]
        assert b'"events"' not in other.sync()


def test_message_makes_one_trace_however_many_get_it(server: ServerProcess) -> None:
    with connect(server, "shop") as shop:
        shop.send(b"SUB traces 1\r\n" + b"".join(b"SUB open %d\r\n" % sid for sid in range(2, RECEIVERS + 2)))
        shop.sync()
        told = trace(shop, b"open", b"traces")
        assert told.count(b"HMSG open ") == RECEIVERS
        assert told.count(b"MSG traces ") == 1
        document = json.loads(told[told.index(b'{"server"') : told.rindex(b"}") + 1])
        assert len(document["events"]) == RECEIVERS + 1


def test_trace_of_a_trace_is_none(server: ServerProcess) -> None:
    """Events have no headers that ask for one, so a trace that is sent where it came from ends there."""
    with connect(server, "shop") as shop:
        shop.send(b"SUB traces 1\r\n")
        shop.sync()
        told = trace(shop, b"traces", b"traces")
        assert told.count(b"MSG traces ") == 2  # the message, and its trace
