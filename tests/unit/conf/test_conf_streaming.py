"""The `streaming` section, its rules, and what flags change of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.conf.archive_options import ChannelArchiveOptions
from headrace.conf.binding import load_options
from headrace.conf.bucket_options import BucketOptions
from headrace.conf.streaming_options import (
    ChannelLimits,
    NATSServerOptions,
    StoreLimits,
    StreamingOptions,
)
from headrace.conf.streaming_rules import MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES, Setting, StreamingFlags
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.conf.options import Options

FILE_STORE = "store: FILE, dir: d"


def load(text: str, flags: StreamingFlags | None = None, **environ: str) -> Options:
    return load_options(text=text, overrides={"streaming_flags": flags}, environ=environ)


def section(text: str, **environ: str) -> StreamingOptions:
    options = load(f"streaming {{\n{text}\n}}", **environ).streaming
    assert options is not None
    return options


def warnings(text: str, **environ: str) -> list[str]:
    return list(load(f"streaming {{\n{text}\n}}", **environ).warnings)


def complaints(text: str, flags: StreamingFlags | None = None, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, flags, **environ)
    return [str(problem) for problem in caught.value.problems]


def only_complaint(text: str, **environ: str) -> str:
    found = complaints(f"streaming {{\n{text}\n}}", **environ)
    assert len(found) == 1, found
    return found[0]


def flags(**settings: object) -> StreamingFlags:
    return StreamingFlags(
        enabled=True, settings={name: Setting(value, f"--{name}") for name, value in settings.items()}
    )


# -- whether it runs


def test_without_section_there_is_no_streaming() -> None:
    assert load("port: 1").streaming is None
    assert load_options().streaming is None


def test_empty_section_runs_it_with_the_defaults_of_the_reference() -> None:
    assert section("") == StreamingOptions(
        cluster_id="test-cluster",
        discover_prefix="_STAN.discover",
        store_type="MEMORY",
        limits=StoreLimits(100, 1000, 1_000_000, 1_024_000_000, 0.0, 0.0),
        hb_interval=30.0,
        hb_timeout=10.0,
        hb_fail_count=10,
        sync="group",
    )


def test_flag_runs_it_without_section_or_file() -> None:
    assert load("port: 1", StreamingFlags(enabled=True)).streaming == StreamingOptions()
    overrides = {"streaming_flags": StreamingFlags(enabled=True)}
    assert load_options(overrides=overrides).streaming == StreamingOptions()


def test_flag_turns_it_off_with_a_section() -> None:
    assert load("streaming { cid: x }", StreamingFlags(enabled=False)).streaming is None


def test_flags_win_over_the_section_and_keep_the_rest() -> None:
    options = load("streaming { cid: x, hb_timeout: 2s }", flags(cluster_id="y", max_msgs=5)).streaming
    assert options is not None
    assert (options.cluster_id, options.hb_timeout, options.limits.max_msgs) == ("y", 2.0, 5)


def test_reload_with_the_same_overrides_gives_the_same_options(tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    file.write_text("streaming { store_limits { channels { a { mm: 1 } } } }")
    first = load_options(str(file), overrides={"streaming_flags": flags(cluster_id="y")})

    assert load_options(first.config_file, overrides=first.overrides) == first


def test_section_that_is_no_map_is_refused() -> None:
    assert complaints("streaming: true") == [
        '<text>:1:12: field "streaming" must be a map, not true or false'
    ]


# -- keys


@pytest.mark.parametrize(
    ("text", "option", "value"),
    [
        *((f"{key}: x", "cluster_id", "x") for key in ("cluster_id", "cid", "id", "ID")),
        ("discover_prefix: a.b", "discover_prefix", "a.b"),
        *((f"{key}: memory", "store_type", "MEMORY") for key in ("store", "st", "store_type", "storetype")),
        ("store: file, dir: d", "store_type", "FILE"),
        ("dir: d", "directory", "d"),
        ("datastore: d", "directory", "d"),
        *((f"{key}: true", "stan_debug", True) for key in ("sd", "stan_debug")),
        *((f"{key}: true", "stan_trace", True) for key in ("sv", "stan_trace")),
        *(
            (f"{key}: 1m30s", "hb_interval", 90.0)
            for key in ("hb_interval", "hbi", "server_to_client_hb_interval")
        ),
        *(
            (f"{key}: '250ms'", "hb_timeout", 0.25)
            for key in ("hb_timeout", "hbt", "server_to_client_hb_timeout")
        ),
        *(
            (f"{key}: 0", "hb_fail_count", 0)
            for key in ("hb_fail_count", "hbf", "server_to_client_hb_fail_count")
        ),
        *(
            (f"replace_{what}: true", "replace_durable", True)
            for what in ("durable", "durables", "duplicate_durable", "duplicate_durables")
        ),
        ("file_options { slice_max_bytes: 1MB }", "segment_bytes", 1 << 20),
        ("file_options { compression: S2 }", "compression", "s2"),
        ("file { slice_size: 1MB }", "segment_bytes", 1 << 20),
        ("file_options { auto_sync: 5s }", "sync_interval", 5.0),
        ("file_options { file_auto_sync: 5s }", "sync_interval", 5.0),
    ],
)
def test_key_sets_its_option(text: str, option: str, value: object) -> None:
    assert getattr(section(text), option) == value


@pytest.mark.parametrize(
    ("text", "option", "value"),
    [
        *((f"{key}: 5", "max_channels", 5) for key in ("max_channels", "mc", "maxchannels")),
        *(
            (f"{key}: 5", "max_subscriptions", 5)
            for key in ("max_subs", "msu", "max_subscriptions", "maxsubscriptions")
        ),
        *((f"{key}: 5", "max_msgs", 5) for key in ("max_msgs", "mm", "maxmsgs", "max_count", "maxcount")),
        *((f"{key}: 10KB", "max_bytes", 10240) for key in ("max_bytes", "mb", "maxbytes")),
        *((f"{key}: 1h30m", "max_age", 5400.0) for key in ("max_age", "ma", "maxage")),
        *((f"{key}: 5s", "max_inactivity", 5.0) for key in ("max_inactivity", "mi", "maxinactivity")),
        ("max_msgs: 0", "max_msgs", 0),
    ],
)
@pytest.mark.parametrize("block", ["store_limits", "limits", "storelimits"])
def test_key_of_the_limits_sets_its_limit(block: str, text: str, option: str, value: object) -> None:
    assert getattr(section(f"{block} {{ {text} }}").limits, option) == value


@pytest.mark.parametrize(
    "block", ["channels", "channels_limits", "channelslimits", "per_channel", "per_channel_limits"]
)
def test_limits_by_channel_keep_what_is_unset_apart_from_what_is_lifted(block: str) -> None:
    text = f"""store_limits {{ {block} {{
        "foo.*" {{ max_msgs: 10, ma: "1m" }}
        "foo.>": {{ max_bytes: -1, max_age: "-1s" }}
        bar: {{ max_subs: 0, mi: "0s" }}
        baz: {{ }}
    }} }}"""

    assert section(text).limits.channels == {
        "foo.*": ChannelLimits(max_msgs=10, max_age=60.0),
        "foo.>": ChannelLimits(max_bytes=-1, max_age=-1.0),
        "bar": ChannelLimits(max_subscriptions=-1, max_inactivity=-1.0),
        "baz": ChannelLimits(),
    }


@pytest.mark.parametrize("name", ["a..b", ".a", "a.", "a.>.b", "a b", "a/b", "a.b*", ">x"])
def test_limits_of_what_can_be_no_channel_are_refused(name: str) -> None:
    text = f'store_limits {{ channels {{ "{name}" {{ max_msgs: 1 }} }} }}'

    assert f'invalid channel name "{name}"' in only_complaint(text)


def test_more_channels_defined_than_allowed_are_refused_but_wildcards_do_not_count() -> None:
    text = "store_limits {{ max_channels: {}, channels {{ a {{}}, b {{}}, 'c.*' {{}} }} }}"

    assert len(section(text.format(2)).limits.channels) == 3
    assert len(section(text.format(0)).limits.channels) == 3
    assert "too many channels defined (2): the max channels limit is set to 1" in only_complaint(
        text.format(1)
    )


# -- durability


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", "group"),
        ("sync: true", "group"),
        ("sync_on_flush: false", "interval"),
        ("do_sync: false, auto_sync: 0s", "never"),
        ("sync: group", "group"),
        ("sync: Interval", "interval"),
        ("sync: never", "never"),
        ("sync: group, auto_sync: 0s", "group"),
    ],
)
def test_sync_is_a_policy_or_the_switch_of_the_reference(text: str, policy: str) -> None:
    assert section(f"file_options {{ {text} }}").sync == policy


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sync: sometimes", 'sync cannot be "sometimes": group, interval, never are known'),
        ("sync: interval, auto_sync: 0s", "sync: interval needs an auto_sync above 0"),
        ("sync: 5", 'field "sync" must be true, false or a string, not an integer'),
    ],
)
def test_sync_that_means_nothing_is_refused(text: str, complaint: str) -> None:
    assert complaint in only_complaint(f"file_options {{ {text} }}")


@pytest.mark.parametrize(("size", "used"), [(1000, MIN_SEGMENT_BYTES), (0, MAX_SEGMENT_BYTES)])
def test_segment_size_outside_of_the_bounds_is_brought_inside_with_a_warning(size: int, used: int) -> None:
    text = f"file_options {{ slice_max_bytes: {size} }}"

    assert section(text).segment_bytes == used
    assert warnings(text) == [
        f"<text>:2:16: slice_max_bytes of {size} is outside of what segments may have: {used} is used"
    ]


# -- encryption


def test_encryption_takes_its_key_from_the_environment_first() -> None:
    text = f"{FILE_STORE}, encrypt: true, encryption_key: of-the-file, encryption_cipher: chacha"

    options = section(text, NATS_STREAMING_ENCRYPTION_KEY="of-the-environment")

    assert (options.encryption_cipher, options.encryption_key) == ("CHACHA", "of-the-environment")
    assert section(text).encryption_key == "of-the-file"
    assert "of-the-file" not in repr(section(text))


def test_key_alone_asks_for_encryption_but_not_against_the_switch() -> None:
    assert section(f"{FILE_STORE}, encryption_key: k").encryption_cipher == "AES"
    assert section(f"{FILE_STORE}, encryption_key: k, encrypt: false").encryption_cipher is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{FILE_STORE}, encrypt: true", "encryption needs a key: set NATS_STREAMING_ENCRYPTION_KEY"),
        (
            f"{FILE_STORE}, encryption_key: k, encryption_cipher: ROT13",
            'encryption_cipher cannot be "ROT13": AES and CHACHA are known',
        ),
        ("encryption_key: k", "only a FILE store can be encrypted"),
    ],
)
def test_encryption_that_cannot_be_is_refused(text: str, complaint: str) -> None:
    assert complaint in only_complaint(text)


def test_directory_of_a_memory_store_is_warned_about() -> None:
    assert warnings("dir: d") == ["<text>:2:1: dir has no effect: the store type is MEMORY"]


def test_key_in_the_environment_without_encryption_is_warned_about() -> None:
    (warning,) = warnings("", NATS_STREAMING_ENCRYPTION_KEY="secret")

    assert warning == "NATS_STREAMING_ENCRYPTION_KEY has no effect: encryption is not on"


# -- what is not there (ADR 0007)


@pytest.mark.parametrize(
    "text",
    [
        "sql_options { driver: mysql }",
        "file_options { slice_archive_script: './keep.sh' }",
    ],
)
def test_option_of_what_is_missing_ends_the_start(text: str) -> None:
    key = text.replace("file_options { ", "").split()[0].rstrip(":")

    assert f"{key} is not supported by this version" in only_complaint(text)


# -- clusters

SHARED = 'store: file, dir: d, bucket: "s3://name/prefix"'


@pytest.mark.parametrize("block", ["cluster {}", "cluster { node_id: a }", "CLUSTER { bootstrap: false }"])
def test_cluster_is_one_of_servers_that_share_a_bucket(block: str) -> None:
    options = section(f"{SHARED}, {block}")
    assert (options.clustered, options.node_id) == (True, "a" if "node_id" in block else "")
    assert warnings(f"{SHARED}, {block}") == []


def test_flags_of_a_cluster_say_the_same_as_its_block() -> None:
    text = f"streaming {{ {SHARED} }}"
    options = load(text, flags(clustered=True, node_id="a")).streaming
    assert options == section(f"{SHARED}, cluster {{ node_id: a }}")
    assert load(f"{text[:-1]}, cluster {{}} }}", flags(clustered=False)).streaming == section(SHARED)


@pytest.mark.parametrize("text", ["cluster {}", "store: file, dir: d, cluster { node_id: a, peers: [a, b] }"])
def test_cluster_without_a_bucket_says_what_to_set(text: str) -> None:
    assert 'cluster needs a bucket that all servers have: set bucket: "s3://name/prefix" in streaming' in (
        only_complaint(text)
    )


def test_flag_of_a_bucket_is_its_url() -> None:
    options = load(
        "", flags(clustered=True, store_type="FILE", directory="d", bucket="s3://name/p/")
    ).streaming
    assert options is not None
    assert options.bucket == BucketOptions("s3://name/p")
    assert "no place" in complaints("", flags(bucket="ftp://x", store_type="FILE", directory="d"))[0]


def test_other_servers_of_a_group_may_have_channels_only_with_the_same_bucket() -> None:
    """What the routes tell of a server, so that a second one with the cluster ID is noticed."""
    assert load(f"streaming {{ {SHARED}, ft_group: g }}").streaming_subject == "_STAN.discover.test-cluster"
    assert load("streaming { store: file, dir: d, ft_group: g }").streaming_subject == ""


def test_cluster_id_is_part_of_a_name_in_the_bucket() -> None:
    assert section(f"{SHARED}, id: {'i' * 54}").cluster_id == "i" * 54
    assert "id can have 54 characters where there is a bucket" in only_complaint(f"{SHARED}, id: {'i' * 55}")
    assert section(f"id: {'i' * 55}").cluster_id == "i" * 55


def test_cluster_and_fault_tolerance_exclude_each_other() -> None:
    text = only_complaint(f"{SHARED}, cluster {{}}, ft_group: g")
    assert "ft_group and cluster exclude each other" in text


@pytest.mark.parametrize(
    "text",
    [
        *("bootstrap: true", "peers: [a, b]", "log_path: p", "log_cache_size: 10", "log_snapshots: 5"),
        *("trailing_logs: 10", "raft_logging: true", "raft_heartbeat_timeout: 2s", "raft_lease_timeout: 1s"),
        *("raft_election_timeout: 2s", "raft_commit_timeout: 100ms", "proceed_on_restore_failure: true"),
        *("allow_add_remove_node: true", "bolt_free_list_sync: true", "bolt_free_list_map: true"),
        "nodes_connections: true",
    ],
)
def test_detail_of_raft_is_named_in_one_warning(text: str) -> None:
    (warning,) = warnings(f"{SHARED}, cluster {{ {text} }}")
    assert f"{text.split(':', maxsplit=1)[0]} has no effect: " in warning


@pytest.mark.parametrize(
    "text", ["sync: true", "sync: false", "log_cache_size: 512", "log_snapshots: 2", "peers: []"]
)
def test_detail_of_raft_that_asks_for_nothing_is_accepted(text: str) -> None:
    assert warnings(f"{SHARED}, cluster {{ {text} }}") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cluster: true", 'field "cluster" must be a map'),
        ("cluster { node: a }", 'unknown field "node"'),
        ("cluster { node_id: 5 }", 'field "node_id" must be a string'),
        ("cluster { peers: 5 }", 'field "peers" must be'),
        ("cluster { log_cache_size: many }", 'field "log_cache_size" must be'),
    ],
)
def test_mistakes_in_the_block_of_a_cluster(text: str, complaint: str) -> None:
    assert complaint in only_complaint(f"{SHARED}, {text}")


# -- what asks for nothing


@pytest.mark.parametrize(
    "text",
    ["nats_server_url: ''", "ft_group: ''", "partitioning: false", "file { slice_archive_script: '' }"],
)
def test_option_that_asks_for_nothing_is_accepted(text: str) -> None:
    assert warnings(text) == []


@pytest.mark.parametrize(
    "text",
    [
        *("compact_enabled: true", "compact: false", "compact_frag: 50", "compact_fragmentation: 50"),
        *("compact_interval: 300", "compact_min_size: 1MB", "buffer_size: 2MB", "read_buffer_size: 2MB"),
        *("crc: false", "do_crc: false", "crc_poly: 1", "slice_max_msgs: 10", "slice_count: 10"),
        *("slice_max_age: 1h", "file_descriptors_limit: 100", "fds_limit: 100", "parallel_recovery: 2"),
        *("truncate_bad_eof: false", "file_read_buffer_size: 2MB"),
    ],
)
def test_tuning_without_counterpart_is_named_in_one_warning(text: str) -> None:
    (warning,) = warnings(f"file_options {{ {text} }}")

    assert warning.startswith(f"<text>:2:16: {text.split(':', maxsplit=1)[0]} has no effect: ")


@pytest.mark.parametrize(
    "text",
    [
        *("crc: true", "slice_max_msgs: 0", "slice_max_age: '0s'", "fds_limit: -1", "parallel_recovery: 1"),
        "truncate_bad_eof: true",
    ],
)
def test_tuning_that_agrees_with_what_happens_is_accepted(text: str) -> None:
    assert warnings(f"file_options {{ {text} }}") == []


@pytest.mark.parametrize(
    "text",
    [
        *("secure: true", "credentials: f", "nkey_seed_file: f", "username: u", "password: p", "token: t"),
        *("syslog_name: n", "tls { client_cert: f }", "tls { client_key: f }", "tls { client_ca: f }"),
        *("tls { server_name: n }", "tls { skip_verify: true }", "tls { server_hostname: n }"),
        *("tls { insecure: true }", "user: u", "pass: p"),
    ],
)
def test_connection_that_is_not_needed_is_named_in_one_warning(text: str) -> None:
    (warning,) = warnings(text)

    assert " has no effect: streaming runs inside the server" in warning or "event log" in warning


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("clster_id: x", 'unknown field "clster_id" (did you mean "cluster_id"?)'),
        ("store_limits { max_mgs: 1 }", 'unknown field "max_mgs" (did you mean "max_msgs"?)'),
        ("store_limits { channels { a { max_channels: 1 } } }", 'unknown field "max_channels"'),
        ("file_options { slices: 1 }", 'unknown field "slices"'),
        ("tls { cert_file: f }", 'unknown field "cert_file"'),
        ("cluster_id: 5", 'field "cluster_id" must be a string, not an integer'),
        ("store_limits { max_msgs: many }", 'field "max_msgs" must be an integer, not a string'),
        (
            "hb_interval: 30",
            'field "hb_interval" must be a duration as a string, such as "2m", not an integer',
        ),
        ("hb_interval: 5x", 'field "hb_interval" is not a duration'),
        ("store_limits { channels: [a] }", 'field "channels" must be a map, not a list'),
        ("store_limits { channels { a: 5 } }", 'field "a" must be a map, not an integer'),
        ("store: floppy", 'store type "FLOPPY" is unknown: MEMORY and FILE are there'),
        ("store: sql", 'store type "SQL" is not supported by this version'),
        ("store: file", "for FILE stores, root directory must be specified"),
        ("cluster_id: ''", 'invalid cluster_id ""'),
        ("cluster_id: 'a b'", 'invalid cluster_id "a b"'),
        ("cid: 'a.*'", 'invalid cid "a.*": only alphanumeric and `-` or `_` are allowed'),
        ("discover_prefix: 'a.>'", 'discover_prefix "a.>" cannot begin a subject'),
        ("store_limits { max_msgs: -1 }", "max_msgs cannot be negative"),
        ("store_limits { ma: '-1s' }", "ma cannot be negative"),
        ("store_limits { max_channels: -1 }", "max_channels cannot be negative"),
        ("hb_interval: '0s'", "hb_interval must be more than 0"),
        ("hbt: '-1s'", "hbt must be more than 0"),
        ("hbf: -1", "hbf cannot be negative"),
    ],
)
def test_wrong_value_gives_one_line_with_its_place(text: str, complaint: str) -> None:
    line = only_complaint(text)

    assert line.startswith("<text>:2:")
    assert complaint in line


# -- a NATS server elsewhere


def test_nats_server_elsewhere_is_read() -> None:
    tls = "tls { client_cert: c, client_key: k, client_cacert: a, server_name: n, skip_verify: true }"

    read = section(f"ns: 'nats://a:1,nats://b:2'\nusername: u\npassword: p\nsecure: true\n{tls}")

    assert read.nats_server == NATSServerOptions(
        url="nats://a:1,nats://b:2",
        username="u",
        password="p",
        secure=True,
        client_cert="c",
        client_key="k",
        client_ca="a",
        server_name="n",
        skip_verify=True,
    )
    short = "tls { client_cert: c, client_key: k, client_ca: a, server_hostname: n, insecure: true }"
    assert section(f"ns: 'nats://a:1,nats://b:2'\nuser: u\npass: p\nsecure: true\n{short}") == read
    assert section("nats_server_url: 'a:1'\ntoken: t").nats_server == NATSServerOptions("a:1", token="t")
    assert section("nats_server: 'a:1'\ncredentials: f").nats_server == NATSServerOptions(
        "a:1", credentials="f"
    )
    assert section("ns: ''").nats_server is None


def test_secrets_of_the_connection_are_not_shown() -> None:
    read = section("ns: 'nats://u:hidden@a:1'\nusername: u\npassword: hidden")

    assert "hidden" not in repr(read)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("username: u\ntoken: t", "token and username exclude each other"),
        ("credentials: f\nnkey_seed_file: g", "nkey_seed_file and credentials exclude each other"),
        ("password: p", "password needs a username"),
        ("tls { client_cert: c }", "client_cert needs client_key beside it"),
        ("tls { client_key: c }", "client_key needs client_cert beside it"),
        ("nats_server_url: 5", 'field "nats_server_url" must be a string, not an integer'),
    ],
)
def test_connection_that_cannot_be_is_refused(text: str, complaint: str) -> None:
    url = "" if text.startswith("nats_server_url") else "ns: 'nats://h:1'\n"

    assert complaint in only_complaint(url + text)


def test_partitioning_needs_channels() -> None:
    assert "stan: no configured channel" in only_complaint("partitioning: true")
    assert section("partitioning: true\nstore_limits { channels { a: {} } }").partitioning


def test_fault_tolerance_needs_a_store_to_share() -> None:
    assert section("ft_group: g\nstore: file\ndir: d").ft_group == "g"
    assert section("ft_group: ''").ft_group is None
    assert "fault tolerance needs a FILE store" in only_complaint("ft_group: g")
    assert 'invalid ft_group "a.b"' in only_complaint("ft_group: a.b\nstore: file\ndir: d")


def test_all_problems_of_the_rules_are_reported_at_once() -> None:
    lines = complaints("streaming { store: file\n partitioning: true\n hbf: -1\n}")

    assert len(lines) == 3


def test_wrong_value_of_a_flag_is_named_as_the_flag() -> None:
    assert complaints("", flags(max_msgs=-1)) == ["--max_msgs cannot be negative"]


# -- files


def test_streaming_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    server, own = tmp_path / "server.conf", tmp_path / "own.conf"
    server.write_text("port: 5\nstreaming { cid: unused }")
    own.write_text("cid: x\nstore_limits { mm: 3 }")
    given = {"streaming_flags": StreamingFlags(enabled=True, config_file=str(own))}

    options = load_options(str(server), overrides=given)

    assert options.streaming is not None
    assert (options.port, options.streaming.cluster_id, options.streaming.limits.max_msgs) == (5, "x", 3)
    assert options.warnings == (f"{server}:2:1: the streaming section is not used: {own} takes its place",)


def test_file_of_its_own_may_have_a_section_and_what_stands_beside_it_is_warned_about(tmp_path: Path) -> None:
    server, own = tmp_path / "server.conf", tmp_path / "own.conf"
    server.write_text("port: 5")
    own.write_text("port: 6\nstreaming { cid: x }")
    given = {"streaming_flags": StreamingFlags(enabled=True, config_file=str(own))}

    options = load_options(str(server), overrides=given)

    assert options.streaming is not None
    assert (options.port, options.streaming.cluster_id) == (5, "x")
    assert options.warnings == (
        f'{own}:1:1: field "port" is not used: the server has a configuration file of its own',
    )


def test_missing_file_of_its_own_is_an_error(tmp_path: Path) -> None:
    given = StreamingFlags(enabled=True, config_file=str(tmp_path / "none.conf"))

    assert "none.conf: no such file or directory" in complaints("port: 5", given)[0]


def test_flat_file_is_taken_apart_between_server_and_streaming() -> None:
    text = "port: 5\ncid: x\nstore_limits { mm: 3 }\nhbi: 5s\ndebug: true\nsd: true"

    options = load(text, StreamingFlags(enabled=True, flat=True))

    assert options.streaming is not None
    assert (options.port, options.debug) == (5, True)
    streaming = options.streaming
    assert (streaming.cluster_id, streaming.limits.max_msgs, streaming.hb_interval) == ("x", 3, 5.0)
    assert (streaming.stan_debug, streaming.stan_trace) == (True, False)


def test_flat_keys_are_unknown_beside_a_section_and_without_the_command() -> None:
    line = 'unknown field "cid"'

    assert line in complaints("cid: x\nstreaming {}", StreamingFlags(enabled=True, flat=True))[0]
    assert line in complaints("cid: x")[0]


def test_problem_of_a_flat_file_has_its_place() -> None:
    given = StreamingFlags(enabled=True, flat=True)

    assert complaints("port: 5\nhbf: many", given) == [
        '<text>:2:6: field "hbf" must be an integer, not a string'
    ]


# -- archive


def test_archive_block() -> None:
    text = 'archive { to: /tables, interval: "5m", channels: [a.>, b], retain: "720h", file_size: 64MB }'
    assert section(text).archive == ChannelArchiveOptions("/tables", 300.0, "720h", 64 << 20, ("a.>", "b"))
    assert section("archive { to: s3://bucket/tables }").archive == ChannelArchiveOptions(
        "s3://bucket/tables"
    )
    assert section("cluster_id: a").archive is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('archive { interval: "5m" }', "archive needs a place for its tables: to"),
        ("archive {}", "archive needs a place for its tables: to"),
        ('archive { to: "" }', "archive needs a place for its tables: to"),
        ("archive: yes", "a map"),
        ('archive { to: x, interval: "0s" }', "interval must be more than 0"),
        ("archive { to: x, interval: 5 }", "a duration as a string"),
        ("archive { to: x, file_size: -1 }", "file_size must be more than 0"),
        ("archive { to: x, channels: [a..b] }", "invalid channel name"),
        ("archive { to: x, retain: ever }", "stream, forever and durations are known"),
        ('archive { to: x, retain: "-1h" }', "stream, forever and durations are known"),
        ('archive { to: x, every: "5m" }', "unknown field"),
    ],
)
def test_archive_that_makes_no_sense(text: str, part: str) -> None:
    assert part in only_complaint(text)


def test_only_known_compressions() -> None:
    assert complaints("streaming { file_options { compression: zip } }") == [
        '<text>:1:28: compression cannot be "zip": none, s2 are known'
    ]
