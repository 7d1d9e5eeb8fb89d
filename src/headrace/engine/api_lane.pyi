from headrace.engine.batches import Outgoing
from headrace.engine.consumer import DueWork
from headrace.engine.lanes import Lane

class ApiLane(Lane):
    def __init__(self, out: Outgoing, prefix: bytes, account: DueWork) -> None: ...
