"""Batches of publications: atomic ones (all or none are stored), and fast ingest (acknowledged now and then).

`atomic` and `fast` are the two kinds, `headers` their headers, `recovery` removes after a crash what is left
of an atomic batch. Never here: the append to the log, or the checks of a message (`stream.checks`).
"""
