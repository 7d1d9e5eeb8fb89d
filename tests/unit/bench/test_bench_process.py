"""Commands, counters of processes, and where a result comes from."""

import os
import time

import pytest
from bench.errors import BenchError
from bench.generator import parse_report
from bench.machine import cpu_model, machine_class
from bench.process import Command, cpu_ns, machine_cpu_ns, pinned
from bench.runner import version_text


def test_command_words_fill_ports_and_append_extras():
    command = Command("serve -p {port} -m {http}")
    assert command.words(1, 2, ("--tls",)) == ["serve", "-p", "1", "-m", "2", "--tls"]


def test_command_label_names_no_directory():
    command = Command("/opt/x/bin/python -m headrace -p {port}", {"HEADRACE_TRANSPORT": "asyncio"})
    assert command.label == "HEADRACE_TRANSPORT=asyncio python -m headrace -p {port}"


def test_pinned_without_cpus_changes_nothing():
    assert pinned(["a"], None) == ["a"]


def test_pinned_without_taskset_raises(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchError, match="taskset"):
        pinned(["a"], "0")


def test_cpu_ns_of_this_process_equals_its_own_clock():
    before = time.process_time_ns()
    seen = cpu_ns(os.getpid())
    assert before <= seen <= time.process_time_ns()


def test_machine_cpu_ns_is_at_least_that_of_this_process():
    assert machine_cpu_ns() >= cpu_ns(os.getpid()) - 10**9


def test_cpu_model_is_read_from_cpuinfo():
    assert cpu_model("processor : 0\nmodel name\t: AMD EPYC\n") == "AMD EPYC"
    assert cpu_model("processor : 0\n") == "unknown"


def test_machine_class_names_no_host():
    assert os.uname().nodename not in map(str, machine_class().values())


@pytest.mark.parametrize("text", ["", "[]", '{"published": "many"}', "null"])
def test_parse_report_anything_but_numbers_raises(text):
    with pytest.raises(BenchError, match="not a report"):
        parse_report(text)


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"go": "go1.26", "version": "2.15.1"}, "nats-server 2.15.1"),
        ({"git_commit": "headrace-0.1.0", "version": "2.15.1"}, "headrace 0.1.0 (speaks 2.15.1)"),
    ],
)
def test_version_text_tells_the_two_servers_apart(info, text):
    assert version_text(info) == text
