"""Meshes of every kind; the tests of a module share one where they leave it whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.certificates import Authority
from harness.mesh import KINDS, Mesh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "cluster")


@pytest.fixture(scope="module", params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """One mesh of each kind for a module, with its CONFIG, CLUSTER and ROUTE_USER."""
    folder = tmp_path_factory.mktemp(request.param)
    given = {option: getattr(request.module, option.upper(), "") for option in ("cluster", "route_user")}
    with Mesh(folder, request.param, more=getattr(request.module, "CONFIG", ""), **given) as running:
        yield running


@pytest.fixture
def mesh(whole: Mesh) -> Iterator[Mesh]:
    """The module's mesh; clients of a test end with it."""
    yield whole
    whole.leave()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def build(kind: str, tmp_path: Path) -> Iterator[Callable[..., Mesh]]:
    """Starts a mesh that the test may do with as it likes."""
    built: list[Mesh] = []

    def start(**options: str) -> Mesh:
        built.append(Mesh(tmp_path, kind, **options))
        built[-1].start()
        return built[-1]

    yield start
    for one in built:
        one.close()
