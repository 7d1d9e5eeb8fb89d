"""One run of a pipeline at a time: a lock on its checkpoint folder, gone with the process however it ends.

Only for folders of this machine; for URLs Spark's own checks of the checkpoint are all there is.
"""

from __future__ import annotations

import contextlib
import fcntl
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Iterator


class PipelineRunning(HeadraceError):
    """The checkpoint is in use by another run of the pipeline."""


@contextlib.contextmanager
def locked(checkpoint: str) -> Iterator[None]:
    """Hold the checkpoint. Raises: PipelineRunning, OSError."""
    if "://" in checkpoint:
        yield
        return
    folder = Path(checkpoint)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PipelineRunning(f"another run of this pipeline uses the checkpoint {checkpoint}") from error
        yield
