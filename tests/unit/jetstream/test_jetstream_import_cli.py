"""`headrace jetstream import` as a command: what it prints, its exit codes, what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from headrace.cli.jetstream import run

GOLDEN = Path(__file__).parent / "golden" / "stores" / "2.15.1" / "store"


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(GOLDEN, tmp_path / "old" / "jetstream")
    return tmp_path / "old" / "jetstream" / "$G" / "streams" / "KEEP"


def test_a_table_of_streams(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "old", "--dir", "new"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "stream           messages  first  last  lost  consumers  not acknowledged",
        "$G > COMPRESSED        80      1    80     0          0                 0",
        "$G > KEEP              17      2    20     0          1                 5",
        "2 streams of 1 accounts, 97 messages, 32,680 bytes of payload, 1 consumers",
    ]


def test_damage_is_listed_and_ends_in_its_exit_code(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = bytearray((old / "msgs" / "1.blk").read_bytes())
    block[400] ^= 1
    (old / "msgs" / "1.blk").write_bytes(block)

    assert run(["import", "old", "--dir", "new"]) == 3
    said = capsys.readouterr().out
    assert "damage in the source:\n  $G/KEEP/msgs/1.blk at " in said
    assert said.endswith("1 message is known to be lost\n")

    assert run(["import", "old", "--dir", "other", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["damaged"] is True
    assert [(one["name"], one["messages"], one["lost"]) for one in document["streams"]] == [
        ("COMPRESSED", 80, 0), ("KEEP", 16, 1)
    ]  # fmt: skip

    (old.parent / "COMPRESSED" / "meta.inf").unlink()
    assert run(["import", "old", "--dir", "third"]) == 3
    said = capsys.readouterr().out
    assert said.endswith("1 message is known to be lost, besides those of what is left out\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["old", "--dir", "old/new"], "may not be one within the other"),
        (["none", "--dir", "new"], "none does not exist"),
        (["old", "--dir", "new", "--key-file", "none"], "No such file or directory: 'none'"),
        (["old", "--dir", "new", "--key-file", "empty"], "empty has no key in it"),
    ],
)
def test_what_is_refused(
    old: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    Path("empty").touch()

    assert run(["import", *arguments]) == 1
    assert said in capsys.readouterr().err
    assert not Path("new").exists()


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "import " in capsys.readouterr().out
    assert run(["imprt"]) == run([]) == 2
    assert "unknown command 'imprt'" in capsys.readouterr().err
