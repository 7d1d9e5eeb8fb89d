"""Streams in accounts with mappings: what clients publish is mapped, what JetStream sends is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from harness.jetstream import JetStreamWire
from harness.processes import HEADRACES, NATS_SERVER, Program, ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.clients

SENT: Final = ("delivered", "republished", "acknowledged")
CONFIG: Final = "jetstream { store_dir: store }\nmappings { %s }"


@pytest.mark.parametrize("program", [NATS_SERVER, HEADRACES[0]], ids=str)
def test_what_jetstream_sends_is_not_mapped(program: Program, tmp_path: Path) -> None:
    mappings = ", ".join(f'"{subject}": "elsewhere"' for subject in SENT)
    config = CONFIG % f'{mappings}, "from": "stored"'
    with ServerProcess(program, tmp_path, config=config) as server, JetStreamWire(server) as client:
        elsewhere, *got = (client.subscribe(subject) for subject in ("elsewhere", *SENT))
        stream = {"name": "S", "subjects": ["stored"], "republish": {"src": "stored", "dest": SENT[1]}}
        assert "error" not in client.api("STREAM.CREATE.S", stream)
        consumer = {"durable_name": "C", "deliver_subject": SENT[0], "ack_policy": "none"}
        assert "error" not in client.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": consumer})
        client.publish("from", b"1", reply=SENT[2])

        delivered, republished, acknowledged = (client.next(sid) for sid in got)

        assert (delivered.payload, republished.payload) == (b"1", b"1")
        assert acknowledged.json() == {"stream": "S", "seq": 1}
        client.sync()
        assert not client.taken(elsewhere)
