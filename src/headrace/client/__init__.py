"""Small clients the ecosystem lacks: `blocking` for notebooks and Spark workers.

Here live clients of a NATS server and their codec; never server code, never anything of Spark.
Reading order: `codec`, `headers`, `address`, `transport`, `blocking`. Standard library only.
"""
