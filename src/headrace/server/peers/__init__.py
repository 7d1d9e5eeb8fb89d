"""Connections to other servers: their sockets, TLS, ends and log lines.

- `port` is what they see of the server. `host` is what all kinds share: a port, connections that it
  accepts or begins (`opening`), and one `connection`.
  `machine_port` is the server as a machine of `cluster` sees it.
- `routes`, `leafs` and `gateways` are the three kinds; `leaf_port` is the server as leaf links see
  it, `leaf_users` are the users of leaf nodes,
  `leaf_websocket` reaches a hub over WebSocket.
- `snapshots` are what monitoring is shown.

Never lives here: the protocol (`headrace.cluster`), or how bytes are read (`headrace.engine`).
"""
