"""The publisher of the bench that is written with nats-py: a stream is waited for, and errors end it."""

import asyncio

import pytest
from bench import nats_py_load
from bench.nats_py_load import NO_SUITABLE_PEERS, make_stream

nats_errors = pytest.importorskip("nats.js.errors")


class Servers:
    """Answers the first requests for a stream with an error."""

    def __init__(self, code: int, refused: int) -> None:
        self._code = code
        self._refused = refused
        self.asked: list[dict[str, object]] = []

    async def add_stream(self, **config: object) -> None:
        self.asked.append(config)
        if len(self.asked) <= self._refused:
            raise nats_errors.APIError(code=400, err_code=self._code, description="refused")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_py_load, "_AGAIN_S", 0)


def test_stream_is_asked_for_until_there_are_peers() -> None:
    servers = Servers(NO_SUITABLE_PEERS, refused=3)
    asyncio.run(make_stream(servers, "bench", 3))
    assert servers.asked == [{"name": "bench", "subjects": ["bench"], "num_replicas": 3}] * 4


def test_another_error_is_raised_at_once() -> None:
    servers = Servers(10058, refused=1)
    with pytest.raises(nats_errors.APIError):
        asyncio.run(make_stream(servers, "bench", 3))
    assert len(servers.asked) == 1


def test_peers_are_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_py_load, "PEERS_LIMIT_S", -1)
    with pytest.raises(nats_errors.APIError):
        asyncio.run(make_stream(Servers(NO_SUITABLE_PEERS, refused=1), "bench", 3))
