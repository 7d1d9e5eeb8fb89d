"""The TLS load: publish, or 1 → 1, with Python's `ssl` and large precomputed writes.

TLS needs OpenSSL, whose C headers a fresh machine may lack, so this load is a Python process. It
stays cheap because nothing runs per message: whole blocks of frames go out, and what comes in is
compared with the expected stream as bytes. Its report equals the native generator's.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import ssl
import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

from bench.errors import BenchError
from bench.process import cpu_ns, machine_cpu_ns

BLOCK = 64 * 1024
READ_SIZE = 256 * 1024
RECORD_MAX = 16 * 1024
WINDOW = 16 * 1024 * 1024
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"lang":"python","version":"1"}\r\nPING\r\n'


class FrameCounter:
    """Counts copies of one frame in a stream of bytes, and the control lines between them.

    Every byte is compared: a stream that is not exactly copies of `frame`, PING and PONG raises.
    """

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.pings = 0
        self.pongs = 0
        self._bytes = 0
        self._line = b""
        self._stream = frame * ((READ_SIZE + RECORD_MAX) // len(frame) + 2)

    @property
    def received(self) -> int:
        return self._bytes // len(self.frame)

    @property
    def is_whole(self) -> bool:
        return self._bytes % len(self.frame) == 0 and not self._line

    def feed(self, data: bytes) -> None:
        """Count what this read brought. Raises: BenchError on anything but frames, PING, PONG and INFO."""
        phase = self._bytes % len(self.frame)
        if not self._line and self._stream.startswith(data, phase):
            self._bytes += len(data)
            return
        position = 0
        while position < len(data):
            phase = self._bytes % len(self.frame)
            if self._line or (phase == 0 and data[position] != self.frame[0]):
                position = self._feed_line(data, position)
                continue
            n = min(len(self.frame) - phase, len(data) - position)
            if data[position : position + n] != self.frame[phase : phase + n]:
                raise BenchError(f"unexpected bytes {data[position : position + 60]!r}")
            self._bytes += n
            position += n

    def _feed_line(self, data: bytes, position: int) -> int:
        end = data.find(b"\n", position) + 1 or len(data)
        self._line += data[position:end]
        if self._line.endswith(b"\n"):
            if self._line == b"PING\r\n":
                self.pings += 1
            elif self._line == b"PONG\r\n":
                self.pongs += 1
            elif not self._line.startswith(b"INFO "):
                raise BenchError(f"the server answered {self._line!r}")
            self._line = b""
        return end


class TlsLink:
    """One connection: ciphertext waiting to go out, a counter of what came in. Never blocks after creation.

    TLS runs over memory, so that one read of the socket brings many records: a server may send
    records far smaller than a read.
    """

    def __init__(self, port: int, context: ssl.SSLContext, frame: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # As the native generator: bbr, where it is the default, paces the loopback by timers.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        info = b""
        while not info.endswith(b"\n"):
            info += self.socket.recv(1) or b"\n"
        if not info.startswith(b"INFO "):
            raise BenchError(f"expected INFO, received {info[:60]!r}")
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        self._handshake()
        self.counter = FrameCounter(frame)
        self.pending = memoryview(b"")
        self.socket.setblocking(False)
        self.put(CONNECT)
        self.wait_pong()

    def _handshake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.socket.sendall(self._outgoing.read())
                data = self.socket.recv(READ_SIZE)
                if not data:
                    raise BenchError("the server closed a connection in the TLS handshake") from None
                self._incoming.write(data)
            else:
                self.socket.sendall(self._outgoing.read())
                return

    def put(self, text: bytes | memoryview) -> None:
        """Encrypt text, put it behind what is pending and write as much as goes."""
        self._tls.write(text)
        fresh = self._outgoing.read()
        self.pending = memoryview(bytes(self.pending) + fresh if self.pending else fresh)
        self.write()

    def write(self) -> bool:
        """Write some of what is pending; True when bytes went out."""
        if not self.pending:
            return False
        try:
            n = self.socket.send(self.pending)
        except BlockingIOError:
            return False
        self.pending = self.pending[n:]
        return True

    def read(self) -> bool:
        """Read once; True when bytes came in. Raises: BenchError when the server closed."""
        try:
            data = self.socket.recv(READ_SIZE)
        except BlockingIOError:
            return False
        if not data:
            raise BenchError("the server closed a connection")
        self._incoming.write(data)
        self._decrypt()
        while self.counter.pings:
            self.counter.pings -= 1
            self.put(b"PONG\r\n")
        return True

    def _decrypt(self) -> None:
        records: list[bytes] = []
        try:
            while True:
                record = self._tls.read(READ_SIZE)
                if not record:
                    raise BenchError("the server closed a connection")
                records.append(record)
        except ssl.SSLWantReadError:
            # The rest of a record comes with the next read.
            self.counter.feed(b"".join(records))

    def wait_pong(self) -> None:
        """Wait until the server has answered one PING more. Raises: BenchError after 10 s."""
        wanted, until = self.counter.pongs + 1, time.monotonic() + 10
        while self.counter.pongs < wanted:
            if not (self.write() | self.read()):
                select.select([self.socket], [self.socket] if self.pending else [], [], 0.1)
            if time.monotonic() > until:
                raise BenchError("no PONG within 10 s")


@dataclass(slots=True)
class Load:
    """The connections of a run and the block that is written again and again."""

    publisher: TlsLink
    subscriber: TlsLink | None
    block: memoryview
    frame_len: int
    until: float

    def run_phase(self, seconds: float) -> int:
        """Publish for a time, then wait until every message is counted; gives how many.

        Raises: BenchError when a count is not exact or the time limit passes.
        """
        link, peer = self.publisher, self.subscriber
        start = peer.counter.received if peer else 0
        pongs, begun, asked = link.counter.pongs, 0, False
        frames = len(self.block) // self.frame_len
        window = WINDOW // self.frame_len
        stop = time.monotonic() + seconds
        while not (asked and link.counter.pongs > pongs and self._received(start, begun) >= begun):
            now = time.monotonic()
            if now > self.until:
                raise BenchError("the time limit passed before every message was counted")
            busy = link.write()
            if not link.pending and not asked:
                if now >= stop:
                    link.put(b"PING\r\n")
                    busy = asked = True
                elif begun - self._received(start, begun) <= window:
                    link.put(self.block)
                    begun += frames
                    busy = True
            if peer is not None:
                busy |= peer.read()
            if not busy:
                self._wait()
                link.read()
        return begun

    def _received(self, start: int, begun: int) -> int:
        return self.subscriber.counter.received - start if self.subscriber else begun

    def check_exact(self, expected: int) -> None:
        """Make sure that nothing more arrives. Raises: BenchError on a message too many."""
        if self.subscriber is None:
            return
        self.subscriber.put(b"PING\r\n")
        self.subscriber.wait_pong()
        if self.subscriber.counter.received != expected or not self.subscriber.counter.is_whole:
            raise BenchError(f"received {self.subscriber.counter.received} messages, expected {expected}")

    def _wait(self) -> None:
        readers = [link.socket for link in (self.publisher, self.subscriber) if link]
        writers = [link.socket for link in (self.publisher, self.subscriber) if link and link.pending]
        select.select(readers, writers, [], 0.1)


class Usage(NamedTuple):
    """What has been used so far, and when."""

    wall_ns: int
    server_cpu_ns: int
    load_cpu_ns: int
    machine_cpu_ns: int


def usage_now(pid: int) -> Usage:
    """Give the counters of the server, of this process and of the machine."""
    return Usage(time.monotonic_ns(), cpu_ns(pid), time.process_time_ns(), machine_cpu_ns())


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Run warm-up and measured phase; gives the report."""
    context = ssl.create_default_context(cafile=options.ca)
    size = str(options.payload).encode()
    payload = bytes(ord("a") + i % 26 for i in range(options.payload))
    publish = b"PUB bench.tls " + size + b"\r\n" + payload + b"\r\n"
    message = b"MSG bench.tls 1 " + size + b"\r\n" + payload + b"\r\n"
    publisher = TlsLink(options.port, context, message)
    subscriber = TlsLink(options.port, context, message) if options.subscribe else None
    if subscriber is not None:
        subscriber.put(b"SUB bench.tls 1\r\nPING\r\n")
        subscriber.wait_pong()
    block = memoryview(publish * max(1, BLOCK // len(publish)))
    load = Load(publisher, subscriber, block, len(publish), time.monotonic() + options.deadline)
    warm = load.run_phase(options.warmup)
    before = usage_now(options.pid)
    published = load.run_phase(options.seconds)
    after = usage_now(options.pid)
    load.check_exact(warm + published)
    return {
        "published": published,
        "delivered": published if subscriber else 0,
        "seconds": (after.wall_ns - before.wall_ns) / 1e9,
        "server_cpu_ns": after.server_cpu_ns - before.server_cpu_ns,
        "load_cpu_ns": after.load_cpu_ns - before.load_cpu_ns,
        "machine_cpu_ns": after.machine_cpu_ns - before.machine_cpu_ns,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tls_load", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True, help="process whose CPU time is measured")
    parser.add_argument("--ca", required=True, help="certificate to trust")
    parser.add_argument("--payload", type=int, default=128)
    parser.add_argument("--subscribe", action="store_true", help="1 → 1 instead of publish only")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warmup", type=float, default=0.3)
    parser.add_argument("--deadline", type=float, default=60.0)
    try:
        report = measure(parser.parse_args())
    except (BenchError, OSError) as error:
        print(f"tls_load: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
