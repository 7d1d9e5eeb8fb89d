"""JetStream as a service: streams and consumers over the message log, one account at a time.

- `opening` makes it from the server's options. `system` is what accounts share, `service` is one account as a
  service, `account` its parts, its effects and the order of things in a turn. `ports` are what parts see of
  their wholes.
- `assets` makes, changes and removes streams and consumers; `stream_configs` finds streams by subject;
  `limits` are those of accounts and the server.
- `alarm` is one timer of a part, `advisories` composes advisories, `stats` is what monitoring reads, `stored`
  what is archived, `refusing` answers where an account has no JetStream.
- Rooms: `stream`, `consumer`, `sourcing`, `batch`, `schedule`, `state`, `api`, `importing`.

Never lives here: a socket, a thread, a file but for `opening` and `importing`.
"""
