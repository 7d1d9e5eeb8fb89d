"""The folder of one run of the demonstration; only files with names of ours are ever removed from it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a run."""

    folder: Path

    @property
    def flights(self) -> Path:
        return self.folder / "flights"

    @property
    def delays(self) -> Path:
        return self.folder / "delays"

    @property
    def chart(self) -> Path:
        return self.folder / "delays.png"

    @property
    def spark_log(self) -> Path:
        return self.folder / "spark.log"

    @property
    def publisher_log(self) -> Path:
        return self.folder / "publisher.log"

    @property
    def store(self) -> Path:
        """The server's: what it acknowledged is in here."""
        return self.folder / "flights-store"

    @property
    def server_log(self) -> Path:
        return self.folder / "server.log"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def clear(self) -> None:
        """Remove what an earlier run left, and nothing else. Raises: OSError."""
        for folder in (self.flights, self.delays, self.checkpoints, self.store):
            if folder.exists():
                shutil.rmtree(folder)
        for file in (self.chart, self.spark_log, self.publisher_log, self.server_log):
            file.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
