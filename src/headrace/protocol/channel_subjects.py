"""Under which subjects plain NATS asks for stored channels, before the cluster ID: a server listens to them
from its start on, and loads what answers (`replay`, `admin`) with the first request.
"""

from __future__ import annotations

from typing import Final

REPLAY: Final = "_STAN.replay."
ADMINISTRATION: Final = "_STAN.admin."
