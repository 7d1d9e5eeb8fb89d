"""Small clients the ecosystem lacks, for notebooks, Spark workers and STAN programs.

In reading order:

- A connection: `address` and `contexts` (where a server is, and who to be there), `transport` (a socket with
  time limits), `signing` and `handshake` (INFO and CONNECT), `codec` and `headers` (the wire), `errors`.
- `blocking`: the blocking client over these.
- Over `blocking`: `jetstream` and `replay` (ranges of streams and of stored channels, as columns);
  `pipeline` (many unacknowledged messages, through outages) with `core_publish`, `jetstream_publish` and
  `streaming_publish`; `streaming_admin`.
- `stan`: a client of NATS Streaming for asyncio, over nats-py.

Publishing and reading need no package but msgspec; `stan` needs nats-py, and keys need cryptography. Never
lives here: code of a server, anything of Spark.
"""
