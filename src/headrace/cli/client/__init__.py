"""The commands of the client: what a person does to a NATS server, ours or another.

`rows/` has what each is called and takes; a module here has what it does, and is loaded when it is called:

- `rtt`: the way to the server and back.
- `pub`, `sub`: messages out and in; `templates` in bodies.
- `request`, `reply`: questions and answers.
- `context`: saved connections; `account`: who one is, and what one may.
- `rtt`;
- `bench`.

Never lives here: the protocol (`headrace.client`), flags, tables, exit codes (`headrace.cli`).
"""
