"""Streams: messages in, reads, removal, and the configurations that are valid.

- `stream` puts the parts together. `rules` judge a configuration, with `reservations` (room for it in the
  limits).
- In: `ingest` takes a turn's publications, `publication` is one of them, `acceptance` judges it, with
  `dedupe` (message ids), `counters` and `ttl`; `features` is what a part may do with it, `republish`
  publishes it again.
- Reads: `gets` and `direct_gets`. Removal: `removal`, `expiry` and `interest_retention`.

Never here: how far consumers are, or the JSON of the API.
"""
