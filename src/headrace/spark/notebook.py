"""Streams and STAN channels for notebooks: facts and the last messages as HTML, the rows as a DataFrame.

Only reads. Facts and messages come over the blocking client, so that looking at one needs no running Spark;
a session is made, or the running one taken, when a DataFrame is asked for.
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError
from headrace.spark.errors import OptionError, StoredStreamError
from headrace.spark.offsets import StoredRange
from headrace.spark.options import read_options
from headrace.spark.schema import COLUMNS
from headrace.spark.stored_reader import link_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.spark.stored_link import StoredState

PATIENCE: Final = "3s"
"""The time for which a missing server is tried again; the user of the notebook waits for it."""

SHOWN_MESSAGES: Final = 5
SHOWN_BYTES: Final = 120
"""Characters of each message that are shown; the rest is an ellipsis."""


class NotebookStream:
    """One stream or channel; made by `headrace.spark.stream`."""

    def __init__(
        self, name: str, url: str | None, spark: SparkSession | None, kind: str, options: Mapping[str, str]
    ) -> None:
        if kind not in ("stream", "channel"):
            raise OptionError(f"kind: {kind!r} is neither stream nor channel")
        self.name = name
        self._given = {**options, kind: name} | ({"url": url} if url else {})
        asked = read_options({"reconnectTimeout": PATIENCE, **self._given})
        if len(asked.stored_names) != 1:
            raise OptionError(f"{name!r} names {len(asked.stored_names)} {kind}s: one is shown at a time")
        if asked.stored_kind.is_pattern(name):
            raise OptionError(f"{name!r} may mean several {kind}s: one is shown at a time")
        self._link = link_of(asked)
        self._spark = spark

    def info(self) -> StoredState:
        """Ask for the state of the stream or channel now.

        Raises: StoredStreamError if there is none, or no server.
        """
        found = self._link.state(self.name)
        if found is None:
            raise StoredStreamError(f"there is no {self._link.place(self.name)}")
        return found

    def df(self, **options: str) -> DataFrame:
        """Return the stored messages as a DataFrame; `options` such as `startingOffsets` are added to its
        own.
        """
        return self._session().read.format("nats").options(**{**self._given, **options}).load()

    def read_stream(self, **options: str) -> DataFrame:
        """Return the stream or channel as a streaming DataFrame, from its first message on if no option says
        otherwise.
        """
        given = {"startingOffsets": "earliest", **self._given, **options}
        return self._session().readStream.format("nats").options(**given).load()

    def last(self, count: int = SHOWN_MESSAGES) -> list[tuple[int, int, bytes]]:
        """The last messages: sequence, time in ns since 1970, payload. Raises: as `info`.

        Fewer where some of the last sequences were removed.
        """
        return self._last(self.info(), count)

    def __repr__(self) -> str:
        return f"NotebookStream({self.name!r})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks; a server that cannot be asked is shown as such, since a display may not
        raise.
        """
        try:
            info = self.info()
            return _html(self.name, info, self._last(info, SHOWN_MESSAGES))
        except (HeadraceError, OSError) as error:
            return f"<b>{escape(self.name)}</b>: <i>{escape(str(error))}</i>"

    def _session(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from headrace.spark.session import session

        return self._spark or SparkSession.getActiveSession() or session(f"stream {self.name}")

    def _last(self, info: StoredState, count: int) -> list[tuple[int, int, bytes]]:
        first = max(info.first_sequence, info.last_sequence - count + 1)
        wanted = StoredRange(self.name, first, info.last_sequence + 1, info.created_ns)
        rows: list[tuple[int, int, bytes]] = []
        for found in self._link.rows(wanted, (), COLUMNS):
            times = [stamp * 1000 for stamp in found.table.column("timestamp").cast("int64").to_pylist()]
            rows += zip(found.sequences, times, found.table.column("data").to_pylist(), strict=True)
        return rows


def _html(name: str, info: StoredState, rows: list[tuple[int, int, bytes]]) -> str:
    sequences = f"{info.first_sequence:,} to {info.last_sequence:,}" if info.messages else "none"
    facts = {
        "messages": f"{info.messages:,}",
        "bytes": f"{info.bytes:,}",
        "sequences": sequences,
        "last at": _time(rows[-1][1]) if rows else "never",
        "made at": _time(info.created_ns),
    }
    head = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    body = "".join(
        f"<tr><td>{sequence}</td><td>{_time(stamp)}</td><td><code>{escape(_shown(data))}</code></td></tr>"
        for sequence, stamp, data in rows
    )
    table = f"<table><tr><th>sequence</th><th>time</th><th>data</th></tr>{body}</table>" if rows else ""
    return f"<b>{escape(name)}</b><table>{head}</table>{table}"


def _shown(data: bytes) -> str:
    text = data[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return f"{text}…" if len(data) > SHOWN_BYTES else text


def _time(stamp_ns: int) -> str:
    return datetime.fromtimestamp(stamp_ns / 1e9, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
