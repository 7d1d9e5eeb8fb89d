"""Keep a JetStream stream as a Parquet table: each run adds what is new, every message is in it once.

    python examples/stream_to_table.py nats://127.0.0.1:4222 ORDERS orders-table

Needs `pip install 'headrace[spark]'`; a Java runtime comes with it.
"""

import sys

from headrace.spark.session import session


def append(url: str, stream: str, table: str) -> int:
    """Append what is new in the stream to the table; how many rows it has then."""
    spark = session("stream to table", quick_start=True)
    messages = (
        spark.readStream.format("nats")
        .option("url", url)
        .option("stream", stream)
        .option("startingOffsets", "earliest")  # of the first run; the next ones go on from the checkpoint
        .load()
    )
    query = (
        messages.selectExpr("subject", "sequence", "timestamp", "headers", "cast(data as string) as text")
        .writeStream.format("parquet")
        .option("path", table)
        .option("checkpointLocation", f"{table}-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.read.parquet(table).count()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(f"{append(*sys.argv[1:])} rows in {sys.argv[3]}")
