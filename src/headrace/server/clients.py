"""The clients of one server: accepted and counted, told what changes, remembered when they are gone.

Never lives here: what one client may do (`session`), sockets (`listener`), why and how a connection ends
(`disconnects`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from headrace.engine.reasons import CloseReason
from headrace.server.admission import Admission
from headrace.server.client_record import record_of
from headrace.server.session import ClientSession

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from headrace.core.account import Account
    from headrace.server.access import Access
    from headrace.server.client_record import ClientRecord
    from headrace.server.disconnects import Disconnects
    from headrace.server.port import Applicant, ClientEvents, ConnectedClient, SessionHost

    class _Events(ClientEvents, Protocol):
        def disconnected(self, session: ConnectedClient, account: Account | None) -> None:
            """Tell that a connection is over, and in which account it was."""

    class _Processes(Protocol):
        @property
        def connections_elsewhere(self) -> int: ...

        def count_connections(self, connections: int) -> None:
            """Tell the other processes how many clients are here."""

    class ClientsHost(SessionHost, Protocol):
        """A server, as its clients see it."""

        @property
        def events(self) -> _Events: ...
        @property
        def disconnects(self) -> Disconnects: ...
        @property
        def worker(self) -> _Processes | None: ...
        @property
        def next_number(self) -> Callable[[], int]: ...


_TOO_MANY: Final = "maximum connections exceeded"


class Clients:
    """The sessions, the oldest first, and the counters of all that ever were.

    `closed` are records of the last ones that are gone, as many as `max_closed_clients`.
    """

    def __init__(self, server: ClientsHost) -> None:
        self._server = server
        self._sessions: dict[int, ClientSession] = {}
        self.closed: deque[ClientRecord] = deque(maxlen=server.options.max_closed_clients)
        self._admission = Admission()
        self.total = 0
        self.stale_connections = 0
        self.slow_consumers = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ClientSession]:
        return iter(self._sessions.values())

    def get(self, cid: int) -> ClientSession | None:
        """Return the session of a connection number; None: there is no such client, or it is gone."""
        return self._sessions.get(cid)

    @property
    def is_full(self) -> bool:
        """True if there are more clients than there may be, those of other processes included."""
        worker = self._server.worker
        elsewhere = worker.connections_elsewhere if worker is not None else 0
        return 0 < self._server.options.max_connections < len(self._sessions) + elsewhere

    def new_session(
        self, access: Access, address: str, port: int, kind: type[ClientSession] = ClientSession
    ) -> ClientSession:
        """Make the session of a connection that was accepted. `kind`: of session, by the protocol."""
        self.total += 1
        session = kind(self._server, access, self._server.next_number(), address, port)
        self._sessions[session.cid] = session
        self._count()
        return session

    def admits(self, session: ClientSession) -> bool:
        """True if a new connection may take its time to authenticate."""
        if not session.access.authenticator.required:
            return True
        return self._admission.enter(session, self._server.options.max_connections)

    def admitted(self, session: Applicant) -> None:
        """Note that a client has said who it is, or will not any more: it does not wait for that."""
        self._admission.leave(session)

    def refuse(self, session: ClientSession, sock: socket.socket) -> None:
        """Close a connection that is one too many: its greeting, the error, the end."""
        session.error(_TOO_MANY)
        words, reason = session.words, CloseReason.MAX_CONNECTIONS_EXCEEDED
        try:
            sock.send(words.greeting(session) + words.farewell(session, _TOO_MANY, reason))
        except OSError as error:
            session.debug(f"could not be told: {error}")
        sock.close()
        self.forget(session.cid, reason)

    def forget(self, cid: int, reason: CloseReason) -> None:
        """Note that a connection is over: keep what monitoring shows of it, give everything back."""
        session = self._sessions.get(cid)
        if session is None or session.is_closed:
            return
        account = session.account
        session.ended(reason)
        self.closed.append(record_of(session, is_last=True))
        session.link.detach()
        self._server.events.disconnected(session, account)
        self._server.disconnects.forget(session)
        del self._sessions[cid]
        self._count()

    def tell(self) -> None:
        """Send INFO as it is now to those who take it at any time."""
        for session in self:
            if session.has_async_info:
                session.link.send(session.words.info(session))
        self._server.ticks.wake()

    def _count(self) -> None:
        if self._server.worker is not None:
            self._server.worker.count_connections(len(self._sessions))
