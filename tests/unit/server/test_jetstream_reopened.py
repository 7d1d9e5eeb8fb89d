"""JetStream of a running server, closed and opened again: in order, and at once."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import nats
import pytest
from nats.errors import NoRespondersError
from nats.js.errors import NoStreamResponseError

from harness.js_account import HeldCommitter
from harness.nats_py import settle
from headrace.conf.account_options import AccountOptions, JetStreamAccountLimits, UserOptions
from headrace.conf.jetstream_options import JetStreamOptions
from headrace.conf.options import Options
from headrace.embedding import Server
from headrace.engine.memory import live_objects
from headrace.jetstream.opening import JetStreamServer
from headrace.log.filesystem import RealFileSystem
from headrace.server.account_services import HostedAccounts
from headrace.server.monitor.healthz import healthz
from headrace.server.monitor.jsz import jsz
from headrace.server.reload import change_options
from headrace.server.snapshot import ServerMonitor

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from nats.aio.client import Client

SOME = {"": JetStreamAccountLimits()}


def run(work: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def options(directory: Path, **others: Any) -> Options:
    return Options(host="127.0.0.1", port=-1, jetstream=JetStreamOptions(store_dir=str(directory)), **others)


def accounts_of(server: Server) -> HostedAccounts:
    assert server.account_services is not None
    return server.account_services


def services_of(server: Server) -> JetStreamServer:
    services = accounts_of(server).services
    assert isinstance(services, JetStreamServer)
    return services


async def retire(accounts: HostedAccounts) -> None:
    await accounts.retire()


async def abandon(accounts: HostedAccounts) -> None:
    accounts.abandon()


End = Callable[[HostedAccounts], Awaitable[None]]

ENDS = pytest.mark.parametrize("end", [retire, abandon], ids=["in order", "at once"])


async def heard(client: Client, subject: str, payload: bytes = b"") -> Callable[[], Awaitable[Any]]:
    """A request that is under way: the function waits for its answer."""
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    await client.publish(subject, payload, reply=inbox)
    await settle(client)
    return lambda: answers.next_msg(5)


@ENDS
def test_what_was_acknowledged_is_there_again_and_nobody_answers_meanwhile(tmp_path: Path, end: End) -> None:
    async def work() -> None:
        async with Server(options(tmp_path)) as server:
            client = await nats.connect(server.url)
            js = client.jetstream()
            await js.add_stream(name="S", subjects=["s"])
            pulls = await js.pull_subscribe("s", durable="c")
            for number in range(1, 4):
                await js.publish("s", b"%d" % number, headers={"Nats-Msg-Id": str(number)})
                (message,) = await pulls.fetch(1)
                await message.ack_sync()

                await end(accounts_of(server))

                with pytest.raises(NoStreamResponseError):
                    await js.publish("s", b"lost")
                with pytest.raises(NoRespondersError):
                    await client.request("$JS.API.STREAM.INFO.S", b"")
                assert server.info["jetstream"] is True
                await accounts_of(server).open()

                again = await js.publish("s", b"%d" % number, headers={"Nats-Msg-Id": str(number)})
                assert (again.seq, again.duplicate) == (number, True)
                info = await js.consumer_info("S", "c")
                assert info.ack_floor is not None
                assert info.ack_floor.stream_seq == number
            await client.close()

    run(work())


@ENDS
def test_memory_is_given_back(tmp_path: Path, end: End) -> None:
    async def work() -> None:
        async with Server(options(tmp_path)) as server:
            client = await nats.connect(server.url)
            js = client.jetstream()
            await js.add_stream(name="S", subjects=["s"])
            pulls = await js.pull_subscribe("s", durable="c")

            async def once() -> tuple[weakref.ref[Any], dict[str, int]]:
                for _ in range(10):
                    await js.publish("s", b"x" * 100)
                for message in await pulls.fetch(10):
                    await message.ack()
                await settle(client)
                system = services_of(server).system
                assert system is not None
                seen = weakref.ref(system.accounts["$G"])
                del system, message
                await end(accounts_of(server))
                await settle(client)
                gc.collect()
                return seen, live_objects()

            first, after_first = await once()
            assert first() is None
            for _ in range(3):
                await accounts_of(server).open()
                seen, after = await once()
                assert seen() is None
                # Plans are a cache of subjects, as large as it is.
                assert {name for name in after if after[name] > after_first[name]} <= {"plans", "blocks"}
            await client.close()

    run(work())


@ENDS
def test_a_pull_that_waits_is_told_to_ask_again(tmp_path: Path, end: End) -> None:
    async def work() -> None:
        async with Server(options(tmp_path)) as server:
            client = await nats.connect(server.url)
            js = client.jetstream()
            await js.add_stream(name="S", subjects=["s"])
            await js.pull_subscribe("s", durable="c")
            pull = await heard(client, "$JS.API.CONSUMER.MSG.NEXT.S.c", b'{"expires": 20000000000}')
            await end(accounts_of(server))
            answer = await pull()
            assert (answer.headers["Status"], answer.headers["Description"]) == ("409", "Leadership Change")
            await client.close()

    run(work())


async def stream_with_held_commits(server: Server) -> tuple[HostedAccounts, HeldCommitter, Client]:
    """Have commits wait for the test, and make the stream S."""
    accounts, committer = accounts_of(server), HeldCommitter()
    await accounts.retire()
    services_of(server).use(RealFileSystem(), committer)
    await accounts.open()
    client = await nats.connect(server.url)
    made = await heard(client, "$JS.API.STREAM.CREATE.S", b'{"name": "S", "subjects": ["s"]}')
    committer.commit()
    assert b"did_create" in (await made()).data
    return accounts, committer, client


def test_a_publication_that_is_not_committed_is_never_answered_after_a_loss(tmp_path: Path) -> None:
    async def work() -> None:
        async with Server(options(tmp_path)) as server:
            accounts, committer, client = await stream_with_held_commits(server)
            published = await heard(client, "s", b"1")
            assert committer.waiting

            accounts.abandon()
            committer.commit()
            server.ticks.wake()

            with pytest.raises(NoRespondersError):  # what comes behind it would find its answer first
                await client.request("$JS.API.INFO", b"")
            answers = asyncio.ensure_future(published())
            await settle(client)
            assert not answers.done()
            answers.cancel()
            await client.close()

    run(work())


def test_what_was_taken_is_committed_and_answered_before_it_ends_in_order(tmp_path: Path) -> None:
    async def work() -> None:
        async with Server(options(tmp_path)) as server:
            accounts, committer, client = await stream_with_held_commits(server)
            published = await heard(client, "s", b"1")

            retiring = asyncio.ensure_future(accounts.retire())
            with pytest.raises(NoStreamResponseError):  # no more is taken
                await client.jetstream().publish("s", b"2")
            assert not retiring.done()
            while not retiring.done():
                committer.commit()
                await asyncio.sleep(0)

            assert b'"seq":1' in (await published()).data
            await client.close()

    run(work())


@ENDS
def test_accounts_that_change_meanwhile_are_served_when_it_opens(tmp_path: Path, end: End) -> None:
    def account(name: str) -> AccountOptions:
        return AccountOptions(name, users=(UserOptions(name.lower(), "p"),), jetstream=SOME)

    async def work() -> None:
        async with Server(options(tmp_path, accounts=(account("A"), account("B")))) as server:
            await end(accounts_of(server))
            change_options(server, options(tmp_path, accounts=(account("B"), account("C"))))
            await accounts_of(server).open()
            for user in "bc":
                client = await nats.connect(server.url, user=user, password="p")
                assert (await client.jetstream().account_info()).streams == 0
                await client.close()
            assert "A" not in {host.account for host in server.hosts}

    run(work())


@ENDS
def test_monitoring_says_that_jetstream_is_closed(tmp_path: Path, end: End) -> None:
    async def work() -> None:
        async with Server(options(tmp_path)) as server:
            monitor = ServerMonitor(server)
            assert "disabled" not in jsz(monitor, {})
            await end(accounts_of(server))
            assert jsz(monitor, {"accounts": "1"})["disabled"] is True
            assert healthz(monitor, {})[0] == 200
            await accounts_of(server).open()
            assert "disabled" not in jsz(monitor, {})

    run(work())


@ENDS
def test_a_server_that_does_not_serve_streams_stops(tmp_path: Path, end: End) -> None:
    async def work() -> None:
        async with Server(options(tmp_path)) as server:
            await end(accounts_of(server))
        async with Server(options(tmp_path)):
            """The directory is free."""

    run(work())
