"""Contexts of the `nats` command line tool: files that say where a server is and who to be there.

`~/.config/nats/context/NAME.json` (XDG_CONFIG_HOME instead of ~/.config where it is set), the name of the
selected one in `../context.txt`, of the one before it in `../previous-context.txt`. Both programs may take
turns: what this one does not know stays in a file that it changes. What a context asks for that this client
cannot do is an error, not ignored. Values may be references as that tool has them: `file://PATH`,
`env://NAME` and `data:;base64,...`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.client.address import (
    Credentials,
    credentials_of,
    read_credentials_file,
    read_seed_file,
    seed_of,
)
from headrace.client.errors import ContextMissingError, CredentialsError
from headrace.client.saved_context import SavedContext, context_root, line_of, selected_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CANNOT: Final = (
    "nsc",
    "socks_proxy",
    "windows_cert_store",
    "windows_cert_match_by",
    "windows_cert_match",
    "windows_ca_certs_match",
)
"""Ways to connect that only the tool has."""
_CANNOT_RESOLVE: Final = ("op://", "nsc://")
"""References to secrets in stores of other programs."""

SECRETS: Final = ("password", "token", "user_jwt", "user_seed")
"""Fields whose value is never shown."""
_KINDS: Final = (("user",), ("token",), ("creds",), ("nkey",), ("user_jwt", "user_seed"))
"""The fields of each kind of credentials; a context has one kind."""
_BASE64: Final = "base64"


class ContextFolder:
    """The contexts of a user. Raises, from every method: CredentialsError naming the file and the mistake."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        env = os.environ if environment is None else environment
        self._environment = env
        self._root = Path(context_root(env))
        self.folder = self._root / "context"
        """The directory that the files are in."""

    def path(self, name: str) -> Path:
        """Return the file of a context. Raises: CredentialsError for what is no name of one."""
        if not name or "/" in name or "\\" in name or ".." in name or name.startswith("."):
            raise CredentialsError(f"{name!r} is not the name of a context")
        return self.folder / f"{name}.json"

    def names(self) -> list[str]:
        """Return the names of all contexts, in order."""
        return sorted(file.stem for file in self.folder.glob("*.json") if not file.name.startswith("."))

    def fields(self, name: str) -> dict[str, Any]:
        """Return the fields of a context as they stand in its file.

        Raises: ContextMissingError if there is none of this name; CredentialsError.
        """
        path = self.path(name)
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            there = ", ".join(self.names()) or "none"
            kind = ContextMissingError if isinstance(error, FileNotFoundError) else CredentialsError
            raise kind(f"cannot read {path}: {error.strerror}; there are: {there}") from error
        except ValueError as error:
            raise CredentialsError(f"{path} is not JSON") from error
        if not isinstance(fields, dict):
            raise CredentialsError(f"{path} is not a JSON object")
        return fields

    def read(self, name: str) -> SavedContext:
        """Return the settings of a context, with the credentials that its files hold."""
        path, fields = self.path(name), self.fields(name)
        cannot = [one for one in _CANNOT if fields.get(one)]
        if cannot:
            raise CredentialsError(f"{path} uses {', '.join(cannot)}, which this client does not support")
        return _ContextReader(path, fields, self._environment).context()

    def write(self, name: str, fields: Mapping[str, Any]) -> Path:
        """Write a context, readable by its user only; a reader sees the old one or the new one."""
        path = self.path(name)
        self._write(path, json.dumps(fields, indent=2, ensure_ascii=False) + "\n")
        return path

    def remove(self, name: str) -> None:
        """Remove a context; it is not selected afterwards. Raises: ContextMissingError."""
        self.fields(name)
        self.path(name).unlink()
        if self.selected() == name:
            self.select(None)

    def selected(self) -> str | None:
        """Return the name of the selected context, None without one."""
        return selected_context(self._environment)

    def previous(self) -> str | None:
        """Return the name of the context that was selected before, None without one."""
        return line_of(str(self._root / "previous-context.txt"))

    def select(self, name: str | None) -> None:
        """Select a context, or none. Raises: ContextMissingError."""
        if name is not None:
            self.fields(name)
        before = self.selected()
        if before is not None and before != name:
            self._write(self._root / "previous-context.txt", before)
        if name is None:
            (self._root / "context.txt").unlink(missing_ok=True)
        else:
            self._write(self._root / "context.txt", name)

    def _write(self, path: Path, text: str) -> None:
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with open(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                fresh.rename(path)
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise CredentialsError(f"cannot write {path}: {error.strerror or error}") from error


def read_context(name: str, environment: Mapping[str, str] | None = None) -> SavedContext:
    """The context of this name. Raises: CredentialsError naming the file and what is wrong with it."""
    return ContextFolder(environment).read(name)


class _ContextReader:
    """The settings in the fields of one context."""

    def __init__(self, path: Path, fields: dict[str, Any], environment: Mapping[str, str]) -> None:
        self._path = path
        self._fields = fields
        self._environment = environment

    def context(self) -> SavedContext:
        if (self._text("cert") is None) != (self._text("key") is None):
            raise CredentialsError(f"{self._path}: cert and key need each other")
        return SavedContext(
            url=self._text("url"),
            credentials=self._credentials(),
            tls_ca_file=self._file("ca"),
            tls_cert_file=self._file("cert"),
            tls_key_file=self._file("key"),
            tls_first=self._fields.get("tls_first") is True,
            jetstream_domain=self._text("jetstream_domain"),
            jetstream_api_prefix=self._text("jetstream_api_prefix"),
            jetstream_event_prefix=self._text("jetstream_event_prefix"),
            inbox_prefix=self._text("inbox_prefix"),
        )

    def _text(self, name: str) -> str | None:
        value = self._fields.get(name)
        if value is not None and not isinstance(value, str):
            raise CredentialsError(f"{self._path}: {name} is not a text")
        return value or None

    def _file(self, name: str) -> str | None:
        value = self._text(name)
        return None if value is None else str(_expanded(value.removeprefix("file://")))

    def _value(self, name: str) -> str | None:
        """Return a value, or what its reference leads to."""
        value = self._text(name)
        if value is None:
            return None
        found = self._resolved(name, value)
        if found is None and value.startswith("file://"):
            return self._content(name, value)
        return value if found is None else found

    def _resolved(self, name: str, value: str) -> str | None:
        """Return what a reference leads to that is no file; None for another value."""
        for scheme in _CANNOT_RESOLVE:
            if value.startswith(scheme):
                text = f"{name} is in the store of another program ({scheme}), which this client cannot read"
                raise CredentialsError(f"{self._path}: {text}")
        if value.startswith("env://"):
            variable = value.removeprefix("env://")
            found = self._environment.get(variable)
            if found is None:
                raise CredentialsError(f"{self._path}: {name}: the variable {variable} is not set")
            return found
        if value.startswith("data:"):
            return self._data(name, value)
        return None

    def _data(self, name: str, value: str) -> str:
        from base64 import b64decode

        kind, comma, payload = value.removeprefix("data:").partition(",")
        try:
            if not comma or _BASE64 not in [part.strip() for part in kind.split(";")]:
                raise ValueError("it is not base64")
            return b64decode(payload, validate=True).decode()
        except ValueError:  # binascii.Error and UnicodeDecodeError are of its kind
            raise CredentialsError(f"{self._path}: {name} is not data:;base64,... of a text") from None

    def _content(self, name: str, value: str) -> str:
        path = _expanded(value.removeprefix("file://"))
        try:
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialsError(f"{self._path}: {name}: cannot read {path}: {error}") from None

    def _secret(
        self, name: str, of_file: Callable[[str], Credentials], of_text: Callable[[str, str], Credentials]
    ) -> Credentials | None:
        """Return the credentials in a file that the context names, or that stand in it."""
        value = self._text(name)
        if value is None:
            return None
        found = self._resolved(name, value)
        if found is not None:
            return of_text(found, f"{self._path}: {name}")
        return of_file(str(_expanded(value.removeprefix("file://"))))

    def _credentials(self) -> Credentials:
        kinds = [kind for kind in _KINDS if any(self._text(name) is not None for name in kind)]
        if len(kinds) > 1:
            names = " and ".join(next(name for name in kind if self._text(name)) for kind in kinds)
            raise CredentialsError(f"{self._path}: {names} exclude each other")
        found = self._secret("creds", read_credentials_file, credentials_of)
        found = found or self._secret("nkey", read_seed_file, seed_of)
        if found is not None:
            return found
        jwt, seed = self._value("user_jwt"), self._value("user_seed")
        if (jwt is None) != (seed is None):
            raise CredentialsError(f"{self._path}: user_jwt and user_seed need each other")
        if jwt is not None:
            return Credentials(jwt=jwt, seed=seed)
        user, password, token = self._value("user"), self._value("password"), self._value("token")
        return Credentials(user, None if user is None else password or "", token)


def _expanded(path: str) -> Path:
    return Path(os.path.expandvars(path)).expanduser()
