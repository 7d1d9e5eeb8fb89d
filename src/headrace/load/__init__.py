"""Loads: what a NATS server is measured with (`headrace bench`), and what came of it as numbers.

In reading order:

- What is asked for: `options` (scenarios and their options), `errors`.
- What comes of it: `histogram`, `result` (the figures of a client), `running` (a report), `comparison` (two
  servers in alternation), `documents` (the JSON of both).
- One client: `loops` (compiled: what is done once per message), `connection` (a socket around them, opened
  and kept by `headrace.client`), `client` (the contract), `publishing`, `receiving`.
- Two servers: `latency`, from one to the other.
- All of them: `plan` (options to clients), `preparation` (streams and consumers), `board` and `processes`.

Each client is a process, forked: Python's interpreter runs one thread at a time. Loads need no package but
those of the client. Never lives here: a terminal, or code of a server.
"""
