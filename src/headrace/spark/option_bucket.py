"""Options of a bucket that `path` names: whose streams are read, and the key of an encrypted store.

Text in, frozen values out. The key's file is read beside the driver; credentials for the bucket itself come
from the environment where tasks run. Nothing is asked of the bucket here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.conf.account_options import GLOBAL_ACCOUNT
from headrace.spark.errors import OptionError
from headrace.spark.option_entry import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.bucket_streams import StreamBucket

_CIPHERS: Final = {"chachapoly": "CHACHA", "chacha": "CHACHA", "aes": "AES"}

IN_BUCKET: Final = (
    Option("account", "text", GLOBAL_ACCOUNT, "Of a bucket: whose streams are read", ("path",)),
    Option(
        "keyFile", "text", "none", "Of a bucket: file that holds the key of an encrypted store", ("path",)
    ),
    Option(
        "cipher",
        "word",
        "chachapoly; channels: aes",
        "Of a bucket: `chachapoly` or `aes`, with `keyFile`",
        ("path",),
    ),
)
"""The options that go with the path of a bucket."""


@dataclass(frozen=True, slots=True)
class InBucket:
    """The account whose streams are read, and the secret and algorithm of an encrypted store."""

    account: str = GLOBAL_ACCOUNT
    secret: str | None = field(default=None, repr=False)
    algorithm: str | None = None
    """The algorithm; None: what servers take where none is said."""

    def bucket(self, url: str, cluster_id: str | None) -> StreamBucket:
        """Return the bucket at a URL, with the channels of a cluster ID or (None) streams."""
        from headrace.bucket_streams import StreamBucket  # few queries read buckets
        from headrace.conf.bucket_options import BucketOptions

        algorithm = self.algorithm or ("CHACHA" if cluster_id is None else "AES")
        return StreamBucket(BucketOptions(url), self.account, self.secret, algorithm, cluster_id)


def read_in_bucket(values: Mapping[str, str]) -> InBucket:
    """Read the options of a bucket; `values` are by lower-case name. Raises: OptionError."""
    cipher = values.get("cipher", "").lower()
    if cipher and cipher not in _CIPHERS:
        raise OptionError(f"option cipher: {cipher!r} is neither chachapoly nor aes")
    path = values.get("keyfile")
    if path is None and "cipher" in values:
        raise OptionError("option cipher has no effect without option keyFile")
    return InBucket(
        values.get("account") or GLOBAL_ACCOUNT,
        None if path is None else _secret(path),
        _CIPHERS[cipher] if cipher else None,
    )


def _secret(path: str) -> str:
    try:
        secret = Path(path).read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"option keyFile: {error}") from error
    if not secret:
        raise OptionError(f"option keyFile: {path} has no key in it")
    return secret
