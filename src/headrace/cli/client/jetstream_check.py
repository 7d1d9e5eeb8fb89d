"""`headrace server check stream`, `consumer`, `message`, `kv`, `jetstream`: is JetStream as it should be?

Exit codes are those of Nagios plugins (`check_results`). Never lives here: checks of servers
(`server_check`).
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from headrace.cli.client.check_results import CheckResult, checked, chosen, finished, seconds
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.client.api import JetStreamAssets
from headrace.protocol.rfc3339 import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.cli.call import Call


def stream(call: Call) -> int:
    """Check a stream's messages, subjects, sources and replicas. Raises: CommandError for wrong use."""
    options, name = call.options, chosen(call, "stream")
    with checked(CheckResult("stream", name)) as result:
        with call.connected() as connection:
            info = JetStreamAssets(call.api(connection)).stream_info(name)
        state = info.get("state") or {}
        result.number(
            "messages",
            state.get("messages", 0),
            warning=options.msgs_warn,
            critical=options.msgs_critical,
            is_either=True,
        )
        result.number(
            "subjects",
            state.get("num_subjects", 0),
            warning=options.subjects_warn,
            critical=options.subjects_critical,
            is_either=True,
        )
        result.number("bytes", state.get("bytes", 0), "B")
        result.number("consumers", state.get("consumer_count", 0))
        _check_sources(options, info, result)
        _check_replicas(options, info.get("cluster") or {}, result)
        result.ok(f"{state.get('messages', 0)} messages")
    return finished(call, result)


def _check_sources(options: Any, info: Mapping[str, Any], result: CheckResult) -> None:
    sources = [*(info.get("sources") or ()), *([info["mirror"]] if info.get("mirror") else ())]
    wanted = (options.min_sources, options.max_sources)
    if wanted != (None, None):
        least, most = wanted[0] or 0, wanted[1]
        fits = least <= len(sources) and (most is None or len(sources) <= most)
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        result.require(fits, f"{len(sources)} sources", f"{len(sources)} sources, not {bounds}")
    for source in sources:
        name = source.get("name", "")
        result.number(f"{name}_lag", source.get("lag", 0), critical=options.lag_critical)
        seen = source.get("active", -1)  # ns since anything came of it; below 0: nothing has
        if options.seen_critical is not None and seen < 0:
            result.critical(f"{name} was never seen")
        elif seen >= 0:
            result.number(f"{name}_seen", seen / 1e9, "s", critical=seconds(options, "seen_critical"))


def _check_replicas(options: Any, cluster: Mapping[str, Any], result: CheckResult) -> None:
    replicas = cluster.get("replicas") or ()
    if options.peer_expect is not None:
        count = len(replicas) + (1 if cluster.get("leader") else 0)
        text = f"{count} replicas"
        result.require(count == options.peer_expect, text, f"{text}, not {options.peer_expect}")
    for replica in replicas:
        name = replica.get("name", "")
        if replica.get("offline") or not replica.get("current"):
            state = "is offline" if replica.get("offline") else "is behind"
            result.critical(f"{name} {state}")
        result.number(f"{name}_peer_lag", replica.get("lag", 0), critical=options.peer_lag_critical)
        seen = replica.get("active", 0) / 1e9
        result.number(f"{name}_peer_seen", seen, "s", critical=seconds(options, "peer_seen_critical"))


def consumer(call: Call) -> int:
    """Check a consumer: what waits in it, and when it was last read. Raises: CommandError for wrong use."""
    options, stream_name, name = call.options, chosen(call, "stream"), chosen(call, "consumer")
    with checked(CheckResult("consumer", f"{stream_name}_{name}")) as result:
        with call.connected() as connection:
            assets = JetStreamAssets(call.api(connection))
            info = assets.consumer_info(stream_name, name)
        for name, key, critical in (
            ("ack_pending", "num_ack_pending", options.outstanding_ack_critical),
            ("pull_waiting", "num_waiting", options.waiting_critical),
            ("pending", "num_pending", options.unprocessed_critical),
            ("redelivered", "num_redelivered", options.redelivery_critical),
        ):
            result.number(name, info.get(key, 0), critical=critical)
        for name, key, flag in (
            ("last_delivery", "delivered", "last_delivery_critical"),
            ("last_ack", "ack_floor", "last_ack_critical"),
        ):
            last = (info.get(key) or {}).get("last_active")
            limit = seconds(options, flag)
            if last is not None:
                age = round((time.time_ns() - parse_time(last)) / 1e9, 3)
                result.number(name, max(age, 0.0), "s", critical=limit)
            elif limit is not None:
                result.critical(f"{name.replace('_', ' ')}: none yet")
        if options.pinned:
            groups = info.get("priority_groups") or ()
            pinned = bool(groups) and all(group.get("pinned_client_id") for group in groups)
            result.require(pinned, "a client is pinned", "no client is pinned")
        if info.get("paused"):
            result.warning("is paused")
        result.ok(f"{info.get('num_pending', 0)} pending")
    return finished(call, result)


def message(call: Call) -> int:
    """Check the last message of a subject: its age and content. Raises: CommandError for wrong use."""
    options, stream_name, subject = call.options, chosen(call, "stream"), chosen(call, "subject")
    try:
        pattern = None if options.content is None else re.compile(options.content)
    except re.error as error:
        raise CommandError(f"--content is no regular expression: {error}", ExitCode.WRONG_USE) from None
    with checked(CheckResult("message", f"{stream_name}_{subject}")) as result:
        with call.connected() as connection:
            found = JetStreamAssets(call.api(connection)).message(stream_name, last_of=subject)
        text = found.data.decode("utf-8", "backslashreplace")
        time_ns = found.time_ns
        if options.body_timestamp:
            if not text.strip().isdigit():
                raise CommandError("the body is no time in seconds since 1970")
            time_ns = int(text) * 1_000_000_000
        age = max(round((time.time_ns() - time_ns) / 1e9, 3), 0.0)
        result.number(
            "age",
            age,
            "s",
            warning=seconds(options, "age_warn"),
            critical=seconds(options, "age_critical"),
        )
        result.number("size", len(found.data), "B")
        if pattern is not None:
            matches = pattern.search(text) is not None
            result.require(matches, "the content matches", "the content does not match")
        result.ok(f"message {found.sequence} is {age:.0f} s old")
    return finished(call, result)


def kv(call: Call) -> int:
    """Check a bucket: how many values it has, and that a key is there. Raises: CommandError for wrong use."""
    options, name = call.options, chosen(call, "bucket")
    from headrace.client.keyvalue import KeyValueBucket

    with checked(CheckResult("kv", name)) as result:
        with call.connected() as connection:
            bucket = KeyValueBucket(call.api(connection), name)
            info = bucket.api.ask(f"STREAM.INFO.KV_{name}")
            count = len(list(bucket.keys()))
            has_key = None if options.key is None else _has(bucket, options.key)
        result.number(
            "values", count, warning=options.values_warn, critical=options.values_critical, is_either=True
        )
        result.number("bytes", (info.get("state") or {}).get("bytes", 0), "B")
        if has_key is not None:
            result.require(has_key, f"{options.key} is there", f"{options.key} is not there")
        result.ok(f"{count} values")
    return finished(call, result)


def _has(bucket: Any, key: str) -> bool:
    from headrace.client.errors import JetStreamMissingError

    try:
        bucket.get(key)
    except JetStreamMissingError:
        return False
    return True


def jetstream(call: Call) -> int:
    """Check what an account uses of JetStream's limits. Raises: CommandError for wrong use."""
    options = call.options
    with checked(CheckResult("jetstream", "JetStream")) as result:
        with call.connected() as connection:
            assets = JetStreamAssets(call.api(connection))
            info = assets.account()
            infos = list(assets.streams()) if options.replicas else []
        limits = info.get("limits") or {}
        for flag, used, limit, unit in (
            ("mem", "memory", "max_memory", "B"),
            ("store", "storage", "max_storage", "B"),
            ("streams", "streams", "max_streams", ""),
            ("consumers", "consumers", "max_consumers", ""),
        ):
            count, most = info.get(used, 0), limits.get(limit, -1)
            result.number(used, count, unit)
            if most > 0:
                percent = round(100 * count / most, 3)
                warning, critical = getattr(options, f"{flag}_warn"), getattr(options, f"{flag}_critical")
                result.number(f"{used}_pct", percent, "%", warning=warning, critical=critical)
        result.number("api_errors", (info.get("api") or {}).get("errors", 0))
        for each in infos:
            replicas = CheckResult("stream", each["config"]["name"])
            _check_replicas(options, each.get("cluster") or {}, replicas)
            for text in replicas.document()["criticals"]:
                result.critical(f"{replicas.name}: {text}")
        result.ok(f"{info.get('streams', 0)} streams, {info.get('consumers', 0)} consumers")
    return finished(call, result)
