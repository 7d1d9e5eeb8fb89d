"""The native generator over MQTT against a broker that can misbehave: no wrong count is ever printed."""

import json
import socket
import threading
from contextlib import contextmanager

import pytest
from bench_broker import run_generator

CONNECT, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, PINGREQ = 1, 3, 4, 5, 6, 7, 8, 12


class Broker:
    """Delivers each message to all subscribers of its topic; `fault` changes what happens with the third."""

    def __init__(self, fault):
        self.fault = fault
        self.subscribers = []
        self.published = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.threads.append(threading.Thread(target=self._serve, args=(client,)))
            self.threads[-1].start()

    def _serve(self, client):
        with client, client.makefile("rb") as stream:
            try:
                while first := stream.read(1):
                    size = shift = 0
                    while True:
                        (byte,) = stream.read(1)
                        size |= (byte & 127) << shift
                        shift += 7
                        if byte < 128:
                            break
                    body = stream.read(size)
                    with self.lock:
                        self._take(client, first[0], body)
            except (OSError, ValueError):
                # The generator left, which is how half of these tests end.
                return

    def _take(self, client, first, body):
        kind = first >> 4
        if kind == CONNECT:
            client.sendall(b"\x20\x02\x00" + (b"\x05" if self.fault == "refuse" else b"\x00"))
        elif kind == SUBSCRIBE:
            self.subscribers.append((client, body[2:-1]))
            client.sendall(b"\x90\x03" + body[:2] + body[-1:])
        elif kind == PINGREQ:
            client.sendall(b"\xd0\x00")
        elif kind == PUBREC:
            client.sendall(b"\x62\x02" + body)
        elif kind == PUBREL:
            client.sendall(b"\x70\x02" + body)
        elif kind == PUBLISH:
            self._publish(client, first, body)

    def _publish(self, client, first, body):
        self.published += 1
        is_third = self.published == 3
        qos, at = first >> 1 & 3, 2 + int.from_bytes(body[:2], "big")
        if qos and not (is_third and self.fault == "unacknowledged"):
            number = b"\x77\x77" if is_third and self.fault == "foreign" else body[at : at + 2]
            client.sendall((b"\x40\x02" if qos == 1 else b"\x50\x02") + number)
        if is_third and self.fault == "garble":
            body = body[:-1] + b"#"
        size = bytes([len(body)]) if len(body) < 128 else bytes([len(body) & 127 | 128, len(body) >> 7])
        packet = bytes([first]) + size + body
        if is_third and self.fault == "swap":
            self.kept = packet
            return
        copies = {"drop": 0, "twice": 2}.get(self.fault, 1) if is_third else 1
        late = self.kept if self.published == 4 and self.fault == "swap" else b""
        for subscriber, topic in self.subscribers:
            if topic == body[:at]:
                data = packet * copies + late
                pieces = [data[i : i + 7] for i in range(0, len(data), 7)]
                for piece in pieces if self.fault == "pieces" else [data]:
                    subscriber.sendall(piece)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join()


@contextmanager
def broker(fault=""):
    running = Broker(fault)
    try:
        yield running
    finally:
        running.close()


@pytest.mark.parametrize("fault", ["", "pieces"])
@pytest.mark.parametrize(
    ("words", "published", "delivered"),
    [
        (["--count", "20"], 20, 0),
        (["--count", "20", "--fan", "3"], 20, 60),
        (["--count", "20", "--fan", "1", "--flows", "2", "--payload", "0"], 40, 40),
        (["--count", "20", "--fan", "2", "--qos", "1", "--inflight", "7"], 20, 40),
        (["--count", "20", "--fan", "2", "--qos", "2", "--inflight", "7", "--payload", "200"], 20, 40),
        (["--count", "20", "--qos", "1"], 20, 0),
    ],
)
def test_messages_are_counted_exactly(fault, words, published, delivered):
    with broker(fault) as server:
        done = run_generator(server.port, "mqtt", *words)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["published"], report["delivered"]) == (published, delivered)


@pytest.mark.parametrize(
    ("fault", "qos", "says"),
    [
        ("refuse", 0, "CONNECT: the server answered 20 02 00 05"),
        ("twice", 0, "received 21 messages, expected 20"),
        ("twice", 1, "came where"),
        ("garble", 0, "differs from what was published"),
        ("swap", 1, "came where"),
        ("foreign", 1, "for message 30583 where 3 was next"),
        ("foreign", 2, "for message 30583 where 3 was next"),
        ("drop", 0, "time limit"),
        ("drop", 2, "came where"),
        ("unacknowledged", 1, "was next"),
    ],
)
def test_load_of_a_broken_server_fails_and_says_why(fault, qos, says):
    with broker(fault) as server:
        deadline = "0.5" if says == "time limit" else "30"
        words = ("--count", "20", "--fan", "1", "--qos", str(qos), "--inflight", "9", "--deadline", deadline)
        done = run_generator(server.port, "mqtt", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


@pytest.mark.parametrize("words", [("--payload", "2001"), ("--qos", "1", "--payload", "9")])
def test_payload_that_cannot_be_told_is_refused(words):
    done = run_generator(1, "mqtt", *words)
    assert (done.returncode, "--payload" in done.stderr) == (1, True)


def test_idle_clients_are_counted():
    import os

    with broker() as server:
        words = ("--count", "70", "--connections", "16", "--settle", "0.2", "--pid", str(os.getpid()))
        done = run_generator(server.port, "mqtt-idle", *words)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["connects"] == 70
    assert report["pss_after_kb"] > 0
