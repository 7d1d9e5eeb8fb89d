"""Bodies of API requests in compiled code mean what they mean in Python, or are left to it."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from harness import depth
from headrace.engine.api_requests import get_request, pull_request
from headrace.protocol.jetstream.pulls import decode_pull
from headrace.protocol.jetstream.requests import MessageGetRequest, decode

SEEDS: Final = 40
TRIES: Final = 500
WORDS: Final = [
    b"{", b"}", b"[", b",", b":", b'"', b"\\", b" ", b"\t", b"\n", b"\r", b"\x0b", b"\x00", b"\xff",
    b"\xc3\xa9", b'"seq"', b'"last_by_subj"', b'"Seq"', b'"batch"', b'"expires"', b'"no_wait"',
    b'"idle_heartbeat"', b'"id"', b"0", b"1", b"12", b"-1", b"+1", b"01", b"1.5", b"1e3", b"true",
    b"false", b"null", b'"a.b"', b'""', b'"a b"', b"5000000000", b"2500000001", b"999999999999999999",
    b"1000000000000000000", b"9223372036854775808",
]  # fmt: skip


def _get(play: Random) -> bytes:
    value = play.choice((b'"seq"', b"1", b'"last_by_subj"', b'"a.b"'))
    name = play.choice((b'"seq"', b'"last_by_subj"'))
    number = b"%d" % play.choice((0, 1, 7, 10**17, 10**18, 2**63))
    return _spoilt([b"{", name, b":", play.choice((number, value, b'"a.b"', b'"x"')), b"}"], play)


def _pull(play: Random) -> bytes:
    words = [b"{"]
    for _ in range(play.randrange(4)):
        name = play.choice((b'"batch"', b'"expires"', b'"no_wait"', b'"idle_heartbeat"', b'"max_bytes"'))
        value = (
            play.choice((b"true", b"false"))
            if name == b'"no_wait"'
            else b"%d" % play.choice((0, 1, 9, 10**9))
        )
        words += [name, b":", value, b","]
    return _spoilt([*(words[:-1] if len(words) > 1 else words), b"}"], play)


def _spoilt(words: list[bytes], play: Random) -> bytes:
    """With white space, and now and then with words taken out, put in or put elsewhere."""
    for _ in range(play.choice((0, 0, 0, 1, 2))):
        place = play.randrange(len(words) + 1)
        match play.randrange(3):
            case 0:
                words.insert(place, play.choice(WORDS))
            case 1:
                del words[place : place + 1]
            case _:
                play.shuffle(words)
    return b"".join(word + play.choice((b"", b"", b" ", b"\r\n")) for word in words)


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_a_get_that_is_read_means_the_same_in_python(seed: int) -> None:
    play = Random(seed)
    count = 0
    for _ in range(TRIES):
        body = _get(play)
        found = get_request(body)
        if found is not None:
            sequence, subject = found
            expected = MessageGetRequest(seq=sequence, last_by_subj=subject.decode())
            assert decode(MessageGetRequest, body, strict=False) == expected, body
            count += 1
    assert count > TRIES // 20


@pytest.mark.parametrize("seed", depth.seeds(SEEDS))
def test_a_pull_that_is_read_means_the_same_in_python(seed: int) -> None:
    play = Random(seed)
    count = 0
    for _ in range(TRIES):
        body = play.choice(
            (_pull(play), b"%d" % play.choice((0, 1, 5, 10**17, 10**19)), play.choice(WORDS), b"")
        )
        found = pull_request(body)
        if found is not None:
            request = decode_pull(body)
            assert (request.batch, request.expires, request.idle_heartbeat, request.no_wait) == found, body
            assert (request.max_bytes, request.group, request.id, request.min_pending) == (0, "", "", 0)
            count += 1
    assert count > TRIES // 20


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"}", b"{}", b'{"seq"', b'{"seq":', b'{"seq":1', b'{"seq":0}', b'{"seq":01}',
        b'{"seq":1}}', b'{"seq":1,"seq":1}', b'{"seq":1000000000000000000}', b'{"last_by_subj":""}',
        b'{"last_by_subj":"a', b'{"last_by_subj":"\\u0061"}', b'{"last_by_subj":"\x7f"}',
        b'{"last_by_subj":"\xc3\xa9"}', b'["seq"]',
    ],
)  # fmt: skip
def test_other_gets_are_left_to_python(body: bytes) -> None:
    assert get_request(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b"{", b'{"batch"}', b'{"batch":}', b'{"batch":1,}', b'{,"batch":1}', b'{"batch":1 "expires":1}',
        b"1 2", b'{"batch":1,"batch":2}', b'{"batch":-1}', b'{"batch":1.0}', b'{"batch":"1"}',
        b'{"no_wait":1}', b'{"no_wait":truex}', b'{"expires":"1s"}', b'{"group":"a"}', b'{"max_bytes":1}',
        b"-1", b"+1", b"01", b"x", b'{"idle_heartbeat":1}', b'{"idle_heartbeat":6,"expires":11}',
        b'{"batch":1000000000000000000}',
    ],
)  # fmt: skip
def test_other_pulls_are_left_to_python(body: bytes) -> None:
    assert pull_request(body) is None


def test_common_forms_are_read() -> None:
    assert get_request(b' {"seq" : 17 } ') == (17, b"")
    assert get_request(b'{"last_by_subj":"$KV.b.k"}') == (0, b"$KV.b.k")
    assert pull_request(b"") == (1, 0, 0, False)
    assert pull_request(b"12") == (12, 0, 0, False)
    assert pull_request(b"{}") == (0, 0, 0, False)
    pull = b'{"batch":1,"expires":5000000000,"idle_heartbeat":2500000000,"no_wait":true}'
    assert pull_request(pull) == (1, 5_000_000_000, 2_500_000_000, True)
