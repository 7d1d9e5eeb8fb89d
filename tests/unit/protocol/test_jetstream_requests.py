"""Bodies of requests: what they come to, and what the Go server 2.15.1 says of those that are wrong."""

from __future__ import annotations

import json
import time

import pytest

from headrace.protocol.jetstream import configs, requests
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.numbers import has_long_number
from headrace.protocol.jetstream.requests import (
    ConsumerRequest,
    MessageGetRequest,
    PauseRequest,
    PurgeRequest,
    StreamConfigRequest,
    UnpinRequest,
    decode,
    decode_lenient,
    decode_stream,
    is_empty,
    is_object_or_array,
)


def refusal(kind: type, body: bytes, *, strict: bool = True) -> str:
    with pytest.raises(ApiError) as caught:
        decode(kind, body, strict=strict)
    assert caught.value.err_code == 10025
    return caught.value.description.removeprefix("invalid JSON: ")


_INTO = "into Go struct field StreamConfigRequest."


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "unexpected EOF"),
        (b"[1,2", "unexpected EOF"),
        (b'{"x":1}', 'json: unknown field "x"'),
        (b'{"xx\\u0041\\n<":1}', 'json: unknown field "xxA\\n<"'),
        (b'{"placement":{"bad":1}}', 'json: unknown field "bad"'),
        (b'{"a":1}{"b"', 'json: unknown field "a"'),
        (b'{"name":1}', f"json: cannot unmarshal number {_INTO}name of type string"),
        (b'{"NAME":1}', f"json: cannot unmarshal number {_INTO}NAME of type string"),
        (b'{"max_msgs":1.5}', f"json: cannot unmarshal number 1.5 {_INTO}max_msgs of type int64"),
        (b'{"max_msgs":1e3}', f"json: cannot unmarshal number 1e3 {_INTO}max_msgs of type int64"),
        (b'{"first_seq":-1}', f"json: cannot unmarshal number -1 {_INTO}first_seq of type uint64"),
        (
            b'{"first_seq":18446744073709551616}',
            f"json: cannot unmarshal number 18446744073709551616 {_INTO}first_seq of type uint64",
        ),
        (b'{"max_age":"1s"}', f"json: cannot unmarshal string {_INTO}max_age of type time.Duration"),
        (
            b'{"max_msg_size":99999999999}',
            f"json: cannot unmarshal number 99999999999 {_INTO}max_msg_size of type int32",
        ),
        (b'{"no_ack":1}', f"json: cannot unmarshal number {_INTO}no_ack of type bool"),
        (b'{"placement":[]}', f"json: cannot unmarshal array {_INTO}placement of type server.Placement"),
        (b'{"sources":{}}', f"json: cannot unmarshal object {_INTO}sources of type []*server.StreamSource"),
        (
            b'{"sources":[1]}',
            "json: cannot unmarshal number into StreamConfigRequest.sources.0 of type server.StreamSource",
        ),
        (
            b'{"metadata":{"a/~.b":1}}',
            f"json: cannot unmarshal number {_INTO}metadata.a~1~0.b of type string",
        ),
        (b'{"metadata":[]}', f"json: cannot unmarshal array {_INTO}metadata of type map[string]string"),
        (
            b'{"mirror":{"subject_transforms":[{"src":1}]}}',
            f"json: cannot unmarshal number {_INTO}mirror.subject_transforms.0.src of type string",
        ),
        (b"[]", "json: cannot unmarshal array into Go value of type server.StreamConfigRequest"),
        (b"5", "json: cannot unmarshal number into Go value of type server.StreamConfigRequest"),
        (b'{"retention":"Limits"}', 'can not unmarshal "\\"Limits\\""'),
        (b'{"retention":null}', 'can not unmarshal "null"'),
        (b'{"persist_mode":{"a": 1}}', 'can not unmarshal "{\\"a\\": 1}"'),
        (b'{"compression":1}', "json: cannot unmarshal number into Go value of type string"),
        (b'{"compression":"x"}', "unknown compression algorithm"),
        (b'{"name":1,"retention":"x"}', f"json: cannot unmarshal number {_INTO}name of type string"),
        (b'{"name":"A"} x', "invalid character 'x' looking for beginning of value at offset 14"),
        (b'{"name":"A",}', "invalid character '}' looking for beginning of object key string at offset 13"),
        (b"{'name'}", "invalid character '\\'' looking for beginning of object key string at offset 2"),
        (b'{"name" "A"}', "invalid character '\"' after object key at offset 9"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair at offset 8"),
        (b"[1 2]", "invalid character '2' after array element at offset 4"),
        (b'{"name":"\x01"}', "invalid character '\\x01' in string at offset 10"),
        (b'{"name":"\\x"}', "invalid escape sequence `\\x` in string at offset 11"),
        (b'{"name":"\\u12g"}', 'invalid escape sequence `\\u12g"` in string at offset 15'),
        (b'{"max_msgs":-}', "invalid character '}' in numeric literal at offset 14"),
        (b'{"max_msgs":01}', "invalid character '1' after object key:value pair at offset 14"),
        (b'{"max_msgs":tru}', "invalid character '}' in literal true (expecting 'e') at offset 16"),
        ("é".encode(), "invalid character 'é' looking for beginning of value at offset 2"),
        (b"\xff", "invalid character '\\xff' looking for beginning of value at offset 1"),
        (b"[" * 10_002, "exceeded max depth at offset 10001"),
    ],
)
def test_wrong_body_is_refused_in_the_go_servers_words(body: bytes, text: str) -> None:
    assert refusal(StreamConfigRequest, body) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"action":"x"}', 'unknown consumer action: "x"'),
        (b'{"config":{"priority_policy":null}}', "unknown priority policy: null"),
        (
            b'{"config":{"backoff":["1s"]}}',
            "json: cannot unmarshal string into CreateConsumerRequest.config.backoff.0 of type time.Duration",
        ),
        (
            b'{"config":{"opt_start_time":5}}',
            "json: cannot unmarshal number into Go struct field"
            " CreateConsumerRequest.config.opt_start_time of type time.Time",
        ),
        (
            b'{"config":{"opt_start_time":"2020-13-01T00:00:00Z"}}',
            'parsing time "2020-13-01T00:00:00Z": month out of range',
        ),
    ],
)
def test_wrong_request_for_a_consumer(body: bytes, text: str) -> None:
    assert refusal(ConsumerRequest, body) == text


def test_empty_bodies_have_defaults() -> None:
    for body in (b"", b"  \n", b"null", b"{}"):
        assert decode(PurgeRequest, body) == PurgeRequest()


def test_null_is_the_zero_value_and_leaves_what_was_said() -> None:
    body = b'{"name":null,"subjects":null,"placement":null,"max_msgs":3,"max_msgs":null,"metadata":null}'

    config, pedantic = decode_stream(body)

    assert config == configs.StreamConfig(max_msgs=3)
    assert not pedantic


def test_names_in_another_case_and_other_spellings_are_understood() -> None:
    config, pedantic = decode_stream(b'{"Name":"A","DISCARD":"NEW","persist_mode":"","Pedantic":true}')

    assert (config.name, config.discard, config.persist_mode) == ("A", "new", "default")
    assert pedantic


def test_several_values_one_after_the_other_count_as_the_last() -> None:
    assert decode(PurgeRequest, b'{"keep":1} {"seq":2}').seq == 2


def test_text_that_is_no_unicode_is_mended() -> None:
    config, _ = decode_stream(b'{"description":"a\xffb\\ud800c\\ud83d\\ude00"}')

    assert config.description == "a�b�c\U0001f600"


def test_large_numbers_within_their_type_are_taken() -> None:
    assert decode(PurgeRequest, b'{"seq":18446744073709551615}').seq == (1 << 64) - 1


def test_times_are_kept_as_the_go_server_writes_them() -> None:
    asked = decode(MessageGetRequest, b'{"start_time":"2026-01-02T3:04:05,500+00:00"}')

    assert asked.start_time == "2026-01-02T03:04:05.5Z"
    assert decode(PauseRequest, b"{}").pause_until == "0001-01-01T00:00:00Z"


def test_lenient_reading_passes_over_unknown_fields_only() -> None:
    assert decode(PurgeRequest, b'{"x":1,"keep":4}', strict=False).keep == 4
    assert refusal(PurgeRequest, b"{", strict=False) == "unexpected end of JSON input"
    text = "invalid character 'x' after top-level value"
    assert refusal(PurgeRequest, b"{} x", strict=False) == text


def test_some_requests_are_always_read_leniently_and_need_a_body() -> None:
    assert decode_lenient(UnpinRequest, b'{"x":1,"group":"g"}').group == "g"
    with pytest.raises(ApiError, match="unexpected end of JSON input"):
        decode_lenient(UnpinRequest, b"")


@pytest.mark.parametrize(
    ("body", "looked_at", "empty"),
    [
        (b"", False, True),
        (b"{}", True, True),
        (b" { }", True, True),
        (b"[]", True, False),
        (b"5", False, False),
        (b'{"a":1}', True, False),
        (b"{", True, False),
        (b"\xff", False, False),
    ],
)
def test_optional_bodies(body: bytes, *, looked_at: bool, empty: bool) -> None:
    assert is_object_or_array(body) == looked_at
    assert is_empty(body) == empty


def test_every_request_has_defaults_for_everything_and_a_name() -> None:
    kinds = [kind for kind in vars(requests).values() if isinstance(kind, type) and hasattr(kind, "go_name")]

    assert len(kinds) > 15
    for kind in kinds:
        assert kind() == decode(kind, b"{}")


def test_times_and_large_numbers_are_looked_at_wherever_they_stand() -> None:
    body = b'{"name":"A","sources":[{"name":"B"},{"name":"C","opt_start_time":"2026-01-02T3:04:05.50Z"}]}'

    config, _ = decode_stream(body)

    assert config.sources[1].opt_start_time == "2026-01-02T03:04:05.5Z"
    text = 'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"'
    assert refusal(StreamConfigRequest, b'{"mirror":{"opt_start_time":"soon"}}') == text
    text = refusal(StreamConfigRequest, b'{"mirror":{"opt_start_seq":99999999999999999999}}')
    assert text.endswith(f"{_INTO}mirror.opt_start_seq of type uint64")


@pytest.mark.parametrize(
    "body",
    [
        b'{"subjects":[' + b"1," * 500_000 + b"1]}",
        b'{"subjects":["' + b'a","' * 200_000 + b'a"]}x',
        b"{}" * 500_000,
        b"[" * 1_000_000,
        b'{"name":"' + b"\xff" * 1_000_000 + b'"}',
        b'{"first_seq":' + b"1" * 1_000_000 + b"}",
        b'{"name":"' + b"\\n" * 500_000 + b'\x01"}',
    ],
)
def test_large_wrong_body_is_refused_at_once(body: bytes) -> None:
    began = time.process_time()
    for strict in (True, False):
        assert refusal(StreamConfigRequest, body, strict=strict)
    assert time.process_time() - began < 1
    with pytest.raises(ApiError, match="too large"):
        decode_lenient(UnpinRequest, body)


@pytest.mark.parametrize("before", range(20))
def test_number_of_19_digits_is_found_wherever_it_stands(before: int) -> None:
    space = b" " * before

    assert has_long_number(space + b"1" * 19)
    assert has_long_number(space + b"1" * 20 + space)
    assert not has_long_number(space + b"1" * 18 + b" 1")
    assert not has_long_number(space + b"1 23" * 50)


def test_large_right_body_is_taken() -> None:
    subjects = [f"s.{number}" for number in range(20_000)]
    body = (
        b'{"subjects":'
        + json.dumps(subjects).encode()
        + b',"mirror":{"opt_start_time":"2026-01-02T03:04:05.0Z"}}'
    )

    config, _ = decode_stream(body)

    assert config.subjects == subjects
    assert config.mirror is not None
    assert config.mirror.opt_start_time == "2026-01-02T03:04:05Z"
