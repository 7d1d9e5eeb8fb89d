"""Accounts for engine tests: spaces of subjects that import from each other, and peers in them."""

from __future__ import annotations

from typing import Any

from engine_peers import QUIET, Broker, Peer

from headrace.engine.interest import Interest
from headrace.engine.service_imports import AccountLink, ServiceImport
from headrace.engine.stream_imports import StreamImport
from headrace.subjects.imports import ImportedSubject


class Space:
    """One account as the engine knows it."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = name
        self.broker = broker
        self.interest = Interest()
        self.failures: list[Exception] = []
        self.link = AccountLink(broker.router, self, name)
        self.link.interest = self.interest
        self.peers: list[Peer] = []

    def failed(self, error: Exception) -> None:
        self.failures.append(error)

    def peer(self, hello: bytes = QUIET, **limits: Any) -> Peer:
        peer = self.broker.peer(b"", **limits)
        peer.link.interest = self.interest
        self.peers.append(peer)
        return peer.send(hello)

    def import_stream(self, exporter: Space, subject: bytes, local: bytes = b"") -> StreamImport:
        found = StreamImport(exporter.interest, ImportedSubject(subject, local or subject))
        self.interest.imports = (*self.interest.imports, found)
        return found

    def import_service(
        self, exporter: Space, subject: bytes, local: bytes = b"", *, export: object = None, **options: Any
    ) -> ServiceImport:
        subjects = ImportedSubject(subject, local or subject)
        found = ServiceImport(exporter.link, subjects, export or (exporter.name, subject), **options)
        self.link.add(subjects.local, found)
        return found

    def end(self) -> None:
        """As the end of a server: afterwards nothing holds anything."""
        self.link.close()
        self.interest.imports = ()


class Spaces:
    """A broker with accounts A, B and C. `stop` lets go of everything."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.a, self.b, self.c = (Space(broker, name) for name in "ABC")

    def stop(self) -> None:
        for space in (self.a, self.b, self.c):
            for peer in space.peers:
                peer.link.detach()
            space.end()
            space.peers.clear()
        vars(self).clear()
