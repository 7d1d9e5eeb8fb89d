"""Owners, standbys and clients of a shard in a bucket, on a seed and in virtual time.

In reading order: `store` (the bucket as a bad network shows it), `network` (between clients and servers),
`ledger` (what was promised to anybody), `records` (a state that the log of a shard drives), `server` (one
process: it stands by, claims, owns), `clients`, `scenario` (a run with its faults, and what must hold),
`mutations` (rules broken on purpose: each has to be found). `log_server` and `whole`: the same with the whole
of a shard, with snapshots, a local disk and a log in it. `disk_server`, `disk_ledger`, `disk_scenario`,
`disk_mutations`: that with `commit: disk`, where a loss may take something, and how much is checked.
"""
