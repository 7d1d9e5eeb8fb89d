"""The difference that a reload would make: the file as it is now, against the options that the server has.

The same as `headrace config diff` prints, without secrets. Never lives here: taking changes over
(`headrace.server.reload`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import ConfigError
from headrace.server.monitor.query import QueryError

if TYPE_CHECKING:
    from headrace.conf.options import Options
    from headrace.server.worker import Worker

    class ConfiguredServer(Protocol):
        """A server with its options; `worker`: it is one of several processes."""

        options: Options

        @property
        def worker(self) -> Worker | None: ...


def config_difference(server: ConfiguredServer) -> dict[str, Any]:
    """Return the answer: the file, and each difference with its text.

    Raises: QueryError without a file, and for one that is wrong, with all that is wrong with it.
    """
    from headrace.conf.binding import load_options
    from headrace.conf.changes import differences

    worker = server.worker
    old = server.options if worker is None else worker.whole_options
    if old.config_file is None:
        raise QueryError("the server was started without a configuration file")
    try:
        new = load_options(old.config_file, overrides=old.overrides)
    except ConfigError as error:
        raise QueryError("\n".join(map(str, error.problems))) from None
    return {
        "file": old.config_file,
        "digest": new.config_digest,
        "loaded_digest": old.config_digest,
        "differences": [
            {
                "path": change.path,
                "before": change.before,
                "after": change.after,
                "needs_restart": change.needs_restart,
                "text": str(change),
            }
            for change in differences(old, new)
        ],
        "warnings": [*new.warnings, *new.remarks],
    }
