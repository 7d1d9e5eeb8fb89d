from headrace.engine.consumer import ConsumerCore

class SinglePulls:
    def __init__(
        self,
        consumer: object,
        core: ConsumerCore,
        prefix: bytes,
        *,
        is_plain: bool,
        max_expires: int,
    ) -> None: ...
