"""The bench of the sink believes no rate whose count is not exact."""

from __future__ import annotations

import pytest
from bench.__main__ import parse_arguments
from bench.errors import BenchError
from bench.spark_sink import Side, loop, measure, windowed

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("write", [loop, windowed])
def test_sides_of_nats_py_store_what_they_are_told(write: object) -> None:
    assert measure(Side("one", "one", write, share=2), 40) > 0  # type: ignore[arg-type]


def test_side_that_stores_too_few_is_an_error() -> None:
    with pytest.raises(BenchError, match="lazy: 19 messages stored, 20 were written"):
        measure(Side("lazy", "lazy", lambda url, count: loop(url, count - 1)), 20)


def test_command_line_has_the_sink() -> None:
    options = parse_arguments(["spark-sink", "--count", "7"])
    assert (options.verb, options.count, options.reps) == ("spark-sink", 7, 3)
