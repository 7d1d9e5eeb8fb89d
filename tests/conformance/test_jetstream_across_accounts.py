"""Mirrors and sources of streams of another account, on the Go server and on ours."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.jetstream import JetStreamWire
from harness.processes import HEADRACES, NATS_SERVER, Program, ServerProcess
from harness.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.clients

CONFIG = """
jetstream: {store_dir: "%s"}
accounts: {
    ORIGIN: {
        jetstream: enabled
        users: [{user: origin, password: p}]
        exports: [
            {service: "$JS.API.CONSUMER.>"}, {stream: "SYNC.>"}, {service: "$JS.FC.>"}
            {service: "$JS.API.>"}, {service: "$JS.API.INFO"}, {service: other}
        ]
    }
    COPY: {
        jetstream: enabled
        users: [{user: copy, password: p}]
        imports: [
            {service: {account: ORIGIN, subject: "$JS.API.CONSUMER.>"}, to: "FROM.API.CONSUMER.>"}
            {service: {account: ORIGIN, subject: "$JS.FC.>"}}
            {stream: {account: ORIGIN, subject: "SYNC.>"}}
        ]
    }
    ASKS: {users: [{user: asks, password: p}], imports: [%s]}
}
"""
EXTERNAL = {"api": "FROM.API", "deliver": "SYNC.x"}


@pytest.fixture(params=[NATS_SERVER, HEADRACES[0]], ids=str)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server for each test, whose streams have the same names: the Go server removes files late."""
    program: Program = request.param
    folder: Path = tmp_path_factory.mktemp("across")
    with ServerProcess(program, folder, config=CONFIG % (folder / "js", "")) as running:
        yield running


@pytest.fixture
def wires(server: ServerProcess) -> Iterator[tuple[JetStreamWire, JetStreamWire]]:
    """Clients of the account with the origins and of the one with copies; nothing is left afterwards."""
    with (
        JetStreamWire(server, user="origin", **{"pass": "p"}) as origin,
        JetStreamWire(server, user="copy", **{"pass": "p"}) as copy,
    ):
        yield origin, copy
        for wire in (copy, origin):
            for name in wire.api("STREAM.NAMES")["streams"] or []:
                wire.api(f"STREAM.DELETE.{name}")


def made(wire: JetStreamWire, name: str, **config: Any) -> None:
    answer = wire.api(f"STREAM.CREATE.{name}", {"name": name, **config})
    assert "error" not in answer, answer


def has(wire: JetStreamWire, stream: str, messages: int) -> Any:
    info: Any = {}

    def there() -> bool:
        info.clear()
        info.update(wire.api(f"STREAM.INFO.{stream}"))
        return bool(info["state"]["messages"] == messages)

    wait_until(there, f"{messages} messages in {stream}")
    return info


def held(wire: JetStreamWire, stream: str, *sequences: int) -> list[Any]:
    return [wire.api(f"STREAM.MSG.GET.{stream}", {"seq": number})["message"] for number in sequences]


def test_a_mirror_of_another_account(wires: tuple[JetStreamWire, JetStreamWire]) -> None:
    origin, copy = wires
    made(origin, "O", subjects=["o.>"])
    for number in range(5):
        origin.stored(f"o.{number}", f"m{number}", {"N": str(number)})
    origin.api("STREAM.MSG.DELETE.O", {"seq": 2})
    made(copy, "M", mirror={"name": "O", "external": EXTERNAL})
    info = has(copy, "M", 4)
    assert info["mirror"]["external"] == EXTERNAL
    assert info["state"]["num_deleted"] == 1
    origin.stored("o.later", "m5")
    has(copy, "M", 5)
    assert held(copy, "M", 1, 3, 4, 5, 6) == held(origin, "O", 1, 3, 4, 5, 6)


def test_a_source_of_another_account(wires: tuple[JetStreamWire, JetStreamWire]) -> None:
    origin, copy = wires
    made(origin, "O", subjects=["o.>"])
    for number in range(300):
        origin.publish(f"o.{number % 3}", f"m{number}")
    source = {
        "name": "O",
        "external": EXTERNAL,
        "subject_transforms": [{"src": "o.1", "dest": "here.{{partition(1)}}"}],
    }
    made(copy, "S", subjects=["own"], sources=[source])
    info = has(copy, "S", 100)
    (described,) = info["sources"]
    assert described["external"] == EXTERNAL
    assert described["subject_transforms"] == source["subject_transforms"]
    copy.stored("own", "x")
    has(copy, "S", 101)
    (message,) = held(copy, "S", 1)
    assert message["subject"] == "here.0"


def test_an_origin_of_another_account_that_is_not_there_yet(
    wires: tuple[JetStreamWire, JetStreamWire],
) -> None:
    _, copy = wires
    made(copy, "M", mirror={"name": "O", "external": EXTERNAL})

    def refused() -> bool:
        return bool(copy.api("STREAM.INFO.M")["mirror"].get("error", {}).get("err_code") == 10059)

    wait_until(refused, "the origin is looked for")


# -- accounts without JetStream ------------------------------------------------------------------------

FINE: Final = "fine"
NOTHING: Final = "no answer"
NOBODY: Final = "503"
NOT_ENABLED: Final = "10039"
NOT_FOUND: Final = "10059"
IMPORT: Final = '{service: {account: ORIGIN, subject: "%s"}%s}'
ASKED: Final = ("INFO", "STREAM.INFO.X", "CONSUMER.INFO.X.c", "CONSUMER.MSG.NEXT.X.c", "NONSENSE")
PARTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "nothing": ("", (NOT_ENABLED, NOT_ENABLED, NOT_ENABLED, NOBODY, NOTHING)),
    "another service": (IMPORT % ("other", ""), (NOT_ENABLED, NOT_ENABLED, NOT_ENABLED, NOBODY, NOTHING)),
    "INFO": (IMPORT % ("$JS.API.INFO", ""), (FINE, NOBODY, NOBODY, NOBODY, NOBODY)),
    "INFO, to a pattern": (
        IMPORT % ("$JS.API.INFO", ", to: '$JS.API.*'"),
        (FINE, NOBODY, NOBODY, NOBODY, FINE),
    ),
    "all": (IMPORT % ("$JS.API.>", ""), (FINE, NOT_FOUND, NOT_FOUND, NOBODY, NOTHING)),
    "all, elsewhere": (
        IMPORT % ("$JS.API.>", ", to: 'FROM.API.>'"),
        (NOT_ENABLED, NOT_ENABLED, NOT_ENABLED, NOBODY, NOTHING),
    ),
}
"""What an account without JetStream imports, and what it is answered: a number, a status, or nothing."""


def answered(wire: JetStreamWire, reply: str) -> str:
    message = wire.answer(reply)
    if not message.payload:
        return message.status[:3]
    return str(message.json().get("error", {}).get("err_code", FINE))


@pytest.mark.parametrize("part", PARTS)
def test_an_account_that_imports_the_first_question_has_what_it_imports_and_no_more(
    part: str, server: ServerProcess
) -> None:
    """Read from a new configuration each time, so that what was there before is gone."""
    imports, expected = PARTS[part]
    folder = server.config_file.parent
    server.config_file.write_text(CONFIG % (folder / "js", imports))
    before = len(server.lines)
    server.signal(signal.SIGHUP)
    server.wait_for_line(
        "Reloaded server configuration", after=before
    )  # the accounts are said before they change

    with JetStreamWire(server, user="asks", **{"pass": "p"}) as wire:
        replies = {verb: wire.ask(f"$JS.API.{verb}") for verb in ASKED}
        for verb, wanted in zip(ASKED, expected, strict=True):
            assert wanted == NOTHING or answered(wire, replies[verb]) == wanted, verb
        wire.sync()
        wire.quiet(0.2)
        assert not any(wire.answers(reply) for reply in replies.values())
