"""The benchmarks: a server and its peer side by side, with the same native load.

Reading order: `cases` (what is measured and the target of each line), `runner` (how), `process`
(the servers), `generator` and `tls_load` (the load), `results` (numbers, medians, verdicts),
`render` and `chart` (docs/performance.md), `soak` (memory over minutes). Run `python -m bench`.
Nothing here is imported by the server.
"""
