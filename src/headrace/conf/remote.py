"""The NATS server elsewhere that streaming may be a client of; loaded only where there is one.

Frozen data only. What may stand beside what is decided in `streaming_rules`.
"""

from __future__ import annotations

from typing import Final

from headrace.conf.keys import Flag, Keyed, key

_TLS: Final = "Streaming TLS"


class NATSServerOptions(Keyed, frozen=True):
    """The NATS server elsewhere that streaming uses instead of one of its own, and who to be there.

    `url` may name several with commas between them. At most one of `credentials` (a file with JWT and seed),
    `nkey_seed_file`, `username` and `token` is set. `secure` asks for TLS, so do the files.
    """

    HIDDEN = frozenset({"url", "password", "token"})

    url: str
    credentials: str | None = key(None, "File with a JWT and its seed, read at each connection")
    nkey_seed_file: str | None = key(None, "File with a seed, read at each connection")
    username: str | None = key(None, "User", aliases=("user",))
    password: str | None = key(None, "Password of the user", aliases=("pass",))
    token: str | None = key(None, "Token")
    secure: bool = key(
        False,
        "Reach the server by TLS, which is done also when it asks for it",
        flag=Flag(("secure",), "", "Reach the NATS server by TLS", _TLS),
    )
    client_cert: str | None = key(
        None,
        "Certificate that is shown",
        flag=Flag(("tls_client_cert",), "file", "Certificate for that", _TLS),
    )
    client_key: str | None = key(
        None,
        "Its private key",
        flag=Flag(("tls_client_key",), "file", "Private key for that", _TLS),
    )
    client_ca: str | None = key(
        None,
        "Authorities that the server's certificate is checked with",
        aliases=("client_cacert",),
        flag=Flag(("tls_client_cacert",), "file", "Authorities for that", _TLS),
    )
    server_name: str | None = key(None, "Name in the server's certificate", aliases=("server_hostname",))
    skip_verify: bool = key(False, "Believe any certificate", aliases=("insecure",))
