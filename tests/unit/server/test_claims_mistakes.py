"""A mistake of ours in what serves requests about tokens: one log line, and an error to who asked."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.claims import ACCOUNT_KEY, account_token, user_token
from harness.operators import SYSTEM, SYSTEM_USER, configuration, signed
from harness.waiting import wait_until
from harness.wire import Wire
from headrace.conf.binding import load_options
from headrace.server.claims_service import ClaimsService
from headrace.server.resolver_directory import DirectoryResolver
from headrace.testing import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ERROR: Final = {"code": 500, "description": "internal error"}


def raising(*_arguments: object, **_more: object) -> Any:
    raise ZeroDivisionError("ours")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    file = tmp_path / "server.conf"
    resolver = f"{{ type: full, dir: '{tmp_path}/jwt', allow_delete: true, interval: '1h' }}"
    tokens = {ACCOUNT_KEY.public: account_token()}
    file.write_text(configuration(tokens, resolver=resolver))
    with Server(load_options(str(file), overrides={"host": "127.0.0.1", "port": -1})) as running:
        yield running


@pytest.fixture
def system(server: Server) -> Iterator[Wire]:
    with Wire(("127.0.0.1", server.port)) as wire:
        said = {
            "verbose": False,
            "jwt": user_token(SYSTEM, SYSTEM_USER),
            "sig": signed(SYSTEM_USER, wire.info["nonce"]),
        }
        wire.send(b"CONNECT " + json.dumps(said).encode() + b"\r\nSUB in 1\r\nPING\r\n")
        wire.take_through(b"PONG\r\n")
        yield wire


def ask(system: Wire, subject: str, payload: bytes = b"") -> bytes:
    system.send(b"PUB %b in %d\r\n%b\r\n" % (subject.encode(), len(payload), payload))
    return system.take_message()[1]


REQUESTS: Final = {
    "update": ("$SYS.REQ.CLAIMS.UPDATE", ClaimsService, "_update"),
    "update of one": (f"$SYS.REQ.ACCOUNT.{ACCOUNT_KEY.public}.CLAIMS.UPDATE", ClaimsService, "_update"),
    "update of older tools": (f"$SYS.ACCOUNT.{ACCOUNT_KEY.public}.CLAIMS.UPDATE", ClaimsService, "_update"),
    "list": ("$SYS.REQ.CLAIMS.LIST", ClaimsService, "_send"),
    "delete": ("$SYS.REQ.CLAIMS.DELETE", ClaimsService, "_answer"),
    "look up": (f"$SYS.REQ.ACCOUNT.{ACCOUNT_KEY.public}.CLAIMS.LOOKUP", DirectoryResolver, "fetch"),
    "pack": ("$SYS.REQ.CLAIMS.PACK", DirectoryResolver, "digest"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_request_is_answered_and_the_next_one_served(
    name: str, server: Server, system: Wire, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    subject, part, method = REQUESTS[name]
    caplog.set_level(logging.WARNING)
    with monkeypatch.context() as patch:
        patch.setattr(part, method, raising)
        answer = json.loads(ask(system, subject))

    assert answer["error"] == ERROR
    assert [each.getMessage().partition(":")[0] for each in caplog.records] == [
        f"ClaimsService internal error at {subject}"
    ]
    assert ACCOUNT_KEY.public in ask(system, "$SYS.REQ.CLAIMS.LIST").decode()


def test_comparison_with_others_that_fails_is_one_line_and_not_the_last(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    authorizer = server.server.authorizer
    assert authorizer is not None
    claims = authorizer._claims
    assert claims is not None
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryResolver, "digest", raising)
        server.call(claims._compare)
        wait_until(lambda: caplog.records, "a line")

    assert [each.getMessage().partition(":")[0] for each in caplog.records] == [
        "ClaimsService internal error at $SYS.REQ.CLAIMS.PACK"
    ]
