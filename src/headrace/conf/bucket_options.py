"""The options of a bucket: object storage under the streams of a server, or under its channels.

Frozen data only, loaded where there is a bucket. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

from typing import Final, Literal

from headrace.conf.keys import Keyed, key, required

MOST_PUTS_IN_FLIGHT: Final = 16
"""Puts that may be under way at once. Who takes over counts on it: no owner has more numbers beyond its first
unconfirmed one."""

LEAST_HISTORY_S: Final = 60.0
"""Shortest time that superseded objects are kept: readers that have begun still find them."""


class BucketCredentials(Keyed, frozen=True):
    """Credentials for an object store; what is None comes from the environment and the machine.

    At most one way of one provider is set: an access key of S3; a key, a shared access signature or a client
    of Azure; a file of Google Cloud.
    """

    HIDDEN = frozenset({"secret_access_key", "session_token", "account_key", "sas_key", "client_secret"})

    access_key_id: str | None = key(None, "S3: the access key")
    secret_access_key: str | None = key(None, "S3: its secret")
    session_token: str | None = key(None, "S3: the token of a temporary access key")
    account_name: str | None = key(None, "Azure: the storage account")
    account_key: str | None = key(None, "Azure: its key")
    sas_key: str | None = key(None, "Azure: a shared access signature")
    tenant_id: str | None = key(None, "Azure: the tenant of a client")
    client_id: str | None = key(None, "Azure: the client")
    client_secret: str | None = key(None, "Azure: its secret")
    file: str | None = key(None, "Google Cloud: file with the key of a service account, as JSON")


class BucketOptions(Keyed, frozen=True):
    """The place in an object store that has the streams of a server, and how it is used.

    `url`: `s3://`, `gs://` or `az://` with bucket and prefix, or `file:///` with a directory; no slash at its
    end. `commit`: "bucket" (what is acknowledged is in the bucket) or "disk" (it is on this machine's disk,
    and the bucket follows). `cache_bytes`: 0 is no limit. `server_side_encryption`: the header's value.
    """

    url: str = required(
        "Where: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or `file:///directory`"
    )
    commit: Literal["bucket", "disk"] = key(
        "bucket", "What acknowledged means: `bucket`: it is there; `disk`: it is on this machine, and follows"
    )
    max_lag: float = key(
        10.0,
        "With `commit: disk`: how far the bucket may be behind what was acknowledged, which the loss of the "
        "machine may take; beyond it publications are refused, and `/healthz` says so",
    )
    puts_in_flight: int = key(4, f"Puts that may be under way at once, up to {MOST_PUTS_IN_FLIGHT}")
    puts_per_second: float = key(
        50.0,
        "Puts a second of a load that goes on, in bursts of 200: what it costs at most",
        "number",
        reload="bucket",
    )
    cache_bytes: int = key(
        0,
        "Bytes of this machine's disk for what the bucket has; the rest is read from there",
        "size",
        shown_default="no limit",
    )
    fill_per_second: int = key(
        32 << 20,
        "Bytes a second that a server brings to its disk beforehand of what the bucket has, so that it takes "
        "over without waiting for them; `0`: none",
        "size",
        reload="bucket",
    )
    history: float = key(
        3600.0, "How long superseded objects are kept: how far back a store can be restored; at least `1m`"
    )
    endpoint: str | None = key(None, "URL of an object store that is not the provider's own")
    region: str | None = key(None, "S3: the region of the bucket")
    path_style: bool = key(True, "S3: the bucket stands in the path of a request; false: in its host name")
    ca_file: str | None = key(None, "Authorities that `endpoint` is believed by, beside the system's")
    credentials: BucketCredentials | None = key(
        None,
        "Who to be there; see below",
        "map",
        read="bucket:credentials",
        shown_default="environment and machine",
    )
    server_side_encryption: str | None = key(
        None, "S3: encryption at rest that each object asks for: `AES256`, `aws:kms` or `aws:kms:dsse`"
    )
    kms_key_id: str | None = key(None, "S3: the key for `aws:kms`", shown_default="the account's")
