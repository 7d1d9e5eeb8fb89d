"""The exceptions of the Spark data source; each text names the option and what to do.

Only exception classes live here. Spark shows the text inside its own exception (`AnalysisException`
for options, `StreamingQueryException` for a running query).
"""

from __future__ import annotations

from headrace.errors import HeadraceError


class SparkSourceError(HeadraceError):
    """Root of the errors of `headrace.spark`."""


class OptionError(SparkSourceError, ValueError):
    """An option is missing, unknown or has a value that cannot be used."""


class CaptureError(SparkSourceError):
    """The capture of core subjects ended, so that messages may be missing: the query must fail."""


class SpoolFullError(CaptureError):
    """The spool reached `spoolMaxBytes`, or its disk is full."""


class StoredStreamError(SparkSourceError):
    """A server cannot be asked about a channel or stream, or refuses: the text names both."""


class ValueFormatError(SparkSourceError, ValueError):
    """A payload is not what option valueFormat says, and option valueMode says to fail."""


class DataLossError(SparkSourceError):
    """Messages that should be read are gone: this run does not have them, or the server no longer has."""


class SinkError(SparkSourceError):
    """A write cannot go on, or cannot keep its promise: the text names the server and the target."""


class RowError(SinkError):
    """A row cannot be a message; the text names its column."""


class JavaError(SparkSourceError):
    """No Java that Spark can run on was found; the text lists what was tried."""
