"""Traces of messages, as a test compares those of two servers: without what differs by nature."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from harness.jetstream import JetStreamWire, Message

DEST: Final = "traces"
_numbers = itertools.count(1)


def traced(subject: str = "", /, *, only: bool = False, **more: str) -> dict[str, str]:
    """The headers of a message that is to be traced; underscores in names of `more` are hyphens."""
    fields = {"Nats-Trace-Dest": subject or DEST}
    if only:
        fields["Nats-Trace-Only"] = "true"
    return fields | {name.replace("_", "-"): value for name, value in more.items()}


def shape(document: dict[str, Any], clients: dict[int, str]) -> str:
    """One event as text, fields in their order. `clients`: names for the numbers of connections."""
    said = json.loads(json.dumps(document))
    said["server"] = {"keys": list(said["server"]), "name": said["server"]["name"]}
    for name, values in said["request"].get("header", {}).items():
        if name == "Nats-Request-Info":
            said["request"]["header"][name] = ["INFO"]
            said["request"]["msgsize"] = 0
        if name == "Nats-Trace-Dest" and values[0].startswith("_R_."):
            said["request"]["header"][name] = ["_R_"]
            said["request"]["msgsize"] = 0
    for event in said["events"]:
        assert event["ts"].startswith("20"), event
        event["ts"] = "TIME"
        if "cid" in event:
            event["cid"] = clients.get(event["cid"], "other") if event["kind"] == 0 else "peer"
        if event.get("subj", "").startswith("$JS.ACK."):
            event["subj"] = "ACK"
        if event.get("from", "").startswith("_R_."):
            event["from"] = "_R_"
    return json.dumps(said)


class Traces:
    """What comes to the destination of traces on one server."""

    def __init__(self, watching: JetStreamWire, dest: str = DEST) -> None:
        self._watching = watching
        self._sid = watching.subscribe(dest)
        self._dest = dest
        self.clients: dict[int, str] = {}
        watching.sync()

    def named(self, **clients: JetStreamWire) -> None:
        for name, client in clients.items():
            self.clients[client.info["client_id"]] = name

    def next(self) -> Message:
        return self._watching.next(self._sid)

    def shapes(self, count: int) -> list[str]:
        """The next so many, in any order."""
        return sorted(shape(self.next().json(), self.clients) for _ in range(count))

    def until_fence(self, asking: JetStreamWire) -> list[str]:
        """All that come of what this client has published until now."""
        subject = f"fence.{next(_numbers)}"
        asking.publish(subject, b"", traced(self._dest))
        found = []
        while True:
            document = self.next().json()
            if document["events"][0]["subj"] == subject:
                return found
            found.append(shape(document, self.clients))
