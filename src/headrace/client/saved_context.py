"""The settings of a saved context, and which one is selected.

Cheap to load, since every command asks whether a context is selected. Never lives here: files of contexts
(`contexts`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.address import Credentials
from headrace.client.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Mapping


class SavedContext(NamedTuple):
    """The settings of one context; None for each that it does not have."""

    url: str | None = None
    credentials: Credentials = Credentials()
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    tls_first: bool = False
    jetstream_domain: str | None = None
    jetstream_api_prefix: str | None = None
    inbox_prefix: str | None = None
    jetstream_event_prefix: str | None = None


def context_root(environment: Mapping[str, str] | None = None) -> str:
    """Return the directory in which the tool `nats` keeps contexts and which one is selected."""
    env = os.environ if environment is None else environment
    config = env.get("XDG_CONFIG_HOME")
    if not config:
        config = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(config, "nats")


def selected_context(environment: Mapping[str, str] | None = None) -> str | None:
    """Return the name of the selected context, None without one. Raises: CredentialsError."""
    return line_of(os.path.join(context_root(environment), "context.txt"))


def line_of(path: str) -> str | None:
    """Return the line of a file, None where there is none. Raises: CredentialsError naming the file."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"cannot read {path}: {error}") from error
