"""What `headrace doctor` finds: for every check examples that are right, and examples that are not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from docs import doctor
from headrace.cli.diagnosis.evidence import (
    CertificateFacts,
    Evidence,
    FileEvidence,
    ServerEvidence,
    StoreFacts,
)
from headrace.cli.diagnosis.gathering import clock_offset, file_evidence, filesystem_of
from headrace.cli.diagnosis.symptoms import HarmLevel
from headrace.cli.diagnosis.table import CHECKS, diagnose
from headrace.cli.outcomes import CommandError, ExitCode
from headrace.conf.binding import load_options

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = 1_800_000_000_000_000_000
TOLD_NOW = "2027-01-15T08:00:00Z"
HASH = "$2a$11$PWIFAL8RsWyGI3jVZtO9Nu8.6jOxzxfZo7c/W0eLk017hjgUKWrhy"
TEMPORARY = "/tmp"
DAY = 86_400 * 10**9
GIB = 1 << 30


def of_file(text: str = "", **facts: Any) -> Evidence:
    """The evidence of a configuration, with facts of this machine."""
    return Evidence(NOW, FileEvidence("x.conf", load_options(text=text or "port: 4222"), **facts))


def of_servers(*servers: ServerEvidence, **more: Any) -> Evidence:
    return Evidence(NOW, servers=servers, **more)


def varz(**fields: Any) -> Evidence:
    """The evidence of one server with these fields in its varz."""
    return of_servers(ServerEvidence("S1", "ID1", varz=fields))


def stream(config: dict[str, Any] | None = None, name: str = "S1", **fields: Any) -> Evidence:
    """The evidence of one server with one stream."""
    shown = {"name": "ORDERS", "config": config or {}, **fields}
    return of_servers(
        ServerEvidence(name, "ID1", jsz={"account_details": [{"name": "A", "stream_detail": [shown]}]})
    )


def replace_name(evidence: Evidence, name: str) -> Evidence:
    """The same evidence of one stream under another name."""
    (account,) = evidence.servers[0].jsz["account_details"]
    account["stream_detail"][0]["name"] = name
    return evidence


def consumer(config: dict[str, Any] | None = None, **fields: Any) -> Evidence:
    shown = {"name": "C", "config": config or {}, "ts": TOLD_NOW, "created": "2027-01-01T00:00:00Z", **fields}
    return stream({"max_age": 1}, consumer_detail=[shown])


def member(name: str, *others: str, version: str = "2.15.1", **fields: Any) -> ServerEvidence:
    """A server of the cluster C with routes to others, whose ids are their names."""
    return ServerEvidence(
        name,
        name,
        varz={
            "cluster": {"name": "C"},
            "version": version,
            "server_name": name,
            "server_id": f"N{name}",
            **fields,
        },
        routez={"routes": [{"remote_id": other} for other in others]},
    )


def store(**facts: Any) -> Evidence:
    found = StoreFacts("/data", "ext4", free_bytes=50 * GIB, total_bytes=100 * GIB)
    return of_file(
        'jetstream { store_dir: "/data", max_file_store: 60GB }', stores=(replace(found, **facts),)
    )


def certificate(days: float) -> Evidence:
    return of_file(certificates=(CertificateFacts("cert.pem", NOW + int(days * DAY)),))


def closed(*reasons: str) -> Evidence:
    connections = [{"name": "app", "ip": "10.0.0.7", "reason": reason} for reason in reasons]
    return of_servers(
        ServerEvidence("S1", varz={"slow_consumers": len(reasons)}, closed={"connections": connections})
    )


LISTEN = 'listen: "127.0.0.1:4222"\n'
USERS = f'authorization {{ users: [{{user: a, password: "{HASH}"}}] }}\n'
PLAIN = "authorization { users: [{user: a, password: b}] }\n"
CLUSTER = 'cluster { name: C, listen: "0.0.0.0:6222", routes: ["nats://b:6222"%s]%s }\n'
MQTT = "jetstream: true\nmqtt { %s }\n"
ON = {"jetstream": {"config": {}}}

EXAMPLES: dict[str, tuple[Sequence[Evidence], Sequence[Evidence]]] = {
    "no-authentication": (
        [
            of_file(),
            of_file('listen: "10.0.0.1:4222"'),
            varz(host="0.0.0.0", port=4222),
            of_file(LISTEN + MQTT % "port: 1883"),
        ],
        [
            of_file(LISTEN),
            of_file(LISTEN + MQTT % 'listen: "127.0.0.1:1883"'),
            of_file(LISTEN + USERS + MQTT % "port: 1883"),
            of_file(LISTEN + MQTT % "port: 1883, authorization { user: a, password: b }"),
            of_file("host: localhost"),
            of_file(USERS),
            of_file("accounts { A { users: [{user: a, password: b}] } }"),
            varz(host="127.0.0.1"),
            varz(host="0.0.0.0", auth_required=True),
            varz(host="0.0.0.0", tls_verify=True),
            varz(max_payload=1024),  # what a user of an account is told of a server
            of_servers(ServerEvidence("S1")),
        ],
    ),
    "open-routes": (
        [of_file(CLUSTER % ("", "")), of_file('leafnodes { listen: "0.0.0.0:7422" }')],
        [
            of_file(CLUSTER % ("", ", authorization { user: r, password: s }")),
            of_file((CLUSTER % ("", "")).replace("0.0.0.0", "127.0.0.1")),
            of_file(USERS + 'leafnodes { listen: "0.0.0.0:7422" }'),
            of_file('leafnodes { listen: "0.0.0.0:7422", authorization { user: l, password: s } }'),
            of_file('leafnodes { remotes: [{url: "nats-leaf://hub:7422"}] }'),
        ],
    ),
    "certificate-ended": (
        [certificate(-1), certificate(0), varz(tls_cert_not_after="2026-01-01T00:00:00Z")],
        [certificate(1), varz(tls_cert_not_after="2030-01-01T00:00:00Z"), varz()],
    ),
    "certificate-ends-soon": (
        [
            certificate(29),
            varz(tls_cert_not_after="2027-01-20T00:00:00Z"),
            varz(cluster={"tls_cert_not_after": "2027-01-20T00:00:00Z"}),
        ],
        [certificate(31), certificate(-1), varz(tls_cert_not_after="0001-01-01T00:00:00Z")],
    ),
    "no-auth-user": (
        [of_file(USERS + "no_auth_user: a")],
        [
            of_file(USERS),
            of_file(LISTEN + USERS + "no_auth_user: a"),
            of_file(
                f'authorization {{ users: [{{user: a, password: "{HASH}", permissions: {{publish: "a.>"}}}}]'
                "}\nno_auth_user: a"
            ),
            of_file(
                f'authorization {{ users: [{{user: a, password: "{HASH}"}}]\n'
                'default_permissions: {publish: "a.>"} }\nno_auth_user: a'
            ),
        ],
    ),
    "plain-passwords": (
        [
            of_file(PLAIN),
            of_file("authorization { token: secret }"),
            of_file("accounts { A { users: [{user: a, password: b}] } }"),
            of_file("http_authorization { token: secret }"),
        ],
        [
            of_file(),
            of_file(USERS),
            of_file(f'authorization {{ token: "{HASH}" }}'),
            of_file(
                "authorization { users: [{nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4}] }"
            ),
        ],
    ),
    "secrets-readable": (
        [of_file(PLAIN, mode=0o644), of_file("authorization { token: secret }", mode=0o640)],
        [of_file(PLAIN, mode=0o600), of_file(USERS, mode=0o644), of_file(mode=0o644)],
    ),
    "no-tls": (
        [
            of_file(USERS),
            varz(host="0.0.0.0", auth_required=True),
            of_file(LISTEN + USERS + MQTT % "port: 1883"),
            of_file(LISTEN + MQTT % "port: 1883, authorization { token: t }"),
        ],
        [
            of_file(LISTEN + USERS + MQTT % 'listen: "127.0.0.1:1883"'),
            of_file(LISTEN + MQTT % "port: 1883"),
            of_file(LISTEN + USERS),
            of_file(),
            varz(host="0.0.0.0", auth_required=True, tls_required=True),
            varz(host="::1", auth_required=True),
        ],
    ),
    "open-monitoring": (
        [
            of_file("http: 8222"),
            Evidence(NOW, open_monitors=("10.0.0.1",)),
        ],
        [
            of_file('http: "127.0.0.1:8222"'),
            of_file(f'http: 8222\nhttp_authorization {{ token: "{HASH}" }}'),
            Evidence(NOW, open_monitors=("127.0.0.1",)),
            of_servers(ServerEvidence("S1")),
        ],
    ),
    "temporary-store": (
        [
            of_file("jetstream: true"),
            store(filesystem="tmpfs"),
            store(directory=f"{TEMPORARY}/nats"),
            varz(jetstream={"config": {"store_dir": f"{TEMPORARY}/nats/jetstream"}}),
        ],
        [store(), store(directory="/tmpfiles"), varz(jetstream={"config": {"store_dir": "/data"}}), varz()],
    ),
    "network-store": (
        [store(filesystem="nfs4"), store(filesystem="fuse.s3fs")],
        [store(), store(filesystem="")],
    ),
    "disk-nearly-full": (
        [store(free_bytes=9 * GIB), store(free_bytes=0)],
        [store(free_bytes=11 * GIB), store(free_bytes=0, total_bytes=0)],
    ),
    "sync-interval": (
        [
            of_file('jetstream { store_dir: "/data", sync_interval: "2m" }'),
            of_file('jetstream { store_dir: "/data", sync_interval: never }'),
            varz(jetstream={"config": {"sync_interval": 120 * 10**9}}),
        ],
        [
            of_file('jetstream { store_dir: "/data" }'),
            of_file('jetstream { store_dir: "/data", sync_interval: always }'),
            varz(jetstream={"config": {"sync_interval": 120 * 10**9, "sync_always": True}}),
            varz(jetstream={}),
        ],
    ),
    "storage-promised": (
        [store(total_bytes=50 * GIB)],
        [store(), store(total_bytes=0), of_file("jetstream: true")],
    ),
    "jetstream-nearly-full": (
        [
            varz(jetstream={"config": {"max_storage": 100}, "stats": {"storage": 85}}),
            varz(jetstream={"config": {"max_memory": 100}, "stats": {"memory": 100}}),
        ],
        [
            varz(jetstream={"config": {"max_storage": 100}, "stats": {"storage": 84}}),
            varz(jetstream={"config": {"max_storage": -1}, "stats": {"storage": 84}}),
            varz(),
        ],
    ),
    "stream-without-limits": (
        [
            stream({"name": "ORDERS", "max_msgs": -1, "max_bytes": -1, "max_age": 0}),
            stream({"name": "ORDERS", "retention": "workqueue"}),
        ],
        [
            stream({"max_age": 1}),
            stream({"max_bytes": 1}),
            stream({"max_msgs": 1}),
            stream({"max_msgs_per_subject": 1}),
            stream({"name": "ORDERS", "sealed": True}),
            replace_name(stream({"retention": "interest"}), "$MQTT_msgs"),
            varz(),
        ],
    ),
    "stream-nearly-full": (
        [
            stream({"discard": "new", "max_msgs": 10}, state={"messages": 9}),
            stream({"discard": "new", "max_bytes": 10}, state={"bytes": 10}),
        ],
        [
            stream({"discard": "old", "max_msgs": 10}, state={"messages": 10}),
            stream({"discard": "new", "max_msgs": 10}, state={"messages": 8}),
        ],
    ),
    "source-lost": (
        [
            stream(mirror={"name": "M", "lag": 0, "active": 1, "error": {"description": "no such stream"}}),
            stream(mirror={"name": "M", "lag": 0, "active": -1}),
            stream(sources=[{"name": "M", "lag": 3, "active": 61 * 10**9}]),
        ],
        [
            stream(mirror={"name": "M", "lag": 0, "active": 61 * 10**9}),
            stream(sources=[{"name": "M", "lag": 3, "active": 10**9}]),
            stream(),
        ],
    ),
    "replica-lost": (
        [
            stream(cluster={"leader": "S1", "replicas": [{"name": "S2", "offline": True, "current": True}]}),
            stream(cluster={"leader": "S1", "replicas": [{"name": "S2", "current": False}]}),
            stream(cluster={"replicas": [{"name": "S2", "current": True}]}),
        ],
        [
            stream(cluster={"leader": "S1", "replicas": [{"name": "S2", "current": True}]}),
            stream(cluster={"leader": "S1"}),
            # A follower's view of others is not current.
            stream(cluster={"leader": "S2", "replicas": [{"name": "S2", "current": False}]}),
        ],
    ),
    "consumer-unread": (
        [
            consumer(num_pending=5),
            consumer(num_ack_pending=5, delivered={"last_active": "2027-01-15T06:59:59Z"}),
        ],
        [
            consumer(num_pending=0),
            consumer(num_pending=5, num_waiting=1),
            consumer(num_pending=5, push_bound=True),
            consumer(num_pending=5, paused=True),
            consumer(num_pending=5, delivered={"last_active": "2027-01-15T07:30:00Z"}),
        ],
    ),
    "redelivered-for-ever": (
        [consumer({"max_deliver": -1, "ack_policy": "explicit"}, num_redelivered=1)],
        [
            consumer({"max_deliver": 5, "ack_policy": "explicit"}, num_redelivered=1),
            consumer({"max_deliver": -1, "ack_policy": "explicit"}, num_redelivered=0),
        ],
    ),
    "consumer-blocked": (
        [consumer({"max_ack_pending": 5}, num_ack_pending=5, num_pending=1)],
        [
            consumer({"max_ack_pending": 5}, num_ack_pending=5, num_pending=0),
            consumer({"max_ack_pending": 5}, num_ack_pending=4, num_pending=1),
            consumer({"max_ack_pending": -1}, num_ack_pending=5, num_pending=1),
        ],
    ),
    "single-copy": (
        [
            of_servers(
                *(member(name, **ON) for name in "ab"),
                replace(
                    stream({"num_replicas": 1, "storage": "file"}).servers[0],
                    varz={"jetstream": {"config": {}}, "version": "2.15.1"},
                ),
            )
        ],
        [
            stream({"num_replicas": 1, "storage": "file"}),
            of_servers(
                *(member(name, git_commit="headrace-1", **ON) for name in "abc"),
                stream({"num_replicas": 1, "storage": "file"}).servers[0],
            ),
        ],
    ),
    "unhealthy": (
        [of_servers(ServerEvidence("S1", healthz={"status": "unavailable", "error": "JetStream is off"}))],
        [of_servers(ServerEvidence("S1", healthz={"status": "ok"})), of_servers(ServerEvidence("S1"))],
    ),
    "configuration-refused": (
        [Evidence(NOW, FileEvidence("x.conf", problems=("1:1: unknown field",)))],
        [of_file(), Evidence(NOW)],
    ),
    "only-in-nats-server": ([of_file(unsupported=("field write_timeout",))], [of_file()]),
    "configuration-not-read": (
        [replace(of_file(), servers=(ServerEvidence("S1", varz={"config_digest": "sha256:other"}),))],
        [
            replace(
                of_file(),
                servers=(
                    ServerEvidence(
                        "S1", varz={"config_digest": load_options(text="port: 4222").config_digest}
                    ),
                ),
            ),
            replace(of_file(), servers=(ServerEvidence("S1", varz={}),)),
            of_file(),
        ],
    ),
    "file-descriptors": (
        [
            of_file("max_connections: 1000", descriptor_limit=1024),
            of_file("max_connections: 10", descriptor_limit=1024, open_descriptors=900),
        ],
        [of_file("max_connections: 500", descriptor_limit=1024, open_descriptors=500), of_file()],
    ),
    "connections-nearly-full": (
        [varz(max_connections=10, connections=8)],
        [varz(max_connections=10, connections=7), varz(max_connections=-1, connections=8)],
    ),
    "clock": (
        [
            of_servers(ServerEvidence("S1", clock_offset_ns=2 * 10**9)),
            of_servers(ServerEvidence("S1", clock_offset_ns=-2 * 10**9, clock_error_ns=10**8)),
        ],
        [
            of_servers(ServerEvidence("S1", clock_offset_ns=10**9)),
            of_servers(ServerEvidence("S1", clock_offset_ns=3 * 10**9, clock_error_ns=2 * 10**9)),
        ],
    ),
    "slow-consumers": ([closed("Slow Consumer (Pending Bytes)")], [closed(), varz()]),
    "slow-client": (
        [
            of_servers(
                ServerEvidence(
                    "S1", varz={"max_pending": 100}, connz={"connections": [{"pending_bytes": 25}]}
                )
            )
        ],
        [
            of_servers(
                ServerEvidence(
                    "S1", varz={"max_pending": 100}, connz={"connections": [{"pending_bytes": 24}]}
                )
            )
        ],
    ),
    "refused-clients": ([closed("Authentication Failure")], [closed("Client Closed")]),
    "trace-on": ([of_file("trace: true")], [of_file("debug: true")]),
    "large-payloads": (
        [of_file("max_payload: 16MB"), varz(max_payload=16 << 20)],
        [of_file(), varz(max_payload=1 << 20)],
    ),
    "endless-log": (
        [of_file('log_file: "nats.log"')],
        [of_file(), of_file('log_file: "nats.log"\nlog_size_limit: 1GB')],
    ),
    "configuration-remarks": (
        [Evidence(NOW, FileEvidence("x.conf", replace(load_options(), warnings=("too high",))))],
        [of_file()],
    ),
    "cluster-of-two": (
        [
            of_file(CLUSTER % ("", "") + "jetstream: true"),
            of_servers(member("a", "b", **ON), member("b", "a", **ON)),
        ],
        [
            of_file(CLUSTER % ("", "")),
            of_file(CLUSTER % (', "nats://c:6222"', "") + "jetstream: true"),
            of_servers(member("a", "b"), member("b", "a")),
            of_servers(member("a", "b", "c", **ON)),
            of_servers(member("a", "b", git_commit="headrace-1", **ON)),
            of_servers(member("a", **ON)),
        ],
    ),
    "mesh-incomplete": (
        [of_servers(member("a", "b"), member("b", "a"), member("c", "a"))],
        [
            of_servers(member("a", "b", "c"), member("b", "a", "c"), member("c", "a", "b")),
            of_servers(member("a"), ServerEvidence("b", "b", varz={"cluster": {"name": "D"}})),
        ],
    ),
    "silent-server": ([Evidence(NOW, silent=(("b", "no answer"),))], [of_servers(member("a"))]),
    "versions": (
        [
            of_servers(member("a"), member("b", version="2.14.0")),
            of_servers(member("a"), member("b", git_commit="headrace-0.2.0")),
        ],
        [of_servers(member("a"), member("b")), of_servers(member("a"))],
    ),
    "nameless-server": (
        [
            of_file(CLUSTER % ("", "")),
            of_servers(member("a", server_name="NX", server_id="NX")),
        ],
        [of_file(), of_file("server_name: a\n" + CLUSTER % ("", "")), of_servers(member("a"))],
    ),
}
"""To each check evidence that it finds something in, and evidence that it does not."""

BAD = [(name, place) for name, (bad, _) in EXAMPLES.items() for place in range(len(bad))]
GOOD = [(name, place) for name, (_, good) in EXAMPLES.items() for place in range(len(good))]


def ids(evidence: Evidence) -> list[str]:
    return [finding.check.id for finding in diagnose(evidence)]


def test_every_check_has_examples_and_its_own_id() -> None:
    names = [check.id for check in CHECKS]

    assert set(names) == EXAMPLES.keys()
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("name", "place"), BAD)
def test_what_is_wrong_is_found(name: str, place: int) -> None:
    found = {finding.check.id: finding for finding in diagnose(EXAMPLES[name][0][place])}

    assert name in found
    assert all(each.place and each.text for each in found[name].found)


@pytest.mark.parametrize(("name", "place"), GOOD)
def test_what_is_right_is_not_found(name: str, place: int) -> None:
    assert name not in ids(EXAMPLES[name][1][place])


def test_the_worst_comes_first_and_what_is_ignored_does_not_come() -> None:
    evidence = of_file("trace: true\nmax_payload: 16MB")
    severities = [finding.check.severity for finding in diagnose(evidence)]

    assert severities == sorted(severities, reverse=True)
    assert set(severities) == set(HarmLevel)
    assert "trace-on" in ids(evidence)
    assert "trace-on" not in [found.check.id for found in diagnose(evidence, {"trace-on"})]


def test_texts_never_have_a_secret() -> None:
    evidence = of_file(
        'authorization { users: [{user: a, password: "hunter2"}] }\nhttp_authorization { token: "hunter2" }',
        mode=0o644,
    )

    found = [each for finding in diagnose(evidence) for each in finding.found]

    assert len(found) > 3
    assert not any("hunter2" in each.text + each.place for each in found)


def test_a_slow_consumer_has_its_name() -> None:
    (finding,) = (
        each
        for each in diagnose(closed("Slow Consumer (Pending Bytes)", "Slow Consumer (Write Deadline)"))
        if each.check.id == "slow-consumers"
    )

    assert finding.found[0].text == "2 since its start: app at 10.0.0.7 (2 times)"


def test_the_page_is_up_to_date_and_has_every_check() -> None:
    text = doctor.PAGE.read_text(encoding="utf-8")

    assert text == doctor.page(), "run python -m docs.doctor"
    assert all(f"`{check.id}`" in text for check in CHECKS)


def test_links_lead_to_sections() -> None:
    for check in CHECKS:
        page, _, section = check.link.partition("#")
        text = (doctor.PAGE.parent / page).read_text(encoding="utf-8")
        heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        anchors = {re.sub(r"[^a-z0-9 _-]", "", head.lower()).replace(" ", "-") for head in heads}
        assert not section or section in anchors, check.link


def test_texts_are_sentences() -> None:
    for check in CHECKS:
        assert check.title[0].isupper()
        assert not check.title.endswith(".")
        assert check.advice.endswith(".")


def test_the_clock_is_compared_with_the_middle_of_the_question() -> None:
    assert clock_offset(TOLD_NOW, NOW - 5 * 10**9, NOW - 3 * 10**9) == (4 * 10**9, 10**9)
    assert clock_offset(None, 1, 2) == (0, 0)


def test_the_longest_mount_says_the_filesystem() -> None:
    mounts = ["/dev/sda / ext4 rw 0 0", "nas:/x /data nfs4 rw 0 0", "t /data/my\\040store tmpfs rw 0 0", ""]

    assert filesystem_of(Path("/var/lib"), mounts) == "ext4"
    assert filesystem_of(Path("/data/js"), mounts) == "nfs4"
    assert filesystem_of(Path("/database"), mounts) == "ext4"
    assert filesystem_of(Path("/data/my store/js"), mounts) == "tmpfs"
    assert filesystem_of(Path("/x"), []) == ""


def test_a_file_that_cannot_be_read_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        file_evidence(str(tmp_path / "none.conf"))

    assert caught.value.exit_code is ExitCode.NOT_THERE


def test_mistakes_are_findings_and_what_only_the_go_server_has_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    file.write_text("prot: 4222\n")
    wrong = file_evidence(str(file))
    file.write_text('write_timeout: retry\njetstream { store_dir: "/nowhere/js" }\n')
    go = file_evidence(str(file))

    assert wrong.options is None
    assert "prot" in wrong.problems[0]
    assert go.options is not None
    assert "write_timeout" in go.unsupported[0]
    assert go.stores[0].directory == "/nowhere/js"
    assert go.stores[0].total_bytes > 0
