"""The requests of the JetStream API: `dispatch` hears them, `endpoints` finds which one is meant.

Each other module has the requests about one thing (streams, consumers, messages, backups). Never here: the
rules of configurations, or what a stream or a consumer does.
"""
