"""Clusters and JetStream without sockets and without waiting, on a seed and a clock.

`scenario`: real engines and meshes over a simulated network. `js_scenario`: the real JetStream over a
simulated disk, with clients (`js_clients`) that publish, count up and acknowledge while it fails. `bucket`:
servers that take a shard over from each other, over a simulated object store.

A failure names its seed; `PYTHONPATH=tests python -m simulation SEED` (and more seeds; `--jetstream`,
`--bucket` or `--whole`) plays it again and tells what happened.
"""
