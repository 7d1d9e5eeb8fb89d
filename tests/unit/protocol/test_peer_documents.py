"""INFO and CONNECT of servers: what is read, what is refused, what is written."""

from __future__ import annotations

import pytest

from headrace.errors import ProtocolError
from headrace.protocol.peers import PeerConnect, PeerInfo, PeerPermission

# As nats-server 2.15.1 begins a connection.
GO_INFO = (
    b'{"server_id":"NBC4","server_name":"real","version":"2.15.1","proto":3,"go":"go1.25.3","host":"0.0.0.0",'
    b'"port":6222,"headers":true,"max_payload":1048576,"nonce":"K2s","cluster":"C1","domain":"hub",'
    b'"connect_urls":["127.0.0.1:35179"],"compression":"accept","import":{"allow":["a.>"],"deny":["a.b"]},'
    b'"export":{},"lnoc":true,"lnocu":true,"ln":true,"route_pool_size":3,"gateway_nrp":true}'
)


def test_an_info_of_the_go_server() -> None:
    info = PeerInfo.read(GO_INFO)
    assert (info.server_id, info.server_name, info.proto, info.port) == ("NBC4", "real", 3, 6222)
    assert (info.connect_urls, info.route_pool_size, info.lnoc, info.lnocu) == (
        ("127.0.0.1:35179",),
        3,
        True,
        True,
    )
    assert info.imports == PeerPermission(("a.>",), ("a.b",))
    assert info.exports == PeerPermission()


def test_what_is_written_is_read_again() -> None:
    given: dict[str, object] = {}
    for name, kind in PeerInfo.__annotations__.items():
        examples: dict[str, object] = {
            "str": f"<{name}>",
            "int": 7,
            "bool": True,
            "tuple[str, ...]": ("a", "ü"),
        }
        examples["bytes"] = "$Gü".encode()
        given[name] = examples.get(kind, PeerPermission(("a",), ("b",)))
    info = PeerInfo(**given)  # type: ignore[arg-type]
    line = info.line()
    assert line.startswith(b"INFO {")
    assert line.endswith(b"}\r\n")
    assert line.count(b"\r") == line.count(b"\n") == 1
    assert PeerInfo.read(line[5:-2]) == info


def test_fields_that_say_nothing_are_left_out() -> None:
    assert PeerInfo(server_id="N", proto=3).line() == (
        b'INFO {"server_id":"N","server_name":"","version":"","proto":3,"go":"","host":"","port":0,'
        b'"headers":false,"max_payload":0}\r\n'
    )
    assert PeerConnect(name="N").line() == (
        b'CONNECT {"echo":false,"verbose":false,"pedantic":false,"tls_required":false,"headers":false,'
        b'"name":"N","cluster":""}\r\n'
    )


def test_a_connect_has_what_is_needed_and_shows_no_secret() -> None:
    connect = PeerConnect(user="u", password="hunter2", name="N", cluster="C", lnoc=True)
    assert PeerConnect.read(connect.line()[8:-2]) == connect
    assert b'"user":"u","pass":"hunter2"' in connect.line()
    assert "hunter2" not in repr(connect)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x",
        b"[]",
        b"1",
        b'"a"',
        b'{"port":"1"}',
        b'{"port":1.0}',
        b'{"port":true}',
        b'{"port":9223372036854775808}',
        b'{"headers":1}',
        b'{"server_id":7}',
        b'{"connect_urls":"a"}',
        b'{"connect_urls":[1]}',
        b'{"connect_urls":{}}',
        b'{"import":[]}',
        b'{"import":{"allow":"a"}}',
        b'{"gossip_mode":NaN}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_info(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        PeerInfo.read(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"{}", PeerInfo()),
        (b"null", PeerInfo()),
        (b'{"port":null,"new":{"deep":[1]}}', PeerInfo()),
        (b'{"PORT":1,"Server_ID":"N"}', PeerInfo(port=1, server_id="N")),
        (b'{"port":1,"port":2}', PeerInfo(port=2)),
        (b'{"server_name":"\xff"}', PeerInfo(server_name="\ufffd")),
        (b'{"import":{"ALLOW":["a"],"deny":null,"other":1}}', PeerInfo(imports=PeerPermission(("a",)))),
    ],
)
def test_what_is_read_all_the_same(text: bytes, expected: PeerInfo) -> None:
    assert PeerInfo.read(text) == expected
