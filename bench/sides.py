"""Who takes part: how each server of a comparison is called, started and spoken to.

A side is Headrace, nats-server or Mosquitto with the flags that a case needs. Here live names, labels, flags
and configuration; how a process is run lives in `process`. `{dir}` is the directory of stored streams.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from bench.process import Command, mosquitto

Side = Literal[
    "server",
    "peer",
    "streaming",
    "streams",
    "jetstream",
    "jetstream-always",
    "streaming-interval",
    "streams-interval",
    "jetstream-interval",
    "guarded",
    "guarded-peer",
    "permitted",
    "permitted-peer",
    "mapped",
    "mapped-peer",
    "mesh",
    "mesh-peer",
    "mesh-to-peer",
    "mesh-from-peer",
    "spread",
    "mqtt",
    "mqtt-peer",
    "mqtt-default",
    "mqtt-peer-default",
    "mosquitto",
    "mqtt-open",
]

_INTERVAL = 'jetstream {{ store_dir: "{dir}", sync_interval: "2m" }}'
"""The default promise of nats-server, on either side: acknowledged first, on disk within two minutes."""
_PERMITTED = """
no_auth_user: bench
authorization {{ users: [{{user: bench, password: bench, permissions: {{
  publish: {{allow: "bench.>", deny: "bench.secret.>"}}
  subscribe: {{allow: "bench.>", deny: "bench.*.secret"}}
}}}}] }}
"""
"""Clients are a user with permissions that allow all they do."""
_MAPPED = 'mappings {{ "bench.*": "bench.$1" }}'
"""Every subject of a message is mapped, to itself."""
_GUARDED = """
no_auth_user: bench
accounts {{
  BENCH {{
    users: [{{user: bench, password: bench, permissions: {{
      publish: {{allow: "bench.>", deny: "bench.secret.>"}}, subscribe: {{allow: "bench.>"}}
    }}}}]
    mappings: {{"bench.old.*": "bench.new.$1"}}
    exports: [{{stream: "bench.>"}}, {{service: "service.>"}}]
  }}
  OTHER {{ imports: [{{stream: {{account: BENCH, subject: "bench.>"}}, prefix: from}}] }}
}}
"""
"""Clients are users of an account with permissions, a mapping and exports; their messages stay the same."""

_MQTT_PORT = 'server_name: bench\nmqtt {{ host: "127.0.0.1", port: {mqtt} }}\n'
_MQTT = _MQTT_PORT + _INTERVAL
_MQTT_DEFAULT = _MQTT_PORT + 'jetstream {{ store_dir: "{dir}" }}'
_MOSQUITTO = """listener {mqtt} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 0
log_type error"""
"""Nothing is dropped or held back, and nothing is stored."""


@dataclass(frozen=True, slots=True)
class SideSpec:
    """One side.

    label: its column in a table. noun: what it is called in a sentence.
    flags: added to the command line of Headrace (`ours`) or nats-server. config: its configuration file,
    `{config}` in the flags; braces are doubled as for `str.format`.
    nodes: of a mesh, whether each of its two nodes is Headrace: where messages are published and where they
    are subscribed to; empty for one server.
    only_mqtt: Mosquitto.
    """

    label: str
    noun: str
    ours: bool
    flags: str = ""
    config: str = ""
    nodes: tuple[bool, ...] = ()
    only_mqtt: bool = False


_MESH = "--cluster nats://127.0.0.1:{route} --cluster_name bench"
_MESH_FAR = f"{_MESH} --routes nats://127.0.0.1:{{near}}"

SIDES: dict[Side, SideSpec] = {
    "server": SideSpec("Headrace", "server", ours=True),
    "peer": SideSpec("nats-server", "peer", ours=False),
    "streaming": SideSpec(
        "Headrace", "server", ours=True, flags="--streaming -cid bench -st FILE -dir {dir} -mm 0 -mb 0"
    ),
    "streams": SideSpec("Headrace", "server", ours=True, flags="-js -sd {dir}"),
    "jetstream": SideSpec("JetStream", "JetStream server", ours=False, flags="-js -sd {dir}"),
    "jetstream-always": SideSpec(
        "JetStream, sync always",
        "JetStream server that syncs always",
        ours=False,
        flags="-c {config}",
        config='jetstream {{ store_dir: "{dir}", sync_interval: always }}',
    ),
    "streaming-interval": SideSpec(
        "Headrace, synced every 2m",
        "server that syncs every 2m",
        ours=True,
        flags="--streaming -cid bench -st FILE -dir {dir} -mm 0 -mb 0 --file_sync=false --file_auto_sync 2m",
    ),
    "streams-interval": SideSpec(
        "Headrace, sync 2m",
        "server that syncs every 2m",
        ours=True,
        flags="-c {config}",
        config=_INTERVAL,
    ),
    "jetstream-interval": SideSpec(
        "JetStream, sync 2m",
        "JetStream server that syncs every 2m",
        ours=False,
        flags="-c {config}",
        config=_INTERVAL,
    ),
    "guarded": SideSpec(
        "Headrace, accounts", "server with accounts", ours=True, flags="-c {config}", config=_GUARDED
    ),
    "guarded-peer": SideSpec(
        "nats-server, accounts", "peer with accounts", ours=False, flags="-c {config}", config=_GUARDED
    ),
    "permitted": SideSpec(
        "Headrace, permissions", "server with permissions", ours=True, flags="-c {config}", config=_PERMITTED
    ),
    "permitted-peer": SideSpec(
        "nats-server, permissions",
        "peer with permissions",
        ours=False,
        flags="-c {config}",
        config=_PERMITTED,
    ),
    "mapped": SideSpec(
        "Headrace, mappings", "server with mappings", ours=True, flags="-c {config}", config=_MAPPED
    ),
    "mapped-peer": SideSpec(
        "nats-server, mappings", "peer with mappings", ours=False, flags="-c {config}", config=_MAPPED
    ),
    "mesh": SideSpec("Headrace → Headrace", "mesh of servers", ours=True, nodes=(True, True)),
    "mesh-peer": SideSpec("nats-server → nats-server", "mesh of peers", ours=False, nodes=(False, False)),
    "mesh-to-peer": SideSpec("Headrace → nats-server", "mixed mesh", ours=True, nodes=(True, False)),
    "mesh-from-peer": SideSpec("nats-server → Headrace", "mixed mesh", ours=True, nodes=(False, True)),
    "spread": SideSpec("Headrace, 2 processes", "server of 2 processes", ours=True, flags="--processes 2"),
    "mqtt": SideSpec("Headrace, sync 2m", "server", ours=True, flags="-c {config}", config=_MQTT),
    "mqtt-peer": SideSpec("nats-server, sync 2m", "peer", ours=False, flags="-c {config}", config=_MQTT),
    "mqtt-default": SideSpec("Headrace", "server", ours=True, flags="-c {config}", config=_MQTT_DEFAULT),
    "mqtt-peer-default": SideSpec(
        "nats-server", "peer", ours=False, flags="-c {config}", config=_MQTT_DEFAULT
    ),
    "mosquitto": SideSpec(
        "Mosquitto", "Mosquitto", ours=False, flags="-c {config}", config=_MOSQUITTO, only_mqtt=True
    ),
    "mqtt-open": SideSpec(
        "Headrace with an MQTT port", "server with an MQTT port", ours=True, flags="-c {config}", config=_MQTT
    ),
}


def side_command(side: Side, ours: Command, theirs: Command) -> Command:
    """Give how a side is started, from the plain commands of Headrace and nats-server.

    Raises: BenchError when its program is not installed.
    """
    spec = SIDES[side]
    if spec.only_mqtt:
        return Command(f"{mosquitto()} {spec.flags}", {}, theirs.pin, spec.config, only_mqtt=True)
    if spec.nodes:
        near, far = (ours if node else theirs for node in spec.nodes)
        second = replace(far, template=f"{far.template} {_MESH_FAR}")
        return replace(near, template=f"{near.template} {_MESH}", far=second)
    base = ours if spec.ours else theirs
    return Command(f"{base.template} {spec.flags}".rstrip(), base.environment, base.pin, spec.config)
