"""Starts that fail: one clear line, exit code 1, never a traceback."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.certificates import Authority

    Refused = Callable[..., list[str]]


@pytest.fixture
def taken() -> Iterator[str]:
    """A port that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield str(sock.getsockname()[1])


def fatal(lines: list[str]) -> str:
    """The one [FTL] line, which is the last."""
    assert [bool(re.search(r"\[FTL\]", line)) for line in lines].count(True) == 1
    assert "[FTL]" in lines[-1]
    return lines[-1].partition("[FTL] ")[2]


def only(lines: list[str]) -> str:
    """The one line that was said."""
    assert len(lines) == 1, lines
    assert lines[0].startswith("headrace: ")
    return lines[0].removeprefix("headrace: ")


def test_client_port_in_use(refused: Refused, taken: str) -> None:
    line = fatal(refused(listen=("-a", "127.0.0.1", "-p", taken)))

    address = f"127.0.0.1:{taken}"
    assert line == (
        f'Error listening on port: {address}, "listen tcp {address}: bind: address already in use"'
    )


def test_monitor_port_in_use(refused: Refused, taken: str) -> None:
    line = fatal(refused("-m", taken))

    assert f"127.0.0.1:{taken}: bind: address already in use" in line


def test_address_of_another_machine(refused: Refused) -> None:
    line = fatal(refused(listen=("-a", "203.0.113.7", "-p", "-1")))

    assert line.endswith('203.0.113.7:0: bind: cannot assign requested address"')


def test_pid_file_that_cannot_be_written(refused: Refused) -> None:
    line = fatal(refused("-P", "no/such/folder/pid"))

    assert "no/such/folder/pid" in line


def test_log_file_that_cannot_be_opened(refused: Refused) -> None:
    line = only(refused("-l", "no/such/folder/log"))

    assert "no/such/folder/log" in line


def test_configuration_file_that_is_not_there(refused: Refused) -> None:
    assert only(refused("-c", "no-such.conf")) == "open no-such.conf: no such file or directory"


def test_broken_configuration_names_every_problem_with_its_place(refused: Refused) -> None:
    lines = refused(config="prot: 4222\nmax_payload: many\nauthorization {\n  usr: joe\n}\n")

    assert [re.sub(r"^headrace: \S*server\.conf:", "", line).split(" ")[0] for line in lines] == [
        "1:1:",
        "2:14:",
        "4:3:",
    ]
    assert 'did you mean "port"?' in lines[0]


def test_configuration_that_is_never_closed(refused: Refused) -> None:
    line = only(refused(config="authorization {"))
    assert re.search(r"^Parse error: \S*server\.conf:1:15: '\{' is never closed$", line)


def test_configuration_of_what_is_not_there_yet(refused: Refused) -> None:
    line = only(refused(config="write_timeout: retry\n"))

    assert line.endswith(
        'server.conf:1:1: field "write_timeout" is not supported by this version of Headrace yet'
    )


@pytest.mark.parametrize("flag", ["--profile=1"])
def test_flag_for_what_is_not_there_yet(refused: Refused, flag: str) -> None:
    assert only(refused(flag)).endswith("is not supported by this version yet")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--nosuchflag",), "flag provided but not defined: -nosuchflag"),
        (("-p", "x"), 'invalid value "x" for flag -p'),
        (("-p",), "flag needs an argument: -p"),
        (("-p", "65536"), "port must lie between -1 and 65535"),
        (("start",), 'unrecognized command: "start"'),
    ],
)
def test_wrong_flag(refused: Refused, arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in only(refused(*arguments, listen=()))


def test_certificate_that_is_not_there(refused: Refused) -> None:
    line = only(refused(config='tls { cert_file: "no.pem", key_file: "no.key" }'))

    assert "no.pem" in line


def test_certificate_that_is_none(refused: Refused, authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "junk.pem").write_text("junk")
    pair = authority.issue("server")

    line = only(refused(config=f'tls {{ cert_file: "junk.pem", key_file: "{pair.key}" }}'))

    assert "junk.pem" in line


def test_key_of_another_certificate(refused: Refused, authority: Authority) -> None:
    pair, other = authority.issue("server"), authority.issue("other")

    line = only(refused(config=f'tls {{ cert_file: "{pair.certificate}", key_file: "{other.key}" }}'))

    assert str(pair.certificate) in line
    assert str(other.key) in line


def test_certificate_authority_that_is_not_there(refused: Refused, authority: Authority) -> None:
    pair = authority.issue("server")
    flags = (f"--tlscert={pair.certificate}", f"--tlskey={pair.key}", "--tlscacert=no-ca.pem", "--tlsverify")

    lines = refused(*flags)

    assert "no-ca.pem" in lines[-1]


@pytest.mark.parametrize("value", ["-1", "many", "1.5", "1001", ""])
def test_busy_poll_that_is_no_number_in_range(refused: Refused, value: str) -> None:
    lines = refused(environment={"HEADRACE_BUSY_POLL_US": value, "HEADRACE_TRANSPORT": "epoll"})

    assert fatal(lines) == (
        f"HEADRACE_BUSY_POLL_US must be a number from 0 to 1000 microseconds, not {value!r}"
    )


def test_transport_that_does_not_exist(refused: Refused) -> None:
    lines = refused(environment={"HEADRACE_TRANSPORT": "carrier-pigeon"})

    assert fatal(lines) == "HEADRACE_TRANSPORT must be epoll or asyncio, not 'carrier-pigeon'"
