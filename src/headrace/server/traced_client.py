"""What a client's session answers about messages of its that are traced.

Never lives here: which messages are, and what is told of them (`tracing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.tracing import Kind, Party
from headrace.server.speaking import Speaker
from headrace.server.wording import quoted

if TYPE_CHECKING:
    from headrace.engine.client import ClientLink
    from headrace.protocol.info import ConnectOptions
    from headrace.server.auth import Identity


class TracedClient(Speaker):
    """A client, named by `cid` and `options`, who may do what `identity` may."""

    __slots__ = ()

    cid: int
    identity: Identity | None
    link: ClientLink
    options: ConnectOptions

    @property
    def trace_party(self) -> Party:
        """How traces name it."""
        return Party(Kind.CLIENT, self.cid, self.options.name)

    def may_trace_to(self, dest: bytes) -> bool:
        """Whether traces of its messages may be published there."""
        permissions = self.identity.permissions if self.identity else None
        return permissions is None or permissions.may_publish(dest)

    def refuse_publish(self, subject: bytes) -> None:
        """Says that it may not publish there."""
        self.link.send(f"-ERR 'Permissions Violation for Publish to {quoted(subject)}'\r\n".encode())
        self.error(f"Publish Violation - Subject {quoted(subject)}")
