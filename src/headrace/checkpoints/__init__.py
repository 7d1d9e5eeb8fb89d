"""Checkpoints of Spark in an object store: a gateway that speaks WebHDFS, as Spark's Hadoop client does.

    with object_checkpoint("s3://bucket/checkpoints") as location:
        frame.writeStream.option("checkpointLocation", f"{location}/orders") ...

Pip's PySpark has no client of object stores. Here live what a file is in such a store (`objects`), the wire
(`webhdfs`) and the life of the gateway (`gateway`). Never here: what Spark keeps in a checkpoint.
"""

from headrace.checkpoints.gateway import object_checkpoint

__all__ = ["object_checkpoint"]
