"""Monitoring over HTTP: the state of the server in the Go server's JSON and in Prometheus text.

- `source` is the port to the server and the snapshots it answers with; `text` and `query` are the forms of
  answers and of requests, `access` decides who may read.
- One module for each endpoint: `varz`, `connz`, `subsz`, `links` (routes, leaf nodes, gateways), `accountz`,
  `accstatz`, `healthz`, `jsz`, `runtime`, `streaming`, `index`; `metrics`, `jetstream_metrics`
  and `bucket_metrics` are the Prometheus text. `jetstream`, `archive`, `bucket` and `certificates` are used
  by several, `gathered` makes long listings.
- `aggregate` has the snapshots of several processes, `combining` makes one of them; `handlers` is the aiohttp
  application, `listener` its port.

aiohttp is loaded when a monitor is started.
"""
