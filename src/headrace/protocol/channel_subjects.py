"""The subjects under which plain NATS asks for stored channels, before the cluster ID."""

from __future__ import annotations

from typing import Final

REPLAY: Final = "_STAN.replay."
ADMINISTRATION: Final = "_STAN.admin."
