from headrace.engine.batches import Outgoing
from headrace.engine.lanes import StreamCounts
from headrace.engine.log_reading import LogReads

class DirectGets:
    stream: bytes
    is_allowed: bool
    reads: LogReads | None
    def __init__(self, stream: bytes, counts: StreamCounts) -> None: ...
    def try_answer(self, out: Outgoing, subject: bytes, body: bytes, reply: bytes) -> bool: ...
