"""The demonstration behind `headrace demo`: real flights through a server into a Spark table.

Here live its feed, its server and its publisher (processes of their own), the kill in the middle, its
Spark job, its display and its chart. Nothing else in the project imports this package.
Reading order: `feed`, `channel`, `publisher`, `server`, `outage`, `job`, `run`, `outcome`.
"""
