"""How many messages the server has sent to Spark, asked over its monitoring port while the run goes on.

Only for the display: Spark tells of received messages no sooner than at the end of a micro-batch. Reads
`/connz`, which Headrace and the Go server answer alike; no verdict rests on it.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Final

_TIMEOUT: Final = 1.0


def messages_sent(monitor_url: str, connection_name: str) -> int | None:
    """Messages sent to the connections of that name, the least of them; None if the server does not tell."""
    try:
        with urllib.request.urlopen(f"{monitor_url}/connz?limit=1024", timeout=_TIMEOUT) as answer:
            connections = json.load(answer)["connections"]
    except (urllib.error.URLError, TimeoutError, ValueError, KeyError):
        return None
    return min((int(c["out_msgs"]) for c in connections if c.get("name") == connection_name), default=None)
