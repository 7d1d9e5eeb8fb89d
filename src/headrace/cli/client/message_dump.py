"""Messages as files: the body in one, subject, headers and the like in another beside it.

Here live their names, in which only letters, digits and `._-` stand as they are. No file is ever written
over. Never lives here: which messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.outcomes import CommandError, ExitCode
from headrace.cli.output import to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST: Final = 180
"""Letters of a subject in a name; file systems take 255."""
_KEPT: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class MessageDump:
    """A directory of messages; it is made if it is not there. Raises: OSError."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._number = 0

    def add(self, document: Mapping[str, Any], data: bytes) -> Path:
        """Write a message, and return the file with its body.

        The name begins with the sequence, or with a number that is free where no stream gave one. Raises:
        CommandError if a message of that sequence is there; OSError.
        """
        sequence = document.get("sequence")
        ending = f"-{file_name(document['subject'])}"
        while True:
            self._number += 1
            body = self._directory / f"{self._number if sequence is None else sequence}{ending}.bin"
            try:
                with body.open("xb") as file:
                    file.write(data)
                break
            except FileExistsError:
                if sequence is not None:
                    raise CommandError(f"{body} is there already", ExitCode.EXISTS) from None
        facts = {key: value for key, value in document.items() if key not in ("data", "data_base64")}
        with body.with_suffix(".json").open("x", encoding="utf-8") as file:
            file.write(to_json(facts, pretty=True) + "\n")
        return body


def file_name(subject: str) -> str:
    """Return a subject as a part of a file's name; other characters are `%` and their bytes."""
    found = "".join(
        char if char in _KEPT else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))
        for char in subject
    )
    return found[:_LONGEST]
