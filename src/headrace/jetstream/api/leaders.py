"""Requests about the servers of a stream or consumer: which one leads it, and which others have it.

They mean something only where servers of a cluster share the streams. There one server leads all streams, so
it hands over all of them or none; and every server has all streams, so none can be moved. Source: the answers
of nats-server 2.15.1, three servers, to streams of three replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.jetstream.api.request import Endpoint
from headrace.jetstream.consumer.rules import replicas
from headrace.protocol.durations import SECOND
from headrace.protocol.jetstream.configs import Placement
from headrace.protocol.jetstream.errors import ApiError
from headrace.protocol.jetstream.requests import PeerRequest, StepDownRequest

if TYPE_CHECKING:
    from headrace.jetstream.api.request import Request
    from headrace.jetstream.leadership import Leadership

LEAST_TERM_NS: Final = 5 * SECOND
"""The time for which a server leads before a user of an account can have it hand the streams over: the other
accounts' streams go with them.
"""


def _leadership(request: Request) -> Leadership:
    """Return who leads. Raises: ApiError 10010 where servers do not share the streams."""
    settings = request.account.settings
    if settings.leadership is None or not settings.allows_replicas:
        raise ApiError(10010)
    return settings.leadership()


def _step_down_stream(request: Request) -> None:
    leadership = _leadership(request)
    _step_down(request, leadership, request.stream().config.num_replicas)


def _step_down_consumer(request: Request) -> None:
    leadership = _leadership(request)
    consumer = request.consumer()
    _step_down(request, leadership, replicas(consumer.config, consumer.stream.config))


def _step_down(request: Request, leadership: Leadership, number: int) -> None:
    """Hand the streams over for one that has so many replicas; there is nothing to do for one replica."""
    if number > 1:
        placement = request.decode(StepDownRequest, optional=True).placement or Placement()
        _check_placement(placement, leadership)
        account = request.account
        if account.turns.now_ns() - leadership.since_ns < LEAST_TERM_NS:
            raise ApiError(10005, err="leader has changed within the last 5 seconds")
        hand_over = account.settings.hand_over
        if hand_over is None or not hand_over(placement.preferred):
            raise ApiError(10005, err="no replacement peer connected")
    request.answer({"success": True})


def _check_placement(placement: Placement, leadership: Leadership) -> None:
    """Check that another server may be what is asked for. Raises: ApiError."""
    if placement.preferred:
        if placement.preferred == leadership.leader:
            raise ApiError(10005, err=f'preferred server "{placement.preferred}" is already leader')
        if all(peer.name != placement.preferred for peer in leadership.peers):
            raise ApiError(10005, err=f'preferred server "{placement.preferred}" not known')
    if placement.tags or placement.cluster not in ("", leadership.cluster):
        raise ApiError(10005, err="no replacement peer connected")


def _move_peer(request: Request) -> None:
    """Refuse to take a stream from a server: there is none that does not have it and could take its place."""
    leadership = _leadership(request)
    peer = request.decode(PeerRequest).peer
    if not peer:
        raise ApiError(10003)
    request.stream()
    known = {leadership.leader, *(each.name for each in leadership.peers)}
    raise ApiError(10075 if peer in known else 10040)


def _cancel_move(request: Request) -> None:
    _leadership(request)
    request.stream()
    raise ApiError(10129)


ENDPOINTS: Final[dict[bytes, Endpoint]] = {
    b"STREAM.LEADER.STEPDOWN": Endpoint(
        "stream_leader_stepdown", _step_down_stream, 1, 1, checks_level=False
    ),
    b"CONSUMER.LEADER.STEPDOWN": Endpoint(
        "consumer_leader_stepdown", _step_down_consumer, 2, 2, checks_level=False
    ),
    b"STREAM.PEER.REMOVE": Endpoint("stream_remove_peer", _move_peer, 1, 1, checks_level=False),
    b"STREAM.PEER.EVACUATE": Endpoint("stream_evacuate_peer", _move_peer, 1, 1, checks_level=False),
    b"STREAM.CANCEL_MOVE": Endpoint("stream_cancel_move", _cancel_move, 1, 1, checks_level=False),
}
