"""What Spark keeps in its checkpoint for this source.

Shape for core subjects: `{"v": 1, "core": {"capture": "<id>", "next": <sequence>}}`; `next` is the first
sequence not yet read and `capture` names the run that holds the messages, because core subjects cannot
be read again. Selections of later versions use other keys beside `v`, so that a checkpoint can never be
continued by the wrong kind of source. Spark compares the JSON: keys keep their order, no floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from headrace.spark.errors import DataLossError

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class CoreOffset:
    """A place in one capture of core subjects."""

    capture: str
    next: int

    def to_json(self) -> dict[str, Any]:
        return {"v": VERSION, "core": {"capture": self.capture, "next": self.next}}

    @classmethod
    def from_json(cls, offset: dict[str, Any]) -> CoreOffset:
        """Raises: DataLossError if the checkpoint is not one of a core subject source."""
        core = offset.get("core")
        if offset.get("v") != VERSION or not isinstance(core, dict):
            raise DataLossError(
                f"the checkpoint holds the offset {offset}, which was not written by a source that reads "
                "core subjects; give this query a checkpointLocation of its own"
            )
        return cls(str(core["capture"]), int(core["next"]))
