"""What the log shows: the Go server's lines, no secret, and no line that a peer made up."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import pytest

from harness.processes import HEADRACES, NATS_SERVER, SIDES, Program
from harness.waiting import wait_until
from harness.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.processes import ServerProcess

USERS: Final = """
    authorization { users: [
      {user: joe, password: "SECRET-password", permissions: {publish: "ok.>", subscribe: "ok.>"}}
    ] }
    """
CONVERSATION: Final = (
    b"SUB ok.a 1\r\n",
    b"SUB ok.* workers 2\r\n",
    b"UNSUB 1 5\r\n",
    b"PUB ok.a 5\r\nhello\r\n",
    b"PUB ok.b answers 0\r\n\r\n",
    b"HPUB ok.a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    b"HPUB ok.a answers 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n",
    b'PUB ok.a 3\r\n\x00"\xff\r\n',
    b"PUB no.way 1\r\nx\r\n",
    b"PUB ok.a $JS.ACK.x 1\r\nx\r\n",
    b"SUB no.way 3\r\n",
    b"SUB no.way workers 4\r\n",
    b"UNSUB 2\r\n",
    b"PONG\r\n",
)

NOT_SHOWN: Final = (
    r"->> \[(OK|PONG|PING|-ERR .*)\]",
    r"->> MSG_PAYLOAD: .*",
    r"<-> \[DELSUB .*\]",
    r".*, SID \d+",
)
"""What only the Go server shows: control lines sent, payloads delivered, sids of refusals."""


def spoken(server: ServerProcess) -> list[str]:
    """What the log says about clients, without times, ports and client numbers."""
    lines = []
    for line in server.lines:
        match = re.search(r"\[(TRC|DBG|ERR)\] 127\.0\.0\.1:\d+ - cid:\d+ - (.*)", line)
        if match:
            lines.append(f"[{match.group(1)}] {match.group(2)}")
    return lines


def comparable(lines: list[str]) -> list[str]:
    kept = []
    for line in lines:
        said = re.sub(r"(, SID \d+)$", "", line)
        said = re.sub(r'(":|",) "', r'\1"', re.sub(r'": ', '":', said)) if "CONNECT" in said else said
        said = said.replace(", ", ",") if "CONNECT" in said else said
        if not any(re.search(pattern + "$", said) for pattern in NOT_SHOWN[:-1]):
            kept.append(said)
    return kept


def converse(server: ServerProcess) -> None:
    with server.connect() as wire:
        wire.connect(
            b'{"verbose":false,"pedantic":false,"headers":true,"name":"my \\"app\\"","lang":"py",'
            b'"version":"1.2.3","user":"joe","pass":"SECRET-password"}'
        )
        for data in CONVERSATION:
            wire.send(data)
            wire.sync()
    if "-DV" in server.process.args:  # type: ignore[operator]
        server.wait_for_line("Client connection closed")


@pytest.mark.clients
@pytest.mark.parametrize("setting", ["", "trace_headers: true", "max_traced_msg_len: 3"])
def test_debug_and_trace_lines_are_those_of_the_go_server(
    serve: Callable[..., ServerProcess], setting: str
) -> None:
    said = []
    for program in (HEADRACES[0], NATS_SERVER):
        server = serve("-DV", config=USERS + setting, program=program)
        converse(server)
        said.append(comparable(spoken(server)))
    ours, theirs = said

    assert ours == theirs


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_trace_shows_ops_in_and_messages_out(serve: Callable[..., ServerProcess], program: Program) -> None:
    server = serve("-V", config=USERS, program=program)
    converse(server)
    label = r'"v1\.2\.3:py:my \\"app\\"" - "\$G/user:joe" - '

    server.wait_for_line(label + r"<<- \[PUB ok\.a 5\]$")
    server.wait_for_line(label + r'<<- MSG_PAYLOAD: \["hello"\]$')
    server.wait_for_line(label + r"->> \[MSG ok\.a 1 5\]$")
    server.wait_for_line(label + r"->> \[HMSG ok\.a 1 12 14\]$")
    assert "[DBG]" not in server.log


def test_quiet_server_logs_errors_only(serve: Callable[..., ServerProcess]) -> None:
    server = serve(config=USERS)
    before = len(server.lines)
    with server.connect(b'{"verbose":false,"user":"joe","pass":"SECRET-password"}') as wire:
        wire.send(b"PUB ok.a 1\r\nx\r\nPUB no 1\r\nx\r\n")
        wire.sync()
        server.wait_for_line(r'\[ERR\] .* - "\$G/user:joe" - Publish Violation - Subject "no"$', after=before)

    assert len(server.lines) == before + 1


@pytest.mark.parametrize("limit", [3, 100])
def test_traced_payload_is_cut_at_the_limit(serve: Callable[..., ServerProcess], limit: int) -> None:
    server = serve("-V", config=f"max_traced_msg_len: {limit}\n")
    with server.connect(b"") as wire:
        wire.send(b"PUB a 5\r\nhello\r\n")
        wire.sync()

    shown = "hello" if limit > 5 else "hello"[:limit] + r"\.\.\."
    server.wait_for_line(r'MSG_PAYLOAD: \["' + shown + r'"\]$')


SECRETS: Final = (
    b'{"user":"SECRET-not-a-user","pass":"SECRET-pass"}',
    b'{"user":"joe","pass":"SECRET-wrong"}',
    b'{"auth_token":"SECRET-token"}',
    b'{"AUTH_TOKEN":"SECRET-token"}',
    b'{"Pass":"SECRET-pass"}',
    b'{"jwt":"SECRET-jwt","sig":"SECRET-sig"}',
    b'{"nkey":"SECRET-nkey","sig":"SECRET-sig","user":"joe"}',
    b'{"pass":"SECRET-pass","pass":"SECRET-again","PASS":"SECRET-thrice"}',
    b'{"pass":["SECRET-list"],"auth_token":{"a":"SECRET-object"}}',
    b'{"pass":"SECRET-cut',
    b'{"pass":SECRET-bare}',
    b'{"pass":"SECRET-ok","verbose":"SECRET-type"}',
    b'{"pass":"SECRET-proto","protocol":9}',
    b'{"jwt":"SECRET-jwt","pass":"SECRET-\\ud800"}',
    b'["SECRET-list"]',
    b'"SECRET-string"',
)


@pytest.mark.parametrize("config", [USERS, 'authorization { token: "SECRET-configured" }', ""])
def test_secrets_of_clients_and_configuration_never_reach_the_log(
    serve: Callable[..., ServerProcess], config: str
) -> None:
    server = serve("-DV", config=config)
    for connect in SECRETS:
        with server.connect() as wire:
            wire.send(b"CONNECT " + connect + b"\r\n")
            wire.half_close()
            wire.take_rest()
    with server.connect(
        b'{"verbose":false,"user":"joe","pass":"SECRET-password","auth_token":"SECRET-configured"}'
    ):
        pass
    assert server.stop() == 0

    # Names are shown on purpose: of users, and an nkey's public key.
    leaked = [line for line in server.lines if "SECRET" in re.sub(r"SECRET-(not-a-user|nkey)", "", line)]
    assert leaked == []


HOSTILE: Final = b"\r[1] 2026/01/01 00:00:00.000000 [INF] Server is ready\x1b[2J\x07\x00\x7f\xff\xe2\x80\xa8"


@pytest.mark.parametrize("program", HEADRACES, ids=str)
@pytest.mark.parametrize("to_file", [False, True])
def test_bytes_of_peers_cannot_make_lines_or_move_the_cursor(
    serve: Callable[..., ServerProcess], program: Program, to_file: bool, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    flags = ("-DV", "-l", str(log)) if to_file else ("-DV",)
    listen = ("-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(tmp_path))
    config = (
        'authorization { users: [{user: joe, password: pw, permissions: {publish: "ok", subscribe: "ok"}}] }'
    )
    server = serve(*flags, config=config, listen=listen, program=program, ready=False)
    port = free_port(tmp_path, server)
    word = HOSTILE.replace(b" ", b"_")
    scripts = (
        (
            b"PUB " + word + b" 1\r\nx\r\n",
            b"SUB " + word + b" " + word + b" 1\r\n",
            b"PUB ok " + word + b" 1\r\nx\r\n",
        ),
        (b"PUB ok %d\r\n%b\r\n" % (len(HOSTILE), HOSTILE),),
        (b"SUB " + word + b"\r\n",),
        (b"-ERR " + HOSTILE + b"\r\n",),
        (b"INFO {" + HOSTILE + b"\r\n",),
        (word + b"\r\n",),
        (b"PUB ok " + word + b"\r\n",),
        (b"CONNECT {" + HOSTILE + b"\r\n",),
    )
    name = rb"\r\n[1] 2026/01/01 00:00:00.000000 [INF] forged\u001b[2J\u2028\u0085\ud800"
    for script in scripts:
        with connected(port) as wire:
            wire.send(b'CONNECT {"user":"joe","pass":"pw","verbose":false,"name":"%b"}\r\n' % name)
            for data in script:
                wire.send(data)
            wire.half_close()
            wire.take_rest()
    with connected(port) as wire:
        wire.send(b'CONNECT {"user":"%b","pass":"pw"}\r\n' % name)
        wire.take_rest()
    assert server.stop() == 0

    raw = log.read_bytes() if to_file else "\n".join(server.lines).encode()
    text = raw.decode("utf-8")
    for line in text.split("\n"):
        assert not line or re.match(rf"\[{server.pid}\] \d{{4}}/", line), line
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f\u2028\u2029]", text)


def connected(port: int) -> Wire:
    return Wire(("127.0.0.1", port))


def free_port(folder: Path, server: ServerProcess) -> int:
    """The port from the ports file, since the log may be a file."""
    found = wait_until(lambda: list(folder.glob(f"*_{server.pid}.ports")), "the ports file")
    return int(json.loads(found[0].read_text())["nats"][0].rpartition(":")[2])


@pytest.mark.parametrize(("setting", "files"), [("", 11), ("log_max_num: 3", 3), ("log_max_num: 1", 2)])
def test_rotated_files_are_kept_as_many_as_asked_for(
    serve: Callable[..., ServerProcess], setting: str, files: int, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    server = serve(
        *("-V", "-l", str(log), "--ports_file_dir", str(tmp_path)),
        config=f"log_size_limit: 2000\n{setting}",
        ready=False,
    )
    with connected(free_port(tmp_path, server)) as wire:
        wire.connect()
        for number in range(40):
            wire.send(b"PUB a 900\r\n%b\r\n" % (b"%d" % (number % 10) * 900))
            wire.sync()

    assert len(list(tmp_path.glob("server.log*"))) == files


OWN, GROUP, PUBLIC = 0o600, 0o640, 0o666


@pytest.mark.parametrize("side", SIDES)
def test_others_may_not_read_what_the_server_writes(
    serve: Callable[..., ServerProcess], tmp_path: Path, side: str
) -> None:
    # A log with -V has payloads in it; only where the ports are is for everybody.
    program = SIDES[side]
    open_handed = Program(program.name, ("sh", "-c", 'umask 0; exec "$0" "$@"', *program.command))
    log = tmp_path / "server.log"
    server = serve(
        *("-V", "-l", str(log), "-P", str(tmp_path / "pid"), "--ports_file_dir", str(tmp_path)),
        *("-js", "-sd", str(tmp_path / "store")),
        program=open_handed,
        config="log_size_limit: 1500",
        ready=False,
    )
    with connected(free_port(tmp_path, server)) as wire:
        wire.connect(b'{"verbose":false,"headers":true}')
        body = b'{"name":"S"}'
        wire.send(b"SUB in 1\r\nPUB $JS.API.STREAM.CREATE.S in %d\r\n%b\r\n" % (len(body), body))
        assert b"created" in wire.take_message()[1]
        wire.send(b"PUB S 900\r\n%b\r\n" % (b"x" * 900) * 3)
        wire.sync()

    modes = {path: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.name != "server.conf"}
    store = tmp_path / "store"
    assert {modes[path] for path in modes if path.is_relative_to(store) and path.is_file()} == {OWN}
    assert {modes[path] for path in modes if path.is_relative_to(store) and path.is_dir()} == {0o700}
    logs = [path for path in modes if path.name.startswith("server.")]
    assert len(logs) > 1
    assert {modes[path] for path in logs} == {GROUP}
    assert modes[tmp_path / "pid"] == OWN
    assert {modes[path] & 0o444 for path in modes if path.suffix == ".ports"} == {PUBLIC & 0o444}
