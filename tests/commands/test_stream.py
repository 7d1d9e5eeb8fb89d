"""`headrace stream`: streams made, looked into, changed and removed."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from harness.waiting import PATIENCE
from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.command_line import CommandLine
    from harness.processes import ServerProcess


@pytest.fixture
def api(server: ServerProcess) -> Iterator[JetStreamApi]:
    """JetStream's API; streams that a test made are removed."""
    with connect(server.url) as connection:
        api = JetStreamApi(connection)
        yield api
        assets = JetStreamAssets(api)
        for name in list(assets.stream_names()):
            assets.delete_stream(name)


@pytest.fixture
def assets(api: JetStreamApi) -> JetStreamAssets:
    return JetStreamAssets(api)


def filled(assets: JetStreamAssets, name: str, count: int = 5, **config: object) -> None:
    """Make a stream with messages 1 to `count` on `NAME.even` and `NAME.odd`."""
    subject = name.lower()
    assets.create_stream({"name": name, "subjects": [f"{subject}.>"], **config})
    for number in range(1, count + 1):
        body = json.dumps({"n": number, "who": {"name": f"w{number}"}}).encode()
        assets.api.publish(f"{subject}.{'odd' if number % 2 else 'even'}", body, headers={"N": str(number)})


# -- ls, report, find


def test_streams_are_listed(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "BETA", 3)
    filled(assets, "ALPHA", 1)
    assets.create_stream({"name": "KV_hidden", "subjects": ["$KV.hidden.>"]})

    found = cli("stream", "ls", "--json").ok().json

    assert [item["config"]["name"] for item in found["items"]] == ["ALPHA", "BETA"]
    assert (found["total"], found["truncated"]) == (2, False)
    assert cli("s", "ls", "-n").ok().lines == ["ALPHA", "BETA"]
    assert cli("str", "ls", "-q", "--sort", "messages").ok().lines == ["BETA", "ALPHA"]
    assert cli("stream", "ls", "-n", "-a").ok().lines == ["ALPHA", "BETA", "KV_hidden"]
    assert cli("stream", "ls", "-n", "--subject", "beta.x").ok().lines == ["BETA"]
    assert cli("stream", "ls", "--format", "{config.name} {state.messages}").ok().lines == [
        "ALPHA 1",
        "BETA 3",
    ]


def test_pipes_get_a_line_for_each_stream(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "PIPED", 2)

    heading, line = cli("stream", "ls").ok().lines

    assert heading.split("\t") == ["name", "subjects", "messages", "size", "consumers", "last_message"]
    assert line.split("\t")[:3] == ["PIPED", "piped.>", "2"]


def test_no_stream_is_4_if_that_is_asked_for(cli: CommandLine, assets: JetStreamAssets) -> None:
    assert cli("stream", "ls", "--json").ok().json == {"items": [], "total": 0, "truncated": False}
    assert cli("stream", "ls", "--fail-empty").code == 4


def test_a_report_counts(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "COUNTED", 6)
    assets.delete_message("COUNTED", 3)
    assets.create_consumer("COUNTED", {"durable_name": "one", "ack_policy": "explicit"})

    [item] = cli("stream", "report", "--json").ok().json["items"]

    assert item["name"] == "COUNTED"
    assert (item["messages"], item["deleted"], item["subjects"], item["consumers"]) == (5, 1, 2, 1)
    assert (item["first_sequence"], item["last_sequence"]) == (1, 6)
    assert "lag" not in item
    assert cli("stream", "report").ok().lines[1].startswith("COUNTED\tfile\t5\t")


def test_streams_are_found_by_what_is_true_of_them(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "FULL", 5)
    filled(assets, "EMPTY", 0, storage="memory")
    assets.create_consumer("FULL", {"durable_name": "one", "ack_policy": "explicit"})

    def found(*flags: str) -> list[str]:
        return cli("stream", "find", "-n", *flags).ok().lines

    assert found("--empty") == ["EMPTY"]
    assert found("--empty", "--invert") == ["FULL"]
    assert found("--no-consumers") == ["EMPTY"]
    assert found("--idle", "1h") == []
    assert found("--where", "config.storage=memory") == ["EMPTY"]
    assert found("--where", "state.messages>=5", "--where", "config.name!=X") == ["FULL"]
    assert found("--subject", "full.x") == ["FULL"]
    assert cli("stream", "find", "--where", "nonsense").code == 2
    assert cli("stream", "find", "--idle", "1h", "--fail-empty").code == 4


def test_streams_whose_servers_are_silent_are_named(cli: CommandLine, assets: JetStreamAssets) -> None:
    """As the leader of a cluster answers that has lost servers."""
    filled(assets, "HERE", 1)
    page = {
        "total": 1, "offset": 0, "limit": 256, "streams": list(assets.streams()),
        "missing": ["AWAY"], "offline": {"NEWER": "unsupported feature"},
    }  # fmt: skip
    ready = threading.Event()

    def answer() -> None:
        with connect(cli.url) as connection:
            connection.subscribe("LEADER.API.STREAM.LIST")
            connection.flush()
            ready.set()
            question = next(connection.messages(PATIENCE))
            assert question.reply is not None
            connection.publish(question.reply, json.dumps(page).encode())
            connection.flush()

    leader = threading.Thread(target=answer)
    leader.start()
    assert ready.wait(PATIENCE)
    ran = cli("stream", "ls", "--json", "--js-api-prefix", "LEADER.API").ok()
    leader.join()

    assert ran.json["errors"] == [
        {"name": "AWAY", "error": "no answer"},
        {"name": "NEWER", "error": "unsupported feature"},
    ]
    assert (len(ran.json["items"]), ran.json["total"], ran.json["truncated"]) == (1, 3, True)
    assert "AWAY: no answer" in ran.err


# -- info, state, subjects, gaps


def test_the_info_is_the_servers(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "SHOWN", 3)

    found = cli("stream", "info", "SHOWN", "--json").ok().json

    assert found["config"]["subjects"] == ["shown.>"]
    assert found["state"]["messages"] == 3
    assert cli("stream", "state", "SHOWN", "--json").ok().json == found["state"]
    assert cli("stream", "info", "SHOWN", "--state", "--json").ok().json == found["state"]
    assert cli("stream", "info", "SHOWN", "--format", "{state.last_seq}").ok().out == "3\n"
    counted = cli("stream", "info", "SHOWN", "--subjects", "--json").ok().json
    assert counted["state"]["subjects"] == {"shown.even": 1, "shown.odd": 2}
    facts = dict(line.split("\t") for line in cli("stream", "info", "SHOWN").ok().lines)
    assert (facts["name"], facts["messages"], facts["storage"]) == ("SHOWN", "3", "file")


def test_a_stream_that_is_not_there_is_4(cli: CommandLine, assets: JetStreamAssets) -> None:
    for words in (["info", "NONE"], ["state", "NONE"], ["subjects", "NONE"], ["gaps", "NONE"],
                  ["get", "NONE", "1"], ["view", "NONE"], ["edit", "NONE", "--max-age", "1h"],
                  ["rm", "NONE", "-f"], ["purge", "NONE", "-f"], ["rmm", "NONE", "1", "-f"],
                  ["seal", "NONE", "-f"]):  # fmt: skip
        ran = cli("stream", *words, "--json")
        assert (ran.code, ran.out, ran.error["kind"]) == (4, "", "not_there"), words


def test_without_permission_it_is_9(cli: CommandLine, assets: JetStreamAssets) -> None:
    for words in (["ls"], ["info", "X"], ["add", "X", "--subjects", "x"], ["rm", "X", "-f"], ["view", "X"]):
        ran = cli("stream", *words, "--json", "--user", "reader", "--password", "secret")
        assert (ran.code, ran.out, ran.error["kind"]) == (9, "", "not_permitted"), words


def test_subjects_are_counted(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "SUBJ", 5)

    assert cli("stream", "subjects", "SUBJ").ok().lines == [
        "subject\tmessages",
        "subj.odd\t3",
        "subj.even\t2",
    ]
    assert cli("stream", "subjects", "SUBJ", "--sort", "name", "-q").ok().lines == ["subj.even", "subj.odd"]
    assert cli("stream", "subjects", "SUBJ", "subj.even", "-q").ok().lines == ["subj.even"]
    found = cli("stream", "subjects", "SUBJ", "--limit", "1", "--json").ok().json
    assert (len(found["items"]), found["total"], found["truncated"]) == (1, 2, True)


def test_gaps_are_listed(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "GAPS", 8)
    for sequence in (2, 4, 5, 6):
        assets.delete_message("GAPS", sequence)

    assert cli("stream", "gaps", "GAPS").ok().lines == ["first\tlast\tmessages", "2\t2\t1", "4\t6\t3"]


# -- add


def test_a_stream_is_made_with_subjects_alone(cli: CommandLine, assets: JetStreamAssets) -> None:
    made = cli("stream", "add", "PLAIN", "--subjects", "plain.>", "--json").ok().json

    assert made["config"] == assets.stream_info("PLAIN")["config"]
    again = cli("stream", "add", "PLAIN", "--subjects", "plain.>").ok()
    assert "unchanged" in again.err


FLAGS = [
    "--subjects", "a.>,b", "--subjects", "c", "--storage", "memory", "--retention", "limits",
    "--max-age", "2d",
    "--max-bytes", "1MiB", "--max-msgs", "100", "--max-msgs-per-subject", "10", "--max-msg-size", "1024",
    "--max-consumers", "3", "--discard", "new", "--discard-per-subject", "--dupe-window", "1m",
    "--replicas", "1", "--allow", "direct,rollup,msg-ttl", "--allow", "atomic", "--deny", "delete",
    "--transform", "a.>->d.>", "--republish", "d.>->again.d.>", "--republish-headers",
    "--description", "text",
    "--metadata", "team=red", "--metadata", "a=b", "--first-sequence", "100", "--marker-ttl", "1h",
    "--consumer-inactive", "1h", "--consumer-max-pending", "7",
]  # fmt: skip


def test_flags_are_fields(cli: CommandLine, assets: JetStreamAssets) -> None:
    config = cli("stream", "add", "FLAGS", *FLAGS, "--json").ok().json["config"]

    wanted = {
        "subjects": ["a.>", "b", "c"], "storage": "memory", "retention": "limits",
        "max_age": 2 * 86_400_000_000_000, "max_bytes": 1 << 20, "max_msgs": 100, "max_msgs_per_subject": 10,
        "max_msg_size": 1024, "max_consumers": 3, "discard": "new", "discard_new_per_subject": True,
        "duplicate_window": 60_000_000_000, "num_replicas": 1, "allow_direct": True,
        "allow_rollup_hdrs": True, "allow_msg_ttl": True, "allow_atomic": True,
        "deny_delete": True, "description": "text",
        "subject_transform": {"src": "a.>", "dest": "d.>"},
        "republish": {"src": "d.>", "dest": "again.d.>", "headers_only": True}, "first_seq": 100,
        "subject_delete_marker_ttl": 3_600_000_000_000,
        "consumer_limits": {"inactive_threshold": 3_600_000_000_000, "max_ack_pending": 7},
    }  # fmt: skip
    assert {name: config.get(name) for name in wanted} == wanted
    assert {"team": "red", "a": "b"}.items() <= config["metadata"].items()
    assert "unchanged" in cli("stream", "add", "FLAGS", *FLAGS).ok().err
    assert "unchanged" in cli("stream", "add", "FLAGS", *FLAGS, "--dry-run").ok().out


def test_one_with_other_settings_is_10(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "OTHER", 0, max_msgs=5)
    words = ("stream", "add", "OTHER", "--subjects", "other.>", "--max-msgs", "7")

    ran = cli(*words, "--json")

    assert (ran.code, ran.out, ran.error["kind"]) == (10, "", "exists")
    assert "max_msgs is 5" in ran.error["text"]
    assert cli(*words, "--dry-run").code == 10
    assert cli(*words, "--if-not-exists", "--json").ok().json["config"]["max_msgs"] == 5
    assert cli(*words, "--if-not-exists", "--dry-run").code == 0


def test_a_dry_run_makes_nothing(cli: CommandLine, assets: JetStreamAssets) -> None:
    ran = cli("stream", "add", "DRY", "--subjects", "dry", "--max-age", "1h", "--dry-run", "--json")

    assert ran.code == 3
    assert ran.json["changes"]["max_age"] == {"before": None, "after": 3_600_000_000_000}
    assert list(assets.stream_names()) == []


def test_a_configuration_is_read_from_a_file(cli: CommandLine, assets: JetStreamAssets) -> None:
    file = cli.folder / "config.json"
    file.write_text(json.dumps({"name": "FILED", "subjects": ["filed.>"], "max_msgs": 9}))

    made = cli("stream", "add", "--config", str(file), "--max-age", "1h", "--json").ok().json["config"]
    assert (made["name"], made["max_msgs"], made["max_age"]) == ("FILED", 9, 3_600_000_000_000)
    # What `stream info --json` prints is a configuration, too.
    info = cli("stream", "info", "FILED", "--json").ok().raw
    assert "unchanged" in cli("stream", "add", "--config", "-", stdin=info).ok().err
    ran = cli("stream", "add", "--config", "-", stdin=b"[1]")
    assert (ran.code, ran.out) == (2, "")
    assert cli("stream", "add", "--config", str(cli.folder / "none.json")).code == 1
    assert cli("stream", "add").code == 2


@pytest.mark.parametrize(
    "flags",
    [["--max-age", "soon"], ["--storage", "paper"], ["--retention", "never"], ["--allow", "all"],
     ["--transform", "a"], ["--mirror", "{"], ["--max-msgs", "many"], ["--republish-headers"],
     ["--max-bytes", "1XB"]],
    ids=lambda flags: flags[0],
)  # fmt: skip
def test_wrong_values_are_wrong_use(flags: list[str], alone: CommandLine) -> None:
    ran = alone("stream", "add", "X", "--subjects", "x", *flags, "--json")

    assert (ran.code, ran.out, ran.error["kind"]) == (2, "", "wrong_use")
    assert flags[0] in ran.error["text"]


def test_limits_can_be_taken_away(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "WIDE", 0, max_msgs=5, max_age=3_600_000_000_000, duplicate_window=60_000_000_000)

    cli("stream", "edit", "WIDE", "--max-msgs", "-1", "--max-age", "0").ok()

    config = assets.stream_info("WIDE")["config"]
    assert (config["max_msgs"], config["max_age"]) == (-1, 0)


def test_mirrors_and_sources(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "ORIGIN", 2)

    mirror = cli("stream", "add", "COPY", "--mirror", "ORIGIN", "--json").ok().json["config"]
    source = '{"name": "ORIGIN", "filter_subject": "origin.odd"}'
    merged = cli("stream", "add", "SOME", "--source", source, "--json").ok().json["config"]

    assert mirror["mirror"] == {"name": "ORIGIN"}
    assert merged["sources"] == [{"name": "ORIGIN", "filter_subject": "origin.odd"}]
    assert "unchanged" in cli("stream", "add", "COPY", "--mirror", "ORIGIN").ok().err


def test_the_wizard_asks_and_shows_the_command(cli: CommandLine, assets: JetStreamAssets) -> None:
    answers = (("Name", "WIZ"), ("Subjects", "wiz.>"), ("stored", ""), ("go", "work"), ("long", "7d"),
               ("much", ""), ("servers", ""))  # fmt: skip
    with cli.terminal("stream", "add", "--wizard", width=200) as terminal:
        for question, answer in answers:
            terminal.wait_for(question)
            terminal.type(answer + "\n")
            terminal.wait_for(answer + "\n")
        assert terminal.end() == 0
    assert "headrace stream add WIZ --subjects 'wiz.>' --retention work --max-age 7d\n" in terminal.seen
    config = assets.stream_info("WIZ")["config"]
    assert (config["subjects"], config["retention"]) == (["wiz.>"], "workqueue")
    assert cli("stream", "add", "--wizard").code == 2


def test_flags_of_the_tool_nats_are_taken_by_its_link(cli: CommandLine, assets: JetStreamAssets) -> None:
    cli.program = "nats"
    flags = ("--subjects", "nats.>", "--ack", "--max-msgs=-1", "--max-bytes=-1", "--max-age=1y", "--storage",
             "file", "--retention", "limits", "--max-msg-size=-1", "--discard=old", "--allow-direct",
             "--no-deny-delete", "--allow-rollup", "--defaults")  # fmt: skip

    config = cli("str", "add", "NATS", *flags, "--json").ok().json["config"]

    assert (config["allow_direct"], config["allow_rollup_hdrs"], config["max_msgs"]) == (True, True, -1)
    assert config["max_age"] == 365 * 86_400_000_000_000
    cli("stream", "edit", "NATS", "--no-allow-direct", "-f").ok()
    assert assets.stream_info("NATS")["config"]["allow_direct"] is False


# -- edit


def test_an_edit_shows_the_difference_and_changes(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "EDIT", 0)
    words = ("stream", "edit", "EDIT", "--max-age", "7d", "--description", "new")

    dry = cli(*words, "--dry-run")
    assert dry.code == 3
    assert dry.lines == ["field\tbefore\tafter", "max_age\t0\t604800000000000", "description\t\tnew"]
    assert assets.stream_info("EDIT")["config"]["max_age"] == 0

    assert cli(*words).ok().lines == dry.lines
    assert assets.stream_info("EDIT")["config"]["description"] == "new"
    again = cli(*words, "--dry-run", "--json").ok().json
    assert again == {"name": "EDIT", "changes": {}}
    assert "unchanged" in cli(*words).ok().err


def test_an_edit_keeps_what_is_not_said(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "KEEP", 0, metadata={"a": "1", "b": "2"}, max_msgs=5)

    config = (
        cli("stream", "edit", "KEEP", "--metadata", "b=3", "--allow", "direct", "--json").ok().json["config"]
    )

    assert {"a": "1", "b": "3"}.items() <= config["metadata"].items()
    assert (config["max_msgs"], config["allow_direct"]) == (5, True)
    config = cli("stream", "edit", "KEEP", "--allow", "no-direct", "--json").ok().json["config"]
    assert config["allow_direct"] is False


def test_an_empty_value_removes_a_field(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "SOURCE", 3)
    assets.create_stream(
        {
            "name": "PROMOTED",
            "mirror": {"name": "SOURCE"},
            "metadata": {"a": "1", "b": "2"},
            "description": "x",
        }
    )

    flags = ("--mirror", "", "--metadata", "a=", "--description", "", "--subjects", "promoted.>")
    config = cli("stream", "edit", "PROMOTED", *flags, "--json").ok().json["config"]

    assert "mirror" not in config
    assert (config["subjects"], config.get("description", "")) == (["promoted.>"], "")
    assert config["metadata"]["b"] == "2"
    assert "a" not in config["metadata"]


def test_a_mirror_without_its_origin_says_so(cli: CommandLine, assets: JetStreamAssets) -> None:
    assets.create_stream({"name": "ORPHAN", "mirror": {"name": "NOBODY"}})

    shown = cli("stream", "info", "ORPHAN").ok()
    [item] = cli("stream", "report", "--json").ok().json["items"]

    assert "mirror\t" in shown.out
    assert item["origins"][0]["name"] == "NOBODY"
    assert item["lag"] == 0


def test_an_edit_that_the_server_refuses_is_6(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "REFUSED", 0)

    ran = cli("stream", "edit", "REFUSED", "--storage", "memory", "--json")

    assert (ran.code, ran.out, ran.error["kind"]) == (6, "", "refused")
    assert ran.error["err_code"] > 0


def test_an_editor_changes_the_configuration(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "EDITOR", 0)
    script = cli.folder / "editor.py"
    script.write_text(
        "import json, sys\n"
        "path = sys.argv[1]\n"
        "config = json.load(open(path)) | {'max_msgs': 77}\n"
        "json.dump(config, open(path, 'w'))\n"
    )
    cli.variables["EDITOR"] = f"python3 {script}"
    cli.variables["VISUAL"] = ""

    assert cli("stream", "edit", "EDITOR", "--editor", "--json").ok().json["config"]["max_msgs"] == 77
    cli.variables["EDITOR"] = "false"
    assert cli("stream", "edit", "EDITOR", "--editor").code == 1
    cli.variables["EDITOR"] = ""
    assert cli("stream", "edit", "EDITOR", "--editor").code == 2


# -- rm, purge, rmm, seal


def test_streams_are_removed(cli: CommandLine, assets: JetStreamAssets) -> None:
    for name in ("GONE1", "GONE2", "STAYS"):
        filled(assets, name, 2)

    refused = cli("stream", "rm", "GONE1", "GONE2")
    assert (refused.code, refused.out) == (2, "")
    assert "GONE1: 2 messages, 0 consumers" in refused.err
    dry = cli("stream", "rm", "GONE1", "--dry-run", "--json")
    assert dry.code == 3
    assert dry.json["items"][0]["removed"] is False
    assert len(list(assets.stream_names())) == 3
    # If one is not there, none is removed.
    assert cli("stream", "rm", "GONE1", "NONE", "--force").code == 4
    assert len(list(assets.stream_names())) == 3

    ran = cli("stream", "rm", "GONE1", "GONE2", "--force", "--json").ok()
    assert [item["name"] for item in ran.json["items"]] == ["GONE1", "GONE2"]
    assert list(assets.stream_names()) == ["STAYS"]
    cli("stream", "rm", "GONE1", "--if-exists", "--force").ok()


def test_the_name_has_to_be_typed(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "TYPED", 2)

    with cli.terminal("stream", "rm", "TYPED") as terminal:
        terminal.wait_for("TYPED: 2 messages, 0 consumers; type TYPED to go on: ")
        terminal.type("y\n")
        assert terminal.end() == 2
    assert list(assets.stream_names()) == ["TYPED"]
    with cli.terminal("stream", "rm", "TYPED") as terminal:
        terminal.wait_for("type TYPED")
        terminal.type("TYPED\n")
        assert terminal.end() == 0
    assert list(assets.stream_names()) == []


@pytest.mark.parametrize(
    ("flags", "purged"),
    [([], 6), (["--subject", "purge.odd"], 3), (["--keep", "2"], 4), (["--sequence", "4"], 3),
     (["--sequence", "4", "--subject", "purge.odd"], 2), (["--subject", "purge.odd", "--keep", "1"], 2)],
    ids=str,
)  # fmt: skip
def test_messages_are_purged(
    cli: CommandLine, assets: JetStreamAssets, flags: list[str], purged: int
) -> None:
    filled(assets, "PURGE", 6)
    words = ("stream", "purge", "PURGE", *flags)

    dry = cli(*words, "--dry-run", "--json")
    assert (dry.code, dry.json) == (3, {"stream": "PURGE", "purged": purged})
    assert cli(*words).code == 2
    assert assets.stream_info("PURGE")["state"]["messages"] == 6
    assert cli(*words, "-f", "--json").ok().json == {"stream": "PURGE", "purged": purged}
    assert assets.stream_info("PURGE")["state"]["messages"] == 6 - purged


def test_single_messages_are_removed(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "SINGLE", 5)

    assert cli("stream", "rmm", "SINGLE", "2", "3").code == 2
    assert cli("stream", "rmm", "SINGLE", "2", "9", "-f").code == 4
    assert cli("stream", "rmm", "SINGLE", "2", "--dry-run").code == 3
    assert assets.stream_info("SINGLE")["state"]["messages"] == 5
    ran = cli("stream", "rmm", "SINGLE", "2", "3", "-f", "--json").ok()
    assert ran.json["items"][1] == {"stream": "SINGLE", "sequence": 3, "removed": True}
    assert assets.stream_info("SINGLE", with_deleted=True)["state"]["deleted"] == [2, 3]


def test_a_stream_is_sealed(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "SEALED", 1)

    assert cli("stream", "seal", "SEALED", "--dry-run").code == 3
    assert cli("stream", "seal", "SEALED").code == 2
    assert cli("stream", "seal", "SEALED", "--force", "--json").ok().json["config"]["sealed"] is True
    assert "already" in cli("stream", "seal", "SEALED", "--force").ok().out
    assert cli("stream", "seal", "SEALED", "--dry-run").code == 0


# -- get, view


def test_a_message_is_shown(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "GET", 4)

    found = cli("stream", "get", "GET", "3", "--json").ok().json
    assert (found["stream"], found["sequence"], found["subject"]) == ("GET", 3, "get.odd")
    assert (json.loads(found["data"])["n"], found["headers"]) == (3, {"N": ["3"]})
    assert cli("stream", "get", "GET", "--last-for", "get.even", "--format", "{sequence}").ok().out == "4\n"
    assert cli("stream", "get", "GET", "--at", found["time"], "-q").ok().json["n"] == 3
    assert cli("stream", "get", "GET", "1", "--raw").ok().json["n"] == 1
    assert cli("stream", "get", "GET", "9").code == 4
    assert cli("stream", "get", "GET").code == 2
    assert cli("stream", "get", "GET", "1", "--last-for", "x").code == 2


@pytest.mark.parametrize("direct", [False, True], ids=["message gets", "direct gets"])
def test_messages_are_viewed(cli: CommandLine, assets: JetStreamAssets, direct: bool) -> None:
    filled(assets, "VIEW", 30, allow_direct=direct)
    for sequence in (2, 3, 29):
        assets.delete_message("VIEW", sequence)
    there = [number for number in range(1, 31) if number not in (2, 3, 29)]

    def seen(*flags: str) -> list[int]:
        return [line["sequence"] for line in cli("stream", "view", "VIEW", "--json", *flags).ok().json_lines]

    assert seen() == there[:20]
    assert seen("--all") == there
    assert seen("--reverse", "--limit", "3") == [30, 28, 27]
    assert seen("--reverse", "--all") == there[::-1]
    assert seen("--from", "27") == [27, 28, 30]
    assert seen("--subject", "view.even", "--limit", "3") == [4, 6, 8]
    assert seen("--subject", "view.odd", "--reverse", "--limit", "2") == [27, 25]
    assert seen("--match", '"w1', "--all") == [1, *range(10, 20)]
    assert seen("--where", "who.name=w12") == [12]
    assert seen("--where", "n>26", "--reverse") == [30, 28, 27]
    assert seen("--subject", "nothing.here") == []
    assert seen("--since", "1h", "--limit", "2") == [1, 4]
    assert seen("--limit", "0") == []
    assert cli("stream", "view", "VIEW", "--subject", "nothing", "--fail-empty").code == 4
    first = cli("stream", "view", "VIEW", "--limit", "1", "--json").ok().json
    assert (first["subject"], first["headers"], json.loads(first["data"])["n"]) == (
        "view.odd",
        {"N": ["1"]},
        1,
    )
    assert assets.stream_info("VIEW")["state"]["consumer_count"] == 0


def test_nothing_is_taken_from_a_work_queue(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "QUEUE", 3, retention="workqueue")

    assert len(cli("stream", "view", "QUEUE", "--json").ok().lines) == 3
    assert assets.stream_info("QUEUE")["state"]["messages"] == 3


def test_payloads_cannot_drive_the_terminal(cli: CommandLine, assets: JetStreamAssets) -> None:
    assets.create_stream({"name": "HOSTILE", "subjects": ["hostile"]})
    assets.api.publish("hostile", b"\x1b[2Jboo", headers={"H": "\x1b[31m"})

    assert "\x1b" not in cli("stream", "view", "HOSTILE").ok().out
    assert cli("stream", "view", "HOSTILE", "--raw").ok().raw == b"\x1b[2Jboo\n"
    with cli.terminal("stream", "view", "HOSTILE", "--raw", "--color", "never") as terminal:
        assert terminal.end() == 0
    assert "\x1b" not in terminal.seen
    assert "boo" in terminal.seen


def test_a_terminal_gets_a_table_that_fits(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "A" * 60, 1)

    with cli.terminal("stream", "ls", "--color", "never", width=80) as terminal:
        assert terminal.end() == 0
    lines = terminal.seen.splitlines()
    assert lines[0].split() == ["Name", "Subjects", "Messages", "Size", "Consumers", "Last", "message"]
    assert all(len(line) <= 80 for line in lines)


def test_a_pipe_that_closes_ends_it_quietly(cli: CommandLine, assets: JetStreamAssets) -> None:
    filled(assets, "PIPE", 300, allow_direct=True)

    with cli.started("stream", "view", "PIPE", "--all", "--json") as running:
        assert json.loads(running.line())["sequence"] == 1
        assert running.process.stdout is not None
        assert running.process.stderr is not None
        running.process.stdout.close()
        assert running.process.stderr.read() == b""
        assert running.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("width", [80, 200])
def test_an_info_is_shown_on_terminals(cli: CommandLine, assets: JetStreamAssets, width: int) -> None:
    filled(assets, "GOLDEN", 3, max_bytes=1 << 20, max_age=7 * 86_400_000_000_000, metadata={"team": "red"})

    with cli.terminal("stream", "info", "GOLDEN", "--color", "never", width=width) as terminal:
        assert terminal.end() == 0
    shown = [line.split(None, 1) for line in terminal.seen.splitlines()]
    facts = {each[0]: each[1] for each in shown if len(each) == 2}
    assert terminal.seen.startswith("Stream GOLDEN\n")
    assert (facts["subjects"], facts["storage"], facts["retention"]) == ("golden.>", "file", "limits")
    assert "  max bytes" in terminal.seen
    assert "1.0 MiB" in terminal.seen
    assert "  7d\n" in terminal.seen
    assert facts["messages"] == "3"
