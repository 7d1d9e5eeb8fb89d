"""A stream's `compression`: room on disk, and its changes while the stream exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.js_account import Place

if TYPE_CHECKING:
    from pathlib import Path


def _on_disk(directory: Path, stream: str) -> int:
    return sum(path.stat().st_size for path in directory.glob(f"logs/*{stream}/*.log"))


def _publish(place: Place, stream: str, count: int) -> None:
    for _ in range(count):
        assert "error" not in place.publish(stream.lower(), b"x" * 1_000_000)


def test_a_compressed_stream_takes_less_room(tmp_path: Path) -> None:
    """24 MB of one letter: nats-server 2.15.1 has 7.4 MB on disk then, most of it the last block."""
    place = Place(tmp_path)
    place.stream("PLAIN", subjects=["plain"])
    place.stream("PACKED", subjects=["packed"], compression="s2")
    _publish(place, "PLAIN", 24)
    _publish(place, "PACKED", 24)
    assert _on_disk(tmp_path, "PLAIN") > 24_000_000
    assert _on_disk(tmp_path, "PACKED") < 9_000_000
    for name in ("PLAIN", "PACKED"):
        state = place.ask(f"STREAM.INFO.{name}")["state"]
        assert (state["messages"], state["bytes"]) == (24, 24 * (1_000_000 + 30 + len(name)))

    again = place.restart()
    assert again.ask("STREAM.INFO.PACKED")["config"]["compression"] == "s2"
    found = again.ask("STREAM.MSG.GET.PACKED", {"seq": 3})["message"]
    assert len(found["data"]) == len("eHh4") * 1_000_000 // 3 + 3


def test_compression_changes_while_the_stream_exists(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.stream("S", subjects=["s"])
    _publish(place, "S", 20)
    before = _on_disk(tmp_path, "S")
    place.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"], "compression": "s2"})
    _publish(place, "S", 16)
    assert _on_disk(tmp_path, "S") < before
    answer = place.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"], "compression": "none"})
    assert answer["config"]["compression"] == "none"
    _publish(place, "S", 2)
    assert place.ask("STREAM.INFO.S")["state"]["messages"] == 38
    assert place.restart().ask("STREAM.MSG.GET.S", {"seq": 38})["message"]["seq"] == 38
