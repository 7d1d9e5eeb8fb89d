"""`headrace schema`: schemas of JetStream's API, and answers of both servers by them."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from harness.waiting import PATIENCE
from headrace.client.blocking import connect
from headrace.protocol.jetstream import api_schemas
from headrace.protocol.jetstream.responses import TYPE_PREFIX

if TYPE_CHECKING:
    from harness.command_line import CommandLine, Ran

STREAM = {"name": "SCHEMA", "subjects": ["schema.>"], "storage": "memory", "allow_direct": True}
CONSUMER = {"stream_name": "SCHEMA", "config": {"name": "C", "durable_name": "C", "ack_policy": "explicit"}}
ASKED: list[tuple[str, dict[str, Any] | None]] = [
    ("INFO", None),
    ("STREAM.CREATE.SCHEMA", STREAM),
    ("STREAM.UPDATE.SCHEMA", {**STREAM, "description": "d"}),
    (
        "STREAM.CREATE.SCHEMA_MIRROR",
        {"name": "SCHEMA_MIRROR", "storage": "memory", "mirror": {"name": "SCHEMA"}},
    ),
    (
        "STREAM.CREATE.SCHEMA_SOURCED",
        {
            "name": "SCHEMA_SOURCED",
            "storage": "memory",
            "sources": [{"name": "SCHEMA", "filter_subject": "schema.a"}],
        },
    ),
    ("CONSUMER.CREATE.SCHEMA.C", CONSUMER),
    ("CONSUMER.INFO.SCHEMA.C", None),
    ("CONSUMER.PAUSE.SCHEMA.C", {"pause_until": "2099-01-01T00:00:00Z"}),
    ("CONSUMER.LIST.SCHEMA", None),
    ("CONSUMER.NAMES.SCHEMA", None),
    ("STREAM.MSG.GET.SCHEMA", {"seq": 1}),
    ("STREAM.INFO.SCHEMA", {"subjects_filter": ">", "deleted_details": True}),
    ("STREAM.INFO.SCHEMA_MIRROR", None),
    ("STREAM.INFO.SCHEMA_SOURCED", None),
    ("STREAM.LIST", None),
    ("STREAM.NAMES", None),
    ("STREAM.MSG.DELETE.SCHEMA", {"seq": 1}),
    ("STREAM.PURGE.SCHEMA", None),
    ("CONSUMER.RESET.SCHEMA.C", None),
    ("CONSUMER.DELETE.SCHEMA.C", None),
    ("STREAM.DELETE.SCHEMA_SOURCED", None),
    ("STREAM.DELETE.SCHEMA_MIRROR", None),
    ("STREAM.DELETE.SCHEMA", None),
    ("STREAM.NAMES", {"subject": "schema.nothing"}),
]
"""Requests in an order in which all succeed."""


def ask(cli: CommandLine, name: str, body: dict[str, Any] | None) -> Ran:
    arguments = [] if body is None else [json.dumps(body)]
    return cli("schema", "request", f"$JS.API.{name}", *arguments, "--json")


def test_answers_of_both_servers_fit(cli: CommandLine) -> None:
    for name, body in ASKED:
        ran = ask(cli, name, body)

        assert ran.code == 0, (name, ran.out, ran.err)
        assert ran.json["schema"].startswith(TYPE_PREFIX)
        if name.startswith("CONSUMER.CREATE"):
            cli("pub", "schema.a", "x", "-J", "-H", "A:b", "-q").ok()
            cli("pub", "schema.b", "y", "-J", "-q").ok()


def test_a_refusal_fits_and_is_6(cli: CommandLine) -> None:
    ran = ask(cli, "STREAM.INFO.NO_SUCH_STREAM", None)

    assert (ran.code, ran.json["valid"]) == (6, True)
    assert ran.json["response"]["error"]["err_code"] == 10059
    assert cli("schema", "request", "$JS.API.STREAM.INFO.NO_SUCH_STREAM").code == 6


ODD: list[tuple[str, int]] = [
    (f'{{"type":"{TYPE_PREFIX}stream_names_response"}}', 3),
    (f'{{"type":"{TYPE_PREFIX}stream_delete_response","success":1}}', 3),
    (f'{{"type":"{TYPE_PREFIX}stream_delete_response","success":true,"more":1}}', 3),
    ("nothing", 3),
    ("[]", 3),
    ("[" * 5000, 3),
    ('{"type":"io.nats.unknown"}', 4),
    ("{}", 4),
]
"""Answers that are none of the API, and the exit code for each."""


def test_an_answer_that_does_not_fit_is_3_and_one_without_type_4(cli: CommandLine) -> None:
    with connect(cli.url) as connection:
        connection.subscribe("schema.reply")
        connection.flush()

        def answer() -> None:
            for body, _ in ODD:
                question = next(connection.messages(PATIENCE))
                assert question.reply is not None
                connection.publish(question.reply, body.encode())
                connection.flush()

        service = threading.Thread(target=answer)
        service.start()
        codes = [(body, cli("schema", "request", "schema.reply").code) for body, _ in ODD]
        service.join()

    assert codes == ODD


@pytest.mark.parametrize("name", api_schemas.API_TYPES)
def test_each_schema_is_whole(alone: CommandLine, name: str) -> None:
    found = alone("schema", "info", name, "--json").ok().json
    text = json.dumps(found)

    assert found["$id"] == found["title"] == TYPE_PREFIX + name
    assert found["type"] == "object"
    assert found["properties"]
    for part in text.split('"#/$defs/')[1:]:
        assert part.partition('"')[0] in found["$defs"]
    assert '"-"' not in text


def test_schemas_are_listed(alone: CommandLine) -> None:
    every = alone("schema", "ls", "--json").ok().json
    some = alone("schema", "ls", "pause", "-q").ok().lines

    assert every["total"] == len(api_schemas.API_TYPES)
    assert all(each["description"] for each in every["items"])
    assert some == [f"{TYPE_PREFIX}consumer_pause_{way}" for way in ("request", "response")]
    assert alone("schema", "ls", "nothing", "--fail-empty").code == 4
    assert alone("schema", "info", "nothing").code == 4
    assert f"{TYPE_PREFIX}stream_configuration\tThe configuration of a stream" in alone("schema", "ls").lines


@pytest.mark.parametrize(
    ("schema", "body", "problem"),
    [
        ("stream_configuration", {"name": "S", "max_msgs": 5, "storage": "memory"}, None),
        (TYPE_PREFIX + "stream_create_request", {"name": "S", "pedantic": True}, None),
        ("stream_configuration", {"max_msgs": "five"}, "$.max_msgs"),
        ("stream_configuration", {"max_mgs": 5}, "max_mgs"),
        ("stream_configuration", {"storage": "paper"}, "$.storage"),
        ("stream_configuration", {"first_seq": 1 << 70}, "first_seq"),
        ("stream_configuration", {"sources": [{"name": "A", "opt_start_time": "soon"}]}, "soon"),
        ("consumer_create_request", {"config": {"ack_wait": 1.5}}, "$.config.ack_wait"),
        ("consumer_getnext_request", {"batch": 10, "expires": 1}, None),
        ("pub_ack_response", {"stream": "S", "seq": 1}, None),
        ("stream_names_response", {"type": TYPE_PREFIX + "stream_list_response"}, "$.type"),
    ],
)
def test_files_are_checked(alone: CommandLine, schema: str, body: object, problem: str | None) -> None:
    ran = alone("schema", "validate", schema, "-", "--json", stdin=json.dumps(body).encode())

    assert ran.code == (0 if problem is None else 3)
    assert ran.json["valid"] is (problem is None)
    if problem is not None:
        assert problem in ran.json["problems"][0]


def test_what_is_no_json_is_3_and_a_missing_file_4(alone: CommandLine) -> None:
    for data in (b"", b"{", b"[]", b"\xff"):
        assert alone("schema", "validate", "stream_configuration", "-", stdin=data).code == 3
    assert alone("schema", "validate", "stream_configuration", str(alone.folder / "none")).code == 4
