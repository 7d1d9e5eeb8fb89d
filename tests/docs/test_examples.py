"""The programs in examples/ do what they say; those for Spark and STAN are run where theirs is tested."""

from __future__ import annotations

import asyncio
import runpy
from typing import Any

import pytest

from harness.documents import ROOT
from headrace.testing import Server

EXAMPLES = ROOT / "examples"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / name))


def test_notebook_client() -> None:
    walk = example("notebook_client.py")["walk"]
    with Server() as server:
        assert walk(server.url) == [
            "greet.joe: hello",
            "greet.sue: hello",
            "nobody is subscribed to 'time.now'",
        ]


def test_stream_publish_consume() -> None:
    pytest.importorskip("nats")
    walk = example("stream_publish_consume.py")["walk"]
    with Server(jetstream=True) as server:
        assert asyncio.run(walk(server.url)) == [
            "2 orders, sent again: True",
            "order 1: one tea",
            "order 2: two coffees",
            "order 3, after a break: three cakes",
        ]


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir() if path.is_file()))
def test_every_example_is_run_by_a_test(name: str) -> None:
    tests = (ROOT / "tests").rglob("test_*.py")
    assert any(f'"{name}"' in file.read_text(encoding="utf-8") for file in tests)
