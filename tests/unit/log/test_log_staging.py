"""Stores that are made beside their place: whole or not there, by one process at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import StorageError, StoreLocked, StoreTaken
from headrace.log.staging import Staging

if TYPE_CHECKING:
    from pathlib import Path


def test_a_store_is_there_when_it_is_published(tmp_path: Path) -> None:
    home, unfinished = tmp_path / "deep" / "home", tmp_path / "deep" / "unfinished"
    with Staging(home, unfinished) as staging:
        (staging.directory / "content").write_text("x")
        assert not home.exists()
        staging.publish()
    assert (home / "content").read_text() == "x"
    assert not unfinished.exists()
    with pytest.raises(StoreTaken, match="home is not empty: an import or a restore makes"):
        Staging(home, unfinished).__enter__()
    assert not unfinished.exists()


def test_what_is_not_published_stays_for_the_next(tmp_path: Path) -> None:
    home, unfinished = tmp_path / "home", tmp_path / "unfinished"
    home.mkdir()
    with Staging(home, unfinished) as staging:
        (staging.directory / "content").write_text("x")
    with Staging(home, unfinished) as staging:
        assert (staging.directory / "content").read_text() == "x"
        (home / "server").write_text("began meanwhile")
        with pytest.raises(StoreTaken):
            staging.publish()
        (home / "server").unlink()
        staging.publish()
    assert (home / "content").exists()


def test_one_at_a_time_until_the_store_is_there(tmp_path: Path) -> None:
    """Also between the last write and the rename: another one would empty what is published."""
    home, unfinished = tmp_path / "home", tmp_path / "unfinished"
    with Staging(home, unfinished) as staging:
        with pytest.raises(StoreLocked, match="another import or restore writes to"):
            Staging(home, unfinished).__enter__()
        staging.publish()
        with pytest.raises(StoreTaken):
            Staging(home, unfinished).__enter__()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        Staging(tmp_path / "file" / "home", tmp_path / "file" / "unfinished").__enter__()
