"""Mirrors and sources: a stream that takes the messages of other streams.

- `rules` judge a configuration, `origin` is one configured stream: names, filters, transforms.
- `manager` starts and stops the readers of a stream. A `reader` is one source: how far it is, what it waits
  for; `local_source` reads a stream of this account, `remote_source` asks the API for one elsewhere.
- `ingest` puts the messages into this stream's log.

Never here: messages of clients.
"""
