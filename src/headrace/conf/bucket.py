"""The `bucket` of a `jetstream` or `streaming` block: its keys, and the rules inside it.

Here lives its reading. Never lives here: rules between it and other keys of its block (`jetstream`,
`streaming_rules`), requests to the store (`headrace.bucket`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from headrace.conf.bucket_options import (
    LEAST_HISTORY_S,
    MOST_PUTS_IN_FLIGHT,
    BucketCredentials,
    BucketOptions,
)
from headrace.conf.fields import UNSET, KeyTable, fields_of, size, string_of, values_of
from headrace.conf.problems import shown
from headrace.conf.tls import check_authorities, is_readable
from headrace.conf.tree import MapNode, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.conf.fields import Binder, Bound, UnsetType
    from headrace.conf.tree import Entry
    from headrace.errors import Position

_PROVIDERS: Final = {"s3": "S3", "gs": "Google Cloud", "az": "Azure", "file": "a directory"}
_COMMITS: Final = ("bucket", "disk")
_ENCRYPTIONS: Final = ("AES256", "aws:kms", "aws:kms:dsse")
_OF_SERVICES: Final = ("endpoint", "ca_file", "credentials")
_KEYS_OF: Final = {
    "s3": (*_OF_SERVICES, "region", "path_style", "server_side_encryption", "kms_key_id"),
    "gs": _OF_SERVICES,
    "az": _OF_SERVICES,
    "file": (),
}
"""Keys that only some providers have, by the scheme of the URL."""
_CREDENTIALS_OF: Final = {
    "s3": ("access_key_id", "secret_access_key", "session_token"),
    "az": ("account_name", "account_key", "sas_key", "tenant_id", "client_id", "client_secret"),
    "gs": ("file",),
    "file": (),
}
_NEEDS: Final = {
    "access_key_id": ("secret_access_key",),
    "secret_access_key": ("access_key_id",),
    "session_token": ("access_key_id", "secret_access_key"),
    "account_key": ("account_name",),
    "sas_key": ("account_name",),
    "client_secret": ("client_id", "tenant_id"),
    "client_id": ("client_secret", "tenant_id"),
    "tenant_id": ("client_id", "client_secret"),
}
"""Credentials that mean nothing without others."""
_WAYS_INTO_AZURE: Final = ("account_key", "sas_key", "client_secret")
_NOT_IN_PREFIX: Final = re.compile(r"[\x00-\x1f\x7f?#%*\\]")
PAUSES_IN_LAG: Final = 4
"""Pauses between two puts that `max_lag` must have room for: else publications are refused for no fault."""
_MOST_URL: Final = 512
"""Characters of a URL: keys of objects, which stand behind it, may have 1024."""


def bucket(binder: Binder, entry: Entry) -> BucketOptions | UnsetType:
    """A URL, or a map that has one with the rest."""
    plain = string_of(entry.node)
    if plain is not None:
        url = _url(binder, plain, entry.node.position)
        return UNSET if url is UNSET else BucketOptions(url)
    if not isinstance(entry.node, MapNode):
        return binder.wrong_type(entry, "a URL as a string, or a map")
    before = len(binder.problems)
    bound = binder.bind(entry.node, _BUCKET)
    url = _url_of(binder, entry, bound)
    for option, problem in _problems(bound.values):
        binder.problem(problem, bound.positions[option])
    if url is not UNSET:
        _check_provider(binder, url.partition(":")[0], bound)
    if "ca_file" in bound.values:
        check_authorities(str(bound.values["ca_file"]), binder.problems, bound.positions["ca_file"])
    if len(binder.problems) > before or url is UNSET:
        return UNSET
    values = cast("dict[str, Any]", {**values_of(bound, BucketOptions), "url": url})
    made = BucketOptions(**values)
    if made.commit == "disk" and made.max_lag < PAUSES_IN_LAG / made.puts_per_second:
        binder.problem(
            f"max_lag {made.max_lag:g}s is less than puts_per_second {made.puts_per_second:g} can keep: "
            f"{PAUSES_IN_LAG} ÷ puts_per_second, {PAUSES_IN_LAG / made.puts_per_second:g}s",
            bound.positions.get("max_lag", entry.position),
        )
        return UNSET
    if values.get("max_lag") and values.get("commit", "bucket") == "bucket":
        why = "with commit: bucket what is acknowledged is in the bucket"
        binder.problems.warn(f"max_lag has no effect: {why}", bound.positions["max_lag"])
    return made


def credentials(binder: Binder, entry: Entry) -> BucketCredentials | UnsetType:
    """The block `credentials`; which provider it is for is not known here."""
    bound = binder.bind_map(entry, _CREDENTIALS)
    if bound is UNSET:
        return UNSET
    values = cast("dict[str, Any]", values_of(bound, BucketCredentials))
    for option in values:
        missing = [name for name in _NEEDS.get(option, ()) if name not in values and name not in bound.failed]
        if missing:
            binder.problem(f"{option} needs {' and '.join(missing)} beside it", bound.positions[option])
    ways = [name for name in _WAYS_INTO_AZURE if name in values]
    for way in ways[1:]:
        binder.problem(f"{way} and {ways[0]} exclude each other", bound.positions[way])
    if "file" in values:
        is_readable(binder.problems, values["file"], bound.positions["file"])
    return BucketCredentials(**values) if values else UNSET


def _url_of(binder: Binder, entry: Entry, bound: Bound) -> str | UnsetType:
    given = bound.values.get("url")
    if isinstance(given, str) and given:
        return _url(binder, given, bound.positions["url"])
    if "url" in bound.failed:
        return UNSET
    return binder.problem("bucket needs a place: url", entry.position)


def _url(binder: Binder, url: str, position: Position | None) -> str | UnsetType:
    """The URL without a slash at its end; what is wrong with it is reported."""
    problem = url_problem(url)
    return url.rstrip("/") if problem is None else binder.problem(problem, position)


def url_problem(url: str) -> str | None:
    """Return what is wrong with the URL of a bucket, as one line; None: it may be one."""
    scheme, mark, rest = url.partition("://")
    if not mark or scheme not in _PROVIDERS:
        return (
            f"bucket: {shown(_IN_URL.sub('', url))} is no place: s3://, gs://, az:// and file:/// are known"
        )
    name, _, prefix = rest.rstrip("/").partition("/")
    if "@" in name:  # it is not shown: it may be a secret
        return "bucket: no credentials in the URL: name them in credentials { }, or in the environment"
    if scheme == "file" and (name or not prefix):
        return f"bucket: {shown(url)} names no directory: file:/// and its absolute path"
    if scheme != "file" and not _BUCKET_NAME.fullmatch(name):
        return f"bucket: {shown(url)} has no name of a bucket behind {scheme}://"
    parts = prefix.split("/") if prefix else []
    if _NOT_IN_PREFIX.search(prefix) or not {"", ".", ".."}.isdisjoint(parts):
        return f"bucket: {shown(url)} has a prefix that cannot begin keys of objects"
    return f"bucket: the URL has more than {_MOST_URL} characters" if len(url) > _MOST_URL else None


_IN_URL: Final = re.compile(r"(?<=://)[^/@\s]+@")
_BUCKET_NAME: Final = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{0,254}")


def _problems(values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the values of the block: the option, and what is said of it."""
    for option, (holds, rule) in _RULES.items():
        if option in values and not holds(cast("float", values[option])):
            yield option, f"{option} {rule}"
    for option, known in (("commit", _COMMITS), ("server_side_encryption", _ENCRYPTIONS)):
        value = cast("str", values.get(option))
        if value and value not in known:
            yield option, f"{option} cannot be {shown(value)}: {', '.join(known)} are known"
    encryption = str(values.get("server_side_encryption") or "")
    if values.get("kms_key_id") and not encryption.startswith("aws:kms"):
        yield "kms_key_id", "kms_key_id needs server_side_encryption: aws:kms"
    endpoint = cast("str", values.get("endpoint"))
    if endpoint and not _ENDPOINT.fullmatch(endpoint):
        yield "endpoint", f"endpoint must be an http or https URL, not {shown(_IN_URL.sub('', endpoint))}"


_ENDPOINT: Final = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[^\s?#@]*)?")
_RULES: Final[Mapping[str, tuple[Callable[[float], bool], str]]] = {
    "max_lag": (lambda value: value > 0, "must be more than 0"),
    "puts_in_flight": (
        lambda value: 1 <= value <= MOST_PUTS_IN_FLIGHT,
        f"must lie between 1 and {MOST_PUTS_IN_FLIGHT}",
    ),
    "puts_per_second": (lambda value: 0 < value <= 10_000, "must be more than 0, and at most 10000"),
    "cache_bytes": (lambda value: value >= 0, "cannot be negative"),
    "fill_per_second": (lambda value: value >= 0, "cannot be negative"),
    "history": (lambda value: value >= LEAST_HISTORY_S, "must be at least 1m: who reads needs that time"),
}


def _check_provider(binder: Binder, scheme: str, bound: Bound) -> None:
    """Report keys that the provider of the URL does not have."""
    for option in _KEYS_OF["s3"]:
        if option in bound.values and option not in _KEYS_OF[scheme]:
            message = f"{option} has no meaning for {_PROVIDERS[scheme]}: the URL begins with {scheme}://"
            binder.problem(message, bound.positions[option])
    given = bound.values.get("credentials")
    if not isinstance(given, BucketCredentials) or scheme == "file":
        return
    allowed = _CREDENTIALS_OF[scheme]
    names = [name for name in given.__struct_fields__ if getattr(given, name) is not None]
    foreign = ", ".join(name for name in names if name not in allowed)
    if foreign:
        message = f"credentials: {_PROVIDERS[scheme]} has no {foreign}: the URL begins with {scheme}://"
        binder.problem(message, bound.positions["credentials"])


def _number(binder: Binder, entry: Entry) -> float | UnsetType:
    """A number, with or without a fraction."""
    node = entry.node
    if isinstance(node, Scalar) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    return binder.wrong_type(entry, "a number")


_BUCKET: Final = KeyTable(
    fields_of(BucketOptions, {"puts_per_second": _number, "cache_bytes": size, "fill_per_second": size})
)
_CREDENTIALS: Final = KeyTable(fields_of(BucketCredentials))
