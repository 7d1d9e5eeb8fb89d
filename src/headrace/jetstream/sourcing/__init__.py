"""Mirrors and sources: a stream that takes the messages of other streams.

`manager` starts and stops what a stream follows; `local_source` reads a stream of this account,
`remote_source` asks the API for one elsewhere; `ingest` puts the messages in. Never here: messages of
clients.
"""
