"""The rows of `schema`."""

from __future__ import annotations

from typing import Final

from headrace.cli.command_rows import CommandRow, JsonForm, JsonKey, ValueKind, WordArgument

_SCHEMA: Final = WordArgument("schema", "its id; io.nats.jetstream.api.v1. may be left out")
_ID: Final = JsonKey("schema", "the id of the schema")
_VALID: Final = JsonKey("valid", "true if the JSON fits")
_PROBLEMS: Final = JsonKey("problems", "what does not fit, and where: the first mistake")

ROWS: Final = (
    CommandRow(
        words=("schema", "ls"),
        summary="List the schemas of JetStream's API",
        run="api_schemas:list_all",
        aliases=("list", "search"),
        connects=False,
        lists=True,
        arguments=(WordArgument("filter", "only those with this in their id", count="?"),),
        json=JsonForm.LISTING,
        keys=(JsonKey("id", "the id"), JsonKey("description", "what it describes")),
        examples=("schema ls", "schema ls request -q"),
    ),
    CommandRow(
        words=("schema", "info"),
        summary="Show a schema",
        description="A JSON schema (draft 2020-12), made of the type by which Headrace reads or writes it.",
        run="api_schemas:info",
        aliases=("show",),
        connects=False,
        arguments=(_SCHEMA,),
        says="the schema",
        examples=("schema info stream_create_request",),
    ),
    CommandRow(
        words=("schema", "validate"),
        summary="Check JSON by a schema",
        description="Exit code 3 if it does not fit.",
        run="api_schemas:validate",
        aliases=("check",),
        connects=False,
        arguments=(_SCHEMA, WordArgument("file", "the JSON; - for standard input", ValueKind.FILE)),
        keys=(_ID, _VALID, _PROBLEMS),
        examples=("schema validate stream_configuration orders.json",),
    ),
    CommandRow(
        words=("schema", "request"),
        summary="Ask a server and check its answer by the schema that it names",
        description="Exit code 3 if the answer does not fit, 4 if it names no schema that is known, 6 if "
        "it is an error.",
        run="api_schemas:request",
        arguments=(
            WordArgument("subject", "the subject of the request", ValueKind.SUBJECT),
            WordArgument("body", "its body; - for standard input", count="?"),
        ),
        keys=(
            JsonKey("subject", "the subject of the request"),
            _ID,
            _VALID,
            _PROBLEMS,
            JsonKey("response", "the answer of the server, as it is"),
        ),
        examples=("schema request '$JS.API.INFO'", "schema request '$JS.API.STREAM.INFO.ORDERS' --json"),
    ),
)
