"""Addresses to listen on: a port, or "host:port".

Here lives their reading. Never lives here: sockets, name resolution.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headrace.conf.fields import UNSET, Binder, Field, string_of, text
from headrace.conf.problems import shown
from headrace.conf.tree import Scalar

if TYPE_CHECKING:
    from headrace.conf.fields import UnsetType
    from headrace.conf.tree import Entry

_PORT: Final = re.compile(r"[+-]?[0-9]{1,9}")
_BRACKETED: Final = re.compile(r"\[([^\[\]]*)\]:([^:\[\]]*)")
_PLAIN: Final = re.compile(r"([^:\[\]]*):([^:\[\]]*)")


def listen(binder: Binder, entry: Entry) -> dict[str, object] | UnsetType:
    """Read an address into `host` and `port`; a port alone leaves the host as it is."""
    return _address(binder, entry, "host", "port")


def listen_row(text: str, default: str | None = None) -> Field:
    """The row of a block's key `listen`, which says host and port in one."""
    return Field(
        ("listen",),
        listen,
        spreads=True,
        text=text,
        kind='port or "host:port"',
        default=default,
        concerns=("host", "port"),
    )


def http_listen(binder: Binder, entry: Entry) -> dict[str, object] | UnsetType:
    """Read an address into `http_host` and `http_port`."""
    return _address(binder, entry, "http_host", "http_port")


def https_listen(binder: Binder, entry: Entry) -> dict[str, object] | UnsetType:
    """Read an address into `http_host` and `https_port`."""
    return _address(binder, entry, "http_host", "https_port")


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port", ":port" or "[v6]:port".

    Raises: ValueError with the reason.
    """
    match = _BRACKETED.fullmatch(address) or _PLAIN.fullmatch(address)
    if match is None:
        raise ValueError(f"could not parse address {shown(address)}")
    host, port = match.groups()
    if not _PORT.fullmatch(port):
        raise ValueError(f"could not parse port {shown(port)}")
    return host, int(port)


def advertise(binder: Binder, entry: Entry) -> str | UnsetType:
    """The address that others are told to connect to: "host", or "host:port"."""
    value = text(binder, entry)
    if value is not UNSET and ":" in value:
        try:
            split_address(value)
        except ValueError as error:
            return binder.problem(f"{entry.key}: {error}", entry.node.position)
    return value


def advertised(address: str, port: int) -> tuple[str, int]:
    """Host and port of `client_advertise`; `port` where it names none."""
    if ":" not in address:
        return address, port
    host, given = split_address(address)
    return host, given if given > 0 else port


def _address(
    binder: Binder, entry: Entry, host_option: str, port_option: str
) -> dict[str, object] | UnsetType:
    node = entry.node
    if isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return {port_option: node.value}
    value = string_of(node)
    if value is None:
        return binder.wrong_type(entry, 'a port or a string "host:port"')
    try:
        host, port = split_address(value)
    except ValueError as error:
        return binder.problem(str(error), node.position, 'it must be a port or "host:port"')
    return {host_option: host, port_option: port}
