"""The five streams of an account: messages, sessions, retained messages, QoS 2 and PUBRELs.

Source: configurations of nats-server 2.15.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.mqtt.names import (
    INCOMING,
    INCOMING_SUBJECT,
    MESSAGE_SUBJECT,
    MESSAGES,
    OUTGOING,
    OUTGOING_SUBJECT,
    RETAINED,
    RETAINED_SUBJECT,
    SESSION_SUBJECT,
    SESSIONS,
)
from headrace.mqtt.steps import begin

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.mqtt.requests import JetStreamRequests, StreamAnswer
    from headrace.mqtt.steps import Awaited

_STREAMS: Final[tuple[tuple[str, bytes, dict[str, Any]], ...]] = (
    (SESSIONS, SESSION_SUBJECT, {"retention": "limits", "max_msgs_per_subject": 1}),
    (MESSAGES, MESSAGE_SUBJECT, {"retention": "interest"}),
    (RETAINED, RETAINED_SUBJECT, {"retention": "limits", "max_msgs_per_subject": 1}),
    (
        INCOMING,
        INCOMING_SUBJECT,
        {
            "retention": "limits",
            "max_msgs_per_subject": 1,
            "discard": "new",
            "discard_new_per_subject": True,
        },
    ),
    (OUTGOING, OUTGOING_SUBJECT, {"retention": "interest"}),
)


def session_subject(domain: str) -> bytes:
    """Return the subject of sessions in a JetStream domain, without the hash of a client identifier."""
    return SESSION_SUBJECT + (f"{domain}." if domain else "").encode()


def configurations(replicas: int, domain: str) -> list[dict[str, Any]]:
    """Return the configurations of the five streams."""
    return [
        {
            "name": name,
            "subjects": [(session_subject(domain) if name == SESSIONS else subject).decode() + ">"],
            "storage": "file",
            "num_replicas": replicas,
            **special,
        }
        for name, subject, special in _STREAMS
    ]


async def make_streams(
    requests: JetStreamRequests,
    replicas: int,
    *,
    domain: str,
    creating: Callable[[], object],
    mismatch: Callable[[str, int], object],
) -> str:
    """Create the streams that are not there; give the JetStream domain that they are in.

    `domain`: the one they are expected in. `creating` is called once before the first is. `mismatch`: a
    stream is there with so many replicas. Raises: RequestFailed.
    """
    wanted = configurations(replicas, domain)
    asked: list[Awaited[StreamAnswer | None]] = [begin(requests.stream(config["name"])) for config in wanted]
    missing = []
    for config, looked_up in zip(wanted, asked, strict=True):
        found = await looked_up
        if found is None:
            missing.append(config)
        elif found.config.get("num_replicas", replicas) != replicas:
            mismatch(config["name"], found.config["num_replicas"])
        if found is not None:
            domain = found.domain
    if not missing:
        return domain
    creating()
    made = [begin(requests.create_stream(config)) for config in missing]
    for outcome in made:
        await outcome
    sessions = await requests.stream(SESSIONS)  # the answer to a creation does not name the domain
    return domain if sessions is None else sessions.domain
