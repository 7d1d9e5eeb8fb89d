"""The API of an account as a subscription: what comes in goes to a consumer, a stream or a request.

The requests (`endpoints`) are imported with the first one: a start does not wait for them. What is no request
at all is not answered, as the Go server does. Source: JetStream specification, 1.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.service import Delivery
    from headrace.jetstream.account import AccountJetStream
    from headrace.jetstream.api.request import Endpoint, Request

    Find = Callable[[bytes], tuple[Endpoint, list[str]] | None]

START: Final = b".API."
"""Tokens in front of the rest of a request's subject, the first time."""
_NEXT: Final = b"CONSUMER.MSG.NEXT."
_DIRECT: Final = b"DIRECT.GET."
PUBLISHED_ALONE: Final = (_NEXT, _DIRECT)
"""Requests that consumers and streams of the Go server receive themselves: without one nobody responds."""
_STORES: Final = (b"$KV.", b"$OBJ.")
_PULL_TOKENS: Final = 2
_FAILED_HERE: Final = b"NATS/1.0 500 Internal Server Error\r\n\r\n"
"""The status line for a pull or a direct get that met a mistake of ours."""


class Api:
    """Receives what is published to `$JS.API.>` of one account, and to the same of its domain."""

    def __init__(self, account: AccountJetStream) -> None:
        self._account = account

    def receive(self, delivery: Delivery) -> None:
        subject = delivery.subject
        rest = subject[subject.index(START) + len(START) :]
        if rest.startswith(PUBLISHED_ALONE):
            self._serve(rest, delivery)
        else:
            self._request(rest, delivery)

    def receive_by_domain(self, delivery: Delivery) -> None:
        """Take a request from clients of other servers, which have no mappings for this domain."""
        subject = delivery.subject
        rest = subject[subject.index(START) + len(START) :]
        if rest.startswith(_STORES):
            self._account.publish(rest, delivery.payload, reply=delivery.reply, headers=delivery.headers)
        else:
            self.receive(delivery)

    def _serve(self, rest: bytes, delivery: Delivery) -> None:
        """Serve a request that is answered with messages or a status."""
        try:
            if rest.startswith(_NEXT):
                self._pull(rest[len(_NEXT) :], delivery)
            else:
                self._get_directly(rest[len(_DIRECT) :], delivery)
        except Exception as error:  # noqa: BLE001 - whatever it is: it is logged, and who asked is told
            self._account.mistaken(error, delivery.subject)
            if delivery.reply:
                self._account.publish(delivery.reply, b"", headers=_FAILED_HERE)

    def _pull(self, names: bytes, delivery: Delivery) -> None:
        tokens = names.split(b".")
        consumer = self._account.consumer(*tokens) if len(tokens) == _PULL_TOKENS else None
        if consumer is None:
            self._nobody(delivery)
        else:
            consumer.request(delivery)

    def _get_directly(self, names: bytes, delivery: Delivery) -> None:
        name, _, subject = names.partition(b".")
        self._account.flush()
        if not self._account.get_directly(name, subject, delivery):
            self._nobody(delivery)

    def _nobody(self, delivery: Delivery) -> None:
        if delivery.reply:
            self._account.answer_nobody(delivery.reply, delivery.subject)

    @cached_property
    def _requests(self) -> tuple[Find, type[Request]]:
        """`endpoints.find` and the class of requests, imported once for all requests."""
        from headrace.jetstream.api.endpoints import find
        from headrace.jetstream.api.request import Request

        return find, Request

    def _request(self, rest: bytes, delivery: Delivery) -> None:
        find, make_request = self._requests
        found = find(rest)
        if found is None:
            return
        endpoint, names = found
        settings = self._account.settings
        if self._account.api_counters.inflight >= settings.request_queue_limit:
            self._account.advise(
                "API.LIMIT_REACHED", "api_limit_reached", server=settings.server_name, dropped=1
            )
            return
        self._account.flush()  # what was published before it is there when it is answered
        make_request(self._account, endpoint, delivery, names).handle()
