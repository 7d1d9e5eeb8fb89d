"""The configurations of an account's streams: found quickly is whose subjects a new one would meet.

Kept up to date by whoever makes, changes and removes streams. Never here: streams, or what may be configured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.protocol.jetstream.configs import Storage, StreamConfig


class StreamConfigs(Mapping[str, "StreamConfig"]):
    """The configurations of an account's streams, by name.

    Their subjects are well formed: only such streams are made.
    """

    def __init__(self, configs: Iterable[StreamConfig] = ()) -> None:
        self._configs: dict[str, StreamConfig] = {}
        self._subjects = _Node()
        self._reserved: Counter[tuple[Storage, int]] = Counter()
        self._numbers: Counter[int] = Counter()
        for config in configs:
            self.put(config)

    def __getitem__(self, name: str) -> StreamConfig:
        return self._configs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._configs)

    def __len__(self) -> int:
        return len(self._configs)

    def put(self, config: StreamConfig) -> None:
        """A new one, or one in the place of another of its name."""
        self.drop(config.name)
        self._configs[config.name] = config
        for subject in config.subjects:
            self._subjects.add(subject.split("."), config.name)
        self._count(config, 1)

    def drop(self, name: str) -> None:
        """Forget the configuration of a stream; one that is not there is passed over."""
        config = self._configs.pop(name, None)
        if config is None:
            return
        for subject in config.subjects:
            self._subjects.remove(subject.split("."), name)
        self._count(config, -1)

    def _count(self, config: StreamConfig, sign: int) -> None:
        self._numbers[config.num_replicas] += sign
        self._reserved[config.storage, config.num_replicas] += sign * max(config.max_bytes, 0)

    def meets_others(self, config: StreamConfig) -> bool:
        """True if a stream of another name gets messages that this one would get too."""
        return any(
            name != config.name
            for subject in config.subjects
            for name in self._subjects.overlapping(subject.split("."))
        )

    def number(self, *, without: str, replicas: int | None = None) -> int:
        """Count the streams without the one of that name; `replicas`: only those with so many."""
        total = len(self._configs) if replicas is None else self._numbers[replicas]
        config = self._configs.get(without)
        return total - (config is not None and replicas in (None, config.num_replicas))

    def reserved(self, storage: Storage, *, without: str = "") -> dict[int, int]:
        """Bytes set aside by `max_bytes`, by the number of replicas, but for a stream of that name."""
        sums = {replicas: size for (kind, replicas), size in self._reserved.items() if kind is storage}
        config = self._configs.get(without)
        if config is not None and config.storage is storage:
            sums[config.num_replicas] -= max(config.max_bytes, 0)
        return sums


class _Node:
    """Subjects that begin alike; the names of the streams of the one that ends here."""

    __slots__ = ("children", "names")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.names: list[str] = []

    def add(self, tokens: list[str], name: str) -> None:
        node = self
        for token in tokens:
            node = node.children.setdefault(token, _Node())
        node.names.append(name)

    def remove(self, tokens: list[str], name: str) -> None:
        path = [self]
        for token in tokens:
            path.append(path[-1].children[token])
        path[-1].names.remove(name)
        for parent, token in zip(reversed(path[:-1]), reversed(tokens), strict=True):
            child = parent.children[token]
            if child.names or child.children:
                break
            del parent.children[token]

    def overlapping(self, tokens: list[str]) -> Iterator[str]:
        """Names of streams with a subject that matches something these tokens match too."""
        waiting = [(self, 0)]
        while waiting:
            node, position = waiting.pop()
            if position == len(tokens):
                yield from node.names
                continue
            token = tokens[position]
            if token == ">":
                yield from node.below()
                continue
            tail = node.children.get(">")
            if tail is not None:
                yield from tail.names
            waiting += [(child, position + 1) for child in node.like(token)]

    def like(self, token: str) -> list[_Node]:
        """Return the children that overlap with a token other than `>`."""
        if token == "*":
            return [child for key, child in self.children.items() if key != ">"]
        return [self.children[key] for key in (token, "*") if key in self.children]

    def below(self) -> Iterator[str]:
        """Names of all longer subjects."""
        waiting = list(self.children.values())
        while waiting:
            node = waiting.pop()
            yield from node.names
            waiting += node.children.values()
