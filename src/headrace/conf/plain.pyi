from headrace.conf.tree import Entry, Node
from headrace.errors import Position

class PlainReader:
    def __init__(self, text: str, file: str, most: int) -> None: ...
    def entries(
        self, offset: int, position: Position, entries: dict[str, Entry], after_value: bool, room: int
    ) -> tuple[int, bool]: ...
    def items(
        self, offset: int, position: Position, items: list[Node], after_value: bool, room: int
    ) -> tuple[int, bool]: ...
