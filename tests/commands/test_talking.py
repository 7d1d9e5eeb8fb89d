"""`headrace pub`, `sub`, `request`, `reply`: messages out and in, the same with both servers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import CommandLine

ALICE = ("--user", "alice", "--password-file")


@pytest.fixture
def stream(cli: CommandLine) -> Iterator[str]:
    """A stream that stores `kept.>`."""
    with connect(cli.url) as connection:
        assets = JetStreamAssets(JetStreamApi(connection))
        assets.create_stream({"name": "KEPT", "subjects": ["kept.>"]})
        yield "KEPT"
        assets.delete_stream("KEPT")


def test_what_is_published_is_shown(cli: CommandLine) -> None:
    with cli.started("sub", "talk.>", "--count", "2", "--json") as listener:
        listener.wait_for("listening")
        cli("pub", "talk.a", "hello", "-H", "X:1", "-H", "X:2", "--reply", "talk.r").ok()
        cli("pub", "talk.b", "-", stdin=b"\xff\x00").ok()
        ended = listener.end()

    first, second = ended.json_lines
    assert ended.code == 0
    assert first.pop("received").endswith("Z")
    assert first == {
        "subject": "talk.a",
        "reply": "talk.r",
        "headers": {"X": ["1", "2"]},
        "data": "hello",
        "size_bytes": 5 + len(b"NATS/1.0\r\nX: 1\r\nX: 2\r\n\r\n"),
    }
    assert (second["data_base64"], "data" in second) == ("/wA=", False)


def test_what_others_send_cannot_command_a_terminal(cli: CommandLine) -> None:
    with cli.terminal("sub", "hostile.*", "--count", "1", "--color", "never") as terminal:
        terminal.wait_for("listening")
        cli("pub", "hostile.a", "-", "-H", "N:\x1b[31m", stdin=b"\x1b]0;title\x07\x9b2J\xc2\x9b2J").ok()
        assert terminal.end() == 0

    assert "\x1b" not in terminal.seen
    assert "\x9b" not in terminal.seen
    assert "\\x1b]0;title" in terminal.seen


def test_a_listener_is_interrupted(cli: CommandLine) -> None:
    with cli.started("sub", "nothing.here") as listener:
        listener.wait_for("listening")
        listener.interrupt()
        assert listener.end().code == 130


def test_a_listener_ends_after_a_time_without_messages(cli: CommandLine) -> None:
    assert cli("sub", "nothing.here", "--idle", "10ms").ok().out == ""
    assert cli("sub", "nothing.here", "--for", "10ms").ok().out == ""


def test_a_reader_that_goes_away_ends_a_listener_quietly(cli: CommandLine) -> None:
    with cli.started("sub", "many.messages", "--subjects-only") as listener:
        listener.wait_for("listening")
        cli("pub", "many.messages", "x", "--count", "3").ok()
        assert listener.line() == "many.messages"
        assert listener.process.stdout is not None
        listener.process.stdout.close()
        cli("pub", "many.messages", "x", "--count", "3").ok()
        assert listener.process.wait(30) == 0
        assert listener.process.stderr is not None
        assert listener.process.stderr.read() == b""


@pytest.mark.parametrize("flags", [("--ignore", "mixed.b"), ("--grep", "good")])
def test_messages_are_left_out(cli: CommandLine, flags: tuple[str, ...]) -> None:
    with cli.started("sub", "mixed.*", "--count", "2", "--format", "{subject}={data}", *flags) as listener:
        listener.wait_for("listening")
        for subject, body in (("mixed.a", "good 1"), ("mixed.b", "bad"), ("mixed.c", "good 2")):
            cli("pub", subject, body).ok()
        assert listener.end().lines == ["mixed.a=good 1", "mixed.c=good 2"]


def test_a_stream_says_where_it_stored_a_message(cli: CommandLine, stream: str) -> None:
    first = cli("pub", "kept.a", "1", "-J", "--msg-id", "x", "--json").ok().json
    again = cli("pub", "kept.a", "1", "-J", "--msg-id", "x", "--json").ok().json

    assert first == {
        "subject": "kept.a", "size_bytes": 1, "stream": stream, "sequence": 1, "duplicate": False
    }  # fmt: skip
    assert again == {**first, "duplicate": True}
    assert cli("pub", "kept.a", "2", "-J").ok().out == "stored in KEPT, sequence 2\n"
    assert cli("pub", "kept.a", "3", "-J", "-q").ok().out == "3\n"


def test_expectations_that_are_not_met_are_10(cli: CommandLine, stream: str) -> None:
    cli("pub", "kept.a", "1", "-J", "--expect-last-subject-seq", "0", "--expect-stream", stream).ok()

    ran = cli("pub", "kept.a", "1", "-J", "--expect-last-subject-seq", "0", "--json")

    assert (ran.code, ran.error["kind"], ran.error["err_code"]) == (10, "exists", 10071)
    assert cli("pub", "kept.a", "1", "-J", "--expect-stream", "OTHER").code == 6


def test_a_subject_without_a_stream_is_5(cli: CommandLine) -> None:
    assert cli("pub", "no.stream", "x", "-J").code == 5
    assert cli("pub", "no.stream", "x", "--msg-id", "1").code == 2


def test_bodies_come_from_lines_zeros_and_files(cli: CommandLine, stream: str) -> None:
    (cli.folder / "body").write_bytes(b"of a file")

    cli("pub", "kept.a", "-J", "--per-line", stdin=b"one\ntwo\nthree").ok()
    cli("pub", "kept.a", "-J", "--null", stdin=b"a\nb\0c\0").ok()
    cli("pub", "kept.a", "-J", "--file", str(cli.folder / "body")).ok()
    cli("pub", "kept.a", "{{n}}", "-J", "--templates", "--count", "2").ok()
    cli("pub", "kept.a", "{{n}}", "-J").ok()

    with connect(cli.url) as connection:
        assets = JetStreamAssets(JetStreamApi(connection))
        bodies = [assets.message(stream, sequence).data for sequence in range(1, 10)]
    assert bodies == [b"one", b"two", b"three", b"a\nb", b"c", b"of a file", b"1", b"2", b"{{n}}"]


@pytest.mark.parametrize("arguments", [("x", "--stdin"), ("x", "--file", "y"), ("--file", "y", "--stdin")])
def test_two_bodies_are_wrong_use(cli: CommandLine, arguments: tuple[str, ...]) -> None:
    assert cli("pub", "two.bodies", *arguments).code == 2


@pytest.mark.parametrize("template", ["{{what}}", "{{random 1}}", "{{int 5 1}}", "{{env NO_SUCH_THING}}"])
def test_an_unknown_template_is_wrong_use(cli: CommandLine, template: str) -> None:
    assert cli("pub", "templates", template, "--templates").code == 2


def test_the_link_nats_fills_templates_of_that_tool(cli: CommandLine, stream: str) -> None:
    cli.program = "nats"

    cli("pub", "kept.a", "{{Count}} {{ Random 3 3 }}", "-J").ok()

    with connect(cli.url) as connection:
        number, letters = JetStreamAssets(JetStreamApi(connection)).message(stream, 1).data.split()
    assert (number, len(letters)) == (b"1", 3)


def test_no_responders_are_5_and_no_answer_is_8(cli: CommandLine) -> None:
    with cli.started("sub", "deaf", "--count", "1") as listener:
        listener.wait_for("listening")
        silent = cli("request", "deaf", "x", "--timeout", "50ms", "--json")
    nobody = cli("request", "nobody.here", "x", "--json")

    assert (silent.code, silent.out) == (8, ""), silent.err
    assert (nobody.code, nobody.error["kind"], nobody.out) == (5, "no_responders", "")


def test_an_echo_answers_with_headers(cli: CommandLine) -> None:
    with cli.started("reply", "echo", "--echo", "--count", "2", "--json") as service:
        service.wait_for("answering")
        found = cli("request", "echo", "hi", "-H", "A:b", "--json").ok().json
        plain = cli("request", "echo", "hi", "--raw").ok()
        assert service.end().json_lines[0] == {"subject": "echo", "size_bytes": 2, "answer_bytes": 2}

    assert (found["data"], found["headers"]) == ("hi", {"A": ["b"]})
    assert plain.raw == b"hi\n"


def test_a_command_answers_and_its_failure_is_an_error(cli: CommandLine) -> None:
    script = cli.folder / "answer.py"
    script.write_text(
        "import os, sys\n"
        "body = sys.stdin.read()\n"
        "if body == 'fail':\n"
        "    sys.exit('it went wrong')\n"
        "names = 'NATS_REQUEST_SUBJECT', 'NATS_REQUEST_HEADER_A_B'\n"
        "print(sys.argv[1], *(os.environ.get(name) for name in names), body)\n"
    )
    command = f"{sys.executable} {script} {{1}}"
    with cli.started("reply", "run.*", "--command", command, "--count", "2") as service:
        service.wait_for("answering")
        good = cli("request", "run.x;y", "body", "-H", "A-b:1", "-q").ok()
        bad = cli("request", "run.x", "fail")
        service.end()

    assert good.out.strip("\\n\n") == "x;y run.x;y 1 body"
    assert bad.code == 6
    assert "500 it went wrong" in bad.err


def test_a_slow_command_holds_up_no_other(cli: CommandLine) -> None:
    gate = cli.folder / "gate"
    script = cli.folder / "wait.py"
    script.write_text(
        "import os, sys, time\n"
        "while sys.argv[2] == 'slow' and not os.path.exists(sys.argv[1]):\n"
        "    time.sleep(0.01)\n"
        "print('done')\n"
    )
    command = f"{sys.executable} {script} {gate} {{1}}"
    with (
        cli.started("reply", "work.*", "--command", command, "--workers", "2", "--count", "2") as service,
        cli.started("sub", "answers", "--count", "1", "--raw") as slow,
    ):
        service.wait_for("answering")
        slow.wait_for("listening")
        cli("pub", "work.slow", "x", "--reply", "answers").ok()
        assert cli("request", "work.quick", "x", "-q").ok().out.startswith("done")
        gate.touch()
        assert slow.end().out.startswith("done")
        assert service.end().code == 0
    assert cli("reply", "work", "x", "--workers", "0").code == 2


def test_an_answer_goes_through_a_command(cli: CommandLine) -> None:
    with cli.started("reply", "plain", "--body", "text", "--count", "2") as service:
        service.wait_for("answering")
        assert cli("request", "plain", "--exec", "tr a-z A-Z", "-q").ok().out == "TEXT\n"
        failed = cli("request", "plain", "--exec", "false")
        service.end()

    assert (failed.code, failed.out) == (1, "")
    assert "exit code 1" in failed.err


def test_answers_of_many_are_gathered(cli: CommandLine) -> None:
    with (
        cli.started("reply", "many", "--body", "1", "--queue", "a") as one,
        cli.started("reply", "many", "--body", "2", "--queue", "b") as two,
    ):
        one.wait_for("answering")
        two.wait_for("answering")
        found = cli("request", "many", "--replies", "all", "--reply-timeout", "2s", "--json").ok().json_lines
        limited = cli("request", "many", "--replies", "1", "-q").ok().lines

    assert sorted(answer["data"] for answer in found) == ["1", "2"]
    assert limited in (["1"], ["2"])


@pytest.mark.parametrize("arguments", [(), ("--echo", "--body", "x"), ("x", "--body", "y")])
def test_a_reply_needs_one_answer(cli: CommandLine, arguments: tuple[str, ...]) -> None:
    assert cli("reply", "q", *arguments).code == 2


def test_what_is_not_permitted_is_9(cli: CommandLine) -> None:
    (cli.folder / "password").write_text("secret\n")
    reader = ("--user", "reader", "--password-file", str(cli.folder / "password"))

    ran = cli("pub", "forbidden", "x", *reader, "--json")

    assert (ran.code, ran.error["kind"], ran.out.count("\n")) == (9, "not_permitted", 1)
    cli("pub", "allowed.a", "x", *reader).ok()
    assert cli("request", "forbidden", "x", *reader).code == 9


def test_the_account_is_shown(cli: CommandLine) -> None:
    (cli.folder / "password").write_text("secret\n")
    user = ("--password-file", str(cli.folder / "password"), "--user")

    alice = cli("account", "info", "--json", *user, "alice").ok().json
    admin = cli("account", "info", "--json", *user, "admin").ok().json

    assert (alice["user"]["user"], alice["user"]["account"]) == ("alice", "A")
    assert {"memory", "storage", "streams", "consumers", "limits"} <= alice["jetstream"].keys()
    assert admin["user"]["account"] == "SYS"
    assert "jetstream" not in admin
    assert cli("account", "info", "-q").ok().out == "A\n"


@pytest.fixture
def timed(cli: CommandLine) -> Iterator[JetStreamAssets]:
    """A stream that publishes what is scheduled, and stores batches."""
    config = {
        "name": "TIMED", "subjects": ["timed.>"], "allow_msg_schedules": True, "allow_atomic": True,
        "allow_msg_ttl": True,
    }  # fmt: skip
    with connect(cli.url) as connection:
        assets = JetStreamAssets(JetStreamApi(connection))
        assets.create_stream(config)
        yield assets
        assets.delete_stream("TIMED")


@pytest.mark.parametrize(
    ("flags", "headers"),
    [
        (("--every", "90s"), {"Nats-Schedule": ["@every 90s"]}),
        (("--at", "2199-01-01T00:00:00Z"), {"Nats-Schedule": ["@at 2199-01-01T00:00:00Z"]}),
        (
            ("--cron", "0 30 8 * * *", "--time-zone", "Europe/Berlin", "--ttl", "1h"),
            {
                "Nats-Schedule": ["0 30 8 * * *"],
                "Nats-Schedule-Time-Zone": ["Europe/Berlin"],
                "Nats-Schedule-TTL": ["3600s"],
            },
        ),
    ],
)
def test_a_message_becomes_a_schedule(
    cli: CommandLine, timed: JetStreamAssets, flags: tuple[str, ...], headers: dict[str, list[str]]
) -> None:
    stored = cli("pub", "timed.plan", "x", *flags, "--to", "timed.done", "--json").ok().json

    found = timed.message("TIMED", stored["sequence"]).headers
    assert found.pop("Nats-Rollup", ["sub"]) == ["sub"]
    assert found == {**headers, "Nats-Schedule-Target": ["timed.done"]}


def test_a_schedule_publishes_what_it_has(cli: CommandLine, timed: JetStreamAssets) -> None:
    cli("pub", "timed.plan", "now", "--after", "1ms", "--to", "timed.done").ok()

    (message,) = cli("sub", "--stream", "TIMED", "timed.done", "--count", "1", "--json").ok().json_lines
    assert message["data"] == "now"


@pytest.mark.parametrize(
    "flags",
    [
        ("--every", "5m"),
        ("--to", "x"),
        ("--every", "5m", "--after", "1s", "--to", "x"),
        ("--after", "1s", "--to", "x", "--time-zone", "UTC"),
        ("--after", "1s", "--to", "x", "--reply", "y"),
    ],
)
def test_half_a_schedule_is_wrong_use(alone: CommandLine, flags: tuple[str, ...]) -> None:
    assert alone("pub", "timed.plan", "x", *flags).code == 2


def test_a_stream_without_schedules_refuses_them(cli: CommandLine, stream: str) -> None:
    ran = cli("pub", "kept.a", "x", "--after", "1s", "--to", "kept.b", "--json")

    assert (ran.code, ran.error["err_code"]) == (6, 10188)


def test_messages_are_stored_as_one_batch_or_not_at_all(cli: CommandLine, timed: JetStreamAssets) -> None:
    stored = cli("pub", "timed.a", "{{n}}", "--atomic", "--count", "3", "--templates", "--json").ok().json
    one = cli("pub", "timed.a", "x", "--atomic").ok()
    none = cli("pub", "timed.a", "--atomic", "--per-line", stdin=b"").ok()
    refused = cli("pub", "timed.a", "--atomic", "--per-line", "--expect-last-seq", "9", stdin=b"a\nb")

    assert stored == {"subject": "timed.a", "stream": "TIMED", "sequence": 3, "messages": 3}
    assert one.out == "stored 1 message in TIMED, the last has sequence 4\n"
    assert none.out == ""
    assert refused.code in (6, 10)
    assert [timed.message("TIMED", number).data for number in (1, 2, 3, 4)] == [b"1", b"2", b"3", b"x"]
    assert timed.stream_info("TIMED")["state"]["last_seq"] == 4


def test_a_stream_without_batches_refuses_them(cli: CommandLine, stream: str) -> None:
    assert cli("pub", "kept.a", "x", "--atomic", "--count", "2").code == 6
    assert cli("pub", "no.stream", "x", "--atomic", "--count", "2").code == 5
