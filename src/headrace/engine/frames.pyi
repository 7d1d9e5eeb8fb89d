def cut_messages(
    data: bytes,
    pos: int,
    most: int,
    heads: list[tuple[bytes, bytes, bytes | None, int, int]],
    payloads: list[bytes],
    blocks: dict[int, bytes],
) -> int: ...
