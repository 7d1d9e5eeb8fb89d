"""Streams: messages in, reads, removal, and the configurations that are valid.

- `stream` puts the parts together. `rules` judge a configuration, with `reservations` (room for it in the
  limits) and `extensions` (entries of its metadata).
- In: `ingest` takes a turn's publications, `publication` is one of them, `checks` the table of what
  refuses it, which `acceptance` walks, with `dedupe` (message ids; `id_filling` reads
  them after a start), `counters` and `ttl`; `features` are parts that follow publications, `republish`
  publishes it again.
- Reads: `gets` and `direct_gets`. Removal: `removal`, `expiry` and `interest_retention`; `retries` do again
  what a disk refuses of it.

Never here: how far consumers are, or the JSON of the API.
"""
