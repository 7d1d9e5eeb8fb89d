"""The NATS server elsewhere that streaming may be a client of; loaded only where there is one.

Frozen data only. What may stand beside what is decided in `streaming_rules`.
"""

from __future__ import annotations

from headrace.structures import Discreet


class NATSServerOptions(Discreet, frozen=True):
    """The NATS server elsewhere that streaming uses instead of one of its own, and who to be there.

    `url` may name several with commas between them. At most one of `credentials` (a file with JWT and seed),
    `nkey_seed_file`, `username` and `token` is set. `secure` asks for TLS, so do the files.
    """

    HIDDEN = frozenset({"url", "password", "token"})

    url: str
    credentials: str | None = None
    nkey_seed_file: str | None = None
    username: str | None = None
    password: str | None = None
    token: str | None = None
    secure: bool = False
    client_cert: str | None = None
    client_key: str | None = None
    client_ca: str | None = None
    server_name: str | None = None
    skip_verify: bool = False
