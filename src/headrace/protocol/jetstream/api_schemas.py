"""Schemas of the JetStream API: each made of the type that reads or describes the JSON, by its id.

Ids are those that the field uses: `io.nats.jetstream.api.v1.stream_create_request`; answers name theirs in
`type`. No schema lies in a file. Never lives here: the types (`configs`, `requests`, `response_types`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headrace.protocol.jetstream import requests, response_types
from headrace.protocol.jetstream.configs import ConsumerConfig, StreamConfig
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.pulls import PullRequest
from headrace.protocol.jetstream.responses import TYPE_PREFIX

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_INTERNAL: Final = "-"
"""The name of a field that stands in no JSON."""

API_TYPES: Final[dict[str, type[msgspec.Struct]]] = {
    "account_info_response": response_types.AccountInfoResponse,
    "consumer_configuration": ConsumerConfig,
    "consumer_create_request": requests.ConsumerRequest,
    "consumer_create_response": response_types.ConsumerDetails,
    "consumer_delete_response": response_types.SuccessResponse,
    "consumer_getnext_request": PullRequest,
    "consumer_info_response": response_types.ConsumerDetails,
    "consumer_leader_stepdown_request": requests.StepDownRequest,
    "consumer_leader_stepdown_response": response_types.SuccessResponse,
    "consumer_list_request": requests.ConsumersRequest,
    "consumer_list_response": response_types.ConsumerListResponse,
    "consumer_names_request": requests.ConsumersRequest,
    "consumer_names_response": response_types.ConsumerNamesResponse,
    "consumer_pause_request": requests.PauseRequest,
    "consumer_pause_response": response_types.ConsumerPauseResponse,
    "consumer_reset_request": requests.ResetRequest,
    "consumer_reset_response": response_types.ConsumerResetResponse,
    "consumer_unpin_request": requests.UnpinRequest,
    "consumer_unpin_response": response_types.ApiResponse,
    "pub_ack_response": response_types.PubAckResponse,
    "stream_configuration": StreamConfig,
    "stream_create_request": requests.StreamConfigRequest,
    "stream_create_response": response_types.StreamCreateResponse,
    "stream_delete_response": response_types.SuccessResponse,
    "stream_info_request": requests.StreamInfoRequest,
    "stream_info_response": response_types.StreamInfoResponse,
    "stream_leader_stepdown_request": requests.StepDownRequest,
    "stream_leader_stepdown_response": response_types.SuccessResponse,
    "stream_list_request": requests.StreamListRequest,
    "stream_list_response": response_types.StreamListResponse,
    "stream_msg_delete_request": requests.MessageDeleteRequest,
    "stream_msg_delete_response": response_types.SuccessResponse,
    "stream_msg_get_request": requests.MessageGetRequest,
    "stream_msg_get_response": response_types.MessageGetResponse,
    "stream_names_request": requests.StreamNamesRequest,
    "stream_names_response": response_types.StreamNamesResponse,
    "stream_purge_request": requests.PurgeRequest,
    "stream_purge_response": response_types.StreamPurgeResponse,
    "stream_remove_peer_request": requests.PeerRequest,
    "stream_remove_peer_response": response_types.SuccessResponse,
    "stream_restore_request": requests.RestoreRequest,
    "stream_restore_response": response_types.StreamRestoreResponse,
    "stream_snapshot_request": requests.SnapshotRequest,
    "stream_snapshot_response": response_types.StreamSnapshotResponse,
    "stream_update_request": requests.StreamConfigRequest,
    "stream_update_response": response_types.StreamDetails,
}
"""The type of each schema, by its id without `TYPE_PREFIX`."""


def short_id(schema: str) -> str | None:
    """Return an id without its prefix, which may be left out; None for a schema that is not known."""
    name = schema.removeprefix(TYPE_PREFIX)
    return name if name in API_TYPES else None


def summary_of(name: str) -> str:
    """Return in one line what the JSON of a schema is."""
    text = (API_TYPES[name].__doc__ or "").strip().split("\n")[0].partition(";")[0]
    return text.rstrip(".")


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON schema for an id without its prefix. Raises: KeyError."""
    kind = API_TYPES[name]
    (reference,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    whole = dict(parts.pop(reference["$ref"].rpartition("/")[2]))
    for part in (whole, *parts.values()):
        part.get("properties", {}).pop(_INTERNAL, None)
    schema_id = TYPE_PREFIX + name
    found = {"$schema": _DIALECT, "$id": schema_id, **whole, "title": schema_id}
    always = sorted(getattr(kind, "always", ())) if issubclass(kind, response_types.ApiResponse) else []
    if issubclass(kind, response_types.ApiResponse):
        found["properties"] = {**found["properties"], "type": {"const": schema_id}}
        found["required"] = ["type"]
        found["anyOf"] = [{"required": ["error"]}, {"required": always}]
    return found | ({"$defs": parts} if parts else {})


def problem_of(name: str, payload: bytes) -> str | None:
    """Return what is wrong with JSON by a schema, with the place; None for nothing. Raises: KeyError."""
    kind = API_TYPES[name]
    try:
        found = msgspec.json.decode(payload, type=kind)
        if issubclass(kind, requests.RequestBody | StreamConfig):
            requests.decode(kind, payload)  # numbers beyond 64 bits, and times
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
    except ApiError as error:
        return error.description
    if not isinstance(found, response_types.ApiResponse):
        return None
    if found.type != TYPE_PREFIX + name:
        return f"`type` is {found.type!r}, not {TYPE_PREFIX + name!r} - at `$.type`"
    if found.error is None:
        missing = sorted(found.always - msgspec.json.decode(payload).keys())
        if missing:
            return f"Object missing required field `{missing[0]}`"
    return None
