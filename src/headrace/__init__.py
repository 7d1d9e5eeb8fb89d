"""Headrace: a NATS-compatible messaging server whose streams are Spark tables."""

__version__ = "0.1.0"
