"""The durable message log: segments on disk to which records are appended; a log in memory beside it.

In reading order:

- `port`: the contract. `memory` and `file` keep it; `outline` is a message without its parts, `filters` are
  the subjects of a read.
- Files of a log: `segment`, `segments`, `segment_files`, `after_sync`, `index`, `packing` (compression),
  `encryption`.
- Reading: `reader`, `lookup`, `counting`. Removing: `retention`, `occupancy`, `compaction`.
- Opening: `recovery`, `checkpoint_recovery`, `ledger`, `checkpoints`, `damage`; `view` reads beside a
  process that writes.
- Durability: `committer`, `syncs_in_flight`.
- Many logs: `store` (also one that processes share), `closing`, `staging`, `key_rotation`.
- `filesystem`: the calls to the file system, as a port.

Never lives here: a wire, a socket, anything of STAN, JetStream or Spark.
"""
