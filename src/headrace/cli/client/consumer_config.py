"""Configurations of consumers: out of flags and files, compared, and shown to people.

Here lives what the flags of `rows/consumer_flags` mean, as fields of JetStream's ConsumerConfig. Never lives
here: asking the server, which has the last word on what fits together.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from headrace.cli import values
from headrace.cli.client.config_changes import changes_between, without_server_metadata
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.protocol.rfc3339 import format_time

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from headrace.cli.client.config_changes import Changes

Config = dict[str, Any]

DEAD_LETTERS: Final = "headrace.dead_letter_subject"

_SECOND: Final = 1_000_000_000
_MOST_STEPS: Final = 1000
_DELIVER: Final = {
    "all": "all",
    "new": "new",
    "last": "last",
    "last-per-subject": "last_per_subject",
    "subject": "last_per_subject",
}
_POLICIES: Final = {"pinned": "pinned_client", "overflow": "overflow", "prioritized": "prioritized"}
_DURATIONS: Final = frozenset(
    ("ack_wait", "max_expires", "inactive_threshold", "idle_heartbeat", "priority_timeout", "backoff")
)
_PLAIN: Final = (
    ("target", "deliver_subject"),
    ("deliver_group", "deliver_group"),
    ("wait", "ack_wait"),
    ("max_waiting", "max_waiting"),
    ("max_batch", "max_batch"),
    ("max_expires", "max_expires"),
    ("max_bytes", "max_bytes"),
    ("ack", "ack_policy"),
    ("replay", "replay_policy"),
    ("bps", "rate_limit_bps"),
    ("inactive", "inactive_threshold"),
    ("heartbeat", "idle_heartbeat"),
    ("pinned_ttl", "priority_timeout"),
    ("description", "description"),
    ("replicas", "num_replicas"),
)
"""Flags whose values are those of fields."""


def asked_config(options: Namespace) -> Config:
    """Return the fields that the flags and the file of `--config` say; flags go before the file.

    Raises: CommandError (wrong use).
    """
    return _joined(_of_file(options.config) if options.config else {}, _of_flags(options))


def new_config(options: Namespace) -> Config:
    """Return the configuration of a new consumer: what is asked for, its name and its way of acknowledging.

    Raises: CommandError (wrong use).
    """
    config = asked_config(options)
    name = options.consumer or config.get("durable_name") or config.get("name")
    if not name and not options.ephemeral:
        raise _wrong("the name of the consumer is missing; one without is --ephemeral")
    config.pop("durable_name", None)
    config.pop("name", None)
    if name:
        config["name"] = name
        if not options.ephemeral:
            config["durable_name"] = name
    config.setdefault("ack_policy", "none" if config.get("deliver_subject") else "explicit")
    if config.get("deliver_policy") == "last_per_subject" and not (
        config.get("filter_subject") or config.get("filter_subjects")
    ):
        config["filter_subject"] = ">"  # the server wants one
    if options.pause_until is not None:
        config["pause_until"] = format_time(options.pause_until)
    return config


def changed_config(before: Mapping[str, Any], options: Namespace) -> Config:
    """Return a consumer's configuration with what flags and file say. Raises: CommandError (wrong use)."""
    found = _joined(without_server_metadata(before), asked_config(options))
    for name in ("name", "durable_name"):
        if name in before:
            found[name] = before[name]
        else:
            found.pop(name, None)
    return found


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """Return each field that differs between two configurations, with `before` and `after`.

    A field that is absent has the server's default. A value that is absent on one side is None.
    """
    return changes_between(_completed(before), _completed(after))


def shown_field(name: str, value: Any) -> str:
    """Return the value of a field for people."""
    if value is None:
        return ""
    if name in _DURATIONS:
        waits = value if isinstance(value, list) else [value]
        return ", ".join(values.shown_duration(wait) for wait in waits)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={each}" for key, each in value.items())
    return str(value)


def _completed(config: Mapping[str, Any]) -> Config:
    """The configuration with the server's defaults, and without what is empty."""
    asked = {
        name: value
        for name, value in without_server_metadata(config).items()
        if value not in (None, "", [], {}, False, 0)
    }
    filters = [*asked.pop("filter_subjects", ()), *filter(None, [asked.pop("filter_subject", "")])]
    defaults: Config = {
        "deliver_policy": "all",
        "ack_policy": "none",
        "replay_policy": "instant",
        "max_deliver": -1,
    }
    if not asked.get("deliver_subject"):
        defaults["max_waiting"] = 512
    if asked.get("ack_policy", "none") != "none":
        defaults["ack_wait"] = asked["backoff"][0] if asked.get("backoff") else 30 * _SECOND
        defaults["max_ack_pending"] = 1000
    if not asked.get("durable_name"):
        defaults["inactive_threshold"] = 5 * _SECOND
    if asked.get("priority_policy") == "pinned_client":
        defaults["priority_timeout"] = 120 * _SECOND
    if filters:
        defaults["filter_subjects"] = sorted(filters)
    if asked.get("backoff"):
        asked.pop("ack_wait", None)  # the server makes it the first wait
    return {**defaults, **asked}


def _joined(config: Config, more: Config) -> Config:
    """Return a configuration with more fields; entries of the metadata are added to those that are there."""
    found = {**config, **more}
    if "metadata" in more:
        found["metadata"] = {**(config.get("metadata") or {}), **more["metadata"]}
    for one, other in (("filter_subject", "filter_subjects"), ("filter_subjects", "filter_subject")):
        if one in more:
            found.pop(other, None)
    if "deliver_policy" in more:
        for name in ("opt_start_seq", "opt_start_time"):
            if name not in more:
                found.pop(name, None)
    return found


def _of_file(path: str) -> Config:
    try:
        if path == "-":
            text = sys.stdin.read()
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        found = json.loads(text)
    except ValueError as error:
        raise _wrong(f"--config {path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise _wrong(f"--config {path}: not a JSON object")
    if isinstance(found.get("config"), dict):  # the answer of `consumer info`
        found = found["config"]
    return without_server_metadata(found)


def _of_flags(options: Namespace) -> Config:
    if options.pull and options.target:
        raise _wrong("--pull and --target exclude each other")
    found: Config = {
        field: getattr(options, flag) for flag, field in _PLAIN if getattr(options, flag) is not None
    }
    if options.deliver is not None:
        found |= _beginning(options.deliver)
    for flag, field in (("max_deliver", "max_deliver"), ("max_pending", "max_ack_pending")):
        text = getattr(options, flag)
        if text is not None:
            found[field] = _number(f"--{flag.replace('_', '-')}", text)
    if options.filter:
        filters = _subjects(options.filter)
        one = len(filters) < 2
        found |= {"filter_subject": "".join(filters)} if one else {"filter_subjects": filters}
    if options.sample is not None:
        found["sample_freq"] = _percentage(options.sample)
    found |= _switches(options)
    waits = _waits(options)
    if waits is not None:
        found["backoff"] = waits
    found |= _groups(options)
    metadata = dict(options.metadata or ())
    if options.dead_letter is not None:
        metadata[DEAD_LETTERS] = options.dead_letter
    if metadata:
        found["metadata"] = metadata
    return found


def _subjects(texts: Sequence[str]) -> list[str]:
    """The subjects of --filter, each once. Raises: CommandError."""
    try:
        return [values.read_subject(text) for text in dict.fromkeys(texts) if text]
    except ValueError as error:
        raise _wrong(f"--filter: {error}") from None


def _switches(options: Namespace) -> Config:
    if options.headers_only and options.no_headers_only:
        raise _wrong("--headers-only and --no-headers-only exclude each other")
    found: Config = {}
    if options.headers_only or options.no_headers_only:
        found["headers_only"] = options.headers_only
    if options.flow_control:
        found["flow_control"] = True
    if options.memory:
        found["mem_storage"] = True
    return found


def _beginning(text: str) -> Config:
    policy = _DELIVER.get(text)
    if policy is not None:
        return {"deliver_policy": policy}
    if text.isascii() and text.isdigit():
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": int(text)}
    try:
        begin = values.read_time(text, back=True)
    except ValueError:
        known = "all, new, last, last-per-subject, a sequence, a time, or a duration such as -1h"
        raise _wrong(f"--deliver {text!r}: not one of {known}") from None
    return {"deliver_policy": "by_start_time", "opt_start_time": format_time(begin)}


def _number(name: str, text: str) -> int:
    if text == "-1":
        return -1
    try:
        return values.read_number(text)
    except ValueError as error:
        raise _wrong(f"{name} {text!r}: {error}") from None


def _percentage(text: str) -> str:
    number = text.removesuffix("%")
    if not (number.isascii() and number.isdigit() and int(number) <= 100):
        raise _wrong(f"--sample {text!r}: not a percentage from 0 to 100")
    return number


def _waits(options: Namespace) -> list[int] | None:
    text = options.backoff
    if text is None:
        return None
    if text == "none":
        return []
    if text == "linear":  # as that tool has it
        least, most, steps = (getattr(options, f"backoff_{name}", None) for name in ("min", "max", "steps"))
        return _linear(least or 60 * _SECOND, most or 1200 * _SECOND, 10 if steps is None else steps)
    try:
        if not text.startswith("linear:"):
            return [values.read_duration(each.strip()) for each in text.split(",")]
        parts = text.removeprefix("linear:").split(":")
        if len(parts) != 3:
            raise ValueError("not linear:MIN:MAX:STEPS, such as linear:1s:1m:10")
        return _linear(
            values.read_duration(parts[0]), values.read_duration(parts[1]), values.read_number(parts[2])
        )
    except ValueError as error:
        raise _wrong(f"--backoff {text!r}: {error}") from None


def _linear(least: int, most: int, steps: int) -> list[int]:
    if not 1 <= steps <= _MOST_STEPS or most < least:
        raise _wrong(
            f"--backoff: 1 to {_MOST_STEPS} steps are needed, and a last wait that is not the shorter one"
        )
    return [least + (most - least) * step // max(steps - 1, 1) for step in range(steps)]


def _groups(options: Namespace) -> Config:
    asked = []
    for policy in _POLICIES:
        groups = getattr(options, f"{policy}_groups", None)  # a flag of the link `nats`
        if groups:
            asked.append((policy, _words(groups)))
    if options.groups:
        if options.group_policy is None:
            raise _wrong("--groups needs --group-policy")
        asked.append((options.group_policy, _words(options.groups)))
    elif options.group_policy is not None:
        raise _wrong("--group-policy needs --groups")
    if len(asked) > 1:
        raise _wrong("groups of one policy only")
    return {"priority_policy": _POLICIES[asked[0][0]], "priority_groups": asked[0][1]} if asked else {}


def _words(texts: Sequence[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def _wrong(text: str) -> CommandError:
    return CommandError(text, ExitCode.WRONG_USE)
