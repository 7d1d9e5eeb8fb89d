"""The flags of `headrace streaming`, and how the program comes to run it."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Final

import pytest

import headrace
from headrace.cli import streaming
from headrace.cli.arguments import UsageError
from headrace.cli.flags import groups, help_text, read_invocation
from headrace.cli.main import main
from headrace.cli.streaming import run
from headrace.cli.streaming_flags import CONFIG_FILE, DEBUG_AND_TRACE, GROUPS, PREFIX
from headrace.conf.streaming_options import NATSServerOptions, StoreLimits, StreamingOptions
from headrace.conf.streaming_rules import FOREIGN
from headrace.protocol.info import COMPATIBLE_VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.conf.options import Options

REFERENCE: Final = re.findall(
    r"\w+",
    """
    cluster_id cid store st dir max_channels mc max_subs msu max_msgs mm max_bytes mb max_age ma
    max_inactivity mi nats_server ns stan_config sc hb_interval hbi hb_timeout hbt hb_fail_count hbf
    ft_group signal sl encrypt encryption_cipher encryption_key replace_durable clustered
    cluster_node_id cluster_bootstrap cluster_peers cluster_log_path cluster_log_cache_size
    cluster_log_snapshots cluster_trailing_logs cluster_sync cluster_raft_logging
    cluster_allow_add_remove_node cluster_proceed_on_restore_failure
    file_compact_enabled file_compact_frag file_compact_interval
    file_compact_min_size file_buffer_size file_crc file_crc_poly file_sync file_slice_max_msgs
    file_slice_max_bytes file_slice_max_age file_slice_archive_script file_fds_limit
    file_parallel_recovery file_truncate_bad_eof file_read_buffer_size file_auto_sync sql_driver
    sql_source sql_no_caching sql_max_open_conns sql_bulk_insert_limit secure tls_client_key
    tls_client_cert tls_client_cacert stan_debug SD stan_trace SV SDV syslog_name a addr p port P pid m
    http_port ms https_port c config l log T logtime s syslog r remote_syslog D debug V trace DV user
    pass auth tls tlscert tlskey tlsverify tlscacert routes cluster cluster_listen h help v version
    help_tls
    """,
)
"""Flags of nats-streaming-server 0.25.6 (streaming specification, section 10)."""


class FakeApp(ModuleType):
    """Stands for `headrace.app`: remembers the options instead of serving."""

    def __init__(self) -> None:
        super().__init__("headrace.app")
        self.options: Options | None = None

    @property
    def streaming(self) -> StreamingOptions:
        assert self.options is not None
        assert self.options.streaming is not None
        return self.options.streaming

    def run(self, options: Options) -> int:
        self.options = options
        return 7


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeApp:
    fake = FakeApp()
    monkeypatch.setitem(sys.modules, "headrace.app", fake)
    monkeypatch.setattr(headrace, "app", fake, raising=False)
    monkeypatch.delenv("NATS_STREAMING_ENCRYPTION_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    return fake


def test_flags_are_those_of_the_reference_server() -> None:
    names = [name for _, flags in groups(streaming=True) for flag in flags for name in flag.names]

    assert set(REFERENCE) - set(names) == set()
    assert sorted(set(names)) == sorted(names)


def test_every_flag_sets_something_that_exists() -> None:
    fields = {*StreamingOptions.__slots__, *StoreLimits.__slots__}
    fields |= {"nats_server_url", *NATSServerOptions.__slots__}
    known = {PREFIX + name for name in fields | {*FOREIGN, "encrypt", DEBUG_AND_TRACE}}

    assert {flag.target for _, flags in GROUPS for flag in flags} - known == {CONFIG_FILE}


@pytest.mark.parametrize(
    ("arguments", "option", "value"),
    [
        *((f"{flag} x", "cluster_id", "x") for flag in ("-cid", "--cid", "-cluster_id", "--cluster_id")),
        ("--cluster_id=x", "cluster_id", "x"),
        ("-st memory", "store_type", "MEMORY"),
        ("--store FILE -dir d", "store_type", "FILE"),
        ("-st FILE --dir=d", "directory", "d"),
        ("-hbi 1h30m", "hb_interval", 5400.0),
        ("--hb_interval 250ms", "hb_interval", 0.25),
        ("-hbt 2s", "hb_timeout", 2.0),
        ("-hbf 3", "hb_fail_count", 3),
        ("--hb_fail_count=0", "hb_fail_count", 0),
        ("--replace_durable", "replace_durable", True),
        ("-SD", "stan_debug", True),
        ("--stan_trace", "stan_trace", True),
        ("-SDV", "stan_debug", True),
        ("-SDV", "stan_trace", True),
        ("-SDV=false", "stan_trace", False),
        ("--file_sync", "sync", "group"),
        ("--file_sync=false", "sync", "interval"),
        ("--file_sync=false --file_auto_sync 0s", "sync", "never"),
        ("--sync never", "sync", "never"),
        ("--file_sync=false --sync group", "sync", "group"),
        ("--file_auto_sync 5s", "sync_interval", 5.0),
        ("--file_slice_max_bytes 1MB", "segment_bytes", 1 << 20),
        ("-st FILE -dir d --encrypt --encryption_key k", "encryption_cipher", "AES"),
        ("-cid a -cid b", "cluster_id", "b"),
    ],
)
def test_flag_sets_its_option(arguments: str, option: str, value: object, app: FakeApp) -> None:
    assert run(arguments.split()) == 7
    assert getattr(app.streaming, option) == value


@pytest.mark.parametrize(
    ("arguments", "limit", "value"),
    [
        ("-mc 5", "max_channels", 5),
        ("--max_channels=0", "max_channels", 0),
        ("-msu 5", "max_subscriptions", 5),
        ("--max_subs 5", "max_subscriptions", 5),
        ("-mm 5", "max_msgs", 5),
        ("-mb 10KB", "max_bytes", 10240),
        ("--max_bytes 1GB", "max_bytes", 1 << 30),
        ("-mb 1000", "max_bytes", 1000),
        ("-mb 0", "max_bytes", 0),
        ("-ma 1m", "max_age", 60.0),
        ("--max_inactivity 0", "max_inactivity", 0.0),
    ],
)
def test_flag_sets_its_limit(arguments: str, limit: str, value: object, app: FakeApp) -> None:
    assert run(arguments.split()) == 7
    assert getattr(app.streaming.limits, limit) == value


def test_flags_of_the_server_are_taken_besides(app: FakeApp) -> None:
    assert run(["-p", "-1", "-a", "127.0.0.1", "-m", "8222", "-D", "-P", "f", "-cid", "x"]) == 7
    assert app.options is not None
    options = app.options
    assert (options.port, options.host, options.http_port, options.debug) == (-1, "127.0.0.1", 8222, True)
    assert (options.pid_file, app.streaming.cluster_id) == ("f", "x")


def test_without_flags_streaming_runs_with_its_defaults(app: FakeApp) -> None:
    assert run([]) == 7
    assert app.streaming == StreamingOptions()


# -- files


@pytest.mark.parametrize("flag", ["-c", "-config", "-sc", "--stan_config"])
def test_one_file_is_for_server_and_streaming(flag: str, app: FakeApp, tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_text("port: 5\nstreaming { cid: x, hbf: 3 }")

    assert run([flag, "x.conf", "-hbf", "4"]) == 7

    assert app.options is not None
    assert (app.options.port, app.streaming.cluster_id, app.streaming.hb_fail_count) == (5, "x", 4)


def test_two_files_are_one_for_each(app: FakeApp, tmp_path: Path) -> None:
    (tmp_path / "server.conf").write_text("port: 5")
    (tmp_path / "own.conf").write_text("cid: x")

    assert run(["-c", "server.conf", "-sc", "own.conf"]) == 7

    assert app.options is not None
    assert (app.options.port, app.options.config_file, app.streaming.cluster_id) == (5, "server.conf", "x")


def test_keys_may_stand_at_the_top_level_for_the_streaming_command(app: FakeApp, tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_text("port: 5\ncid: x")

    assert run(["-c", "x.conf"]) == 7

    assert app.options is not None
    assert (app.options.port, app.streaming.cluster_id) == (5, "x")


# -- in the server


def test_serve_runs_streaming_when_told_so_and_takes_its_flags(app: FakeApp) -> None:
    assert main(["headrace", "serve", "-cid", "x", "--streaming", "-p", "-1"]) == 7
    assert app.streaming.cluster_id == "x"


def test_serve_runs_streaming_when_the_file_has_a_section(app: FakeApp, tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_text("streaming { cid: x }")

    assert main(["headrace", "serve", "-c", "x.conf"]) == 7
    assert app.streaming.cluster_id == "x"


def test_serve_can_be_told_not_to(app: FakeApp, tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_text("streaming { cid: x }")

    assert main(["headrace", "serve", "--streaming=false", "-c", "x.conf"]) == 7
    assert app.options is not None
    assert app.options.streaming is None


def test_serve_without_it_knows_none_of_its_flags(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headrace", "serve", "-mc", "5"]) == 1
    assert capsys.readouterr().err.startswith("headrace: flag provided but not defined: -mc")
    assert main(["headrace", "serve", "--streaming=false", "-mc", "5"]) == 1
    assert capsys.readouterr().err == "headrace: flags of streaming need --streaming\n"
    assert app.options is None


def test_serve_loads_no_table_of_streaming() -> None:
    import subprocess

    code = (
        "import sys; from headrace.cli.flags import read_invocation; read_invocation(['-p', '1']);"
        "print([name for name in sys.modules if 'streaming' in name])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert shown.stdout == "[]\n"


# -- as a drop-in


@pytest.mark.parametrize("arguments", [["-cid", "x"], ["streaming", "-cid", "x"]])
def test_program_called_nats_streaming_server_runs_it(arguments: list[str], app: FakeApp) -> None:
    assert main(["/opt/bin/nats-streaming-server", *arguments]) == 7
    assert app.streaming.cluster_id == "x"


def test_drop_in_has_no_commands(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nats-streaming-server", "channels"]) == 1
    assert capsys.readouterr().err == 'nats-streaming-server: unrecognized command: "channels"\n'


def test_drop_in_shows_the_version_it_stands_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nats-streaming-server", "-v"]) == 0
    shown = capsys.readouterr().out
    assert shown == f"nats-streaming-server version 0.25.6, nats-server: v{COMPATIBLE_VERSION}\n"


def test_drop_in_shows_help_without_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nats-streaming-server", "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Usage: nats-streaming-server [options]\n")
    assert "Commands" not in shown


# -- help and mistakes


def test_help_names_every_flag_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headrace", "streaming", "-h"]) == 0
    shown = capsys.readouterr().out

    assert shown.startswith("Usage: headrace streaming [options]\n")
    assert help_text("headrace streaming", streaming=True) in shown
    for name in REFERENCE:
        assert re.search(rf"(^|\s)--?{name}\b", shown), name
    assert all(f"\n  {name} " in shown for name in streaming.COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("-hbi 5x", "invalid value \"5x\" for flag -hbi: unknown unit 'x'"),
        ("-hbi 5", 'invalid value "5" for flag -hbi: its unit is missing (ms, s, m, h)'),
        ("-mb lots", 'invalid value "lots" for flag -mb: a size is expected, such as 1024, 10KB or 1GB'),
        ("-mb 1.5GB", 'invalid value "1.5GB" for flag -mb: a size is expected, such as 1024, 10KB or 1GB'),
        ("-mb=", 'invalid value "" for flag -mb: a size is expected, such as 1024, 10KB or 1GB'),
        ("-mb true", 'invalid value "true" for flag -mb: a size is expected, such as 1024, 10KB or 1GB'),
        ("-mc many", 'invalid value "many" for flag -mc: a whole number is expected'),
        ("-mm 9223372036854775808", "-mm does not fit into 64 bits"),
        ("-mm -1", "-mm cannot be negative"),
        ("--max_msgs -1", "--max_msgs cannot be negative"),
        ("-st FILE", "for FILE stores, root directory must be specified (--dir, or dir in the file)"),
        ("-st tape", 'store type "TAPE" is unknown: MEMORY and FILE are there'),
        ("-cid a.*", 'invalid -cid "a.*": only alphanumeric and `-` or `_` are allowed'),
        ("--sync often", '--sync cannot be "often": group, interval, never are known'),
        ("-ns nats://h:1 --tls_client_key k", "--tls_client_key needs client_cert beside it"),
        (
            "--clustered",
            '--clustered needs a bucket that all servers have: set bucket: "s3://name/prefix" in streaming',
        ),
        (
            "--clustered --cluster_node_id a --cluster_peers b,c --cluster_bootstrap --cluster_log_path p",
            '--clustered needs a bucket that all servers have: set bucket: "s3://name/prefix" in streaming',
        ),
        ("--ft_group g", "fault tolerance needs a FILE store that its servers share"),
        ("--sql_driver mysql", "--sql_driver is not supported by this version"),
        (
            "--file_slice_archive_script f",
            "--file_slice_archive_script is not supported by this version: messages would be removed without"
            " having been archived",
        ),
        ("--routes nats://h:1", "solicited routes require cluster capabilities, e.g. --cluster"),
        ("--nosuch", "flag provided but not defined: -nosuch"),
        ("-cid", "flag needs an argument: -cid"),
    ],
)
def test_wrong_use_gives_one_line_and_exit_code_1(
    arguments: str, line: str, app: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments.split()) == 1
    captured = capsys.readouterr()
    assert captured.err == f"headrace: {line}\n"
    assert captured.out == ""
    assert app.options is None


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            "--clustered=false",
            "-ns=",
            "--ft_group=",
            "--sql_no_caching=false",
            "--cluster_log_cache_size 512",
            "--cluster_node_id a",
            "--cluster_sync",
        ),
        *("--file_crc", "--file_truncate_bad_eof", "--file_parallel_recovery 1", "-secure=false"),
    ],
)
def test_flag_that_asks_for_nothing_is_accepted(arguments: str, app: FakeApp) -> None:
    assert run(arguments.split()) == 7
    assert app.options is not None
    assert app.options.warnings == ()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("--file_compact_enabled=false", "--file_compact_enabled"),
        ("--file_compact_min_size 1MB", "--file_compact_min_size"),
        ("--file_buffer_size 2MB", "--file_buffer_size"),
        ("--file_crc=false", "--file_crc"),
        ("--file_slice_max_msgs 5", "--file_slice_max_msgs"),
        ("--file_slice_max_age 5s", "--file_slice_max_age"),
        ("--secure", "--secure"),
        ("--tls_client_cert f", "--tls_client_cert"),
        ("--io_batch_size 10", "--io_batch_size"),
        ("--cluster_bootstrap", "--cluster_bootstrap"),
        ("--cluster_peers b,c", "--cluster_peers"),
        ("--cluster_log_path p", "--cluster_log_path"),
        ("--cluster_log_cache_size 5", "--cluster_log_cache_size"),
        ("--cluster_log_snapshots 5", "--cluster_log_snapshots"),
        ("--cluster_trailing_logs 5", "--cluster_trailing_logs"),
        ("--cluster_raft_logging", "--cluster_raft_logging"),
        ("--cluster_allow_add_remove_node", "--cluster_allow_add_remove_node"),
        ("--cluster_proceed_on_restore_failure", "--cluster_proceed_on_restore_failure"),
    ],
)
def test_flag_without_counterpart_is_named_in_one_warning(arguments: str, name: str, app: FakeApp) -> None:
    assert run(arguments.split()) == 7
    assert app.options is not None
    (warning,) = app.options.warnings
    assert warning.startswith(f"{name} has no effect: ")


def test_signal_is_sent_instead_of_serving(app: FakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr("headrace.cli.signals.send_signal", sent.append)
    assert run(["-sl", "reopen=123"]) == 0
    assert sent == ["reopen=123"]
    assert app.options is None


def test_value_that_looks_like_the_switch_is_a_value() -> None:
    invocation = read_invocation(["--pass", "--streaming"])

    assert invocation.streaming is None
    assert invocation.overrides == {"password": "--streaming"}
    with pytest.raises(UsageError, match="need --streaming"):
        read_invocation(["--pass", "--streaming", "-cid", "x"])
