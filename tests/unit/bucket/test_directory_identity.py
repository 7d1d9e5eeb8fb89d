"""A local directory becomes the cache of a bucket only if nothing else is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.bucket.directory_identity import mark_directory
from headrace.bucket.errors import CacheFailed, NotOurs
from headrace.log.filesystem import RealFileSystem
from headrace.log.port import NewMessage
from headrace.log.store import FileStore

if TYPE_CHECKING:
    from pathlib import Path

FILES = RealFileSystem()


def test_an_empty_directory_is_marked_and_known_again(tmp_path: Path) -> None:
    for _ in range(2):
        mark_directory(FILES, tmp_path / "new", "s3://a/b")
        (tmp_path / "new" / "logs").mkdir(exist_ok=True)


def test_a_store_that_was_there_before_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.open(b"log").append([NewMessage(b"s", b"kept")])
    store.close()
    told = f"has a store that is in no bucket .*upload --to s3://a/b --dir {tmp_path.parent}` brings it there"
    with pytest.raises(NotOurs, match=told):
        mark_directory(FILES, tmp_path, "s3://a/b/shards/jetstream")
    with pytest.raises(NotOurs, match=f"--dir {tmp_path} --shard streaming-c`"):
        mark_directory(FILES, tmp_path, "s3://a/b/shards/streaming-c")
    again = FileStore(tmp_path)
    assert [message.payload for message in again.open(b"log").read_from(1).messages] == [b"kept"]
    again.close()


def test_the_cache_of_another_bucket_is_refused(tmp_path: Path) -> None:
    mark_directory(FILES, tmp_path, "s3://a/b")
    with pytest.raises(NotOurs, match="is a cache of s3://a/b, not of s3://a/c"):
        mark_directory(FILES, tmp_path, "s3://a/c")


def test_a_file_in_the_place_of_the_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheFailed):
        mark_directory(FILES, tmp_path / "file", "s3://a/b")
