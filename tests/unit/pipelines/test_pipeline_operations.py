"""The report on a table of operations, and whether a server sends its events at all."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.cli.main import main
from headrace.conf.binding import load_options
from headrace.errors import ConfigError, HeadraceError
from headrace.pipelines.operations import COLUMNS, operations_of, read_operations, write_report
from headrace.pipelines.reading import read_spec
from headrace.pipelines.system_events import check_events
from headrace.pipelines.table_files import TableReplayError
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 11, 21, 8)


def row(second: float, kind: str, **values: Any) -> dict[str, Any]:
    return dict.fromkeys(COLUMNS) | {"time": START + timedelta(seconds=second), "kind": kind} | values


def stats(second: float, messages: int, slow: int = 0, server: str = "a") -> dict[str, Any]:
    counters = {"in_messages": messages, "in_bytes": messages * 10, "out_messages": 0, "out_bytes": 0}
    return row(second, "statsz", server=server, slow_consumers=slow, connections=3, **counters)


ROWS = [
    stats(0, 100),
    stats(10, 300, slow=1),
    stats(10, 7, server="b<"),
    row(11, "disconnect", account="APP", client="reader", reason="Slow Consumer (Pending Bytes)"),
    row(12, "disconnect", account="APP", client="other", reason="Client Closed"),
    stats(15, 50, slow=0),  # the server began again
    stats(20, 7, server="b<"),
    row(21, "query", query="orders.table", lag=5, status="running"),
    row(22, "query", query="orders.table", status="failed", reason="no space left"),
]


def write(folder: Path, rows: list[dict[str, Any]]) -> None:
    schema = pa.schema([("time", pa.timestamp("us"))])
    for name in COLUMNS[1:]:
        kinds = {type(one[name]) for one in ROWS if one[name] is not None}
        schema = schema.append(pa.field(name, pa.int64() if kinds == {int} else pa.string()))
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "part-0.parquet")


def test_counters_become_rates_also_over_a_restart_of_the_server() -> None:
    found = operations_of(ROWS)
    assert [rate for _, rate in found.rates("in_messages", "a")] == [20.0, 10.0]
    assert found.total("in_messages", "a") == 250
    assert (found.total("slow_consumers", "a"), found.total("in_bytes", "b<")) == (1, 0)
    assert [lag for _, lag in found.lag["orders.table"]] == [5]
    assert [(what, who) for _, what, who in found.events] == [
        ("slow consumer", "reader of account APP: Slow Consumer (Pending Bytes)"),
        ("query failed", "orders.table: no space left"),
    ]


def test_two_reports_of_one_moment_are_no_rate() -> None:
    assert operations_of([stats(1, 1), stats(1, 5), stats(2, 6)]).rates("in_messages", "a")[0][1] == 1.0


def test_a_report_is_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "ops", list(reversed(ROWS)))  # files and rows in no order
    assert main(
        ["headrace", "pipeline", "report", str(tmp_path / "ops"), "--out", str(tmp_path / "r.html")]
    ) in (0, None)
    assert capsys.readouterr().out == f"{tmp_path}/r.html: 9 events, 2 servers, 1 query\n"
    html = (tmp_path / "r.html").read_text()
    assert '<img alt="charts" src="data:image/png;base64,iVBOR' in html
    assert "<td>b&lt;</td>" in html
    assert "<td>reader of account APP: Slow Consumer (Pending Bytes)</td>" in html
    assert "<td>a</td><td>250</td><td>2,500</td><td>0</td><td>0</td><td>1</td><td>20</td><td>3</td>" in html
    write_report(tmp_path / "ops", tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_without_rows_of_servers_is_said_to_have_none(tmp_path: Path) -> None:
    write(tmp_path, ROWS[3:4])
    assert write_report(tmp_path, tmp_path / "r.html").rows == 1


def test_what_is_no_table_of_operations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableReplayError, match="holds no Parquet files"):
        read_operations(tmp_path)
    pq.write_table(pa.table({"time": [START]}), tmp_path / "a.parquet")
    with pytest.raises(HeadraceError, match="no table of the pipeline 'operations': it has no column kind"):
        read_operations(tmp_path)
    with pytest.raises(HeadraceError, match=r"written as \.html or \.png"):
        write_report(tmp_path, tmp_path / "r.pdf")


def test_a_server_that_sends_no_events_is_told_before_anything_is_started(tmp_path: Path) -> None:
    text = """\
sources:
  a: {format: nats, options: {subject: "$SYS.SERVER.*.STATSZ"}}
  b: {format: nats, options: {subject: orders}}
sinks: {out: {from: a, format: console}}
"""
    with Server() as server:
        spec = read_spec(f'nats: {{url: "{server.url}"}}\n' + text, tmp_path / "spec.yaml")
        with pytest.raises(ConfigError) as caught:
            check_events(spec)
        (problem,) = caught.value.problems
        assert str(problem).startswith(f'{tmp_path}/spec.yaml:3:31: source "a": the server sends its events')
        assert "system_account" in str(problem)
        check_events(
            read_spec(
                f'nats: {{url: "{server.url}"}}\n' + text.replace("$SYS", "SYS"), tmp_path / "spec.yaml"
            )
        )


def test_a_server_sends_its_events_to_users_of_the_system_account(tmp_path: Path) -> None:
    configuration = "accounts { SYS { users: [{user: s, password: s}] } }, system_account: SYS"
    options = load_options(text=configuration, environ={}, overrides={"host": "127.0.0.1", "port": -1})
    text = """\
sources: {a: {format: nats, options: {subject: "$SYS.SERVER.*.STATSZ"}}}
sinks: {out: {from: a, format: console}}
"""
    with Server(options) as server:
        url = server.url.replace("//", "//s:s@")
        check_events(read_spec(f'nats: {{url: "{url}"}}\n' + text, tmp_path / "spec.yaml"))
