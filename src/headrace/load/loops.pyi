from typing import final

@final
class LatencyBuckets:
    count: int
    total: int
    least: int
    most: int
    def record(self, ns: int) -> None: ...
    def filled(self) -> dict[int, int]: ...

def bucket_bounds(bucket: int) -> tuple[int, int]: ...

@final
class SendBuffer:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def add(self, data: bytes) -> None: ...
    def sent(self, n: int) -> None: ...

@final
class AnswerWindow:
    size: int
    given_up: int
    def __init__(self, size: int) -> None: ...
    @property
    def waiting(self) -> int: ...
    def give_up(self, before: int) -> int: ...

@final
class FrameWriter:
    reply: bytes
    suffix: bytes
    messages: int
    size: int
    def __init__(
        self,
        out: SendBuffer,
        subjects: list[bytes],
        bodies: list[tuple[bytes, bytes]],
        *,
        window: AnswerWindow | None = None,
        reply: bytes = b"",
        suffix: bytes = b"",
        batch: int = 1,
        stamp: bytes = b"",
    ) -> None: ...
    def pace(self, begun: int, interval: float) -> None: ...
    def fill(self, most: int, now: int, room: int) -> int: ...

@final
class FrameReader:
    latencies: LatencyBuckets
    messages: int
    size: int
    failed: int
    first: int
    last: int
    def __init__(
        self,
        sid: bytes,
        most: int,
        *,
        out: SendBuffer | None = None,
        answer: bytes = b"",
        window: AnswerWindow | None = None,
        prefix: bytes = b"",
    ) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def received(self, n: int) -> None: ...
    def add(self, data: bytes) -> None: ...
    def read(
        self, now: int, others: list[bytes | tuple[bytes, bytes, bytes | None, bytes, bytes]], room: int = ...
    ) -> bool: ...
