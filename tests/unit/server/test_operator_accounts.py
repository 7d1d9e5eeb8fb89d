"""Accounts of operator mode while tokens come and change at the same time, without a network."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from harness.claims import ACCOUNT_KEY, OPERATOR_KEY, account_token
from harness.keys import ACCOUNT, key_pair
from headrace import Options, Server
from headrace.conf.operator_options import OperatorOptions, ResolverOptions
from headrace.core.grants import Refused
from headrace.server.resolver import ResolverError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.server.operator_mode import OperatorMode

EXPORTER = key_pair(ACCOUNT, "exporter")
KEY = ACCOUNT_KEY.public
NEWER = account_token(outer={"iat": 1_700_000_100}, revocations={"*": 1_700_000_050})
EXPORTS = [{"name": "s", "subject": "s", "type": "stream"}]
IMPORTS = [{"name": "s", "subject": "s", "account": EXPORTER.public, "type": "stream"}]


class Tokens:
    """A resolver whose answers come when they are let go."""

    def __init__(self, **tokens: str) -> None:
        self.tokens = tokens
        self.asked: list[str] = []
        self.let_go = asyncio.Event()
        self.was_asked = asyncio.Event()

    async def start(self) -> None:
        return

    async def close(self) -> None:
        return

    async def store(self, account: str, token: str) -> bool:
        self.tokens[account] = token
        return True

    async def fetch(self, account: str) -> str:
        self.asked.append(account)
        self.was_asked.set()
        await self.let_go.wait()
        if account not in self.tokens:
            raise ResolverError("account missing")
        return self.tokens[account]


def within(test: Callable[[OperatorMode, Tokens, Server], Awaitable[None]], **tokens: str) -> None:
    async def run() -> None:
        operator = OperatorOptions((OPERATOR_KEY.public,), resolver=ResolverOptions("memory"))
        options = Options(host="127.0.0.1", port=-1, operator=operator)
        async with asyncio.timeout(20), Server(options) as server:
            assert server.authorizer is not None
            assert server.authorizer.operator is not None
            resolver = Tokens(**tokens)
            server.authorizer.operator.resolver = resolver
            await test(server.authorizer.operator, resolver, server)

    asyncio.run(run())


async def began(task: asyncio.Task[Any], resolver: Tokens) -> None:
    await resolver.was_asked.wait()
    assert not task.done()


def imported(server: Server) -> list[str]:
    """What the account imports from others than the system account."""
    imports = server.accounts[KEY].options.imports
    return [item.subject for item in imports if item.account != server.accounts.system]


def test_token_that_came_meanwhile_is_not_replaced_by_an_older_one() -> None:
    async def test(operator: OperatorMode, resolver: Tokens, server: Server) -> None:
        task = asyncio.create_task(operator.account(KEY))
        await began(task, resolver)
        await operator.change(KEY, NEWER)
        resolver.let_go.set()
        assert (await task).claims.issued_at == 1_700_000_100
        assert (await operator.account(KEY)).claims.revocations == {"*": 1_700_000_050}

    within(test, **{KEY: account_token()})


def test_whoever_gives_up_does_not_take_the_account_from_the_others() -> None:
    async def test(operator: OperatorMode, resolver: Tokens, server: Server) -> None:
        first, second = (asyncio.create_task(operator.account(KEY)) for _ in range(2))
        await began(first, resolver)
        first.cancel()
        resolver.let_go.set()
        assert (await second).key == KEY
        assert resolver.asked == [KEY]

    within(test, **{KEY: account_token()})


def test_unknown_account_is_asked_for_again() -> None:
    async def test(operator: OperatorMode, resolver: Tokens, server: Server) -> None:
        resolver.let_go.set()
        for _ in range(2):
            with pytest.raises(Refused, match="Account JWT lookup error: account missing"):
                await operator.account(KEY)
        await resolver.store(KEY, account_token())
        assert (await operator.account(KEY)).key == KEY
        assert resolver.asked == [KEY] * 3

    within(test)


def test_import_becomes_effective_when_the_exporter_comes() -> None:
    async def test(operator: OperatorMode, resolver: Tokens, server: Server) -> None:
        resolver.let_go.set()
        await operator.account(KEY)
        assert imported(server) == []
        await resolver.store(EXPORTER.public, account_token(subject=EXPORTER, exports=EXPORTS))
        await operator.account(EXPORTER.public)
        assert imported(server) == ["s"]
        await operator.change(EXPORTER.public, account_token(subject=EXPORTER, outer={"iat": 1_700_000_100}))
        assert imported(server) == []

    within(test, **{KEY: account_token(imports=IMPORTS)})


def test_accounts_that_import_from_each_other_are_loaded() -> None:
    async def test(operator: OperatorMode, resolver: Tokens, server: Server) -> None:
        resolver.let_go.set()
        both = await asyncio.gather(operator.account(KEY), operator.account(EXPORTER.public))
        assert [account.key for account in both] == [KEY, EXPORTER.public]
        assert EXPORTER.public in server.accounts

    mine = [{"name": "t", "subject": "t", "type": "stream"}]
    theirs = [{"name": "t", "subject": "t", "account": KEY, "type": "stream"}]
    within(
        test,
        **{
            KEY: account_token(imports=IMPORTS, exports=mine),
            EXPORTER.public: account_token(subject=EXPORTER, imports=theirs, exports=EXPORTS),
        },
    )


def test_change_that_is_refused_changes_nothing() -> None:
    async def test(operator: OperatorMode, resolver: Tokens, server: Server) -> None:
        resolver.let_go.set()
        await operator.account(KEY)
        for token in ("garbage", account_token(subject=EXPORTER), account_token(EXPORTER), NEWER[:-4]):
            with pytest.raises(Refused):
                await operator.change(KEY, token)
        assert (await operator.account(KEY)).claims.issued_at == 1_700_000_000
        assert await operator.change(KEY, NEWER) is True
        assert await operator.change(KEY, NEWER) is False

    within(test, **{KEY: account_token()})


def test_forgotten_account_is_fetched_again() -> None:
    async def test(operator: OperatorMode, resolver: Tokens, server: Server) -> None:
        resolver.let_go.set()
        await operator.account(KEY)
        operator.forget([KEY, "nobody's"])
        del resolver.tokens[KEY]
        with pytest.raises(Refused):
            await operator.account(KEY)
        await resolver.store(KEY, NEWER)
        assert (await operator.account(KEY)).claims.issued_at == 1_700_000_100

    within(test, **{KEY: account_token()})


def test_plain_server_loads_nothing_of_this() -> None:
    program = """
import sys
from headrace import Server
from headrace.conf.binding import load_options
Server(load_options(text="port: -1, authorization { users: [{user: a, password: b}] }"))
heavy = ("jwt", "operator", "callout", "trust", "grants", "authorizer", "claim", "keypairs", "resolver")
print([m for m in sys.modules if m.startswith("headrace.") and any(h in m for h in heavy)])
print([m for m in ("nacl", "cryptography", "aiohttp") if m in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[:2] == ["[]", "[]"], found.stderr
