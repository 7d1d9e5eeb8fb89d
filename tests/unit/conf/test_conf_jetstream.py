"""What the `jetstream` blocks and flags add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.conf.account_options import JetStreamAccountLimits
from headrace.conf.archive_options import StreamArchiveOptions
from headrace.conf.binding import load_options
from headrace.conf.changes import differences
from headrace.conf.jetstream_options import JetStreamLimits, JetStreamOptions
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.conf.options import Options


def load(text: str = "", **flags: Any) -> Options:
    return load_options(text=text, overrides={"jetstream_flags": flags} if flags else None)


def options(text: str, **flags: Any) -> JetStreamOptions:
    found = load(text, **flags).jetstream
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text", ["", "jetstream: off", "jetstream { enabled: no, domain: x }", "store_dir: x"]
)
def test_without_being_asked_for_there_is_none(text: str) -> None:
    assert load(text).jetstream is None


@pytest.mark.parametrize("text", ["jetstream: on", "jetstream: ENABLED", "jetstream {}"])
def test_defaults_are_durable_strict_and_dynamic(text: str) -> None:
    assert options(text) == JetStreamOptions()
    assert (JetStreamOptions().sync, JetStreamOptions().max_storage) == ("group", -1)


def test_values_of_the_block() -> None:
    found = options(
        'jetstream { store_dir: "/d", max_mem: "1G", max_file: 5MB, domain: hub, strict: false,'
        ' unique_tag: " AZ ", key: k, max_buffered_msgs: 7, max_buffered_size: "1K", request_queue_limit: 3,'
        ' limits { duplicate_window: "90s", default_max_consumers: -4,'
        ' batch { max_msgs: 2, timeout: "1m" } } }'
    )
    assert found == JetStreamOptions(
        store_dir="/d",
        max_memory=1 << 30,
        max_storage=5 << 20,
        domain="hub",
        strict=False,
        encryption_cipher="CHACHA",
        encryption_key="k",
        unique_tag="az",
        request_queue_limit=3,
        limits=JetStreamLimits(
            duplicate_window=90.0, max_consumers=-1, max_batch_size=2, max_batch_timeout=60.0
        ),
    )
    assert '"k"' not in repr(found)
    assert "'k'" not in repr(found)


@pytest.mark.parametrize(
    ("value", "sync", "interval"),
    [
        ("always", "group", 120.0),
        ("group", "group", 120.0),
        ("Never", "never", 120.0),
        ("interval", "interval", 120.0),
        ('"30s"', "interval", 30.0),
        ('"0s"', "interval", 120.0),
    ],
)
def test_sync_policies(value: str, sync: str, interval: float) -> None:
    for key in ("sync", "sync_interval"):
        found = options(f"jetstream {{ {key}: {value} }}")
        assert (found.sync, found.sync_interval) == (sync, interval)


@pytest.mark.parametrize("text", ["jetstream { max_mem: 0, max_file: 0 }"])
def test_zero_is_nothing_and_not_the_default(text: str) -> None:
    assert (options(text).max_memory, options(text).max_storage) == (0, 0)


@pytest.mark.parametrize(("value", "most"), [(7, 7), (0, 1000), (-1, -1), (-4, -1)])
def test_consumers_of_a_stream_that_names_no_limit(value: int, most: int) -> None:
    assert (
        options(f"jetstream {{ limits {{ default_max_consumers: {value} }} }}").limits.max_consumers == most
    )


def test_streaming_that_uses_a_server_elsewhere_excludes_it() -> None:
    elsewhere = 'streaming { nats_server_url: "nats://a:1" }\n'
    for text, flags in (("jetstream {}", {}), ("", {"enabled": True})):
        with pytest.raises(ConfigError, match="streaming uses a NATS server elsewhere"):
            load(elsewhere + text, **flags)
    assert load(elsewhere + "jetstream: off").jetstream is None


def test_flags_enable_disable_and_name_the_directory() -> None:
    assert options("", enabled=True) == JetStreamOptions()
    assert load("jetstream: on", enabled=False).jetstream is None
    assert options("jetstream { domain: d, store_dir: x }", store_dir="y").store_dir == "y"
    assert options("jetstream { enabled: off, domain: d }", enabled=True).domain == "d"
    assert load("", store_dir="y").jetstream is None


def test_directory_of_the_top_level() -> None:
    assert options("store_dir: a\njetstream: on").store_dir == "a"


def test_cipher_without_a_key_is_warned_of() -> None:
    assert "cipher has no effect" in load("jetstream { cipher: aes }").warnings[0]


@pytest.mark.parametrize("name", ["prev_key", "prev_ek", "prev_encryption_key"])
def test_the_key_before(name: str) -> None:
    found = options(f"jetstream {{ key: a, {name}: before }}")
    assert (found.encryption_key, found.prev_encryption_key) == ("a", "before")
    assert "before" not in repr(found)
    assert options(f'jetstream {{ key: a, {name}: "" }}').prev_encryption_key is None
    (change,) = differences(load("jetstream { key: a }"), load(f"jetstream {{ key: a, {name}: before }}"))
    assert (change.path, change.needs_restart) == ("jetstream.prev_encryption_key", True)
    assert "before" not in str(change)


def test_the_key_before_without_a_key_is_warned_of() -> None:
    found = load("jetstream { prev_key: before }")
    assert "prev_key has no effect" in found.warnings[0]
    assert found.jetstream == JetStreamOptions()


def test_accounts_have_limits_under_the_empty_tier() -> None:
    found = load(
        "accounts { A { jetstream { max_mem: 1, disk: 2, streams: -7, max_bytes: true } },"
        " B { jetstream: enabled }, C { jetstream: off }, D {} }"
    ).accounts
    assert [account.jetstream for account in found] == [
        {"": JetStreamAccountLimits(max_memory=1, max_storage=2, max_streams=-1, max_bytes_required=True)},
        {"": JetStreamAccountLimits()},
        None,
        None,
    ]


def test_archive_block() -> None:
    text = (
        'to: /tables, interval: "5m", streams: [ORDERS, "*_EU"], accounts: A, retain: "720h", file_size: 64MB'
    )
    assert options(f"jetstream {{ archive {{ {text} }} }}").archive == StreamArchiveOptions(
        "/tables", 300.0, "720h", 64 << 20, ("A",), ("ORDERS", "*_EU")
    )
    buckets = options("jetstream { archive { to: x, buckets: a, bucket_histories: [b, c] } }").archive
    assert buckets == StreamArchiveOptions("x", buckets=("a",), bucket_histories=("b", "c"))
    assert options("jetstream { archive { to: s3://b/t } }").archive == StreamArchiveOptions("s3://b/t")
    assert options("jetstream {}").archive is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("archive {}", "archive needs a place for its tables: to"),
        ('archive { to: "" }', "archive needs a place for its tables: to"),
        ("archive: yes", "a map"),
        ('archive { to: x, interval: "0s" }', "interval must be more than 0"),
        ("archive { to: x, file_size: -1 }", "file_size must be more than 0"),
        ("archive { to: x, retain: ever }", "stream, forever and durations are known"),
        ("archive { to: x, streams: 7 }", "streams"),
        ("archive { to: x, channels: [a] }", "unknown field"),
    ],
)
def test_archive_block_that_cannot_be(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(f"jetstream {{ {text} }}")
