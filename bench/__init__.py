"""The benchmarks: a server and its peers side by side, with the same native load.

Reading order: `cases` (what is measured and the target of each line), `sides` (who takes part),
`runner` (how), `process` and `stores` (the servers and what they stored), `generator` and `tls_load`
(the load), `results` (numbers, medians, verdicts), `render` and `chart` (docs/performance.md), `soak`
(memory over minutes). Run `python -m bench`. Nothing here is imported by the server.
"""
