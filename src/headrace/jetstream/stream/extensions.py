"""Extensions of streams beyond the Go server: entries of their metadata, so other clients keep working.

`headrace.require_msg_id`: with `true`, a stream takes no publication without a `Nats-Msg-Id`.
`headrace.schema` and what begins so: the schemas of payloads (`headrace.schemas`). Never here: what that
comes to (`checks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.protocol.jetstream.errors import invalid
from headrace.subjects.grammar import overlaps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.protocol.jetstream.configs import StreamConfig
    from headrace.schemas.payloads import PayloadJudge

PREFIX: Final = "headrace."
REQUIRE_ID: Final = PREFIX + "require_msg_id"
CHECK_PAYLOADS: Final = PREFIX + "schema.check"


def requires_id(config: StreamConfig) -> bool:
    """True if a stream takes no publication without an id."""
    return config.metadata.get(REQUIRE_ID) == "true"


def checks_payloads(config: StreamConfig) -> bool:
    """True if a stream takes no payload that does not fit its schema."""
    return config.metadata.get(CHECK_PAYLOADS) == "true"


def payload_judge(metadata: Mapping[str, str]) -> PayloadJudge:
    """Make the judge of payloads by the schemas in a stream's metadata.

    Raises: SchemaError for a schema that cannot be used, or whose package is not installed.
    """
    # Most servers have no stream with a schema, and need no reader of any.
    from headrace.schemas.metadata import read_schemas
    from headrace.schemas.payloads import PayloadJudge

    return PayloadJudge(read_schemas(metadata))


def check_extensions(config: StreamConfig) -> None:
    """Check the extensions in a configuration's metadata.

    Raises: ApiError 10052 for an unknown entry, or a bad value.
    """
    others = []
    for key, value in config.metadata.items():
        if key == REQUIRE_ID:
            if value not in ("true", "false"):
                raise invalid(f"metadata {key}: true or false is needed")
        elif key.startswith(PREFIX):
            others.append(key)
    if others:
        _check_schemas(config, others)


def _check_schemas(config: StreamConfig, keys: list[str]) -> None:
    from headrace.schemas.errors import SchemaError
    from headrace.schemas.metadata import is_schema_key, read_schemas

    for key in keys:
        if not is_schema_key(key):
            raise invalid(f"metadata {key}: unknown")
    try:
        judge = payload_judge(config.metadata)
        filters = [one.filter for one in read_schemas(config.metadata).schemas]
    except SchemaError as error:
        raise invalid(f"metadata {error}") from error
    if config.mirror is None and not config.sources and config.subject_transform is None:
        _check_filters(filters, config.subjects or [config.name])
    if not checks_payloads(config):
        return
    if not judge.is_bounded:
        raise invalid(f"metadata {CHECK_PAYLOADS}: regular expressions may take any time; leave them out")
    if config.allow_msg_counter:
        raise invalid(f"metadata {CHECK_PAYLOADS}: a counter has no payloads of its publishers")


def _check_filters(filters: list[str], subjects: list[str]) -> None:
    for one in filters:
        if one and not any(overlaps(one.encode(), subject.encode()) for subject in subjects):
            raise invalid(f"metadata {PREFIX}schema@{one}: no subject of the stream matches")
