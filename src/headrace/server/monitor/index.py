"""`/`: a page for people, with a link to each endpoint."""

from __future__ import annotations

import html
from typing import Final

_ENDPOINTS: Final = (
    ("/varz", "General"),
    ("/jsz", "JetStream"),
    ("/connz", "Connections"),
    ("/accountz", "Accounts"),
    ("/accstatz", "Account Stats"),
    ("/subsz", "Subscriptions"),
    ("/routez", "Routes"),
    ("/leafz", "LeafNodes"),
    ("/gatewayz", "Gateways"),
    ("/raftz", "Raft Groups"),
    ("/healthz", "Health Probe"),
    ("/debug/vars", "Expvar"),
    ("/metrics", "Prometheus Metrics"),
)
_STREAMING: Final = ("/streaming", "NATS Streaming")

_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>{name}</title>
    <style>body {{ font-family: sans-serif; margin: 2em }} code {{ color: #777 }}</style>
  </head>
  <body>
    <h1>{name}</h1>
    <ul>
{links}
    </ul>
  </body>
</html>
"""


def index(server_name: str, base_path: str, *, streaming: bool = False, console: str | None = None) -> str:
    """The page as HTML; `base_path` is "" or starts with a slash. `streaming`: it has a page of its own.

    `console`: the URL of the console; None: there is none.
    """
    links = [
        f'      <li><a href="{html.escape(base_path + path)}">{title}</a> <code>{path}</code></li>'
        for path, title in (*_ENDPOINTS, *([_STREAMING] if streaming else []))
    ]
    if console is not None:
        links.insert(0, f'      <li><a href="{html.escape(console)}">Console</a></li>')
    return _PAGE.format(name=html.escape(server_name), links="\n".join(links))
