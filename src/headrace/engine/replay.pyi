from collections.abc import Callable
from typing import Any

from headrace.engine.batches import Outgoing
from headrace.engine.messages import Messages

def send(
    out: Outgoing,
    inbox: bytes,
    start: bytes,
    messages: Messages[Any],
    first: int,
    count: int,
    rest: Callable[[bytes, bytes], bytes],
) -> int: ...
