"""Pages of the console that walks visit, as a shop's account (content.py) and an operator see them."""

from __future__ import annotations

from typing import Final

SEEN: Final = {
    "overview": "#/overview",
    "live": "#/live?subject=orders.%3E",
    "alerts": "#/alerts",
    "streams": "#/streams",
    "stream": "#/streams/ORDERS",
    "consumers": "#/consumers",
    "keyvalue": "#/keyvalue/settings",
    "objects": "#/objects/files",
    "services": "#/services",
    "streaming": "#/streaming",
    "pipelines": "#/pipelines",
    "tables": "#/tables",
    "connections": "#/connections",
    "accounts": "#/accounts",
    "map": "#/map",
    "server": "#/server",
}
"""Names of pictures and the addresses of what they show."""


def name_of(address: str) -> str:
    """Return the name of the page that an address leads to."""
    return address.removeprefix("#/").partition("?")[0].partition("/")[0]
