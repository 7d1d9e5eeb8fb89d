"""The native generator against a small broker that can misbehave: no wrong count is ever printed."""

import json
import socket
import subprocess
import threading
from contextlib import contextmanager

import pytest
from bench.generator import build_generator


class Broker:
    """Delivers publishes to exact and `x.*` subscriptions, one message at a time; `fault` spoils it."""

    def __init__(self, fault):
        self.fault = fault
        self.subscribers = []
        self.published = 0
        self.lock = threading.Lock()
        self.threads = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self._start(self._accept)

    def _start(self, run, *args):
        thread = threading.Thread(target=run, args=args)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client):
        with client, client.makefile("rb") as lines:
            try:
                client.sendall(b"INFO {}\r\n")
                while line := lines.readline():
                    self._take(client, line.split(), lines)
            except OSError:
                # The generator left, which is how half of these tests end.
                return

    def _take(self, client, words, lines):
        if words[0] == b"PING":
            client.sendall(b"PONG\r\n")
        elif words[0] == b"SUB":
            self.subscribers.append((client, words[1], words[2]))
        elif words[0] in (b"PUB", b"HPUB"):
            body = lines.read(int(words[-1]) + 2)
            with self.lock:
                self._deliver(client, words, body)

    def _deliver(self, publisher, words, body):
        self.published += 1
        subject, reply = words[1], words[2:3] if words[0] == b"PUB" and len(words) == 4 else []
        head = b"MSG" if words[0] == b"PUB" else b"HMSG"
        sizes = words[-1:] if words[0] == b"PUB" else words[-2:]
        if self.fault == "error" and self.published == 3:
            publisher.sendall(b"-ERR 'Permissions Violation'\r\n")
        if self.fault == "close" and self.published == 3:
            publisher.shutdown(socket.SHUT_RDWR)
        copies = {"drop": 0, "twice": 2}.get(self.fault, 1) if self.published == 3 else 1
        if self.fault == "garble" and self.published == 3:
            body = b"\0" * len(body)
        for client, wanted, sid in self.subscribers:
            if wanted in (subject, subject.rsplit(b".", 1)[0] + b".*"):
                frame = b" ".join([head, subject, sid, *reply, *sizes]) + b"\r\n" + body
                client.sendall(b"PING\r\n" + frame * copies)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join()


@contextmanager
def broker(fault=None):
    running = Broker(fault)
    try:
        yield running
    finally:
        running.close()


def run_generator(port, mode, *words):
    limits = ["--warmup", "0", "--seconds", "5", "--deadline", "10"]
    command = [str(build_generator()), mode, "--port", str(port), *limits, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


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
