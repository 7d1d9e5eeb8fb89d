"""Fuzz inputs as bodies of API requests: one that compiled code reads means the same in Python."""

from __future__ import annotations

from headrace.engine.api_requests import get_request, pull_request
from headrace.protocol.jetstream.pulls import PullRequest, decode_pull
from headrace.protocol.jetstream.requests import MessageGetRequest, decode


def check(data: bytes) -> None:
    asked = get_request(data)
    if asked is not None:
        sequence, subject = asked
        expected = MessageGetRequest(seq=sequence, last_by_subj=subject.decode())
        assert decode(MessageGetRequest, data, strict=False) == expected
        assert bool(sequence) != bool(subject)
    pull = pull_request(data)
    if pull is not None:
        batch, expires, heartbeat, no_wait = pull
        request = decode_pull(data)
        assert request == PullRequest(
            batch=batch,
            expires=expires,
            idle_heartbeat=heartbeat,
            no_wait=no_wait,
            is_object=request.is_object,
        )
