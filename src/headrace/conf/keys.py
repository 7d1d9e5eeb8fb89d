"""One entry for one key of a configuration.

An option and the entry of its key are one statement in the class of the options (`Keyed`); `options.Options`
has those of the top level, `peer_options` and its like those of blocks. What deals with keys is made from the
entries: what reads files (`toplevel`), what checks values (`options_builder`), what takes changes over
(`changes`, `headrace.server.reload`), the flags of the command line (`headrace.cli.flags`) and the reference
(`docs/reference.py`).

Never lives here: readers of values (`fields`). An entry names its reader, so that a start loads no reader.
Cost: each start makes the entries of the top level and of peers, less than a microsecond each.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar

from msgspec import NODEFAULT, Struct, StructMeta

from headrace.structures import Discreet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    Reload: TypeAlias = Literal[
        "",
        "restart",
        "lookup",
        "always",
        "process",
        "connections",
        "client limits",
        "back pressure",
        "tracing",
        "users",
        "proxies",
        "cluster",
        "leafnodes",
        "bucket",
    ]

T = TypeVar("T")
Number = TypeVar("Number", int, float)

NOT_NEGATIVE: Final = (0, float("inf"))
"""The bounds of an option that may have any value from zero."""


def is_reloadable(reload: Reload) -> bool:
    """True if a running server takes a change over with this step."""
    return reload not in ("", "restart")


class Flag(Struct, frozen=True):
    """The command line flag of an option.

    `names` are without dashes. `value` stands for the value in help texts, "" for a switch. `group` is the
    title that help texts show the flag under.
    """

    names: tuple[str, ...]
    value: str
    text: str
    group: str = "Server"


class Key(Struct, frozen=True):
    """The entry of one option's key, beside the name of the option.

    - `default`: the option's, `NODEFAULT` for one that must be given (`required`).
    - `text`: what the key means, for the reference.
    - `stated_kind`: the `kind`, where the default does not say it.
    - `name`: the name of the key, where it is not that of the option. None: the option has no key.
    - `aliases`: other names of the key.
    - `read`: the reader of a key that is of no plain kind, as `module:function` of this package.
    - `spreads`: the reader gives several options by name.
    - `shown_default`: the default as the reference shows it, where the value does not say it.
    - `zero_is_default`: zero, or an empty text, stands for the default.
    - `between`: the least and the greatest value.
    - `normal`: gives the one way in which a value is kept, out of several that mean the same.
    - `reload`: how a running server takes a change over. "restart": it does not. "lookup": the option is
      looked up each time it is needed. "always": each reload does. "process": the process does
      (`ProcessSurroundings`). The others name a step of `headrace.server.reload`. "": as the block that the
      key is in; at the top level as "restart".
    - `is_lasting`: a running server takes over what changes in the block, but not that it appears or
      disappears.
    - `flag`: the flag of the command line, None without one.
    """

    default: object
    text: str
    stated_kind: str = ""
    name: str | None = ""
    aliases: tuple[str, ...] = ()
    read: str = ""
    spreads: bool = False
    shown_default: str | None = None
    zero_is_default: bool = False
    between: tuple[float, float] | None = None
    normal: Callable[[Any], Any] | None = None
    reload: Reload = ""
    is_lasting: bool = False
    flag: Flag | None = None

    @property
    def kind(self) -> str:
        """The type that the reference shows. A plain kind (`fields.PLAIN`) also says what reads the key."""
        return self.stated_kind or _KINDS.get(type(self.default), "string")

    @property
    def needs_restart(self) -> bool:
        """True if a running server does not take a change of the option over."""
        return not is_reloadable(self.reload)


_KINDS: Final[dict[type, str]] = {
    bool: "true or false",
    int: "integer",
    float: "duration",
    tuple: "string or list",
}
"""The kinds of keys by the types of their defaults; any other is a string, unless the entry says its kind."""


if TYPE_CHECKING:

    def key(
        default: T,
        text: str,
        kind: str = "",
        *,
        name: str | None = "",
        aliases: tuple[str, ...] = (),
        read: str = "",
        spreads: bool = False,
        shown_default: str | None = None,
        zero_is_default: bool = False,
        between: tuple[float, float] | None = None,
        normal: Callable[[Any], Any] | None = None,
        reload: Reload = "",
        is_lasting: bool = False,
        flag: Flag | None = None,
    ) -> T:
        """The entry of an option of a `Keyed` structure, which makes it the default of the option."""

    def required(
        text: str, kind: str = "", *, name: str | None = "", aliases: tuple[str, ...] = (), read: str = ""
    ) -> Any:
        """The entry of an option that has no default: a structure without it cannot be made.

        What reads the block says so of a file, in words of its own.
        """

else:
    key = Key  # a call less for each key of each start
    required = partial(Key, NODEFAULT)


class _KeyedMeta(StructMeta):
    """Takes the entries out of a class's body, so that the structure has plain defaults."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any
    ) -> _KeyedMeta:
        keys = {option: entry for option, entry in namespace.items() if isinstance(entry, Key)}
        for option, entry in keys.items():
            if entry.default is NODEFAULT:
                del namespace[option]
            else:
                namespace[option] = entry.default
        namespace["KEYS"] = keys | {
            option: entry for base in bases for option, entry in getattr(base, "KEYS", {}).items()
        }
        return super().__new__(mcls, name, bases, namespace, **config)


class Keyed(Discreet, metaclass=_KeyedMeta, frozen=True):
    """A structure of options, some of which are declared with their entries (`key`).

    `KEYS`: the entries by option, in their order; those of a base come last.
    """

    KEYS: ClassVar[Mapping[str, Key]]


# -- one way of writing a value out of several that mean the same ---------------------------------------


def not_negative(value: Number) -> Number:
    """Zero for what is less."""
    return max(value, type(value)(0))


def negative_is_unlimited(value: int) -> int:
    """-1, which is no limit, for what is less than zero."""
    return max(value, -1)


def positive_or_unlimited(value: int) -> int:
    """-1, which is no limit, for zero and less."""
    return value if value > 0 else -1


def clean_path(value: str) -> str:
    """The path of a URL with a slash before it and none behind; "" for the root."""
    from posixpath import normpath

    clean = normpath(f"/{value.lstrip('/')}")
    return "" if clean == "/" else clean


def lower_case_tags(value: tuple[str, ...]) -> tuple[str, ...]:
    """Return each tag once, in lower case, without the white space around it."""
    tags = (tag.strip().lower() for tag in value)
    return tuple(dict.fromkeys(tag for tag in tags if tag))
