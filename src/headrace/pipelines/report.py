"""The queries of a run as a JSON message on a subject, every few seconds.

Telling is never worth a pipeline: what goes wrong here is said once, and tried again at the next time.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from headrace.client.blocking import connect
from headrace.client.errors import ClientError
from headrace.client.options import ConnectOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.client.blocking import Connection
    from headrace.spark.query_state import QueryState

EVERY: Final = 5.0
"""Seconds between two reports."""

_TIMEOUT: Final = 2.0
"""Seconds for connecting and for a flush: the run waits for it."""


class Reporter:
    """Publishes `{"pipeline", "queries": [...]}`; `url` None: NATS_URL, or this machine."""

    def __init__(
        self,
        pipeline: str,
        subject: str,
        url: str | None,
        warn: Callable[[str], None],
        *,
        options: ConnectOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._subject = subject
        self._url = url
        self._warn = warn
        self._options = options or ConnectOptions(name="headrace-pipeline", timeout=_TIMEOUT)
        self._clock = clock
        self._connection: Connection | None = None
        self._next = clock()
        self._told = False

    def tell(self, states: Sequence[QueryState], *, now: bool = False) -> None:
        """Publish if it is time, or at once."""
        if not now and self._clock() < self._next:
            return
        self._next = self._clock() + EVERY
        document: dict[str, Any] = {
            "pipeline": self._pipeline, "queries": [state.document() for state in states],
        }  # fmt: skip
        try:
            connection = self._connection or connect(self._url, self._options)
            self._connection = connection
            connection.publish(self._subject, json.dumps(document).encode())
            connection.flush(_TIMEOUT)
            self._told = False
        except (ClientError, OSError) as error:
            self.close()
            if not self._told:
                self._warn(f"cannot report on {self._subject}: {error}")
            self._told = True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
