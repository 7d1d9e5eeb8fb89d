"""Writes the table of prices into docs/bucket.md.

    python -m docs.bucket_prices

Prices are those of `headrace.bucket.price`. What a load asks of a bucket is said here, in requests a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.bucket.price import MONTH_S, PER_GB_MONTH, PER_READ, PER_WRITE

PAGE: Final = Path(__file__).with_name("bucket.md")
BEGIN, END = "<!-- prices -->", "<!-- end of prices -->"

BUDGETS: Final = (50.0, 10.0, 2.0, 0.5)
"""Values of `puts_per_second`."""
PROOFS: Final = 1.0
"""Requests a second by which an idle owner proves that it is the owner."""
MESSAGE_BYTES: Final = 128 + 72
"""A message of 128 bytes with its subject and its record."""
OBJECT_BYTES: Final = 8 << 20
"""Bytes of an object of the log at most."""
SNAPSHOT_OBJECTS, SNAPSHOT_BYTES = 500, 64 << 20
"""A snapshot is taken after so many objects of the log, or so many bytes of them."""
PUTS_OF_SNAPSHOT: Final = 4
"""The manifest, one or two segments, and what the log says of them; of large ones a put for each 16 MB."""
PART_BYTES: Final = 16 << 20


def puts_needed(messages: float) -> float:
    """Puts a second without which so many messages a second cannot be kept."""
    data = messages * MESSAGE_BYTES
    return data / OBJECT_BYTES + data / SNAPSHOT_BYTES * PUTS_OF_SNAPSHOT + data / PART_BYTES


def of_owner(messages: float, budget: float) -> float:
    """Dollars a month for the requests of an owner that takes so many messages a second without a pause."""
    if not messages:
        return PROOFS * PER_READ * MONTH_S
    data = messages * MESSAGE_BYTES
    snapshots = max(messages / SNAPSHOT_OBJECTS, data / SNAPSHOT_BYTES)
    puts = messages + snapshots * PUTS_OF_SNAPSHOT + data / PART_BYTES
    return min(puts, budget) * PER_WRITE * MONTH_S


def of_standby(messages: float, budget: float) -> float:
    """Dollars a month at most for the requests of one server that stands by: those of reading each object.

    It asks for nothing while the owner tells it of each, or that there is nothing new.
    """
    return min(budget, messages) * PER_READ * MONTH_S


def table() -> str:
    """The table in Markdown."""
    head = [f"`puts_per_second: {budget:g}`" for budget in BUDGETS]
    lines = [f"| load | {' | '.join(head)} | each server that stands by |", "|---" * (len(head) + 2) + "|"]
    for name, messages in (
        ("idle", 0.0),
        ("1,000 messages a second", 1e3),
        ("100,000 messages a second", 1e5),
    ):
        owners = [
            f"${of_owner(messages, budget):,.0f}" if puts_needed(messages) <= budget else "too much"
            for budget in BUDGETS
        ]
        standbys = ["$0", f"${of_standby(messages, BUDGETS[0]):,.0f}"]
        standby = " to ".join(dict.fromkeys(standbys))
        lines.append(f"| {name} | {' | '.join(owners)} | {standby} |")
    lines += ["", f"What is stored costs ${PER_GB_MONTH:g} a month for each 10⁹ bytes."]
    return "\n".join(lines)


def with_table(text: str) -> str:
    """The text of the page with the table of now. Raises: ValueError if it has no place for it."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:begin]}\n{table()}\n{text[end:]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
