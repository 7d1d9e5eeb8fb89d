"""Requests for messages: what each body asks for, and what is refused in which words."""

from __future__ import annotations

import pytest

from headrace.protocol.jetstream.pulls import PullRequest, decode_pull


@pytest.mark.parametrize(
    ("body", "batch"),
    [
        (b"", 1),
        (b"  ", 1),
        (b"25", 25),
        (b" +3\n", 3),
        (b"-1", -1),
        (b"many", 1),
        (b"[1]", 1),
        (b"9" * 30, 1),
    ],
)
def test_body_without_an_object(body: bytes, batch: int) -> None:
    assert decode_pull(body) == PullRequest(batch=batch)


def test_object_says_everything() -> None:
    body = (
        b'{"batch":2,"expires":30,"max_bytes":4,"no_wait":true,"idle_heartbeat":15,"group":"g","min_pending":6,'
        b'"min_ack_pending":7,"id":"Pin","priority":8}'
    )

    assert decode_pull(body) == PullRequest(
        batch=2,
        expires=30,
        max_bytes=4,
        no_wait=True,
        idle_heartbeat=15,
        group="g",
        min_pending=6,
        min_ack_pending=7,
        id="Pin",
        priority=8,
        is_object=True,
    )


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        (b"{}", PullRequest(is_object=True)),
        (b' {"Batch":5,"x":[1]} ', PullRequest(batch=5, is_object=True)),
        (b'{"batch":null,"id":null}', PullRequest(is_object=True)),
        (b'{"idle_heartbeat":-5}', PullRequest(idle_heartbeat=-5, is_object=True)),
        (b'{"batch":9223372036854775807}', PullRequest(batch=(1 << 63) - 1, is_object=True)),
    ],
)
def test_object_is_read_as_leniently_as_by_the_go_server(body: bytes, request_: PullRequest) -> None:
    assert decode_pull(body) == request_


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"batch":1', "unexpected end of JSON input"),
        (b'{"batch":1}x', "invalid character 'x' after top-level value"),
        (b'{"batch":"x"}', "json: cannot unmarshal string into Go struct field .batch of type int"),
        (
            b'{"min_pending":"1"}',
            "json: cannot unmarshal string into Go struct field .min_pending of type int64",
        ),
        (b'{"idle_heartbeat":5}', "heartbeat value too large"),
        (b'{"idle_heartbeat":6,"expires":11}', "heartbeat value too large"),
        (
            b'{"batch":9223372036854775808}',
            "json: cannot unmarshal number 9223372036854775808 into Go struct field .batch of type int",
        ),
    ],
)
def test_object_that_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        decode_pull(body)
    assert str(caught.value) == text
