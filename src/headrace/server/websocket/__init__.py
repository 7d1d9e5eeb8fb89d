"""Clients over WebSocket (RFC 6455): frames that carry the client protocol.

HTTP, frames and compression are the `websockets` package's, without its sockets. Here lives what ties it to
the engine: who may upgrade (`request`), the way there (`handshake`), and the bytes after it (`transport`).
Cost: loaded only where a configuration has a `websocket` block.
"""
