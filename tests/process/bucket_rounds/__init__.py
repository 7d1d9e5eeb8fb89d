"""Rounds of trouble for three servers that have one bucket, as processes, with clients that note what they
are promised.

`cluster` has the servers, `route_links` and `harness.store_proxy` what is cut, `clocks` their clocks;
`troubles` what happens in a round, `load` all `clients`, which have a `connection` each, `assets` what they
use, `promises` what they were promised, `play` the course of all.
"""
