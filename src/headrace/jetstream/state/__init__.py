"""What outlives the process besides messages: which streams and consumers there are, and how far those are.

`records` has the entries, `journal` writes them, `recovery` reads them at a start; `backup` and `restore`
take a stream out of an account and back in. Never here: messages in logs, or requests of clients.
"""
