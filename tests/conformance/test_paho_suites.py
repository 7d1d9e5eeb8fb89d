"""The interoperability suites of Eclipse Paho, where HEADRACE_PAHO names the folder `interoperability` of a
checkout of eclipse/paho.mqtt.testing; skipped elsewhere.

`run_paho.py` runs a test of theirs in a process of its own and changes none, but a client id with a space:
nats-server refuses it, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from harness.mqtt_servers import mqtt_port, started
from harness.processes import HEADRACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.processes import ServerProcess

CHECKOUT: Final = os.environ.get("HEADRACE_PAHO", "")
FILES: Final = {"3": "client_test.py", "5": "client_test5.py"}
TEST_SECONDS: Final = 120

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not CHECKOUT, reason="HEADRACE_PAHO names no checkout of eclipse/paho.mqtt.testing"),
]


def names(suite: str) -> list[str]:
    """The tests of a suite, from its text: importing it would run it."""
    if not CHECKOUT:
        return []
    source = (Path(CHECKOUT) / FILES[suite]).read_text(encoding="utf-8")
    return re.findall(r"^    def (test\w*)\(", source, re.MULTILINE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One with a filter that is forbidden and a keep alive of at most a minute, as some of the tests want."""
    users = (
        "no_auth_user: paho\nauthorization { users: [ "
        '{user: paho, password: p, permissions: {subscribe: {deny: ["test.nosubscribe"]}}} ] }'
    )
    folder = tmp_path_factory.mktemp("paho")
    with started(HEADRACES[0], folder, mqtt='max_keep_alive: "60s"', more=users) as running:
        yield running


@pytest.mark.parametrize(("suite", "name"), [(suite, name) for suite in FILES for name in names(suite)])
def test_test_of_paho_passes(server: ServerProcess, suite: str, name: str) -> None:
    runner = Path(__file__).with_name("run_paho.py")
    command = [sys.executable, str(runner), suite, "127.0.0.1", str(mqtt_port(server)), name, "--no-space-id"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=TEST_SECONDS,
        check=False,
        env={**os.environ, "PAHO": CHECKOUT},
    )

    assert done.stdout.startswith("PASS"), f"{done.stdout}{done.stderr}"
