"""A check before Spark starts: does the server send its own events (`$SYS`) to a pipeline that wants them?

A subscription to them is always accepted, and stays silent for users of other accounts; a run that waits for
nothing would be the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.client.blocking import connect
from headrace.client.errors import ClientTimeoutError, NoRespondersError, ServerError
from headrace.errors import ConfigError, ConfigProblem
from headrace.pipelines.spec import NATS
from headrace.spark.options import read_options

if TYPE_CHECKING:
    from headrace.pipelines.spec import Source, Spec

_EVENTS: Final = "$SYS."
_PING: Final = "$SYS.REQ.SERVER.PING"
_TIMEOUT: Final = 2.0


def check_events(spec: Spec) -> None:
    """Ask the servers of sources that want such events.

    Raises: ConfigError where nobody would send any; ClientError if a server cannot be reached.
    """
    for source in spec.sources:
        if source.format == NATS:
            _check_source(spec, source)


def _check_source(spec: Spec, source: Source) -> None:
    settings = read_options({**spec.nats, **source.options})
    if not any(subject.startswith(_EVENTS) for subject in settings.subjects):
        return
    chosen = settings.connect_options()._replace(timeout=_TIMEOUT)
    with connect(settings.url, chosen) as connection:
        try:
            connection.request(_PING, timeout=_TIMEOUT)
        except (ServerError, ClientTimeoutError):
            return  # may not ask, which does not say that it may not listen
        except NoRespondersError as error:
            text = (
                f'source "{source.name}": the server sends its events ($SYS) to nobody with these credentials'
            )
            hint = "connect as a user of the server's system_account"
            raise ConfigError([ConfigProblem(text, source.places.get("subject"), hint)]) from error
