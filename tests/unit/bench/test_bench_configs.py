"""`python -m bench config`: what it checks and what it writes; not how fast."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

import pytest
from bench import configs
from bench.configs import add_arguments, config_text, configuration, run_configs
from bench.errors import BenchError

from headrace.conf.binding import load_options

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN: dict[str, object] = {
    "created": "today",
    "command": "python -m bench config",
    "machine": {"cpu": "C", "cores": 2},
    "python": "3",
}


def test_the_configuration_has_users_with_permissions() -> None:
    users = load_options(text=configuration(3), environ={}).authorization.users
    assert [user.user for user in users] == ["user0", "user1", "user2"]
    assert all(user.permissions is not None for user in users)


def test_a_run_writes_a_result_and_fills_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- bench:config -->\n<!-- /bench:config -->\n")
    monkeypatch.setattr(configs, "SECTION", configs.SECTION._replace(results=tmp_path, page=page))
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert run_configs(parser.parse_args(["--reps", "1", "--users", "2"]), ORIGIN) == 0
    result = json.loads((tmp_path / "config.json").read_text())
    assert list(result["checks"]) == list(configs.commands("nats-server"))
    assert all(found["cpu"] > 0 and found["seconds"] > 0 for found in result["checks"].values())
    assert config_text(result) in page.read_text()


def test_a_check_that_fails_is_no_measurement() -> None:
    with pytest.raises(BenchError, match="wrong"):
        configs._measured((sys.executable, "-c", "raise SystemExit('wrong')"))
