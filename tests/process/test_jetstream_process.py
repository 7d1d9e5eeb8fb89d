"""JetStream as a process: flags, directories, log lines, restarts, accounts that come and go."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from harness.claims import ACCOUNT_KEY, ACCOUNT_LIMITS, USER_KEY, account_token, user_token
from harness.operators import configuration, enter, enter_system, request
from harness.processes import HEADRACES, NATS_SERVER, Program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.processes import ServerProcess
    from harness.wire import Wire

    Serve = Callable[..., ServerProcess]
    Refused = Callable[..., list[str]]

OPTIONS = b'{"verbose":false,"headers":true,"no_responders":true%b}'
NOT_ENABLED = {"code": 503, "err_code": 10039, "description": "JetStream not enabled for account"}


def client(server: ServerProcess, user: str = "") -> Wire:
    login = f',"user":"{user}","pass":"p"'.encode() if user else b""
    return server.connect(OPTIONS % login)


def ask(wire: Wire, subject: str, asked: object = None) -> Any:
    body = b"" if asked is None else json.dumps(asked).encode()
    payload = request(wire, subject, body)
    return json.loads(payload) if payload else None


def said(server: ServerProcess) -> list[str]:
    return [re.sub(r"^.*?\[(INF|WRN|ERR|FTL)\] ", "", line) for line in server.lines]


@pytest.mark.parametrize("program", HEADRACES, ids=str)
def test_flags_start_it_and_what_was_stored_is_there_after_a_restart(
    serve: Serve, program: Program, tmp_path: Path
) -> None:
    flags = ("-js", "-sd", "store")
    server = serve(*flags, program=program)
    assert server.ready_after < 2.0
    with client(server) as wire:
        assert wire.info["jetstream"] is True
        assert ask(wire, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})["did_create"] is True
        assert ask(wire, "s.one", "hello") == {"stream": "S", "seq": 1}
    assert server.stop() == 0
    assert (tmp_path / "store" / "jetstream").is_dir()
    lines = said(server)
    assert lines[-3:] == ["Initiating JetStream Shutdown...", "JetStream Shutdown", "Server Exiting.."]

    again = serve(*flags, program=program)
    assert "  Restored 1 messages for stream '$G > S'" in said(again)
    with client(again) as wire:
        assert ask(wire, "s.one", "hello") == {"stream": "S", "seq": 2}


def test_killed_server_keeps_what_it_acknowledged(serve: Serve) -> None:
    server = serve("-js", "-sd", "store")
    with client(server) as wire:
        ask(wire, "$JS.API.STREAM.CREATE.S", {"name": "S"})
        for number in range(1, 6):
            assert ask(wire, "S", number)["seq"] == number
        server.kill()
    with client(serve("-js", "-sd", "store")) as wire:
        assert ask(wire, "$JS.API.STREAM.INFO.S")["state"]["messages"] == 5


def test_lines_of_the_start_are_those_of_the_go_server(serve: Serve, tmp_path: Path) -> None:
    """But for its banner, and how long it took."""
    lines = []
    for program in (HEADRACES[0], NATS_SERVER):
        config = (
            f'jetstream {{ store_dir: "{tmp_path}/{program}", max_mem: 3MB, max_file: 2GB, domain: hub }}'
        )
        found = said(serve(program=program, config=config))
        start = found.index("Starting JetStream")
        kept = [
            line.replace(str(program), "P")
            for line in found[start:]
            if re.match(r"(Starting J|----|  \w)", line)
        ]
        lines.append(kept)
    assert lines[0] == lines[1]
    assert len(lines[0]) > 6


def test_without_a_directory_it_warns_and_takes_a_temporary_one(serve: Serve, tmp_path: Path) -> None:
    server = serve("--jetstream", environment={"TMPDIR": str(tmp_path)})
    assert "Temporary storage directory used, data could be lost on system reboot" in said(server)
    assert f'  Store Directory: "{tmp_path}/nats/jetstream"' in said(server)


def test_directory_is_one_servers_only(serve: Serve, refused: Refused) -> None:
    serve("-js", "-sd", "store")
    lines = refused("-js", "-sd", "store")
    assert re.search(r"\[FTL\] Can't start JetStream: another process has store/jetstream open$", lines[-1])


def test_directory_that_is_a_file(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "jetstream").write_text("")
    for given in ("file", "store"):
        line = refused("-js", "-sd", given)[-1]
        assert line.endswith("[FTL] Can't start JetStream: storage directory is not a directory")


def test_store_is_encrypted_with_the_key(serve: Serve, refused: Refused, tmp_path: Path) -> None:
    config = 'jetstream { store_dir: "store", key: "%s" }'
    server = serve(config=config % "right")
    with client(server) as wire:
        ask(wire, "$JS.API.STREAM.CREATE.S", {"name": "S"})
        ask(wire, "S", "a secret that nobody reads")
    assert server.stop() == 0
    stored = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert b"nobody reads" not in stored
    with client(serve(config=config % "right")) as wire:
        message = ask(wire, "$JS.API.STREAM.MSG.GET.S", {"seq": 1})["message"]
        assert message["seq"] == 1


KEYED = 'jetstream { store_dir: "store", %s }'
DONE = "  All that is stored is encrypted with the key and cipher of the configuration now"


def fill(wire: Wire) -> None:
    """Streams, one compressed, and a consumer that has acknowledged the first of two messages."""
    for name, more in (("S", {}), ("P", {"compression": "s2"})):
        ask(wire, f"$JS.API.STREAM.CREATE.{name}", {"name": name, **more})
    for number in range(30):
        assert ask(wire, "P", f"secret {number}" * 1000)["seq"] == number + 1
    for _ in range(3):
        ask(wire, "S", "secret")
    ask(wire, "$JS.API.CONSUMER.DURABLE.CREATE.S.C", {
        "stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 3 * 10**11}
    })  # fmt: skip
    wire.send(b'SUB got 8\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C got 11\r\n{"batch":2}\r\n')
    first, _ = wire.take_message()
    wire.take_message()
    wire.send(b"PUB %b 4\r\n+ACK\r\n" % first[3])


def described(wire: Wire) -> object:
    """All that there is, as the API tells it."""
    consumer = ask(wire, "$JS.API.CONSUMER.INFO.S.C")
    return (
        [ask(wire, f"$JS.API.STREAM.INFO.{name}")["state"] for name in "SP"],
        [ask(wire, f"$JS.API.STREAM.MSG.GET.{n}", {"seq": s})["message"] for n, s in (("S", 3), ("P", 29))],
        consumer["ack_floor"]["stream_seq"],
        {name: consumer[name] for name in ("num_ack_pending", "num_pending", "created")},
    )


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("closed", "lock")
    }


def test_a_store_is_converted_to_another_key(serve: Serve, refused: Refused, tmp_path: Path) -> None:
    """From none to one, to another cipher, to another key; lines about streams are nats-server's."""
    server = serve(config=KEYED % "")
    with client(server) as wire:
        fill(wire)
        there = described(wire)
    assert server.stop() == 0
    steps = [
        ("key: one, cipher: aes", "  Encrypting stream '$G > %s'"),
        ("key: one", "  Converting to ChaCha20-Poly1305 for stream '$G > %s'"),
        ("key: two, prev_key: one, cipher: aes", "  Converting to AES-GCM for stream '$G > %s'"),
    ]
    for settings, line in steps:
        server = serve(config=KEYED % settings)
        lines = said(server)
        assert {line % name for name in "SP"} <= {*lines}
        assert any(found.endswith("the streams and consumers of account '$G'") for found in lines)
        assert DONE in lines
        with client(server) as wire:
            assert described(wire) == there
        assert server.stop() == 0
        assert not any(b"secret" in data for data in files(tmp_path / "store").values())

    stored = files(tmp_path / "store")
    for wrong in ("key: one", "key: three, prev_key: one", 'key: "", prev_key: two'):
        found = refused(config=KEYED % wrong)
        assert re.search(r"JetStream( of account \$G)?: .* is encrypted", found[-1]), found
        assert files(tmp_path / "store") == stored
    server = serve(config=KEYED % "key: two, prev_key: one, cipher: aes")
    assert "  Nothing is encrypted with prev_key any more, it can be removed" in said(server)
    assert DONE not in said(server)
    reload(
        server,
        KEYED % "key: two, cipher: aes",
        re.escape("config reload not supported for jetstream.prev_encryption_key: old=[hidden], new="),
    )
    assert server.stop() == 0
    with client(serve(config=KEYED % "key: two, cipher: aes")) as wire:
        assert described(wire) == there
        assert ask(wire, "S", "more")["seq"] == 4


def reload(server: ServerProcess, config: str, line: str = "Reloaded server configuration") -> None:
    seen = len(server.lines)
    server.config_file.write_text(config)
    server.signal(signal.SIGHUP)
    server.wait_for_line(line, after=seen)


ACCOUNTS = """
jetstream { store_dir: "store" }
accounts {
  A { users: [{user: a, password: p}], jetstream: enabled }
  B { users: [{user: b, password: p}], jetstream { max_streams: %d } }
  C { users: [{user: c, password: p}]%s }
}
"""


def test_accounts_are_apart_and_have_their_limits(serve: Serve) -> None:
    server = serve("-m", "-1", config=ACCOUNTS % (1, ""))
    with client(server, "a") as a, client(server, "b") as b, client(server, "c") as c:
        assert ask(a, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})["did_create"]
        assert ask(b, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})["did_create"]
        assert ask(b, "$JS.API.STREAM.CREATE.T", {"name": "T"})["error"]["err_code"] == 10027
        assert ask(c, "$JS.API.STREAM.CREATE.S", {"name": "S"})["error"] == NOT_ENABLED
        assert ask(c, "$JS.API.INFO")["error"] == NOT_ENABLED
        ask(a, "s", "x")
        assert ask(a, "$JS.API.STREAM.INFO.S")["state"]["messages"] == 1
        assert ask(b, "$JS.API.STREAM.INFO.S")["state"]["messages"] == 0
    with urllib.request.urlopen(f"{server.monitor_url}/jsz?streams=1") as answer:
        details = json.load(answer)["account_details"]
    assert [(each["name"], each["stream_detail"][0]["state"]["messages"]) for each in details] == [
        ("A", 1),
        ("B", 0),
    ]


def test_reload_gives_takes_and_changes_limits(serve: Serve) -> None:
    server = serve(config=ACCOUNTS % (1, ""))
    with client(server, "a") as a, client(server, "b") as b, client(server, "c") as c:
        ask(b, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        assert ask(c, "$JS.API.INFO")["error"] == NOT_ENABLED
        reload(server, ACCOUNTS % (2, ", jetstream: true"))
        assert ask(b, "$JS.API.STREAM.CREATE.T", {"name": "T"})["did_create"]
        assert ask(c, "$JS.API.STREAM.CREATE.K", {"name": "K"})["did_create"]
        assert ask(c, "K", 1)["seq"] == 1
        assert ask(a, "$JS.API.INFO")["streams"] == 0
        reload(server, ACCOUNTS % (2, ""))
        assert ask(c, "$JS.API.INFO")["error"] == NOT_ENABLED
        reload(server, ACCOUNTS % (2, ", jetstream: true"))
        assert ask(c, "K", 2)["seq"] == 2


def test_reload_cannot_move_the_directory(serve: Serve) -> None:
    server = serve(config='jetstream { store_dir: "store" }')
    reload(
        server,
        'jetstream { store_dir: "other" }',
        "config reload not supported for jetstream.store_dir: old=store, new=other",
    )


def test_domain_names_the_api_too(serve: Serve) -> None:
    server = serve(config='jetstream { store_dir: "store", domain: hub }')
    with client(server) as wire:
        info = wire.info
        assert (info["domain"], info["api_lvl"]) == ("hub", 5)
        assert ask(wire, "$JS.hub.API.STREAM.CREATE.S", {"name": "S"})["did_create"]
        assert ask(wire, "S", 1) == {"stream": "S", "seq": 1, "domain": "hub"}
        assert ask(wire, "$JS.API.INFO")["domain"] == "hub"


def test_accounts_by_token_are_served_from_the_start_and_follow_their_tokens(serve: Serve) -> None:
    def token(**limits: object) -> str:
        return account_token(limits={**ACCOUNT_LIMITS, **limits})

    some = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    config = configuration(
        {ACCOUNT_KEY.public: token(**some, subs=-1)}, more='jetstream { store_dir: "store" }'
    )
    server = serve(config=config)
    user = user_token()
    with enter(server, user, USER_KEY) as wire:
        assert ask(wire, "$JS.API.STREAM.CREATE.S", {"name": "S"})["did_create"]
        assert ask(wire, "S", 1)["seq"] == 1
    assert server.stop() == 0

    again = serve(config=config)
    assert f"  Restored 1 messages for stream '{ACCOUNT_KEY.public} > S'" in said(again)
    with enter(again, user, USER_KEY) as wire, enter_system(again) as system:
        assert ask(wire, "S", 2)["seq"] == 2
        update = f"$SYS.REQ.ACCOUNT.{ACCOUNT_KEY.public}.CLAIMS.UPDATE"
        newer = account_token(outer={"iat": 1_800_000_000}, limits={**ACCOUNT_LIMITS, "subs": -1})
        assert b'"code":200' in request(system, update, newer.encode())
        assert ask(wire, "$JS.API.INFO")["error"] == NOT_ENABLED
