"""Batches of publications: atomic ones (all or none are stored), and fast ingest (acknowledged now and then).

`recovery` removes after a crash what is left of an atomic batch. Never here: the append to the log, or how a
single message is judged.
"""
