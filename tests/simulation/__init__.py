"""Clusters without sockets and without waiting: real engines and meshes over a network made of a seed and a
clock.

A failure names its seed; `PYTHONPATH=tests python -m simulation SEED` (and more seeds) plays it again and
tells what happened.
"""
