"""What the project says about itself, and what it never names."""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import TYPE_CHECKING

import pytest
from source_tree import ROOT

import headrace

if TYPE_CHECKING:
    from pathlib import Path

TRACKED = subprocess.run(
    ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
).stdout.split("\0")[:-1]

# A path of somebody's machine in a file that travels.
MACHINE_PATHS = re.compile(rb"/(?:work|root|home)/[a-z]|(?<![\w{./])/tmp/[a-z]")

# One of ours, as documents and settings write it.
NAMED_PATHS = re.compile(r"[`\"]((?:tests|src|bench|docs|examples)/[\w./*-]+)[`\"]")


@pytest.mark.skipif(not TRACKED, reason="not a git checkout")
def test_no_file_names_a_path_of_a_machine() -> None:
    binary = (".png", ".c")
    own = "tests/meta/test_project_files.py"
    found = {
        name
        for name in TRACKED
        if name != own
        and not name.endswith(binary)
        and not name.startswith("tests/fuzz/corpus")
        and (ROOT / name).is_file()
        and MACHINE_PATHS.search((ROOT / name).read_bytes())
    }

    assert not found


def test_licence_is_there_and_the_one_the_project_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [(ROOT / name).read_text() for name in project["license-files"]]

    assert project["license"] == "Apache-2.0"
    assert any("Apache License" in text and "Version 2.0" in text for text in texts)


def test_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == headrace.__version__


def test_the_changelog_has_every_version_with_its_date_the_newest_first() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    if headings[0] == "Unreleased":
        del headings[0]
    versions = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((\d{4}-\d\d-\d\d)\)", each) for each in headings]
    known = [found for found in versions if found]
    order = [(found.group(4), *map(int, found.group(1, 2, 3))) for found in known]

    assert headings[0].startswith(f"{headrace.__version__} (")
    assert len(known) == len(headings)
    assert order == sorted(order, reverse=True)


def test_the_project_lives_at_one_address() -> None:
    """Only pyproject.toml says it: what has left for another place names the old one nowhere."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    home = re.compile(r"https://[\w.]+/headrace[\w./-]*")
    named = {
        (name, url)
        for name in TRACKED
        if name.endswith((".md", ".toml", ".yaml", ".yml", ".service", "Dockerfile", ".json"))
        and (ROOT / name).is_file()
        for url in home.findall((ROOT / name).read_text())
    }

    assert {url for name, url in named if name == "pyproject.toml"} == set(urls.values())
    assert not {(name, url) for name, url in named if not url.startswith(urls["Source"])}


def test_pins_lie_in_the_ranges_that_are_published() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {
        line.partition("==")[0].lower()
        for name in ("base", "dev", "spark")
        for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        if "==" in line
    }
    ranges = [*project["dependencies"], *project["optional-dependencies"]["spark"]]

    assert {re.split(r"[><=!]", r)[0].lower() for r in ranges} <= pinned


def test_every_decision_has_a_status_and_a_number_of_its_own() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))

    assert [d.name[:4] for d in decisions] == [f"{n:04}" for n in range(1, len(decisions) + 1)]
    assert all("\nStatus: " in d.read_text() for d in decisions)


def test_links_of_the_documents_lead_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", document.read_text())
        if not (document.parent / target).exists()
    ]

    assert not broken


def test_anchors_of_the_documents_are_headings() -> None:
    """Anchors are made of headings, in a repository and on the site."""
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    anchors = {document: {_anchor(line) for line in _headings(document)} for document in documents}
    missing = [
        f"{document.relative_to(ROOT)}: {path}#{anchor}"
        for document in documents
        for path, anchor in re.findall(r"\]\((?!http)([^)#]*)#([^)]+)\)", document.read_text())
        if anchor not in anchors.get((document.parent / path).resolve() if path else document, [anchor])
    ]

    assert not missing


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """`make docs` asks for it, too; this is told before."""
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\n\n")[0]
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}

    named = set(re.findall(r"[\w/-]+\.md", navigation))
    assert not {page for page in pages - named if not page.startswith("adr/")}


def test_paths_that_are_named_exist() -> None:
    """In documents that are true today (a decision stays as it was made), and in the tools' settings."""
    told = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "pyproject.toml", ROOT / "Makefile"]
    missing = [
        f"{document.relative_to(ROOT)}: {path}"
        for document in told
        for path in NAMED_PATHS.findall(document.read_text())
        if not any(ROOT.glob(path.rstrip("/")))
    ]

    assert not missing


def _headings(document: Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)


def _anchor(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
