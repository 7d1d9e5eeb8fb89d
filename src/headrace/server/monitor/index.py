"""`/`: a page for people, with a link to each endpoint."""

from __future__ import annotations

import html
from typing import Final

_ENDPOINTS: Final = (
    ("/varz", "General"),
    ("/connz", "Connections"),
    ("/subsz", "Subscriptions"),
    ("/accountz", "Accounts"),
    ("/accstatz", "Account Stats"),
    ("/routez", "Routes"),
    ("/leafz", "LeafNodes"),
    ("/gatewayz", "Gateways"),
    ("/healthz", "Health Probe"),
    ("/metrics", "Prometheus Metrics"),
)

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


def index(server_name: str, base_path: str) -> str:
    """The page as HTML; `base_path` is "" or starts with a slash."""
    links = "\n".join(
        f'      <li><a href="{html.escape(base_path + path)}">{title}</a> <code>{path}</code></li>'
        for path, title in _ENDPOINTS
    )
    return _PAGE.format(name=html.escape(server_name), links=links)
