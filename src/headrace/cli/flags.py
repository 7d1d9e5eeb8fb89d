"""The flags of a server: those of the Go server, and what each of them sets.

Here lives the table, grouped as `--help` shows it. Never lives here: the flags of keys, which their entries
declare (`headrace.conf.keys.Key`), the syntax of arguments (`arguments`), streaming's flags
(`streaming_flags`).

To add a flag that is not of a key: a row in `_GROUPS`; its target is a field of `Invocation`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from headrace.cli.arguments import ArgumentFlag, FlagKind, UsageError, read_arguments
from headrace.conf.account_options import AuthorizationBlock
from headrace.conf.options import Options
from headrace.conf.problems import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.cli.arguments import Given
    from headrace.conf.keys import Key
    from headrace.conf.streaming_rules import Setting

    Groups = Sequence[tuple[str, tuple[ArgumentFlag, ...]]]

_TEXT, _INTEGER, _SWITCH = FlagKind.TEXT, FlagKind.INTEGER, FlagKind.SWITCH
_KINDS: Final = {"integer": _INTEGER, "true or false": _SWITCH}

_UNSUPPORTED: Final = "unsupported"
_STREAMING: Final = "streaming."
_JETSTREAM: Final = "jetstream."
_CLUSTER: Final = "cluster."
_TLS: Final = "tls."
_DEBUG_AND_TRACE: Final = "debug+trace"
_PROCESSES: Final = "processes"

_BLOCKS: Final = {
    "JetStream": (_JETSTREAM, "jetstream_options:JetStreamOptions"),
    "TLS": (_TLS, "tls_options:TLSOptions"),
    "Cluster": (_CLUSTER, "peer_options:ClusterOptions"),
}
"""The blocks whose keys have flags, by the titles of their groups: what targets begin with, and the options.

They are loaded for a flag that is none of the others': every start pays for what it loads.
"""


def declared(keys: Mapping[str, Key], group: str, prefix: str = "") -> tuple[ArgumentFlag, ...]:
    """The flags of a group that entries of keys declare; what they set is the option, after a prefix.

    A size is a text: it may have a unit.
    """
    return tuple(
        ArgumentFlag(
            key.flag.names,
            prefix + option,
            _TEXT if key.flag.value == "size" else _KINDS.get(key.kind, _TEXT),
            key.flag.text,
            key.flag.value,
        )
        for option, key in keys.items()
        if key.flag is not None and key.flag.group == group
    )


def _of_block(prefix: str, place: str) -> tuple[ArgumentFlag, ...]:
    module, _, name = place.partition(":")
    options = getattr(import_module(f"headrace.conf.{module}"), name)
    return tuple(flag for title in _BLOCKS for flag in declared(options.KEYS, title, prefix))


_GROUPS: Final[Groups] = (
    (
        "Server",
        (
            *declared(Options.KEYS, "Server"),
            ArgumentFlag(("c", "config"), "config_file", _TEXT, "Read this configuration file", "file"),
            ArgumentFlag(
                ("console",),
                "console",
                _SWITCH,
                "Serve the console, a page for browsers: at the WebSocket port, or on this machine alone",
            ),
            ArgumentFlag(("t",), "test_config", _SWITCH, "Only check the configuration file"),
            ArgumentFlag(
                ("sl", "signal"),
                "signal",
                _TEXT,
                "Signal a running server: ldm, stop, quit, term, reopen or reload",
                "signal=pid",
            ),
        ),
    ),
    (
        "Logging",
        (
            *declared(Options.KEYS, "Logging"),
            ArgumentFlag(("VV",), "trace", _SWITCH, "Log the protocol, the system account's too"),
            ArgumentFlag(("DV",), _DEBUG_AND_TRACE, _SWITCH, "-D and -V"),
            ArgumentFlag(("DVV",), _DEBUG_AND_TRACE, _SWITCH, "-D and -VV"),
        ),
    ),
    (
        "Streaming",
        (
            ArgumentFlag(
                ("streaming",),
                "streaming",
                _SWITCH,
                "Run NATS Streaming as well; then its flags are taken too (headrace streaming --help)",
            ),
        ),
    ),
    ("JetStream", (ArgumentFlag(("js", "jetstream"), _JETSTREAM + "enabled", _SWITCH, "Enable JetStream"),)),
    ("Authorization", declared(AuthorizationBlock.KEYS, "Authorization")),
    (
        "TLS",
        (
            ArgumentFlag(
                ("tls",), _TLS + "enabled", _SWITCH, "Use TLS (false: not even where the file says so)"
            ),
        ),
    ),
    (
        "Cluster",
        (
            ArgumentFlag(
                ("cluster", "cluster_listen"),
                _CLUSTER + "listen",
                _TEXT,
                "Where other servers connect",
                "url",
            ),
        ),
    ),
    (
        "Profiling",
        (ArgumentFlag(("profile",), _UNSUPPORTED, _INTEGER, "Port for profiling over HTTP", "port"),),
    ),
    (
        "Common",
        (
            ArgumentFlag(("h", "help"), "help", _SWITCH, "Show this text"),
            ArgumentFlag(("v", "version"), "version", _SWITCH, "Show the version"),
            ArgumentFlag(("help_tls",), "help_tls", _SWITCH, "Show how to configure TLS"),
        ),
    ),
)
"""The flags of a server but for those of keys of blocks."""


class Invocation(Struct):
    """A parsed command line; `overrides` are for `headrace.conf.binding.load_options`."""

    overrides: dict[str, object] = field(default_factory=dict)
    tls: dict[str, object] = field(default_factory=dict)
    jetstream: dict[str, object] = field(default_factory=dict)
    cluster: dict[str, object] = field(default_factory=dict)
    """Options of the blocks `tls`, `jetstream` and `cluster` by name, with `enabled` and `listen` beside
    them.
    """
    streaming: bool | None = None
    """True to run streaming, False not to; None leaves it to the configuration."""
    streaming_settings: dict[str, Setting] = field(default_factory=dict)
    streaming_config_file: str = ""
    is_streaming_command: bool = False
    config_file: str = ""
    signal: str = ""
    console: bool = False
    operator_secret: str = ""
    """The secret of the operator that `--console` makes for one run; "": none is made."""
    test_config: bool = False
    help: bool = False
    version: bool = False
    help_tls: bool = False
    unsupported: str | None = None
    """The first flag that asks for something this version lacks, with its dashes."""


_MODES: Final = frozenset(
    ("config_file", "signal", "test_config", "help", "version", "help_tls", "streaming", "console")
)


def groups(*, streaming: bool = False) -> Groups:
    """The flags of a server, or of one that is for streaming in the first place, as `--help` shows them."""
    found = [
        (title, (*flags, *(_of_block(*_BLOCKS[title]) if title in _BLOCKS else ())))
        for title, flags in _GROUPS
    ]
    if not streaming:
        return found
    from headrace.cli import streaming_flags

    return [*streaming_flags.GROUPS, *(group for group in found if group[0] != "Streaming")]


def read_invocation(arguments: Sequence[str], *, streaming: bool = False) -> Invocation:
    """Parse the arguments of `headrace serve` or `headrace streaming`.

    Of a flag that is given twice the last one counts.

    Raises: UsageError for an unknown flag, a bad value or an argument too many.
    """
    takes_streaming = streaming or any(argument.lstrip("-").startswith("streaming") for argument in arguments)

    def more() -> Iterator[ArgumentFlag]:
        if takes_streaming:
            from headrace.cli import streaming_flags

            yield from (flag for _, flags in streaming_flags.GROUPS for flag in flags)
        for prefix, place in _BLOCKS.values():
            yield from _of_block(prefix, place)

    known = [flag for title, flags in _GROUPS if title != "Streaming" or not streaming for flag in flags]
    given, rest = read_arguments(arguments, known, more())
    invocation = Invocation(streaming=True if streaming else None, is_streaming_command=streaming)
    for one in given:
        _take(invocation, one)
    if invocation.streaming is not True and (
        invocation.streaming_settings or invocation.streaming_config_file
    ):
        raise UsageError("flags of streaming need --streaming")
    if invocation.version or invocation.help or invocation.help_tls or not rest:
        return invocation
    word = rest[0].lower()
    if word not in ("version", "help"):
        raise UsageError(f"unrecognized command: {shown(rest[0])}")
    setattr(invocation, word, True)
    return invocation


def dashed(name: str) -> str:
    """The name of a flag as `--help` shows it, with one dash or two; either is taken."""
    return f"-{name}" if _is_short(name) else f"--{name}"


def help_text(usage: str, *, streaming: bool = False) -> str:
    """The text of `--help`."""
    lines = [
        f"Usage: {usage} [options]",
        "",
        "A flag takes one dash or two, and its value after a space or '='.",
    ]
    for title, flags in groups(streaming=streaming):
        lines += ["", f"{title}:"]
        lines += [_help_line(flag) for flag in flags]
    return "\n".join(lines)


def _take(invocation: Invocation, given: Given) -> None:
    target, value = given.flag.target, given.value
    if target == _UNSUPPORTED:
        # A switch that is off, no port, no address: nothing is asked for.
        if value and invocation.unsupported is None:
            invocation.unsupported = dashed(given.name)
    elif target in _MODES:
        setattr(invocation, target, value)
    elif target.startswith(_STREAMING):
        _take_streaming(invocation, given)
    elif target.startswith(_JETSTREAM):
        invocation.jetstream[target.removeprefix(_JETSTREAM)] = value
    elif target.startswith(_CLUSTER):
        invocation.cluster[target.removeprefix(_CLUSTER)] = value
    elif target.startswith(_TLS):
        invocation.tls[target.removeprefix(_TLS)] = value
    elif target == _DEBUG_AND_TRACE:
        invocation.overrides.update(debug=value, trace=value)
    elif target == _PROCESSES:
        invocation.overrides[target] = _processes(str(value))
    else:
        invocation.overrides[target] = value


def _processes(value: str) -> int:
    from headrace.conf.processes import parse_processes

    try:
        return parse_processes(value)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _take_streaming(invocation: Invocation, given: Given) -> None:
    from headrace.cli import streaming_flags

    if given.flag.target == streaming_flags.CONFIG_FILE:
        invocation.streaming_config_file = str(given.value)
    else:
        invocation.streaming_settings.update(streaming_flags.settings_of(given))


def _help_line(flag: ArgumentFlag) -> str:
    short = [dashed(name) for name in flag.names if _is_short(name)]
    long = [dashed(name) for name in flag.names if not _is_short(name)]
    names = ", ".join([*short, *long]) if short else f"    {', '.join(long)}"
    left = f"  {names} <{flag.placeholder}>" if flag.placeholder else f"  {names}"
    return f"{left:<40} {flag.help}{_note(flag)}"


def _is_short(name: str) -> bool:
    return len(name) <= 2 or name.isupper() or name in ("cid", "msu", "hbi", "hbt", "hbf")


def _note(flag: ArgumentFlag) -> str:
    if flag.target.startswith(_STREAMING):
        from headrace.cli import streaming_flags

        return streaming_flags.note_on(flag)
    return " (not in this version yet)" if flag.target == _UNSUPPORTED else ""
