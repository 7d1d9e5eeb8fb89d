"""Streams, consumers and messages of JetStream: made, looked at, changed and removed.

    with connect() as nc:
        assets = JetStreamAssets(JetStreamApi(nc))
        assets.create_stream({"name": "ORDERS", "subjects": ["orders.>"]})
        assets.message("ORDERS", last_of="orders.eu").data

Configurations and answers are the documents of the API, as the server says them: what a later server adds is
there, too. A refusal is an exception by its kind: `JetStreamMissingError` for what is not there,
`JetStreamExistsError` for what is there with other settings, else `JetStreamError` with the server's number.
Never lives here: one question and its answer (`jetstream_api`), reading (`consuming`, `jetstream`).
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.client.errors import JetStreamMissingError
from headrace.client.headers import STATUS, Headers, parse_headers
from headrace.client.jetstream_api import refusal
from headrace.errors import ProtocolError
from headrace.protocol.rfc3339 import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.client.jetstream_api import JetStreamApi

Document = dict[str, Any]

_STATUS_NOT_FOUND: Final = 404
_OWN_HEADERS: Final = frozenset(
    ("Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Last-Sequence",
     "Nats-Num-Pending", "Nats-UpTo-Sequence")
)  # fmt: skip
"""Headers that a direct get adds to those of the message."""


class StreamMessage(NamedTuple):
    """A stored message. `time_ns` is ns since 1970 UTC; `header_bytes` the size of the block of headers."""

    subject: str
    sequence: int
    time_ns: int
    data: bytes
    headers: Headers
    header_bytes: int


class JetStreamAssets:
    """The streams and consumers of an account.

    Raises, from every method: as `JetStreamApi.ask`; JetStreamMissingError, JetStreamExistsError.
    """

    def __init__(self, api: JetStreamApi) -> None:
        self.api = api

    def account(self) -> Document:
        """Return what the account uses and may use: the answer of `INFO`."""
        return self.api.ask("INFO")

    # -- streams

    def streams(
        self, subject: str | None = None, *, missing: Callable[[str, str], object] | None = None
    ) -> Iterator[Document]:
        """Yield the infos of all streams, or of those that take a subject, page by page.

        `missing` is called with the name of each stream whose servers did not tell their infos, and why.
        """
        request = {} if subject is None else {"subject": subject}
        yield from self._pages("STREAM.LIST", "streams", request, missing=missing)

    def stream_names(self, subject: str | None = None) -> Iterator[str]:
        """Yield the names of all streams, or of those that take a subject."""
        yield from self._pages("STREAM.NAMES", "streams", {} if subject is None else {"subject": subject})

    def stream_info(
        self, stream: str, *, subjects: str | None = None, with_deleted: bool = False
    ) -> Document:
        """Return the info of a stream. `subjects`: a filter of subjects whose messages are counted, too; they
        are in `state.subjects`, all of them. `with_deleted`: the sequences of removed messages, too.
        """
        request: Document = {"deleted_details": True} if with_deleted else {}
        if subjects is None:
            return self.api.ask(f"STREAM.INFO.{stream}", request or None)
        found = self.api.ask(f"STREAM.INFO.{stream}", {**request, "subjects_filter": subjects})
        counted: dict[str, int] = dict(found["state"].get("subjects") or {})
        while len(counted) < int(found.get("total", 0)):
            more = {"subjects_filter": subjects, "offset": len(counted)}
            page = self.api.ask(f"STREAM.INFO.{stream}", more)["state"].get("subjects") or {}
            if not page:
                break
            counted |= page
        found["state"]["subjects"] = counted
        for name in ("total", "offset", "limit"):
            found.pop(name, None)
        return found

    def create_stream(self, config: Mapping[str, object]) -> Document:
        """Make a stream; return its info. With the same configuration it may be there already."""
        return self.api.ask(f"STREAM.CREATE.{config['name']}", config)

    def update_stream(self, config: Mapping[str, object]) -> Document:
        """Change a stream to a whole configuration; return its info."""
        return self.api.ask(f"STREAM.UPDATE.{config['name']}", config)

    def delete_stream(self, stream: str) -> None:
        """Remove a stream with its messages and consumers."""
        self.api.ask(f"STREAM.DELETE.{stream}")

    def purge_stream(
        self, stream: str, *, subject: str | None = None, keep: int | None = None, before: int | None = None
    ) -> int:
        """Remove messages; return how many went.

        `subject`: only those of subjects that match. `keep`: so many of the last stay. `before`: only those
        with lower sequences.
        """
        request: Document = {}
        if subject is not None:
            request["filter"] = subject
        if keep is not None:
            request["keep"] = keep
        if before is not None:
            request["seq"] = before
        return int(self.api.ask(f"STREAM.PURGE.{stream}", request or None).get("purged", 0))

    # -- messages

    def message(
        self,
        stream: str,
        sequence: int | None = None,
        *,
        last_of: str | None = None,
        next_of: str | None = None,
        since_ns: int | None = None,
        direct: bool = False,
    ) -> StreamMessage:
        """Return a stored message: that of a sequence, the last one of a subject, or the first one from a
        sequence or time on, with `next_of` that of a subject which matches.

        `direct`: any server that has the stream answers; the stream has to allow that.

        Raises: JetStreamMissingError if there is none.
        """
        request: Document = {}
        if last_of is not None:
            request["last_by_subj"] = last_of
        if next_of is not None:
            request["next_by_subj"] = next_of
        if since_ns is not None:
            request["start_time"] = format_time(since_ns)
        elif sequence is not None or next_of is not None:
            request["seq"] = sequence or 0
        if direct:
            return self._direct(stream, request)
        try:
            answer = self.api.ask(f"STREAM.MSG.GET.{stream}", request)["message"]
            block = base64.b64decode(answer.get("hdrs", ""))
            return StreamMessage(
                subject=str(answer["subject"]),
                sequence=int(answer["seq"]),
                time_ns=parse_time(answer["time"]),
                data=base64.b64decode(answer.get("data", "")),
                headers=parse_headers(block) if block else {},
                header_bytes=len(block),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"not JetStream's answer about a message: {error!r}") from error

    def _direct(self, stream: str, request: Document) -> StreamMessage:
        import json

        answer = self.api.send(self.api.subject(f"DIRECT.GET.{stream}"), json.dumps(request).encode())
        status = answer.headers.get(STATUS)
        if status is not None:
            text = " ".join(answer.headers.get("Description", status))
            code = int(status[0]) if status[0].isdigit() else 500
            raise refusal(code, 10037 if code == _STATUS_NOT_FOUND else 0, text.lower())
        return stored_message(answer.headers, answer.data)

    def delete_message(self, stream: str, sequence: int, *, erase: bool = True) -> None:
        """Remove a message; with `erase` its bytes are overwritten."""
        self.api.ask(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": not erase})

    # -- consumers

    def consumers(self, stream: str) -> Iterator[Document]:
        """Yield the infos of the consumers of a stream, page by page."""
        yield from self._pages(f"CONSUMER.LIST.{stream}", "consumers", {})

    def consumer_names(self, stream: str) -> Iterator[str]:
        """Yield the names of the consumers of a stream."""
        yield from self._pages(f"CONSUMER.NAMES.{stream}", "consumers", {})

    def consumer_info(self, stream: str, consumer: str) -> Document:
        """Return the info of a consumer."""
        return self.api.ask(f"CONSUMER.INFO.{stream}.{consumer}")

    def create_consumer(self, stream: str, config: Mapping[str, object], *, action: str = "") -> Document:
        """Make or change a consumer; return its info.

        `action`: "create" refuses one that is there with other settings, "update" one that is not there.
        """
        name = config.get("name") or config.get("durable_name")
        request: Document = {"stream_name": stream, "config": dict(config)}
        if action:
            request["action"] = action
        verb = f"CONSUMER.CREATE.{stream}"
        if name:
            verb += f".{name}"
            filters = config.get("filter_subject")
            if filters:
                verb += f".{filters}"
        return self.api.ask(verb, request)

    def delete_consumer(self, stream: str, consumer: str) -> None:
        """Remove a consumer."""
        self.api.ask(f"CONSUMER.DELETE.{stream}.{consumer}")

    def pause_consumer(self, stream: str, consumer: str, until_ns: int | None) -> Document:
        """Pause a consumer until a time (ns since 1970 UTC), or resume it with None; return the answer."""
        request = None if until_ns is None else {"pause_until": format_time(until_ns)}
        return self.api.ask(f"CONSUMER.PAUSE.{stream}.{consumer}", request)

    def unpin_consumer(self, stream: str, consumer: str, group: str) -> None:
        """End the pin of a priority group: the client that pulls next has the messages."""
        self.api.ask(f"CONSUMER.UNPIN.{stream}.{consumer}", {"group": group})

    def reset_consumer(self, stream: str, consumer: str, sequence: int | None = None) -> Document:
        """Let a consumer begin again, at a sequence or behind what was acknowledged.

        Return its info, and `reset_seq`, where it begins. Servers do not answer for one that is not there:
        ClientTimeoutError.
        """
        request = {"seq": sequence} if sequence else None
        return self.api.ask(f"CONSUMER.RESET.{stream}.{consumer}", request)

    def _pages(
        self,
        verb: str,
        key: str,
        request: Mapping[str, object],
        *,
        missing: Callable[[str, str], object] | None = None,
    ) -> Iterator[Any]:
        offset = 0
        while True:
            page = self.api.ask(verb, {**request, "offset": offset})
            items: Sequence[Any] = page.get(key) or ()
            yield from items
            offset += len(items)
            if missing is not None:
                for name in page.get("missing") or ():
                    missing(str(name), "no answer")
                for name, reason in (page.get("offline") or {}).items():
                    missing(str(name), str(reason))
            if not items or offset >= int(page.get("total", 0)):
                return


def stored_message(headers: Headers, data: bytes) -> StreamMessage:
    """Return the stored message of a direct get's answer. Raises: ProtocolError, JetStreamMissingError."""
    try:
        sequence = int(headers["Nats-Sequence"][0])
        time_ns = parse_time(headers["Nats-Time-Stamp"][0])
        subject = headers["Nats-Subject"][0]
    except (KeyError, IndexError, ValueError) as error:
        if not headers:
            raise JetStreamMissingError(404, 10037, "no message found") from None
        raise ProtocolError(f"not the answer of a direct get: {error!r}") from error
    kept = {name: values for name, values in headers.items() if name not in _OWN_HEADERS}
    return StreamMessage(subject, sequence, time_ns, data, kept, 0)
