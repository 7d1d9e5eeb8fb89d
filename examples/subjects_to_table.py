"""Listen to subjects for a while and keep what was said as a Parquet table.

    python examples/subjects_to_table.py nats://127.0.0.1:4222 'orders.>' orders-table

Needs `pip install 'headrace[spark]'`; a Java runtime comes with it.
"""

import sys
import tempfile

from headrace.spark.session import session


def listen(url: str, subject: str, table: str, duration: str = "30s") -> int:
    """Append the messages of `duration` to the table; how many rows it has then."""
    spark = session("subjects to table", quick_start=True)
    messages = (
        spark.readStream.format("nats")
        .option("url", url)
        .option("subject", subject)
        .option("captureDuration", duration)
        .load()
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            messages.selectExpr("subject", "sequence", "timestamp", "headers", "cast(data as string) as text")
            .writeStream.format("parquet")
            .option("path", table)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return spark.read.parquet(table).count()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(f"{listen(*sys.argv[1:])} rows in {sys.argv[3]}")
