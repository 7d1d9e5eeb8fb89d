"""The native generator against a small broker that can misbehave: no wrong count is ever printed."""

import json
import subprocess

import pytest
from bench.generator import build_generator
from bench_broker import broker, run_generator


@pytest.mark.parametrize(
    ("words", "published", "delivered"),
    [
        (["--count", "20"], 20, 0),
        (["--count", "20", "--fan", "3"], 20, 60),
        (["--count", "20", "--fan", "1", "--flows", "2"], 40, 40),
        (["--count", "20", "--fan", "1", "--headers", "--payload", "0"], 20, 20),
        (["--count", "20", "--wildcards", "30", "--connections", "3"], 20, 20),
        (["--count", "20", "--wildcards", "30", "--unique"], 20, 20),
        (["--count", "2", "--fan", "1", "--payload", "1000000"], 2, 2),
    ],
)
def test_traffic_counts_exactly(words, published, delivered):
    with broker() as server:
        done = run_generator(server.port, "traffic", *words)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["published"], report["delivered"]) == (published, delivered)


@pytest.mark.parametrize("words", [[], ["--inflight", "7"], ["--flows", "3", "--inflight", "2"]])
def test_requests_are_all_answered(words):
    flows = int(words[1]) if "--flows" in words else 1
    with broker() as server:
        done = run_generator(server.port, "requests", "--count", "20", *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["requests"] == 20 * flows


@pytest.mark.parametrize("fault", ["", "late"])
@pytest.mark.parametrize(
    ("words", "counted", "count"),
    [
        (["traffic", "--count", "20", "--fan", "2"], "delivered", 40),
        (["requests", "--count", "20"], "requests", 20),
        (["interest", "--count", "500"], "told", 500),
    ],
)
def test_load_over_two_nodes_begins_when_interest_is_known(fault, words, counted, count):
    with broker(fault) as server:
        done = run_generator(server.port, *words, "--far-port", str(server.far_port))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[counted] == count


def test_interest_needs_another_node():
    with broker() as server:
        done = run_generator(server.port, "interest", "--count", "5")
    assert (done.returncode, "--far-port" in done.stderr) == (1, True)


def test_connects_are_counted():
    with broker() as server:
        done = run_generator(server.port, "connects", "--count", "12", "--connections", "4")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["connects"] == 12


def test_churn_is_counted():
    with broker() as server:
        done = run_generator(server.port, "traffic", "--flows", "0", "--churn", "1000", "--seconds", "0.1")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert 0 < report["churned"] <= 5000


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("error", "unexpected line -ERR"),
        ("close", "closed a connection"),
        ("twice", "received 21 messages, expected 20"),
        ("garble", "does not end in CRLF"),
    ],
)
def test_traffic_of_a_broken_server_fails_and_says_why(fault, says):
    with broker(fault) as server:
        done = run_generator(server.port, "traffic", "--count", "20", "--fan", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


def test_traffic_with_a_message_missing_fails_at_its_time_limit():
    with broker("drop") as server:
        done = run_generator(server.port, "traffic", "--count", "20", "--fan", "1", "--deadline", "0.2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "time limit" in done.stderr


@pytest.mark.parametrize("words", [[], ["nothing"], ["traffic", "--payload", "-1"], ["traffic", "--no-such"]])
def test_generator_wrong_options_end_with_code_2(words):
    done = subprocess.run([str(build_generator()), *words, "--port", "1"], capture_output=True, check=False)
    assert done.returncode == 2
