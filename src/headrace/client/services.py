"""Services: found, and served, as the micro clients of NATS do it.

    with connect() as nc:
        service = ServiceInstance(nc, "greeter", version="1.0.0")
        service.add_endpoint("greet", "greet.*")
        for request in service.requests():
            request.answer(b"hello")

An instance answers `$SRV.PING`, `$SRV.INFO`, `$SRV.STATS` and `$SRV.SCHEMA` between its requests, for
all, for those of its name, and for itself. Never lives here: what is answered. Source: NATS ADR 32.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from headrace.client.headers import Headers, parse_headers
from headrace.client.system import QUIET, document_of, gather
from headrace.errors import ProtocolError, on_one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.client.blocking import Connection

PREFIX: Final = "$SRV"
QUEUE: Final = "q"
"""The queue group of endpoints where no other is said."""
ERROR: Final = "Nats-Service-Error"
ERROR_CODE: Final = "Nats-Service-Error-Code"

_VERBS: Final = ("PING", "INFO", "STATS", "SCHEMA")
_TYPE: Final = "io.nats.micro.v1"
_NAME: Final = r"[A-Za-z0-9_-]+"
_VERSION: Final = r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?"
_SCHEMALESS: Final = {"request": "", "response": ""}

Document = dict[str, Any]


def service_subject(verb: str, name: str | None = None, instance: str | None = None) -> str:
    """Return the subject on which services, those of a name, or one instance are asked."""
    return ".".join(filter(None, (PREFIX, verb, name, instance)))


def ask_services(
    connection: Connection,
    verb: str,
    name: str | None = None,
    instance: str | None = None,
    *,
    count: int | None = None,
    quiet: float = QUIET,
    timeout: float = 5.0,
) -> Iterator[Document | ProtocolError]:
    """Yield the answers of instances as they come; an answer that is no document is yielded as its error.

    `verb`: PING, INFO, STATS or SCHEMA. The answers end after `count` of them, or `quiet` seconds of silence.
    Raises: NoRespondersError if there is no such service; what ends the connection.
    """
    if instance is not None:
        count = 1
    subject = service_subject(verb, name, instance)
    for answer in gather(connection, subject, count=count, quiet=quiet, timeout=timeout):
        try:
            yield document_of(answer)
        except ProtocolError as error:
            yield error


class ServiceEndpoint(Struct):
    """An endpoint of a service: where it is asked, and how often it was. Times are ns."""

    name: str
    subject: str
    queue: str
    metadata: dict[str, str] = field(default_factory=dict)
    schema: Document = field(default_factory=lambda: dict(_SCHEMALESS))
    requests: int = 0
    errors: int = 0
    last_error: str = ""
    processing_ns: int = 0

    def described(self) -> Document:
        """Return the endpoint as `INFO` tells it."""
        return {
            "name": self.name,
            "subject": self.subject,
            "queue_group": self.queue,
            "metadata": self.metadata,
        }

    def counted(self) -> Document:
        """Return the endpoint as `STATS` tells it."""
        return {
            "name": self.name,
            "subject": self.subject,
            "queue_group": self.queue,
            "num_requests": self.requests,
            "num_errors": self.errors,
            "last_error": self.last_error,
            "processing_time": self.processing_ns,
            "average_processing_time": self.processing_ns // self.requests if self.requests else 0,
            "data": None,
        }


class ServiceRequest(Struct):
    """A request to an endpoint: to be answered once, with `answer` or `fail`."""

    endpoint: ServiceEndpoint
    subject: str
    data: bytes
    reply: str | None
    headers: Headers
    connection: Connection
    began_ns: int

    def answer(self, data: bytes = b"", *, headers: Mapping[str, str | Iterable[str]] | None = None) -> None:
        """Answer the request; the answer leaves with the next one, or `flush`."""
        self.endpoint.processing_ns += time.perf_counter_ns() - self.began_ns
        if self.reply is not None:
            self.connection.publish(self.reply, data, headers=headers)

    def fail(
        self,
        code: int,
        text: str,
        data: bytes = b"",
        *,
        headers: Mapping[str, str | Iterable[str]] | None = None,
    ) -> None:
        """Answer the request with an error, whose code is as in HTTP; it is counted."""
        line = on_one_line(text)
        self.endpoint.errors += 1
        self.endpoint.last_error = f"{code}:{line}"
        self.answer(data, headers={**(headers or {}), ERROR_CODE: str(code), ERROR: line})


class ServiceInstance:
    """An instance of a service on a connection, also on one that comes back by itself.

    `name` and names of endpoints have letters, digits, - and _; `version` is a semantic one. `id` is its own.

    Raises: ValueError for another name or version.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        *,
        version: str = "0.0.1",
        description: str = "",
        metadata: Mapping[str, str] | None = None,
        queue: str = QUEUE,
    ) -> None:
        _check_name(name)
        if re.fullmatch(_VERSION, version) is None:
            raise ValueError(f"{version!r}: not a version such as 1.2.3")
        self.id = os.urandom(11).hex()
        self.name = name
        self.version = version
        self.description = description
        self.metadata = dict(metadata or {})
        self.queue = queue
        self.endpoints: list[ServiceEndpoint] = []
        self._connection = connection
        self._by_sid: dict[bytes, ServiceEndpoint] = {}
        self._verbs: dict[bytes, str] = {}
        self._started_ns = time.time_ns()
        for verb in _VERBS:
            for subject in (
                service_subject(verb),
                service_subject(verb, name),
                service_subject(verb, name, self.id),
            ):
                self._verbs[connection.subscribe(subject)] = verb

    def add_endpoint(
        self,
        name: str,
        subject: str | None = None,
        *,
        queue: str | None = None,
        metadata: Mapping[str, str] | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> ServiceEndpoint:
        """Add an endpoint; its subject is its name where no other is said.

        `schema`: what it takes and gives, `request` and `response`. Raises: ValueError for a name.
        """
        _check_name(name)
        endpoint = ServiceEndpoint(
            name,
            subject or name,
            queue or self.queue,
            dict(metadata or {}),
            {**_SCHEMALESS, **(schema or {})},
        )
        self._by_sid[self._connection.subscribe(endpoint.subject, endpoint.queue)] = endpoint
        self.endpoints.append(endpoint)
        return endpoint

    def requests(self, timeout: float | None = None) -> Iterator[ServiceRequest]:
        """Yield the requests as they come, until none came for `timeout` seconds (None: for ever).

        A request is to be answered before the next one is taken. Raises: what ends the connection.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            batch = self._connection.receive(left)
            if not batch:
                return
            for head, block, payload in zip(batch.heads, batch.header_blocks(), batch.payloads, strict=True):
                reply = None if head[2] is None else head[2].decode("utf-8", "backslashreplace")
                verb = self._verbs.get(head[1])
                if verb is not None:
                    if reply is not None:
                        self._connection.publish(reply, json.dumps(self.told(verb)).encode())
                    continue
                endpoint = self._by_sid.get(head[1])
                if endpoint is None:
                    continue
                endpoint.requests += 1
                yield ServiceRequest(
                    endpoint,
                    head[0].decode("utf-8", "backslashreplace"),
                    bytes(payload),
                    reply,
                    {} if block is None else parse_headers(block),
                    self._connection,
                    time.perf_counter_ns(),
                )
                if timeout is not None:
                    deadline = time.monotonic() + timeout

    def told(self, verb: str) -> Document:
        """Return what the instance answers to a verb: PING, INFO, STATS or SCHEMA."""
        found: Document = {
            "type": f"{_TYPE}.{verb.lower()}_response",
            "name": self.name,
            "id": self.id,
            "version": self.version,
            "metadata": self.metadata,
        }
        if verb == "INFO":
            found["description"] = self.description
            found["endpoints"] = [endpoint.described() for endpoint in self.endpoints]
        elif verb == "STATS":
            found["started"] = _to_the_ms(self._started_ns)
            found["endpoints"] = [endpoint.counted() for endpoint in self.endpoints]
        elif verb == "SCHEMA":
            found["endpoints"] = [
                {"name": endpoint.name, "subject": endpoint.subject, "schema": endpoint.schema}
                for endpoint in self.endpoints
            ]
        return found


def _check_name(name: str) -> None:
    if re.fullmatch(_NAME, name) is None:
        raise ValueError(f"{name!r}: a name has letters, digits, - and _")


def _to_the_ms(ns: int) -> str:
    """A time as every client of services reads it: RFC 3339 with three digits of fraction."""
    from headrace.protocol.rfc3339 import format_second

    second, rest = divmod(ns, 1_000_000_000)
    return f"{format_second(second)}.{rest // 1_000_000:03d}Z"
