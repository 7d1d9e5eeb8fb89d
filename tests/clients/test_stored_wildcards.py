"""Many stored streams by wildcard, against real servers and without a JVM: also those that appear later."""

from __future__ import annotations

import asyncio
import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from harness.processes import HEADRACES
from harness.stored_sources import CLUSTER_ID, GoStream, StanChannel
from headrace.client import stan
from headrace.client.blocking import connect
from headrace.client.streaming_admin import StreamingAdmin
from headrace.spark.datasource import NatsDataSource
from headrace.spark.errors import DataLossError, StoredStreamError
from headrace.spark.stored_link import idle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL = ReadAllAvailable()


class Channels(StanChannel):
    pattern, other = "orders.*", "prices"
    names = ("orders.eu", "orders.us", "orders.asia")

    def fill(self, name: str, count: int) -> None:
        async def work() -> None:
            async with await stan.connect(CLUSTER_ID, "publisher", servers=self.url) as client:
                for number in range(count):
                    await client.publish(name, b"%d" % number)

        asyncio.run(work())

    def remove(self, name: str) -> None:
        with connect(self.url) as nc:
            StreamingAdmin(nc, CLUSTER_ID).delete(name)


class Streams(GoStream):
    pattern, other = "ORDERS*", "PRICES"
    names = ("ORDERS_eu", "ORDERS_us", "ORDERS_asia")

    def fill(self, name: str, count: int) -> None:
        self.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], "allow_direct": True})
        with connect(self.url) as nc:
            for number in range(count):
                nc.request(f"{name}.x", b"%d" % number)

    def remove(self, name: str) -> None:
        assert self.api(f"STREAM.DELETE.{name}")["success"]


class OwnStreams(Streams):
    program = HEADRACES[0]


MADE: Final = {"stan-headrace": Channels, "jetstream-nats-server": Streams, "jetstream-headrace": OwnStreams}


@pytest.fixture(params=MADE)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made: Any = MADE[request.param](tmp_path)
    yield made
    idle.clear()
    made.stop()


def options(source: Any, **more: str) -> dict[str, str]:
    return {**source.options(), source.word: source.pattern, **more}


def stream(source: Any, **more: str) -> Any:
    found = NatsDataSource(options(source, **{"startingOffsets": "earliest", **more}))
    return found.streamReader(found.schema())


def table(source: Any, **more: str) -> Any:
    found = NatsDataSource(options(source, **more))
    return found.reader(found.schema())


def counts(reader: Any, partitions: Any) -> dict[str, int]:
    """Rows of each stream; none of them twice."""
    found = [
        (row["stream"], row["sequence"])
        for partition in pickle.loads(pickle.dumps(partitions))
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]
    assert len(set(found)) == len(found)
    return dict(Counter(name for name, _ in found))


def test_wildcards_read_every_stream_that_they_mean(source: Any) -> None:
    eu, us, _ = source.names
    for name, count in ((eu, 5), (us, 3), (source.other, 2)):
        source.fill(name, count)
    one = table(source)
    assert counts(one, one.partitions()) == {eu: 5, us: 3}
    both = table(source, **{source.word: f"{source.pattern},{source.other}"})
    assert counts(both, both.partitions()) == {eu: 5, us: 3, source.other: 2}
    missing = table(source, **{source.word: "none*" if source.word == "stream" else "none.>"})
    with pytest.raises(StoredStreamError, match=f"there is no {source.word} none"):
        missing.partitions()


def test_streams_that_appear_later_are_read_from_their_first_message(source: Any) -> None:
    eu, us, asia = source.names
    one = stream(source)
    start = one.initialOffset()
    assert one.latestOffset(start, ALL) == start
    source.fill(eu, 4)
    first = one.latestOffset(start, ALL)
    assert counts(one, one.partitions(start, first)) == {eu: 4}
    source.fill(us, 3)
    source.fill(eu, 1)
    source.fill(source.other, 7)
    second = one.latestOffset(first, ReadMaxRows(3))
    third = one.latestOffset(second, ALL)
    assert second != first
    seen = Counter(counts(one, one.partitions(first, second)))
    assert seen.total() == 3
    assert seen + Counter(counts(one, one.partitions(second, third))) == Counter({us: 3, eu: 1})
    source.fill(asia, 1)
    again = pickle.loads(pickle.dumps(stream(source)))  # another run, with the checkpoint of this one
    assert counts(again, again.partitions(first, third)) == {us: 3, eu: 1}
    assert counts(again, again.partitions(third, again.latestOffset(third, ALL))) == {asia: 1}


def test_first_batch_is_repeated_as_it_was_planned_whatever_wildcards_mean_by_then(source: Any) -> None:
    eu, us, asia = source.names
    source.fill(eu, 4)
    one = stream(source, startingOffsets="latest")
    start = one.initialOffset()
    source.fill(eu, 2)
    source.fill(us, 3)
    end = one.latestOffset(start, ALL)
    source.fill(us, 1)
    source.fill(asia, 2)
    for starting in ("earliest", "latest"):  # what Spark asks again, since it keeps the ends of batches only
        again = stream(source, startingOffsets=starting)
        asked = again.initialOffset()
        assert asked != start
        assert counts(again, again.partitions(asked, end)) == {eu: 2, us: 3}
        assert counts(again, again.partitions(end, again.latestOffset(end, ALL))) == {us: 1, asia: 2}
    source.remove(us)
    late = stream(source)
    with pytest.raises(DataLossError, match=f"{source.word} {us} was deleted, sequences 1 to 3"):
        counts(late, late.partitions(late.initialOffset(), end))
    relaxed = stream(source, failOnDataLoss="false")
    assert counts(relaxed, relaxed.partitions(relaxed.initialOffset(), end)) == {eu: 2}


def test_latest_is_for_streams_that_are_there(source: Any) -> None:
    eu, us, _ = source.names
    source.fill(eu, 4)
    one = stream(source, startingOffsets="latest")
    start = one.initialOffset()
    source.fill(eu, 1)
    source.fill(us, 2)
    assert counts(one, one.partitions(start, one.latestOffset(start, ALL))) == {eu: 1, us: 2}


def test_available_now_ends_with_what_was_there(source: Any) -> None:
    eu, us, _ = source.names
    source.fill(eu, 4)
    one = stream(source)
    one.prepareForTriggerAvailableNow()
    start = one.initialOffset()
    source.fill(us, 2)
    source.fill(eu, 2)
    end = one.latestOffset(start, ALL)
    assert counts(one, one.partitions(start, end)) == {eu: 4}
    assert one.latestOffset(end, ALL) == end


def test_stream_that_was_deleted_is_a_loss(source: Any) -> None:
    eu, us, _ = source.names
    source.fill(eu, 4)
    source.fill(us, 2)
    one = stream(source)
    end = one.latestOffset(one.initialOffset(), ALL)
    source.remove(eu)
    source.fill(us, 1)
    with pytest.raises(DataLossError, match=f"{source.word} {eu} was deleted"):
        one.latestOffset(end, ALL)
    relaxed = stream(source, failOnDataLoss="false")
    assert counts(relaxed, relaxed.partitions(end, relaxed.latestOffset(end, ALL))) == {us: 1}
    source.fill(eu, 2)
    following = relaxed.latestOffset(end, ALL)
    assert counts(relaxed, relaxed.partitions(end, following)) == {us: 1, eu: 2}


def test_checkpoint_of_other_wildcards_is_refused(source: Any) -> None:
    source.fill(source.names[0], 1)
    one = stream(source)
    end = one.latestOffset(one.initialOffset(), ALL)
    other = stream(source, **{source.word: "PRICES*" if source.word == "stream" else "prices.*"})
    with pytest.raises(DataLossError, match="give this query a checkpointLocation of its own"):
        other.latestOffset(end, ALL)
