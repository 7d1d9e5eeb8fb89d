from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StringType

from headrace.client.address import Credentials
from headrace.spark.errors import OptionError
from headrace.spark.option_connection import Connecting
from headrace.spark.option_places import Edge, Moment
from headrace.spark.options import OPTIONS, SourceOptions, for_executors, read_options
from headrace.spark.values import ValueFormat

if TYPE_CHECKING:
    from pathlib import Path


def test_read_options_subject_only_gives_defaults() -> None:
    assert read_options({"subject": "a.>"}) == SourceOptions(subjects=("a.>",))


def test_read_options_names_in_any_case_give_values() -> None:
    options = read_options(
        {
            "SUBJECT": " a , b.*,a",
            "maxoffsetspertrigger": "10",
            "MinPartitions": "3",
            "failOnDataLoss": "False",
            "spoolMaxBytes": "1.5 MiB",
            "connectTimeout": "250ms",
            "captureDuration": "2m",
            "url": "nats://h:1",
            "queue": "q",
            "user": "u",
            "password": "p",
        }
    )
    assert options.subjects == ("a", "b.*")
    assert options.max_offsets_per_trigger == 10
    assert options.min_partitions == 3
    assert options.fail_on_data_loss is False
    assert options.spool_max_bytes == 3 << 19
    assert options.connect_timeout == 0.25
    assert options.capture_duration == 120
    assert options.connecting.credentials == Credentials("u", "p")
    assert (options.url, options.queue) == ("nats://h:1", "q")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "option stream is missing"),
        ({"subject": " "}, "option stream is missing"),
        ({"subject": "a..b"}, "option subject: 'a..b'"),
        ({"subject": "a b"}, "option subject: 'a b'"),
        ({"subject": "a.>,a.b"}, "'a.>' and 'a.b' overlap"),
        ({"subjcet": "a"}, "option subjcet .*did you mean subject"),
        ({"subject": "a", "zzz": "1"}, "option zzz .*options are subject, channel"),
        ({"subject": "a", "channel": "b"}, "subject and channel exclude each other"),
        ({"channel": "a..b"}, "option channel: 'a..b' is not the name of a channel"),
        ({"channel": "a,"}, "option channel: '' is not the name of a channel"),
        (
            {"subject": "a", "startingOffsets": "earliest"},
            "startingOffsets goes with option channel or stream",
        ),
        ({"subject": "a", "endingOffsets": "latest"}, "endingOffsets goes with option channel"),
        ({"subject": "a", "clusterId": "c"}, "clusterId goes with option channel"),
        (
            {"stream": "a", "clusterId": "c"},
            "clusterId goes with option channel or path, not",
        ),
        ({"channel": "a", "filterSubjects": "c"}, "filterSubjects goes with option stream"),
        ({"channel": "a", "stream": "b"}, "channel and stream exclude each other"),
        ({"stream": "a.b"}, "option stream: 'a.b' is not the name of a stream"),
        ({"stream": "a,"}, "option stream: '' is not the name of a stream"),
        ({"stream": "a", "filterSubjects": "x.*,x.y"}, "option filterSubjects: .* overlap"),
        ({"stream": "a", "filterSubjects": "x..y"}, "option filterSubjects: 'x..y'"),
        ({"stream": "a", "filterSubject": "x"}, "did you mean filterSubjects"),
        ({"stream": "a", "startingTimestamp": "yesterday"}, "startingTimestamp: 'yesterday' is neither"),
        ({"stream": "a", "startingTimestamp": "1", "startingOffsets": "latest"}, "exclude each other"),
        ({"stream": "a", "startingOffsetsByTimestamp": '{"b": 1}'}, "must name what is read"),
        ({"stream": "a", "startingOffsetsByTimestamp": "1"}, "is not JSON such as"),
        ({"stream": "a", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is more than"),
        ({"stream": "a", "jetStreamDomain": "d", "jetStreamApiPrefix": "p"}, "exclude each other"),
        ({"stream": "a", "jetStreamDomain": "d.>"}, "is not a subject"),
        ({"stream": "a", "credsFile": "/x", "token": "t"}, "token and credsFile exclude"),
        ({"stream": "a", "credsFile": "/does/not/exist"}, "option credsFile: cannot read"),
        ({"stream": "a", "context": "../x"}, "option context: .* is not the name"),
        ({"stream": "a", "valueFormat": "xml"}, "option valueFormat: 'xml'"),
        ({"stream": "a", "valueFormat": "json"}, "valueSchema and option valueFormat json need each"),
        ({"stream": "a", "valueMode": "failfast"}, "valueMode needs option valueFormat"),
        ({"stream": "a", "includeHeaders": "no"}, "option includeHeaders"),
        ({"subject": "a", "reconnectTimeout": "1s"}, "reconnectTimeout goes with option channel"),
        ({"channel": "a", "queue": "q"}, "queue goes with option subject"),
        ({"channel": "a", "spoolDir": "/x"}, "spoolDir goes with option subject"),
        ({"channel": "a", "captureDuration": "1s"}, "captureDuration goes with option subject"),
        ({"channel": "a", "reconnectTimeout": "soon"}, "option reconnectTimeout"),
        ({"channel": "a", "startingOffsets": "first"}, "option startingOffsets: 'first' is not earliest"),
        ({"channel": "a", "startingOffsets": "[1]"}, "option startingOffsets"),
        ({"channel": "a,b", "startingOffsets": '{"a": 1}'}, r"must name what is read \(a, b\), it names a"),
        ({"channel": "a", "startingOffsets": '{"a": 0}'}, "0 for a is not a sequence"),
        ({"channel": "a", "startingOffsets": '{"a": true}'}, "True for a is not a sequence"),
        ({"channel": "a", "startingOffsets": '{"a": 1.5}'}, "1.5 for a is not a sequence"),
        ({"channel": "a", "startingOffsets": '{"a": 9223372036854775808}'}, "is not a sequence"),
        ({"channel": "a", "endingOffsets": "earliest"}, "endingOffsets: earliest would read nothing"),
        ({"subject": "a", "queue": "x y"}, "option queue"),
        ({"subject": "a", "url": "http://h"}, "option url"),
        ({"subject": "a", "maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger"),
        ({"subject": "a", "minPartitions": "x"}, "option minPartitions"),
        ({"subject": "a", "failOnDataLoss": "maybe"}, "option failOnDataLoss"),
        ({"subject": "a", "spoolMaxBytes": "0"}, "option spoolMaxBytes"),
        ({"subject": "a", "spoolMaxBytes": "9 pounds"}, "option spoolMaxBytes"),
        ({"subject": "a", "connectTimeout": "soon"}, "option connectTimeout"),
        ({"subject": "a", "user": "u"}, "option user needs option password"),
        ({"subject": "a", "password": "p"}, "option password needs option user"),
        ({"subject": "a", "user": "u", "password": "p", "token": "t"}, "user and token exclude"),
        ({"subject": "a", "token": "t", "tokenFile": "/x"}, "token and tokenFile exclude"),
        ({"subject": "a", "tokenFile": "/does/not/exist"}, "option tokenFile"),
        ({"subject": "a", "tlsCertFile": "/x"}, "tlsCertFile and tlsKeyFile"),
    ],
)
def test_read_options_wrong_value_names_the_option(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        read_options(given)


def test_read_options_channels_give_values() -> None:
    options = read_options(
        {
            "CHANNEL": " a , b.c,a",
            "clusterId": "mine",
            "startingOffsets": '{"a": 17, "b.c": -2}',
            "endingOffsets": "Latest",
            "reconnectTimeout": "2m",
        }
    )
    assert (options.channels, options.subjects, options.cluster_id) == (("a", "b.c"), (), "mine")
    assert options.starting == {"a": 17, "b.c": Edge.EARLIEST}
    assert options.ending is Edge.LATEST
    assert options.reconnect_timeout == 120
    assert read_options({"channel": "a"}) == SourceOptions(channels=("a",))


def test_read_options_wildcards_choose_channels_and_streams() -> None:
    assert read_options({"channel": "a.*, b.>"}).channels == ("a.*", "b.>")
    assert read_options({"stream": "ORD*,PRICES"}).streams == ("ORD*", "PRICES")
    for name in ("a.>.b", "a..b", "*.b."):
        with pytest.raises(OptionError, match="is not the name of a channel"):
            read_options({"channel": name})
    for name in ("a.b", "a>", "a?", "[a]*"):
        with pytest.raises(OptionError, match="is not the name of a stream"):
            read_options({"stream": name})
    for kind, name in (("channel", "a.*"), ("stream", "A*")):
        with pytest.raises(OptionError, match="JSON needs names, not wildcards"):
            read_options({kind: name, "startingOffsets": json.dumps({name: 5})})
        assert read_options({kind: name, "startingOffsets": "earliest"}).starting is Edge.EARLIEST


def test_options_for_executors_carry_what_the_drivers_environment_adds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NATS_URL", "nats://far:1")
    monkeypatch.setenv("NATS_USER", "u")
    monkeypatch.setenv("NATS_PASSWORD", "p")
    carried = for_executors(read_options({"channel": "a"}))
    assert (carried.url, carried.connecting.credentials) == ("nats://far:1", Credentials("u", "p"))
    own = for_executors(read_options({"channel": "a", "url": "nats://me:mine@near:1", "token": "t"}))
    assert (own.url, own.connecting.credentials) == ("nats://me:mine@near:1", Credentials(token="t"))
    in_url = for_executors(read_options({"channel": "a", "url": "nats://me:mine@near:1"}))
    assert in_url.connecting.credentials == Credentials()


def test_read_options_secret_files_give_their_text(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    assert read_options({"subject": "a", "tokenFile": str(secret)}).connecting.credentials == Credentials(
        token="s3cret"
    )
    options = read_options({"subject": "a", "user": "u", "passwordFile": str(secret)})
    assert options.connecting.credentials == Credentials("u", "s3cret")
    assert "s3cret" not in repr(options)


def test_connect_options_missing_certificate_names_the_option() -> None:
    options = read_options({"subject": "a", "tlsCaFile": "/does/not/exist"})
    with pytest.raises(OptionError, match="tlsCaFile"):
        options.connect_options()


def test_option_table_has_each_name_once() -> None:
    names = [option.name.lower() for option in OPTIONS]
    assert len(names) == len(set(names))


def test_read_options_streams_give_values() -> None:
    options = read_options(
        {
            "stream": "A, B,A",
            "filterSubjects": "x.*,y.>",
            "jetStreamDomain": "hub",
            "startingTimestamp": "1795251196253",
            "endingOffsetsByTimestamp": '{"A": 5, "B": "2026-11-21T08:00:00Z"}',
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "1m",
            "maxBytesPerTrigger": "1MiB",
            "includeHeaders": "false",
            "valueFormat": "String",
            "valueMode": "FAILFAST",
            "inboxPrefix": "_INBOX.joe",
        }
    )
    assert (options.streams, options.stored_names, options.filters) == (
        ("A", "B"),
        ("A", "B"),
        ("x.*", "y.>"),
    )
    assert options.jetstream_api == "$JS.hub.API"
    assert options.starting == Moment(1795251196253_000_000)
    assert options.ending == {"A": Moment(5_000_000), "B": Moment(1795248000_000_000_000)}
    assert (options.min_offsets_per_trigger, options.max_trigger_delay) == (10, 60)
    assert options.max_bytes_per_trigger == 1 << 20
    assert options.include_headers is False
    assert options.value_format == ValueFormat("string", StringType(), "failfast")
    assert options.connect_options().inbox_prefix == "_INBOX.joe"
    assert read_options({"stream": "A", "jetStreamApiPrefix": "far.API."}).jetstream_api == "far.API"


def test_read_options_context_gives_what_options_do_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    fields = {"url": "nats://far:1", "user": "u", "password": "p", "jetstream_domain": "hub"}
    (folder / "far.json").write_text(json.dumps(fields))
    options = read_options({"stream": "A", "context": "far"})
    assert options.connecting == Connecting(
        "nats://far:1", Credentials("u", "p"), jetstream_api="$JS.hub.API"
    )
    own = read_options({"stream": "A", "context": "far", "url": "nats://near:1", "token": "t"})
    assert (own.url, own.connecting.credentials) == ("nats://near:1", Credentials(token="t"))


def test_options_for_executors_read_credentials_file_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_CREDS", str(tmp_path / "none.creds"))
    with pytest.raises(OptionError, match=r"NATS_CREDS: cannot read .*none\.creds"):
        for_executors(read_options({"stream": "a"}))


def test_option_table_each_row_goes_with_a_selection() -> None:
    for option in OPTIONS:
        assert option.of
        assert set(option.of) <= {"subject", "channel", "stream", "path"}
