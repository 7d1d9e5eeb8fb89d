"""The `bucket` of a `jetstream` and a `streaming` block: its forms, its rules, its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.conf.binding import load_options
from headrace.conf.bucket_options import BucketCredentials, BucketOptions
from headrace.conf.changes import differences
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.conf.options import Options

CHANNELS = "store: FILE, dir: d"


def of_streams(text: str, rest: str = "") -> BucketOptions | None:
    options = load_options(text=f"jetstream {{ bucket{text}\n{rest} }}").jetstream
    assert options is not None
    return options.bucket


def of_channels(text: str) -> BucketOptions | None:
    options = load_options(text=f"streaming {{ {CHANNELS}\nbucket{text} }}").streaming
    assert options is not None
    return options.bucket


def complaints(text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load_options(text=text)
    return str(raised.value).splitlines()


def only_complaint(text: str) -> str:
    (line,) = complaints(f"jetstream {{ bucket {text} }}")
    return line


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("s3://name", "s3://name"),
        ("s3://name/", "s3://name"),
        ("s3://my-name.of_it/pre/fix/", "s3://my-name.of_it/pre/fix"),
        ("gs://name/prefix", "gs://name/prefix"),
        ("az://container/prefix", "az://container/prefix"),
        ("file:///srv/bucket", "file:///srv/bucket"),
    ],
)
def test_url_alone_is_the_map_with_it(written: str, url: str) -> None:
    for found in (of_streams, of_channels):
        assert found(f': "{written}"') == found(f' {{ url: "{written}" }}') == BucketOptions(url)


def test_there_is_none_unless_it_is_asked_for() -> None:
    for text in ("jetstream {}", f"streaming {{ {CHANNELS} }}"):
        options = load_options(text=text)
        for block in (options.jetstream, options.streaming):
            assert block is None or block.bucket is None


def test_values_of_the_block(tmp_path: Path) -> None:
    found = of_streams(
        ' { url: "s3://b/p", commit: disk, max_lag: "2500ms", puts_in_flight: 16, puts_per_second: 2.5,'
        ' cache_bytes: "10G", fill_per_second: "5M", history: "24h",'
        ' endpoint: "https://minio.example:9000", region: eu-west-1,'
        ' path_style: false, server_side_encryption: "aws:kms", kms_key_id: "alias/k",'
        ' credentials { access_key_id: AK, secret_access_key: "s", session_token: "t" } }'
    )
    assert found == BucketOptions(
        "s3://b/p",
        commit="disk",
        max_lag=2.5,
        puts_in_flight=16,
        puts_per_second=2.5,
        cache_bytes=10 << 30,
        fill_per_second=5 << 20,
        history=86400.0,
        endpoint="https://minio.example:9000",
        region="eu-west-1",
        path_style=False,
        server_side_encryption="aws:kms",
        kms_key_id="alias/k",
        credentials=BucketCredentials(access_key_id="AK", secret_access_key="s", session_token="t"),
    )
    key = tmp_path / "key.json"
    key.write_text("{}")
    google = of_channels(f' {{ url: "gs://b", puts_per_second: 7, credentials {{ file: "{key}" }} }}')
    assert google == BucketOptions(
        "gs://b", puts_per_second=7.0, credentials=BucketCredentials(file=str(key))
    )
    azure = of_channels(
        ' { url: "az://c/p", endpoint: "http://127.0.0.1:10000/account", history: "1m",'
        ' credentials { account_name: account, account_key: "a2V5" } }'
    )
    assert azure == BucketOptions(
        "az://c/p",
        endpoint="http://127.0.0.1:10000/account",
        history=60.0,
        credentials=BucketCredentials(account_name="account", account_key="a2V5"),
    )


def test_empty_credentials_are_those_of_the_environment() -> None:
    assert of_streams(' { url: "s3://b", credentials {} }') == BucketOptions("s3://b")
    assert of_streams(' { url: "s3://b", credentials { access_key_id: "" } }') == BucketOptions("s3://b")


def test_secret_comes_from_the_environment_like_any_value() -> None:
    text = 'jetstream { bucket { url: "s3://b", credentials { access_key_id: a, secret_access_key: $SK } } }'
    options = load_options(text=text, environ={"SK": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEX"}).jetstream
    assert options is not None
    assert options.bucket is not None
    assert options.bucket.credentials is not None
    assert options.bucket.credentials.secret_access_key == "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEX"


# -- what cannot be


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("name/prefix", "s3://, gs://, az:// and file:/// are known"),
        ("/srv/bucket", "s3://, gs://, az:// and file:/// are known"),
        ("ftp://name/prefix", "s3://, gs://, az:// and file:/// are known"),
        ("S3://name/prefix", "s3://, gs://, az:// and file:/// are known"),
        ("s3://", "no name of a bucket"),
        ("s3:///prefix", "no name of a bucket"),
        ("s3://na me/prefix", "no name of a bucket"),
        ("s3://-name", "no name of a bucket"),
        ("file://srv/bucket", "names no directory"),
        ("file:///", "names no directory"),
        ("s3://name/a//b", "a prefix that cannot begin keys"),
        ("s3://name/../b", "a prefix that cannot begin keys"),
        ("s3://name/.", "a prefix that cannot begin keys"),
        ("file:///srv/../etc", "a prefix that cannot begin keys"),
        ("s3://name/p?versionId=7", "a prefix that cannot begin keys"),
        ("s3://name/p%2e%2e", "a prefix that cannot begin keys"),
        (f"s3://name/{'p' * 600}", "more than 512 characters"),
    ],
)
def test_url_that_names_no_place(url: str, part: str) -> None:
    assert part in only_complaint(f'{{ url: "{url}" }}')
    assert part in only_complaint(f': "{url}"')


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    for url in ("s3://key:secret@name/prefix", "ftp://key:secret@name/prefix"):
        assert "secret" not in only_complaint(f': "{url}"')
    assert "no credentials in the URL" in only_complaint(': "s3://key:secret@name/prefix"')
    endpoint = only_complaint('{ url: "s3://b", endpoint: "https://key:secret@host" }')
    assert "http or https URL" in endpoint
    assert "secret" not in endpoint


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (": 7", "must be a URL as a string, or a map"),
        (": [a]", "must be a URL as a string, or a map"),
        (': ""', "is no place"),
        ('{ url: "" }', "bucket needs a place: url"),
        ("{}", "bucket needs a place: url"),
        ("{ region: a }", "bucket needs a place: url"),
        ('{ url: "s3://b", commit: quorum }', 'commit cannot be "quorum": bucket, disk are known'),
        ('{ url: "s3://b", commit: disk, max_lag: "0s" }', "max_lag must be more than 0"),
        ('{ url: "s3://b", commit: disk, max_lag: 5 }', "a duration as a string"),
        ('{ url: "s3://b", puts_in_flight: 0 }', "puts_in_flight must lie between 1 and 16"),
        ('{ url: "s3://b", puts_in_flight: 17 }', "puts_in_flight must lie between 1 and 16"),
        ('{ url: "s3://b", puts_in_flight: 2.5 }', "must be an integer"),
        ('{ url: "s3://b", puts_per_second: 0 }', "puts_per_second must be more than 0"),
        ('{ url: "s3://b", puts_per_second: -1.5 }', "puts_per_second must be more than 0"),
        ('{ url: "s3://b", puts_per_second: 10001 }', "and at most 10000"),
        ('{ url: "s3://b", puts_per_second: true }', "must be a number"),
        ('{ url: "s3://b", puts_per_second: many }', "must be a number"),
        ('{ url: "s3://b", cache_bytes: -1 }', "cache_bytes cannot be negative"),
        ('{ url: "s3://b", cache_bytes: "10X" }', "must end in K, M, G, T"),
        ('{ url: "s3://b", fill_per_second: -1 }', "fill_per_second cannot be negative"),
        ('{ url: "s3://b", fill_per_second: yes }', 'field "fill_per_second" must be an integer'),
        ('{ url: "s3://b", history: "59s" }', "history must be at least 1m"),
        ('{ url: "s3://b", endpoint: "minio:9000" }', "endpoint must be an http or https URL"),
        ('{ url: "s3://b", endpoint: "ftp://minio" }', "endpoint must be an http or https URL"),
        ('{ url: "s3://b", ca_file: "/none/ca.pem" }', "open /none/ca.pem: no such file"),
        ('{ url: "s3://b", server_side_encryption: rot13 }', "AES256, aws:kms, aws:kms:dsse are known"),
        ('{ url: "s3://b", kms_key_id: k }', "kms_key_id needs server_side_encryption: aws:kms"),
        (
            '{ url: "s3://b", server_side_encryption: AES256, kms_key_id: k }',
            "kms_key_id needs server_side_encryption: aws:kms",
        ),
        ('{ url: "gs://b", region: r }', "region has no meaning for Google Cloud"),
        ('{ url: "az://b", path_style: true }', "path_style has no meaning for Azure"),
        ('{ url: "file:///b", endpoint: "http://h" }', "endpoint has no meaning for a directory"),
        ('{ url: "file:///b", credentials { access_key_id: a, secret_access_key: b } }', "no meaning"),
        ('{ url: "s3://b", credentials { access_key_id: a } }', "access_key_id needs secret_access_key"),
        ('{ url: "s3://b", credentials { session_token: t } }', "needs access_key_id and secret_access_key"),
        ('{ url: "az://b", credentials { account_key: k } }', "account_key needs account_name"),
        (
            '{ url: "az://b", credentials { account_name: a, account_key: k, sas_key: s } }',
            "sas_key and account_key exclude each other",
        ),
        (
            '{ url: "gs://b", credentials { access_key_id: a, secret_access_key: b } }',
            "Google Cloud has no access_key_id, secret_access_key",
        ),
        ('{ url: "gs://b", credentials { file: "/none/key.json" } }', "open /none/key.json: no such file"),
        ('{ url: "s3://b", credentials: a }', "must be a map"),
        ('{ url: "s3://b", shards: 16 }', 'unknown field "shards"'),
        ('{ url: "s3://b", pust_in_flight: 4 }', 'did you mean "puts_in_flight"?'),
    ],
)
def test_block_that_cannot_be(text: str, part: str) -> None:
    assert part in only_complaint(text)


def test_all_problems_are_told_at_once_with_their_places() -> None:
    text = (
        "jetstream { bucket {\n"
        '  url: "ftp://x"\n'
        "  commit: maybe\n"
        "  puts_in_flight: 99\n"
        '  history: "1s"\n'
        "  credentials { session_token: t }\n"
        "} }"
    )
    assert [line.split(":")[1] for line in complaints(text)] == ["2", "3", "4", "5", "6"]


def test_file_of_authorities_without_any(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    assert "holds no certificates that can be used" in only_complaint(
        f'{{ url: "s3://b", ca_file: "{path}" }}'
    )


def test_lag_without_effect_is_warned_of() -> None:
    options = load_options(text='jetstream { bucket { url: "s3://b", max_lag: "2s" } }')
    assert "max_lag has no effect" in options.warnings[0]
    assert not load_options(
        text='jetstream { bucket { url: "s3://b", commit: disk, max_lag: "2s" } }'
    ).warnings


# -- beside other keys


@pytest.mark.parametrize("sync", ["2m", "interval", "never"])
def test_bucket_says_itself_what_acknowledged_means(sync: str) -> None:
    (line,) = complaints(f'jetstream {{ bucket: "s3://b", sync_interval: "{sync}" }}')
    assert "sync_interval cannot stand beside bucket" in line
    assert "say always" in line


@pytest.mark.parametrize("sync", ["always", "group"])
def test_policy_that_agrees_with_the_bucket(sync: str) -> None:
    assert of_streams(': "s3://b"', f"sync_interval: {sync}") == BucketOptions("s3://b")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("store: MEMORY", "bucket needs a FILE store"),
        (f"{CHANNELS}, file {{ sync: never }}", "sync cannot stand beside bucket"),
        (f"{CHANNELS}, file {{ sync: false }}", "sync cannot stand beside bucket"),
        (f"{CHANNELS}, adopt: [orders]", "adopt cannot stand beside bucket"),
        (
            f"{CHANNELS}, partitioning: true, store_limits {{ channels {{ a {{ max_msgs: 1 }} }} }}",
            "partitioning cannot stand beside bucket",
        ),
    ],
)
def test_channels_beside_a_bucket(text: str, part: str) -> None:
    (line,) = complaints(f'jetstream {{}}\nstreaming {{ {text}, bucket: "s3://b" }}')
    assert part in line


def test_stream_in_a_bucket_is_no_channel() -> None:
    (line,) = complaints(f'jetstream {{ bucket: "s3://b" }}\nstreaming {{ {CHANNELS}, adopt: [orders] }}')
    assert "a stream that is in a bucket cannot be a channel, too" in line


# -- changes and secrets

SECRET = (
    'jetstream { bucket { url: "%s", puts_in_flight: %s, credentials '
    '{ access_key_id: ID, secret_access_key: "%s", session_token: TOKEN%s } } }'
)


def _options(url: str = "s3://b", puts: int = 4, secret: str = "SEC1") -> Options:
    return load_options(text=SECRET % (url, puts, secret, secret))


@pytest.mark.parametrize("text", ["jetstream {", "streaming { cluster_id: c, store: file, dir: d,"])
def test_change_of_the_budget_needs_no_restart(text: str) -> None:
    before, after = (
        load_options(text=f'{text} bucket {{ url: "s3://b", puts_per_second: {rate} }} }}') for rate in (5, 9)
    )
    (change,) = differences(before, after)
    assert (change.path.partition(".")[2], change.reload) == ("bucket.puts_per_second", "bucket")
    assert not change.needs_restart


def test_changes_need_a_restart_and_show_no_secret() -> None:
    changes = differences(_options(), _options("s3://c", 5, "SEC2"))
    assert [str(change) for change in changes] == [
        "jetstream.bucket.url: s3://b -> s3://c",
        "jetstream.bucket.puts_in_flight: 4 -> 5",
        "jetstream.bucket.credentials.secret_access_key: changed",
        "jetstream.bucket.credentials.session_token: changed",
    ]
    assert all(change.needs_restart for change in changes)
    (added,) = differences(load_options(text="jetstream {}"), _options())
    assert "s3://b" in str(added)
    assert "SEC1" not in str(added)
    assert "TOKEN" not in str(added)


def test_secrets_are_not_in_the_repr() -> None:
    options = _options()
    assert "SEC1" not in repr(options)
    assert "TOKEN" not in repr(options)
    assert "access_key_id='ID'" in repr(options.jetstream)
    every = BucketCredentials(account_key="SEC1", sas_key="SEC1", client_secret="SEC1")
    assert "SEC1" not in repr(every)
