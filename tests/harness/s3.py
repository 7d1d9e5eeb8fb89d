"""An S3 server of a test's own (moto, over HTTP), and how programs are told of it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from bench.object_stores import moto_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def s3_endpoint(bucket: str) -> Iterator[str]:
    """The URL of a server with one empty bucket. Skips the test where the packages are not installed.

    What moto and its dependencies warn of is theirs: tests that use this need
    `pytest.mark.filterwarnings("default")`.
    """
    pytest.importorskip("obstore")
    pytest.importorskip("moto.server")
    with moto_server(bucket) as endpoint:
        yield endpoint


def obstore_options(endpoint: str) -> dict[str, Any]:
    """What obstore is given."""
    return {
        "endpoint": endpoint,
        "access_key_id": "key",
        "secret_access_key": "secret",
        "region": "us-east-1",
        "client_options": {"allow_http": True},
    }


def aws_environment(endpoint: str) -> dict[str, str]:
    """What a program finds in its environment, as on an executor."""
    return {
        "AWS_ENDPOINT": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
