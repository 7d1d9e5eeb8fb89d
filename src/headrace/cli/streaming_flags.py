"""The flags of streaming: those of nats-streaming-server, and what each of them sets.

Here lives the table and the reading of sizes and durations. Never lives here: the flags of keys, which their
entries declare (`headrace.conf.streaming_options`, `streaming_rules.Foreign`), the server's own (`flags`).

To add a flag that is not of a key: a row in `GROUPS`; its target is `streaming.` and the name of a setting.
Source: streaming specification, section 10.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.cli.arguments import ArgumentFlag, FlagKind, UsageError
from headrace.cli.flags import declared
from headrace.conf.literals import LiteralError, meaning
from headrace.conf.problems import shown
from headrace.conf.streaming_options import NATSServerOptions, StoreLimits, StreamingOptions
from headrace.conf.streaming_rules import FOREIGN, UNSUPPORTED, Setting
from headrace.protocol.durations import parse_duration

if TYPE_CHECKING:
    from headrace.cli.arguments import Given

PREFIX: Final = "streaming."
DEBUG_AND_TRACE: Final = "stan_debug+stan_trace"
CONFIG_FILE: Final = "streaming.config_file"

_TEXT, _SWITCH = FlagKind.TEXT, FlagKind.SWITCH


class Unit(Enum):
    """The unit of a flag's value that is more than a text."""

    SIZE = "size"
    DURATION = "duration"


_UNITS: Final = {unit.value: unit for unit in Unit}


_DECLARED: Final = {
    **StreamingOptions.KEYS,
    **StoreLimits.KEYS,
    **NATSServerOptions.KEYS,
    **FOREIGN,
}
"""The entries of all settings."""


def _group(title: str, *rows: ArgumentFlag) -> tuple[str, tuple[ArgumentFlag, ...]]:
    return title, (*declared(_DECLARED, title, PREFIX), *rows)


def _flag(names: str, target: str, kind: FlagKind, explanation: str, placeholder: str = "") -> ArgumentFlag:
    return ArgumentFlag(tuple(names.split()), PREFIX + target, kind, explanation, placeholder)


GROUPS: Final[tuple[tuple[str, tuple[ArgumentFlag, ...]], ...]] = (
    _group(
        "Streaming",
        _flag(
            "sc stan_config", "config_file", _TEXT, "Read streaming's configuration from this file", "file"
        ),
        _flag("ns nats_server", "nats_server_url", _TEXT, "Use this NATS server instead of our own", "url"),
    ),
    _group("Streaming log", _flag("SDV", DEBUG_AND_TRACE, _SWITCH, "-SD and -SV")),
    _group(
        "Streaming store",
        _flag("file_sync", "sync", _SWITCH, "--sync group; false: --sync interval"),
        _flag(
            "encrypt",
            "encrypt",
            _SWITCH,
            "Encrypt what is stored; NATS_STREAMING_ENCRYPTION_KEY has the key",
        ),
    ),
    _group("Streaming TLS"),
    _group("Streaming cluster"),
)


def settings_of(given: Given) -> dict[str, Setting]:
    """Return the settings that one flag makes.

    Raises: UsageError for a value that is no size or duration, in the words of Go's flag package.
    """
    name = f"{'--' if given.name == given.flag.names[-1] else '-'}{given.name}"
    option = given.flag.target.removeprefix(PREFIX)
    if option == DEBUG_AND_TRACE:
        return {one: Setting(given.value, name) for one in option.split("+")}
    value = str(given.value).upper() if option == "store_type" else _in_units(given)
    return {option: Setting(value, name)}


def note_on(flag: ArgumentFlag) -> str:
    """Return the note of `--help` on a flag that only the reference server uses."""
    option = flag.target.removeprefix(PREFIX)
    if option in UNSUPPORTED:
        return " (not in this version yet)"
    return " (no effect)" if option in FOREIGN else ""


def _in_units(given: Given) -> object:
    value, unit = given.value, _UNITS.get(given.flag.placeholder)
    if unit is None or not isinstance(value, str):
        return value
    try:
        return parse_duration(value) if unit is Unit.DURATION else _size(value)
    except ValueError as error:
        raise UsageError(f"invalid value {shown(value)} for flag -{given.name}: {error}") from None


def _size(text: str) -> int:
    """Bytes, written as in a configuration file: 1024, 10KB, 1GB. Raises: ValueError."""
    try:
        value = meaning(text) if text else ""
    except LiteralError:
        value = text
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("a size is expected, such as 1024, 10KB or 1GB")
    return value
