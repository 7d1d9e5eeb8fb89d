"""Monitoring over HTTP: what the server is doing, in the Go server's JSON and in Prometheus text.

Reading order: `source` (the port to the server), `text` and `query` (forms), one module per endpoint,
`handlers` (aiohttp), `listener` (start and stop). aiohttp is loaded when a monitor is started.
"""
