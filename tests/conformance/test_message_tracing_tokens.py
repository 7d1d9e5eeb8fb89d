"""Messages that are traced in accounts of tokens, beside the Go server: what claims say of traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.claims import account_token, user_token
from harness.keys import ACCOUNT, USER, key_pair
from harness.leafs import Leafs
from harness.operators import configuration
from harness.tracing import Traces, traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.mesh import MeshClient

ONE: Final = key_pair(ACCOUNT, "exports, traced")
TWO: Final = key_pair(ACCOUNT, "imports, traced")
SOMEBODY: Final = key_pair(USER, "somebody")


def _entry(kind: str, subject: str, **more: Any) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "type": kind, **more}


TOKENS: Final = {
    ONE.public: account_token(
        subject=ONE,
        exports=[
            _entry("service", "svc.>", allow_trace=True),
            _entry("service", "blind.>"),
            _entry("stream", "news.>"),
        ],
        trace={"dest": "traces", "sampling": 100},
    ),
    TWO.public: account_token(
        subject=TWO,
        imports=[
            _entry("service", "svc.one", account=ONE.public, local_subject="one"),
            _entry("service", "blind.one", account=ONE.public, local_subject="blind"),
            _entry("stream", "news.seen", account=ONE.public, allow_trace=True),
            _entry("stream", "news.blind", account=ONE.public),
        ],
        trace={"dest": "traces"},
    ),
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Leafs]:
    with Leafs(tmp_path_factory.mktemp("tokens")) as running:
        for letter in "gh":
            running.server(letter, letter, configuration(TOKENS))
        yield running


def _seen(servers: Leafs, letter: str) -> list[Any]:
    def join(account: Any) -> MeshClient:
        return servers.join(letter, jwt=user_token(account, SOMEBODY, bearer_token=True))

    one, two, watching, elsewhere = join(ONE), join(TWO), join(ONE), join(TWO)
    at_one, at_two = Traces(watching), Traces(elsewhere)
    sids = [one.subscribe("svc.*"), one.subscribe("blind.*"), one.subscribe("plain")]
    news = [two.subscribe("news.seen"), two.subscribe("news.blind")]
    one.sync()
    two.sync()
    seen: list[Any] = []
    for only in (False, True):
        for subject in ("news.seen", "news.blind"):
            one.publish(subject, b"x", traced(only=only))
            seen.append(at_one.until_fence(one))
        for subject in ("one", "blind"):
            two.publish(subject, b"x", traced(only=only))
            seen.append(at_two.until_fence(two))
        seen += [len(one.got(sid)) for sid in sids] + [len(two.got(sid)) for sid in news]
    for client, traces in ((one, at_one), (two, at_two)):
        client.publish("plain", b"x", {"traceparent": "00-a-b-01"})
        seen.append(traces.until_fence(client))
    return [str(each).replace(f'"name": "{letter}"', '"name": "server"') for each in seen]


def test_claims_say_what_is_traced(servers: Leafs) -> None:
    ours = _seen(servers, "h")
    assert ours == _seen(servers, "g")
    assert all("traceparent" in each for each in ours[-2:]), "the accounts' tokens say where to"
