"""Every byte of an account's state, damaged one at a time: all streams and consumers are there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.js_account import Place
from headrace.log.store import FileStore
from headrace.testing.faultfs import MemoryFileSystem, holding, image_of

if TYPE_CHECKING:
    from collections.abc import Mapping

STORE = Path("/store")


def _place(files: MemoryFileSystem) -> Place:
    return Place(file=FileStore(STORE, filesystem=files, remembers=False))


def _image(*, is_closed: bool) -> Mapping[Path, bytes]:
    files = MemoryFileSystem()
    place = _place(files)
    place.stream("S", subjects=["s"])
    place.consumer("S", "c")
    place.publish("s", b"1")
    place.publish("s", b"2")
    place.acknowledge(place.fetch("S", "c")[0], waits=True)
    place.stream("T", subjects=["t"])
    if is_closed:
        place.account.stop()
        place.file.close()
    return image_of(files, STORE)


def _facts(place: Place) -> dict[str, Any]:
    consumer = place.ask("CONSUMER.INFO.S.c")
    return {
        "streams": place.ask("STREAM.NAMES")["streams"],
        "acknowledged": consumer["ack_floor"]["stream_seq"],
        "pending": consumer["num_pending"],
    }


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
def test_state_survives_any_damaged_byte(is_closed: bool) -> None:
    image = _image(is_closed=is_closed)
    whole = _facts(_place(holding(image)))
    assert whole == {"streams": ["S", "T"], "acknowledged": 1, "pending": 1}
    state = [path for path in image if path.parent.name.endswith("A") or "state" in path.parent.name]
    assert any(path.suffix == ".log" for path in state)
    for path in state:
        data = image[path].rstrip(b"\0")
        for place in range(0, len(data), 3):
            changed = bytearray(image[path])
            changed[place] ^= 0x21
            found = _facts(_place(holding({**image, path: bytes(changed)})))
            assert found == whole, f"{path.name} at {place}"
