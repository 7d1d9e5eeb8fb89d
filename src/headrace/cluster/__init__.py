"""Clusters: what servers say to each other, and whom a server is connected to.

Pure machines: no socket, no event loop, no clock of their own. `port` is what they are given; `peering`
here has the parts in the order in which they are put together: `route` (one connection), `mesh` (all of
them). Never lives here: how messages and interest cross a connection (`engine.route`), sockets, TLS and
names of hosts (`server.peers`), how peers' JSON is written (`protocol.peers`).
"""
