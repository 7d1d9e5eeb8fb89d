"""A directory with one file for each token, `<account>.jwt`.

Here live the files: what is read, written, replaced, removed, and when a token has to go. Never lives here:
trust in tokens, other servers' directories. Files are written beside their name, synced and renamed: a
reader, and a start after a crash, find a whole token or the one before.

The files are the Go server's: either server can take over the other's directory. A deleted token is renamed
to `<account>.jwt.deleted`, or removed. Bounds: a token has `MAX_TOKEN` bytes at most; `limit` tokens. Safe
to be used by several threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from headrace.protocol.jwt.decoding import MAX_TOKEN, JWTError, decode_account
from headrace.server.resolver import MISSING, ResolverError, check_account

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.protocol.jwt.claims import AccountClaims

_SUFFIX: Final = ".jwt"
_DELETED: Final = ".deleted"
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


class Deletion(Enum):
    """The effect of a request to delete a token."""

    REFUSED = 0
    RENAMES = 1
    REMOVES = 2


class _Entry(Struct):
    expires: float | None  # seconds since 1970


class JWTDirectory:
    """A directory of account tokens.

    `evicts`: at the limit the token used longest ago goes, instead of the new one being refused.

    `ttl`: seconds after its last use that a token goes; 0.0: when the token itself says. `limit` None: no
    limit. `now`: seconds since 1970.
    """

    def __init__(
        self,
        path: str,
        *,
        limit: int | None = None,
        evicts: bool = False,
        ttl: float = 0.0,
        deletion: Deletion = Deletion.REFUSED,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = Path(path)
        self._limit = limit
        self._evicts = evicts
        self._ttl = ttl
        self._deletion = deletion
        self._now = now
        self._lock = threading.Lock()
        # The one used longest ago comes first.
        self._entries: dict[str, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def open(self) -> None:
        """Make the directory if it is not there, and see what it holds. Raises: OSError."""
        self._path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        with self._lock:
            self._entries.clear()
            for file in sorted(self._path.iterdir()):
                account = file.name.removesuffix(_SUFFIX)
                # What a crash left half written is no token.
                if file.suffix == ".tmp" and file.name.endswith(f"{_SUFFIX}.tmp"):
                    file.unlink(missing_ok=True)
                elif file.suffix == _SUFFIX and _is_account(account):
                    with contextlib.suppress(ResolverError, JWTError):
                        self._track(account, decode_account(self._read(account)))

    def accounts(self) -> tuple[str, ...]:
        """The accounts whose tokens are there, the one used longest ago first."""
        with self._lock:
            return tuple(self._entries)

    def pack(self) -> dict[str, str]:
        """The tokens by account, without those whose time is over. Raises: ResolverError."""
        with self._lock:
            now = self._now()
            return {
                account: self._read(account)
                for account, entry in list(self._entries.items())
                if entry.expires is None or entry.expires > now
            }

    def digest(self) -> bytes:
        """A digest of all tokens: equal for two directories with the same ones, and equal to the Go server's.

        Raises: ResolverError.
        """
        with self._lock:
            tokens = [self._read(account) for account in list(self._entries)]
        found = 0
        for token in tokens:
            found ^= int.from_bytes(hashlib.sha256(token.encode()).digest(), "big")
        return found.to_bytes(32, "big")

    def load(self, account: str) -> str:
        """The token of this account; it counts as used. Raises: ResolverError."""
        check_account(account)
        with self._lock:
            self._expire_one(account)
            token = self._read(account)
            entry = self._entries.pop(account, None)
            if entry is not None:
                self._entries[account] = entry
                if self._ttl:
                    entry.expires = self._now() + self._ttl
            return token

    def save(self, account: str, token: str, *, replaces: bool = False) -> bool:
        """Keep a token unless this very one, or a newer one, is there; return True if it was kept.

        With `replaces` also in place of a newer one.

        Raises: ResolverError for a token of another account, one that cannot be decoded, at the limit, or if
        it cannot be written.
        """
        check_account(account)
        try:
            claims = decode_account(token)
        except JWTError as error:
            raise ResolverError(f"invalid JWT: {error}") from None
        if claims.subject != account:
            raise ResolverError("jwt subject nkey and provided nkey do not match")
        with self._lock:
            if not self._is_news(account, claims, token, replaces=replaces):
                return False
            if account not in self._entries:
                self._make_room()
            self._write(account, token)
            self._track(account, claims)
        return True

    def delete(self, account: str) -> bool:
        """Delete a token; True if there was one. Raises: ResolverError if it may not or cannot be deleted."""
        check_account(account)
        if self._deletion is Deletion.REFUSED:
            raise ResolverError("store is not set up to for delete")
        with self._lock:
            return self._remove(account, renames=self._deletion is Deletion.RENAMES)

    def expire(self) -> tuple[str, ...]:
        """Remove the tokens whose time is over; their accounts. Raises: ResolverError."""
        with self._lock:
            return tuple(account for account in list(self._entries) if self._expire_one(account))

    def _file(self, account: str) -> Path:
        return self._path / f"{account}{_SUFFIX}"

    def _read(self, account: str) -> str:
        try:
            with self._file(account).open("rb") as file:
                raw = file.read(MAX_TOKEN + 1)
            if len(raw) > MAX_TOKEN:
                raise ResolverError("the file is too large for a token")
            return raw.decode("ascii")
        except FileNotFoundError:
            self._entries.pop(account, None)
            raise ResolverError(MISSING) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ResolverError(f"cannot be read: {getattr(error, 'strerror', 'no token')}") from None

    def _is_news(self, account: str, claims: AccountClaims, token: str, *, replaces: bool) -> bool:
        try:
            old_token = self._read(account)
            old = decode_account(old_token)
        except (ResolverError, JWTError):
            return True  # there is none, or none that anybody could use
        if replaces:
            return old_token != token
        same = old_token == token or (old.token_id == claims.token_id and old.token_id != "")
        return not same and old.issued_at <= claims.issued_at

    def _make_room(self) -> None:
        if self._limit is None or len(self._entries) < self._limit:
            return
        if not self._evicts:
            raise ResolverError("jwt store is full")
        while len(self._entries) >= self._limit:
            self._remove(next(iter(self._entries)), renames=False)

    def _track(self, account: str, claims: AccountClaims) -> None:
        expires = self._now() + self._ttl if self._ttl else float(claims.expires)
        self._entries.pop(account, None)
        self._entries[account] = _Entry(expires or None)

    def _expire_one(self, account: str) -> bool:
        entry = self._entries.get(account)
        if entry is None or entry.expires is None or entry.expires > self._now():
            return False
        self._remove(account, renames=False)
        return True

    def _remove(self, account: str, *, renames: bool) -> bool:
        file = self._file(account)
        try:
            if renames:
                file.replace(file.with_name(file.name + _DELETED))
            else:
                file.unlink()
            self._sync_directory()
        except FileNotFoundError:
            self._entries.pop(account, None)
            return False
        except OSError as error:
            raise ResolverError(f"cannot be removed: {error.strerror}") from None
        self._entries.pop(account, None)
        return True

    def _write(self, account: str, token: str) -> None:
        file = self._file(account)
        scratch = file.with_name(file.name + ".tmp")
        try:
            number = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
            with open(number, "wb") as stream:
                stream.write(token.encode("ascii"))
                stream.flush()
                os.fsync(stream.fileno())
            scratch.replace(file)
            self._sync_directory()
        except OSError as error:
            raise ResolverError(f"cannot be written: {error.strerror}") from None

    def _sync_directory(self) -> None:
        number = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _is_account(name: str) -> bool:
    try:
        check_account(name)
    except ResolverError:
        return False
    return True
