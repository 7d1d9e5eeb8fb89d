"""Stores written by nats-server (2.10 to 2.15): seeing that they are there, reading and importing them.

`importer` knows both formats, everything else knows the foreign one and nothing of our log. Never here: how
progress is shown and exit codes (`cli.jetstream_import`).
"""
