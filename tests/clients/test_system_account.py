"""The system account as its users and others meet it: nats-py against each kind of server."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from harness.nats_py import settle
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.client import Client
    from nats.aio.msg import Msg

    from clients.conftest import Clients
    from harness.processes import ServerProcess

CONFIG: Final = """
accounts {
  A { users: [{user: a, password: a}, {user: mute, password: m, permissions: {publish: "x"}}] }
  B { users: [{user: b, password: b}] }
  SYS { users: [{user: s, password: s}] }
}
system_account: SYS
"""


async def asked(client: Client, subject: str, **body: Any) -> dict[str, Any]:
    answer = await client.request(subject, json.dumps(body).encode() if body else b"", timeout=PATIENCE)
    found: dict[str, Any] = json.loads(answer.data)
    return found


def as_user(name: str) -> dict[str, str]:
    return {"user": name, "password": name, "name": name}


async def test_client_that_is_kicked_is_closed_and_told_of(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(CONFIG)
    watch = await connect(server, **as_user("s"))
    events = await watch.subscribe("$SYS.ACCOUNT.A.DISCONNECT")
    await settle(watch)
    closed = asyncio.Event()

    async def note() -> None:
        closed.set()

    victim = await connect(server, **as_user("a"), closed_cb=note)
    other = await connect(server, **as_user("a"))
    kick = f"$SYS.REQ.SERVER.{server_id(watch)}.KICK"
    cid = victim.client_id

    answer = await asked(watch, kick, cid=cid)

    assert answer.keys() == {"server"}
    await closed.wait()
    event = json.loads((await events.next_msg(5)).data)
    assert event["reason"] == "Kicked"
    assert event["client"]["id"] == cid
    assert other.is_connected
    again = await asked(watch, kick, cid=cid)
    assert again["error"] == {"code": 500, "description": "no such client or leafnode id"}


def server_id(client: Client) -> str:
    return str(client._server_info["server_id"])  # nats-py has no public name for it


async def test_one_client_is_warned_of_lame_duck_mode(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(CONFIG)
    watch = await connect(server, **as_user("s"))
    warned, spared = asyncio.Event(), asyncio.Event()

    async def warn() -> None:
        warned.set()

    async def spare() -> None:
        spared.set()

    chosen = await connect(server, **as_user("a"), lame_duck_mode_cb=warn)
    other = await connect(server, **as_user("a"), lame_duck_mode_cb=spare)
    await chosen.flush()
    await other.flush()

    answer = await asked(watch, f"$SYS.REQ.SERVER.{server_id(watch)}.LDM", cid=chosen.client_id)

    assert answer.keys() == {"server"}
    await warned.wait()
    await other.flush()
    assert not spared.is_set()
    assert chosen.is_connected


async def test_client_of_the_first_protocol_cannot_be_warned(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(CONFIG)
    watch = await connect(server, **as_user("s"))
    with server.connect(b'{"verbose":false,"user":"a","pass":"a"}') as old:
        command = f"$SYS.REQ.SERVER.{server_id(watch)}.LDM"
        answer = await asked(watch, command, cid=old.info["client_id"])

    text = "client does not support Lame Duck Mode or is not ready to receive the notification"
    assert answer["error"] == {"code": 500, "description": text}


async def test_configuration_is_read_again_on_request(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(CONFIG)
    watch = await connect(server, **as_user("s"))
    reload = f"$SYS.REQ.SERVER.{server_id(watch)}.RELOAD"

    server.config_file.write_text(CONFIG + "debug: true\n")
    done = await asked(watch, reload)
    server.config_file.write_text("accounts {")
    broken = await asked(watch, reload)

    assert done.keys() == {"server"}
    assert broken["error"]["code"] == 500
    assert broken["error"]["description"]
    server.wait_for_line(r"\[INF\] Reloaded")


FORBIDDEN: Final = (
    *("$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.SERVER.PING.IDZ"),
    *("$SYS.REQ.SERVER.<id>.KICK", "$SYS.REQ.SERVER.<id>.RELOAD", "$SYS.REQ.SERVER.<id>.CONNZ"),
    *("$SYS.REQ.ACCOUNT.A.CONNZ", "$SYS.REQ.ACCOUNT.B.STATZ", "$SYS.REQ.ACCOUNT.SYS.CONNZ"),
    *("$SYS.REQ.USER.A.INFO", "$SYS.REQ.USER.SYS.INFO", "$SYS.DEBUG.SUBSCRIBERS"),
)


async def test_users_of_other_accounts_reach_nothing(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(CONFIG)
    watch = await connect(server, **as_user("s"))
    requests = await watch.subscribe("$SYS.REQ.>")
    await settle(watch)
    client = await connect(server, **as_user("a"))

    forbidden = [subject.replace("<id>", server_id(watch)) for subject in FORBIDDEN]
    for subject in forbidden:
        with pytest.raises(NoRespondersError):
            await client.request(subject, b'{"cid":1}', timeout=PATIENCE)

    await asked(watch, "$SYS.REQ.SERVER.PING.IDZ")
    heard = [(await requests.next_msg()).subject for _ in range(requests.pending_msgs)]
    asked_for = [subject for subject in heard if subject in forbidden]
    assert asked_for == ["$SYS.REQ.SERVER.PING.IDZ"], heard  # the watcher's own
    assert watch.is_connected


async def test_users_of_other_accounts_hear_nothing_and_are_not_heard(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(CONFIG)
    watch = await connect(server, **as_user("s"))
    events = await watch.subscribe("$SYS.ACCOUNT.B.*")
    await settle(watch)
    spy = await connect(server, **as_user("a"))
    heard: list[str] = []
    own = asyncio.Event()

    async def hear(message: Msg) -> None:
        heard.append(message.subject)
        if len(heard) == 3:  # what it published itself: three of the patterns match
            own.set()

    for pattern in (">", "$SYS.>", "$SYS.ACCOUNT.*.CONNECT", "_R_.>", "_INBOX.>"):
        await spy.subscribe(pattern, cb=hear)
    await settle(spy)
    await spy.publish("$SYS.ACCOUNT.B.CONNECT", b"forged")
    await asyncio.wait_for(own.wait(), 5)
    heard.clear()
    await (await connect(server, **as_user("b"))).close()
    await asked(watch, "$SYS.REQ.SERVER.PING.CONNZ")
    await watch.publish("$SYS.ACCOUNT.A.CONNECT", b"forged")
    await watch.flush()
    await settle(spy)

    assert heard == []
    first = await events.next_msg(5)
    assert json.loads(first.data)["client"]["name"] == "b"  # and not what the spy made up


async def test_account_learns_of_itself_only(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(CONFIG)
    await connect(server, **as_user("s"))
    await connect(server, **as_user("b"))
    client = await connect(server, **as_user("a"))

    for subject in ("$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.CONNZ"):
        for body in ({}, {"acc": "SYS"}, {"acc": "B", "state": 2}):
            connections = (await asked(client, subject, **body))["data"]["connections"]
            assert [connection["name"] for connection in connections] == ["a"]
    for body in ({}, {"accounts": ["SYS", "B"]}, {"include_unused": True}):
        accounts = (await asked(client, "$SYS.REQ.ACCOUNT.PING.STATZ", **body))["data"]["account_statz"]
        assert [account["acc"] for account in accounts] == ["A"]


async def test_user_is_told_who_the_server_takes_it_for(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(CONFIG)
    client = await connect(server, **as_user("a"))
    forged = {"Nats-Request-Info": json.dumps({"acc": "SYS", "user": "s", "id": 1})}

    plain = await client.request("$SYS.REQ.USER.INFO", timeout=PATIENCE)
    lied = await client.request("$SYS.REQ.USER.INFO", headers=forged, timeout=PATIENCE)

    expected = {"user": "a", "account": "A", "account_name": "A"}
    assert json.loads(plain.data)["data"] == json.loads(lied.data)["data"] == expected


async def test_permissions_hold_for_requests_to_the_server_too(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    client = await connect(any_server(CONFIG), user="mute", password="m")

    with pytest.raises(NatsError):
        await client.request("$SYS.REQ.USER.INFO", timeout=0.5)

    assert 'permissions violation for publish to "$sys.req.user.info"' in (await connect.next_error()).lower()


async def test_answer_is_compressed_on_request(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    watch = await connect(any_server(CONFIG), **as_user("s"))

    answer = await watch.request(
        "$SYS.REQ.SERVER.PING.VARZ", headers={"Accept-Encoding": "gzip"}, timeout=PATIENCE
    )
    unknown = await watch.request(
        "$SYS.REQ.SERVER.PING.VARZ", headers={"Accept-Encoding": "br"}, timeout=PATIENCE
    )

    assert answer.headers == {"Content-Encoding": "gzip"}
    assert "server_id" in json.loads(gzip.decompress(answer.data))["data"]
    assert unknown.headers == {"Content-Encoding": "identity"}
    assert "server_id" in json.loads(unknown.data)["data"]


async def test_account_hears_of_refused_credentials_where_the_client_was(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    """Clients begin in the global account, whose users hear it under a subject of their own."""
    server = any_server(CONFIG + "authorization { users: [{user: g, password: g}] }\n")
    listener = await connect(server, **as_user("g"))
    events = await listener.subscribe("$SYS.ACCOUNT.CLIENT.AUTH.ERR")
    await settle(listener)

    with pytest.raises(NatsError):
        await connect(server, user="a", password="wrong", name="n")

    event = json.loads((await events.next_msg(5)).data)
    assert (event["reason"], event["client"]["user"]) == ("Authentication Failure", "a")
    assert "wrong" not in json.dumps(event)


async def test_other_accounts_may_import_events(
    any_server: Callable[..., ServerProcess], connect: Clients
) -> None:
    server = any_server(
        """
        accounts {
          A {
            users: [{user: a, password: a}]
            imports: [{stream: {account: SYS, subject: "$SYS.ACCOUNT.A.>"}, to: "events.>"}]
          }
          SYS { users: [{user: s, password: s}], exports: [{stream: "$SYS.ACCOUNT.A.>"}] }
        }
        system_account: SYS
        """
    )
    client = await connect(server, **as_user("a"))
    events = await client.subscribe("events.CONNECT")
    await settle(client)
    await connect(server, user="a", password="a", name="next")

    heard = [json.loads((await events.next_msg(5)).data)["client"]["name"]]
    if heard == ["a"]:  # what nats-server tells of the listener itself may come that late
        heard.append(json.loads((await events.next_msg(5)).data)["client"]["name"])
    assert heard[-1] == "next"
