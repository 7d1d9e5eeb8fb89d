"""Servers of each kind, nats-py clients that are always closed, and coroutines as tests."""

from __future__ import annotations

import asyncio
import gc
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from harness.certificates import Authority
from harness.processes import ALL, ServerProcess
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nats.aio.client import Client

    from harness.processes import Program

TEST_SECONDS = 120.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "clients" in item.nodeid.split("/"):
            item.add_marker(pytest.mark.clients)
            # nats-py leaves the stream of a connection that was refused to the garbage collector, which is
            # called at the end of each of these tests, so that no later one hears of it.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine on a loop of its own; clients it made are closed on that loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    clients = pyfuncitem.funcargs.get("connect")

    async def run() -> None:
        try:
            async with asyncio.timeout(TEST_SECONDS):
                await pyfuncitem.obj(**arguments)
        finally:
            if isinstance(clients, Clients):
                await clients.close()

    asyncio.run(run())
    gc.collect()
    return True


class Clients:
    """`await connect(server, ...)`: a nats-py client; what it reports through error_cb is in `errors`."""

    def __init__(self) -> None:
        self._open: list[Client] = []
        self.errors: list[str] = []
        self.reported = asyncio.Event()

    async def __call__(self, server: ServerProcess | str, **options: Any) -> Client:
        import nats  # optional: a conftest.py that cannot be imported would end the collection

        url = server if isinstance(server, str) else server.url
        client = await nats.connect(
            url, **{"allow_reconnect": False, "error_cb": self._note, "connect_timeout": PATIENCE, **options}
        )
        self._open.append(client)
        return client

    async def _note(self, error: Exception) -> None:
        self.errors.append(str(error))  # the error itself would keep its client alive
        self.reported.set()

    async def next_error(self) -> str:
        """The text of the error reported since the last call, waiting for it if there is none yet."""
        await self.reported.wait()
        self.reported.clear()
        return self.errors[-1]

    async def close(self) -> None:
        for client in self._open:
            if not client.is_closed:
                await client.close()


@pytest.fixture
def connect() -> Clients:
    pytest.importorskip("nats")
    return Clients()


@pytest.fixture(params=ALL, ids=str)
def program(request: pytest.FixtureRequest) -> Program:
    """Each kind of server."""
    chosen: Program = request.param
    return chosen


@pytest.fixture
def any_server(
    program: Program, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers of each kind with the configuration and flags that a test wants."""
    started: list[ServerProcess] = []

    def start(config: str | None = None, *arguments: str, **options: Any) -> ServerProcess:
        folder = tmp_path_factory.mktemp("server")
        started.append(ServerProcess(program, folder, *arguments, config=config, **options))
        return started[-1]

    yield start
    for server in started:
        with server:
            pass


@pytest.fixture(scope="session", params=ALL, ids=str)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """One server of each kind with the defaults, for all tests that need no other."""
    with ServerProcess(request.param, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "trusted")


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that no server trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")
