"""The options of NATS Streaming.

Frozen data only, loaded where there are channels. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import field

from headrace.conf.keys import Flag, Keyed, key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.conf.archive_options import ChannelArchiveOptions
    from headrace.conf.bucket_options import BucketOptions


_STORE: Final = "Streaming store"
_LOG: Final = "Streaming log"
_TLS: Final = "Streaming TLS"
_CLUSTER: Final = "Streaming cluster"

_SUBSCRIPTIONS: Final = ("max_subs", "maxsubscriptions", "msu")
_MESSAGES: Final = ("maxmsgs", "max_count", "maxcount", "mm")
_BYTES: Final = ("maxbytes", "mb")
_AGE: Final = ("maxage", "ma")
_INACTIVITY: Final = ("maxinactivity", "mi")


def _flag(names: str, value: str, text: str, group: str = "Streaming") -> Flag:
    return Flag(tuple(names.split()), value, text, group)


class ChannelLimits(Keyed, frozen=True):
    """Limits of one channel or pattern of channels: 0 inherits the wider entry's, -1 is no limit."""

    max_subscriptions: int = key(0, "Subscriptions", aliases=_SUBSCRIPTIONS, shown_default="inherited")
    max_msgs: int = key(0, "Messages", aliases=_MESSAGES, shown_default="inherited")
    max_bytes: int = key(0, "Bytes", aliases=_BYTES, shown_default="inherited")
    max_age: float = key(0.0, "Time messages are kept", aliases=_AGE, shown_default="inherited")
    max_inactivity: float = key(
        0.0, "Time without use after which it is deleted", aliases=_INACTIVITY, shown_default="inherited"
    )


class StoreLimits(Keyed, frozen=True):
    """Limits of every channel, 0 for none, and the exceptions by name or pattern, the narrowest first."""

    max_channels: int = key(
        100,
        "Channels; one more is refused with `too many channels`",
        aliases=("maxchannels", "mc"),
        flag=_flag("mc max_channels", "count", "Channels (default: 100; 0: no limit)"),
    )
    max_subscriptions: int = key(
        1000,
        "Subscriptions of a channel, durable ones that are offline included; one more is refused",
        aliases=_SUBSCRIPTIONS,
        flag=_flag("msu max_subs", "count", "Subscriptions per channel (default: 1000)"),
    )
    max_msgs: int = key(
        1_000_000,
        "Messages of a channel; the oldest goes, the newest stays",
        aliases=_MESSAGES,
        flag=_flag("mm max_msgs", "count", "Messages per channel (default: 1000000)"),
    )
    max_bytes: int = key(
        1_024_000_000,
        "Bytes of a channel's messages",
        aliases=_BYTES,
        shown_default="976.56MB",
        flag=_flag("mb max_bytes", "size", "Bytes per channel, such as 10MB (default: 976.56MB)"),
    )
    max_age: float = key(
        0.0,
        "Time messages are kept",
        aliases=_AGE,
        shown_default="for ever",
        flag=_flag("ma max_age", "duration", "How long messages are kept (default: 0s, for ever)"),
    )
    max_inactivity: float = key(
        0.0,
        "Time without subscriptions and publications after which a channel is deleted",
        aliases=_INACTIVITY,
        shown_default="never",
        flag=_flag(
            "mi max_inactivity", "duration", "Delete a channel after so long without use (default: 0s, never)"
        ),
    )
    channels: Mapping[str, ChannelLimits] = key(
        field(default_factory=dict),
        "Limits by channel or pattern (`*`, `>`); what one does not say is inherited",
        "map of maps",
        aliases=("channels_limits", "channelslimits", "per_channel", "per_channel_limits"),
    )


class NATSServerOptions(Keyed, frozen=True):
    """The NATS server elsewhere that streaming uses instead of one of its own, and who to be there.

    `url` may name several with commas between them. At most one of `credentials` (a file with JWT and seed),
    `nkey_seed_file`, `username` and `token` is set. `secure` asks for TLS, so do the files.
    """

    HIDDEN = frozenset({"url", "password", "token"})

    url: str
    credentials: str | None = key(None, "File with a JWT and its seed, read at each connection")
    nkey_seed_file: str | None = key(None, "File with a seed, read at each connection")
    username: str | None = key(None, "User", aliases=("user",))
    password: str | None = key(None, "Password of the user", aliases=("pass",))
    token: str | None = key(None, "Token")
    secure: bool = key(
        False,
        "Reach the server by TLS, which is done also when it asks for it",
        flag=Flag(("secure",), "", "Reach the NATS server by TLS", _TLS),
    )
    client_cert: str | None = key(
        None,
        "Certificate that is shown",
        flag=Flag(("tls_client_cert",), "file", "Certificate for that", _TLS),
    )
    client_key: str | None = key(
        None,
        "Its private key",
        flag=Flag(("tls_client_key",), "file", "Private key for that", _TLS),
    )
    client_ca: str | None = key(
        None,
        "Authorities that the server's certificate is checked with",
        aliases=("client_cacert",),
        flag=Flag(("tls_client_cacert",), "file", "Authorities for that", _TLS),
    )
    server_name: str | None = key(None, "Name in the server's certificate", aliases=("server_hostname",))
    skip_verify: bool = key(False, "Believe any certificate", aliases=("insecure",))


class StreamingOptions(Keyed, frozen=True):
    """NATS Streaming; defaults are nats-streaming-server's. Inside the server, unless `nats_server` is set.

    `store_type`: "MEMORY" or "FILE", which has a `directory`. `sync`: "group", "interval" (every
    `sync_interval`) or "never". `compression`: "none" or "s2". `encryption_cipher`: "AES" or "CHACHA", None
    for no encryption.
    `bucket`: object storage that has the channels; the directory has a copy of it then. `clustered`: several
    servers have the bucket, and `node_id` is this one's name among them.
    `adopt`: channels that are JetStream streams too, with the streams' names.
    """

    HIDDEN = frozenset({"encryption_key"})

    cluster_id: str = key(
        "test-cluster",
        "Cluster ID, which clients give when they connect",
        aliases=("cid", "id"),
        flag=_flag("cid cluster_id", "name", "Cluster ID (default: test-cluster)"),
    )
    discover_prefix: str = key("_STAN.discover", "Prefix of the subject on which clients find the server")
    store_type: str = key(
        "MEMORY",
        "`memory` or `file`",
        name="store",
        aliases=("store_type", "storetype", "st"),
        flag=_flag("st store", "type", "MEMORY or FILE (default: MEMORY)"),
    )
    directory: str | None = key(
        None,
        "Directory of a `file` store",
        name="dir",
        aliases=("datastore",),
        flag=_flag("dir", "dir", "Directory of a FILE store"),
    )
    sync: str = key(
        "group",
        "When messages are forced to disk: `group` (before they are acknowledged; also `true`), "
        "`interval` (also `false`) or `never`",
        "string, true or false",
        aliases=("do_sync", "sync_on_flush"),
        flag=_flag(
            "sync",
            "policy",
            "Force to disk by group (before acknowledging; default), interval or never",
            _STORE,
        ),
    )
    sync_interval: float = key(
        60.0,
        "The interval",
        "seconds or duration",
        name="auto_sync",
        aliases=("file_auto_sync",),
        flag=_flag("file_auto_sync", "duration", "The interval (default: 1m)", _STORE),
    )
    segment_bytes: int = key(
        64 << 20,
        "Bytes of a segment of the log, between 64 KB and 1 GB",
        name="slice_max_bytes",
        aliases=("slice_max_size", "slice_bytes", "slice_size"),
        flag=_flag("file_slice_max_bytes", "size", "Bytes per file (default: 64MB)", _STORE),
    )
    compression: str = key(
        "none",
        "`none` or `s2`: [durability.md](durability.md#compression). Not in nats-streaming-server",
        flag=_flag(
            "file_compression",
            "way",
            "How what is stored is compressed: none or s2 (default: none)",
            _STORE,
        ),
    )
    encryption_cipher: str | None = key(
        None,
        "`AES` or `CHACHA`",
        shown_default="AES",
        flag=_flag("encryption_cipher", "name", "AES or CHACHA (default: AES)", _STORE),
    )
    encryption_key: str | None = key(
        None,
        "The key; NATS_STREAMING_ENCRYPTION_KEY in the environment wins",
        flag=_flag("encryption_key", "key", "The key, for all to see in the process list", _STORE),
    )
    bucket: BucketOptions | None = key(
        None,
        "Object storage that has the channels: a URL such as `s3://name/prefix`, or a map, as in `jetstream`",
        "string or map",
        read="bucket:bucket",
        flag=_flag("bucket", "url", "Object storage that has the channels, such as s3://name/prefix", _STORE),
    )
    limits: StoreLimits = StoreLimits()
    hb_interval: float = key(
        30.0,
        "Time between heartbeats to a client",
        aliases=("hbi", "server_to_client_hb_interval"),
        flag=_flag("hbi hb_interval", "duration", "Between heartbeats to a client (default: 30s)"),
    )
    hb_timeout: float = key(
        10.0,
        "Time to wait for the answer",
        aliases=("hbt", "server_to_client_hb_timeout"),
        flag=_flag("hbt hb_timeout", "duration", "How long to wait for the answer (default: 10s)"),
    )
    hb_fail_count: int = key(
        10,
        "Heartbeats that may fail one after another; one more closes the client",
        aliases=("hbf", "server_to_client_hb_fail_count"),
        flag=_flag("hbf hb_fail_count", "count", "Close a client after so many failures (default: 10)"),
    )
    replace_durable: bool = key(
        False,
        "A second open of an active durable replaces the first instead of being refused",
        aliases=("replace_durables", "replace_duplicate_durable", "replace_duplicate_durables"),
        flag=_flag("replace_durable", "", "Let a second open of a durable replace the first"),
    )
    ft_group: str | None = key(
        None,
        "Share the store with the other servers of this group: one serves, the others stand by",
        aliases=("ft_group_name",),
        flag=_flag("ft_group", "name", "Stand by for another server with the same store", _CLUSTER),
    )
    clustered: bool = key(
        False,
        "Be one of several servers that share a bucket: one serves, the others stand by",
        name=None,
        flag=_flag("clustered", "", "Be one of several servers with the same bucket", _CLUSTER),
    )
    node_id: str = key(
        "",
        "Name of this server in `/streaming/serverz`",
        shown_default="its server ID",
        flag=_flag("cluster_node_id", "name", "Name of this server in /streaming/serverz", _CLUSTER),
    )
    partitioning: bool = key(
        False, "Serve only the channels of `store_limits`; others of the same cluster ID serve the rest"
    )
    stan_debug: bool = key(
        False,
        "Log what helps debugging streaming",
        aliases=("sd",),
        flag=_flag("SD stan_debug", "", "Log what helps debugging streaming", _LOG),
    )
    stan_trace: bool = key(
        False,
        "Log streaming's protocol",
        aliases=("sv",),
        flag=_flag("SV stan_trace", "", "Log streaming's protocol", _LOG),
    )
    nats_server: NATSServerOptions | None = None
    archive: ChannelArchiveOptions | None = None
    adopt: Mapping[str, str] = key(
        field(default_factory=dict),
        "Channels that are JetStream streams too, with the streams' names; a list names them as the channels",
        "map or list",
    )
