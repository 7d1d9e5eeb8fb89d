"""Files that say who a client is by a key, as credentials: credentials files and files with a seed.

Reading of files only; what is in them and how a nonce is signed is `headrace.protocol.user_seeds`.
"""

from __future__ import annotations

from pathlib import Path

from headrace.client.address import Credentials
from headrace.client.errors import CredentialsError
from headrace.protocol.user_seeds import SeedError, find_seed, read_credentials


def read_credentials_file(path: str | Path) -> Credentials:
    """The JWT and the seed of a `.creds` file. Raises: CredentialsError, never showing a secret."""
    try:
        jwt, seed = read_credentials(_text(path), str(path))
    except SeedError as error:
        raise CredentialsError(str(error)) from None
    return Credentials(jwt=jwt, seed=seed)


def read_seed_file(path: str | Path) -> Credentials:
    """The seed in a file with nothing else but comments. Raises: CredentialsError, never showing a secret."""
    try:
        return Credentials(seed=find_seed(_text(path), str(path)))
    except SeedError as error:
        raise CredentialsError(str(error)) from None


def _text(path: str | Path) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise CredentialsError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CredentialsError(f"{path} is not a text file") from error
