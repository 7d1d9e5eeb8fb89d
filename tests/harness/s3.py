"""An S3 server of a test's own (moto, over HTTP), and how programs are told of it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def s3_endpoint(bucket: str) -> Iterator[str]:
    """The URL of a server with one empty bucket. Skips the test where the packages are not installed.

    What moto and its dependencies warn of is theirs: tests that use this need
    `pytest.mark.filterwarnings("default")`.
    """
    pytest.importorskip("obstore")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    server._server.app = _one_by_one(server._server.app)
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        with urlopen(Request(f"{endpoint}/{bucket}", method="PUT"), timeout=10):
            pass
        yield endpoint
    finally:
        server.stop()


def _one_by_one(app: Callable[..., Any]) -> Callable[..., Any]:
    """Answer one request after the other: moto looks whether a key exists and stores it in two steps."""
    lock = threading.Lock()

    def answer(environ: Any, start_response: Any) -> list[bytes]:
        with lock:
            return list(app(environ, start_response))

    return answer


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
