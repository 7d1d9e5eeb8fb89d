"""Pages of the site that do not stand in this folder; hooks of mkdocs.yml.

README is the home page, the other documents of the root are pages, and the decisions have a list. Links are
those of the repository, where every document is read as well: what they lead to is a page where there is one.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]

ROOT_PAGES: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-reports.md",
    "THREAT_MODEL.md": "threat-model.md",
}
"""Documents of the root, and their pages."""

_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_FILES: Final = f"{_PROJECT['urls']['Source']}/blob/main"

DECISIONS: Final = "adr/index.md"

_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_OTHER_SITE: Final = re.compile(r"[a-z]+:|#")
_FENCED: Final = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_TIGHT_LIST: Final = re.compile(r"^(?![-\s]|\d+\. )(.+\n)(?=(?:-|1\.) )", re.MULTILINE)
"""A paragraph's last line with a list right behind it."""


def linked(markdown: str, source: str, page: str) -> str:
    """Return a document with its links as they are on the site.

    `source` is its path in the repository, `page` that on the site. A link that shows the name of a document
    shows its title. One to a file that is no page leads to the repository.
    """

    def link(found: re.Match[str]) -> str:
        mark, text, target = found.groups()
        if _OTHER_SITE.match(target):
            return found.group()
        path, *anchor = target.split("#", 1)
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        there = _page_of(file)
        if there is None:
            return f"{mark}[{text}]({_FILES}/{file})"
        if text in (path, file) and file.endswith(".md"):
            text = _title(file)
        there = posixpath.relpath(there, posixpath.dirname(page) or ".")
        return f"{mark}[{text}]({'#'.join([there, *anchor])})"

    return _LINK.sub(link, markdown)


def with_lists(markdown: str) -> str:
    """Return a document with an empty line before each list, without which Python-Markdown sees none."""
    parts = _FENCED.split(markdown)
    parts[::2] = [_TIGHT_LIST.sub(r"\1\n", part) for part in parts[::2]]
    return "".join(parts)


def decision_list() -> str:
    """The page that lists all decisions."""
    lines = ["# Decisions", "", "Why Headrace is built as it is, in the order of the decisions.", ""]
    for decision in sorted((ROOT / "docs" / "adr").glob("*.md")):
        lines.append(f"- [{_title(f'docs/adr/{decision.name}')}]({decision.name})")
    return "\n".join(lines) + "\n"


def _title(path: str) -> str:
    """The heading that a document of the repository begins with."""
    return (ROOT / path).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _page_of(path: str) -> str | None:
    """The page of a file of the repository."""
    if path == "docs/adr":
        return DECISIONS
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else None


# -- hooks ----------------------------------------------------------------------------------------


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the documents of the root, and the list of the decisions."""
    from mkdocs.structure.files import File

    for name, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, DECISIONS, content=decision_list()))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn a document into a page. The home page has no navigation beside it."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    name = page.file.src_uri
    source = next((source for source, of_root in ROOT_PAGES.items() if of_root == name), f"docs/{name}")
    return with_lists(linked(markdown, source, name))
