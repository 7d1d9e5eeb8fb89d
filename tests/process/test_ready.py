"""From the start to the ready line, and the files that tell others where the server is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Final

import pytest

from harness.certificates import Authority, tls_config
from harness.processes import BIN, HEADRACES, NATS_SERVER, Program, ServerProcess, limited
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINE: Final = re.compile(
    r"\[(\d+)\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[(INF|DBG|TRC|WRN|ERR|FTL)\] \S.*"
)


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_ready_server_has_said_so_in_lines_of_the_known_shape(
    serve: Callable[..., ServerProcess], program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(program=program)
    ready_after = server.ready_after

    with server.connect(b""):
        pass
    assert server.stop() == 0

    for line in server.lines:
        match = LINE.fullmatch(line.replace("[INF]   ", "[INF] "))
        assert match, line
        assert int(match.group(1)) == server.pid
    said = [re.sub(r"^.*?\[INF\] ", "", line) for line in server.lines]
    listening = f"Listening for client connections on 127.0.0.1:{server.port}"
    assert said.index(listening) < said.index("Server is ready")
    assert said[-3:] == ['Trapped "terminated" signal', "Initiating Shutdown...", "Server Exiting.."]
    with capsys.disabled():
        print(f" [{program}: ready {ready_after * 1000:.0f} ms after the start]", end="")
    assert ready_after < 2.0


def test_ready_lines_are_those_of_the_go_server(serve: Callable[..., ServerProcess]) -> None:
    """Test tools of other projects wait for these lines."""
    said = []
    for program in (HEADRACES[0], NATS_SERVER):
        server = serve("-m", "-1", program=program)
        text = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", server.log)
        said.append(re.findall(r"\[INF\] ((?:Starting http|Listening|Server is).*)", text))
    ours, theirs = said

    assert ours == theirs


def test_ipv6_address_is_shown_in_brackets(serve: Callable[..., ServerProcess]) -> None:
    try:
        server = serve(listen=("-a", "::1", "-p", "-1"))
    except AssertionError as error:
        if "assign requested address" in str(error) or "not supported" in str(error):
            pytest.skip("this machine has no IPv6 loopback")
        raise

    assert re.search(r"Listening for client connections on \[::1\]:\d+$", server.log, re.MULTILINE)


def test_free_ports_are_really_served(serve: Callable[..., ServerProcess]) -> None:
    first, second = serve("-m", "-1"), serve("-m", "-1")

    ports = {server.port for server in (first, second)}
    assert len(ports) == 2
    for server in (first, second):
        with server.connect() as wire:
            assert wire.info["port"] == server.port
        with urllib.request.urlopen(f"{server.monitor_url}/varz") as answer:
            varz = json.load(answer)
        assert varz["port"] == server.port
        assert re.match(r"2\.\d+\.\d+", varz["version"])


def test_ports_file_names_the_program_and_is_gone_after_the_exit(
    serve: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = serve("-m", "-1", "--ports_file_dir", str(tmp_path))
    file = tmp_path / f"headrace_{server.pid}.ports"

    wait_until(file.exists, "the ports file")
    assert json.loads(file.read_text()) == {"nats": [server.url], "monitoring": [server.monitor_url]}
    assert server.stop() == 0
    assert not file.exists()
    assert [path.name for path in tmp_path.glob("*.tmp")] == []


def test_ports_file_dir_of_the_configuration_is_used(
    serve: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = serve(config=f'ports_file_dir: "{tmp_path}"')
    file = tmp_path / f"headrace_{server.pid}.ports"

    wait_until(file.exists, "the ports file")
    assert json.loads(file.read_text()) == {"nats": [server.url]}


@pytest.mark.parametrize("has_tls", [False, True])
def test_ports_file_has_the_ports_of_other_servers_as_nats_server_has_them(
    tmp_path: Path, *, has_tls: bool
) -> None:
    """nats-server says nothing of leaf nodes; test tools that start a server look for them."""
    tls = tls_config(Authority(tmp_path, "authority").issue("server")) if has_tls else ""
    block = f'listen: "127.0.0.1:-1"\n{tls}'
    config = (
        f'ports_file_dir: "."\nhttp: "127.0.0.1:-1"\ncluster {{ name: c\n{block} }}\n'
        f"leafnodes {{ {block} }}\nwebsocket {{ {block} {'' if has_tls else 'no_tls: true'} }}\n"
    )
    found = []
    for program in (HEADRACES[0], NATS_SERVER):
        folder = tmp_path / program.name
        folder.mkdir()
        with ServerProcess(program, folder, config=config) as server:
            (file,) = wait_until(lambda f=folder: list(f.glob("*.ports")), "the ports file")
            text = wait_until(file.read_text, "its text")
            route = int(server.wait_for_line(r"route connections on \S+:(\d+)$")[1])
            ports = json.loads(text)
            assert ports["cluster"] == [f"{'tls' if has_tls else 'nats'}://127.0.0.1:{route}"]
            found.append({name: [re.sub(r"\d+$", "", url) for url in urls] for name, urls in ports.items()})
    ours, theirs = found
    assert ours.pop("leafnodes") == [f"{'tls' if has_tls else 'nats'}://127.0.0.1:"]
    assert ours == theirs


def test_ports_file_that_cannot_be_written_is_an_error_line_only(serve: Callable[..., ServerProcess]) -> None:
    server = serve("--ports_file_dir", "no/such/folder")

    server.wait_for_line(r"\[ERR\] Error writing ports file: .*no/such/folder")
    with server.connect(b""):
        pass
    assert server.stop() == 0


def test_pid_file_holds_the_process_that_was_started(
    serve: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = serve("-P", str(tmp_path / "server.pid"))

    assert (tmp_path / "server.pid").read_text() == str(server.process.pid)


def test_soft_limit_of_descriptors_is_raised_to_the_hard_one(serve: Callable[..., ServerProcess]) -> None:
    resource = pytest.importorskip("resource")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    server = serve(program=limited(HEADRACES[0], "-Sn 256"))

    assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (hard, hard)


# -- as a drop-in for nats-server


@pytest.fixture(params=["link", "script"])
def drop_in(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    """An executable called nats-server that leads to us."""
    path = tmp_path / "bin" / "nats-server"
    path.parent.mkdir()
    if request.param == "link":
        path.symlink_to(BIN / "headrace")
    else:
        code = "import sys\nfrom headrace.cli.main import main\nsys.exit(main())\n"
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(0o755)
    return Program("nats-server drop-in", (str(path),))


@pytest.mark.parametrize("flag", ["-v", "--version", "-version"])
def test_drop_in_shows_the_version_it_stands_for(drop_in: Program, flag: str) -> None:
    done = subprocess.run([*drop_in.command, flag], capture_output=True, text=True, check=True, timeout=30)

    assert done.stdout == "nats-server: v2.15.1\n"


def test_drop_in_takes_flags_without_a_command_and_names_its_ports_file(
    serve: Callable[..., ServerProcess], drop_in: Program, tmp_path: Path
) -> None:
    server = serve(f"--ports_file_dir={tmp_path}", "--debug", program=drop_in)

    wait_until((tmp_path / f"nats-server_{server.pid}.ports").exists, "the ports file")
    with server.connect(b""):
        server.wait_for_line(r"\[DBG\] .*Client connection created")
    assert server.stop() == 0


def test_relative_paths_of_a_configuration_are_relative_to_the_working_directory(
    serve: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    config = tmp_path / "elsewhere" / "a.conf"
    config.write_text('pid_file: "relative.pid"')

    server = serve("-c", str(config))

    assert (tmp_path / "relative.pid").read_text() == str(server.pid)
