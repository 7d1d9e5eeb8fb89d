"""README and the pages that are walks do what they show: every block is copied and run, in order."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from harness.dearest import in_turn
from harness.documents import ROOT, Reader, blocks

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/testing.md",
    "docs/durability.md",
    pytest.param("docs/guide.md", marks=in_turn("guide")),
    "docs/kafka.md",
    pytest.param("docs/pipelines.md", marks=in_turn("pipelines")),
    pytest.param("docs/spark.md", marks=in_turn("Spark's page")),
    "docs/stan-to-jetstream.md",
    pytest.param("docs/tables.md", marks=in_turn("tables")),
    pytest.param("docs/mqtt.md", marks=in_turn("MQTT's page")),
    "docs/backup.md",
    "docs/client.md",
    "docs/ten-tasks.md",
    "docs/server.md",
    "docs/bench.md",
    "docs/migration.md",
    "docs/jetstream-import.md",
    "docs/jetstream.md",
    "docs/streaming-import.md",
    "docs/streaming.md",
    pytest.param("docs/schemas.md", marks=in_turn("schemas")),
)

GOLDEN = ROOT / "tests" / "unit" / "streaming" / "golden" / "clean" / "store"
THEIR_OWN = {"docs/streaming-import.md": {"old": GOLDEN}}
"""What readers of a page have already, by the name in their directory."""

MOST_WORDS = 24
"""Of a sentence in README."""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_does_what_it_shows(tmp_path: Path, name: str) -> None:
    pytest.importorskip("nats")
    text = (ROOT / name).read_text(encoding="utf-8")
    if "headrace[spark]" in text:
        pytest.importorskip("pyspark")
    if "paho-mqtt" in text:
        pytest.importorskip("paho.mqtt")
    if "headrace[tables]" in text:
        pytest.importorskip("pyarrow")
    if "headrace[iceberg]" in text:
        pytest.importorskip("pyiceberg")
    if "headrace[schemas]" in text:
        pytest.importorskip("fastjsonschema")

    with Reader(tmp_path) as reader:
        for place, original in THEIR_OWN.get(name, {}).items():
            shutil.copytree(original, reader.folder / place)
        reader.read(text)


@in_turn("ten tasks")
def test_ten_tasks_are_done_with_the_go_server_too(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "ten-tasks.md").read_text(encoding="utf-8")
    with Reader(tmp_path) as reader:
        reader.read(text.replace("$ headrace serve ", "$ nats-server "))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_programs_that_are_shown_are_run(name: str) -> None:
    """A saved file that no command, and no other file, names would never be used."""
    found = [block for block in blocks((ROOT / name).read_text(encoding="utf-8")) if block.is_run]

    for block in found:
        others = (other.text for other in found if other is not block)
        assert block.name is None or any(block.name in text for text in others), block.name


def test_no_document_is_forgotten() -> None:
    listed = {ROOT / str(getattr(name, "values", [name])[0]) for name in DOCUMENTS}
    to_run = {
        page
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.is_run and (block.language in ("console", "python"))
    }

    assert to_run == listed


def test_sentences_of_the_readme_are_short() -> None:
    text = re.sub(
        r"^```.*?^```$", ".", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)  # of links their text
    sentences = re.split(r"[.:?!](?=\s)|\n\n|\n(?=[-#])|\|", text)

    long = [" ".join(sentence.split()) for sentence in sentences if len(sentence.split()) > MOST_WORDS]
    assert not long
