"""What a tenant can try against another, a user against permissions, and that it fails (THREAT_MODEL.md)."""

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
    users: [{user: shop, password: p}]
    exports: [{service: "price"}, {service: "order", accounts: [BUYER]}, {stream: "news.>"}]
    mappings: {"old.*": "secret.$1"}
  }
  BUYER {
    users: [{user: buyer, password: p}]
    imports: [
      {service: {account: SHOP, subject: price}}, {service: {account: SHOP, subject: order}, share: true}
      {stream: {account: SHOP, subject: "news.>"}, prefix: shop}
    ]
  }
  THIEF { users: [{user: thief, password: p}] }
  STAFF {
    users: [
      {user: boss, password: p}
      {user: clerk, password: p, permissions: {
        publish: {allow: ["open.>", "_INBOX.>"], deny: "open.secret.*"}
        subscribe: {allow: ["open.>", "_INBOX.clerk.>", "work q.*"], deny: "open.secret.>"}
      }}
      {user: helper, password: p, permissions: {
        publish: [], subscribe: "requests", allow_responses: {max: 1}
      }}
    ]
    mappings: {"open.alias.*": "open.secret.$1"}
  }
  SYS { users: [{user: admin, password: p}] }
}
system_account: SYS
"""


@pytest.fixture(scope="module")
def server(attacked: ServerProcess) -> ServerProcess:
    return attacked


def connect(server: ServerProcess, user: str) -> Wire:
    options = {"verbose": False, "headers": True, "no_responders": True, "user": user, "pass": "p"}
    return server.connect(json.dumps(options).encode())


# -- one account against another


@pytest.mark.parametrize(
    "op",
    [
        *(b"PUB secret 1\r\nx\r\n", b"PUB news.a 1\r\nx\r\n", b"PUB secret _INBOX.a 1\r\nx\r\n"),
        *(b"PUB old.a 1\r\nx\r\n", b"PUB price _INBOX.a 1\r\nx\r\n", b"PUB order 1\r\nx\r\n"),
        b"HPUB a 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
    ],
)
def test_wildcard_of_another_account_hears_nothing(server: ServerProcess, op: bytes) -> None:
    with connect(server, "thief") as thief, connect(server, "shop") as shop:
        thief.send(b"SUB > 1\r\nSUB *.* 2\r\nSUB * 3\r\nSUB $SYS.> 4\r\nSUB _R_.> 5\r\nSUB > q 6\r\n")
        thief.sync()
        shop.send(op)
        shop.sync()
        assert thief.sync() == b""


@pytest.mark.parametrize("subject", [b"price", b"order", b"news.a", b"shop.news.a", b"secret.a"])
def test_account_that_imports_nothing_reaches_nothing(server: ServerProcess, subject: bytes) -> None:
    with (
        connect(server, "thief") as thief,
        connect(server, "shop") as shop,
        connect(server, "buyer") as buyer,
    ):
        for wire in (shop, buyer):
            wire.send(b"SUB > 1\r\n")
            wire.sync()
        thief.send(b"PUB %b 1\r\nx\r\n" % subject)
        thief.sync()
        assert (shop.sync(), buyer.sync()) == (b"", b"")


def test_importer_hears_of_the_exporter_only_what_was_exported(server: ServerProcess) -> None:
    with connect(server, "buyer") as buyer, connect(server, "shop") as shop:
        buyer.send(b"SUB > 1\r\nSUB shop.> 2\r\nSUB shop.secret.> 3\r\n")
        buyer.sync()
        shop.send(
            b"PUB secret.a 1\r\nx\r\nPUB shop.secret.a 1\r\nx\r\nPUB news 1\r\nx\r\nPUB other 1\r\nx\r\n"
        )
        shop.sync()
        assert buyer.sync() == b""


def test_importer_cannot_publish_into_the_stream_it_imports(server: ServerProcess) -> None:
    with connect(server, "buyer") as buyer, connect(server, "shop") as shop:
        shop.send(b"SUB > 1\r\n")
        shop.sync()
        buyer.send(b"PUB shop.news.a 1\r\nx\r\nPUB news.a 1\r\nx\r\n")
        buyer.sync()
        assert shop.sync() == b""


def test_queue_group_of_the_same_name_in_another_account_takes_nothing(server: ServerProcess) -> None:
    with connect(server, "thief") as thief, connect(server, "shop") as shop:
        for number in range(10):
            thief.send(b"SUB jobs workers %d\r\n" % number)
        thief.sync()
        shop.send(b"SUB jobs workers 1\r\n" + b"PUB jobs 1\r\nx\r\n" * 50)
        assert shop.sync().count(b"MSG jobs 1 1") == 50
        assert thief.sync() == b""


def asked(shop: Wire, buyer: Wire) -> bytes:
    """The reply subject that a request of the buyer's has when it reaches the shop."""
    shop.send(b"SUB price 1\r\n")
    shop.sync()
    buyer.send(b"SUB inbox 1\r\nPUB price inbox 1\r\n?\r\n")
    buyer.sync()
    words, _ = shop.take_message()
    return words[3]


def test_response_cannot_be_forged_by_a_third_account(server: ServerProcess) -> None:
    with (
        connect(server, "thief") as thief,
        connect(server, "shop") as shop,
        connect(server, "buyer") as buyer,
    ):
        reply = asked(shop, buyer)
        assert reply.startswith(b"_R_.")
        for subject in (reply, b"inbox", b"_R_.>"[:4] + b"x"):
            thief.send(b"PUB %b 6\r\nforged\r\n" % subject)
        thief.sync()
        assert buyer.sync() == b""
        shop.send(b"PUB %b 2\r\nok\r\n" % reply)
        shop.sync()
        buyer.sync()
        assert buyer.sync() == b"" or b"forged" not in buyer.take()


def test_response_comes_once_however_often_it_is_sent(server: ServerProcess) -> None:
    with connect(server, "shop") as shop, connect(server, "buyer") as buyer:
        reply = asked(shop, buyer)
        shop.send(b"PUB %b 2\r\nok\r\n" % reply * 5)
        shop.sync()
        assert buyer.sync().count(b"MSG inbox") == 1


def test_requester_cannot_say_that_it_is_somebody_else(server: ServerProcess) -> None:
    head = b'NATS/1.0\r\nNats-Request-Info: {"acc":"SHOP","user":"root"}\r\nnats-request-info: {}\r\n\r\n'
    with connect(server, "shop") as shop, connect(server, "buyer") as buyer:
        shop.send(b"SUB order 1\r\n")
        shop.sync()
        buyer.send(b"HPUB order inbox %d %d\r\n%b?\r\n" % (len(head), len(head) + 1, head))
        buyer.sync()
        _, body = shop.take_message()
        told = [line for line in body.split(b"\r\n") if line.startswith(b"Nats-Request-Info:")]
        assert len(told) == 1
        info = json.loads(told[0].partition(b":")[2])
        assert (info["acc"], info["user"]) == ("BUYER", "buyer")


def test_system_accounts_subjects_are_out_of_reach(server: ServerProcess) -> None:
    with connect(server, "admin") as admin, connect(server, "thief") as thief:
        admin.send(b"SUB secret.> 1\r\nSUB $SYS.forged 2\r\n")
        admin.sync()
        thief.send(b"SUB $SYS.> 1\r\nPUB $SYS.forged 1\r\nx\r\nPUB secret.a 1\r\nx\r\n")
        thief.sync()
        admin.send(b"PUB $SYS.forged 1\r\nx\r\n")
        assert admin.sync().count(b"MSG") == 1
        assert b"forged" not in thief.sync()


def test_second_login_takes_nothing_along(server: ServerProcess) -> None:
    with server.connect() as wire, connect(server, "shop") as shop:
        wire.connect(b'{"verbose":false,"user":"shop","pass":"p"}')
        wire.send(b"SUB > 1\r\n")
        wire.sync()
        wire.connect(b'{"verbose":false,"user":"thief","pass":"p"}')
        shop.send(b"PUB secret.a 1\r\nx\r\n")
        shop.sync()
        assert wire.sync() == b""


# -- a user against its permissions


@pytest.mark.parametrize(
    ("op", "refused"),
    [
        (b"SUB > 1\r\n", True),
        (b"SUB * 1\r\n", True),
        (b"SUB *.> 1\r\n", True),
        (b"SUB open.secret.a 1\r\n", True),
        (b"SUB open.secret.> 1\r\n", True),
        (b"SUB open.secret.* q 1\r\n", True),
        (b"SUB *.secret.* 1\r\n", True),
        (b"SUB _INBOX.> 1\r\n", True),
        (b"SUB work 1\r\n", True),
        (b"SUB work other 1\r\n", True),
        (b"SUB open.> 1\r\n", False),
        (b"SUB open.*.* 1\r\n", False),
        (b"SUB open.> q 1\r\n", False),
        (b"SUB open.*.a 1\r\n", False),
    ],
)
def test_wildcards_hear_nothing_that_is_denied(server: ServerProcess, op: bytes, refused: bool) -> None:
    with connect(server, "clerk") as clerk, connect(server, "boss") as boss:
        clerk.send(op)
        assert (b"Permissions Violation for Subscription" in clerk.sync()) is refused
        for subject in (b"open.secret.a", b"_INBOX.boss.1", b"private.a", b"work"):
            boss.send(b"PUB %b 1\r\nx\r\n" % subject)
        boss.sync()
        assert clerk.sync() == b""


@pytest.mark.parametrize(
    "op",
    [
        b"PUB open.secret.a 1\r\nx\r\n",
        b"PUB open.alias.a 1\r\nx\r\n",
        b"PUB private 1\r\nx\r\n",
        b"PUB open.a _R_.made.up 1\r\nx\r\n",
        b"HPUB private 12 12\r\nNATS/1.0\r\n\r\n\r\n",
        b"PUB open..a 1\r\nx\r\n",
        b"PUB $SYS.REQ.SERVER.PING 1\r\nx\r\n",
    ],
)
def test_publish_that_is_not_allowed_reaches_nobody_by_any_way(server: ServerProcess, op: bytes) -> None:
    with connect(server, "clerk") as clerk, connect(server, "boss") as boss:
        boss.send(b"SUB > 1\r\n")
        boss.sync()
        clerk.send(op)
        assert b"-ERR 'Permissions Violation for Publish" in clerk.sync()
        assert boss.sync() == b""


def test_wildcard_in_a_published_subject_opens_nothing(server: ServerProcess) -> None:
    with connect(server, "clerk") as clerk, connect(server, "boss") as boss:
        boss.send(b"SUB open.secret.* 1\r\nSUB private 2\r\n")
        boss.sync()
        clerk.send(b"PUB open.> 1\r\nx\r\nPUB open.*.a 1\r\nx\r\nPUB * 1\r\nx\r\nPUB > 1\r\nx\r\n")
        clerk.sync()
        assert boss.sync() == b""


def test_responder_answers_once_and_only_who_asked(server: ServerProcess) -> None:
    with connect(server, "helper") as helper, connect(server, "boss") as boss:
        boss.send(b"SUB answers.> 1\r\nSUB other 2\r\n")
        boss.sync()
        helper.send(b"PUB answers.1 5\r\nearly\r\nSUB requests 1\r\n")
        helper.sync()
        boss.send(b"PUB requests answers.1 1\r\n?\r\n")
        boss.sync()
        helper.send(b"PUB answers.1 5\r\nfirst\r\nPUB answers.1 6\r\nsecond\r\n")
        helper.send(b"PUB answers.2 5\r\nother\r\nPUB other 5\r\nother\r\n")
        assert helper.sync().count(b"Permissions Violation for Publish") == 3
        assert boss.sync().endswith(b"first\r\n")


# -- what a peer says, as words of the protocol


@pytest.mark.parametrize("word", [b"a\r", b"a\rb", b"a\x00b", b"\xff\xfe", b"a\x1b[2J", b"a\x0b\x0c"])
@pytest.mark.parametrize("place", ["subject", "reply", "queue"])
def test_odd_bytes_in_a_word_make_no_frame_of_their_own(
    server: ServerProcess, word: bytes, place: str
) -> None:
    ops = {
        "subject": b"PUB %b 1\r\nx\r\n" % word,
        "reply": b"PUB ok %b 1\r\nx\r\n" % word,
        "queue": b"SUB ok %b 9\r\nPUB ok 1\r\nx\r\n" % word,
    }
    with connect(server, "boss") as boss, connect(server, "boss") as other:
        boss.send(b"SUB > 1\r\n")
        boss.sync()
        other.send(ops[place])
        other.half_close()
        other.take_rest()
        heard = boss.sync()
        assert heard.count(b"\r\n") in (0, 2)
        assert heard == b"" or (heard.startswith(b"MSG ") and heard.endswith(b" 1\r\nx\r\n"))


@pytest.mark.parametrize(
    "payload", [b"\r\nMSG private 1 1\r\nx\r\n", b"x\r\n-ERR 'forged'\r\n", b"PING\r\n", b"\x00" * 100]
)
def test_payload_is_a_payload_whatever_it_looks_like(server: ServerProcess, payload: bytes) -> None:
    with connect(server, "boss") as boss, connect(server, "boss") as other:
        boss.send(b"SUB a 1\r\n")
        boss.sync()
        other.send(b"PUB a %d\r\n%b\r\n" % (len(payload), payload))
        other.sync()
        assert boss.take_message()[1] == payload
        assert boss.sync() == b""


@pytest.mark.parametrize(
    ("headers", "total"), [(0, 5), (4, 3), (99999, 5), (5, 99999999), (-1, 5), (12, -1), (2**64, 2**64)]
)
def test_sizes_of_headers_that_lie_end_the_connection_only(
    server: ServerProcess, headers: int, total: int
) -> None:
    with connect(server, "boss") as boss, connect(server, "boss") as other:
        boss.send(b"SUB > 1\r\n")
        boss.sync()
        other.send(b"HPUB a %d %d\r\nNATS/1.0\r\n\r\nx\r\nSUB b 1\r\n" % (headers, total))
        other.half_close()
        other.take_rest()
        heard = boss.sync()
        assert heard == b"" or heard.startswith(b"HMSG a 1 ")
