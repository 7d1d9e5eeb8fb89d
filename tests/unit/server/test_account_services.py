"""Services of accounts: who has one at the start, and what becomes of it when accounts change."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import pytest

from headrace import limits
from headrace.conf.account_options import AccountOptions, JetStreamAccountLimits, UserOptions
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.options import Options
from headrace.errors import StartError
from headrace.server.reload import change_options
from headrace.server.server import Server

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from headrace.core.service import Host, Service
    from headrace.server.ownership import ServedAccounts, SharingServer

SOME = {"": JetStreamAccountLimits()}
LESS = {"": JetStreamAccountLimits(max_streams=1)}


def account(name: str, jetstream: Any = None) -> AccountOptions:
    return AccountOptions(name, users=(UserOptions(name.lower(), "p"),), jetstream=jetstream)


@dataclass
class Echo:
    """Answers with its account's name, and says so at its end."""

    name: str
    events: list[str]
    is_broken: bool = False

    def start(self, host: Host) -> None:
        if self.is_broken:
            raise StartError(f"{self.name} cannot be recovered")
        self.host = host
        host.subscribe(b"who")

    def deliver(self, batch: Sequence[Any]) -> None:
        for request in batch:
            self.host.publish(request.reply, self.name.encode())

    def stop(self) -> None:
        self.events.append(f"stop {self.name}")


@dataclass
class Echoes:
    """Accounts with limits have an echo, others nothing."""

    events: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    torn: set[str] = field(default_factory=set)

    def open(self, server_name: str, server_id: str) -> None:
        self.events.append(f"open {server_name}")

    def service(self, account: AccountOptions, *, is_system: bool) -> Service | None:
        if account.name in self.broken:
            raise StartError(f"{account.name} cannot be served")
        if account.name in self.torn:
            return Echo(account.name, self.events, is_broken=True)
        if is_system or account.jetstream is None:
            return None
        self.events.append(f"add {account.name}")
        return Echo(account.name, self.events)

    def change(self, account: AccountOptions) -> bool:
        self.events.append(f"change {account.name}")
        return account.jetstream is not None

    def remove(self, account: str) -> None:
        self.events.append(f"remove {account}")

    def stored(self) -> list[str]:
        return []

    def ready(self, seconds: float) -> None:
        assert seconds >= 0
        self.events.append("ready")

    def close(self, *, at_once: bool = False) -> None:
        self.events.append("close at once" if at_once else "close")


def options(*accounts: AccountOptions) -> Options:
    return Options(
        host="127.0.0.1",
        port=-1,
        server_name="n",
        accounts=accounts,
        jetstream=JetStreamOptions(domain="hub"),
    )


def run(work: Coroutine[object, object, None]) -> None:
    asyncio.run(work)


async def asked(server: Server, user: str) -> str:
    """What the service in a user's account answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        await reader.readline()
        connect = (
            f'CONNECT {{"user":"{user}","pass":"p","verbose":false,"headers":true,"no_responders":true}}'
        )
        writer.write(f"{connect}\r\nSUB in 1\r\nPUB who in 0\r\n\r\n".encode())
        line = await reader.readline()
        return (await reader.readline()).decode().strip() if line.startswith(b"MSG") else "nobody"
    finally:
        writer.close()


def test_accounts_of_the_start_are_served_and_stopped_with_the_server() -> None:
    async def work() -> None:
        echoes = Echoes()
        async with Server(options(account("A", SOME), account("B")), account_services=echoes) as server:
            assert echoes.events == ["open n", "add A", "ready"]
            assert await asked(server, "a") == "A"
            assert await asked(server, "b") == "nobody"
        assert echoes.events[3:] == ["stop A", "close"]

    run(work())


def test_without_configured_accounts_the_default_one_is_served() -> None:
    async def work() -> None:
        echoes = Echoes()
        async with Server(options(), account_services=echoes):
            assert "add $G" in echoes.events

    run(work())


def test_start_fails_with_the_first_account_that_cannot_be_served() -> None:
    async def work() -> None:
        server = Server(options(account("A", SOME)), account_services=Echoes(broken={"A"}))
        with pytest.raises(StartError, match="A cannot be served"):
            await server.start()
        assert server.hosts == []

    run(work())


def test_start_fails_when_nothing_was_given_that_would_do_it() -> None:
    async def work() -> None:
        with pytest.raises(StartError, match="nothing was given that would do it"):
            await Server(options()).start()

    run(work())


def test_reload_adds_changes_ends_and_removes() -> None:
    async def work() -> None:
        echoes = Echoes()
        first = options(account("A", SOME), account("B"), account("C", SOME), account("D", SOME))
        async with Server(first, account_services=echoes) as server:
            echoes.events.clear()
            change_options(
                server, options(account("A", LESS), account("B", SOME), account("C"), account("E", SOME))
            )
            assert sorted(echoes.events) == sorted(
                [
                    *("stop D", "remove D"),
                    "change A",
                    "add B",
                    *("change C", "stop C", "remove C"),
                    "add E",
                ]
            )
            assert [await asked(server, user) for user in "abce"] == ["A", "B", "nobody", "E"]
            echoes.events.clear()
            change_options(
                server, options(account("A", LESS), account("B", SOME), account("C"), account("E", SOME))
            )
            assert echoes.events == []

    run(work())


def test_account_that_cannot_be_served_later_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        echoes = Echoes(broken={"B"})
        async with Server(options(account("A", SOME)), account_services=echoes) as server:
            change_options(server, options(account("A", SOME), account("B", SOME)))
            assert await asked(server, "a") == "A"
            assert await asked(server, "b") == "nobody"

    run(work())
    assert "Error configuring jetstream for account [B]: B cannot be served" in caplog.text


def test_account_whose_service_does_not_start_is_tried_again_when_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        echoes = Echoes(torn={"B"})
        async with Server(options(account("A", SOME)), account_services=echoes) as server:
            change_options(server, options(account("A", SOME), account("B", SOME)))
            assert echoes.events[-1] == "remove B"
            assert await asked(server, "b") == "nobody"
            echoes.torn.clear()
            change_options(server, options(account("A", SOME), account("B", LESS)))
            assert await asked(server, "b") == "B"

    run(work())
    assert "B cannot be recovered" in caplog.text


def test_info_and_mappings_tell_of_jetstream() -> None:
    async def work() -> None:
        async with Server(options(account("A", SOME)), account_services=Echoes()) as server:
            assert (server.info["jetstream"], server.info["domain"], server.info["api_lvl"]) == (
                True,
                "hub",
                5,
            )
            mappings = server.accounts["A"].mappings
            assert mappings is not None
            assert mappings.map(b"$JS.hub.API.STREAM.INFO.S") == b"$JS.API.STREAM.INFO.S"
            assert mappings.map(b"$JS.hub.API.INFO") == b"$JS.API.INFO"
            assert mappings.map(b"$JS.hub.API.$KV.b.k") == b"$KV.b.k"
            assert not server.accounts["$SYS"].mappings

    run(work())


class OtherServer:
    """Decides when the accounts are served, as a test says. It begins to serve when it is told to."""

    def __init__(self, events: list[str], *, serves: bool) -> None:
        self.events = events
        self.serves = serves
        self.is_known = True
        self.is_proven = True

    async def begin(self, server: SharingServer, accounts: ServedAccounts) -> None:
        self.events.append(f"begin {server.name}")
        self.accounts = accounts
        if self.serves:
            await accounts.open()

    def proven_until(self) -> int:
        return monotonic_ns() if self.is_proven else 0

    async def settled(self) -> None:
        if not self.is_known:
            await asyncio.Event().wait()

    def reload(self, new: Options) -> None:
        self.events.append(f"reload {new.config_digest}")

    async def leave(self) -> None:
        self.events.append("leave")
        await self.accounts.retire()

    async def end(self) -> None:
        self.events.append("end")


class SharedEchoes(Echoes):
    ownership: OtherServer


def shared(*, serves: bool) -> SharedEchoes:
    echoes = SharedEchoes()
    echoes.ownership = OtherServer(echoes.events, serves=serves)
    return echoes


def test_a_server_that_shares_its_stores_serves_when_it_is_told_to() -> None:
    async def work() -> None:
        echoes = shared(serves=False)
        async with Server(options(account("A", SOME)), account_services=echoes) as server:
            assert echoes.events == ["begin n"]
            assert await asked(server, "a") == "nobody"
            await echoes.ownership.accounts.open()
            assert await asked(server, "a") == "A"
            echoes.ownership.accounts.abandon()
            assert await asked(server, "a") == "nobody"
            change_options(server, options(account("A", SOME), account("B", SOME)))
            await echoes.ownership.accounts.open()
            assert await asked(server, "b") == "B"
            assert server.info["jetstream"] is True
        assert echoes.events == [
            *("begin n", "open n", "add A", "ready", "remove A", "close at once"),
            *("open n", "add A", "add B", "ready", "end", "stop B", "stop A", "close"),
        ]

    run(work())


def test_accounts_are_served_before_the_first_client_by_who_serves_from_the_start() -> None:
    async def work() -> None:
        async with Server(options(account("A", SOME)), account_services=shared(serves=True)) as server:
            assert await asked(server, "a") == "A"

    run(work())


def test_a_start_does_not_wait_for_ever_for_who_serves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "OWNER_LOOK", 0.01)

    async def work() -> None:
        echoes = shared(serves=False)
        echoes.ownership.is_known = False
        async with Server(options(account("A", SOME)), account_services=echoes) as server:
            assert await asked(server, "a") == "nobody"

    run(work())
    assert "It is not known yet which server has the streams" in caplog.text


def test_a_lame_duck_has_another_server_serve_before_its_clients_leave() -> None:
    async def work() -> None:
        echoes = shared(serves=True)
        server = Server(options(account("A", SOME)), account_services=echoes)
        await server.start()
        await server.lame_duck()
        assert echoes.events == [
            *("begin n", "open n", "add A", "ready", "leave", "stop A", "remove A", "close"),
            *("end", "close"),
        ]

    run(work())


@pytest.mark.parametrize("transport", ["epoll", "asyncio"])
def test_who_cannot_prove_that_it_serves_says_nothing_until_it_can(transport: str) -> None:
    async def work() -> None:
        echoes = shared(serves=True)
        async with Server(
            options(account("A", SOME)), account_services=echoes, transport=transport
        ) as server:
            (host,) = (each for each in server.hosts if each.account == "A")
            assert await asked(server, "a") == "A"
            echoes.ownership.is_proven = False
            assert await asked(server, "a") == "nobody"
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            await reader.readline()
            writer.write(b'CONNECT {"user":"a","pass":"p","verbose":false}\r\nSUB said 0\r\nPING\r\n')
            assert await reader.readline() == b"PONG\r\n"
            rang: list[int] = []
            host.publish(b"said", b"of the past, or not")
            host.call_later(0, lambda: rang.append(1))
            writer.write(b"PING\r\n")
            assert await reader.readline() == b"PONG\r\n"
            assert not rang

            echoes.ownership.is_proven = True

            assert await reader.readline() == b"MSG said 0 19\r\n"
            assert rang == [1]
            assert await asked(server, "a") == "A"
            writer.close()

    run(work())
