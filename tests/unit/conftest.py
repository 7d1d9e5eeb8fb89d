"""Object stores for tests of objects and of what lies in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.azurite import azure_endpoint, azure_options
from harness.s3 import obstore_options, s3_endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.object_stores import FakeObstore


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, Any]]:
    """Options for obstore that lead to a server with the bucket `archive`."""
    with s3_endpoint("archive") as endpoint:
        yield obstore_options(endpoint)


@pytest.fixture(scope="module")
def azure() -> Iterator[dict[str, Any]]:
    """Options for obstore that lead to a blob service with the container `archive`."""
    with azure_endpoint("archive") as endpoint:
        yield azure_options(endpoint)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeObstore:
    """A store in memory in place of obstore."""
    from harness.object_stores import fake_obstore

    return fake_obstore(monkeypatch)
