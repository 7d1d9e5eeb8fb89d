"""kill -9 of a process that archives and merges: the next one goes on, and every message is there once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from headrace.log.port import NewMessage
from headrace.log.store import FileStore
from headrace.tables import Table, open_store
from headrace.tables.verify import verify

COUNT = 1500
KILLS = 5
WRITER = Path(__file__).with_name("table_writer.py")


def run_and_kill(directory: Path, table: Path, lines: int, delay: float) -> bool:
    """Kills the writer `delay` seconds after so many lines; whether it was still at work."""
    command = [sys.executable, str(WRITER), str(directory), str(table)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            if process.stdout.readline() in ("done\n", ""):
                break
        time.sleep(delay)
        process.kill()
        rest = process.stdout.read()
    return "done" not in rest and process.returncode != 0


def test_killed_again_and_again(tmp_path: Path) -> None:
    chance = random.Random(11)
    store = FileStore(tmp_path / "store")
    store.open(b"orders").append([NewMessage(b"orders", b"%d" % n) for n in range(1, COUNT + 1)])
    store.close()
    where = tmp_path / "orders"
    killed = 0
    for _ in range(KILLS):
        killed += run_and_kill(tmp_path / "store", where, chance.randrange(2, 25), chance.random() / 50)
        table = Table(open_store(str(where)))
        seen = [n for batch in table.batches(["sequence"]) for n in batch.column("sequence").to_pylist()]
        assert seen == list(range(1, len(seen) + 1))

    subprocess.run([sys.executable, str(WRITER), str(tmp_path / "store"), str(where)], check=True)

    assert killed > 1, "it was too quick to be killed"
    rows = [row for batch in table.batches(["sequence", "data"]) for row in batch.to_pylist()]
    assert rows == [{"sequence": n, "data": b"%d" % n} for n in range(1, COUNT + 1)]
    assert verify(table) == []
    assert len(list(where.rglob("*.parquet"))) == len(table.manifest().files) + len(table.manifest().retired)
