from collections.abc import Sized

from headrace.engine.consumer import ConsumerCore

class PendingNumbers:
    counted: int
    counted_to: int
    epoch: int
    next_sequence: int

class SinglePulls:
    def __init__(
        self,
        consumer: object,
        core: ConsumerCore,
        prefix: bytes,
        waiting: Sized,
        *,
        is_plain: bool,
        max_expires: int,
        first_wait: int,
    ) -> None: ...
