"""The endpoints of the API: from the name in a subject to the request's function.

What a request does is said by the modules beside this one. Source: JetStream specification, 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jetstream.api import account, backup, consumers, leaders, messages, streams

if TYPE_CHECKING:
    from headrace.jetstream.api.request import Endpoint


ENDPOINTS: Final[dict[bytes, Endpoint]] = {
    **account.ENDPOINTS,
    **streams.ENDPOINTS,
    **messages.ENDPOINTS,
    **consumers.ENDPOINTS,
    **leaders.ENDPOINTS,
    **backup.ENDPOINTS,
}
"""The endpoints by the request's name: what stands between `$JS.API.` and the names of its stream and
consumer.
"""

_LONGEST_NAME: Final = max(name.count(b".") for name in ENDPOINTS) + 1


def find(rest: bytes) -> tuple[Endpoint, list[str]] | None:
    """The request that a subject means, without its prefix, and the names in it; None when it means none."""
    tokens = rest.split(b".")
    for length in range(min(len(tokens), _LONGEST_NAME), 0, -1):
        endpoint = ENDPOINTS.get(b".".join(tokens[:length]))
        if endpoint is not None and endpoint.fewest <= len(tokens) - length <= endpoint.most:
            return endpoint, [token.decode("utf-8", "replace") for token in tokens[length:]]
    return None
