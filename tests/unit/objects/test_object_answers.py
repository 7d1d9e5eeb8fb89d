"""The meaning of each answer that a store may give, by what obstore makes of it over HTTP."""

from __future__ import annotations

import asyncio
import datetime
from typing import TYPE_CHECKING, Any

import pytest

from harness.s3 import obstore_options
from harness.store_proxy import Fate, store_proxy
from headrace.objects.answers import MOST_TEXT, first_line
from headrace.objects.errors import (
    AccessRefused,
    KeyExists,
    KeyMissing,
    RequestRefused,
    StoreBusy,
    StoreError,
)
from headrace.objects.opening import open_async_store

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from harness.store_proxy import StoreProxy
    from headrace.objects.port import AsyncObjectStore

ONCE = {"retry_config": {"max_retries": 0, "retry_timeout": datetime.timedelta(seconds=1)}}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def scripted() -> Iterator[StoreProxy]:
    """A server that gives the answers of its `fates`."""
    pytest.importorskip("obstore")
    with store_proxy(NOWHERE) as proxy:
        yield proxy


@pytest.fixture
def store(scripted: StoreProxy) -> AsyncObjectStore:
    return open_async_store("s3://archive/orders", **obstore_options(scripted.url), **ONCE)


async def _listed(store: AsyncObjectStore) -> None:
    async for _ in store.list("wal"):
        pass


def request(store: AsyncObjectStore, kind: str) -> Coroutine[Any, Any, object]:
    return {
        "create": lambda: store.create("wal/1", b"x"),
        "put": lambda: store.put("wal/1", b"x"),
        "get": lambda: store.get("wal/1"),
        "range": lambda: store.get_range("wal/1", 0, 10),
        "head": lambda: store.head("wal/1"),
        "list": lambda: _listed(store),
        "folder": lambda: store.list_folder("wal"),
        "delete": lambda: store.delete(["wal/1"]),
    }[kind]()


EVERY = ("create", "put", "get", "range", "head", "list", "folder", "delete")
WITH_BODY = tuple(kind for kind in EVERY if kind != "head")
ANSWERS = [
    (403, "AccessDenied", EVERY, AccessRefused),
    (403, "SignatureDoesNotMatch", EVERY, AccessRefused),
    (401, "", EVERY, AccessRefused),
    (400, "ExpiredToken", WITH_BODY, AccessRefused),
    (404, "NoSuchKey", ("get", "range", "head"), KeyMissing),
    (404, "NoSuchBucket", WITH_BODY, RequestRefused),
    (404, "ContainerNotFound", WITH_BODY, RequestRefused),
    (409, "ConditionalRequestConflict", ("create",), StoreBusy),
    (409, "OperationAborted", ("create", "put", "delete"), StoreBusy),
    (409, "BlobAlreadyExists", ("create",), KeyExists),
    (409, "", ("create",), KeyExists),
    (412, "PreconditionFailed", ("create",), KeyExists),
    (412, "", ("create",), KeyExists),
    (429, "TooManyRequests", EVERY, StoreBusy),
    (503, "SlowDown", EVERY, StoreBusy),
    (503, "", EVERY, StoreBusy),
    (400, "InvalidRequest", EVERY, RequestRefused),
    (400, "RequestTimeout", WITH_BODY, StoreError),
    (301, "PermanentRedirect", EVERY, RequestRefused),
    (405, "MethodNotAllowed", EVERY, RequestRefused),
    (501, "NotImplemented", EVERY, RequestRefused),
    (408, "", EVERY, StoreError),
    (500, "InternalError", EVERY, StoreError),
    (502, "", EVERY, StoreError),
    (504, "GatewayTimeout", EVERY, StoreError),
]


@pytest.mark.parametrize(
    ("status", "code", "kind", "meaning"),
    [(status, code, kind, meaning) for status, code, kinds, meaning in ANSWERS for kind in kinds],
)
def test_answer_is_one_kind_of_error_and_asked_for_once(
    scripted: StoreProxy,
    store: AsyncObjectStore,
    *,
    status: int,
    code: str,
    kind: str,
    meaning: type[StoreError],
) -> None:
    scripted.requests.clear()
    scripted.fates.append(Fate(status=status, code=code))

    with pytest.raises(StoreError) as caught:
        asyncio.run(request(store, kind))

    assert type(caught.value) is meaning
    assert "\n" not in str(caught.value)
    assert len(scripted.requests) == 1


@pytest.mark.parametrize("kind", ["create", "put"])
def test_many_bytes_in_memory_are_one_request(
    scripted: StoreProxy, store: AsyncObjectStore, kind: str
) -> None:
    """Parts would be priced one by one, and stay when the upload is cut off."""
    scripted.requests.clear()
    scripted.fates.append(Fate(status=500))
    data = bytes(16 << 20)

    with pytest.raises(StoreError):
        asyncio.run(store.put("key", data) if kind == "put" else store.create("key", data))

    assert [each.method for each in scripted.requests] == ["PUT"]


@pytest.mark.parametrize("kind", EVERY)
def test_a_store_that_is_not_there_is_one_readable_line(kind: str) -> None:
    pytest.importorskip("obstore")
    store = open_async_store("s3://archive/orders", **obstore_options(NOWHERE), **ONCE)
    with pytest.raises(StoreError) as caught:
        asyncio.run(request(store, kind))
    _, _, reason = str(caught.value).partition(": ")
    assert reason == f"{NOWHERE}: HTTP error: error sending request (Connection refused)"


def test_what_a_store_says_is_cut_where_it_is_long() -> None:
    assert first_line(ValueError("x" * MOST_TEXT)) == "x" * MOST_TEXT
    assert first_line(ValueError("x" * 100_000)) == "x" * (MOST_TEXT - 1) + "…"
    assert first_line(ValueError()) == "ValueError()"


@pytest.mark.parametrize("kind", EVERY)
def test_connection_that_is_closed_leaves_open_what_happened(
    scripted: StoreProxy, store: AsyncObjectStore, kind: str
) -> None:
    scripted.fates.append(Fate(is_cut=True))

    with pytest.raises(StoreError) as caught:
        asyncio.run(request(store, kind))

    assert type(caught.value) is StoreError


def test_text_is_what_the_store_says(scripted: StoreProxy, store: AsyncObjectStore) -> None:
    for fate, text in (
        (
            Fate(status=403, code="InvalidAccessKeyId", message="The key is not\nin our records."),
            r"^cannot read s3://archive/orders/wal/1: 403 InvalidAccessKeyId \(The key is not\)$",
        ),
        (
            Fate(status=404, code="NoSuchBucket"),
            r"^cannot read s3://archive/orders/wal/1: there is no such bucket$",
        ),
        (
            Fate(status=503, code="SlowDown", message="Please reduce your request rate."),
            r"/wal/1: 503 SlowDown \(Please reduce your request rate\.\)$",
        ),
    ):
        scripted.fates.append(fate)
        with pytest.raises(StoreError, match=text):
            asyncio.run(request(store, "get"))
