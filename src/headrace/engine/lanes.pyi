def use_lanes(on: bool) -> bool: ...

class Lane:
    is_open: bool

class StreamCounts:
    last_sequence: int
    visible: int
    held: int
    epoch: int
    last_time_ns: int
    measured: int

class HeldBytes:
    memory: int
    storage: int
