"""A leaf node of one cluster and clients of another, of Headrace and the Go server in any mixture."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Final

import pytest

from harness.leafs import Leafs
from harness.ports import free_port
from harness.super_clusters import SuperCluster
from harness.waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from harness.mesh import MeshClient


_numbers = itertools.count()
ACCOUNTS: Final = """
accounts { SYS {}, ONE { users: [ { user: one, password: p } ] } }
system_account: SYS
no_auth_user: one
"""
"""nats-server wants a system account where there are gateways and leaf nodes."""


@pytest.mark.parametrize("kind", ["g-g+g", "h-h+h", "g-h+h", "h-g+h", "g-h+g", "h-g+g", "g-a+h"])
def test_requests_reach_a_leaf_node_of_another_cluster_and_come_back(kind: str, tmp_path: Path) -> None:
    clusters, letter = kind.split("+")
    port = free_port()
    hub = {"B": f"leafnodes {{ listen: 127.0.0.1:{port} }}"}
    with SuperCluster(tmp_path, clusters, more=ACCOUNTS, only=hub) as joined, Leafs(tmp_path) as leafs:
        leafs.ports["hub"] = port
        leafs.leaf("leaf", letter, "hub")
        far, leaf = joined.join(0), leafs.join("leaf")
        news, service = far.subscribe("news"), leaf.subscribe("svc")
        asked = far.subscribe("asked.by.the.leaf")
        _answered(leaf, far, asked, "asked.by.the.leaf")
        _answered(far, leaf, service, "svc")
        late = joined.join(0)  # its inbox is known to nobody yet
        _answered(late, leaf, service, "svc")
        leaf.publish("news", b"from the leaf")
        assert far.next(news).payload == b"from the leaf"


def _answered(asking: MeshClient, answering: MeshClient, sid: int, subject: str) -> None:
    """Wait until one of several questions is answered: clusters know of each other after a time that is not
    promised.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        payload = b"question %d" % next(_numbers)
        reply = asking.ask(subject, payload)
        try:
            while (message := answering.next(sid, 1)).payload != payload:
                pass  # an earlier one
            assert message.reply == reply
            answering.publish(message.reply, b"answer")
            assert asking.answer(reply, 1).payload == b"answer"
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        else:
            return
