"""The image and the compose file name what is there, and the server takes the commands that they give it.

Docker itself is not asked: what it would do with a command is done here with the same words.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from harness.ports import free_port
from harness.processes import EPOLL, ServerProcess
from headrace.cli.flags import read_invocation
from headrace.conf.binding import load_options

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS: Final = [
    (name, re.sub(r"\\\n", " ", words).strip())
    for name, words in re.findall(r"^([A-Z]+) ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
]


def words_of(name: str) -> list[str]:
    return [words for found, words in INSTRUCTIONS if found == name]


def executed(name: str) -> list[str]:
    """The command of an instruction that is written as JSON, the last one of its kind."""
    words: list[str] = json.loads(words_of(name)[-1])
    return words


def compose() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return read


def is_sent(name: str) -> bool:
    """True if a file of the repository goes to Docker."""
    rules = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    sent = True
    for rule in rules:
        pattern = rule.removeprefix("!")
        below = (part.as_posix() for part in (Path(name), *Path(name).parents) if part != Path())
        anywhere = pattern.startswith("**/")
        if any(
            fnmatch(part.rpartition("/")[2] if anywhere else part, pattern.removeprefix("**/"))
            for part in below
        ):
            sent = rule.startswith("!")
    return sent


def test_what_the_image_is_built_from_is_sent_to_docker() -> None:
    project = (ROOT / "setup.py").read_text(encoding="utf-8")
    read = set(re.findall(r'ROOT / "([^"]+)"', project)) | {"setup.py", "requirements/base.txt", "LICENSE"}

    assert {"README.md", "pyproject.toml"} <= read
    assert all((ROOT / name).is_file() and is_sent(name) for name in read)
    assert is_sent("src/headrace/engine/client.pyx")
    assert not is_sent("src/headrace/engine/client.cpython-311-x86_64-linux-gnu.so")
    assert not is_sent("tests/conftest.py")
    assert not is_sent(".venv/bin/python")
    copied = [words.split()[0] for words in words_of("COPY") if not words.startswith("--from")]
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_runs_as_nobody_in_particular_with_its_streams_in_a_volume() -> None:
    arguments = executed("CMD")
    invocation = read_invocation(arguments[1:])
    volume = words_of("VOLUME")[-1]

    assert executed("ENTRYPOINT") == ["headrace"]
    assert arguments[0] == "serve"
    assert invocation.jetstream == {"enabled": True, "store_dir": volume}
    assert int(words_of("USER")[-1].partition(":")[0]) > 0
    assert words_of("EXPOSE")[-1].split() == ["4222", str(invocation.overrides["http_port"])]
    last = [name for name, _ in INSTRUCTIONS].index("USER")
    assert not [name for name, _ in INSTRUCTIONS[last:] if name in ("RUN", "COPY", "ADD")]


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[tuple[ServerProcess, list[str]]]:
    """A server with monitoring, and the image's check of health at its port."""
    port = free_port()
    server = ServerProcess(EPOLL, tmp_path, "-m", str(port))
    _, words = words_of("HEALTHCHECK")[-1].split(" CMD ", 1)
    program, *arguments = json.loads(words)
    assert program == "python"
    yield server, [sys.executable, *(word.replace(":8222/", f":{port}/") for word in arguments)]
    server.stop()


def test_the_check_of_health_tells_a_server_that_is_well_from_none(
    checked: tuple[ServerProcess, list[str]],
) -> None:
    server, command = checked

    well = subprocess.run(command, capture_output=True, check=False)
    server.stop()
    gone = subprocess.run(command, capture_output=True, check=False)

    assert well.returncode == 0, well.stderr
    assert gone.returncode == 1


def test_the_compose_file_starts_the_server_with_a_configuration_that_is_right() -> None:
    services = compose()["services"]
    server = services["headrace"]
    mounts = dict(each.split(":")[:2] for each in server["volumes"])
    invocation = read_invocation(server["command"][1:])
    options = load_options(str(DEPLOY / "headrace.conf"))
    (volume,) = (path for name, path in mounts.items() if not name.startswith("."))
    published = [each.rsplit(":", 1)[-1] for each in server["ports"]]

    assert mounts["./headrace.conf"] == invocation.config_file
    assert not options.warnings
    assert options.jetstream is not None
    assert options.jetstream.store_dir == volume
    assert published == [str(options.port), str(options.http_port)]
    assert (ROOT / "deploy" / server["build"]).resolve() == ROOT
    assert options.lame_duck_duration < float(server["stop_grace_period"].removesuffix("s"))


def test_files_that_the_compose_file_mounts_are_there() -> None:
    services = compose()["services"]
    mounted = [
        each.split(":")[0]
        for service in services.values()
        for each in service.get("volumes", ())
        if each.startswith(".")
    ]

    assert len(mounted) == 4
    assert all((DEPLOY / name).exists() for name in mounted)


def test_prometheus_asks_the_server_for_what_it_exports() -> None:
    yaml = pytest.importorskip("yaml")
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    (targets,) = job["static_configs"]
    options = load_options(str(DEPLOY / "headrace.conf"))

    assert targets["targets"] == [f"headrace:{options.http_port}"]
    assert "headrace" in compose()["services"]
    assert job["params"] == {"jsz": ["all"]}
    assert "metrics_path" not in job  # /metrics
