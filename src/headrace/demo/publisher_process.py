"""The publishing process as its parent sees it: started, told to go, followed, ended.

The other end of the conversation is `publisher`. No Spark here and no display.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READY_LIMIT: Final = 60.0
"""Seconds the process may take to load the feed and connect."""

_POLL: Final = 0.1


class PublisherError(HeadraceError):
    """The feed was not published to its end; the text says why."""


class PublisherProcess:
    """The publishing process, seen from here. `published`, the rows acknowledged, grows until it is `total`.

    `on_published` hears of each such count at once, on a thread of its own. `recovered` is how many messages
    the stream had after an outage, None while there was none; `repeated` how many of them were sent again.
    """

    def __init__(
        self,
        url: str,
        limit: int | None,
        log: Path,
        on_published: Callable[[int, int], object] = lambda _count, _total: None,
    ) -> None:
        command = [sys.executable, "-m", "headrace.demo.publisher"]
        if limit is not None:
            command += ["--limit", str(limit)]
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env={**os.environ, "NATS_URL": url}, start_new_session=True, text=True,
            )  # fmt: skip
        self.published = 0
        self.total: int | None = None
        self.is_done = False
        self.recovered: int | None = None
        self.repeated = 0
        self._on_published = on_published
        self._error: str | None = None
        self._reader = threading.Thread(target=self._read, name="demo-publisher", daemon=True)
        self._reader.start()

    def wait_ready(self) -> int:
        """The number of messages it is about to publish. Raises: PublisherError if it ends or is too slow."""
        deadline = time.monotonic() + READY_LIMIT
        while self.total is None:
            self.check()
            if time.monotonic() > deadline:
                raise PublisherError(f"the publisher was not ready after {READY_LIMIT:g} s")
            time.sleep(_POLL)
        return self.total

    def go(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended; `check` will say why
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def check(self) -> None:
        """Check the publisher's process.

        Raises: PublisherError if it has ended without publishing everything.
        """
        if self.is_done or self._process.poll() is None:
            return
        self._reader.join()
        if not self.is_done:
            raise PublisherError(f"the publisher failed: {self._error or f'see {self._log}'}")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            fields: dict[str, Any] = json.loads(line)
            self.total = fields.get("ready", self.total)
            self.recovered = fields.get("recovered", self.recovered)
            self.repeated = fields.get("repeated", self.repeated)
            self.published = fields.get("published", fields.get("done", self.published))
            if "published" in fields and self.total is not None:
                self._on_published(self.published, self.total)
            self._error = fields.get("error", self._error)
            self.is_done = "done" in fields
