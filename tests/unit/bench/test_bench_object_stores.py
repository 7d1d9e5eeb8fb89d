"""moto's S3 for benches and tests: with the last server of a process its buckets are gone."""

from __future__ import annotations

from urllib.request import Request, urlopen

import pytest

pytest.importorskip("moto.server")

from bench.object_stores import moto_server


def put(url: str) -> None:
    with urlopen(Request(url, data=b"x", method="PUT"), timeout=10):
        pass


def listed(url: str) -> bytes:
    with urlopen(url, timeout=10) as answer:
        found: bytes = answer.read()
    return found


@pytest.mark.filterwarnings("default")
def test_a_bucket_is_empty_at_first() -> None:
    with moto_server("bucket") as endpoint:
        put(f"{endpoint}/bucket/key")
        with moto_server("other") as other:
            assert b"<Key>key</Key>" in listed(f"{other}/bucket"), "one process has one set of buckets"
        assert b"<Key>key</Key>" in listed(f"{endpoint}/bucket"), "which stay while there is one"
    with moto_server("bucket") as endpoint:
        assert b"<Key>" not in listed(f"{endpoint}/bucket")
