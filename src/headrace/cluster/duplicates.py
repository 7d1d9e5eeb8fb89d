"""Duplicate services: JetStream of one domain, or NATS Streaming of one cluster ID, at two servers of a mesh.

Streams and channels are not replicated: two servers that answer the same requests would each have a part
of the messages, and nobody could tell which. (Those that have them in one bucket take turns, and are no
duplicates: `headrace.bucket`.) So one of the two ends, and both come to the same result:

- One that still looks for others before it serves gives way to one that serves.
- Of two that serve, after a partition, the one that does so for less time gives way.
- At the same time (`limits.SERVING_TIE`): the one with the higher server_id.

What is compared is what both said in the INFO that began the connection, so that no clocks need to agree. A
server of another kind does not give way: this one does while it has just begun to serve; later both go on,
and this one says so as an error, in the log and to whoever asks for its health.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.protocol.peers import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from headrace.cluster.port import Port
    from headrace.cluster.route import RouteSession
    from headrace.cluster.soliciting import Solicitor
    from headrace.protocol.peers import PeerInfo

    _Verdict = Callable[[bytes], bool]

_API: Final = b"$JS.API."


class DuplicateServices:
    """Services that this server and a peer both have, and the search for them before this server serves.

    `conflicts`: by server_id of a connected peer, a line that names the service which both have.

    `shares_api`: a peer has JetStream in another domain, or had. From then on requests that name no domain
    reach that of the server where they are made: this server takes no others, unless its own domain has no
    name, and gives none away. Else each request would be carried out in both domains.
    """

    def __init__(
        self, port: Port[RouteSession], sessions: Collection[RouteSession], solicitors: Iterable[Solicitor]
    ) -> None:
        self.conflicts: dict[str, str] = {}
        self.shares_api = False
        self._has_name = False
        self._port = port
        self._sessions = sessions
        self._solicitors = solicitors
        self._done: Callable[[], object] | None = None

    # -- before this server serves ----------------------------------------------------------------

    @property
    def is_looking(self) -> bool:
        """True while `done` of `look` has not been called."""
        return self._done is not None

    def look(self, done: Callable[[], object]) -> None:
        """Call `done` once all peers that are configured, or told of, have been met or cannot be reached."""
        self._done = done
        self.check()

    def stop_looking(self) -> None:
        """Do not call `done` any more."""
        self._done = None

    def check(self) -> None:
        """Call `done` if what has just changed was the last thing to wait for."""
        done = self._done
        if done is None or any(each.is_untried for each in self._solicitors):
            return
        # Who has answered a PING has told of its peers, and no INFO of ours is under way.
        if all(session.link.is_closing or session.has_answered for session in self._sessions):
            self._done = None
            done()

    # -- peers ------------------------------------------------------------------------------------

    def met(self, session: RouteSession, info: PeerInfo) -> bool:
        """Compare the services of this server and a peer that were just introduced.

        Returns True when this server has to end.
        """
        own = self._port.identity()
        if own.jetstream and info.jetstream and own.domain != info.domain and not self.shares_api:
            self._port.hear_anew(self._share_api)
        shared = next(_shared(own, info), None)
        if shared is None:
            return False
        peer = info.server_name or info.server_id
        if self._gives_way(session.told_serving_ns, own, info):
            self._port.must_end(shared.format(peer=peer))
            return True
        text = shared.format(peer=peer)
        if info.server_id not in self.conflicts:
            ends = ", and gives way" if info.git_commit.startswith(OURS) else ""
            session.log(logging.ERROR, text + ends)
        self.conflicts[info.server_id] = text
        return False

    def _share_api(self) -> None:
        self.shares_api = True
        self._has_name = bool(self._port.identity().domain)
        for session in self._sessions:
            session.restrict()

    def tells(self, permitted: _Verdict | None) -> _Verdict | None:
        """The interest that peers are told, of that which the configuration permits (None: all)."""
        return _without_api(permitted) if self.shares_api and self._has_name else permitted

    def takes(self, permitted: _Verdict | None) -> _Verdict | None:
        """The interest that is taken from peers, of that which the configuration permits (None: all)."""
        return _without_api(permitted) if self.shares_api else permitted

    def left(self, server_id: str) -> None:
        """Forget the services of a peer that is gone."""
        self.conflicts.pop(server_id, None)

    @staticmethod
    def _gives_way(told_ns: int, own: PeerInfo, info: PeerInfo) -> bool:
        if not info.git_commit.startswith(OURS):
            return told_ns < limits.SERVING_NEW * 1e9
        if bool(told_ns) != bool(info.serving_ns):
            return not told_ns
        if abs(told_ns - info.serving_ns) >= limits.SERVING_TIE * 1e9:
            return told_ns < info.serving_ns
        return own.server_id > info.server_id


def _without_api(permitted: _Verdict | None) -> _Verdict:
    return lambda subject: not subject.startswith(_API) and (permitted is None or permitted(subject))


def _shared(own: PeerInfo, info: PeerInfo) -> Iterator[str]:
    """Services that both servers have: for each a line with a place for the name of the peer."""
    has_jetstream = own.jetstream and info.jetstream and own.domain == info.domain
    if has_jetstream and not (own.bucket and own.bucket == info.bucket):
        where = f" in domain {_literally(own.domain)}" if own.domain else ""
        yield (
            f'JetStream: server "{{peer}}" of this cluster has JetStream{where} as well;'
            " streams are not replicated, so one server of a cluster can have it, or each a domain of its own"
        )
    has_streaming = own.streaming and own.streaming == info.streaming
    if has_streaming and not (own.streaming_bucket and own.streaming_bucket == info.streaming_bucket):
        cluster_id = _literally(own.streaming.rpartition(".")[2])
        yield (
            f'STREAM: Failed to start: server "{{peer}}" of this cluster is a streaming server'
            f" with cluster ID {cluster_id} as well"
        )


def _literally(text: str) -> str:
    return '"' + text.replace("{", "{{").replace("}", "}}") + '"'
