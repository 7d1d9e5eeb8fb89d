"""The native generator on stored streams, against a broker that can misbehave."""

import json
import os

import pytest
from bench_broker import StoredBroker, broker, run_generator

DIALECTS = ["stan", "jetstream"]
READERS = [
    ["--speak", "stan"],
    ["--speak", "stan", "--durable"],
    ["--speak", "jetstream"],
    ["--speak", "jetstream", "--durable"],
    ["--speak", "jetstream", "--batch", "7"],
    ["--speak", "jetstream", "--batch", "7", "--durable"],
    ["--speak", "replay"],
]


def store(fault, *words):
    with broker(fault, StoredBroker) as server:
        done = run_generator(server.port, "store", "--payload", "8", *words)
    return server, done


def consume(fault, *words, stored=20):
    with broker(fault, StoredBroker, stored=stored) as server:
        limits = ["--payload", "8", "--count", "20", "--inflight", "20"]
        done = run_generator(server.port, "consume", *limits, *words)
    return server, done


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("words", [[], ["--inflight", "7"], ["--flows", "3"], ["--warmup", "0.05"]])
def test_store_every_message_is_stored_and_acknowledged_once(dialect, words):
    flows = 3 if "--flows" in words else 1
    server, done = store(None, "--speak", dialect, "--count", "20", *words)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["published"] == 20 * flows
    assert server.stored == 20 * flows * (2 if "--warmup" in words else 1)
    assert report["p50_us"] <= report["p99_us"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("refuse", "no space"),
        ("twice", "not on its way"),
        ("foreign", "acknowledgement"),
        ("lose", "20 messages were acknowledged, 19 are stored"),
    ],
)
def test_store_broken_acknowledgement_fails_and_says_why(dialect, fault, says):
    _, done = store(fault, "--speak", dialect, "--count", "20")
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


@pytest.mark.parametrize("dialect", DIALECTS)
def test_store_acknowledgement_that_never_comes_fails_at_the_time_limit(dialect):
    _, done = store("silent", "--speak", dialect, "--count", "20", "--deadline", "0.2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "time limit" in done.stderr


def test_store_without_a_dialect_fails():
    _, done = store(None, "--count", "20")
    assert done.returncode == 1
    assert "--speak" in done.stderr


@pytest.mark.parametrize("words", READERS)
def test_consume_reads_every_message_and_acknowledges_where_it_must(words):
    server, done = consume(None, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["delivered"] == 20
    silent = words[1] != "stan" and "--durable" not in words
    assert server.acknowledged == (set() if silent else set(range(1, 21)))
    assert server.flow_control_answers == (words == ["--speak", "jetstream"])
    assert server.pulled == ([7, 7, 6] if "--batch" in words else [])


def test_consume_answers_heartbeats():
    server, done = consume(None, "--speak", "stan")
    assert done.returncode == 0, done.stderr
    assert server.heartbeat_answers == 1


@pytest.mark.parametrize("words", READERS)
def test_consume_messages_that_come_in_pieces_are_whole(words):
    _, done = consume("pieces", *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["delivered"] == 20


@pytest.mark.parametrize("words", READERS)
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("gap", "message 4 came after message 2"),
        ("twice", "message 3 came after message 3"),
        ("swapped", "message 4 came after message 2"),
        ("extra", "message 21 came after message 20"),
        ("garble", "payload of message 3 differs"),
    ],
)
def test_consume_wrong_message_fails_and_says_which(words, fault, says):
    _, done = consume(fault, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


@pytest.mark.parametrize("words", READERS[:-1])
def test_consume_redelivery_fails(words):
    _, done = consume("redelivered", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "redelivered" in done.stderr


@pytest.mark.parametrize(
    ("dialect", "says"),
    [("stan", "message 1 came after message 20"), ("jetstream", "1 messages are not ack")],
)
def test_consume_acknowledgement_that_was_not_taken_fails(dialect, says):
    _, done = consume("unacknowledged", "--speak", dialect, "--durable")
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


@pytest.mark.parametrize("words", READERS)
def test_consume_too_few_messages_fails(words):
    _, done = consume(None, *words, "--deadline", "0.2", stored=19)
    assert (done.returncode, done.stdout) == (1, "")
    assert ("19 messages of 20" if words[1] == "replay" else "time limit") in done.stderr


def test_consume_status_in_place_of_messages_fails():
    _, done = consume("status", "--speak", "jetstream", "--batch", "7")
    assert (done.returncode, done.stdout) == (1, "")
    assert "409 Consumer Deleted" in done.stderr


def test_consume_batches_are_jetstreams():
    _, done = consume(None, "--speak", "stan", "--batch", "7")
    assert done.returncode == 1
    assert "--batch with jetstream" in done.stderr


def test_store_goes_round_its_subjects_and_weighs_the_server():
    words = ["--speak", "jetstream", "--count", "20", "--subjects", "6", "--warmup", "0", "--settle", "0"]
    server, done = store(None, *words, "--pid", str(os.getpid()))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert server.subjects == {f"bench.{n:010d}" for n in range(6)}
    assert report["published"] == server.stored == 20
    assert report["pss_before_kb"] > 0 < report["pss_after_kb"]


def test_assets_are_made_and_left_alone():
    words = ["--count", "3", "--fan", "2", "--settle", "0", "--seconds", "0.1", "--pid", str(os.getpid())]
    with broker(None, StoredBroker) as server:
        done = run_generator(server.port, "assets", "--speak", "jetstream", *words)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["created"] == len(server.made) == 9
    assert server.made[3:6] == [
        "STREAM.CREATE.bench-000001",
        *(f"CONSUMER.DURABLE.CREATE.bench-000001.c00000{n}" for n in range(2)),
    ]
    assert report["idle_seconds"] >= 0.1


def test_assets_that_are_refused_fail():
    with broker("refuse", StoredBroker) as server:
        words = ["--speak", "jetstream", "--count", "3", "--pid", str(os.getpid())]
        done = run_generator(server.port, "assets", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no space" in done.stderr


def test_stream_is_asked_for_again_while_servers_have_no_peers():
    server, done = store("no peers", "--speak", "jetstream", "--count", "20", "--replicas", "3")
    assert done.returncode == 0, done.stderr
    assert (len(server.made), server.stored) == (3, 20)


def test_consume_replay_without_its_end_fails_at_the_time_limit():
    _, done = consume("silent", "--speak", "replay", "--deadline", "0.2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "time limit" in done.stderr


def test_store_in_memory_with_an_id_each():
    words = ["--speak", "jetstream", "--count", "20", "--warmup", "0.05", "--ids", "--memory"]
    server, done = store(None, *words)
    assert done.returncode == 0, done.stderr
    assert server.storages == ["memory"]
    assert len(set(server.ids)) == len(server.ids) == 40


def test_store_sends_no_more_than_its_rate():
    words = ["--speak", "jetstream", "--warmup", "0", "--seconds", "0.2", "--rate", "500", "--flows", "2"]
    server, done = store(None, *words)
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout)["published"] == server.stored <= 100


def test_store_ids_are_jetstreams():
    _, done = store(None, "--speak", "stan", "--count", "20", "--ids")
    assert done.returncode == 1
    assert "--ids and --memory with jetstream" in done.stderr


OPERATIONS = ["pull", "ack", "get-subject", "get-sequence"]


def single(fault, operation, *words):
    with broker(fault, StoredBroker) as server:
        limits = ["--payload", "8", "--count", "600", "--subjects", "6", "--seconds", "0.01"]
        done = run_generator(
            server.port, "single", "--speak", "jetstream", *limits, "--operation", operation, *words
        )
    return server, done


@pytest.mark.parametrize("operation", OPERATIONS)
def test_single_operations_are_answered_one_after_the_other(operation):
    server, done = single(None, operation)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert server.stored == 600
    assert report["operations"] % 250 in (0, 100)
    assert 0 < report["p50_us"] <= report["p99_us"]
    reads = operation in ("pull", "ack")
    assert server.acknowledged == (set(range(1, len(server.pulled) + 1)) if reads else set())
    assert set(server.pulled) == ({1} if reads else set())


@pytest.mark.parametrize("operation", ["pull", "ack"])
def test_single_ends_when_all_messages_were_pulled(operation):
    server, done = single(None, operation, "--seconds", "60")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["operations"] == len(server.pulled) == 600


@pytest.mark.parametrize(
    ("operation", "fault", "says"),
    [
        ("pull", "swapped", "message 3 was expected, $JS.ACK.bench.bench.1.4.4.1.0 came"),
        ("pull", "garble", "payload of message 3 differs"),
        ("pull", "redelivered", "message 3 was expected"),
        ("ack", "foreign", "out of order"),
        ("ack", "unacknowledged", "the consumer says"),
        ("get-sequence", "swapped", "message 3 was expected, message 4 came"),
        ("get-sequence", "garble", "payload of message 3 differs"),
        ("get-sequence", "twice", "out of order"),
        ("get-sequence", "missing", "404 Message Not Found"),
        ("get-subject", "refuse", "message 500 was stored as"),
    ],
)
def test_single_wrong_answer_fails_and_says_which(operation, fault, says):
    _, done = single(fault, operation, "--seconds", "60")
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


@pytest.mark.parametrize("words", [["--subjects", "7"], ["--speak", "stan"]])
def test_single_needs_jetstream_and_subjects_that_divide_its_count(words):
    _, done = single(None, "pull", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "single: --speak jetstream" in done.stderr
