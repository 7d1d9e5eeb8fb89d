from __future__ import annotations

import subprocess
import sys

import pytest

from headrace.errors import UnsupportedError
from headrace.spark.core_reader import CoreStreamReader
from headrace.spark.datasource import NatsDataSource
from headrace.spark.errors import OptionError
from headrace.spark.schema import COLUMNS
from headrace.spark.sink import NatsBatchWriter, NatsStreamWriter
from headrace.spark.stored_reader import FilteringBatchReader, StoredBatchReader, StoredStreamReader


def test_datasource_with_subject_gives_columns_and_a_stream_reader() -> None:
    source = NatsDataSource({"subject": "a"})
    assert NatsDataSource.name() == "nats"
    assert source.schema() == COLUMNS
    assert isinstance(source.streamReader(COLUMNS), CoreStreamReader)


@pytest.mark.parametrize("kind", ["channel", "stream"])
def test_datasource_with_stored_streams_reads_streams_and_tables(kind: str) -> None:
    source = NatsDataSource({kind: "a", "valueFormat": "binary"})
    assert source.schema() == COLUMNS
    assert isinstance(source.streamReader(COLUMNS), StoredStreamReader)
    assert isinstance(source.reader(COLUMNS), StoredBatchReader)


def test_datasource_channel_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OptionError, match=r"endingTimestamp are for spark\.read"):
        NatsDataSource({"channel": "a", "endingOffsets": "latest"}).streamReader(COLUMNS)
    with pytest.raises(OptionError, match="startingOffsets: latest would read nothing"):
        NatsDataSource({"channel": "a", "startingOffsets": "latest"}).reader(COLUMNS)


def test_datasource_wrong_option_fails_when_the_frame_is_made() -> None:
    with pytest.raises(OptionError, match="option stream is missing"):
        NatsDataSource({}).schema()
    with pytest.raises(OptionError, match="options channel and stream exclude each other"):
        NatsDataSource({"channel": "x", "stream": "y"}).schema()
    with pytest.raises(OptionError, match="options channel and stream and path exclude each other"):
        NatsDataSource({"path": "x", "channel": "y", "stream": "z"}).schema()
    with pytest.raises(OptionError, match="option stream with option path is for tables"):
        NatsDataSource({"path": "x", "stream": "y"}).reader(COLUMNS)
    with pytest.raises(OptionError, match="option queue goes with option subject, not with option path"):
        NatsDataSource({"path": "x", "channel": "y", "queue": "q"}).schema()


def test_datasource_pushdown_is_for_tables_only() -> None:
    source = NatsDataSource({"stream": "a", "pushdown": "true"})
    assert isinstance(source.reader(COLUMNS), FilteringBatchReader)
    assert type(NatsDataSource({"stream": "a"}).reader(COLUMNS)) is StoredBatchReader
    with pytest.raises(OptionError, match=r"pushdown is for spark\.read"):
        source.streamReader(COLUMNS)


def test_datasource_columns_follow_the_options() -> None:
    given = {"stream": "a", "valueFormat": "json", "valueSchema": "id bigint", "includeHeaders": "false"}
    columns = NatsDataSource(given).schema()
    assert "headers" not in columns.names
    assert columns["data"].dataType.simpleString() == "struct<id:bigint>"
    with pytest.raises(OptionError, match="schema: column 'headers' is not one of"):
        NatsDataSource(given).reader(COLUMNS)


def test_datasource_reading_a_table_of_subjects_says_not_supported() -> None:
    with pytest.raises(UnsupportedError, match=r"does not support spark\.read"):
        NatsDataSource({"subject": "a"}).reader(COLUMNS)


def test_datasource_writes_frames_and_streams() -> None:
    source = NatsDataSource({"subject": "a", "checkpointLocation": "c"})
    assert isinstance(source.writer(COLUMNS, overwrite=False), NatsBatchWriter)
    assert isinstance(source.streamWriter(COLUMNS, overwrite=True), NatsStreamWriter)
    with pytest.raises(OptionError, match=r"subject a cannot be overwritten"):
        source.writer(COLUMNS, overwrite=True)
    named = NatsDataSource({"stream": "S", "idColumn": "subject", "writeId": "w"})
    assert isinstance(named.writer(COLUMNS, overwrite=False), NatsBatchWriter)
    with pytest.raises(OptionError, match=r"writeId is for df\.write"):
        named.streamWriter(COLUMNS, overwrite=False)


def test_pyspark_nats_is_light_until_asked_for_its_class() -> None:
    code = (
        "import sys, pyspark_nats\n"
        "assert 'pyspark' not in sys.modules and 'pyarrow' not in sys.modules\n"
        "assert not hasattr(pyspark_nats, 'Other')\n"
        "assert pyspark_nats.DefaultSource.name() == 'nats'\n"
        "from headrace.spark.datasource import NatsDataSource\n"
        "assert pyspark_nats.DefaultSource is NatsDataSource\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_headrace_spark_and_client_import_neither_pyspark_nor_asyncio() -> None:
    code = (
        "import sys, headrace.spark, headrace.client.blocking\n"
        "assert not {'pyspark', 'pyarrow', 'asyncio', 'nats'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
