"""What clients do in the scenarios of streams in a bucket: the generator's stream, and single questions."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import TYPE_CHECKING, Final, Self

from bench.errors import BenchError
from bench.generator import build_generator, run_load
from bench.stores import STREAM, payload

if TYPE_CHECKING:
    from bench.bucket_cluster import Node
    from bench.generator import Report

PAYLOAD: Final = 2048
"""Bytes of a message."""
WINDOW: Final = 10_000
FILL_WINDOW: Final = 1_000
"""Messages under way while a store is filled: a slow one has 4 s for each, whatever else the machine does."""
ANSWER_LIMIT_S: Final = 60.0
_AGAIN_S: Final = 0.005
"""Seconds until a question without an answer is asked again: what answers are timed to."""
_INBOX: Final = b"_INBOX.bench"
_ACKNOWLEDGED: Final = re.compile(rb'\{"stream":"%b",\s*"seq":\s*[1-9]' % STREAM.encode())
_CONFIG: Final = re.compile(rb'"config":\s*\{')
_MESSAGE: Final = re.compile(rb'"message":\s*\{')


def publish(node: Node, words: list[str], limit_s: float) -> Report:
    """Publish to the stream. `words`: of the generator, besides what all here need. Raises: BenchError."""
    return _generate(node, ["store", "--speak", "jetstream", *words], limit_s)


def fill(node: Node, size: float) -> int:
    """Publish so many bytes as fast as they are taken; return how many messages. Raises: BenchError."""
    count = int(size / PAYLOAD)
    limit_s = 60 + size / 2e6
    words = ["--count", str(count), "--inflight", str(FILL_WINDOW), "--warmup", "0"]
    words += ["--seconds", str(limit_s)]
    publish(node, words, limit_s)
    return count


def read_all(node: Node, count: int) -> Report:
    """Read the stream with an ordered consumer. Raises: BenchError if it has not so many messages."""
    return _generate(node, ["consume", "--speak", "jetstream", "--count", str(count)], 60 + count / 1000)


def _generate(node: Node, words: list[str], limit_s: float) -> Report:
    command = [str(build_generator()), *words, "--payload", str(PAYLOAD)]
    command += ["--port", str(node.port), "--pid", str(node.process.pid)]
    return run_load([*command, "--deadline", str(limit_s + 60)], limit_s + 90)


class Client:
    """A connection that asks one question until it is answered. Raises: OSError, BenchError."""

    def __init__(self, port: int) -> None:
        self._socket: Final = socket.create_connection(("127.0.0.1", port), ANSWER_LIMIT_S)
        self._socket.sendall(
            b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
            b"SUB %b 1\r\nPING\r\n" % _INBOX
        )
        self._read = bytearray()
        while b"PONG\r\n" not in self._read:
            self._receive()
        self._socket.settimeout(_AGAIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def publish(self) -> None:
        """Publish a message until one is acknowledged; every attempt may be stored."""
        self._ask(STREAM.encode(), payload(PAYLOAD), _ACKNOWLEDGED)

    def forget_ids(self) -> None:
        """Have the stream look for a message's id among those of the last 100 ms only."""
        config = {"name": STREAM, "subjects": [STREAM], "duplicate_window": 100_000_000}
        self._ask(b"$JS.API.STREAM.UPDATE." + STREAM.encode(), json.dumps(config).encode(), _CONFIG)

    def get_first(self) -> None:
        """Ask for the first message of the stream until it comes."""
        self._ask(b"$JS.API.STREAM.MSG.GET." + STREAM.encode(), b'{"seq":1}', _MESSAGE)

    def _ask(self, subject: bytes, body: bytes, answer: re.Pattern[bytes]) -> None:
        end = time.monotonic() + ANSWER_LIMIT_S
        self._read.clear()
        while time.monotonic() < end:
            self._socket.sendall(b"PUB %b %b %d\r\n%b\r\n" % (subject, _INBOX, len(body), body))
            again = time.monotonic() + _AGAIN_S
            while time.monotonic() < again:
                self._receive()
                if answer.search(self._read):
                    return
        raise BenchError(f"{subject.decode()} had no answer: {bytes(self._read[-200:])!r}")

    def _receive(self) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            return
        if not data:
            raise BenchError("the server closed a connection")
        self._read += data
