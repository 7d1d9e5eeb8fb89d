"""Schemas of streams: what their payloads are, said in the stream's metadata (ADR 0036).

`metadata` says which keys there are and makes them; `payloads` reads payloads, by the schema's language:
`json_schema`, `avro`, `protobuf`. `column_types` are the types of columns, `arrow` makes columns of them.

    from headrace.schemas import metadata
    StreamConfig(name="ORDERS", subjects=["orders.>"], metadata=metadata(order_schema, check=True))

Never here: a server, a session of Spark, a file. The packages of the languages are asked for where they are
needed (`pip install 'headrace[schemas]'`).
"""

from headrace.schemas.metadata import metadata

__all__ = ["metadata"]
