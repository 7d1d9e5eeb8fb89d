"""Streams: what goes into one, what is read from it, what is removed again, what may be configured for it.

`stream` puts the parts together, `ingest` and `publication` take messages in, `gets` and `direct_gets` read
them, `expiry` and `interest_retention` remove them. Never here: how far consumers are, or the JSON of the
API.
"""
