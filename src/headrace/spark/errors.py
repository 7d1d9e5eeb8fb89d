"""What the Spark data source raises; each text names the option and what to do.

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


class DataLossError(SparkSourceError):
    """A checkpoint asks for messages that this run does not have."""


class JavaError(SparkSourceError):
    """No Java that Spark can run on was found; the text lists what was tried."""
