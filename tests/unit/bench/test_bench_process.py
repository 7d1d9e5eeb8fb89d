"""Commands, counters of processes, and where a result comes from."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench.cases import Fill, case_named
from bench.errors import BenchError
from bench.generator import GRACE_S, Phases, Target, load_command, parse_report
from bench.machine import cpu_model, machine_class
from bench.process import Command, await_rest, cpu_ns, machine_cpu_ns, pinned
from bench.runner import version_text
from bench.sides import side_command

ROOT = Path(__file__).parents[3]


def test_command_words_fill_ports_and_append_extras():
    command = Command("serve -p {port} -m {http}")
    assert command.words(1, 2, ("--tls",)) == ["serve", "-p", "1", "-m", "2", "--tls"]


def test_command_label_names_no_directory():
    command = Command("/opt/x/bin/python -m headrace -p {port}", {"HEADRACE_TRANSPORT": "asyncio"})
    assert command.label == "HEADRACE_TRANSPORT=asyncio python -m headrace -p {port}"


def test_side_command_adds_its_flags_and_writes_its_configuration(tmp_path):
    plain = Command("nats-server -p {port} -m {http}")
    command = side_command("jetstream-always", Command("headrace"), plain)
    assert command.words(1, 2, directory=tmp_path)[-2:] == ["-c", str(tmp_path / "server.conf")]
    text = (tmp_path / "server.conf").read_text()
    assert text == f'jetstream {{ store_dir: "{tmp_path}", sync_interval: always }}\n'
    assert command.label.endswith('# {config}: jetstream { store_dir: "{dir}", sync_interval: always }')


def test_side_command_of_a_mesh_starts_a_second_node_that_knows_the_first():
    command = side_command("mesh-to-peer", Command("headrace -p {port}"), Command("nats-server -p {port}"))
    assert command.far is not None
    assert " ".join(command.words(1, 2, route=3)).startswith("headrace -p 1 --cluster nats://127.0.0.1:3 ")
    assert command.far.words(4, 5, route=6, near=3)[-2:] == ["--routes", "nats://127.0.0.1:3"]
    assert command.label.count("--cluster_name bench") == 2


def test_load_command_of_a_mesh_names_both_nodes(tmp_path):
    case = case_named("hop-16")
    words = load_command(case, case.entries[0], Target(1, 2, tmp_path, (3, 4)), Phases(0.5, 2.0))
    assert "--port 1 --pid 2 --far-port 3 --far-pid 4" in " ".join(words)


def test_load_command_of_a_stored_stream_has_its_dialect_and_count_and_no_time(tmp_path):
    case = case_named("durable-delivery")
    words = load_command(case, case.entries[1], Target(1, 2, tmp_path), Phases(0.5, 2.0), Fill(7, 128))
    text = " ".join(words)
    assert "consume --payload 128 --durable --inflight 1024 --speak jetstream --count 7 --port 1" in text
    assert "--seconds" not in words
    assert words[-1] == str(0.5 + 2.0 + GRACE_S + case.patience_s)


def test_side_command_of_a_plain_side_is_the_command_it_is_made_of():
    ours = Command("headrace -p {port}", {"A": "b"}, "0")
    assert side_command("server", ours, Command("nats-server")) == ours


def test_pinned_without_cpus_changes_nothing():
    assert pinned(["a"], None) == ["a"]


def test_pinned_without_taskset_raises(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchError, match="taskset"):
        pinned(["a"], "0")


def test_cpu_ns_of_a_process_without_children_equals_its_own_clock():
    """In a process of its own: this one may have children, whose time counts too."""
    code = (
        "import os, time; from bench.process import cpu_ns; before = time.process_time_ns();"
        " print(before, cpu_ns(os.getpid()), time.process_time_ns())"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    before, seen, after = map(int, said.stdout.split())
    assert before <= seen <= after


def test_cpu_ns_counts_children_that_run():
    burning = "import time\nwhile time.process_time() < 0.05: pass\nprint(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", burning], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        own = time.process_time_ns()
        assert cpu_ns(os.getpid()) >= own + 50_000_000
        child.communicate(b"\n")


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


def test_a_start_is_over_when_the_process_uses_no_more_cpu():
    busy = "import time\nwhile time.process_time() < 0.5: pass\nprint('at rest', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        while cpu_ns(process.pid) < 200_000_000:
            time.sleep(0.01)
        await_rest(process)
        assert cpu_ns(process.pid) >= 500_000_000
        process.kill()
