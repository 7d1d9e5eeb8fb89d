"""Makes `format("nats")` known to PySpark, which imports every package named `pyspark_*` at look-up.

Only the attribute PySpark asks for is here, and it is imported when asked for: importing this package
must stay cheap for everyone who has it installed. The data source itself is `headrace.spark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.spark.datasource import NatsDataSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> type[DefaultSource]:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headrace.spark.datasource import NatsDataSource

    return NatsDataSource
