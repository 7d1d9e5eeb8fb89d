"""`headrace sub`: what is shown of messages, in which form, and those of streams."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from harness.command_line import CommandLine
from harness.processes import SIDES, Program, ServerProcess
from headrace.cli.client.message_dump import file_name
from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def orders(cli: CommandLine) -> Iterator[JetStreamAssets]:
    """A stream ORDERS with five messages, on `orders.a` and `orders.b` in turn."""
    with connect(cli.url) as connection:
        assets = JetStreamAssets(JetStreamApi(connection))
        assets.create_stream({"name": "ORDERS", "subjects": ["orders.>"]})
        for number in range(1, 6):
            assets.api.put(
                f"orders.{'ba'[number % 2]}", b'{"n": %d, "kind": "%s"}' % (number, b"ba"[number % 2 :][:1])
            )
        yield assets
        assets.delete_stream("ORDERS")


def sequences(cli: CommandLine, *arguments: str) -> list[int]:
    found = cli("sub", "--stream", "ORDERS", *arguments, "--json").ok().json_lines
    return [message["sequence"] for message in found]


def test_a_stream_is_read_from_a_beginning_to_its_end(cli: CommandLine, orders: JetStreamAssets) -> None:
    assert sequences(cli, "--until-end") == [1, 2, 3, 4, 5]
    assert sequences(cli, "--until-end", "orders.b") == [2, 4]
    assert sequences(cli, "--until-end", "orders.b", "orders.a", "--from-sequence", "3") == [3, 4, 5]
    assert sequences(cli, "--until-end", "--last-per-subject") == [4, 5]
    assert sequences(cli, "--count", "1", "--last") == [5]
    assert sequences(cli, "--until-end", "--since", "1h") == [1, 2, 3, 4, 5]
    assert sequences(cli, "--until-end", "--new") == []
    assert sequences(cli, "--idle", "50ms") == [1, 2, 3, 4, 5]
    assert sequences(cli, "--for", "50ms", "--last") == [5]
    assert list(orders.consumer_names("ORDERS")) == []


def test_a_message_of_a_stream_has_its_place(cli: CommandLine, orders: JetStreamAssets) -> None:
    (message,) = cli("sub", "--stream", "ORDERS", "--count", "1", "--json").ok().json_lines

    assert message.pop("received") >= message.pop("time")
    assert message == {
        "subject": "orders.a", "data": '{"n": 1, "kind": "a"}', "size_bytes": 21, "stream": "ORDERS",
        "sequence": 1, "deliveries": 1, "pending": 4,
    }  # fmt: skip


def test_a_durable_consumer_goes_on(cli: CommandLine, orders: JetStreamAssets) -> None:
    assert sequences(cli, "--durable", "reader", "--count", "2") == [1, 2]
    assert sequences(cli, "--durable", "reader", "--until-end", "--grep", "4") == [4]
    assert sequences(cli, "--durable", "reader", "--until-end") == []
    assert orders.consumer_info("ORDERS", "reader")["num_ack_pending"] == 0


def test_a_work_queue_is_emptied_with_acknowledgements(cli: CommandLine) -> None:
    with connect(cli.url) as connection:
        assets = JetStreamAssets(JetStreamApi(connection))
        assets.create_stream({"name": "WORK", "subjects": ["work.>"], "retention": "workqueue"})
        for number in range(3):
            assets.api.put("work.a", b"%d" % number)
        try:
            failing = f"{sys.executable} -c 'import sys; sys.exit(sys.stdin.read() == \"1\")'"
            ran = cli("sub", "--stream", "WORK", "--ack", "--count", "3", "--exec", failing)
            assert ran.code == 1
            left = assets.stream_info("WORK")["state"]
            assert (left["messages"], left["first_seq"]) == (1, 2)
            assert list(assets.consumer_names("WORK")) == []
        finally:
            assets.delete_stream("WORK")


def test_a_stream_that_is_not_there_is_4(cli: CommandLine) -> None:
    assert cli("sub", "--stream", "NO_STREAM").code == 4
    assert cli("sub", "--stream", "NO_STREAM", "--durable", "x").code == 4


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("x", "--all"),
        ("x", "--ack"),
        ("x", "--until-end"),
        ("x", "--null"),
        ("--stream", "S", "--queue", "q"),
        ("--stream", "S", "--new", "--last"),
        ("x", "--where", "a"),
        ("x", "--exec", "'"),
        ("x", "--match-replies", "--report"),
    ],
)
def test_flags_that_do_not_fit_are_wrong_use(alone: CommandLine, arguments: tuple[str, ...]) -> None:
    ran = alone("sub", *arguments)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("program", SIDES.values(), ids=list(SIDES))
def test_nothing_of_a_stream_is_missing_over_an_outage(program: Program, tmp_path: Path) -> None:
    arguments = ("-js", "-sd", str(tmp_path / "store"))
    with ServerProcess(program, tmp_path, *arguments) as server:
        cli = CommandLine(tmp_path, server.url)
        address = ("-a", "127.0.0.1", "-p", str(server.port))
        with connect(server.url) as connection:
            JetStreamAssets(JetStreamApi(connection)).create_stream({"name": "S", "subjects": ["s"]})
        cli("pub", "s", "{{n}}", "-J", "--templates", "--count", "3").ok()
        with cli.started("sub", "--stream", "S", "--count", "6", "--format", "{data}") as listener:
            assert [listener.line() for _ in range(3)] == ["1", "2", "3"]
            server.stop()
            listener.wait_for("connecting again")
            with ServerProcess(program, tmp_path, *arguments, listen=address):
                cli("pub", "s", "{{n}}", "-J", "--templates", "--count", "3").ok()
                ended = listener.end()

    assert (ended.code, ended.lines) == (0, ["1", "2", "3"])
    assert "may be missing" not in ended.err


def test_bodies_are_written_into_files_and_never_over_others(
    cli: CommandLine, orders: JetStreamAssets
) -> None:
    folder = cli.folder / "dump"
    arguments = ("sub", "--stream", "ORDERS", "--until-end", "--dump", str(folder), "-q")

    written = cli(*arguments).ok().lines
    again = cli(*arguments, "--json")

    assert sorted(path.name for path in folder.iterdir())[:2] == ["1-orders.a.bin", "1-orders.a.json"]
    assert written[0] == str(folder / "1-orders.a.bin")
    assert (folder / "1-orders.a.bin").read_bytes() == b'{"n": 1, "kind": "a"}'
    facts = json.loads((folder / "1-orders.a.json").read_text())
    assert (facts["sequence"], facts["stream"], "data" in facts) == (1, "ORDERS", False)
    assert (again.code, again.error["kind"]) == (10, "exists")


def test_names_of_files_are_safe() -> None:
    assert file_name("a/../b.\x00é") == "a%2F..%2Fb.%00%C3%A9"
    assert len(file_name("/" * 500)) == 180


def test_messages_of_subjects_get_numbers_that_are_free(cli: CommandLine) -> None:
    folder = cli.folder / "dump"
    for _ in range(2):
        with cli.started("sub", "dumped", "--count", "1", "--dump", str(folder)) as listener:
            listener.wait_for("listening")
            cli("pub", "dumped", "x").ok()
            assert listener.end().code == 0

    assert sorted(path.name for path in folder.glob("*.bin")) == ["1-dumped.bin", "2-dumped.bin"]


def test_bodies_are_chosen_by_what_is_in_them(cli: CommandLine, orders: JetStreamAssets) -> None:
    assert sequences(cli, "--until-end", "--where", "n>2", "--where", "kind=a") == [3, 5]


def test_bodies_are_shown_raw_with_zeros_and_pretty(cli: CommandLine, orders: JetStreamAssets) -> None:
    read = ("sub", "--stream", "ORDERS", "--count", "1")

    assert cli(*read, "--raw", "--null").ok().raw == b'{"n": 1, "kind": "a"}\0'
    assert '{\n  "n": 1,\n  "kind": "a"\n}\n' in cli(*read, "--pretty").ok().out
    assert cli(*read, "--exec", "tr a-z A-Z", "-q").ok().out == '{"N": 1, "KIND": "A"}\n'


def test_a_doubled_raw_prints_control_characters_on_a_terminal(cli: CommandLine) -> None:
    shown = []
    for flags in (("--raw",), ("--raw", "--raw")):
        with cli.terminal("sub", "raw.a", "--count", "1", *flags) as terminal:
            terminal.wait_for("listening")
            cli("pub", "raw.a", "a\x1b[1mb").ok()
            assert terminal.end() == 0
            shown.append("a\x1b[1mb" in terminal.seen)

    assert shown == [False, True]


def test_answers_are_shown_with_their_requests(cli: CommandLine) -> None:
    with (
        cli.started("sub", "asked", "--match-replies", "--count", "2", "--json") as listener,
        cli.started("reply", "asked", "pong") as service,
    ):
        listener.wait_for("listening")
        service.wait_for("answering")
        cli("request", "asked", "ping").ok()
        request, answer = listener.end().json_lines

    assert (request["data"], answer["data"]) == ("ping", "pong")
    assert (answer["answers"], answer["subject"]) == (1, request["reply"])


def test_a_new_inbox_is_listened_to(cli: CommandLine) -> None:
    with cli.started("sub", "--inbox", "--count", "1", "--subjects-only") as listener:
        inbox = listener.wait_for("inbox").split()[-1]
        listener.wait_for("listening")
        cli("pub", inbox, "x").ok()
        assert listener.end().lines == [inbox]


def test_messages_are_counted_by_subject(cli: CommandLine, orders: JetStreamAssets) -> None:
    read = ("sub", "--stream", "ORDERS", "--until-end", "--report")

    each = cli(*read, "--json").ok().json_lines
    together = cli(*read, "--depth", "1").ok().lines
    first = cli(*read, "--top", "1", "-q").ok().lines

    assert [(line["subject"], line["messages"], line["size_bytes"]) for line in each] == [
        ("orders.a", 3, 63), ("orders.b", 2, 42)
    ]  # fmt: skip
    assert together[1].split("\t")[:3] == ["orders.>", "5", "105"]
    assert first == ["orders.a"]


def test_the_report_comes_after_an_interruption_too(cli: CommandLine) -> None:
    with cli.started("sub", "counted.>", "--report", "--json") as listener:
        listener.wait_for("listening")
        cli("pub", "counted.a", "x", "--count", "3").ok()
        cli("request", "--replies", "0", "--timeout", "1s", "--reply-timeout", "1ms", "counted.a", "x")
        listener.interrupt()
        ended = listener.end()

    assert ended.code == 130
    assert ended.json_lines[0]["messages"] == 4


def test_rates_are_shown_each_second(cli: CommandLine) -> None:
    with cli.started("sub", "rated", "--rate", "--json", "--for", "30s") as listener:
        listener.wait_for("listening")
        cli("pub", "rated", "xx", "--count", "3").ok()
        while not (line := json.loads(listener.line()))["messages"]:
            pass

    assert (line["messages"], line["size_bytes"]) == (3, 6)
    assert 0 < line["messages_per_second"] <= 3
