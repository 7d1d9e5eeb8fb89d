"""Stores written by nats-server (2.10 to 2.15): detecting, reading and importing them.

- `importer` opens the new store and fills it. Everything else knows the foreign format only.
- `reader` opens a foreign store; `model` is what it finds, free of the format; `metadata` reads
  configurations, `crypt` decrypts, `detecting` tells whether a directory is such a store.
- Messages: `stream_messages` over `stream_index` and `block_files`; `source_positions` for streams with
  sources.
- Consumers: `consumers` over `consumer_state`.
- Members of a cluster: `raft_log`, `raft_streams`, `raft_consumers`.

Never here: how progress is shown and exit codes (`cli.jetstream_import`).
"""
