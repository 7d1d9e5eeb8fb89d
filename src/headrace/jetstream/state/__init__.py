"""The durable state besides messages: the streams and consumers, and the positions of consumers.

`records` has the entries, `journal` writes them, `recovery` reads them at a start; `backup` and `restore`
take a stream out of an account and back in. Never here: messages in logs, or requests of clients.
"""
