"""`headrace streaming import`: exit codes, what it prints, what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from stan_import_store import GOLDEN, truth

from headrace.cli.streaming_import import run
from headrace.log.store import FileStore
from headrace.streaming.importing import importer
from headrace.streaming.state import load_state, write_imported

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    shutil.copytree(GOLDEN / "sliced" / "store", path)
    return path


def _run(source: Path, target: Path, *more: str) -> int:
    return run([str(source), "--dir", str(target), *more], "headrace")


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def test_everything_comes_over_and_twice_is_the_same(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    assert _run(source, target) == 0
    first = capsys.readouterr()
    assert "orders.eu       120             0      1   120     0         1                50" in first.out
    assert "4 channels, 155 messages (0 were there before), " in first.out
    assert "2 durables, 2 clients of 'golden'" in first.out
    assert first.err == ""
    store = FileStore(target)
    state = load_state(store)
    assert {name: store.open(name).state().messages for name in (b"orders.eu", b"big")} == {
        b"orders.eu": 120,
        b"big": 3,
    }
    store.close()
    assert _run(source, target) == 0
    second = capsys.readouterr().out
    assert "(155 were there before)" in second
    assert "nothing to do: the import was complete" in second
    store = FileStore(target)
    assert load_state(store) == state
    store.close()


def test_damage_is_reported_with_slice_and_sequences_and_exit_code_3(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _flip(source / "orders.eu" / "msgs.3.dat", 700)
    os.truncate(source / "orders.eu" / "msgs.5.dat", 1000)
    assert _run(source, tmp_path / "target") == 3
    out = capsys.readouterr().out
    assert "damage in the source:" in out
    assert "orders.eu/msgs.3.dat at " in out
    assert "a record's checksum does not hold; sequence 60\n" in out
    assert "orders.eu/msgs.5.dat at " in out
    assert "; sequences 114 to 120\n" in out
    assert "8 messages are known to be lost" in out


def test_much_damage_is_cut_short_unless_asked_for(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2, 3, 4):
        path = source / "orders.eu" / f"msgs.{number}.dat"
        data = bytearray(path.read_bytes())
        data[30::140] = b"\xff" * len(data[30::140])
        path.write_bytes(data)
    assert _run(source, tmp_path / "target") == 3
    assert "more; --all lists them" in capsys.readouterr().out
    assert _run(source, tmp_path / "target", "--all") == 3
    out = capsys.readouterr().out
    assert "more; --all" not in out
    assert out.count("orders.eu/msgs.") > 20


def test_json(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _flip(source / "orders.us" / "subs.dat", 40)
    assert _run(source, tmp_path / "target", "--json") == 3
    document = json.loads(capsys.readouterr().out)
    assert document["damaged"] is True
    assert document["cluster_id"] == "'golden'"
    channels = {channel["name"]: channel for channel in document["channels"]}
    assert {name: channel["imported"] for name, channel in channels.items()} == {
        name: len(rows) for name, rows in truth("sliced")["channels"].items()
    }
    assert "orders.us/subs.dat" in channels["orders.us"]["findings"][0]


def test_a_target_that_was_used_is_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(source, tmp_path / "target") == 0
    shutil.rmtree(source / "orders.eu")
    capsys.readouterr()
    assert _run(source, tmp_path / "target") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("headrace streaming import: the target has ")
    assert captured.err.count("\n") == 1


def test_a_target_another_process_holds_is_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = FileStore(tmp_path / "target")
    assert _run(source, tmp_path / "target") == 1
    held.close()
    assert "has" in capsys.readouterr().err


@pytest.mark.parametrize("inner", [".", "new", "orders.eu"])
def test_a_target_within_the_source_is_refused(
    source: Path, inner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(source.rglob("*"))
    assert _run(source, source / inner) == 1
    assert "may not be one within the other" in capsys.readouterr().err
    assert sorted(source.rglob("*")) == before


def test_what_is_no_store_makes_no_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for source in ("empty", "nowhere"):
        assert _run(tmp_path / source, tmp_path / "target") == 1
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "target").exists()


def test_a_source_that_changes_is_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = importer._Channel._finish

    def changing(self: importer._Channel, log: importer.MessageLog) -> None:
        with (source / "single" / "subs.dat").open("ab") as file:
            file.write(b"\x00")
        finish(self, log)

    monkeypatch.setattr(importer._Channel, "_finish", changing)
    assert _run(source, tmp_path / "target") == 1
    assert "changed while it was read (single/subs.dat)" in capsys.readouterr().err


def test_interrupted(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: importer._Channel, log: importer.MessageLog) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(importer._Channel, "_finish", interrupt)
        assert _run(source, tmp_path / "target") == 130
    assert "run it again to go on" in capsys.readouterr().err
    assert _run(source, tmp_path / "target") == 0


def test_a_damaged_server_file(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _flip(source / "server.dat", 40)
    assert _run(source, tmp_path / "target") == 1
    assert "say which cluster ID it had" in capsys.readouterr().err
    assert _run(source, tmp_path / "target", "--cluster-id", "golden") == 3


@pytest.mark.parametrize(
    "more", [["--no-crc"], ["--crc-poly", "0xedb88320"]], ids=["without checksums", "named"]
)
def test_checksums_can_be_chosen(source: Path, tmp_path: Path, more: list[str]) -> None:
    assert _run(source, tmp_path / "target", *more) == 0


def test_the_wrong_polynomial_reports_everything(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(source, tmp_path / "target", "--crc-poly", "0x82f63b78", "--cluster-id", "golden") == 3
    assert "0 messages" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["src"], ["src", "--dir", "x", "--crc-poly", "0"], ["src", "--dir", "x", "--no-cr"]]
)
def test_wrong_use(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        run(arguments, "headrace")
    assert exit_.value.code == 2


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["--help"], "headrace")
    out = capsys.readouterr().out
    assert "3    imported, but the source is damaged" in out


def test_progress_without_a_terminal_is_lines(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.progress.LINE_EVERY", 0.0)
    assert _run(source, tmp_path / "target") == 0
    assert re.search(r"  importing single: 155 messages, 100 %, [\d,]+/s\n", capsys.readouterr().err)


def test_result_is_encrypted_when_asked_for(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    monkeypatch.setenv("NATS_STREAMING_ENCRYPTION_KEY", "secret")
    assert _run(source, target, "--encrypt") == 0
    assert not any(b"orders.eu" in path.read_bytes() for path in target.rglob("*.log"))
    capsys.readouterr()

    assert _run(source, target, "--encrypt") == 0
    assert "(155 were there before)" in capsys.readouterr().out

    assert _run(source, target) == 1
    error = capsys.readouterr().err
    assert "is encrypted, and no key was given: say --encrypt" in error
    assert error.count("\n") == 1


def test_encryption_without_a_key_imports_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NATS_STREAMING_ENCRYPTION_KEY", raising=False)
    assert _run(source, tmp_path / "target", "--encrypt") == 1
    assert "encryption needs a key" in capsys.readouterr().err
    assert not (tmp_path / "target").exists()


def test_import_again_keeps_the_incarnations_a_server_gave(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    assert _run(source, target) == 0
    store = FileStore(target)
    state = load_state(store)
    state.channels = {b"orders.eu": 5}
    write_imported(store, state)
    store.close()

    assert _run(source, target) == 0

    store = FileStore(target)
    assert load_state(store) == state
    store.close()
