"""Keys of JSON that several commands print: of messages, listings and errors.

Here live their names and meanings, and messages as documents. Never lives here: keys of one command, which
are in its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.cli.command_rows import JsonKey

if TYPE_CHECKING:
    from collections.abc import Mapping

LISTING_KEYS: Final = (
    JsonKey("items", "the items, each an object"),
    JsonKey("total", "how many there are"),
    JsonKey("truncated", "true if there are more than are listed"),
    JsonKey(
        "errors",
        "servers that did not answer: objects with `server`, or the `name` of what they have, and `error`; "
        "absent without one",
    ),
)

ERROR_KEYS: Final = (
    JsonKey("error.kind", "the kind of the error: the names of the exit codes"),
    JsonKey("error.text", "the text for people"),
    JsonKey("error.code", "the code of the server's answer, as in HTTP"),
    JsonKey("error.err_code", "JetStream's number of the reason"),
    JsonKey("error.expected", "the revision of a key that was expected"),
    JsonKey("error.revision", "the last revision that the key has"),
)

MESSAGE_KEYS: Final = (
    JsonKey("subject", "the subject"),
    JsonKey("reply", "the reply subject"),
    JsonKey("headers", "the headers: to each name its values, in order"),
    JsonKey("data", "the body, where it is UTF-8"),
    JsonKey("data_base64", "the body in base64, where it is not UTF-8"),
    JsonKey("size_bytes", "the bytes of headers and body"),
    JsonKey("received", "the time at which this program received the message"),
    JsonKey("stream", "the stream that stored the message"),
    JsonKey("sequence", "its sequence in the stream"),
    JsonKey("time", "the time at which it was stored"),
    JsonKey("deliveries", "how often it was delivered"),
    JsonKey("pending", "how many messages follow in the consumer"),
)

BACKUP_KEYS: Final = (
    JsonKey("stream", "the stream"),
    JsonKey("directory", "the directory of its backup"),
    JsonKey("done", "true if it was written or restored; false with --dry-run, or if it was there already"),
    JsonKey("size_bytes", "the bytes of the archive"),
    JsonKey("messages", "how many messages the backup has, or the stream that was restored"),
    JsonKey("consumers", "how many consumers; absent where the backup was not read again"),
    JsonKey("first_sequence", "the first sequence"),
    JsonKey("last_sequence", "the last sequence"),
    JsonKey("differs", "what differs from what was expected; absent where nothing does"),
    JsonKey("error", "of an account: why this stream was not done; absent where it was"),
)


def message_document(
    subject: str,
    data: bytes,
    *,
    reply: str | None = None,
    headers: Mapping[str, list[str]] | None = None,
    header_bytes: int = 0,
    received_ns: int | None = None,
    stream: str | None = None,
    sequence: int | None = None,
    time_ns: int | None = None,
    deliveries: int | None = None,
    pending: int | None = None,
) -> dict[str, Any]:
    """Return a message as a document; what is not known is absent."""
    from headrace.cli.values import exact_time

    found: dict[str, Any] = {"subject": subject}
    if reply is not None:
        found["reply"] = reply
    if headers:
        found["headers"] = dict(headers)
    found |= body_document(data)
    found["size_bytes"] = len(data) + header_bytes
    if received_ns is not None:
        found["received"] = exact_time(received_ns)
    rest = {
        "stream": stream,
        "sequence": sequence,
        "time": None if time_ns is None else exact_time(time_ns),
        "deliveries": deliveries,
        "pending": pending,
    }
    return found | {name: value for name, value in rest.items() if value is not None}


def body_document(data: bytes) -> dict[str, str]:
    """Return a body as `data`, or as `data_base64` where it is not UTF-8."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"data_base64": b64encode(data).decode()}
