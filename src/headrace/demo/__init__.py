"""The demonstration behind `headrace demo`: real flights through a server into a Spark table.

Here live its feed, its publisher (a process of its own), its Spark job, its display and its chart.
Nothing else in the project imports this package. Reading order: `feed`, `publisher`, `job`, `run`.
"""
