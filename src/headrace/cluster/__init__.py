"""Connections to other servers: routes of a cluster, leaf nodes, gateways to other clusters.

Machines without a socket, an event loop or a clock of their own. In reading order:

- `port`, `leaf_port`: what the machines are given by the server. `session`, `attempts`,
  `compression`, `names`: what connections of all kinds share.
- Routes: `route` (one connection) in a `dialect`; `registration`, `registry`, `route_accounts`,
  `client_addresses`, `rules`, `soliciting`, `gossip`, `bridge`, `duplicates`, `reconfiguration` and
  `anti_entropy`, each a part; `mesh`
  puts them together.
- Leaf nodes: `leaf` (one connection), `leafs` (all).
- Gateways: `gateway` (one connection), `remote_cluster` (another cluster), `gateway_gossip`,
  `gateways` (all).

Never lives here: how messages and interest cross a connection (`engine.route`, `engine.leaf`,
`engine.gateway`), sockets, TLS and names of hosts (`server.peers`), the JSON of peers (`protocol.peers`).
"""
