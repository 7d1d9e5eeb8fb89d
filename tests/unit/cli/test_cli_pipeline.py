"""`headrace pipeline`: arguments, exit codes and what is said, without a Spark."""

from __future__ import annotations

import os
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from headrace.cli.main import main

needs_spark = pytest.mark.skipif(
    find_spec("pyspark") is None, reason="a specification is read with PySpark's types"
)


def run(*arguments: object) -> int:
    return main(["headrace", "pipeline", *map(str, arguments)])


@needs_spark
def test_list_new_and_check_lead_to_a_good_specification(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("list") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert "archive" in names
    for name in names:
        assert run("new", name) == 0
        assert (
            f"next: edit its parameters, then headrace pipeline check {name}.yaml" in capsys.readouterr().out
        )
        assert run("check", f"{name}.yaml") == 0
        assert f"{name}.yaml: pipeline {name} is good: " in capsys.readouterr().out


@needs_spark
def test_the_environment_is_for_a_shell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # and back again
    assert run("environment") == 0
    names = dict(line.removeprefix("export ").split("=", 1) for line in capsys.readouterr().out.splitlines())
    assert (Path(names["JAVA_HOME"]) / "bin" / "java").exists()
    assert names["PYSPARK_PYTHON"] == shlex.quote(sys.executable)


def test_new_never_writes_over_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    assert run("new", "archive", file) == 0
    file.write_text("mine")
    assert run("new", "archive", file) == 1
    assert file.read_text() == "mine"
    assert run("new", "archive", "-") == 0
    assert capsys.readouterr().out.count("pipeline: archive\n") == 1
    assert run("new", "archiv") == 1
    assert "did you mean archive?" in capsys.readouterr().err


@needs_spark
def test_a_bad_specification_is_code_2_with_every_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("sorces: {}\nsinks: {}\ntrigger: x\n")
    for command in ("check", "run"):
        assert run(command, file) == 2
        assert capsys.readouterr().err.splitlines() == [
            f'{file}:1:1: unknown field "sorces" (did you mean "sources"?)',
            f"{file}:1:1: sources: is missing (what to read)",
            f'{file}:3:10: trigger: cannot be "x" (once, or a duration such as 500ms or 1m)',
        ]
    assert run("check", tmp_path / "none.yaml") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("rnu",),
        ("run",),
        ("run", "x.yaml", "--set", "novalue"),
        ("run", "x.yaml", "--metrics", "70000"),
        ("run", "x.yaml", "--metrics", "port"),
    ],
)
def test_wrong_use_is_code_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    assert "usage: headrace pipeline" in capsys.readouterr().err


@needs_spark
def test_parameters_are_set_from_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("new", "archive", tmp_path / "a.yaml") == 0
    assert run("check", tmp_path / "a.yaml", "--set", "stream=a b") == 2
    assert "option stream: 'a b' is not the name of a stream" in capsys.readouterr().err
