"""Messages that are traced, beside the Go server: the same plays on both, compared key by key."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from conformance.trace_plays import CONFIG, JETSTREAM, PLAYS, STREAM_PLAYS, Stage
from harness.leafs import Leafs
from harness.tracing import Traces, traced
from headrace.protocol.s2 import S2Reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conformance.trace_plays import Play

LETTERS: Final = "gha"
"""The Go server, Headrace with each of its transports."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Leafs]:
    folder = tmp_path_factory.mktemp("tracing")
    with Leafs(folder) as running:
        for letter in LETTERS:
            running.server(f"plain-{letter}", letter, CONFIG)
            text = JETSTREAM.replace("STORE", str(folder / f"store-{letter}"))
            running.server(f"stored-{letter}", letter, text)
        yield running


def _seen(servers: Leafs, name: str, play: Play) -> list[Any]:
    stage = Stage(servers.nodes[name])
    try:
        play(stage)
    finally:
        stage.close()
    kind = name.partition("-")[0]
    return json.loads(json.dumps(stage.seen, default=repr).replace(name, kind))


def _told(play: Play) -> str:
    return play.__name__


@pytest.mark.parametrize("letter", LETTERS[1:])
@pytest.mark.parametrize("play", PLAYS, ids=_told)
def test_a_server_tells_what_the_go_server_tells(servers: Leafs, play: Play, letter: str) -> None:
    assert _seen(servers, f"plain-{letter}", play) == _seen(servers, "plain-g", play)


@pytest.mark.parametrize("play", STREAM_PLAYS, ids=_told)
def test_streams_tell_what_those_of_the_go_server_tell(servers: Leafs, play: Play) -> None:
    assert _seen(servers, "stored-h", play) == _seen(servers, "stored-g", play)


@pytest.mark.parametrize("letter", LETTERS)
def test_what_is_only_traced_is_not_delivered(servers: Leafs, letter: str) -> None:
    """A dry run that became a real order was the mistake."""
    stage = Stage(servers.nodes[f"plain-{letter}"])
    a = stage.join("a")
    traces = stage.traces("a", a=a)
    sid = a.subscribe("order")
    a.publish("order", b"dry", traced(only=True))
    a.publish("order", b"real")
    assert [message.payload for message in a.got(sid)] == [b"real"]
    assert [event["type"] for event in traces.next().json()["events"]] == ["in", "eg"]
    stage.close()


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("accepts", ["gzip", "snappy", "S2", "deflate", "GZIP, x"])
def test_events_are_compressed_as_asked(servers: Leafs, letter: str, accepts: str) -> None:
    stage = Stage(servers.nodes[f"plain-{letter}"])
    a = stage.join("a")
    traces: Traces = stage.traces("a", a=a)
    a.publish("plain", b"x", traced(Accept_Encoding=accepts))
    event = traces.next()
    encoding = event.header("Content-Encoding")
    payload = event.payload
    if encoding == "gzip":
        payload = gzip.decompress(payload)
    elif encoding == "snappy":
        payload = b"".join(S2Reader().feed(payload))
    expected = {"gzip": "gzip", "GZIP, x": "gzip", "snappy": "snappy", "S2": "snappy", "deflate": "identity"}
    assert encoding == expected[accepts]
    assert json.loads(payload)["request"]["header"]["Accept-Encoding"] == [accepts]
    stage.close()


@pytest.mark.parametrize("letter", LETTERS)
def test_the_destination_is_not_mapped(tmp_path: Path, letter: str) -> None:
    with Leafs(tmp_path) as running:
        running.server("mapped", letter, CONFIG.replace('"map.from"', '"traces": "elsewhere", "map.from"'))
        watching, asking = (running.join("mapped", user="a", **{"pass": "p"}) for _ in range(2))
        traces, elsewhere = Traces(watching), watching.subscribe("elsewhere")
        watching.sync()
        asking.publish("few.one", b"", traced())

        assert traces.next().json()["events"][0]["subj"] == "few.one"
        assert not watching.got(elsewhere)
