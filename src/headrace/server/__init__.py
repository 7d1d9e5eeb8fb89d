"""Sockets, TLS, timers, signals and monitoring: what carries bytes between the network and the engine.

Reading order: `server` (life of the whole), `listener` (accept, TLS), `session` (one client's policy),
`transport` and `epoll` (bytes in and out).
"""
