"""Objects by key in a directory or an object store: one contract for tables, backups and checkpoints.

In reading order: `port` (the contract, blocking and for an event loop), `errors`, `reading` (an object
as one of Python's files), `local` (a directory, synced and locked), `shared_directory` (one that several
processes write without a lock), `remote` (S3, Google Cloud Storage, Azure and whatever else obstore knows),
`answers` (the meaning of what it raises), `opening` (a path or URL to a store). Never lives here: what a key
means, or what is in an object.
"""
