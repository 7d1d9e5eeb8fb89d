"""Small clients the ecosystem lacks, for notebooks, Spark workers and STAN programs.

In reading order:

- The protocol without a socket: `machine` (one connection: bytes and calls in; bytes, messages and events
  out), over `codec` and `headers` (the wire) and `server_info` (INFO); `subscriptions` outlive a connection.
- Where to, and as whom: `address`, `options`, `contexts`, `tls`; `errors`; `retries` after an
  outage.
- `blocking`: the blocking client, over a machine and `transport` (a socket with time limits), which
  `handshake` opens. `headrace.attached` is the same over asyncio.
- `reconnecting`: a connection that comes back after outages; `system`: one request, the answers of many.
- Over `blocking`: `inbox` (answers of several messages) and `jetstream_api`, by which `jetstream` and
  `replay` read ranges of streams and of stored channels, as columns;
  `pipeline` (many unacknowledged messages, through outages) with `core_publish`, `jetstream_publish` and
  `streaming_publish`; `streaming_admin`.
- JetStream for people: `api` makes and changes streams and consumers, `consuming` pulls their messages,
  `keyvalue` and `objects` are buckets over them.
- `stan`: a client of NATS Streaming for asyncio, over nats-py.

Publishing and reading need no package but msgspec; `stan` needs nats-py, and keys need cryptography. Never
lives here: code of a server, anything of Spark.
"""
