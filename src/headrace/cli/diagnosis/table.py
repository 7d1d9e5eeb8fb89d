"""The table of all checks, and the diagnosis: what they find in some evidence, the worst first.

Here live severities and texts; docs/doctor.md is made of this table. An id never changes: scripts have it
behind `--ignore`. Never lives here: how something is found (`access_checks` and its like).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.cli.diagnosis import (
    access_checks,
    mesh_checks,
    server_checks,
    store_checks,
    stream_checks,
)
from headrace.cli.diagnosis.symptoms import DoctorCheck, DoctorFinding, HarmLevel

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace.cli.diagnosis.evidence import Evidence

_DANGER, _WARNING, _HINT = HarmLevel.DANGER, HarmLevel.WARNING, HarmLevel.HINT

CHECKS: Final = (
    # -- who gets in
    DoctorCheck(
        "no-authentication",
        _DANGER,
        "Everybody on the network may publish, subscribe and remove streams",
        "Set `authorization` or `accounts`, or listen on 127.0.0.1.",
        "security.md#step-by-step",
        access_checks.no_authentication,
    ),
    DoctorCheck(
        "open-routes",
        _DANGER,
        "Any server may join, and sees and sends every message",
        "Set `tls` in the block (or `authorization`), or listen on an address that only the others reach.",
        "clusters.md#configuration",
        access_checks.open_routes,
    ),
    DoctorCheck(
        "certificate-ended",
        _DANGER,
        "A certificate is good no more: clients and servers refuse it",
        "Renew it, then `headrace reload`: connections that are open stay.",
        "server.md#tls",
        access_checks.certificates_ended,
    ),
    DoctorCheck(
        "no-auth-user",
        _WARNING,
        "Who gives no credentials may do everything",
        "Give the user of `no_auth_user` permissions, or remove `no_auth_user`.",
        "configuration.md#permissions",
        access_checks.open_user,
    ),
    DoctorCheck(
        "plain-passwords",
        _WARNING,
        "Who reads the file has the passwords",
        "Put bcrypt hashes in their place, or use nkeys, which are no secrets.",
        "security.md#step-by-step",
        access_checks.plain_passwords,
    ),
    DoctorCheck(
        "secrets-readable",
        _WARNING,
        "Every user of the machine may read the secrets of the configuration",
        "`chmod 640` the file, with the server's group.",
        "security.md#step-by-step",
        access_checks.secrets_readable,
    ),
    DoctorCheck(
        "no-tls",
        _WARNING,
        "Passwords, tokens and messages travel in the open",
        "Set `tls` with a certificate; `allow_non_tls` is for the time of the change only.",
        "server.md#tls",
        access_checks.no_tls,
    ),
    DoctorCheck(
        "open-monitoring",
        _WARNING,
        "Anybody may read who is connected, from where, and to which subjects",
        "Let monitoring listen on 127.0.0.1, or set `http_authorization` (Headrace).",
        "server.md#monitoring",
        access_checks.open_monitoring,
    ),
    DoctorCheck(
        "certificate-ends-soon",
        _WARNING,
        "A certificate ends within 30 days",
        "Renew it, then `headrace reload`: connections that are open stay.",
        "server.md#tls",
        access_checks.certificates_end_soon,
    ),
    # -- what is kept
    DoctorCheck(
        "temporary-store",
        _DANGER,
        "Streams are gone when the machine starts again",
        "Set `store_dir` to a directory on a disk of the machine.",
        "configuration.md#jetstream",
        store_checks.temporary_store,
    ),
    DoctorCheck(
        "network-store",
        _DANGER,
        "A network disk that is away, or says too early that something is written, damages streams",
        "Use a disk of the machine, or, with Headrace, a `bucket` of an object store.",
        "bucket.md#set-up",
        store_checks.network_store,
    ),
    DoctorCheck(
        "disk-nearly-full",
        _DANGER,
        "Soon nothing more can be stored",
        "Give streams limits, remove what is not needed (`headrace stream purge`), or enlarge the disk.",
        "durability.md#when-the-disk-fails",
        store_checks.disk_nearly_full,
    ),
    DoctorCheck(
        "sync-interval",
        _WARNING,
        "A power failure takes messages that were acknowledged",
        "Set `sync_interval: always` in `jetstream`; in Headrace `group` is as safe and quicker.",
        "durability.md#which-loss-takes-what",
        store_checks.sync_interval,
    ),
    DoctorCheck(
        "storage-promised",
        _WARNING,
        "The disk is full before the limit of JetStream is reached",
        "Set `max_file_store` below the size of the disk.",
        "configuration.md#jetstream",
        store_checks.storage_promised,
    ),
    DoctorCheck(
        "jetstream-nearly-full",
        _WARNING,
        "Soon streams refuse messages: JetStream has nearly all that it may have",
        "Give streams limits, or raise `max_file_store` or `max_memory_store`.",
        "configuration.md#jetstream",
        store_checks.jetstream_nearly_full,
    ),
    # -- streams and consumers
    DoctorCheck(
        "stream-without-limits",
        _WARNING,
        "A stream grows until the disk is full",
        "Set `max_age`, `max_bytes` or `max_msgs`: `headrace stream edit`.",
        "jetstream.md#what-the-api-does",
        stream_checks.endless_streams,
    ),
    DoctorCheck(
        "stream-nearly-full",
        _WARNING,
        "Soon a stream refuses messages",
        "Raise its limit, or remove messages: `headrace stream edit`, `headrace stream purge`.",
        "jetstream.md#what-the-api-does",
        stream_checks.full_streams,
    ),
    DoctorCheck(
        "source-lost",
        _WARNING,
        "A mirror or a stream with sources does not follow them",
        "Look whether the other stream is there and may be reached: `headrace stream info`.",
        "jetstream.md#what-the-api-does",
        stream_checks.lost_sources,
    ),
    DoctorCheck(
        "replica-lost",
        _DANGER,
        "A stream has fewer copies than it should have",
        "Start the server that is missing, or remove it from the group for good.",
        "clusters.md#jetstream-and-nats-streaming",
        stream_checks.lost_replicas,
    ),
    DoctorCheck(
        "consumer-unread",
        _WARNING,
        "Nobody reads a consumer, and messages wait for it",
        "Start its reader, or remove the consumer: `headrace consumer rm`. A stream of work or interest "
        "keeps its messages for it.",
        "jetstream.md#what-the-api-does",
        stream_checks.unread_consumers,
    ),
    DoctorCheck(
        "redelivered-for-ever",
        _WARNING,
        "Messages that nobody can process are delivered again and again",
        "Set `max_deliver`, and find out why the reader does not acknowledge them; Headrace can put them "
        "elsewhere by `headrace.dead_letter_subject`.",
        "jetstream.md#beyond-nats-server",
        stream_checks.endless_redelivery,
    ),
    DoctorCheck(
        "consumer-blocked",
        _WARNING,
        "A consumer delivers nothing until its reader acknowledges",
        "Acknowledge sooner, add readers, or raise `max_ack_pending`.",
        "jetstream.md#what-the-api-does",
        stream_checks.blocked_consumers,
    ),
    DoctorCheck(
        "single-copy",
        _HINT,
        "A stream in a cluster has one copy: without its server it cannot be reached",
        "Raise `num_replicas` to 3.",
        "clusters.md#jetstream-and-nats-streaming",
        stream_checks.single_copies,
    ),
    # -- the server
    DoctorCheck(
        "unhealthy",
        _DANGER,
        "A server says that it is not well",
        "Read its log; `/healthz?details=true` tells more.",
        "server.md#monitoring",
        server_checks.unwell,
    ),
    DoctorCheck(
        "configuration-refused",
        _DANGER,
        "A start with this configuration fails",
        "Correct it; `headrace config check` says the same.",
        "configuration.md",
        server_checks.refused_configuration,
    ),
    DoctorCheck(
        "only-in-nats-server",
        _HINT,
        "Only nats-server starts with this configuration; what it has alone was not looked at",
        "Leave these fields out for Headrace.",
        "configuration.md#known-not-there-yet",
        server_checks.unsupported_configuration,
    ),
    DoctorCheck(
        "configuration-not-read",
        _WARNING,
        "The server runs with another configuration than the file",
        "`headrace reload`; `headrace config diff` says what changes, and what needs a restart.",
        "server.md#reload",
        server_checks.other_configuration,
    ),
    DoctorCheck(
        "file-descriptors",
        _WARNING,
        "Clients are refused before `max_connections` is reached",
        "Raise the limit of open files (`LimitNOFILE=` of systemd, `ulimit -n`), or lower `max_connections`.",
        "deploying.md#systemd",
        server_checks.few_descriptors,
    ),
    DoctorCheck(
        "connections-nearly-full",
        _WARNING,
        "Soon clients are refused",
        "Raise `max_connections`, or find out who connects so often: `headrace top`.",
        "configuration.md#top-level",
        server_checks.many_connections,
    ),
    DoctorCheck(
        "clock",
        _WARNING,
        "The clock is wrong: ages, expiry of tokens and times of messages are, too",
        "Let chrony or systemd-timesyncd set it on every machine.",
        "durability.md#how-long-how-much-how-fast",
        server_checks.wrong_clock,
    ),
    DoctorCheck(
        "slow-consumers",
        _WARNING,
        "Clients did not take their messages quickly enough, were closed, and lost messages",
        "Make them quicker, spread the work over a queue group, or use a consumer of JetStream.",
        "configuration.md#top-level",
        server_checks.slow_consumers,
    ),
    DoctorCheck(
        "slow-client",
        _WARNING,
        "So much waits for a client that it is about to be closed",
        "Make it quicker, spread the work over a queue group, or use a consumer of JetStream.",
        "configuration.md#top-level",
        server_checks.slow_clients,
    ),
    DoctorCheck(
        "refused-clients",
        _HINT,
        "Clients come with wrong credentials",
        "Correct them, or shut their address out.",
        "security.md#when-something-has-happened",
        server_checks.refused_clients,
    ),
    DoctorCheck(
        "trace-on",
        _WARNING,
        "Every message is in the log, and the server is slow",
        "Set `trace: false`; a reload is enough.",
        "server.md#log",
        server_checks.logged_messages,
    ),
    DoctorCheck(
        "large-payloads",
        _HINT,
        "Large messages take memory for every receiver, and hold the others up",
        "Leave `max_payload` at 1 MB, and put large things into an object bucket: `headrace object put`.",
        "configuration.md#top-level",
        server_checks.large_payloads,
    ),
    DoctorCheck(
        "endless-log",
        _HINT,
        "The log grows until the disk is full, unless something else rotates it",
        "Set `log_size_limit`.",
        "server.md#log",
        server_checks.endless_log,
    ),
    DoctorCheck(
        "configuration-remarks",
        _HINT,
        "Reading the configuration warns of something",
        "Read the warning; `headrace config check --strict` fails with it.",
        "configuration.md",
        server_checks.remarked_configuration,
    ),
    # -- servers together
    DoctorCheck(
        "cluster-of-two",
        _WARNING,
        "One of two servers alone has no majority: JetStream of nats-server stands still then",
        "Make it three (or one). Name more than one other server in `routes`.",
        "clusters.md#jetstream-and-nats-streaming",
        mesh_checks.cluster_of_two,
    ),
    DoctorCheck(
        "mesh-incomplete",
        _DANGER,
        "Servers of a cluster do not see each other: their clients miss messages",
        "Look at the logs of both, `advertise`, firewalls and certificates.",
        "clusters.md#watching",
        mesh_checks.incomplete_mesh,
    ),
    DoctorCheck(
        "silent-server",
        _DANGER,
        "A server that should be there does not answer",
        "Look whether it runs and is not overloaded: its log, its machine.",
        "clusters.md#watching",
        mesh_checks.silent_servers,
    ),
    DoctorCheck(
        "versions",
        _WARNING,
        "Servers of different versions do not know the same things",
        "Bring all to one version; together they are meant for the time of an upgrade.",
        "upgrading.md#upgrade",
        mesh_checks.versions,
    ),
    DoctorCheck(
        "nameless-server",
        _HINT,
        "A server that starts again is a stranger to the others",
        "Set `server_name`, another one on each server.",
        "clusters.md#configuration",
        mesh_checks.nameless,
    ),
)
"""All checks; findings of one severity are told in this order."""


def diagnose(evidence: Evidence, ignored: Collection[str] = ()) -> list[DoctorFinding]:
    """Return what the checks find, the worst first, without those whose ids are `ignored`."""
    findings = []
    for check in CHECKS:
        if check.id not in ignored:
            found = tuple(check.look(evidence))
            if found:
                findings.append(DoctorFinding(check, found))
    return sorted(findings, key=lambda finding: -finding.check.severity)
