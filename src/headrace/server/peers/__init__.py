"""Connections to other servers: their sockets, TLS, ends and log lines.

Never lives here: what is said on them (`headrace.cluster`), how their bytes are read (`headrace.engine`).
"""
