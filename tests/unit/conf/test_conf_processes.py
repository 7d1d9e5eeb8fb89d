"""`processes`: its values, and what does not go together with it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from headrace.conf import processes
from headrace.conf.binding import load_options
from headrace.conf.changes import differences
from headrace.errors import ConfigError


def load(text: str, **overrides: object) -> Any:
    return load_options(text=text, environ={}, overrides=overrides)


def problems(text: str, **overrides: object) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(text, **overrides)
    return [problem.message for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 1), ("processes: 1", 1), ("processes: 256", 256), ('processes: "4"', 4), ("processes: auto", 0)],
)
def test_value(text: str, value: int) -> None:
    assert load(text).processes == value


@pytest.mark.parametrize("text", ["0", "-1", "257", "2.5", '""', "Auto", '"²"'])
def test_wrong_value(text: str) -> None:
    (message,) = problems(f"processes: {text}")
    assert "a number from 1 to 256" in message


def test_flag_wins_over_the_file() -> None:
    assert load("processes: 2", processes=3).processes == 3


def test_auto_is_what_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5}, raising=False)
    assert (processes.count(processes.AUTO), processes.count(7)) == (3, 7)

    def unknown(_: int) -> set[int]:
        raise AttributeError

    monkeypatch.setattr(os, "sched_getaffinity", unknown, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processes.count(processes.AUTO) == 1


def test_a_change_needs_a_restart() -> None:
    (change,) = differences(load("processes: 2"), load("processes: 3"))
    assert (change.path, change.needs_restart) == ("processes", True)


TLS = 'tls { cert_file: "c", key_file: "k" }'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('streaming { nats_server: "nats://h:1" }', "streaming uses a NATS server elsewhere"),
        ('cluster { listen: "127.0.0.1:65535" }', "2 processes need as many cluster ports from 65535 on"),
    ],
)
def test_what_does_not_go_together(text: str, message: str) -> None:
    assert load(text).processes == 1
    (found,) = problems(f"{text}\nprocesses: 2")
    assert message in found


@pytest.mark.parametrize(
    ("host", "advertise", "is_wrong"),
    [("0.0.0.0", None, True), ("::", None, True), ("0.0.0.0", "h:1", False), ("h", None, False)],
)
def test_cluster_with_tls_has_to_name_itself(host: str, advertise: str | None, *, is_wrong: bool) -> None:
    from headrace.conf.peer_options import ClusterOptions
    from headrace.conf.tls_options import TLSOptions

    cluster = ClusterOptions(host=host, port=1, advertise=advertise, tls=TLSOptions("c", "k"))
    found = list(processes.conflicts({"processes": 2, "cluster": cluster}))
    assert bool(found) is is_wrong


@pytest.mark.parametrize(("directory", "is_wrong"), [("d", True), (None, False)])
def test_resolver_with_a_directory_cannot_be_shared(directory: str | None, *, is_wrong: bool) -> None:
    from headrace.conf.operator_options import OperatorOptions, ResolverOptions

    operator = OperatorOptions((), resolver=ResolverOptions("full", directory=directory))
    found = [option for _, option in processes.conflicts({"processes": 2, "operator": operator})]
    assert found == (["resolver"] if is_wrong else [])
