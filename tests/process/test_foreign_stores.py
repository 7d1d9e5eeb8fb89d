"""A start in a directory with another server's messages: refused, with what to do, and nothing written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.processes import NATS_SERVER, ServerProcess
from headrace.conf.streaming_options import StreamingOptions
from headrace.errors import StartError
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Refused = Callable[..., list[str]]

GOLDEN = Path(__file__).parent.parent / "unit" / "streaming" / "golden" / "clean" / "store"
OPTIONS = b'{"verbose":false,"headers":true,"no_responders":true}'


@pytest.fixture(scope="module")
def of_nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a nats-server that runs, with one stream."""
    folder = tmp_path_factory.mktemp("old")
    with ServerProcess(NATS_SERVER, folder, "-js", "-sd", str(folder / "nats")) as server:
        with server.connect(OPTIONS) as wire:
            body = json.dumps({"name": "ORDERS", "subjects": ["orders"]}).encode()
            wire.send(b"SUB in 1\r\nPUB $JS.API.STREAM.CREATE.ORDERS in %d\r\n%b\r\n" % (len(body), body))
            assert b'"did_create":true' in wire.take_message()[1]
        yield folder / "nats"


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_streams_of_nats_server(refused: Refused, of_nats_server: Path) -> None:
    before = tree(of_nats_server)

    lines = refused("-js", "-sd", str(of_nats_server))

    assert lines[-1].partition("[FTL] ")[2] == (
        f"Can't start JetStream: {of_nats_server}/jetstream has streams of nats-server ($G > ORDERS), which "
        f'are not served from there; run "headrace jetstream import {of_nats_server} --dir NEW" and start '
        'with "-sd NEW"'
    )
    assert tree(of_nats_server) == before


def test_streams_in_the_directory_that_is_taken_without_one(
    refused: Refused, of_nats_server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(of_nats_server, tmp_path / "temporary" / "nats")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))

    assert "/temporary/nats/jetstream has streams of nats-server ($G > ORDERS)" in refused("-js")[-1]


def test_streams_beside_a_store_of_ours(refused: Refused, of_nats_server: Path, tmp_path: Path) -> None:
    """Whoever went back to nats-server for a while would miss what that stored."""
    with Server(jetstream=tmp_path / "both"):
        pass
    shutil.copytree(of_nats_server, tmp_path / "both", dirs_exist_ok=True)

    assert "has streams of nats-server" in refused("-js", "-sd", "both")[-1]


def test_a_stream_whose_metadata_is_lost_counts(
    refused: Refused, of_nats_server: Path, tmp_path: Path
) -> None:
    shutil.copytree(of_nats_server, tmp_path / "old")
    (tmp_path / "old/jetstream/$G/streams/ORDERS/meta.inf").unlink()

    assert "($G > ORDERS)" in refused("-js", "-sd", "old")[-1]


def test_streams_of_nats_server_in_an_embedded_server(of_nats_server: Path) -> None:
    with (
        pytest.raises(StartError, match=r"has streams of nats-server \(\$G > ORDERS\)"),
        Server(jetstream=of_nats_server),
    ):
        pass


def test_what_holds_no_stream_stops_nobody(tmp_path: Path) -> None:
    for name in ("$G/streams", "$G/streams/.removed/msgs", "$SYS/_js_/_meta_/msgs", "other/things"):
        (tmp_path / "jetstream" / name).mkdir(parents=True)

    with Server(jetstream=tmp_path):
        pass


@pytest.mark.parametrize("lost", ["", "server.dat"])
def test_channels_of_nats_streaming_server(refused: Refused, tmp_path: Path, lost: str) -> None:
    shutil.copytree(GOLDEN, tmp_path / "old channels")
    if lost:
        (tmp_path / "old channels" / lost).unlink()

    lines = refused(config='streaming { store: file, dir: "old channels" }\n')

    assert lines[-1].partition("[FTL] ")[2] == (
        "STREAM: Failed to start: old channels has a store of nats-streaming-server, which is not served "
        'from there; run "headrace streaming import \'old channels\' --dir NEW" and start with "-dir NEW"'
    )
    assert not (tmp_path / "old channels" / "lock").exists()


def test_channels_of_nats_streaming_server_in_an_embedded_server() -> None:
    with (
        pytest.raises(StartError, match="has a store of nats-streaming-server"),
        Server(streaming=StreamingOptions(store_type="FILE", directory=str(GOLDEN))),
    ):
        pass
