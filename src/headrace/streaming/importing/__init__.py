"""Import of file stores written by NATS Streaming servers (0.25): reading them, and filling a log store.

- `importer` knows both formats and fills the store; `state_conversion` converts clients and subscriptions.
- `reader` opens a foreign store: its `journals` (clients and subscriptions) and the `slices` of messages,
  over `slice_index`, `records` and `checksums`. `model` is what it finds, free of the format.
- `detecting` tells whether a directory is such a store.

Never here: how progress is shown and exit codes (`cli.streaming_import`), what a server does with the state.
"""
