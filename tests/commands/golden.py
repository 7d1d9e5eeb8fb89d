"""The texts of the main commands, as people and pipes see them, from recorded servers.

    python tests/commands/golden.py record    # start servers, keep what they answer, then write the texts
    python tests/commands/golden.py write     # write the texts anew, from what was recorded

Run `write` after a change of how something is printed, and read the difference; `record` only when a command
asks a server for something else. `test_golden.py` compares.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.command_line import CommandLine
from harness.ports import free_port
from harness.processes import SIDES, ServerProcess
from harness.recorded import RecordedServer, recording
from harness.waiting import wait_until
from headrace.client.api import JetStreamAssets
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.client.options import ConnectOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = Path(__file__).parent / "golden_texts"
WIDTHS: Final = {"80 cells": 80, "200 cells": 200, "pipe": None}
"""Where a text is shown: on terminals, and in a pipe."""
_CONFIG: Final = """
server_name: {name}
jetstream {{ store_dir: "{store}" }}
accounts {{
    SHOP {{ jetstream: enabled, users: [ {{user: alice, password: secret}} ] }}
    SYS {{ users: [ {{user: admin, password: secret}} ] }}
}}
system_account: SYS
{cluster}
"""
_NODES: Final = {"headrace": 1, "nats-server": 3}
"""The servers that are recorded of each kind."""


class GoldenCommand(NamedTuple):
    """A command whose text is kept, and the user who calls it."""

    line: str
    user: str = "alice"
    only: str = ""
    """The one kind of server that it is recorded of."""


_ADMIN: Final = "admin"
COMMANDS: Final = (
    GoldenCommand("stream ls"),
    GoldenCommand("stream ls --all"),
    GoldenCommand("stream report --all"),
    GoldenCommand("stream info ORDERS --subjects"),
    GoldenCommand("stream info ORDERS_ARCHIVE"),
    GoldenCommand("stream subjects ORDERS"),
    GoldenCommand("stream view ORDERS --limit 3"),
    GoldenCommand("stream edit ORDERS --max-age 30d --description Shop --dry-run"),
    GoldenCommand("consumer ls ORDERS"),
    GoldenCommand("consumer info ORDERS billing"),
    GoldenCommand("consumer info ORDERS shipping"),
    GoldenCommand("consumer report ORDERS"),
    GoldenCommand("consumer edit ORDERS billing --max-deliver 7 --dry-run"),
    GoldenCommand("kv ls"),
    GoldenCommand("kv info settings"),
    GoldenCommand("kv ls settings --verbose"),
    GoldenCommand("kv history settings shop.currency"),
    GoldenCommand("kv edit settings --history 9 --dry-run"),
    GoldenCommand("object ls"),
    GoldenCommand("object info reports"),
    GoldenCommand("object ls reports"),
    GoldenCommand("object info reports 2026/11/turnover-by-country-and-month.parquet"),
    GoldenCommand("account info"),
    GoldenCommand("account report connections"),
    GoldenCommand("events --short --count 4"),
    GoldenCommand("events --count 1"),
    GoldenCommand("rtt 2"),
    GoldenCommand("doctor"),
    GoldenCommand("server check stream ORDERS"),
    GoldenCommand("server ls", _ADMIN),
    GoldenCommand("server info shop-1", _ADMIN),
    GoldenCommand("server report connections", _ADMIN),
    GoldenCommand("server report jetstream", _ADMIN),
    GoldenCommand("server report accounts", _ADMIN),
    GoldenCommand("server report cpu", _ADMIN),
    GoldenCommand("server report health", _ADMIN),
    GoldenCommand("server report routes", _ADMIN, only="nats-server"),
    GoldenCommand("doctor", _ADMIN),
    GoldenCommand("top shop-1", _ADMIN),
)
_CONTEXTS: Final = {
    "production": {"url": "tls://nats-1.shop.example:4222,tls://nats-2.shop.example:4222",
                   "creds": "/etc/nats/shop.creds", "description": "Shop, eu-central-1"},
    "local": {"url": "nats://127.0.0.1:4222", "user": "alice", "password": "secret"},
}  # fmt: skip
LOCAL: Final = (GoldenCommand("context ls"), GoldenCommand("context info production"))
"""Commands without a server."""


def key_of(command: GoldenCommand) -> str:
    """The name of a command in a recording and among the texts."""
    return command.line if command.user == "alice" else f"{command.line} ({command.user})"


def recorded_file(side: str) -> Path:
    return FOLDER / f"{side}.json"


def texts_file(side: str) -> Path:
    return FOLDER / f"{side}.txt"


def commands_of(side: str) -> list[GoldenCommand]:
    return [command for command in COMMANDS if command.only in ("", side)]


def printed(cli: CommandLine, command: GoldenCommand, where: str) -> str:
    """What a command prints, without colours: the answer, what it says beside, and an exit code but 0."""
    cli.variables["NO_COLOR"] = "1"
    ran = cli(*command.line.split(), width=WIDTHS[where])
    beside = "".join(f"stderr: {line}\n" for line in ran.err.splitlines())
    out = ran.out.replace(str(cli.folder), "~")
    return out + beside + (f"exit code: {ran.code}\n" if ran.code else "")


def text_of(server: RecordedServer, cli: CommandLine, command: GoldenCommand, where: str) -> str:
    """What a command prints of a recorded server."""
    with server.playing(key_of(command)):
        return printed(cli, command, where)


def write_contexts(cli: CommandLine) -> None:
    folder = cli.folder / "config" / "nats" / "context"
    folder.mkdir(parents=True)
    for name, fields in _CONTEXTS.items():
        (folder / f"{name}.json").write_text(json.dumps(fields))
    (folder.parent / "context.txt").write_text("production")


def heading(command: GoldenCommand, where: str) -> str:
    return f"---- {key_of(command)} | {where}"


def sections(path: Path) -> dict[str, str]:
    """The texts of a file by their headings."""
    found: dict[str, str] = {}
    name = ""
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith("---- "):
            name = line.rstrip("\n")
            found[name] = ""
        else:
            found[name] += line
    return found


def write() -> None:
    """Write the texts anew."""
    with tempfile.TemporaryDirectory() as name:
        cli = CommandLine(Path(name))
        for side in SIDES:
            server = RecordedServer(recorded_file(side))
            lines = [
                f"{heading(command, where)}\n{text_of(server, cli, command, where)}"
                for command in commands_of(side)
                for where in WIDTHS
            ]
            texts_file(side).write_text("".join(lines))
        write_contexts(cli)
        lines = [
            f"{heading(command, where)}\n{printed(cli, command, where)}"
            for command in LOCAL
            for where in WIDTHS
        ]
        texts_file("local").write_text("".join(lines))


# -- recording


def record(side: str) -> None:
    """Start servers, fill them, and keep what they answer to each command."""
    commands: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        servers = [stack.enter_context(node) for node in _nodes(side, folder)]
        cli = CommandLine(folder, servers[0].url)
        assets = stack.enter_context(_assets(servers[0], len(servers)))
        stack.enter_context(_clients(servers))
        _fill(cli, assets, len(servers))
        for command in commands_of(side):
            cli.url = servers[0].url.replace("//", f"//{command.user}:secret@")
            now_ns = time.time_ns()
            with recording() as heard, _happening(assets, command):
                ran = cli(*command.line.split())
            print(f"{ran.code} {command.line} {ran.err.strip()}")
            commands[key_of(command)] = {
                "now_ns": now_ns, "info": heard.info, "exchanges": heard.exchanges
            }  # fmt: skip
    text = json.dumps(commands, indent=1, ensure_ascii=False)
    recorded_file(side).write_text(text.replace(str(folder), "/srv/nats") + "\n")


def _nodes(side: str, folder: Path) -> Iterator[ServerProcess]:
    ports = [free_port() for _ in range(_NODES[side])]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    for number, port in enumerate(ports, 1):
        here = folder / f"shop-{number}"
        here.mkdir()
        cluster = f"cluster {{ name: shop, listen: 127.0.0.1:{port}, routes: [{routes}] }}"
        config = _CONFIG.format(
            name=f"shop-{number}", store=here / "store", cluster=cluster if len(ports) > 1 else ""
        )
        yield ServerProcess(SIDES[side], here, config=config)


@contextmanager
def _assets(server: ServerProcess, count: int) -> Iterator[JetStreamAssets]:
    with connect(server.url.replace("//", "//alice:secret@"), ConnectOptions(name="set-up")) as connection:
        assets = JetStreamAssets(JetStreamApi(connection))

        def is_ready() -> bool:
            try:
                assets.create_stream({"name": "READY", "subjects": ["ready"], "num_replicas": count})
            except Exception as error:  # noqa: BLE001 - whatever a cluster says that has no leader yet
                print("not yet:", error)
                return False
            return True

        wait_until(is_ready, "JetStream", 60)
        assets.delete_stream("READY")
        yield assets


@contextmanager
def _clients(servers: list[ServerProcess]) -> Iterator[None]:
    """Some clients, with names as deployments have them."""
    names = ("checkout-7f9c4d-x2x9q", "billing", "warehouse-eu-central-1-production-line-7", "倉庫")
    with ExitStack() as stack:
        for number, name in enumerate(names):
            url = servers[number % len(servers)].url.replace("//", "//alice:secret@")
            connection = stack.enter_context(connect(url, ConnectOptions(name=name)))
            for subject in ("shop.>", "stock.*.eu")[: 1 + number % 2]:
                connection.subscribe(subject)
            for _ in range(number * 700):
                connection.publish("shop.visits", b"x" * 200)
            connection.flush()
        yield


@contextmanager
def _happening(assets: JetStreamAssets, command: GoldenCommand) -> Iterator[None]:
    """Have something happen, for commands that tell of it."""

    def happen() -> None:
        for _ in range(2):
            assets.create_stream({"name": "RETURNS", "subjects": ["returns.>"]})
            assets.create_consumer("RETURNS", {"name": "refunds", "durable_name": "refunds"})
            assets.delete_consumer("RETURNS", "refunds")
            assets.delete_stream("RETURNS")

    if not command.line.startswith("events"):
        yield
        return
    timer = threading.Timer(1.0, happen)
    timer.start()
    yield
    timer.join()


def _fill(cli: CommandLine, assets: JetStreamAssets, replicas: int) -> None:
    cli.url = cli.url.replace("//", "//alice:secret@")
    several = ("--replicas", str(replicas))

    def run(line: str, *more: str, stdin: bytes = b"") -> None:
        cli(*line.split(), *more, stdin=stdin).ok()

    text = "Orders of all shops: placed, paid, shipped, returned"
    limits = "--max-age 7d --max-bytes 1GiB --dupe-window 2m --allow direct --metadata team=checkout"
    run(f"stream add ORDERS --subjects orders.> {limits}", "--description", text, *several)
    run("stream add ORDERS_ARCHIVE --mirror ORDERS --compression s2")
    run(
        "stream add TELEMETRY_eu-central-1_production-line-7 --storage memory --subjects line7.temperature.*,"
        "line7.pressure.*,line7.vibration.*,line7.state --max-msgs 100000 --discard new"
    )
    run("stream add JOBS --subjects jobs.> --retention work --max-msg-size 64KiB")
    api = assets.api
    for number in range(1234):
        kind = ("placed", "paid", "shipped")[number % 3]
        body = {"order": 100_000 + number, "customer": f"c-{number % 97}", "total": number % 50 * 1.25}
        api.connection.publish(f"orders.{('de', 'fr', 'it')[number % 3]}.{kind}", json.dumps(body).encode())
    for number in range(4321):
        api.connection.publish(f"line7.temperature.{number % 9}", b"%d" % number)
    api.connection.publish("jobs.mail", b"a")
    api.publish("jobs.mail", b"b")
    assets.delete_message("ORDERS", 17)
    run(
        "consumer add ORDERS billing --filter orders.*.paid --wait 30s --max-deliver 5 --backoff 1s,10s",
        "--description",
        "Writes invoices",
    )
    run("consumer add ORDERS shipping --target ship.it --deliver-group ship --heartbeat 5s --flow-control")
    run("consumer add ORDERS audit --deliver new --ack none")
    run("consumer pause ORDERS audit 2030-01-01")
    run("consumer add ORDERS fraud-detection-of-the-third-generation --max-pending 5000 --deliver last")
    run("consumer next ORDERS billing --count 20 --ack -q")
    run("consumer next ORDERS billing --count 7 --no-ack -q")
    run("kv add settings --history 5", "--description", "Settings of shops", *several)
    run("kv add sessions --ttl 30m --max-bytes 256MiB --storage memory")
    for key, value in (
        ("shop.currency", "EUR"),
        ("shop.languages", '["de","fr"]'),
        ("shop.currency", "CHF"),
        ("features.checkout.new-payment-providers.enabled", "true"),
        ("shop.name", "倉庫"),
    ):
        run(f"kv put settings {key} {value}")
    run("kv del settings shop.currency --force")
    run("kv put settings shop.currency EUR")
    run("object add reports", "--description", "Monthly reports")
    run("object add installers --compression")
    run(
        "object put reports - --name 2026/11/turnover-by-country-and-month.parquet --no-progress",
        "--description",
        "Turnover",
        stdin=b"parquet" * 50_000,
    )
    run("object put reports - --name logo.svg --no-progress", stdin=b"<svg/>")
    wait_until(lambda: assets.stream_info("ORDERS_ARCHIVE")["state"]["messages"] >= 1233, "the mirror", 30)


def main(arguments: list[str]) -> int:
    if arguments not in (["record"], ["write"]):
        print(__doc__)
        return 2
    FOLDER.mkdir(exist_ok=True)
    if arguments == ["record"]:
        for side in SIDES:
            record(side)
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
