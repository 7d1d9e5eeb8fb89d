"""The site of the documents: its links, its list of decisions, and how docstrings are set."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from harness.documents import ROOT


def loaded(name: str) -> Any:
    """A module beside the documents, which is no part of a package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOKS = loaded("site_hooks")
FILES = "https://github.com/headrace/headrace/blob/main"


@pytest.mark.parametrize(
    ("source", "page", "link", "on_the_site"),
    [
        ("README.md", "index.md", "[Spark](docs/spark.md#options)", "[Spark](spark.md#options)"),
        ("README.md", "index.md", "![a chart](docs/jetstream.png)", "![a chart](jetstream.png)"),
        ("README.md", "index.md", "[why](docs/adr)", "[why](adr/index.md)"),
        ("README.md", "index.md", "[docs/glossary.md](docs/glossary.md)", "[Glossary](glossary.md)"),
        ("docs/security.md", "security.md", "[x](../THREAT_MODEL.md)", "[x](threat-model.md)"),
        ("docs/api/spark.md", "api/spark.md", "[x](../../README.md#more)", "[x](../index.md#more)"),
        ("docs/adr/0001-x.md", "adr/0001-x.md", "[x](../spark.md)", "[x](../spark.md)"),
        (
            "docs/spark.md",
            "spark.md",
            "[`job.py`](../src/demo/job.py)",
            f"[`job.py`]({FILES}/src/demo/job.py)",
        ),
        ("docs/spark.md", "spark.md", "[below](#options)", "[below](#options)"),
        ("docs/spark.md", "spark.md", "[NATS](https://nats.io)", "[NATS](https://nats.io)"),
    ],
)
def test_links_lead_to_pages(source: str, page: str, link: str, on_the_site: str) -> None:
    assert HOOKS.linked(f"a {link} b", source, page) == f"a {on_the_site} b"


@pytest.mark.parametrize(
    ("document", "on_the_site"),
    [
        ("Added\n- this\n- that\n", "Added\n\n- this\n- that\n"),
        ("It is\ntwo:\n1. this\n2. that\n", "It is\ntwo:\n\n1. this\n2. that\n"),
        ("- this\n  and\n- that\n", "- this\n  and\n- that\n"),
        ("Added\n\n- this\n", "Added\n\n- this\n"),
        ("```diff\na\n- b\n```\n", "```diff\na\n- b\n```\n"),
    ],
)
def test_lists_are_apart_from_paragraphs(document: str, on_the_site: str) -> None:
    assert HOOKS.with_lists(document) == on_the_site


def test_every_decision_is_listed_by_its_title() -> None:
    listed = HOOKS.decision_list()

    assert "\n- [0002. Layers point one way, and a test says so](0002-layers.md)\n" in listed
    assert listed.count("\n- ") == len(list((ROOT / "docs" / "adr").glob("*.md")))


@pytest.mark.parametrize(
    "package", ["", ".testing", ".client.stan", ".spark", ".pipelines", ".tables", ".schemas", ".checkpoints"]
)
def test_reference_has_every_public_name(package: str) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    named = {target.rpartition(".")[2] for target in re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE)}
    for members in re.findall(r"^      members: \[(.*)\]$", pages, re.MULTILINE):
        named.update(members.split(", "))

    source = (ROOT / "src" / f"headrace{package}".replace(".", "/") / "__init__.py").read_text(
        encoding="utf-8"
    )
    names = re.search(r"^__all__ = (\[.*?\])$", source, re.DOTALL | re.MULTILINE)
    assert names is not None
    assert not set(ast.literal_eval(names.group(1))) - named - {"__version__"}


@pytest.mark.parametrize(
    ("docstring", "shown"),
    [
        ("Return it.\nRaises: ValueError.", "Return it.\n\n**Raises:** ValueError."),
        (
            "Return it.\n\nRaises: ValueError\nor KeyError.",
            "Return it.\n\n**Raises:** ValueError\nor KeyError.",
        ),
        ("Two: either.\n`first`: this.\n`last`: that.", "Two: either.\n\n`first`: this.\n\n`last`: that."),
        ("What a\n`first`: is.", "What a\n`first`: is."),
        ("Return it. Raises: as `that`.", "Return it. Raises: as `that`."),
    ],
)
def test_errors_and_arguments_are_paragraphs(
    monkeypatch: pytest.MonkeyPatch, docstring: str, shown: str
) -> None:
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object))  # `make docs` brings it
    extension = loaded("site_docstrings").Paragraphs()
    objects = [SimpleNamespace(docstring=None), SimpleNamespace(docstring=SimpleNamespace(value=docstring))]

    for obj in objects:
        extension.on_object(obj=obj, loader=None)

    assert objects[0].docstring is None
    assert objects[1].docstring.value == shown
