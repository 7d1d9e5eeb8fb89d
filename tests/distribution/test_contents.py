"""What is published has all that it needs and nothing else."""

from __future__ import annotations

import email
import re
import tarfile
import tomllib
from pathlib import Path
from typing import Final

import pytest
from distributions import ROOT, TRACKED, copy_of_repository, names_in, run_setup, sdist

from headrace.console.files import table

pytestmark = pytest.mark.skipif(not TRACKED, reason="not a git checkout")

LEFT_OUT: Final = (".ci/", ".gitignore")
"""Files that only the repository needs."""
MADE: Final = {"PKG-INFO", "setup.cfg"}
COMPILED_FROM: Final = frozenset((".pyx", ".pxd"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_repository(tmp_path_factory.mktemp("distribution"))


@pytest.fixture(scope="module")
def archive(repository: Path) -> Path:
    return sdist(repository)


def test_an_sdist_is_the_repository(archive: Path) -> None:
    wanted = {name for name in TRACKED if not name.startswith(LEFT_OUT)}
    found = {name for name in names_in(archive) if ".egg-info/" not in name} - MADE

    assert found == wanted


def test_pypi_shows_the_readme_with_links_to_this_version(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        (shown,) = (each for each in opened.getmembers() if re.fullmatch(r"[^/]+/PKG-INFO", each.name))
        told = opened.extractfile(shown)
        assert told is not None
        metadata = email.message_from_bytes(told.read())
    body = metadata.get_payload(decode=True)
    assert isinstance(body, bytes)
    description = body.decode("utf-8")
    home = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    own = re.compile(rf"{re.escape(home)}/(?:blob|raw)/v{metadata['Version']}/([^#)]+)")
    targets = re.findall(r"\]\(([^)]+)\)", description)

    assert metadata["Description-Content-Type"] == "text/markdown"
    assert targets
    assert not [target for target in targets if not target.startswith("https://")]
    named = [found.group(1) for found in map(own.match, targets) if found]
    assert named
    assert not [name for name in named if not (ROOT / name).exists()]
    assert description.count("](") == (ROOT / "README.md").read_text("utf-8").count("](")


def test_a_wheel_has_data_and_types_and_no_sources_of_compiled_modules(
    repository: Path, tmp_path: Path
) -> None:
    run_setup(repository, "build_py", "--build-lib", str(tmp_path / "lib"))

    package = {
        Path(name).relative_to("src").as_posix()
        for name in TRACKED
        if name.startswith("src/") and Path(name).suffix not in COMPILED_FROM
    }
    found = {
        each.relative_to(tmp_path / "lib").as_posix()
        for each in (tmp_path / "lib").rglob("*")
        if each.is_file()
    }
    assert found == package
    assert "headrace/py.typed" in found
    pages = {name for name in found if name.startswith("headrace/console/static/")}
    served = {name.removeprefix("headrace/console/static/") for name in pages if not name.endswith(".d.ts")}
    assert served == set(table())
    assert {Path(name).suffix for name in found - pages} == {".py", ".pyi", ".typed", ".yaml"}
