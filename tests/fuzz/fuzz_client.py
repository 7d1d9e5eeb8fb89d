# Invariant: any bytes either parse or doom their link with a reason. Nothing is raised and nothing crashes;
# every outbox reads as server-to-client frames; the same bytes cut otherwise come to the same; subscriptions
# counted by links and by the interest agree; and when the links are gone, so is everything they took.
"""The parser of clients, the router and the interest under libFuzzer.

Without a flag, and with --client: the parser of clients. With --route: that of routes, with --legacy: that of
routes of servers before 2.0, with --leaf and --gateway: those of leaf nodes and of gateways, with --s2: what
unpacks and packs S2, with --trace: trace headers, with --log-reading: reads of single messages from files of
records, with --api-requests: bodies of requests, with --ack: acknowledgements with lanes and without, with
--publish: publications likewise, with --load: what loads read, with --mqtt: the parser of MQTT and what its
clients get, with --mqtt-packets: the readers of its rare packets, with --mqtt-websocket: MQTT in frames.

    python tests/fuzz/fuzz_client.py -max_total_time=600           # needs: pip install atheris
    python tests/fuzz/fuzz_client.py --route -max_total_time=600
    python tests/fuzz/instrumented.py -max_total_time=600          # the same, and sees into the engine

Coverage guidance, with pip's atheris alone: the Python side only, which is the session's calls, the reader
of outboxes and the commands; the compiled modules are not seen. The structured mutator and the corpus make up
for much of that. `instrumented.py` adds every branch and comparison of the engine itself.

The arguments are libFuzzer's. What is found goes to the first directory given, or nowhere; the kept corpus is
read in any case. An input that fails is written to crash-*; once it is understood, it joins the kept ones.
"""

import random
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import atheris  # noqa: E402 - after the path, as everything below

INSTRUMENTED = [
    "fuzz",
    "engine_peers",
    "mqtt_peers",
    "headrace.protocol",
    "headrace.core.tracing",
    "headrace.server.websocket",
    "websockets",
]

with atheris.instrument_imports(include=INSTRUMENTED):
    from fuzz import (
        ack_target,
        api_requests_target,
        client_mutator,
        client_target,
        gateway_mutator,
        gateway_target,
        leaf_mutator,
        leaf_target,
        legacy_mutator,
        legacy_target,
        load_mutator,
        load_target,
        log_reading_target,
        mqtt_mutator,
        mqtt_packets_mutator,
        mqtt_packets_target,
        mqtt_target,
        mqtt_websocket_mutator,
        mqtt_websocket_target,
        publish_target,
        route_mutator,
        route_target,
        s2_mutator,
        s2_target,
        trace_mutator,
        trace_target,
    )
    from fuzz.instrumented import register_counters

TARGETS = {
    "api-requests": (s2_mutator.s2_mutate, api_requests_target.check),
    "client": (client_mutator.mutate, client_target.check),
    "route": (route_mutator.route_mutate, route_target.check),
    "legacy": (legacy_mutator.legacy_mutate, legacy_target.check),
    "leaf": (leaf_mutator.leaf_mutate, leaf_target.check),
    "gateway": (gateway_mutator.gateway_mutate, gateway_target.check),
    "ack": (s2_mutator.s2_mutate, ack_target.check),
    "publish": (s2_mutator.s2_mutate, publish_target.check),
    "load": (load_mutator.load_mutate, load_target.check),
    "log-reading": (s2_mutator.s2_mutate, log_reading_target.check),
    "mqtt": (mqtt_mutator.mqtt_mutate, mqtt_target.check),
    "mqtt-packets": (mqtt_packets_mutator.mqtt_packets_mutate, mqtt_packets_target.check),
    "mqtt-websocket": (mqtt_websocket_mutator.websocket_mutate, mqtt_websocket_target.check),
    "s2": (s2_mutator.s2_mutate, s2_target.check),
    "trace": (trace_mutator.trace_mutate, trace_target.check),
}
FLAGS = {f"--{name}": name for name in TARGETS}
TARGET = next((name for flag, name in FLAGS.items() if flag in sys.argv), "client")
CORPUS = HERE / "corpus" / TARGET
WORDS = HERE / f"{TARGET}.dict"
mutate, check = TARGETS[TARGET]


def mutator(data: bytes, most: int, seed: int) -> bytes:
    """Half of the time an op is put in or taken out, half of the time libFuzzer does as it likes."""
    if seed & 1:
        return mutate(data, random.Random(seed), most)
    return atheris.Mutate(data, most)


def main() -> None:
    # As seeds, not as a directory: libFuzzer would write what it finds into that.
    seeds = ",".join(str(path) for path in sorted(CORPUS.iterdir()))
    # What libFuzzer starts again for -merge and -fork.
    flag = "" if TARGET == "client" else f" --{TARGET}"
    itself = f"{sys.executable} {sys.argv[0]}{flag}"
    arguments = [itself, f"-seed_inputs={seeds}", "-max_len=100000"]
    arguments += [f"-dict={WORDS}"] if WORDS.exists() else []
    arguments += [argument for argument in sys.argv[1:] if argument not in FLAGS]
    register_counters()
    atheris.Setup(arguments, check, custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
