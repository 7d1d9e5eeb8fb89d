"""kill -9 of a server with JetStream at random moments: what was confirmed holds, as its clients see it.

No acknowledged publication is lost; a message whose acknowledgement was confirmed never comes again; the
window of duplicates is as it was; revisions of keys, and objects, are whole; streams and consumers that were
made are there. What loss of power does that a
kill does not is in tests/unit/jetstream/test_js_power.py.
"""

from __future__ import annotations

import base64
import hashlib
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness import depth
from harness.jetstream import JetStreamWire, Message
from harness.ports import free_port
from harness.processes import HEADRACES, ServerProcess
from harness.tallies import note
from harness.waiting import PATIENCE, wait_until
from headrace.log.segment import BEGINNING, SEALED, Header

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEEDS: Final = depth.seeds(30)
"""Each kill is drawn from one."""
KILLS: Final = len(SEEDS)
LONGEST: Final = 0.5
"""Seconds that a server lives with its clients at work."""
IN_FLIGHT: Final = 50
CHUNKS: Final = 6
MOST_MADE: Final = 20
"""Streams, while one server lives: those after it open them all."""
KEYS: Final = 5
STREAMS: Final[dict[str, dict[str, Any]]] = {
    "S": {"subjects": ["s.>"]},
    "KV_b": {"subjects": ["$KV.b.>"], "max_msgs_per_subject": 5, "allow_rollup_hdrs": True},
    "OBJ_b": {"subjects": ["$O.b.>"], "allow_rollup_hdrs": True, "discard": "new"},
}


class Promises:
    """What servers have confirmed; each worker has fields of its own."""

    def __init__(self) -> None:
        self.sent = 0
        self.stored: dict[int, int] = {}
        """Numbers that were published -> the sequence they were acknowledged with."""
        self.tried: set[int] = set()
        """Sequences that were acknowledged; the server may have died before it said so, or heard of it."""
        self.done: set[int] = set()
        """Sequences whose acknowledgement was confirmed."""
        self.again: list[int] = []
        """Of those, what was delivered once more."""
        self.revisions: dict[str, tuple[int, bytes]] = {}
        self.changes = 0
        self.objects: dict[str, str] = {}
        """Names of what was put whole -> the digest of its content."""
        self.uploads = 0
        self.makings = 0
        self.made: list[str] = []
        """Streams, and consumers after the name of theirs and a dot, whose making was confirmed."""

    def has_some_of_each(self) -> bool:
        """Whether something of every kind is confirmed, so that it could be lost."""
        return all(
            len(some) > 1 for some in (self.stored, self.done, self.revisions, self.objects, self.made)
        )


def content(number: int) -> bytes:
    return b"%d " % number * (1 + number % 9)


def publish(wire: JetStreamWire, promises: Promises) -> None:
    """Numbers, many under way, each with an id; what the last server did not confirm is sent again."""

    def send(number: int) -> tuple[int, str]:
        return number, wire.ask(f"s.{number % 7}", content(number), {"Nats-Msg-Id": f"id{number}"})

    waiting = [send(number) for number in range(1, promises.sent + 1) if number not in promises.stored]
    while True:
        while len(waiting) < IN_FLIGHT:
            promises.sent += 1
            waiting.append(send(promises.sent))
        number, reply = waiting.pop(0)
        promises.stored[number] = wire.answer(reply).json()["seq"]


def fetch(wire: JetStreamWire, sid: int) -> list[Message]:
    """A batch; empty when there is nothing."""
    wire.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", {"batch": 20, "no_wait": True}, reply="fetched")
    found: list[Message] = []
    while len(found) < 20:
        message = wire.next(sid)
        if message.status:
            break
        found.append(message)
    return found


def consume(wire: JetStreamWire, promises: Promises) -> None:
    """Acknowledge every message, and wait for the confirmations."""
    sid = wire.subscribe("fetched")
    while True:
        finish(wire, promises, fetch(wire, sid))


def finish(wire: JetStreamWire, promises: Promises, messages: list[Message]) -> None:
    waiting = []
    for message in messages:
        sequence = int(message.reply.split(".")[5])
        if sequence in promises.done:
            promises.again.append(sequence)
        promises.tried.add(sequence)
        waiting.append((sequence, wire.ask(message.reply, b"+ACK")))
    for sequence, reply in waiting:
        wire.answer(reply)
        promises.done.add(sequence)


def change(wire: JetStreamWire, promises: Promises) -> None:
    """Keys, each by the revision it has."""
    while True:
        promises.changes += 1
        key = f"k{promises.changes % KEYS}"
        value = b"value %d" % promises.changes
        revision = promises.revisions.get(key, (0, b""))[0]
        fields = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        answer = wire.stored(f"$KV.b.{key}", value, fields)
        if "error" in answer:  # the last server stored a change and did not live to say so
            assert answer["error"]["err_code"] == 10071, answer
            stored = wire.api("STREAM.MSG.GET.KV_b", {"last_by_subj": f"$KV.b.{key}"})["message"]
            promises.revisions[key] = (stored["seq"], base64.b64decode(stored["data"]))
        else:
            promises.revisions[key] = (answer["seq"], value)
        assert promises.revisions[key][0] > revision


def upload(wire: JetStreamWire, promises: Promises) -> None:
    """Objects in chunks; their description, which says how many there are, is the last."""
    while True:
        put(wire, promises, 500)


def put(wire: JetStreamWire, promises: Promises, repeats: int) -> None:
    """One object. `repeats`: how often the 32 bytes are in a chunk that are its own."""
    promises.uploads += 1
    name = f"o{promises.uploads}"
    own = [hashlib.sha256(b"%s %d" % (name.encode(), at)).digest() for at in range(CHUNKS)]
    chunks = [one * repeats for one in own]
    for reply in [wire.ask(f"$O.b.C.{name}", chunk) for chunk in chunks]:
        assert "seq" in wire.answer(reply).json()
    answer = wire.stored(f"$O.b.M.{name}", {"chunks": CHUNKS}, {"Nats-Rollup": "sub"})
    assert "seq" in answer, answer
    promises.objects[name] = hashlib.sha256(b"".join(chunks)).hexdigest()


def fill_segments(wire: JetStreamWire, promises: Promises, folder: Path) -> None:
    """Publish until a segment is full and was compressed."""

    def is_compressed() -> bool:
        put(wire, promises, 5000)
        return any(header.is_packed for header in headers(folder))

    wait_until(is_compressed, "a segment is compressed", PATIENCE)


def headers(folder: Path) -> list[Header]:
    starts = [path.read_bytes()[:BEGINNING] for path in folder.rglob("*.log")]
    return [header for start in starts if (header := Header.read(start)) is not None]


def make(wire: JetStreamWire, promises: Promises) -> None:
    """Streams that nobody publishes to, each with a consumer, asked for together."""
    for _ in range(MOST_MADE):
        promises.makings += 1
        name = f"M{promises.makings}"
        config = {"durable_name": "C", "ack_policy": "explicit"}
        replies = {
            name: wire.ask(f"$JS.API.STREAM.CREATE.{name}", {"name": name}),
            f"{name}.C": wire.ask(
                f"$JS.API.CONSUMER.CREATE.{name}.C", {"stream_name": name, "config": config}
            ),
        }
        for what, reply in replies.items():
            answer = wire.answer(reply).json()
            assert "error" not in answer, answer
            promises.made.append(what)


WORKERS: Final[tuple[Callable[[JetStreamWire, Promises], None], ...]] = (
    *(publish, consume, change, upload),
    make,
)


def work(server: ServerProcess, promises: Promises, seconds: float) -> None:
    """Run all clients at once, until the server is killed some seconds after each has had something
    confirmed.

    Raises: what went wrong before that.
    """
    failures: list[BaseException] = []

    def run(act: Callable[[JetStreamWire, Promises], None]) -> None:
        wire = JetStreamWire(server, inbox=f"_INBOX.{act.__name__}")
        try:
            act(wire, promises)
        except Exception as error:  # noqa: BLE001  # raised below, unless the end of the server is why
            if not wire.wire.closed:
                failures.append(error)
        finally:
            wire.close()

    threads = [threading.Thread(target=run, args=(act,)) for act in WORKERS]
    for thread in threads:
        thread.start()
    wait_until(lambda: bool(failures) or promises.has_some_of_each(), "everybody is at work", PATIENCE)
    time.sleep(seconds)
    server.kill()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure


def check(wire: JetStreamWire, promises: Promises) -> None:
    """What the last server promised, asked from the one that follows it."""
    stored: dict[int, int] = {}
    state = wire.api("STREAM.INFO.S")["state"]
    replies = [
        (sequence, wire.ask("$JS.API.DIRECT.GET.S", {"seq": sequence}))
        for sequence in range(max(state["first_seq"], 1), state["last_seq"] + 1)
    ]
    for sequence, reply in replies:
        message = wire.answer(reply)
        number = int(message.payload.split()[0])
        assert message.payload == content(number)
        assert number not in stored, "an id was taken twice"
        stored[number] = sequence
    assert {n: stored.get(n) for n in promises.stored} == promises.stored, (
        "an acknowledged publication is lost"
    )
    for number in random.Random(state["last_seq"]).sample(sorted(stored), min(len(stored), 20)):
        again = wire.stored(f"s.{number % 7}", content(number), {"Nats-Msg-Id": f"id{number}"})
        assert again == {"stream": "S", "seq": stored[number], "duplicate": True}
    for key, (revision, value) in promises.revisions.items():
        last = wire.api("STREAM.MSG.GET.KV_b", {"last_by_subj": f"$KV.b.{key}"})["message"]
        assert last["seq"] >= revision, "a revision is lost"
        assert last["seq"] > revision or base64.b64decode(last["data"]) == value
    for what in promises.made:
        answer = wire.api(f"CONSUMER.INFO.{what}" if "." in what else f"STREAM.INFO.{what}")
        assert "error" not in answer, f"{what} was made and is not there"
    for name, digest in promises.objects.items():
        assert _digest(wire, name) == digest, "an object is not whole"


def _digest(wire: JetStreamWire, name: str) -> str:
    told = hashlib.sha256()
    request = {"next_by_subj": f"$O.b.C.{name}", "batch": CHUNKS, "seq": 1}
    sid = wire.subscribe(f"read.{name}")
    wire.publish("$JS.API.DIRECT.GET.OBJ_b", request, reply=f"read.{name}")
    while not (message := wire.next(sid)).status:
        told.update(message.payload)
    wire.unsubscribe(sid)
    return told.hexdigest()


SYNCED_LATER: Final = 'jetstream { sync_interval: "2m" }'


def settings(kill: int) -> str:
    """Return the settings of one start: with another key for every start but the first, and sometimes another
    cipher.
    """
    before = f"prev_key: k{kill - 1}, " if kill else ""
    return f"jetstream {{ {before}key: k{kill}, cipher: {('aes', 'chacha', 'aes')[kill % 3]} }}"


def start(folder: Path, port: str, config: str | None, *, ready: bool = True) -> ServerProcess:
    listen = ("-a", "127.0.0.1", "-p", port)
    arguments = ("-js", "-sd", str(folder / "js"))
    return ServerProcess(HEADRACES[0], folder, *arguments, listen=listen, config=config, ready=ready)


@pytest.mark.parametrize("kind", ["plain", "synced later", "compressed and encrypted"])
def test_killed_again_and_again(tmp_path: Path, kind: str) -> None:
    """The encrypted one is killed while it is converted to the next key, too.

    Where it is synced later, compiled code answers publications, also with ids, and confirms acknowledgements
    in the tick they came in (ADR 0032): what is with the system by then survives the process.
    """
    promises = Promises()
    port = str(free_port())
    changes = kind == "compressed and encrypted"
    for kill in range(KILLS + 1):
        chance = random.Random(SEEDS[min(kill, KILLS - 1)])
        config = settings(kill) if changes else SYNCED_LATER if kind == "synced later" else None
        if changes and kill:
            with start(tmp_path, port, config, ready=False) as server:
                server.wait_for_line("Converting to ")
                time.sleep(chance.uniform(0.0, 0.05))
                server.kill()
        with start(tmp_path, port, config) as server:
            with JetStreamWire(server) as wire:
                if kill == 0:
                    _make(wire, compression="s2" if changes else "none")
                if changes and kill == 0:
                    fill_segments(wire, promises, tmp_path / "js")
                check(wire, promises)
                if kill == KILLS:
                    _consume_the_rest(wire, promises)
            if kill < KILLS:
                work(server, promises, chance.uniform(0.1, LONGEST))

    if changes:
        found = headers(tmp_path / "js")
        assert all(header.flags & SEALED for header in found)
        assert any(header.is_packed for header in found)
    assert promises.again == [], "a message came again whose acknowledgement was confirmed"
    note("JetStream: kill -9", KILLS)
    note("JetStream: publications acknowledged before a kill", len(promises.stored))
    note("JetStream: acknowledgements confirmed before a kill", len(promises.done))
    note("JetStream: changes of keys", promises.changes)
    note("JetStream: objects put whole", len(promises.objects))
    note("JetStream: streams and consumers made before a kill", len(promises.made))


def _make(wire: JetStreamWire, compression: str) -> None:
    for name, config in STREAMS.items():
        given = {"name": name, "allow_direct": True, "compression": compression, **config}
        made = wire.api(f"STREAM.CREATE.{name}", given)
        assert "error" not in made, made
    config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 1_000_000_000, "max_ack_pending": -1}
    made = wire.api("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    assert "error" not in made, made


def _consume_the_rest(wire: JetStreamWire, promises: Promises) -> None:
    """What the dead server had delivered and not heard of comes again when its time is over."""
    sid = wire.subscribe("fetched")
    last = wire.api("STREAM.INFO.S")["state"]["last_seq"]

    def is_over() -> bool:
        finish(wire, promises, fetch(wire, sid))
        info = wire.api("CONSUMER.INFO.S.C")
        return bool(info["ack_floor"]["stream_seq"] == last and not info["num_pending"])

    wait_until(is_over, "everything is acknowledged", KILLS * PATIENCE)
    assert promises.tried == set(range(1, last + 1)), "messages never came"
