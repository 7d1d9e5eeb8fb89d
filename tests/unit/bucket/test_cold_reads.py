"""Reads of JetStream whose bytes are in the bucket: nothing waits on the loop, and all of it is answered."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from shard_model import KEYS, Reads, inline
from test_cold_logs import Server

from harness.js_account import Place
from harness.memory_objects import MemoryObjects
from headrace.bucket.cache import LocalCache
from headrace.bucket.capture import CapturingFileSystem
from headrace.bucket.journal import Journal
from headrace.log.blocking import NotHere, may_wait, without_waiting
from headrace.log.filesystem import RealFileSystem
from headrace.log.store import FileStore
from headrace.objects.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.js_account import Sent

MESSAGES: Final = 700
SEGMENT: Final = 5 << 20
TOLD: Final = {
    "short": "cut off",
    "damaged": "checksum",
    "missing": "not there",
    "unreachable": "not reachable",
}
"""What is wrong with the store's answers, and the words in the error."""


def payload(number: int) -> bytes:
    return Random(number).randbytes(20_000)


class SlowReads(Reads):
    """A store that answers no range until `answer` is called."""

    def __init__(self, store: MemoryObjects) -> None:
        super().__init__(store)
        self._may_answer = threading.Event()
        self._may_answer.set()

    def stop(self) -> None:
        self._may_answer.clear()

    def answer(self) -> None:
        self._may_answer.set()

    def get_range(self, key: str, start: int, end: int) -> bytes:
        assert self._may_answer.wait(60), "a test answers"
        return super().get_range(key, start, end)


class ColdPlace:
    """A JetStream account whose stream `S` has its messages in a bucket that answers when a test says so."""

    def __init__(self, directory: Path) -> None:
        warm = Server(directory / "warm", MemoryObjects())
        place = Place(file=FileStore(directory / "warm/js", filesystem=warm.files, segment_bytes=SEGMENT))
        place.stream("S", subjects=["s.>"], allow_direct=True)
        for number in range(1, MESSAGES + 1):
            place.publish(f"s.{number % 3}", payload(number))
        place.consumer("S", "C", max_ack_pending=1000)
        place.account.stop()
        place.file.close()
        manifest = warm.snapshot()
        warm.cache.close()
        cold = directory / "cold"
        self.reads = SlowReads(warm.store)
        tree = manifest.tree()
        files = RealFileSystem()
        self.cache = LocalCache(files, cold, self.reads, KEYS, tree, offload=inline)
        journal = Journal()
        self.cache.changes = journal.lock
        asyncio.run(self.cache.begin())
        captured = CapturingFileSystem(files, cold, tree, journal, self.cache)
        self.place = Place(
            file=FileStore(cold / "js", filesystem=captured, segment_bytes=SEGMENT), start=False
        )
        self.place.host.pass_time(600)  # what is in the window of duplicates is read at once
        self.place.account.start(self.place.host)
        self.reads.stop()

    async def answers(self, subject: str, body: Any, is_last: Callable[[Sent], bool]) -> list[Sent]:
        """Ask; see that the loop goes on while the store does not answer; return what is sent then."""
        host = self.place.host
        host.sent.clear()
        host.put(subject.encode(), json.dumps(body).encode(), b"_INBOX.ask")
        host.tick()  # comes back, though the store does not answer
        assert not any(is_last(one) for one in host.sent)
        self.reads.answer()
        async with asyncio.timeout(20):
            while not (host.sent and is_last(host.sent[-1])):
                await asyncio.sleep(0)
                host.pass_time(0.001)
        return [one for one in host.sent if one.to == b"_INBOX.ask"]

    def close(self) -> None:
        self.reads.answer()
        self.place.account.stop()
        self.place.file.close()
        self.cache.close()


@pytest.fixture(name="cold")
def cold_place(tmp_path: Path) -> ColdPlace:
    return ColdPlace(tmp_path)


def test_a_message_is_got_off_the_loop(cold: ColdPlace) -> None:
    async def main() -> None:
        (sent,) = await cold.answers("$JS.API.STREAM.MSG.GET.S", {"seq": 350}, lambda _one: True)
        assert base64.b64decode(sent.json()["message"]["data"]) == payload(350)

    asyncio.run(main())
    cold.close()


def test_a_direct_get_is_answered_off_the_loop(cold: ColdPlace) -> None:
    async def main() -> None:
        (sent,) = await cold.answers("$JS.API.DIRECT.GET.S", {"seq": 350}, lambda _one: True)
        assert sent.payload == payload(350)

    asyncio.run(main())
    cold.close()


def test_a_batch_goes_on_as_its_bytes_arrive(cold: ColdPlace) -> None:
    async def main() -> None:
        sent = await cold.answers(
            "$JS.API.DIRECT.GET.S",
            {"seq": 300, "next_by_subj": "s.*", "batch": 150},
            lambda one: b" 204 " in one.headers,
        )
        assert [one.payload for one in sent[:-1]] == [payload(number) for number in range(300, 450)]
        assert b"Nats-Last-Sequence: 449" in sent[-1].headers

    asyncio.run(main())
    cold.close()


def test_the_last_of_subjects_as_of_then_are_got_off_the_loop(cold: ColdPlace) -> None:
    async def main() -> None:
        sent = await cold.answers(
            "$JS.API.DIRECT.GET.S",
            {"multi_last": ["s.*"], "up_to_seq": 400},
            lambda one: b" 204 " in one.headers,
        )
        assert [one.payload for one in sent[:-1]] == [payload(number) for number in (398, 399, 400)]

    asyncio.run(main())
    cold.close()


def test_a_consumer_is_set_going_again_by_its_bytes(cold: ColdPlace) -> None:
    async def main() -> None:
        last = payload(MESSAGES)
        pull = {"batch": MESSAGES, "expires": 600 * 10**9}
        sent = await cold.answers("$JS.API.CONSUMER.MSG.NEXT.S.C", pull, lambda one: one.payload == last)
        assert [one.payload for one in sent] == [payload(number) for number in range(1, MESSAGES + 1)]

    asyncio.run(main())
    cold.close()


@pytest.mark.parametrize("harm", TOLD)
def test_wrong_bytes_are_an_error_and_never_an_answer(cold: ColdPlace, harm: str) -> None:
    objects = cold.reads._objects
    before = dict(objects)
    if harm == "unreachable":

        def fail(_key: str) -> None:
            raise StoreError("not reachable")

        cold.reads.fail = fail
    elif harm == "missing":
        objects.clear()
    else:
        for key, (data, at) in before.items():
            objects[key] = (data[:1000] if harm == "short" else bytes(len(data))), at

    async def main() -> None:
        ask = "$JS.API.STREAM.MSG.GET.S", {"seq": 350}
        (sent,) = await cold.answers(*ask, lambda _one: True)
        error = sent.json()["error"]
        assert error["err_code"] == 10051
        assert TOLD[harm] in error["description"]
        objects.update(before)
        cold.reads.fail = lambda _key: None
        cold.reads.stop()
        (sent,) = await cold.answers(*ask, lambda _one: True)
        assert base64.b64decode(sent.json()["message"]["data"]) == payload(350)

    asyncio.run(main())
    cold.close()


def test_who_may_wait_waits_and_who_may_not_is_told(cold: ColdPlace) -> None:
    assert may_wait()
    stream = cold.place.account.streams["S"]
    with without_waiting(), pytest.raises(NotHere) as raised:
        stream.log.read(350)
    assert may_wait()
    arrival = raised.value.arrival
    assert not arrival.done()
    cold.reads.answer()
    arrival.result(60)
    with without_waiting():
        found = stream.log.read(350)
    assert found is not None
    assert found.payload == payload(350)
    cold.close()
