"""The `mappings` block: subjects that are published under one name and delivered under another.

Here lives its reading and whether a destination can be made from its source. Never lives here: the making
itself, which happens per subject far above.

Forms: `src: dst`, `src: [{destination: dst, weight: 80%}, …]`, `src: {destination: dst, weight: 10}`. What
weights leave of 100 goes to the source itself. A destination with a `cluster` is for the servers of that one;
each cluster has weights of its own. Place holders in a destination:
    $1  {{wildcard(1)}}                       the first `*` of the source
    {{partition(10,1,2)}}                     a number below 10, from a hash of the first and second `*`
    {{split(1,-)}} {{splitFromLeft(1,3)}} {{sliceFromLeft(1,3)}} {{left(1,3)}}, and …FromRight, right
    {{random(10)}}
Source: the Go server 2.15.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from headrace.conf.account_options import SubjectMapping
from headrace.conf.fields import UNSET, Binder, KeyTable, fields_of, string_of
from headrace.conf.names import is_valid_subject
from headrace.conf.problems import shown
from headrace.conf.tree import ListNode, MapNode, Scalar

if TYPE_CHECKING:
    from headrace.conf.fields import UnsetType
    from headrace.conf.tree import Entry, Node

_FULL_WEIGHT: Final = 100
_MAX_INT32: Final = (1 << 31) - 1
_FUNCTION: Final = re.compile(r"\{\{\s*([a-zA-Z]+)\s*\((.*)\)\s*\}\}", re.DOTALL)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")

# How many wildcard indexes and then whole numbers each function takes. Two are special: `split` takes an
# index and a text, `partition` a number and any count of indexes.
_FUNCTIONS: Final = {
    "wildcard": (1, 0),
    "splitfromleft": (1, 1),
    "splitfromright": (1, 1),
    "slicefromleft": (1, 1),
    "slicefromright": (1, 1),
    "left": (1, 1),
    "right": (1, 1),
    "random": (0, 1),
}


class _MappingError(ValueError):
    """Why a destination cannot be made."""


def mappings(binder: Binder, entry: Entry) -> tuple[SubjectMapping, ...] | UnsetType:
    """All mappings, in the order written."""
    node = binder.map(entry)
    if node is UNSET:
        return UNSET
    found: list[SubjectMapping] = []
    for source in node.entries.values():
        if not is_valid_subject(source.key):
            binder.problem(f"{shown(source.key)} is not a valid subject", source.position)
        else:
            found += _destinations(binder, source)
    return tuple(found)


def _destinations(binder: Binder, entry: Entry) -> list[SubjectMapping]:
    single = string_of(entry.node)
    if single is not None:
        return _checked(binder, [SubjectMapping(entry.key, single)], [entry.node])
    if not isinstance(entry.node, ListNode | MapNode):
        binder.wrong_type(entry, "a subject, a map or a list of maps")
        return []
    nodes = list(entry.node.items) if isinstance(entry.node, ListNode) else [entry.node]
    read = [(node, _weighted(binder, entry.key, node)) for node in nodes]
    usable = [(node, mapping) for node, mapping in read if mapping is not None]
    found = _checked(binder, [mapping for _, mapping in usable], [node for node, _ in usable])
    for cluster, weight in _weights(found).items():
        if weight > _FULL_WEIGHT:
            where = f" in cluster {shown(cluster)}" if cluster else ""
            binder.problem(
                f"the weights for {shown(entry.key)}{where} add up to more than 100", entry.position
            )
    return found


def _weights(found: list[SubjectMapping]) -> dict[str, int]:
    """The sums of them, by cluster."""
    totals: dict[str, int] = {}
    for mapping in found:
        totals[mapping.cluster] = totals.get(mapping.cluster, 0) + mapping.weight
    return totals


def _weighted(binder: Binder, source: str, node: Node) -> SubjectMapping | None:
    if not isinstance(node, MapNode):
        binder.wrong_node(f"each destination of {shown(source)}", node, "a map")
        return None
    found_before = len(binder.problems)
    values = binder.bind(node, _DESTINATION).values
    if len(binder.problems) > found_before:
        return None
    for name in ("destination", "weight"):
        if name not in values:
            binder.problem(f"a {name} is missing in a mapping of {shown(source)}", node.position)
            return None
    return SubjectMapping(source, **cast("dict[str, Any]", values))


def _checked(binder: Binder, found: list[SubjectMapping], nodes: list[Node]) -> list[SubjectMapping]:
    """Return the mappings that can be made; report the others."""
    good: list[SubjectMapping] = []
    for mapping, node in zip(found, nodes, strict=True):
        try:
            _check_destination(mapping.source, mapping.destination)
        except _MappingError as error:
            what = f"{shown(mapping.source)} to {shown(mapping.destination)}"
            binder.problem(f"cannot map {what}: {error}", node.position)
            continue
        if any(other.destination == mapping.destination for other in good):
            binder.problem(f"duplicate destination {shown(mapping.destination)}", node.position)
        good.append(mapping)
    return good


def _weight(binder: Binder, entry: Entry) -> int | UnsetType:
    node = entry.node
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, str) and _INTEGER.fullmatch(value.removesuffix("%")):
        value = int(value.removesuffix("%"))
    if isinstance(value, bool) or not isinstance(value, int):
        return binder.problem(f"field {shown(entry.key)} must be a percentage", node.position, "80 or 80%")
    if not 0 <= value <= _FULL_WEIGHT:
        return binder.problem("a weight must lie between 0 and 100", node.position)
    return value


def _check_destination(source: str, destination: str) -> None:
    """Check the destination of a mapping.

    Raises: _MappingError if no destination can be made for some subject that the source matches.
    """
    tokens = destination.split(".")
    if "" in tokens or ">" in tokens[:-1]:
        raise _MappingError("the destination is not a valid subject")
    if "*" in tokens:
        raise _MappingError("use $1 or {{wildcard(1)}} in the destination, not '*'")
    source_tokens = source.split(".")
    if (tokens[-1] == ">") != (source_tokens[-1] == ">"):
        raise _MappingError("only both or none of them can end with '>'")
    wildcards = source_tokens.count("*")
    for token in tokens:
        for index in _wildcard_indexes(token):
            if not 1 <= index <= wildcards:
                raise _MappingError(f"wildcard index out of range in {token}")


def _wildcard_indexes(token: str) -> list[int]:
    """Return the numbers of the source's wildcards that a destination token refers to."""
    if token.startswith("$"):
        return [int(token[1:])] if _INTEGER.fullmatch(token[1:]) else []
    if token.startswith("{{") and token.endswith("}}") and len(token) > 4:
        match = _FUNCTION.fullmatch(token)
        if match is None:
            raise _MappingError(f"unknown function in {token}")
        return _function_indexes(token, match[1].lower(), re.split(r",\s*", match[2]))
    if not is_valid_subject(token):
        raise _MappingError("the destination is not a valid subject")
    return []


def _function_indexes(token: str, name: str, arguments: list[str]) -> list[int]:
    if name == "partition":
        _, *indexes = [_integer(token, argument) for argument in arguments]
        return indexes
    if name == "split":
        _expect(token, arguments, 2)
        if not is_valid_subject(arguments[1]):
            raise _MappingError(f"bad separator in {token}")
        return [_integer(token, arguments[0])]
    counts = _FUNCTIONS.get(name)
    if counts is None:
        raise _MappingError(f"unknown function in {token}")
    _expect(token, arguments, sum(counts))
    return [_integer(token, argument) for argument in arguments][: counts[0]]


def _expect(token: str, arguments: list[str], count: int) -> None:
    if len(arguments) != count:
        raise _MappingError(f"{token} needs {count} argument{'s' if count > 1 else ''}")


def _integer(token: str, argument: str) -> int:
    number = argument.strip(" ")
    if not _INTEGER.fullmatch(number) or abs(int(number)) > _MAX_INT32:
        raise _MappingError(f"bad argument in {token}")
    return int(number)


_DESTINATION: Final = KeyTable(fields_of(SubjectMapping, {"weight": _weight}))
