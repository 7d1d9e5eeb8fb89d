"""Stored streams that cases read: empty ones, filled ones, and that nothing of them stays."""

import bench.stores
import pytest
from bench.cases import Fill
from bench.process import Command
from bench.stores import STREAM, fill_log, payload, probe_fsync, temporary_stores

from headrace.log.store import FileStore

NO_COMMAND = Command("false")


@pytest.fixture
def parent(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.stores, "PARENT", tmp_path / "build")
    return tmp_path / "build"


def test_fill_log_has_exactly_the_messages(tmp_path):
    fill_log(tmp_path, Fill(5001, 3))
    store = FileStore(tmp_path)
    log = store.open(STREAM.encode())
    assert (log.state().messages, log.state().last_sequence) == (5001, 5001)
    assert (log.read(5001).subject, log.read(5001).payload) == (b"bench", b"abc")
    store.close()


def test_payload_is_the_one_of_the_generator():
    assert payload(28) == b"abcdefghijklmnopqrstuvwxyzab"


def test_filled_store_is_made_once_and_kept_for_the_run(parent):
    with temporary_stores() as stores:
        path = stores.filled("streaming", Fill(1, 1), NO_COMMAND)
        assert stores.filled("streaming", Fill(1, 1), NO_COMMAND) == path
        assert stores.filled("streaming", Fill(2, 1), NO_COMMAND) != path


def test_fresh_store_is_empty_and_gone_after_its_block(parent):
    with temporary_stores() as stores:
        with stores.fresh() as path:
            (path / "file").write_bytes(b"")
        assert not path.exists()
        with stores.fresh() as other:
            assert list(other.iterdir()) == []


def test_stores_are_gone_after_a_run(parent):
    with temporary_stores() as stores:
        stores.filled("streaming", Fill(1, 1), NO_COMMAND)
        assert list(parent.iterdir()) != []
    assert list(parent.iterdir()) == []


def test_probe_fsync_gives_a_time_and_leaves_nothing(tmp_path):
    assert probe_fsync(tmp_path) > 0
    assert list(tmp_path.iterdir()) == []
