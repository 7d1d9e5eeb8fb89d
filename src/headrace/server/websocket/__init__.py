"""Clients and other servers over WebSocket (RFC 6455): frames that carry the NATS protocol.

HTTP, frames and compression are the `websockets` package's, without its sockets. Here lives what ties it to
the engine: the port (`listener`, `access`), who may upgrade (`request`, `handshake`), the bytes after it
(`transport`, `deflate`), the connections that are carried (`connections`), and those that this
server begins (`dialing`). Where there is a console: browsers that ask for its files (`pages`), and its
operator for one run (`operator_access`). The port itself is bound in `binding`.

Cost: loaded only where a configuration has a `websocket` block.
"""
