"""`headrace context`: connections that are saved, beside the tool `nats`."""

from __future__ import annotations

import json
import stat
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from harness.certificates import Authority, tls_config
from harness.command_line import CommandLine
from harness.processes import SIDES, Program, ServerProcess

if TYPE_CHECKING:
    from pathlib import Path


def file_of(cli: CommandLine, name: str) -> Path:
    return cli.folder / "config" / "nats" / "context" / f"{name}.json"


def write(cli: CommandLine, name: str, **fields: Any) -> None:
    path = file_of(cli, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(fields))
    path.chmod(0o600)


def test_a_context_is_saved_selected_and_used(cli: CommandLine) -> None:
    url, cli.url = cli.url, ""

    made = cli("context", "add", "here", "-s", url, "--user", "alice", "--password", "secret", "--select")
    found = cli("context", "validate", "--connect", "--json").ok().json["items"]

    assert made.ok().err == ""
    assert stat.S_IMODE(file_of(cli, "here").stat().st_mode) == 0o600
    assert json.loads(file_of(cli, "here").read_text()) == {
        "url": url, "user": "alice", "password": "secret"
    }  # fmt: skip
    assert cli("rtt", "1", "--json").ok().json["server"] == url
    assert [(item["name"], item["valid"], item["user"]["account"]) for item in found] == [("here", True, "A")]
    assert cli("context", "info", "--json").ok().json["fields"]["password"] == "[set]"
    assert "secret" not in cli("context", "info").ok().out


def test_contexts_are_listed_copied_and_removed(alone: CommandLine) -> None:
    alone("context", "add", "one", "-s", "nats://one").ok()
    alone("context", "copy", "one", "two").ok()

    assert alone("context", "add", "two").code == 10
    assert alone("context", "ls", "-q").ok().lines == ["one", "two"]
    refused = alone("context", "rm", "one")
    assert (refused.code, file_of(alone, "one").exists()) == (2, True)
    alone("context", "rm", "one", "--force").ok()
    assert alone("context", "rm", "one", "-f").code == 4
    alone("context", "rm", "one", "--if-exists").ok()
    alone("ctx", "rm", "two", "-f").ok()
    assert alone("context", "ls", "--fail-empty").code == 4


def test_a_person_is_asked_before_a_context_goes(alone: CommandLine) -> None:
    alone("context", "add", "gone").ok()

    with alone.terminal("context", "rm", "gone") as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("n\n")
        assert terminal.end() == 2
    assert file_of(alone, "gone").exists()
    with alone.terminal("context", "rm", "gone") as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert not file_of(alone, "gone").exists()


@pytest.mark.parametrize(("flags", "variables"), [(("--no-interaction",), {}), ((), {"CI": "true"})])
def test_nobody_is_asked_where_that_is_said(
    alone: CommandLine, flags: tuple[str, ...], variables: dict[str, str]
) -> None:
    alone("context", "add", "kept").ok()

    with alone.terminal("context", "rm", "kept", *flags, **variables) as terminal:
        assert terminal.end() == 2
    assert file_of(alone, "kept").exists()


def test_the_one_before_is_selected_again(alone: CommandLine) -> None:
    assert alone("context", "previous").code == 4
    for name in ("one", "two"):
        alone("context", "add", name, "--select").ok()

    assert alone("context", "previous", "-q").ok().out == "one\n"
    assert (alone.folder / "config/nats/context.txt").read_text() == "one"
    assert (alone.folder / "config/nats/previous-context.txt").read_text() == "two"
    alone("context", "unselect").ok()
    assert alone("context", "info").code == 4


def test_fields_of_other_programs_survive_a_change(alone: CommandLine) -> None:
    write(alone, "theirs", url="nats://a", color_scheme="blue", windows_ca_certs_match=["x"], nsc="")

    alone("context", "edit", "theirs", "-s", "nats://b", "--description", "mine").ok()
    alone("context", "edit", "theirs", "--description", "").ok()

    assert json.loads(file_of(alone, "theirs").read_text()) == {
        "url": "nats://b", "color_scheme": "blue", "windows_ca_certs_match": ["x"], "nsc": ""
    }  # fmt: skip


def test_a_context_says_where_events_of_jetstream_are(cli: CommandLine) -> None:
    write(cli, "hub", url=cli.url, jetstream_event_prefix="JS.hub.EVENT")

    ran = cli("events", "--js-metric", "--js-advisory", "--for", "1ms", "--context", "hub").ok()

    assert ran.err == "listening on JS.hub.EVENT.ADVISORY.>, JS.hub.EVENT.METRIC.>\n"


def test_values_of_references_are_found(cli: CommandLine) -> None:
    (cli.folder / "secret").write_text("secret\n")
    cli.variables["MY_USER"] = "alice"
    write(cli, "file", url=cli.url, user="env://MY_USER", password=f"file://{cli.folder}/secret")
    write(cli, "data", url=cli.url, user="alice", password="data:;base64,c2VjcmV0")

    for name in ("file", "data"):
        assert cli("account", "info", "--context", name, "--json").ok().json["user"]["user"] == "alice"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"password": "op://vault/item", "user": "a"}, "store of another program (op://)"),
        ({"creds": "nsc://op/acc/user"}, "store of another program (nsc://)"),
        ({"nsc": "nsc://op"}, "uses nsc, which this client does not support"),
        ({"user": "env://NOT_SET_AT_ALL"}, "the variable NOT_SET_AT_ALL is not set"),
        ({"user": "a", "password": "data:,plain"}, "password is not data:;base64"),
        ({"user_jwt": "x"}, "user_jwt and user_seed need each other"),
        ({"creds": "/no/such/file"}, "cannot read /no/such/file"),
        ({"url": 5}, "url is not a text"),
    ],
)
def test_what_a_context_asks_for_and_cannot_be_had_is_said(
    alone: CommandLine, fields: dict[str, Any], text: str
) -> None:
    write(alone, "bad", **fields)

    (item,) = alone("context", "validate", "--json").json["items"]

    assert alone("context", "validate").code == 3
    assert text in item["error"]
    assert alone("rtt", "--context", "bad").code == 7


def test_a_context_that_is_not_there_is_4(alone: CommandLine) -> None:
    for arguments in (("rtt", "--context", "no"), ("context", "select", "no"), ("context", "info", "no")):
        ran = alone(*arguments, "--json")
        assert (ran.code, ran.error["kind"]) == (4, "not_there")


def test_names_that_are_paths_are_refused(alone: CommandLine) -> None:
    for name in ("../x", "a/b", ".hidden"):
        assert alone("context", "add", name).code == 7


@pytest.mark.parametrize("program", SIDES.values(), ids=list(SIDES))
def test_the_ends_of_certificates_are_shown(program: Program, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    pair = authority.issue("server")
    with ServerProcess(program, tmp_path, config=tls_config(pair)) as server:
        cli = CommandLine(tmp_path, server.url)
        write(
            cli,
            "secure",
            url=server.url,
            ca=str(authority.file),
            cert=str(pair.certificate),
            key=str(pair.key),
        )
        (item,) = cli("context", "validate", "--connect", "--json").ok().json["items"]
        text = cli("context", "validate", "secure", "--connect").ok().out

    ends = f"{pair.x509.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    assert (item["certificate_ends"], item["server_certificate_ends"]) == (ends, ends)
    assert item["authorities_end"] == f"{authority.certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    assert f"the server's certificate ends at {ends}" in text


def test_a_certificate_that_has_ended_is_wrong(alone: CommandLine, tmp_path: Path) -> None:
    pair = Authority(tmp_path, "authority").issue("old", shift=timedelta(days=-9000))
    write(alone, "old", cert=str(pair.certificate), key=str(pair.key))
    write(alone, "none", cert=str(pair.key), key=str(pair.key))

    ran = alone("context", "validate", "--json")
    none, old = ran.json["items"]

    assert ran.code == 3
    assert "its certificate has ended at" in old["error"]
    assert str(pair.key) in none["error"]
