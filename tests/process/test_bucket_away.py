"""A server whose bucket does not answer, or is not its own, as a process over moto and a proxy that fails."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

import nats
import obstore
import pytest
from msgspec import msgpack
from nats.errors import Error as ClientError
from nats.js.errors import APIError, NoStreamResponseError
from obstore.store import S3Store

from harness.processes import HEADRACES, ServerProcess
from harness.s3 import obstore_options, s3_endpoint
from harness.store_proxy import PASSED, UNREACHABLE, Fate, StoreProxy, store_proxy
from harness.waiting import PATIENCE
from headrace.bucket.identity import FORMAT, IDENTITY_KEY
from headrace.bucket.shard import BEGIN_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nats.aio.client import Client

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("default")]
CONFIG = """
http: "127.0.0.1:-1"
jetstream {{
  store_dir: "{folder}/disk"
  bucket {{
    url: "s3://streams/{prefix}", endpoint: "{endpoint}", region: us-east-1
    credentials {{ access_key_id: key, secret_access_key: secret }}
  }}
}}
cluster {{ name: mine, listen: "127.0.0.1:-1" }}
"""
WAL = f"shards/jetstream/wal/{1:020}"
SNAPSHOT = f"shards/jetstream/snapshots/{1:020}"
OURS = msgpack.encode({"format": FORMAT, "kind": "headrace", "cluster": "mine"})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_endpoint("streams") as made:
        yield made


@pytest.fixture
def proxy(endpoint: str) -> Iterator[StoreProxy]:
    with store_proxy(endpoint) as made:
        yield made


def start(folder: Path, url: str, *, ready: bool = True) -> ServerProcess:
    text = CONFIG.format(folder=folder, prefix=folder.name, endpoint=url)
    return ServerProcess(HEADRACES[0], folder, config=text, ready=ready)


def health(server: ServerProcess) -> tuple[int, dict[str, Any]]:
    try:
        with urlopen(f"{server.monitor_url}/healthz", timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


async def published(client: Client, *, stream: bool = False) -> None:
    """Publish until it is acknowledged."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if stream:
                await client.jetstream().add_stream(name="S", subjects=["s"])
            await client.jetstream().publish("s", b"", timeout=1)
        except ClientError:
            if time.monotonic() > end:
                raise
        else:
            return


async def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


async def is_heard(client: Client) -> bool:
    """True if a message between clients arrives."""
    heard = await client.subscribe("core")
    await client.publish("core", b"")
    await heard.next_msg(PATIENCE)
    await heard.unsubscribe()
    return True


@pytest.mark.parametrize("fate", [UNREACHABLE, Fate(delay_s=3600)], ids=["refuses", "never answers"])
def test_publishers_are_told_of_a_bucket_that_went_away(
    tmp_path: Path, proxy: StoreProxy, fate: Fate
) -> None:
    async def use(server: ServerProcess) -> None:
        client = await nats.connect(server.url)
        await published(client, stream=True)
        proxy.default = lambda _: fate
        with pytest.raises((APIError, NoStreamResponseError)):
            await client.jetstream().publish("s", b"", timeout=PATIENCE)
        assert await is_heard(client)
        await until(lambda: health(server)[0] == 503)
        assert "cannot be used since" in health(server)[1]["error"]
        proxy.default = lambda _: PASSED
        await published(client)
        await until(lambda: health(server) == (200, {"status": "ok"}))
        await client.close()

    with start(tmp_path, proxy.url) as server:
        asyncio.run(use(server))


def test_a_start_serves_clients_before_the_bucket_answers(tmp_path: Path, proxy: StoreProxy) -> None:
    async def use(server: ServerProcess) -> None:
        client = await nats.connect(server.url)
        assert await is_heard(client)
        assert health(server)[0] == 503
        proxy.default = lambda _: PASSED
        await published(client, stream=True)
        await until(lambda: health(server) == (200, {"status": "ok"}))
        await client.close()

    proxy.default = lambda _: UNREACHABLE
    with start(tmp_path, proxy.url) as server:
        assert server.ready_after < BEGIN_S + PATIENCE
        assert "its streams are there when the bucket answers" in server.log
        asyncio.run(use(server))


OTHERS: dict[str, tuple[dict[str, bytes], str]] = {
    "another program": ({"photo.jpg": b"jpg"}, "holds photo.jpg, and is not of Headrace"),
    "another cluster": (
        {IDENTITY_KEY: msgpack.encode({"format": FORMAT, "kind": "headrace", "cluster": "other"})},
        "is of the cluster 'other', this server is of 'mine'",
    ),
    "a later version": (
        {IDENTITY_KEY: msgpack.encode({"format": FORMAT + 1, "kind": "headrace", "cluster": "mine"})},
        "was written by a later version",
    ),
    "damage": ({IDENTITY_KEY: b"\xc1"}, "is not of Headrace"),
    "a damaged log": ({IDENTITY_KEY: OURS, WAL: b"HRwl"}, "object 1 of shard jetstream"),
    "a damaged snapshot": ({IDENTITY_KEY: OURS, SNAPSHOT: b"HRsn"}, "snapshot 1 of shard jetstream"),
}


@pytest.mark.parametrize("whose", OTHERS)
def test_a_prefix_that_is_not_its_own_ends_the_start_and_is_left_alone(
    tmp_path: Path, endpoint: str, whose: str
) -> None:
    objects, said = OTHERS[whose]
    store = S3Store("streams", prefix=tmp_path.name, **obstore_options(endpoint))
    for key, data in objects.items():
        obstore.put(store, key, data)
    assert said in refusal_of(tmp_path, endpoint)
    kept = {one["path"]: bytes(obstore.get(store, one["path"]).bytes()) for one in store.list().collect()}
    assert kept == objects


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "AccessDenied", "403 AccessDenied"),
        (403, "SignatureDoesNotMatch", "403 SignatureDoesNotMatch"),
        (400, "ExpiredToken", "400 ExpiredToken"),
        (404, "NoSuchBucket", "there is no such bucket"),
        (501, "NotImplemented", "501 NotImplemented"),
    ],
)
def test_a_bucket_that_refuses_this_server_ends_the_start(
    tmp_path: Path, proxy: StoreProxy, status: int, code: str, said: str
) -> None:
    proxy.default = lambda _: Fate(status=status, code=code)
    assert said in refusal_of(tmp_path, proxy.url)
    assert len(proxy.requests) == 1, "it is not tried again"


def refusal_of(folder: Path, url: str) -> str:
    """Start a server that ends with one line; return that line."""
    with start(folder, url, ready=False) as server:
        assert server.wait() == 1
        (line,) = [line for line in server.lines if "[INF]" not in line and "[WRN]" not in line]
        assert "[FTL] Can't start JetStream: " in line
        return line
