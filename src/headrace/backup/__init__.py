"""Backups of a store of logs: made beside a running server, checked without it, and made a store again.

A backup is files that have their hash as their name, and a manifest that says which of them are which log.
Never here: what the logs are for, or arguments of a command line.
"""
