"""`headrace streaming channels | report | purge | rm` on a store's directory and on a server's monitoring."""

from __future__ import annotations

import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from headrace.cli import streaming_source
from headrace.cli.main import main
from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.protocol.stan import ClientInfo, SubState
from headrace.streaming.state import ServiceState, SubscriptionRecord, load_state, write_imported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Streaming = Callable[..., int]

TIME = 1_700_000_000_000_000_000  # 2023-11-14 22:13:20 UTC


def subscription(identity: int, channel: bytes, **state: object) -> SubscriptionRecord:
    fields = {"id": identity, "client_id": b"me", "inbox": b"in", "ack_inbox": b"ack%d" % identity, **state}
    return SubscriptionRecord(channel, SubState(**fields))  # type: ignore[arg-type]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Three channels, of which `orders.new` has two durables and a plain subscription."""
    directory = tmp_path / "store"
    store = FileStore(directory, clock=lambda: TIME)
    for name, count in ((b"orders.new", 5), (b"orders.old", 2), (b"idle", 0)):
        log = store.open(name)
        if count:
            log.append([NewMessage(name, b"%d" % number) for number in range(count)])
    durable = subscription(
        1, b"orders.new", durable_name=b"mine", is_durable=True, is_closed=True, last_sent=4
    )
    durable.pending = {2, 4}
    members = subscription(2, b"orders.new", q_group=b"all:workers", durable_name=b"all", is_durable=True)
    plain = subscription(3, b"orders.new")
    kept = subscription(4, b"orders.old", client_id=b"you")
    records = {record.state.id: record for record in (durable, members, plain, kept)}
    clients = {b"me": ClientInfo(id=b"me", hb_inbox=b"hb")}
    write_imported(store, ServiceState(clients=clients, subscriptions=records))
    store.close()
    return directory


@pytest.fixture
def streaming(directory: Path) -> Streaming:
    """Runs `headrace streaming ARGUMENTS --dir` of that store; gives the exit code."""
    return lambda *arguments: main(["headrace", "streaming", *arguments, "--dir", str(directory)])


def channels_of(directory: Path) -> dict[str, list[int]]:
    """Sequences by channel."""
    store = FileStore(directory)
    try:
        names = streaming_source.channel_names(store)
        return {
            name.decode(): [message.sequence for message in store.open(name).read_from(1).messages]
            for name in names
        }
    finally:
        store.close()


def state_of(directory: Path) -> ServiceState:
    store = FileStore(directory)
    try:
        return load_state(store)
    finally:
        store.close()


# -- looking


def test_channels_lists_all_with_totals(streaming: Streaming, capsys: pytest.CaptureFixture[str]) -> None:
    assert streaming("channels") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["channel", "messages", "bytes", "first", "last", "newest", "subscriptions"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:-1]}
    assert list(rows) == ["idle", "orders.new", "orders.old"]
    assert rows["idle"][:1] + rows["idle"][2:] == ["0", "0", "0", "-", "0"]
    new = rows["orders.new"]
    assert new[:1] + new[2:] == ["5", "1", "5", "2023-11-14", "22:13:20Z", "3"]
    assert lines[-1].startswith("3 channels, 7 messages, ")


def test_report_shows_subscriptions(streaming: Streaming, capsys: pytest.CaptureFixture[str]) -> None:
    assert streaming("report", "orders.new") == 0

    shown = capsys.readouterr().out
    assert shown.startswith("orders.new: 5 messages, ")
    assert "sequences 1 to 5, newest 2023-11-14 22:13:20Z" in shown
    rows = [line.split() for line in shown.splitlines()[2:] if line]
    assert rows == [
        ["me", "durable", "mine", "-", "offline", "4", "2"],
        ["me", "durable", "queue", "all", "all:workers", "online", "0", "0"],
        ["me", "plain", "-", "-", "online", "0", "0"],
    ]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], ["idle", "orders.new", "orders.old"]),
        (["orders.*"], ["orders.new", "orders.old"]),
        (["*"], ["idle"]),
        ([">"], ["idle", "orders.new", "orders.old"]),
        (["orders.>", "idle"], ["idle", "orders.new", "orders.old"]),
        (["*.old", "orders.old"], ["orders.old"]),
    ],
)
def test_report_takes_names_and_wildcards(
    patterns: list[str], names: list[str], streaming: Streaming, capsys: pytest.CaptureFixture[str]
) -> None:
    assert streaming("report", "--json", *patterns) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == names


@pytest.mark.parametrize("command", ["report", "purge", "rm"])
@pytest.mark.parametrize("name", ["order", "orders", "orders.new.>", "ORDERS.new", "$STAN/state"])
def test_channel_that_is_not_there_is_an_error(
    command: str, name: str, streaming: Streaming, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = channels_of(directory)

    assert streaming(command, "idle", name) == 1
    assert capsys.readouterr().err == f"headrace streaming {command}: no channel {name!r}\n"
    assert channels_of(directory) == before


def test_check_says_that_nothing_is_damaged(streaming: Streaming, capsys: pytest.CaptureFixture[str]) -> None:
    assert streaming("report", "--check") == 0
    assert capsys.readouterr().out.count("damaged messages: none") == 3


def test_check_finds_damaged_messages_and_exits_with_3(
    streaming: Streaming, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = FileStore(directory, clock=lambda: TIME)
    store.open(b"hurt").append([NewMessage(b"hurt", b"body-%d-" % number * 20) for number in range(3)])
    store.close()
    (file,) = [path for path in directory.rglob("*") if path.is_file() and b"body-1-" in path.read_bytes()]
    data = file.read_bytes()
    file.write_bytes(data.replace(b"body-1-", b"bodY-1-", 1))

    assert streaming("report", "--check", "hurt") == 3
    assert "damaged messages: 2" in capsys.readouterr().out


def test_names_that_could_move_the_cursor_are_shown_harmlessly(
    streaming: Streaming, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = FileStore(directory)
    store.open(b"bad\xff\x1b[2J")
    store.close()

    assert streaming("channels") == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "bad\\xff" in shown


# -- a store that cannot be used


def test_store_that_a_server_uses_is_refused(
    streaming: Streaming, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = FileStore(directory)
    try:
        assert streaming("channels") == 1
    finally:
        store.close()
    assert "stop the server first, or ask it with --server" in capsys.readouterr().err


def test_directory_that_is_no_store_is_refused_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    for name, complaint in (("none", "no such directory"), ("empty", "is not the directory of a store")):
        assert main(["headrace", "streaming", "channels", "--dir", str(tmp_path / name)]) == 1
        assert complaint in capsys.readouterr().err
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["channels"],
        ["channels", "--dir", "d", "--url", "http://h"],
        ["report"],
        ["purge", "--dir", "d"],
        ["purge", "a"],
        ["purge", "a", "--dir", "d", "--keep", "-1"],
        ["purge", "a", "--dir", "d", "--before", "x"],
        ["rm", "--url", "http://h", "a"],
        ["rm", "a", "--di", "d"],
    ],
)
def test_wrong_use_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["headrace", "streaming", *arguments])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(f"usage: headrace streaming {arguments[0]} ")


@pytest.mark.parametrize("command", ["channels", "report", "purge", "rm"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["headrace", "streaming", command, "--help"])
    assert caught.value.code == 0
    assert "--dir" in capsys.readouterr().out


# -- removing


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ([], []),
        (["--before", "3"], [3, 4, 5]),
        (["--keep", "1"], [5]),
        (["--before", "4", "--keep", "1"], [3, 4, 5]),
        (["--before", "100"], []),
    ],
)
def test_purge_removes_what_it_is_told(
    arguments: list[str],
    left: list[int],
    streaming: Streaming,
    directory: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert streaming("purge", "orders.new", "--force", *arguments) == 0

    assert capsys.readouterr().out == f"orders.new: {5 - len(left)} messages removed, {len(left)} left\n"
    assert channels_of(directory) == {"idle": [], "orders.new": left, "orders.old": [1, 2]}


def test_purge_keeps_the_last_sequence_and_the_subscriptions(streaming: Streaming, directory: Path) -> None:
    before = state_of(directory)

    assert streaming("purge", "orders.new", "--force") == 0

    store = FileStore(directory)
    assert store.open(b"orders.new").append([NewMessage(b"orders.new", b"next")]) == 6
    store.close()
    assert state_of(directory) == before


def test_rm_removes_channels_and_their_subscriptions_for_good(
    streaming: Streaming, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert streaming("rm", "orders.new", "idle", "--force") == 0

    assert capsys.readouterr().out == "idle: removed\norders.new: removed, with 3 subscriptions\n"
    assert channels_of(directory) == {"orders.old": [1, 2]}
    state = state_of(directory)
    assert list(state.subscriptions) == [4]
    assert list(state.clients) == [b"me"]


@pytest.mark.parametrize("command", ["purge", "rm"])
def test_nothing_is_removed_unasked(
    command: str,
    streaming: Streaming,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = channels_of(directory)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)

    assert streaming(command, ">") == 2

    assert capsys.readouterr().err.endswith("nothing was done: say --force\n")
    assert channels_of(directory) == before


@pytest.mark.parametrize("answer", ["y", "Yes", "", "no"])
def test_terminal_is_asked(
    answer: str,
    streaming: Streaming,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = 0 if answer.lower() in ("y", "yes") else 2
    terminal = io.StringIO(f"{answer}\n")
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.delenv("CI", raising=False)

    assert streaming("rm", "orders.new") == code

    assert "Remove orders.new and 3 subscriptions; go on? [y/N] " in capsys.readouterr().err
    assert ("orders.new" in channels_of(directory)) is bool(code)


# -- a running server


class Monitoring(BaseHTTPRequestHandler):
    """Answers /streaming/channelsz as the server does, in pages of two."""

    answer: bytes | None = None
    names = ("a", "b", "c", "d", "e")

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path != "/streaming/channelsz" or query["subs"] != ["1"]:
            self.send_error(404)
            return
        offset = int(query["offset"][0])
        page = [_channel(name) for name in self.names[offset : offset + 2]]
        body = self.answer or json.dumps({"total": len(self.names), "channels": page}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


def _channel(name: str) -> dict[str, object]:
    subscription = {
        "client_id": "me",
        "inbox": "i",
        "ack_inbox": "a",
        "durable_name": "mine",
        "is_durable": True,
        "is_offline": False,
        "max_inflight": 1,
        "ack_wait": 30,
        "last_sent": 3,
        "pending_count": 1,
        "is_stalled": False,
    }
    channel: dict[str, object] = {"name": name, "msgs": 3, "bytes": 100, "first_seq": 1, "last_seq": 3}
    return channel | {"subs_count": 1, "subscriptions": [subscription] if name == "a" else []}


@pytest.fixture
def monitoring(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Monitoring)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_channels_of_a_server_are_read_page_by_page(
    monitoring: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["headrace", "streaming", "channels", "--url", monitoring + "/", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found] == list("abcde")
    assert found[0]["subscriptions"] == [
        {
            "client_id": "me",
            "durable_name": "mine",
            "queue_name": "",
            "is_offline": False,
            "last_sent": 3,
            "pending_count": 1,
        }
    ]


def test_report_of_a_server_shows_subscriptions(monitoring: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headrace", "streaming", "report", "a", "--url", monitoring]) == 0
    assert "durable  mine" in capsys.readouterr().out
    assert main(["headrace", "streaming", "report", "a", "--url", monitoring, "--check"]) == 1
    assert "--check reads a store: it needs --dir" in capsys.readouterr().err


@pytest.mark.parametrize("answer", [b"[]", b"no json", b'{"total": 1, "channels": [{"name": "a"}]}', b"\xff"])
def test_server_that_answers_nonsense_is_an_error(
    answer: bytes, monitoring: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Monitoring, "answer", answer)

    assert main(["headrace", "streaming", "channels", "--url", monitoring]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"headrace streaming channels: {monitoring}")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("nats://127.0.0.1:4222", "the address of a server's monitoring begins with http://"),
        ("http://127.0.0.1:1", "Connection refused"),
        ("{monitoring}/elsewhere", "streaming is not there"),
    ],
)
def test_server_that_cannot_be_asked_is_an_error(
    url: str, complaint: str, monitoring: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["headrace", "streaming", "channels", "--url", url.format(monitoring=monitoring)]) == 1
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.err.count("\n") == 1
