"""Import of file stores written by NATS Streaming servers (0.25): reading them, and filling a log store.

`reader` and what it is made of know the foreign format and nothing of our log; `importer` knows both. Never
here: how progress is shown and exit codes (`cli.streaming_import`), what a server does with the state.
"""
