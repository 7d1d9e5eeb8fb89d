"""The monitoring listener over real HTTP on the loopback interface."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import re
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar

import pytest
from aiohttp import ClientSession
from monitor_samples import SERVER, SampleSource, connection, subscription
from prometheus_client.parser import text_string_to_metric_families

from headrace.errors import StartError
from headrace.server.monitor import listener
from headrace.server.monitor.index import index
from headrace.server.monitor.listener import start_monitor

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


Get = Callable[..., Awaitable[Answer]]

FIRST = connection(1, subscription("a", "1", 1), in_msgs=2, in_bytes=20, name='q"\n', rtt_ns=5000)
SECOND_ONE = connection(2, in_msgs=3, in_bytes=30, account="A")


def with_monitor(
    scenario: Callable[[Get], Awaitable[T]], source: SampleSource | None = None, base_path: str = ""
) -> T:
    """Run a scenario against a monitor that is closed afterwards."""

    async def run() -> T:
        monitor = await start_monitor(source or SampleSource(), "127.0.0.1", -1, base_path)
        try:
            async with ClientSession(f"http://127.0.0.1:{monitor.port}") as session:

                async def get(path: str, method: str = "GET") -> Answer:
                    async with session.request(method, path) as response:
                        return Answer(response.status, dict(response.headers), await response.read())

                return await scenario(get)
        finally:
            await monitor.close()

    return asyncio.run(run())


def fetch(path: str, source: SampleSource | None = None, base_path: str = "", method: str = "GET") -> Answer:
    return with_monitor(lambda get: get(path, method), source, base_path)


@pytest.mark.parametrize(
    "path", ["/varz", "/connz", "/subsz", "/subscriptionsz", "/routez", "/leafz", "/gatewayz"]
)
def test_json_endpoints_answer_as_the_go_server_does(path: str) -> None:
    answer = fetch(path)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Server" not in answer.headers
    assert answer.body.startswith(b'{\n  "server_id": "NSERVER",\n  ')
    assert not answer.body.endswith(b"\n")


@pytest.mark.parametrize("method", ["HEAD", "POST", "DELETE", "OPTIONS"])
def test_any_method_is_answered(method: str) -> None:
    assert fetch("/varz", method=method).status == 200


def test_index_page_links_the_endpoints() -> None:
    answer = fetch("/")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    for path in (b"/varz", b"/jsz", b"/raftz", b"/debug/vars"):
        assert b'href="%b"' % path in answer.body
    assert b"/streaming" not in answer.body


def test_index_page_has_one_link_to_the_console_where_there_is_one() -> None:
    assert b"Console" not in fetch("/").body
    page = index("n1", "", console='http://127.0.0.1:8280/"x/')
    assert page.count("Console") == 1
    assert '<a href="http://127.0.0.1:8280/&quot;x/">Console</a>' in page


def test_healthz_is_compact_json() -> None:
    assert fetch("/healthz").body == b'{"status":"ok"}'
    unwell = fetch("/healthz", SampleSource(error="no"))
    assert (unwell.status, unwell.body) == (500, b'{"status":"error","error":"no"}')


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "/connz?subs=x",
            "Error decoding boolean for 'subs': strconv.ParseBool: parsing \"x\": invalid syntax",
        ),
        ("/connz?limit=+2", "Error decoding int for 'limit': strconv.Atoi: parsing \" 2\": invalid syntax"),
        ("/subsz?test=a..b", "invalid test subject, must be valid publish subject: a..b"),
        ("/healthz?details=x", "Error decoding boolean for 'details'"),
        ("/metrics?connz_detailed=x", "Error decoding boolean for 'connz_detailed'"),
    ],
)
def test_option_not_understood_is_400_with_the_reason(path: str, text: str) -> None:
    answer = fetch(path)
    assert answer.status == 400
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.body.decode().startswith(text)


@pytest.mark.parametrize("path", ["/nope", "/varz/", "/VARZ", "/favicon.ico"])
def test_unknown_path_is_404(path: str) -> None:
    answer = fetch(path)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


def test_raft_groups_are_none_in_the_go_servers_words() -> None:
    answer = fetch("/raftz")
    assert (answer.status, answer.body) == (404, b"No Raft nodes registered")


def test_stacks_show_where_threads_and_tasks_are() -> None:
    answer = fetch("/stacksz")
    assert answer.headers["Content-Type"] == "application/json"  # the Go server's
    text = answer.body.decode()
    assert re.search(r"^thread \d+ \[MainThread\]:$", text, re.MULTILINE)
    assert "in _stacksz" in text
    assert re.search(r"^task \S+:$", text, re.MULTILINE)


def test_variables_show_the_process_and_not_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["headrace", "serve", "--pass", "secret"])
    document = json.loads(fetch("/debug/vars").body)
    assert document["cmdline"] == ["headrace"]
    memory = document["memstats"]
    assert memory["Alloc"] == SERVER.memory_bytes
    assert all(memory[name] > 0 for name in ("Sys", "HeapObjects", "NumGC"))
    assert memory["EnableGC"] is True


def test_queues_of_a_server_without_jetstream_are_none() -> None:
    assert [fetch(path).body for path in ("/ipqueuesz", "/ipqueuesz?all=1")] == [b"{}", b"{}"]
    assert fetch("/ipqueuesz?all=x").status == 400


@pytest.mark.parametrize("base_path", ["/nats/mon", "nats/mon/", "nats/mon"])
def test_base_path_goes_before_every_endpoint(base_path: str) -> None:
    async def scenario(get: Get) -> list[int]:
        paths = ("/nats/mon", "/nats/mon/varz", "/nats/mon/raftz", "/varz", "/", "/nats/mon/")
        return [(await get(path)).status for path in paths]

    assert with_monitor(scenario, base_path=base_path) == [200, 200, 404, 404, 404, 404]


def test_varz_counts_requests_by_endpoint() -> None:
    async def scenario(get: Get) -> dict[str, int]:
        for path in ("/", "/varz", "/subscriptionsz", "/subsz?subs=x", "/nope"):
            await get(path)
        counts = json.loads((await get("/varz")).body)["http_req_stats"]
        assert isinstance(counts, dict)
        return counts

    assert with_monitor(scenario) == {"/": 1, "/subsz": 2, "/varz": 2}


def test_callback_is_ignored_as_in_the_go_server() -> None:
    assert fetch("/varz?callback=f").headers["Content-Type"] == "application/json"


def test_connz_long_listing_is_complete() -> None:
    source = SampleSource(open=[connection(cid) for cid in range(1, 2001)])
    document = json.loads(fetch("/connz?limit=2000", source).body)
    assert [entry["cid"] for entry in document["connections"]] == list(range(1, 2001))


def samples(body: bytes) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_metrics_have_the_exporters_names_and_labels() -> None:
    answer = fetch("/metrics", SampleSource(open=(FIRST, SECOND_ONE)))
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    found = samples(answer.body)
    own = (("server_id", "NSERVER"),)
    assert found["gnatsd_varz_mem"] == {own: 14_635_008}
    assert found["gnatsd_varz_in_msgs"] == {own: 6}
    assert found["gnatsd_varz_slow_consumer_stats_clients"] == {own: 0}
    assert found["gnatsd_varz_http_req_stats_metrics"] == {own: 1}
    assert found["gnatsd_varz_version"] == {(("server_id", "NSERVER"), ("value", "2.10.0")): 1}
    assert found["gnatsd_varz_start"] == {own: SERVER.start_ns // 1_000_000}
    assert found["gnatsd_subsz_num_subscriptions"] == {own: 0}
    assert found["gnatsd_connz_num_connections"] == {own: 2}
    assert found["gnatsd_connz_in_bytes"] == {own: 50}
    assert found["gnatsd_healthz_status"] == {own: 0}
    assert found["gnatsd_healthz_status_value"] == {(("server_id", "NSERVER"), ("value", "ok")): 1}
    assert "gnatsd_connz_rtt" not in found


def test_metrics_detailed_have_each_connection() -> None:
    source = SampleSource(open=(FIRST, SECOND_ONE))
    found = samples(fetch("/metrics?connz_detailed=true", source).body)
    by_cid = {dict(labels).get("cid"): value for labels, value in found["gnatsd_connz_in_msgs"].items()}
    assert by_cid == {None: 5, "1": 2, "2": 3}
    labels = [dict(labels) for labels in found["gnatsd_connz_rtt"]]
    assert labels[0]["name"] == 'q"\n'
    assert [(each["account"], each["name_tag"]) for each in labels] == [("", "$G"), ("A", "A")]
    assert list(found["gnatsd_connz_rtt"].values()) == [5, 0]


def test_metrics_unwell_server_is_visible() -> None:
    found = samples(fetch("/metrics", SampleSource(error="no")).body)
    assert found["gnatsd_healthz_status"] == {(("server_id", "NSERVER"),): 1}
    assert found["gnatsd_healthz_status_value"] == {(("server_id", "NSERVER"), ("value", "error")): 0}


def test_no_answer_shows_a_secret() -> None:
    async def scenario(get: Get) -> bytes:
        paths = ("/", "/varz", "/connz?auth=1&subs=detail", "/subsz?subs=1", "/healthz", "/metrics")
        return b"".join([(await get(path)).body for path in paths])

    assert b"secret" not in with_monitor(scenario, SampleSource(open=(FIRST,)))


def test_start_monitor_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError) as raised:
            asyncio.run(start_monitor(SampleSource(), "127.0.0.1", port))
    expected = f"can't listen to the monitor port: listen tcp 127.0.0.1:{port}: bind: address already in use"
    assert str(raised.value) == expected


def test_start_monitor_unknown_host_is_one_line() -> None:
    with pytest.raises(StartError, match=r"listen tcp 192\.0\.2\.1:0: bind: "):
        asyncio.run(start_monitor(SampleSource(), "192.0.2.1", 0))


def test_close_frees_the_port_and_may_be_repeated() -> None:
    async def run() -> int:
        monitor = await start_monitor(SampleSource(), "127.0.0.1", 0)
        await monitor.close()
        await monitor.close()
        return monitor.port

    with socket.create_server(("127.0.0.1", asyncio.run(run()))):
        pass


def test_start_monitor_default_host_name_gives_one_port() -> None:
    async def run() -> int:
        monitor = await start_monitor(SampleSource(), "localhost", 0)
        await monitor.close()
        return monitor.port

    assert asyncio.run(run()) > 0


def test_importing_the_monitor_does_not_load_aiohttp() -> None:
    code = "import sys, headrace.server.monitor; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- while the HTTP library is being loaded


async def status_of(monitor: listener.MonitorHandle) -> int:
    """What `/varz` answers; the monitor is closed then."""
    try:
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{monitor.port}/varz") as got:
            return got.status
    finally:
        await monitor.close()


def test_requests_wait_until_the_library_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "headrace.server.monitor.handlers", raising=False)

    async def main() -> int:
        monitor = await start_monitor(SampleSource(), "127.0.0.1", 0)
        assert "headrace.server.monitor.handlers" not in sys.modules
        return await status_of(monitor)

    assert asyncio.run(main()) == 200


def test_monitor_may_be_closed_before_it_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "headrace.server.monitor.handlers", raising=False)

    async def main() -> int:
        monitor = await start_monitor(SampleSource(), "127.0.0.1", 0)
        await monitor.close()
        await monitor.close()
        return monitor.port

    port = asyncio.run(main())
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_library_that_cannot_be_loaded_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "headrace.server.monitor.handlers", raising=False)

    async def main() -> None:
        monitor = await start_monitor(SampleSource(), "127.0.0.1", 0)
        await monitor.is_up()
        with pytest.raises(ConnectionRefusedError):  # and not accepted for ever
            await asyncio.open_connection("127.0.0.1", monitor.port)
        await monitor.close()

    asyncio.run(main())
    assert "monitoring could not be started" in caplog.text


@pytest.mark.parametrize(
    "failure",
    [OSError(errno.EMFILE, "Too many open files"), ImportError("_http_parser.so: Too many open files")],
    ids=["module", "shared object"],
)
def test_library_is_loaded_again_once_there_are_descriptors(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "headrace.server.monitor.handlers", raising=False)
    monkeypatch.setattr(listener, "LOAD_PAUSE", 0.0)
    failures = [failure, failure]
    heard = []

    def load(name: str) -> object:
        if failures:
            raise failures.pop()
        return import_module(name)

    monkeypatch.setattr(listener, "import_module", load)

    async def main() -> int:
        monitor = await start_monitor(
            SampleSource(), "127.0.0.1", 0, report=lambda text, address: heard.append((text, address))
        )
        return await status_of(monitor)

    assert asyncio.run(main()) == 200
    assert heard == [("monitoring: not loaded yet (Too many open files), trying again", "")] * 2


# -- connections that nobody should have


def test_connection_that_says_too_slowly_what_it_wants_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTION_SECONDS", 0.05)
    monkeypatch.setattr(listener, "ANSWER_SECONDS", 0.0)
    monkeypatch.setattr(listener, "SWEEP_SECONDS", 0.01)

    async def main() -> bytes:
        monitor = await start_monitor(SampleSource(), "127.0.0.1", 0)
        await monitor.is_up()
        reader, writer = await asyncio.open_connection("127.0.0.1", monitor.port)
        try:
            writer.write(b"GET /varz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.close()
            await monitor.close()

    assert asyncio.run(main()) == b""


def test_one_connection_too_many_is_closed_and_the_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS", 2)
    ok = b"HTTP/1.1 200"

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            return (await asyncio.wait_for(reader.read(12), 10))[:12]
        except ConnectionResetError:
            return b""

    async def main() -> list[bytes]:
        monitor = await start_monitor(SampleSource(), "127.0.0.1", 0)
        await monitor.is_up()
        streams = []
        answers = []
        try:
            for _ in range(3):
                streams.append(await asyncio.open_connection("127.0.0.1", monitor.port))
                answers.append(await ask(*streams[-1]))
            assert answers == [ok, ok, b""]
            streams[0][1].close()
            async with asyncio.timeout(10):  # until the monitor has noticed that one left
                while answers[-1] == b"":
                    streams.append(await asyncio.open_connection("127.0.0.1", monitor.port))
                    answers.append(await ask(*streams[-1]))
        finally:
            for _, writer in streams:
                writer.close()
            await monitor.close()
        return answers

    assert asyncio.run(main())[-1] == ok


@pytest.mark.parametrize(
    "garbage",
    [
        *(b"\x16\x03\x01\x02\x00\x01\x00", b"\r\n\r\n", b"GET\r\n\r\n", b"\x00" * 100, b"PUB a 1\r\nx\r\n"),
        b"GET /varz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /varz HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 10_000 + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /varz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /varz HTTP/1.1\r\nHost: x\r\nX: a\x1b[2J\n[1] forged\r\n\r\n",
    ],
)
def test_garbage_is_refused_without_a_word_in_the_log(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> bytes:
        monitor = await start_monitor(SampleSource(), "127.0.0.1", 0)
        await monitor.is_up()
        reader, writer = await asyncio.open_connection("127.0.0.1", monitor.port)
        try:
            writer.write(garbage)
            writer.write_eof()
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()
            await monitor.close()

    answer = asyncio.run(main())
    assert b"server_id" not in answer
    assert answer == b"" or (answer.startswith(b"HTTP/1.") and b" 400 " in answer.split(b"\r\n")[0])
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


POST = b"POST /varz HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /varz HTTP/1.1\r\nHost: x\r\n"
ODD_REQUESTS = {
    # The Go server does not look into bodies either.
    "broken gzip": (200, POST + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n", b"0123"),
    "broken deflate": (200, POST + b"Content-Encoding: deflate\r\nContent-Length: 4\r\n\r\n", b"0123"),
    "gzip in chunks": (
        *(200, POST + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"),
        b"4\r\n0123\r\n0\r\n\r\n",
    ),
    "encoding nobody has": (200, POST + b"Content-Encoding: br\r\nContent-Length: 4\r\n\r\n", b"0123"),
    "body that ends early": (200, POST + b"Content-Length: 4\r\n\r\n", b"01"),
    "broken chunk": (200, POST + b"Transfer-Encoding: chunked\r\n\r\n", b"zz\r\n"),
    "two lengths": (400, POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n", b""),
    "length and chunks": (400, POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", b""),
    "asks to go on": (200, POST + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n", b""),
    "expects what nobody knows": (417, POST + b"Expect: more\r\nContent-Length: 4\r\n\r\n", b""),
    "port no URL has": (400, b"GET http://x:99999/varz HTTP/1.1\r\nHost: x\r\n\r\n", b""),
    "upgrade": (200, GET + b"Connection: upgrade\r\nUpgrade: x\r\n\r\n", b"\x00garbage\r\n\r\n"),
    "bytes that are no text": (200, GET + b"Cookie: \xff=\xfe\r\nConnection: \x80\r\n\r\n", b""),
    "second one is garbage": (200, GET + b"\r\n", b"GARBAGE\r\n\r\n"),
}


@pytest.mark.parametrize("leaves", ["waits", "resets"])
@pytest.mark.parametrize("name", ODD_REQUESTS)
def test_odd_request_has_the_right_status_and_no_line_in_the_log(
    name: str, leaves: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, head, rest = ODD_REQUESTS[name]

    async def main() -> bytes:
        monitor = await start_monitor(SampleSource(), "127.0.0.1", 0)
        await monitor.is_up()
        reader, writer = await asyncio.open_connection("127.0.0.1", monitor.port)
        try:
            writer.write(head)
            if leaves == "resets":
                writer.write(rest)
                writer.transport.abort()
                return b""
            answer = await asyncio.wait_for(reader.readline(), 10)
            writer.write(rest)
            return answer
        finally:
            writer.close()
            async with (  # by its answer what came before has been dealt with
                ClientSession() as session,
                session.get(f"http://127.0.0.1:{monitor.port}/varz") as got,
            ):
                assert got.status == 200
            await monitor.close()

    answer = asyncio.run(main())
    assert leaves == "resets" or answer.split(b" ")[1] == b"%d" % status
    gc.collect()  # what was never retrieved of a task or future is told when that goes
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []
