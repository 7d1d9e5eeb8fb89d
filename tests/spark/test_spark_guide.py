"""docs/guide.md does what it says: its programs are run as they stand there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headrace.client.blocking import connect
from headrace.client.replay import replay
from headrace.conf.streaming_options import StreamingOptions
from headrace.testing import Server

pytestmark = pytest.mark.spark

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"


@pytest.mark.usefixtures("spark")
def test_the_guides_programs_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    feed, pipeline = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    with Server(streaming=StreamingOptions(cluster_id="guide")) as server:
        monkeypatch.setenv("NATS_URL", server.url)
        for orders in (1000, 2000):
            exec(compile(feed, "feed.py", "exec"), {"__name__": "__main__"})
            # Environment and relative paths are the JVM's, which the tests share.
            url = f'url="{server.url}", clusterId='
            here = pipeline.replace("clusterId=", url).replace('"orders-table"', f'"{tmp_path}/orders-table"')
            here = here.replace('"checkpoints/', f'"{tmp_path}/checkpoints/')
            exec(compile(here, "pipeline.py", "exec"), {"__name__": "__main__"})
            assert capsys.readouterr().out == f"{orders} orders in the table\n"
        with connect(server.url) as nc:
            stored = [one for batch in replay(nc, "guide", "totals") for one in batch.payloads]
    spent = {found["customer"]: found["sum(amount)"] for found in map(json.loads, stored)}
    assert spent == {f"c{c}": sum(3.0 * (n % 7) for n in range(c, 1000, 5)) for c in range(5)}
