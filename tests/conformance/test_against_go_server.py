"""The same bytes to the Go server and to Headrace: the same bytes come back, the same connections stay open.

Where the two differ the Go server is right; `DIFFERENCES` lists what is not so yet, or never will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.conftest import Served
from conformance.script_configs import CONFIGS, DIFFERENCES
from conformance.scripts import Script, play
from conformance.wire_files import scripts
from harness.processes import HEADRACES, NATS_SERVER

if TYPE_CHECKING:
    from conformance.conftest import CurrentServer

pytestmark = pytest.mark.clients


def cases() -> list[Any]:
    """(Headrace to compare, script), scripts of one configuration side by side."""
    rows = [(served, script) for script in scripts() for served in HEADRACES]
    order = list(CONFIGS)
    rows.sort(key=lambda row: order.index(row[1].config))
    return [
        pytest.param(program, script, id=f"{script.name}-{program}", marks=marks(script))
        for program, script in rows
    ]


def marks(script: Script) -> list[pytest.MarkDecorator]:
    reason = DIFFERENCES.get(script.name)
    return [pytest.mark.xfail(strict=True, reason=reason)] if reason else []


@pytest.mark.parametrize(("program", "script"), cases())
def test_script_is_answered_as_the_go_server_answers(
    current: CurrentServer, program: Any, script: Script
) -> None:
    config = CONFIGS[script.config]
    everyone = [Served(each, config) for each in (NATS_SERVER, *HEADRACES)]
    servers = dict(zip(everyone, current.serve(*everyone), strict=True))

    reference = play(script, servers[Served(NATS_SERVER, config)])
    ours = play(script, servers[Served(program, config)])

    assert ours.text() == reference.text()


def test_script_names_are_unique() -> None:
    names = [script.name for script in scripts()]

    assert len(names) == len(set(names))
    assert DIFFERENCES.keys() <= set(names)
