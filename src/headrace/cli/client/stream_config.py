"""Configurations of streams: out of flags and files, compared, and shown to people.

Here lives what the flags of `rows/stream_flags` mean, as fields of JetStream's StreamConfig. Never lives
here: asking the server, which has the last word on what fits together.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from headrace.cli import values
from headrace.cli.client.config_changes import changes_between, without_server_metadata
from headrace.cli.client.rows.stream_flags import ALLOWED, AS_NATS, DENIED
from headrace.cli.outcomes import CommandError, ExitCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from headrace.cli.client.config_changes import Changes

Config = dict[str, Any]

_UNLIMITED: Final = ("-1", "none", "unlimited")
_DAY_NS: Final = 86_400_000_000_000
_ARROWS: Final = ("→", "->", "=>")
_ABSENT: Final = object()

_RETENTION: Final = {
    "limits": "limits", "limit": "limits", "interest": "interest",
    "work": "workqueue", "workq": "workqueue", "workqueue": "workqueue",
}  # fmt: skip
_STORAGE: Final = {"file": "file", "f": "file", "memory": "memory", "mem": "memory", "m": "memory"}

_DEFAULTS: Final[Config] = {
    "retention": "limits",
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msgs_per_subject": -1,
    "max_msg_size": -1,
    "discard": "old",
    "storage": "file",
    "num_replicas": 1,
    "duplicate_window": 120_000_000_000,
    "compression": "none",
    "consumer_limits": {},
    "persist_mode": "default",
}
"""The values that the server has for fields of which nothing is said; the others are empty, 0 or false."""
_UNLIMITED_AT_ZERO: Final = frozenset(
    ("max_consumers", "max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size")
)

_SIZES: Final = frozenset(("max_bytes", "max_msg_size"))
_DURATIONS: Final = frozenset(("max_age", "duplicate_window", "subject_delete_marker_ttl"))
_NUMBERS: Final = frozenset(
    ("max_consumers", "max_msgs", "max_msgs_per_subject", "num_replicas", "first_seq")
)


def asked_config(options: Namespace) -> Config:
    """Return the fields that the flags and the file of `--config` say; flags go before the file.

    Raises: CommandError (wrong use).
    """
    return (config_of_file(options.config) if options.config else {}) | _of_flags(options)


def changed_config(before: Mapping[str, Any], options: Namespace) -> Config:
    """Return a stream's configuration with what flags and file say; an empty value removes a field.

    Raises: CommandError (wrong use).
    """
    asked = asked_config(options)
    found = {**before, **asked}
    for name in ("metadata", "consumer_limits", "placement"):
        if isinstance(asked.get(name), dict) and isinstance(before.get(name), dict):
            found[name] = {**before[name], **asked[name]}
    if found.get("metadata"):
        found["metadata"] = {name: value for name, value in found["metadata"].items() if value}
    return without_server_metadata({name: value for name, value in found.items() if value is not None})


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """Return each field that differs between two configurations, with `before` and `after`.

    A field that is absent has the server's default. A value that is absent on one side is None.
    """
    old, new = without_server_metadata(before), without_server_metadata(after)
    names = dict.fromkeys([*old, *new])
    return changes_between(
        {name: _with_default(name, old) for name in names}, {name: _with_default(name, new) for name in names}
    )


def _with_default(name: str, config: Mapping[str, Any]) -> Any:
    value = config.get(name)
    if value in (None, "", [], {}, False) or (value == 0 and name in (_UNLIMITED_AT_ZERO | {"num_replicas"})):
        value = _DEFAULTS.get(name)
        if name == "duplicate_window" and config.get("max_age"):
            value = min(value, config["max_age"])
    return None if value in (0, False, "", [], {}) and name not in _DEFAULTS else value


# -- out of flags


def config_of_file(path: str) -> Config:
    """Return the configuration in a JSON file, `-` for standard input. Raises: CommandError, OSError."""
    try:
        text = sys.stdin.read() if path == "-" else _read(path)
        found = json.loads(text)
    except ValueError as error:
        raise CommandError(f"--config {path}: not JSON: {error}", ExitCode.WRONG_USE) from None
    if not isinstance(found, dict):
        raise CommandError(f"--config {path}: not a JSON object", ExitCode.WRONG_USE)
    if isinstance(found.get("config"), dict):  # the answer of `stream info`, or backup.json
        found = found["config"]
    return without_server_metadata(found)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _of_flags(options: Namespace) -> Config:
    found = dict(_simple(options))
    found |= _switches(options)
    if options.subjects:
        found["subjects"] = _words(options.subjects)
    if options.mirror is not None:
        found["mirror"] = _origin("--mirror", options.mirror)
    if options.source:
        found["sources"] = [_origin("--source", text) for text in options.source]
    transform = options.transform or _pair_of_nats(options, "transform")
    if transform is not None:
        found["subject_transform"] = _mapping("--transform", transform)
    republish = options.republish or _pair_of_nats(options, "republish")
    if republish is not None:
        found["republish"] = _mapping("--republish", republish)
        if options.republish_headers and found["republish"]:
            found["republish"]["headers_only"] = True
    elif options.republish_headers:
        raise CommandError("--republish-headers needs --republish", ExitCode.WRONG_USE)
    placement = {"cluster": options.cluster, "tags": _words(options.tag or ())}
    if any(placement.values()):
        found["placement"] = {name: value for name, value in placement.items() if value}
    if options.metadata:
        found["metadata"] = dict(options.metadata)
    limits = {
        "inactive_threshold": _read_by(_duration, "--consumer-inactive", options.consumer_inactive),
        "max_ack_pending": _read_by(_number, "--consumer-max-pending", options.consumer_max_pending),
    }
    if any(value is not None for value in limits.values()):
        found["consumer_limits"] = {name: value for name, value in limits.items() if value is not None}
    return found


def _simple(options: Namespace) -> Iterator[tuple[str, Any]]:
    rows: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
        ("storage", "--storage", _one_of(_STORAGE)),
        ("retention", "--retention", _one_of(_RETENTION)),
        ("max_age", "--max-age", _duration),
        ("max_bytes", "--max-bytes", _size),
        ("max_msgs", "--max-msgs", _number),
        ("max_msgs_per_subject", "--max-msgs-per-subject", _number),
        ("max_msg_size", "--max-msg-size", _size),
        ("max_consumers", "--max-consumers", _number),
        ("discard", "--discard", _one_of({word: word for word in ("old", "new")})),
        ("duplicate_window", "--dupe-window", _duration),
        ("compression", "--compression", _one_of({word: word for word in ("none", "s2")})),
        ("subject_delete_marker_ttl", "--marker-ttl", _duration),
        ("persist_mode", "--persist", _one_of({word: word for word in ("default", "async")})),
    )
    for field, flag, read in rows:
        value = _read_by(read, flag, getattr(options, flag.removeprefix("--").replace("-", "_")))
        if value is not None:
            yield field, value
    for field, value in (
        ("num_replicas", options.replicas),
        ("first_seq", options.first_sequence),
        ("description", options.description),
    ):
        if value is not None:
            yield field, value


def _switches(options: Namespace) -> Config:
    found: Config = {}
    for flag, words, fields in (("--allow", options.allow, ALLOWED), ("--deny", options.deny, DENIED)):
        for word in _words(words or ()):
            field = fields.get(word.removeprefix("no-"))
            if field is None:
                raise CommandError(f"{flag} {word}: not one of {', '.join(fields)}", ExitCode.WRONG_USE)
            found[field] = not word.startswith("no-")
    if options.discard_per_subject:
        found["discard_new_per_subject"] = True
    if options.no_ack:
        found["no_ack"] = True
    for name, field in AS_NATS.items():
        target = name.removeprefix("--").replace("-", "_")
        if getattr(options, target, False):
            found[field] = True
        if getattr(options, f"no_{target}", False):
            found[field] = False
    for target, field in (("no_discard_per_subject", "discard_new_per_subject"), ("ack", "no_ack")):
        if getattr(options, target, False):
            found[field] = False
    for target, field in (
        ("no_mirror", "mirror"),
        ("no_republish", "republish"),
        ("no_transform", "subject_transform"),
    ):
        if getattr(options, target, False):
            found[field] = None
    return found


def _words(texts: Iterable[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def _origin(flag: str, text: str) -> Config | None:
    """The mirror or source that a text names: a stream, its JSON, a file with it; None for an empty text."""
    if not text:
        return None
    if text[0] not in "{@":
        return {"name": text}
    try:
        return values.read_json(text)
    except ValueError as error:
        raise CommandError(f"{flag} {text[:64]}: {error}", ExitCode.WRONG_USE) from None


def _mapping(flag: str, text: str) -> Config | None:
    """The source and the destination in `A->B`; None for an empty text."""
    if not text:
        return None
    for arrow in _ARROWS:
        source, found, destination = text.partition(arrow)
        if found:
            return {"src": source.strip(), "dest": destination.strip()}
    raise CommandError(f"{flag} {text!r}: not subjects such as 'A->B'", ExitCode.WRONG_USE)


def _pair_of_nats(options: Namespace, name: str) -> str | None:
    source = getattr(options, f"{name}_source", None)
    destination = getattr(options, f"{name}_destination", None)
    return None if source is None and destination is None else f"{source or '>'}->{destination or ''}"


def _read_by(read: Callable[[str], Any], flag: str, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return read(text)
    except ValueError as error:
        raise CommandError(f"{flag} {text[:64]!r}: {error}", ExitCode.WRONG_USE) from None


def _number(text: str) -> int:
    return -1 if text in _UNLIMITED else values.read_number(text)


def _size(text: str) -> int:
    return -1 if text in _UNLIMITED else values.read_size(text)


def _duration(text: str) -> int:
    """A duration in ns; years of the tool nats (`1y`) count 365 days."""
    if text in (*_UNLIMITED, "0"):
        return 0
    if text.endswith("y") and text[:-1].isdigit():
        return int(text[:-1]) * 365 * _DAY_NS
    return values.read_duration(text)


def _one_of(words: Mapping[str, str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"not one of {', '.join(dict.fromkeys(words.values()))}")
        return words[text]

    return read


# -- for people


def config_facts(config: Mapping[str, Any]) -> Iterator[tuple[str, Any] | tuple[str, Any, Any]]:
    """Yield what a configuration says beside the server's defaults, as `Output.facts` takes it."""
    from headrace.cli.text_table import ColumnKind

    for field, value in config.items():
        usual = (None, _DEFAULTS.get(field, _ABSENT))
        if field not in ("storage", "retention") and _with_default(field, config) in usual:
            continue
        name = field.replace("_", " ")
        if field in _SIZES:
            yield name, value, ColumnKind.SIZE
        elif field in _DURATIONS:
            yield name, value, ColumnKind.DURATION
        elif field in _NUMBERS:
            yield name, value, ColumnKind.NUMBER
        else:
            yield name, shown_field(field, value)


def shown_field(field: str, value: Any) -> str:
    """Return the value of a field for people; an empty text for None."""
    if value == -1 and field in _UNLIMITED_AT_ZERO:
        return "unlimited"
    if isinstance(value, int) and field in _SIZES | _DURATIONS:
        return values.shown_size(value) if field in _SIZES else values.shown_duration(value)
    return _shown(value)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "" if value is None else ("no", "yes")[value]
    if isinstance(value, dict):
        return _shown_object(value)
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return str(value)


def _shown_object(value: Mapping[str, Any]) -> str:
    if "dest" in value:
        return f"{value.get('src') or '>'} -> {value['dest']}"
    if list(value) == ["name"]:  # all that is said of a mirror or a source
        return str(value["name"])
    return json.dumps(value, ensure_ascii=False)
