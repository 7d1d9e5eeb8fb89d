"""`headrace kv`: buckets, keys, changes as they come, files of them."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.keyvalue import KeyValueBucket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import CommandLine
    from harness.processes import ServerProcess


@pytest.fixture
def bucket(server: ServerProcess) -> Iterator[KeyValueBucket]:
    """A bucket `kvtest` that keeps five revisions, and may have keys with a time of their own."""
    with connect(server.url) as connection:
        made = KeyValueBucket.create(
            JetStreamApi(connection), "kvtest", history=5, marker_ttl_ns=60_000_000_000
        )
        yield made
        made.remove_bucket()


# -- buckets


def test_a_bucket_is_made_changed_shown_listed_and_removed(cli: CommandLine) -> None:
    made = cli("kv", "add", "kvmade", "--history", "3", "--ttl", "1h", "--metadata", "team=a", "--json").ok()
    again = cli("kv", "add", "kvmade", "--history", "3", "--ttl", "1h", "--metadata", "team=a", "--json").ok()
    other = cli("kv", "add", "kvmade", "--history", "4", "--json")
    edited = cli("kv", "edit", "kvmade", "--history", "9", "--description", "all", "--json").ok()
    info = cli("kv", "info", "kvmade", "--json").ok().json
    listed = cli("kv", "ls", "--json").ok().json["items"]

    assert (made.json["changed"], again.json["changed"]) == (True, False)
    assert "unchanged" in again.err
    assert (other.code, other.error["kind"], other.out) == (10, "exists", "")
    assert "max_msgs_per_subject" in other.error["text"]
    assert edited.json["changes"]["max_msgs_per_subject"] == {"before": 3, "after": 9}
    assert (info["history"], info["ttl_ns"], info["description"]) == (9, 3_600_000_000_000, "all")
    assert info["info"]["config"]["name"] == "KV_kvmade"
    assert info["metadata"]["team"] == "a"
    assert "kvmade" in [each["bucket"] for each in listed]
    assert cli("kv", "add", "kvmade", "--if-not-exists", "--json").ok().json["changed"] is False
    assert cli("kv", "rm-bucket", "kvmade").code == 2
    assert cli("kv", "rm-bucket", "kvmade", "--force", "--json").ok().json["changed"] is True
    assert cli("kv", "info", "kvmade").code == 4
    assert cli("kv", "rm-bucket", "kvmade", "--force").code == 4
    assert cli("kv", "rm-bucket", "kvmade", "--force", "--if-exists").code == 0


def test_dry_runs_change_no_bucket(cli: CommandLine) -> None:
    would = cli("kv", "add", "kvdry", "--dry-run", "--json")
    assert (would.code, would.json["changed"]) == (3, True)
    assert cli("kv", "info", "kvdry").code == 4
    cli("kv", "add", "kvdry").ok()
    assert cli("kv", "add", "kvdry", "--dry-run").code == 0

    assert cli("kv", "edit", "kvdry", "--history", "7", "--dry-run").code == 3
    assert cli("kv", "edit", "kvdry", "--history", "1", "--dry-run").code == 0
    assert cli("kv", "edit", "kvdry", "--no-compression", "--dry-run").code == 0
    assert cli("kv", "rm-bucket", "kvdry", "--dry-run").code == 3
    assert cli("kv", "info", "kvdry", "--json").ok().json["history"] == 1
    cli("kv", "rm-bucket", "kvdry", "-f").ok()


def test_a_bucket_copies_others(cli: CommandLine, bucket: KeyValueBucket) -> None:
    bucket.put("a", b"1")
    cli("kv", "add", "kvcopy", "--mirror", "kvtest").ok()
    cli("kv", "add", "kvsum", "--source", "kvtest").ok()

    for name in ("kvcopy", "kvsum"):
        with cli.started("kv", "watch", name, "--count", "1", "--json") as watching:
            assert json.loads(watching.line())["data"] == "1"
    assert cli("kv", "info", "kvcopy", "--json").ok().json["mirror"] == "kvtest"
    assert cli("kv", "info", "kvsum", "--json").ok().json["sources"] == ["kvtest"]
    assert cli("kv", "get", "kvsum", "a").ok().out == "1\n"
    for name in ("kvcopy", "kvsum"):
        cli("kv", "rm-bucket", name, "-f").ok()


def test_a_person_types_the_name_of_a_bucket_that_goes(cli: CommandLine) -> None:
    cli("kv", "add", "kvgoes").ok()
    cli("kv", "put", "kvgoes", "a", "1").ok()

    with cli.terminal("kv", "rm-bucket", "kvgoes") as terminal:
        assert "kvgoes: 1 values" in terminal.wait_for("type kvgoes")
        terminal.type("other\n")
        assert terminal.end() == 2
    with cli.terminal("kv", "rm-bucket", "kvgoes") as terminal:
        terminal.wait_for("type kvgoes")
        terminal.type("kvgoes\n")
        assert terminal.end() == 0
    assert cli("kv", "info", "kvgoes").code == 4


def test_del_of_a_bucket_is_a_form_of_the_link_only(cli: CommandLine) -> None:
    cli("kv", "add", "kvlink").ok()

    ours = cli("kv", "del", "kvlink", "--force")
    cli.program = "nats"
    theirs = cli("kv", "del", "kvlink", "--force")

    assert ours.code == 2
    assert "rm-bucket" in ours.err
    theirs.ok()
    assert cli("kv", "info", "kvlink").code == 4


# -- keys


def test_a_value_is_set_and_read(cli: CommandLine, bucket: KeyValueBucket) -> None:
    first = cli("kv", "put", "kvtest", "colour", "red", "--json").ok().json
    cli("kv", "put", "kvtest", "colour", "-", stdin=b"blue\x1b[31m").ok()
    (cli.folder / "value").write_bytes(b"\x00\xff")
    cli("kv", "put", "kvtest", "logo", "--file", str(cli.folder / "value")).ok()

    assert (first["key"], first["changed"]) == ("colour", True)
    assert cli("kv", "get", "kvtest", "colour", "--revision", str(first["revision"])).ok().out == "red\n"
    assert cli("kv", "get", "kvtest", "colour").ok().out == "blue\\x1b[31m\n"
    assert cli("kv", "get", "kvtest", "colour", "--raw").ok().raw == b"blue\x1b[31m"
    found = cli("kv", "get", "kvtest", "logo", "--json").ok().json
    assert base64.b64decode(found["data_base64"]) == b"\x00\xff"
    assert (found["operation"], found["size_bytes"], found["bucket"]) == ("PUT", 2, "kvtest")
    assert cli("kv", "get", "kvtest", "logo", "--format", "{key} {revision}").ok().out == "logo 3\n"
    assert cli("kv", "put", "kvtest", "empty", "").ok().lines == ["empty: revision 4"]
    assert cli("kv", "get", "kvtest", "empty").ok().out == "\n"


def test_a_terminal_shows_the_revision_and_no_sequence_of_a_value(
    cli: CommandLine, bucket: KeyValueBucket
) -> None:
    bucket.put("hostile", b"\x1b]0;owned\x07")

    for flags in ((), ("--raw",)):
        with cli.terminal("kv", "get", "kvtest", "hostile", *flags, NO_COLOR="1") as terminal:
            assert terminal.end() == 0
            assert "\x1b" not in terminal.seen
            assert "\\x1b]0;owned\\x07" in terminal.seen
            assert ("revision 1" in terminal.seen) is (not flags)


def test_patterns_read_several_keys(cli: CommandLine, bucket: KeyValueBucket) -> None:
    for key in ("a.1", "a.2", "b.1"):
        bucket.put(key, key.encode())

    found = cli("kv", "get", "kvtest", "a.*", "--json").ok().json

    assert [(each["key"], each["data"]) for each in found["items"]] == [("a.1", "a.1"), ("a.2", "a.2")]
    assert cli("kv", "get", "kvtest", "a.>", "--raw").ok().raw == b"a.1\na.2\n"
    assert cli("kv", "get", "kvtest", "c.*").code == 4
    assert cli("kv", "ls", "kvtest", "-q").ok().lines == ["a.1", "a.2", "b.1"]
    assert cli("kv", "ls", "kvtest", "b.*", "--values").ok().lines == ["key\tvalue", "b.1\tb.1"]
    listed = cli("kv", "ls", "kvtest", "*.2", "--json").ok().json["items"]
    assert [(each["key"], each["size_bytes"], "data" in each) for each in listed] == [("a.2", 3, False)]
    assert cli("kv", "ls", "kvtest", "-v").ok().lines[0] == "key\trevision\ttime\tsize"
    assert cli("kv", "ls", "kvtest", "c.*", "--fail-empty").code == 4
    assert cli("kv", "ls", "kvtest", "c.*").code == 0


def test_compare_and_set_names_both_revisions(cli: CommandLine, bucket: KeyValueBucket) -> None:
    cli("kv", "create", "kvtest", "colour", "red").ok()
    taken = cli("kv", "create", "kvtest", "colour", "green", "--json")
    cli("kv", "update", "kvtest", "colour", "blue", "1").ok()
    late = cli("kv", "update", "kvtest", "colour", "green", "1", "--json")
    dry = cli("kv", "update", "kvtest", "colour", "green", "1", "--json", "--dry-run")
    text = cli("kv", "update", "kvtest", "colour", "green", "1")

    assert (taken.code, taken.error["revision"], taken.out) == (10, 1, "")
    for ran in (late, dry):
        assert (ran.code, ran.error["kind"], ran.out) == (10, "exists", "")
        assert (ran.error["expected"], ran.error["revision"]) == (1, 2)
    assert text.code == 10
    assert "'colour' is at revision 2, not 1" in text.err
    assert cli("kv", "update", "kvtest", "colour", "green", "2", "--dry-run").code == 3
    assert bucket.get("colour").value == b"blue"


def test_removed_keys_keep_their_history_and_purged_ones_do_not(
    cli: CommandLine, bucket: KeyValueBucket
) -> None:
    bucket.put("a", b"1")
    bucket.put("a", b"2")
    bucket.put("b", b"1")

    assert cli("kv", "del", "kvtest", "a").code == 2
    assert cli("kv", "del", "kvtest", "a", "-f", "--revision", "1").code == 10
    assert cli("kv", "del", "kvtest", "a", "--dry-run").code == 3
    assert bucket.get("a").value == b"2"
    cli("kv", "del", "kvtest", "a", "b", "-f").ok()
    assert cli("kv", "get", "kvtest", "a").code == 4
    assert cli("kv", "del", "kvtest", "a", "-f").code == 4
    assert cli("kv", "del", "kvtest", "a", "-f", "--if-exists", "--json").ok().json["items"] == [
        {"bucket": "kvtest", "key": "a", "changed": False}
    ]
    kept = cli("kv", "history", "kvtest", "a", "--json").ok().json["items"]
    assert [(each["operation"], each.get("data")) for each in kept] == [
        ("PUT", "1"), ("PUT", "2"), ("DEL", None)
    ]  # fmt: skip
    cli("kv", "revert", "kvtest", "a", str(kept[0]["revision"])).ok()
    assert bucket.get("a").value == b"1"
    cli("kv", "purge", "kvtest", "a", "-f", "--ttl", "30s").ok()
    assert [entry.operation for entry in bucket.history("a")] == ["PURGE"]
    assert cli("kv", "revert", "kvtest", "a", "1").code == 4
    assert cli("kv", "history", "kvtest", "nowhere").code == 4


def test_a_person_is_asked_before_a_key_goes(cli: CommandLine, bucket: KeyValueBucket) -> None:
    bucket.put("a", b"1")

    for answer, code in (("n\n", 2), ("y\n", 0)):
        with cli.terminal("kv", "del", "kvtest", "a") as terminal:
            terminal.wait_for("[y/N]")
            terminal.type(answer)
            assert terminal.end() == code
    assert bucket.last("a").is_removed


def test_compacting_removes_old_notes(cli: CommandLine, bucket: KeyValueBucket) -> None:
    bucket.put("a", b"1")
    bucket.delete("a")
    bucket.put("b", b"1")

    assert cli("kv", "compact", "kvtest", "--dry-run", "--json").json["removed"] == 1
    assert cli("kv", "compact", "kvtest").code == 2
    assert cli("kv", "compact", "kvtest", "--older", "1h", "-f", "--json").ok().json["removed"] == 0
    assert bucket.last("a").operation == "DEL"
    assert cli("kv", "compact", "kvtest", "-f", "-q").ok().lines == ["1"]
    assert cli("kv", "history", "kvtest", "a").code == 4
    assert cli("kv", "compact", "kvtest", "--json").ok().json["changed"] is False


def test_keys_have_a_time_of_their_own(cli: CommandLine) -> None:
    cli("kv", "add", "kvshort", "--marker-ttl", "1m").ok()
    cli("kv", "put", "kvshort", "short", "1", "--ttl", "1s").ok()
    cli("kv", "create", "kvshort", "lock", "1", "--ttl", "1s").ok()

    gone = cli("kv", "watch", "kvshort", "--count", "4", "--json").ok().json_lines

    assert sorted((each["key"], each["operation"]) for each in gone) == [
        ("lock", "PURGE"), ("lock", "PUT"), ("short", "PURGE"), ("short", "PUT")
    ]  # fmt: skip
    assert cli("kv", "get", "kvshort", "lock").code == 4
    cli("kv", "rm-bucket", "kvshort", "-f").ok()


def test_a_key_of_a_bucket_with_history_stays_as_long_as_markers(
    cli: CommandLine, bucket: KeyValueBucket
) -> None:
    cli("kv", "put", "kvtest", "short", "1", "--ttl", "1s").ok()

    stored = JetStreamAssets(bucket.api).message("KV_kvtest", last_of="$KV.kvtest.short")

    assert stored.headers["Nats-TTL"] in (["60"], ["1m0s"])


@pytest.mark.parametrize("width", [80, 200])
def test_a_table_fits_the_terminal(cli: CommandLine, bucket: KeyValueBucket, width: int) -> None:
    bucket.put("name." * 12 + "end", b"value " * 30)
    bucket.put("b", b"two\nlines")

    with cli.terminal("kv", "ls", "kvtest", "-v", "--values", width=width, NO_COLOR="1") as terminal:
        assert terminal.end() == 0
    heading, *rows = terminal.seen.splitlines()

    assert heading.split() == ["Key", "Revision", "Time", "Size", "Value"]
    assert all(len(row) <= width for row in rows)
    assert [row.split()[0][:2] for row in rows] == ["b", "na"]
    assert "two\\nlines" in rows[0]
    assert rows[1].count("…") >= 1
    assert rows[1].split()[0].endswith("end")


def test_a_reader_that_has_enough_ends_a_listing(cli: CommandLine, bucket: KeyValueBucket) -> None:
    for number in range(3):
        bucket.put(f"k{number}", b"1")

    with cli.started("kv", "watch", "kvtest", "--json") as watching:
        watching.line()
        assert watching.process.stdout is not None
        watching.process.stdout.close()
        bucket.put("more", b"1")
        assert watching.process.wait(30) == 0


def test_what_is_not_there_is_4_and_what_is_no_name_is_2(cli: CommandLine, bucket: KeyValueBucket) -> None:
    for words in (
        ("get", "nowhere", "a"),
        ("put", "nowhere", "a", "1"),
        ("ls", "nowhere"),
        ("watch", "nowhere"),
        ("edit", "nowhere", "--history", "2"),
        ("get", "kvtest", "a"),
        ("get", "kvtest", "a", "--revision", "1"),
        ("del", "kvtest", "a", "-f"),
        ("purge", "kvtest", "a", "-f"),
    ):
        ran = cli("kv", *words, "--json")
        assert (ran.code, ran.error["kind"], ran.out) == (4, "not_there", ""), words
    for words in (
        ("put", "kvtest", "a b", "1"),
        ("put", "kvtest", "a"),
        ("put", "kvtest", "a", "1", "--file", "x"),
        ("info", "no.bucket"),
        ("add", "kvnew", "--history", "65"),
        ("ls", "--values"),
        ("watch", "kvtest", "--history", "--updates"),
    ):
        assert cli("kv", *words).code == 2, words


def test_a_user_without_permission_is_9(cli: CommandLine, bucket: KeyValueBucket) -> None:
    for words in (("ls",), ("get", "kvtest", "a"), ("put", "kvtest", "a", "1"), ("add", "kvnew")):
        ran = cli("kv", *words, "--user", "reader", "--password", "secret", "--json")
        assert (ran.code, ran.error["kind"], ran.out) == (9, "not_permitted", ""), ran.err


# -- watching


def test_a_watch_shows_values_and_changes(cli: CommandLine, bucket: KeyValueBucket) -> None:
    bucket.put("a", b"1")
    bucket.put("a", b"2")

    with cli.started("kv", "watch", "kvtest", "--json") as watching:
        first = json.loads(watching.line())
        bucket.put("b", b"3")
        bucket.delete("a")
        second, third = (json.loads(watching.line()) for _ in range(2))
        watching.interrupt()
        assert watching.end().code == 130
    assert (first["key"], first["data"], first["pending"]) == ("a", "2", 0)
    assert (second["key"], second["data"], third["operation"]) == ("b", "3", "DEL")
    assert "data" not in third
    old = cli("kv", "watch", "kvtest", "a", "--history", "--no-deletes", "--count", "2", "--json").ok()
    assert [each["data"] for each in old.json_lines] == ["1", "2"]
    with cli.started("kv", "watch", "kvtest", "--updates", "--count", "1", "--json") as watching:
        watching.wait_for("watching")
        bucket.put("c", b"4")
        assert watching.end().json["key"] == "c"
    assert cli("kv", "watch", "kvtest", "--idle", "200ms", "-q").ok().lines == ["b", "a", "c"]


# -- files


def test_an_export_is_imported(cli: CommandLine, bucket: KeyValueBucket) -> None:
    values = {"a": b"1", "b/c.d": b"\x00\xff", "e=": b""}
    for key, value in values.items():
        bucket.put(key, value)
    bucket.put("gone", b"1")
    bucket.delete("gone")
    cli("kv", "add", "kvback").ok()
    try:
        for target in (str(cli.folder / "out.jsonl"), str(cli.folder / "out")):
            wrote = cli("kv", "export", "kvtest", target, "--json").ok().json
            assert (wrote["keys"], wrote["size_bytes"]) == (3, 3)
            assert cli("kv", "export", "kvtest", target).code == (2 if target.endswith("l") else 10)
            assert cli("kv", "import", "kvback", target, "--dry-run").code == 3
            assert cli("kv", "import", "kvback", target, "--json").ok().json["written"] == 3
            again = cli("kv", "import", "kvback", target, "--skip-existing", "--json").ok().json
            assert (again["written"], again["skipped"], again["changed"]) == (0, 3, False)
            assert cli("kv", "import", "kvback", target, "--skip-existing", "--dry-run").code == 0
            back = KeyValueBucket(bucket.api, "kvback")
            assert {entry.key: entry.value for entry in back.entries()} == values
            for key in values:
                back.purge(key)
        file = cli.folder / "out.jsonl"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        lines = cli("kv", "export", "kvtest", "-", "b/*.*").ok()
        assert cli("kv", "import", "kvback", "-", "--json", stdin=lines.raw).ok().json["written"] == 0
        lines = cli("kv", "export", "kvtest", "-", "b/c.*").ok()
        assert cli("kv", "import", "kvback", "-", "--json", stdin=lines.raw).ok().json["written"] == 1
        cli("kv", "export", "kvtest", str(file), "a", "--force").ok()
        assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == ["a"]
    finally:
        cli("kv", "rm-bucket", "kvback", "-f").ok()


def test_a_bad_line_is_found_before_a_key_is_set(cli: CommandLine, bucket: KeyValueBucket) -> None:
    file = cli.folder / "bad.jsonl"
    for bad in ('{"key": "b"}', "no JSON", '{"key": "b c", "data": ""}', '{"key": "b", "data_base64": "!"}'):
        file.write_text('{"key": "a", "data": "1"}\n' + bad + "\n")
        ran = cli("kv", "import", "kvtest", str(file))
        assert (ran.code, "line 2" in ran.err) == (1, True), ran.err
    assert list(bucket.keys()) == []
    assert cli("kv", "import", "kvtest", str(cli.folder / "nowhere.jsonl")).code == 4


def test_an_interrupted_import_says_how_far_it_came(cli: CommandLine, bucket: KeyValueBucket) -> None:
    watch = bucket.watch(updates_only=True)
    with cli.started("kv", "import", "kvtest", "-", stdin=subprocess.PIPE) as importing:
        assert importing.process.stdin is not None
        importing.process.stdin.write(b'{"key": "a", "data": "1"}\n{"key": "b", "data": "1"}\n')
        importing.process.stdin.flush()
        assert [next(watch).key, next(watch).key] == ["a", "b"]
        importing.interrupt()
        ended = importing.wait_for("keys were set")
        assert importing.process.wait(30) == 130
    watch.close()

    # Of the last one the answer may be on its way.
    assert any(f"import: {count} keys were set; --skip-existing goes on" in ended for count in (1, 2))


# -- other clients


def test_nats_py_reads_what_is_written_here(
    server: ServerProcess, cli: CommandLine, bucket: KeyValueBucket
) -> None:
    nats = pytest.importorskip("nats")
    cli("kv", "put", "kvtest", "ours", "1").ok()

    async def run() -> Any:
        client = await nats.connect(server.url)
        try:
            kv = await client.jetstream().key_value("kvtest")
            await kv.put("theirs", b"2")
            await kv.put("gone", b"3")
            await kv.delete("gone")
            return (await kv.get("ours")).value
        finally:
            await client.close()

    assert asyncio.run(run()) == b"1"
    assert cli("kv", "get", "kvtest", "theirs").ok().out == "2\n"
    assert cli("kv", "ls", "kvtest", "-q").ok().lines == ["ours", "theirs"]
    assert cli("kv", "get", "kvtest", "gone").code == 4


def test_lines_of_scripts_for_nats_run(cli: CommandLine, bucket: KeyValueBucket) -> None:
    cli.program = "nats"
    cli("kv", "add", "kvscript", "--history=2", "--ttl=1h", "--max-value-size=1k").ok()
    cli("kv", "put", "kvscript", "Key1", stdin=b"Value1").ok()
    cli("kv", "create", "kvscript", "Key2", "Value2").ok()

    assert cli("kv", "get", "kvscript", "Key1", "--raw").ok().raw == b"Value1"
    cli("kv", "revert", "kvscript", "Key1", "1", "-f").ok()
    assert cli("kv", "ls", "kvscript", "--names").ok().lines == ["Key1", "Key2"]
    assert cli("kv", "status", "kvscript", "-j").ok().json["history"] == 2
    cli("kv", "rm", "kvscript", "Key1", "-f").ok()
    cli("kv", "compact", "kvscript", "--force").ok()
    cli("kv", "rm", "kvscript", "--force").ok()
