"""Clusters and JetStream without sockets and without waiting, on a seed and a clock.

`scenario`: real engines and meshes over a simulated network. `js_scenario`: the real JetStream over a
simulated disk, with clients (`js_clients`) that publish, count up and acknowledge while it fails.

A failure names its seed; `PYTHONPATH=tests python -m simulation SEED` (and more seeds; `--jetstream`) plays
it again and tells what happened.
"""
