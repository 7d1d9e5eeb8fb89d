"""Writes the tables of options in docs/spark.md from the entries of the options.

python -m docs.spark_options
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.spark.option_entry import option_table
from headrace.spark.options import OPTIONS
from headrace.spark.sink_options import SINK_OPTIONS

PAGE: Final = Path(__file__).with_name("spark.md")
_HEAD: Final = "| option | type | for | default | meaning |\n|---|---|---|---|---|\n"


def with_tables(text: str) -> str:
    """The page with its tables: that of reading, then that of writing. Raises: ValueError without two."""
    before, reading, writing = text.split(_HEAD)
    for table, options in ((reading, OPTIONS), (writing, SINK_OPTIONS)):
        before += _HEAD + option_table(options) + table[table.index("\n\n") + 1 :]
    return before


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
