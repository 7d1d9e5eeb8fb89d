"""Writes file stores as NATS Streaming does, and finds the real ones: material for the import's tests."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.importing.findings import Finding
from headrace.protocol.stan import ClientInfo, MsgProto, ServerInfo, SubState, SubStateDelete, SubStateUpdate

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.streaming.importing.model import SourceChannelMessage
    from headrace.streaming.importing.reader import SourceChannel

GOLDEN = Path(__file__).parent / "golden"
GOLDEN_NAMES = ("clean", "killed", "sliced")
VERSION = b"\x01\x00\x00\x00"
T0 = 1_795_220_807_258_933_925


def truth(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((GOLDEN / name / "truth.json").read_text())
    return document


def no_checksum(_: bytes) -> int:
    return 0


@dataclass
class Slice:
    data: bytearray = field(default_factory=lambda: bytearray(VERSION))
    index: bytearray = field(default_factory=lambda: bytearray(VERSION))


@dataclass
class ChannelWriter:
    """Appends to slices of `slice_messages` messages; `starts` says where each message's record begins."""

    name: bytes
    crc: Callable[[bytes], int]
    slice_messages: int = 1 << 30
    slices: list[Slice] = field(default_factory=list)
    starts: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    subs: bytearray = field(default_factory=lambda: bytearray(VERSION))
    last: int = 0

    def message(self, payload: bytes, *, sequence: int = 0, time_ns: int = 0, reply: bytes = b"") -> None:
        self.last = sequence or self.last + 1
        time_ns = time_ns or T0 + self.last * 1_000_000
        if not self.slices or (len(self.slices[-1].index) - 4) // 32 >= self.slice_messages:
            self.slices.append(Slice())
        current = self.slices[-1]
        body = MsgProto(self.last, self.name, reply, payload, time_ns).encode()
        offset = len(current.data)
        current.data += len(body).to_bytes(4, "little") + self.crc(body).to_bytes(4, "little") + body
        self.starts[self.last] = (len(self.slices), offset, len(current.data))
        entry = b"".join(n.to_bytes(8, "little") for n in (self.last, offset, time_ns))
        entry += len(body).to_bytes(4, "little")
        current.index += entry + self.crc(entry).to_bytes(4, "little")

    def messages(self, count: int, size: int = 20) -> None:
        for _ in range(count):
            self.message(b"%d " % (self.last + 1) * (size // 4 + 1))

    def new(self, state: SubState) -> None:
        self._typed(1, state.encode())

    def update(self, state: SubState) -> None:
        self._typed(2, state.encode())

    def delete(self, identity: int) -> None:
        self._typed(3, SubStateDelete(identity).encode())

    def acked(self, identity: int, *sequences: int) -> None:
        for sequence in sequences:
            self._typed(4, SubStateUpdate(identity, sequence).encode())

    def sent(self, identity: int, *sequences: int) -> None:
        for sequence in sequences:
            self._typed(5, SubStateUpdate(identity, sequence).encode())

    def _typed(self, kind: int, body: bytes) -> None:
        self.subs += typed(kind, body, self.crc)

    def write(self, directory: Path, *, first_slice: int = 1, index: bool = True) -> Path:
        """Without slices before `first_slice`, as limits leave it."""
        folder = directory / self.name.decode()
        folder.mkdir(parents=True)
        (folder / "subs.dat").write_bytes(self.subs)
        for number, slice_ in enumerate(self.slices, 1):
            if number >= first_slice:
                (folder / f"msgs.{number}.dat").write_bytes(slice_.data)
                if index:
                    (folder / f"msgs.{number}.idx").write_bytes(slice_.index)
        return folder


def typed(kind: int, body: bytes, crc: Callable[[bytes], int] = zlib.crc32) -> bytes:
    return (kind << 24 | len(body)).to_bytes(4, "little") + crc(body).to_bytes(4, "little") + body


def write_server(
    directory: Path,
    *clients: ClientInfo,
    cluster: bytes = b"c1",
    crc: Callable[[bytes], int] = zlib.crc32,
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    body = ServerInfo(cluster, b"_STAN.discover." + cluster, b"_STAN.pub." + cluster).encode()
    head = len(body).to_bytes(4, "little") + crc(body).to_bytes(4, "little")
    (directory / "server.dat").write_bytes(VERSION + head + body)
    records = b"".join(typed(1, client.encode(), crc) for client in clients)
    (directory / "clients.dat").write_bytes(VERSION + records)


def client(name: bytes) -> ClientInfo:
    return ClientInfo(name, b"_INBOX.hb." + name, b"conn-" + name, 1, 5, 88)


def durable(identity: int, client_id: bytes = b"me", name: bytes = b"d", **more: Any) -> SubState:
    return SubState(
        identity,
        client_id,
        inbox=b"_INBOX.in",
        ack_inbox=b"_INBOX.ack",
        max_in_flight=1024,
        ack_wait_in_secs=30,
        durable_name=name,
        is_durable=True,
        **more,
    )


def read_all(channel: SourceChannel) -> tuple[list[SourceChannelMessage], list[Finding]]:
    """Messages and findings of a channel's message files."""
    items = list(channel.messages().items())
    found = [item for item in items if isinstance(item, Finding)]
    return [item for item in items if not isinstance(item, Finding)], found
