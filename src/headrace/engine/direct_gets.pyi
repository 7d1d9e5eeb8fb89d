from headrace.engine.batches import Outgoing
from headrace.engine.log_reading import LogReads

class DirectGets:
    stream: bytes
    is_allowed: bool
    reads: LogReads | None
    def __init__(self, stream: bytes) -> None: ...
    def try_answer(self, out: Outgoing, subject: bytes, body: bytes, reply: bytes) -> bool: ...
