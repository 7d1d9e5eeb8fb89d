"""Contexts of the `nats` command line tool: a file that says where a server is and who to be there.

`~/.config/nats/context/NAME.json` (XDG_CONFIG_HOME instead of ~/.config where it is set). Read only; what
such a file may say and this client cannot do is an error, not ignored.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from headrace.client.address import Credentials, read_credentials_file, read_seed_file
from headrace.client.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CANNOT: Final = ("nsc", "user_jwt", "user_seed", "socks_proxy", "windows_cert_store", "windows_cert_match")
"""Ways to connect that only the tool has."""


class SavedContext(Struct, frozen=True):
    """The settings of one context; None for each that it does not have."""

    url: str | None = None
    credentials: Credentials = field(default_factory=Credentials)
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    tls_first: bool = False
    jetstream_domain: str | None = None
    jetstream_api_prefix: str | None = None
    inbox_prefix: str | None = None


def read_context(name: str, environment: Mapping[str, str] | None = None) -> SavedContext:
    """The context of this name. Raises: CredentialsError naming the file and what is wrong with it."""
    if not name or "/" in name or "\\" in name or name.startswith("."):
        raise CredentialsError(f"{name!r} is not the name of a context")
    env = os.environ if environment is None else environment
    config = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or Path.home()) / ".config")
    folder = config / "nats" / "context"
    path = folder / f"{name}.json"
    try:
        fields = json.loads(path.read_text())
    except OSError as error:
        there = ", ".join(sorted(file.stem for file in folder.glob("*.json"))) or "none"
        raise CredentialsError(f"cannot read {path}: {error.strerror}; there are: {there}") from error
    except ValueError as error:
        raise CredentialsError(f"{path} is not JSON") from error
    if not isinstance(fields, dict):
        raise CredentialsError(f"{path} is not a JSON object")
    cannot = [one for one in _CANNOT if fields.get(one)]
    if cannot:
        raise CredentialsError(f"{path} uses {', '.join(cannot)}, which this client does not support")
    return _context(path, fields)


def _context(path: Path, fields: dict[str, Any]) -> SavedContext:
    def text(name: str) -> str | None:
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise CredentialsError(f"{path}: {name} is not a text")
        return value or None

    def file(name: str) -> str | None:
        value = text(name)
        return None if value is None else str(Path(value).expanduser())

    if (text("cert") is None) != (text("key") is None):
        raise CredentialsError(f"{path}: cert and key need each other")
    return SavedContext(
        url=text("url"),
        credentials=_credentials(path, file("creds"), file("nkey"), text),
        tls_ca_file=file("ca"),
        tls_cert_file=file("cert"),
        tls_key_file=file("key"),
        tls_first=fields.get("tls_first") is True,
        jetstream_domain=text("jetstream_domain"),
        jetstream_api_prefix=text("jetstream_api_prefix"),
        inbox_prefix=text("inbox_prefix"),
    )


def _credentials(path: Path, creds: str | None, nkey: str | None, text: Any) -> Credentials:
    if creds is not None:
        return read_credentials_file(creds)
    if nkey is not None:
        return read_seed_file(nkey)
    user, password, token = text("user"), text("password"), text("token")
    if user is not None and token is not None:
        raise CredentialsError(f"{path}: user and token exclude each other")
    return Credentials(user, None if user is None else password or "", token)
