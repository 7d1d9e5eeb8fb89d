from collections.abc import Iterable

from headrace.engine.link import Link

def traffic(links: Iterable[Link]) -> tuple[int, int, int, int]: ...
