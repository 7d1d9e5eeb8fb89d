"""NATS Streaming as a process: how it starts, fails, survives a kill, and stands in for the reference.

The client here speaks the protocol by hand: what is tested is the process, not a library.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

from harness.processes import BIN, STREAMING, Program
from process.streaming_client import READY, SERVE, Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.processes import ServerProcess

    Join = Callable[..., Client]
    Serve = Callable[..., ServerProcess]


@pytest.fixture
def join() -> Iterator[Join]:
    """Connects a `Client`; closed after the test."""
    clients: list[Client] = []

    def connect(server: ServerProcess, client_id: bytes, cluster: bytes = b"test-cluster") -> Client:
        clients.append(Client(server, client_id, cluster))
        return clients[-1]

    yield connect
    for client in clients:
        client.wire.close()


@pytest.fixture
def streaming(serve: Serve) -> Serve:
    """Starts `headrace streaming`."""
    return lambda *arguments, **options: serve(*arguments, **{"program": STREAMING, **options})


@pytest.fixture
def streaming_refused(refused: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Starts a `headrace streaming` that must not start; gives what it said."""
    return lambda *arguments, **options: refused(*arguments, **{"program": STREAMING, **options})


# -- the start


def test_ready_streaming_server_has_said_so_in_lines_of_the_known_shape(
    streaming: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    server = streaming("-cid", "mine")
    ready_after = server.ready_after

    server.wait_for_line(READY)
    said = [re.sub(r"^\[\d+\] \S+ \S+ \[INF\] ", "", line) for line in server.lines]
    assert "STREAM: Message store is MEMORY" in said
    assert any(line.startswith("STREAM: Starting nats-streaming-server[mine]") for line in said)
    assert server.stop() == 0
    with capsys.disabled():
        print(f" [ready {ready_after * 1000:.0f} ms after the start]", end="")
    assert ready_after < 2.0


def test_client_that_connects_at_once_is_answered(join: Join, streaming: Serve) -> None:
    server = streaming(ready=False)

    client = join(server, b"early")  # as soon as the port is known

    assert client.prefixes.error == b""
    assert client.publish(b"a", b"1") == b""


@pytest.mark.parametrize("how", ["flag", "section"])
def test_serve_runs_streaming_in_the_same_process(join: Join, serve: Serve, how: str) -> None:
    arguments = ("--streaming", "-cid", "mine") if how == "flag" else ()
    config = "streaming { cid: mine }" if how == "section" else None
    server = serve(*arguments, program=SERVE, config=config)

    assert server.wait_for_line(READY)
    assert join(server, b"me", b"mine").publish(b"a", b"1") == b""


def test_plain_server_answers_no_streaming_client(serve: Serve) -> None:
    server = serve(program=SERVE)

    with server.connect(b"") as wire:
        wire.send(b"SUB x 1\r\nPUB _STAN.discover.test-cluster x 0\r\n\r\n")
        assert wire.sync() == b""
    assert "STREAM" not in server.log


def test_limits_of_the_configuration_hold(join: Join, streaming: Serve) -> None:
    config = "streaming { store_limits { max_channels: 2, channels { 'a.*' { max_msgs: 2 } } } }"
    server = streaming(config=config)
    client = join(server, b"me")

    assert [client.publish(b"a.b", b"%d" % number) for number in range(4)] == [b""] * 4
    assert client.read(b"a.b", 2) == [(3, b"2"), (4, b"3")]
    assert client.publish(b"c", b"") == b""
    assert client.publish(b"d", b"") == b"too many channels"


def test_monitoring_shows_the_service(streaming: Serve) -> None:
    server = streaming("-m", "-1", "-cid", "mine")

    with urllib.request.urlopen(f"{server.monitor_url}/streaming/serverz") as answer:
        shown = json.load(answer)
    assert (shown["cluster_id"], shown["state"]) == ("mine", "STANDALONE")


def test_tuning_without_effect_is_named_in_the_log(streaming: Serve) -> None:
    server = streaming("--file_buffer_size", "1MB", config="streaming { file_options { fds_limit: 10 } }")

    assert server.log.count("[WRN]") == 2
    server.wait_for_line(r"\[WRN\] --file_buffer_size has no effect: ")
    server.wait_for_line(r"\[WRN\] \S*server\.conf:1:\d+: fds_limit has no effect: ")


def test_reload_that_changes_streaming_is_refused_by_name(join: Join, streaming: Serve) -> None:
    import signal

    server = streaming(config="streaming { cid: one }")
    server.config_file.write_text("streaming { cid: two }")

    server.signal(signal.SIGHUP)

    server.wait_for_line(r"\[ERR\] .*reload not supported for streaming\.cluster_id: old=one, new=two$")
    assert join(server, b"me", b"one").publish(b"a", b"") == b""


def test_debug_lines_of_streaming_follow_its_own_flags(join: Join, streaming: Serve) -> None:
    server = streaming("-SDV")
    join(server, b"me").publish(b"a", b"1")

    server.wait_for_line(r"\[(DBG|TRC)\] STREAM: ")
    assert not [line for line in server.lines if "[DBG]" in line and "STREAM" not in line]


# -- the store


def test_acknowledged_messages_survive_a_kill(join: Join, streaming: Serve, tmp_path: Path) -> None:
    arguments = ("-st", "FILE", "--dir", str(tmp_path / "store"))
    server = streaming(*arguments)
    client = join(server, b"me")
    sent = [b"body %d" % number for number in range(50)]
    assert [client.publish(b"a", data) for data in sent] == [b""] * 50
    server.kill()

    again = streaming(*arguments)

    other = join(again, b"other")
    assert other.read(b"a", 50) == list(enumerate(sent, 1))
    assert other.publish(b"a", b"more") == b""
    again.wait_for_line(r"STREAM: Recovered 1 channel\(s\)")
    again.wait_for_line(r"STREAM: Recovered 1 client\(s\)")


def test_store_of_another_cluster_is_refused(
    streaming: Serve, streaming_refused: Callable[..., list[str]], tmp_path: Path
) -> None:
    arguments = ("-st", "FILE", "--dir", str(tmp_path / "store"))
    assert streaming(*arguments, "-cid", "one").stop() == 0

    lines = streaming_refused(*arguments, "-cid", "two")

    assert "[FTL]" in lines[-1]
    assert 'cluster ID "two" does not match recovered value of "one"' in lines[-1]


def test_store_that_another_server_uses_is_refused(
    join: Join, streaming: Serve, streaming_refused: Callable[..., list[str]], tmp_path: Path
) -> None:
    arguments = ("-st", "FILE", "--dir", str(tmp_path / "store"))
    first = streaming(*arguments)

    lines = streaming_refused(*arguments)

    assert re.search(r"\[FTL\] STREAM: Failed to start: another process has .*store open", lines[-1])
    assert join(first, b"me").publish(b"a", b"") == b""


def test_directory_that_cannot_be_made_is_one_clear_line(
    streaming_refused: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    lines = streaming_refused("-st", "FILE", "--dir", str(tmp_path / "file" / "store"))

    assert re.search(r"\[FTL\] STREAM: Failed to start: .*file/store", lines[-1])


@pytest.mark.parametrize("given", ["file", "file/store"])
def test_directory_that_is_a_file_is_told_in_the_usual_words(
    streaming_refused: Callable[..., list[str]], tmp_path: Path, given: str
) -> None:
    (tmp_path / "file").write_text("")

    line = streaming_refused("-st", "FILE", "--dir", given)[-1]

    assert line.partition("[FTL] ")[2] == (
        f"STREAM: Failed to start: unable to create the root directory [{given}]: mkdir file: not a directory"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-st", "FILE"), "for FILE stores, root directory must be specified"),
        (("--clustered",), "--clustered needs a bucket that all servers have"),
        (("-hbi", "soon"), 'invalid value "soon" for flag -hbi'),
    ],
)
def test_start_that_fails_is_one_line(
    streaming_refused: Callable[..., list[str]], arguments: tuple[str, ...], complaint: str
) -> None:
    (line,) = streaming_refused(*arguments)

    assert line.startswith("headrace: ")
    assert complaint in line


def test_commands_look_at_the_store_of_a_stopped_server(join: Join, streaming: Serve, tmp_path: Path) -> None:
    server = streaming("-st", "FILE", "--dir", str(tmp_path / "store"))
    client = join(server, b"me")
    assert client.publish(b"a.b", b"1") == b""
    command = [*STREAMING.command, "channels", "--dir", str(tmp_path / "store")]
    running = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert server.stop() == 0
    stopped = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)

    assert (running.returncode, stopped.returncode) == (1, 0)
    assert "stop the server first" in running.stderr
    assert re.search(r"^a\.b +1 ", stopped.stdout, re.MULTILINE)


# -- as a drop-in for nats-streaming-server


@pytest.fixture(params=["link", "script", "shell"])
def drop_in(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    """An executable called nats-streaming-server that leads to us."""
    path = tmp_path / "bin" / "nats-streaming-server"
    path.parent.mkdir()
    if request.param == "link":
        path.symlink_to(BIN / "headrace")
    elif request.param == "script":
        code = "import sys\nfrom headrace.cli.main import main\nsys.exit(main())\n"
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(0o755)
    else:
        path.write_text(f'#!{shutil.which("sh")}\nexec "{BIN / "headrace"}" streaming "$@"\n')
        path.chmod(0o755)
    return Program("nats-streaming-server drop-in", (str(path),))


def test_drop_in_takes_the_flags_that_test_tools_give(serve: Serve, drop_in: Program, tmp_path: Path) -> None:
    """Those of the process contract, in all their spellings."""
    log = tmp_path / "log"
    flags = (
        "-cluster_id",
        "tools",
        "-st",
        "FILE",
        "--dir",
        "store",
        "-hbi",
        "500ms",
        "-hbt=250ms",
        "-hbf",
        "3",
    )
    server = serve(*flags, "-SDV", "-DV", "-P", "pid", "-l", str(log), program=drop_in, ready=False)

    from harness.waiting import wait_until

    wait_until(lambda: log.exists() and "Streaming Server is ready" in log.read_text(), "the ready line")
    assert (tmp_path / "pid").read_text() == str(server.pid)
    assert (tmp_path / "store").is_dir()
    assert server.stop() == 0
