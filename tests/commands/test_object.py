"""`headrace object`: buckets of objects, files stored and read, digests checked."""

from __future__ import annotations

import asyncio
import io
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.objects import ObjectBucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import CommandLine
    from harness.processes import ServerProcess


@pytest.fixture
def bucket(server: ServerProcess) -> Iterator[ObjectBucket]:
    """A bucket `objtest`."""
    with connect(server.url) as connection:
        made = ObjectBucket.create(JetStreamApi(connection), "objtest")
        yield made
        made.remove_bucket()


def test_a_bucket_is_made_changed_shown_listed_sealed_and_removed(cli: CommandLine) -> None:
    made = cli("object", "add", "objmade", "--description", "files", "--json").ok().json
    again = cli("obj", "add", "objmade", "--description", "files", "--json").ok()
    other = cli("object", "add", "objmade", "--description", "else", "--json")
    edited = cli("object", "edit", "objmade", "--max-bytes", "1MB", "--json").ok().json
    info = cli("object", "info", "objmade", "--json").ok().json

    assert (made["changed"], made["sealed"], again.json["changed"]) == (True, False, False)
    assert (other.code, other.error["kind"]) == (10, "exists")
    assert edited["changes"]["max_bytes"] == {"before": -1, "after": 1 << 20}
    assert (info["max_bytes"], info["info"]["config"]["name"]) == (1 << 20, "OBJ_objmade")
    assert "objmade" in cli("object", "ls", "-q").ok().lines
    assert cli("object", "edit", "objmade", "--max-bytes", "1MB", "--dry-run").code == 0
    assert cli("object", "edit", "objmade", "--max-bytes", "2MB", "--dry-run").code == 3
    assert cli("object", "seal", "objmade").code == 2
    assert cli("object", "seal", "objmade", "--dry-run").code == 3
    cli("object", "seal", "objmade", "--force").ok()
    assert cli("object", "info", "objmade", "--json").ok().json["sealed"] is True
    assert cli("object", "seal", "objmade", "-f", "--json").ok().json["changed"] is False
    refused = cli("object", "put", "objmade", "-", "--name", "a", "--json", stdin=b"1")
    assert (refused.code, refused.out) == (6, ""), refused.err
    assert cli("object", "rm-bucket", "objmade").code == 2
    cli("object", "rm-bucket", "objmade", "--force").ok()
    assert cli("object", "info", "objmade").code == 4
    assert cli("object", "rm-bucket", "objmade", "-f", "--if-exists").code == 0


def test_a_file_is_stored_and_read(cli: CommandLine, bucket: ObjectBucket) -> None:
    data = os.urandom(400_000)
    source = cli.folder / "report.bin"
    source.write_bytes(data)
    flags = ("--name", "sub/report.bin", "--description", "q3", "-H", "Kind: pdf", "--metadata", "team=a")

    dry = cli("object", "put", "objtest", str(source), *flags, "--dry-run")
    put = cli("object", "put", "objtest", str(source), *flags, "--chunk-size", "32KiB", "--json").ok().json
    source.rename(cli.folder / "source")
    ran = cli.process("object", "get", "objtest", "sub/report.bin", "--json").ok()

    assert dry.code == 3
    assert (put["size_bytes"], put["chunks"], put["headers"]) == (400_000, 13, {"Kind": ["pdf"]})
    assert (put["metadata"], put["description"]) == ({"team": "a"}, "q3")
    assert ran.json["file"] == "report.bin"
    assert source.read_bytes() == data
    assert cli("object", "get", "objtest", "sub/report.bin", "-o", "-").ok().raw == data
    assert cli("object", "put", "objtest", str(source), *flags, "--dry-run").code == 0
    info = cli("object", "info", "objtest", "sub/report.bin", "--json").ok().json
    assert info["digest"] == put["digest"]
    assert cli("object", "ls", "objtest", "--json").ok().json["items"] == [info]
    assert cli("object", "ls", "objtest").ok().lines[0] == "name\tsize\ttime\tleads_to\tdescription"


def test_progress_is_told_on_standard_error(
    cli: CommandLine, bucket: ObjectBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.progress.LINE_EVERY", 0.0)
    (cli.folder / "large").write_bytes(bytes(300_000))
    name = str(cli.folder / "large")

    put = cli("object", "put", "objtest", name, "--name", "large", "--json").ok()
    read = cli("object", "get", "objtest", "large", "-o", "-").ok()
    checked = cli("object", "verify", "objtest", "-q").ok()
    silent = cli("object", "put", "objtest", name, "--name", "large", "-f", "--no-progress").ok()

    assert "storing large: 300,000 bytes, 100 %" in put.err
    assert put.json["size_bytes"] == 300_000
    assert "reading large: 131,072 bytes, 43 %" in read.err
    assert (checked.err, silent.err) == ("", "")


def test_what_is_there_is_replaced_after_asking(cli: CommandLine, bucket: ObjectBucket) -> None:
    bucket.put("a", io.BytesIO(b"old"))
    target = cli.folder / "a"

    assert cli("object", "put", "objtest", "-", "--name", "a", stdin=b"new").code == 2
    cli("object", "put", "objtest", "-", "--name", "a", "-f", stdin=b"new").ok()
    cli("object", "get", "objtest", "a", "-o", str(cli.folder)).ok()
    assert target.read_bytes() == b"new"
    target.write_bytes(b"mine")
    assert cli("object", "get", "objtest", "a", "-o", str(target)).code == 2
    assert target.read_bytes() == b"mine"
    with cli.terminal("object", "get", "objtest", "a") as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert target.read_bytes() == b"new"
    assert sorted(path.name for path in cli.folder.iterdir() if path.is_file()) == ["a"]


@pytest.mark.parametrize("name", ["..", "a/..", ".profile", "x/.ssh", "a/", "a\x1b[31m"])
def test_a_hostile_name_is_no_file(cli: CommandLine, bucket: ObjectBucket, name: str) -> None:
    bucket.put(name, io.BytesIO(b"1"))

    ran = cli("object", "get", "objtest", name)

    assert (ran.code, "--output" in ran.err, "\x1b" in ran.err) == (2, True, False)
    assert cli("object", "get", "objtest", name, "-o", "-").ok().raw == b"1"
    assert "\x1b" not in cli("object", "ls", "objtest").ok().out


def test_objects_are_removed(cli: CommandLine, bucket: ObjectBucket) -> None:
    for name in ("a", "b", "c"):
        bucket.put(name, io.BytesIO(b"1"))

    assert cli("object", "del", "objtest", "a").code == 2
    assert cli("object", "del", "objtest", "a", "--dry-run").code == 3
    assert cli("object", "del", "objtest", "a", "nowhere", "-f").code == 4
    assert len(list(bucket.objects())) == 3
    cli("object", "del", "objtest", "a", "b", "-f").ok()
    assert cli("object", "del", "objtest", "a", "-f").code == 4
    found = cli("object", "del", "objtest", "a", "c", "-f", "--if-exists", "--json").ok().json["items"]
    assert [each["changed"] for each in found] == [False, True]
    assert cli("object", "ls", "objtest", "--fail-empty").code == 4
    cli.program = "nats"
    cli("object", "add", "objlink").ok()
    cli("object", "rm", "objlink", "-f").ok()
    cli.program = "headrace"
    assert cli("object", "info", "objlink").code == 4
    assert cli("object", "del", "objtest", "-f").code == 2


def test_a_damaged_object_is_3_and_no_file(cli: CommandLine, bucket: ObjectBucket) -> None:
    bucket.put("good", io.BytesIO(b"1"))
    bucket.put("bad", io.BytesIO(bytes(50_000)), chunk_size=10_000)
    assert cli("object", "verify", "objtest").code == 0
    JetStreamAssets(bucket.api).delete_message("OBJ_objtest", 4)

    ran = cli("object", "verify", "objtest", "--json")
    read = cli("object", "get", "objtest", "bad", "-o", str(cli.folder / "bad"), "--json")

    assert ran.code == 3
    assert [(each["name"], each["valid"]) for each in ran.json["items"]] == [("bad", False), ("good", True)]
    assert "40000 bytes in 4 chunks" in ran.json["items"][0]["error"]
    assert (read.code, read.error["kind"], read.out) == (3, "wrong", "")
    assert list(cli.folder.glob("bad*")) == []
    assert cli("object", "verify", "objtest", "good").code == 0
    assert cli("object", "verify", "objtest", "bad").code == 3
    assert cli("object", "verify", "objtest", "nowhere").code == 4


def test_a_watch_shows_objects_and_changes(cli: CommandLine, bucket: ObjectBucket) -> None:
    bucket.put("a", io.BytesIO(b"1"))

    with cli.started("object", "watch", "objtest", "--count", "3", "--json") as watching:
        first = json.loads(watching.line())
        bucket.put("b", io.BytesIO(b"22"))
        bucket.delete("a")
        second, third = (json.loads(watching.line()) for _ in range(2))
        assert watching.end().code == 0
    assert (first["name"], second["name"], second["size_bytes"]) == ("a", "b", 2)
    assert (third["name"], third["deleted"]) == ("a", True)
    with cli.started("object", "watch", "objtest", "--updates", "--no-deletes", "--count", "1") as watching:
        watching.wait_for("watching")
        bucket.put("c", io.BytesIO(b"1"))
        bucket.delete("c")
        bucket.put("d", io.BytesIO(b"1"))
        assert watching.end().out.startswith("objtest > ")
    assert cli("object", "watch", "objtest", "--no-deletes", "--idle", "200ms", "-q").ok().lines == ["b", "d"]


def test_what_is_not_there_is_4_and_what_is_no_name_is_2(cli: CommandLine, bucket: ObjectBucket) -> None:
    for words in (
        ("ls", "nowhere"),
        ("info", "nowhere"),
        ("info", "objtest", "a"),
        ("get", "objtest", "a"),
        ("get", "nowhere", "a"),
        ("put", "objtest", "no-such-file"),
        ("seal", "nowhere", "-f"),
        ("watch", "nowhere"),
        ("verify", "nowhere"),
    ):
        ran = cli("object", *words, "--json")
        assert (ran.code, ran.error["kind"], ran.out) == (4, "not_there", ""), words
    assert cli("object", "put", "objtest", "-").code == 2
    assert cli("object", "put", "objtest", "-", "--name", "a", "--chunk-size", "0").code == 2


def test_a_user_without_permission_is_9(cli: CommandLine, bucket: ObjectBucket) -> None:
    for words in (("ls",), ("get", "objtest", "a"), ("add", "objnew")):
        ran = cli("object", *words, "--user", "reader", "--password", "secret", "--json")
        assert (ran.code, ran.error["kind"], ran.out) == (9, "not_permitted", ""), ran.err


def test_nats_py_reads_what_is_stored_here_and_the_other_way(
    server: ServerProcess, cli: CommandLine, bucket: ObjectBucket
) -> None:
    nats = pytest.importorskip("nats")
    data = os.urandom(300_000)
    cli("object", "put", "objtest", "-", "--name", "dir/ours ö", "--metadata", "a=b", stdin=data).ok()

    async def run() -> Any:
        client = await nats.connect(server.url)
        try:
            store = await client.jetstream().object_store("objtest")
            await store.put("theirs", data)
            return await store.get("dir/ours ö")
        finally:
            await client.close()

    found = asyncio.run(run())

    assert bytes(found.data) == data
    assert cli("object", "get", "objtest", "theirs", "-o", "-").ok().raw == data
    assert cli("object", "ls", "objtest", "-q").ok().lines == ["dir/ours ö", "theirs"]
    cli("object", "verify", "objtest").ok()
