"""What a notebook shows of a stream or channel, without a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.processes import NATS_SERVER, ServerProcess
from headrace.client.blocking import connect
from headrace.client.jetstream_api import JetStreamApi
from headrace.errors import HeadraceError
from headrace.spark import stream
from headrace.testing import Server

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.clients
def test_a_jetstream_stream(tmp_path: Path) -> None:
    with (
        ServerProcess(NATS_SERVER, tmp_path, "-js", "-sd", str(tmp_path / "jetstream")) as process,
        connect(process.url) as connection,
    ):
        api = JetStreamApi(connection)
        api.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders"]})
        orders = stream("ORDERS", process.url)
        assert "<th>sequences</th><td>none</td>" in orders._repr_html_()
        for number in range(7):
            connection.request("orders", b"<%d>" % number)
        assert (orders.info().messages, orders.info().last_sequence) == (7, 7)
        html = orders._repr_html_()
        assert "<th>messages</th><td>7</td>" in html
        assert "<code>&lt;6&gt;</code>" in html
        assert "&lt;1&gt;" not in html
        assert [(sequence, data) for sequence, _, data in orders.last(2)] == [(6, b"<5>"), (7, b"<6>")]
        assert "there is no stream NONE" in stream("NONE", process.url)._repr_html_()


def test_what_cannot_be_shown_says_why() -> None:
    with Server() as server:
        shown = stream("ORDERS", server.url, reconnectTimeout="100ms")._repr_html_()
        assert "cannot read stream ORDERS" in shown
        shown = stream("orders", server.url, kind="channel", reconnectTimeout="100ms")._repr_html_()
        assert "cannot read channel orders of cluster test-cluster" in shown
    with pytest.raises(HeadraceError, match="neither stream nor channel"):
        stream("orders", kind="subject")
    with pytest.raises(HeadraceError, match="one is shown at a time"):
        stream("a,b")
    for name, kind in (("orders.*", "channel"), ("ORDERS*", "stream")):
        with pytest.raises(HeadraceError, match="may mean several"):
            stream(name, kind=kind)
