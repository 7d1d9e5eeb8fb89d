"""The state of the stored channel, asked over the server's monitoring port during the run.

Only for the display: Spark tells of stored messages no sooner than with its next micro-batch. Reads
`/streaming/channelsz`, which Headrace and nats-streaming-server answer alike; no verdict rests on it.
"""

from __future__ import annotations

import http.client
import json
import urllib.request
from typing import Final
from urllib.parse import quote

_TIMEOUT: Final = 1.0


def stored_messages(monitor_url: str, channel: str) -> int | None:
    """The last sequence of a channel; None if the server does not tell, or there is no such channel yet."""
    address = f"{monitor_url}/streaming/channelsz?channel={quote(channel, safe='')}"
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT) as answer:
            return int(json.load(answer)["last_seq"])
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None
