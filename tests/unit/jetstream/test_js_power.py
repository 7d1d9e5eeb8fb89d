"""Power failures and failing disks under an account's JetStream, on the simulated file system.

Promised under the `group` policy: what was acknowledged to a publisher is there when the power is back, and
what a consumer's client was told is acknowledged never comes again; streams and consumers that were made are
there, those that were removed are not, and no message of a removed stream comes back. Not promised: that a
delivery nobody confirmed is not repeated.
"""

from __future__ import annotations

import errno
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import depth
from harness.js_account import API, Place, encoded
from headrace.errors import LogError, StartError
from headrace.log.store import FileStore
from headrace.testing.faultfs import FaultyFileSystem, MemoryFileSystem

if TYPE_CHECKING:
    from headrace.log.filesystem import FileSystem

DIRECTORY = Path("/store")
SEEDS = 250


def _place(files: FileSystem) -> Place:
    return Place(file=FileStore(DIRECTORY, filesystem=files, remembers=False))


class Witness:
    """What was confirmed: bodies stored, bodies acknowledged for good, streams that are there or gone."""

    def __init__(self) -> None:
        self.number = 0
        self.stored: list[bytes] = []
        self.done: set[bytes] = set()
        self.again: dict[str, bool] = {}
        """Streams beside the one that is published to; None in it: nobody was told."""

    def publish(self, place: Place) -> None:
        body = b"%d" % self.number
        self.number += 1
        answer = place.publish("s", body)
        if answer is not None and "error" not in answer:
            self.stored.append(body)

    def consume(self, place: Place, dice: random.Random) -> None:
        for message in place.fetch("S", "c", dice.randrange(1, 5)):
            assert message.payload not in self.done, "what was acknowledged came again"
            if dice.random() < 0.6 and place.acknowledge(message, waits=True):
                self.done.add(message.payload)

    def turn_over(self, place: Place, dice: random.Random) -> None:
        """A stream of some name comes or goes."""
        name = f"T{dice.randrange(3)}"
        if self.again.get(name):
            answer = place.ask(f"STREAM.DELETE.{name}")
            is_there = False
        else:
            answer = place.ask(f"STREAM.CREATE.{name}", {"name": name})
            is_there = True
            place.publish(name, b"old")
        if answer is not None and "error" not in answer:
            self.again[name] = is_there
        else:
            self.again.pop(name, None)

    def check(self, place: Place) -> None:
        names = place.ask("STREAM.NAMES")["streams"]
        for name, is_there in self.again.items():
            assert (name in names) is is_there
        page = place.account.streams["S"].log.read_from(1, max_messages=10_000)
        bodies = [message.payload for message in page.messages]
        assert [body for body in bodies if body in set(self.stored)] == self.stored
        assert "error" not in place.ask("CONSUMER.INFO.S.c")


def _prepare(place: Place) -> bool:
    made = place.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    config = {"durable_name": "c", "ack_policy": "explicit", "ack_wait": 2_000_000_000}
    asked = place.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    return all(answer is not None and "error" not in answer for answer in (made, asked))


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_a_power_failure_loses_nothing_that_was_promised(seed: int) -> None:
    dice = random.Random(seed)
    files, witness = MemoryFileSystem(), Witness()
    place = _place(files)
    assert _prepare(place)
    for _ in range(8):
        for _ in range(dice.randrange(6)):
            witness.publish(place)
            if dice.random() < 0.7:
                witness.consume(place, dice)
            if dice.random() < 0.3:
                witness.turn_over(place, dice)
            place.host.pass_time(dice.choice([0, 0.05, 3]))
        files.crash(dice)
        now = place.host.now
        place = _place(files)
        place.host.now = now
        witness.check(place)
    for _ in range(20):
        witness.consume(place, dice)
        place.host.pass_time(3)
    assert set(witness.stored) <= witness.done


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_the_nth_call_to_the_file_system_fails_for_every_n(code: int) -> None:
    """Nobody is told of what did not happen, the service goes on, and a restart finds what was confirmed."""
    for fail_at in range(1, 300):
        inner, witness, dice = MemoryFileSystem(), Witness(), random.Random(0)
        files = FaultyFileSystem(inner, fail_at=fail_at, error=code)
        try:
            place = _place(files)
        except (StartError, LogError):
            continue  # said so, and did not start
        is_prepared = _prepare(place)
        for _ in range(4):
            witness.publish(place)
            witness.consume(place, dice)
            witness.turn_over(place, dice)
            place.host.pass_time(1.5)
        if files.calls < fail_at:
            assert len(witness.stored) == 4
            break
        inner.kill()
        again = _place(inner)
        if is_prepared:
            witness.check(again)
        else:
            assert again.ask("INFO")["api"]["level"] == 5
    else:
        pytest.fail("the scenario makes more calls than were tried")


def test_what_the_disk_did_not_let_go_goes_when_it_works_again() -> None:
    files = FaultyFileSystem(MemoryFileSystem(), only={"pwrite"})
    place = _place(files)
    place.stream("W", subjects=["w"], retention="workqueue")
    place.consumer("W", "c")
    place.publish("w", b"x")
    (message,) = place.fetch("W", "c")

    files.fail_at, files.failures = files.calls + 1, 2  # the removal, then the state
    place.acknowledge(message)
    assert place.account.streams["W"].log.state().messages == 1
    place.host.pass_time(3)

    assert files.failed == ["pwrite"] * 2
    assert place.account.streams["W"].log.state().messages == 0


class _Counting(MemoryFileSystem):
    """Counts what is waited for."""

    syncs = 0

    def fsync(self, handle: int) -> None:
        self.syncs += 1
        super().fsync(handle)

    fdatasync = fsync

    def fsync_dir(self, directory: Path) -> None:
        self.syncs += 1
        super().fsync_dir(directory)


def _create(place: Place, number: int) -> None:
    """A stream and two consumers of it are asked for; the answers come with the next tick."""
    name = f"N{number}"
    place.host.put(f"{API}STREAM.CREATE.{name}".encode(), encoded({"name": name}), b"_INBOX.%d" % number)
    for consumer in ("a", "b"):
        config = {"durable_name": consumer, "ack_policy": "explicit"}
        place.host.put(
            f"{API}CONSUMER.CREATE.{name}.{consumer}".encode(),
            encoded({"stream_name": name, "config": config}),
            b"_INBOX.%d.%s" % (number, consumer.encode()),
        )


def test_what_is_created_together_waits_for_one_sync() -> None:
    files = _Counting()
    place = _place(files)
    place.stream("FIRST")
    before = files.syncs
    for number in range(5):
        _create(place, number)
    place.host.sent.clear()
    place.host.tick()
    answers = [one.json() for one in place.host.sent if one.to.startswith(b"_INBOX.")]
    assert len(answers) == 15
    assert not [one for one in answers if "error" in one]
    assert files.syncs == before + 1
    place.host.pass_time(1)
    assert files.syncs == before + 1


@pytest.mark.parametrize("seed", range(20))
def test_what_was_answered_as_created_is_there_and_nothing_is_half_there(seed: int) -> None:
    """Streams that were never published to have no durable file, and come back all the same."""
    dice = random.Random(seed)
    files = MemoryFileSystem()
    broken = FaultyFileSystem(files, fail_at=dice.randrange(60, 160), failures=1_000_000)
    place = _place(broken)
    answered: set[str] = set()
    stored: dict[str, bytes] = {}
    for number in range(0, 12, 2):
        place.host.sent.clear()
        _create(place, number)
        _create(place, number + 1)
        place.host.tick()
        for one in place.host.sent:
            if one.to.startswith(b"_INBOX.") and "error" not in json.loads(one.payload):
                answered.add(one.to.decode().removeprefix("_INBOX."))
        answer = place.publish(f"N{number}", b"x")
        if answer is not None and "error" not in answer:
            stored[f"N{number}"] = b"x"
    files.crash(dice)

    again = _place(files)
    assert answered
    for what in answered:
        number, _, consumer = what.partition(".")
        names = f"N{number}.{consumer}" if consumer else f"N{number}"
        info = again.ask(f"{'CONSUMER' if consumer else 'STREAM'}.INFO.{names}")
        assert "error" not in info, names
        if consumer:
            assert (info["config"]["ack_policy"], info["ack_floor"]["stream_seq"]) == ("explicit", 0)
    for name, body in stored.items():
        assert [m.payload for m in again.account.streams[name].log.read_from(1).messages] == [body]
    for stream in list(again.account.streams):  # whatever is there works
        assert "error" not in again.publish(stream, b"more")
        for consumer in list(again.account.streams[stream].consumers):
            assert again.fetch(stream, consumer)
