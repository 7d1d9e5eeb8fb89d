"""Parts of every import of a foreign store, whatever its format.

`findings` are the faults that an import reports, and the exceptions that end it; `progress` is how far it is,
`source_guard` keeps an import from reading a store that a server is using.
"""
