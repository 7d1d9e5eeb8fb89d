"""Streaming attached to a NATS server elsewhere: the service as that server's client instead of its part.

`connection` is one connection, `host` keeps one up and gives it to a service, `identity` is who to be there,
`server` is what the process sees in place of `headrace.server.server.Server`. No rule of STAN's lives here.
"""
