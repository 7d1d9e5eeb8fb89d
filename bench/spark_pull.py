"""What Spark's benches are compared with: a data source as one writes it with nats-py's pull consumers.

Also what these benches have in common: the size of a row, the tasks, and what workers import. No measuring.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from bench.machine import ROOT
from bench.stores import STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator

ROW_BYTES = 128
TASKS = 2
PULL_BATCH = 1000


def let_workers_import() -> None:
    """Let Spark's workers import the sources and these benches; before the session begins."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


async def pull(url: str, first: int, count: int) -> list[Any]:
    """Give the messages as nats-py's pull consumers do, from a sequence on."""
    import nats
    from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

    config = ConsumerConfig(
        ack_policy=AckPolicy.NONE, deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first
    )
    connection = await nats.connect(url)
    consumer = await connection.jetstream().pull_subscribe("", stream=STREAM, config=config)
    found: list[Any] = []
    while len(found) < count:
        found += await consumer.fetch(min(PULL_BATCH, count - len(found)), timeout=10)
    await connection.close()
    return found


def pull_source() -> Any:
    """Give a data source as one writes it with nats-py: a task is a pull consumer of its own sequences."""
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self, url: str, rows: int) -> None:
            self.url, self.rows = url, rows

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(TASKS)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            share = self.rows // TASKS
            found = asyncio.run(pull(self.url, 1 + partition.value * share, share))
            columns = [
                pa.array([message.subject for message in found]),
                pa.array([message.metadata.sequence.stream for message in found], pa.int64()),
                pa.array([message.data for message in found], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, ["subject", "sequence", "data"])

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "nats_py"

        def schema(self) -> str:
            return "subject string, sequence long, data binary"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(self.options["url"], int(self.options["rows"]))

    return Source
