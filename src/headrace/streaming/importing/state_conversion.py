"""The way from a foreign store's clients and subscriptions to the streaming service's durable state.

What the foreign server repairs when it recovers is repaired here: subscriptions whose client is gone. All
else comes over as it is, but for subscription IDs, which there are unique in a channel and here in the
service: the same source always gets the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.importing.findings import Finding, ImportFailed, Severity
from headrace.protocol.stan import ServerInfo, SubState
from headrace.streaming.importing.model import SourceSubscription
from headrace.streaming.state import ServiceState, SubscriptionRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.streaming.importing.reader import SourceChannel, SourceChannelStore

_SUBJECTS: Final = {
    "discovery": b"discover",
    "publish": b"pub",
    "subscribe": b"sub",
    "unsubscribe": b"unsub",
    "close": b"close",
    "sub_close": b"subclose",
    "acks_subs": b"ack",
}


def convert_state(source: SourceChannelStore, cluster_id: bytes = b"") -> tuple[ServiceState, list[Finding]]:
    """The state to write, and notes about what was repaired on the way.

    `cluster_id` stands in when the source's own is unreadable. Raises: ImportFailed when there is neither, or
    both and they differ.
    """
    findings: list[Finding] = []
    state = ServiceState(
        server=_server(source, cluster_id), clients={client.id: client for client in source.clients}
    )
    for channel in source.channels:
        kept = list(_kept(source, channel, findings))
        for identity, subscription in enumerate(kept, len(state.subscriptions) + 1):
            state.subscriptions[identity] = SubscriptionRecord(
                channel.name,
                replace(subscription.state, id=identity),
                set(subscription.pending),
                subscription.state.last_sent,
            )
    return state, findings


def _server(source: SourceChannelStore, cluster_id: bytes) -> ServerInfo:
    if source.server is not None:
        found = source.server.cluster_id
        if cluster_id and cluster_id != found:
            raise ImportFailed(f"cluster ID {_text(cluster_id)} does not match the store's, {_text(found)}")
        return _complete(source.server)
    if not cluster_id:
        raise ImportFailed("the store's server.dat cannot be read: say which cluster ID it had")
    return _complete(ServerInfo(cluster_id))


def _complete(server: ServerInfo) -> ServerInfo:
    """Old servers knew fewer subjects: what is empty becomes what 0.25 has."""
    missing = {
        name: b"_STAN.%b.%b" % (token, server.cluster_id)
        for name, token in _SUBJECTS.items()
        if not getattr(server, name)
    }
    return replace(server, **missing)


def _kept(
    source: SourceChannelStore, channel: SourceChannel, findings: list[Finding]
) -> Iterable[SourceSubscription]:
    """The subscriptions the foreign server would recover, in the order they were made."""
    clients = {client.id for client in source.clients}
    ghosts: dict[bytes, list[SourceSubscription]] = {}
    kept: list[SourceSubscription] = []
    for subscription in channel.subscriptions:
        state = subscription.state
        is_known = state.client_id in clients
        if state.durable_name and not state.q_group:
            offline = state.is_closed or not is_known
            kept.append(_with(subscription, replace(state, is_durable=True, is_closed=offline)))
        elif is_known or (state.is_durable and not state.client_id):
            kept.append(subscription)
        elif state.is_durable:
            ghosts.setdefault(state.q_group, []).append(subscription)
        else:
            findings.append(_note(channel, f"a subscription of {_text(state.client_id)}, which is gone"))
    for group, members in ghosts.items():
        if any(other.state.q_group == group for other in kept):
            text = f"{len(members)} members of queue group {_text(group)} whose clients are gone"
            findings.append(_note(channel, text))
            if source.clients_are_whole:
                continue
        _keep_group(kept, group, members)
    return kept


def _keep_group(kept: list[SourceSubscription], group: bytes, ghosts: list[SourceSubscription]) -> None:
    """Give the unacknowledged messages of the ghosts to a member that is left, or to the group without
    members.
    """
    pending = {sequence for ghost in ghosts for sequence in ghost.pending}
    for place, other in enumerate(kept):
        if other.state.q_group == group:
            kept[place] = replace(other, pending=tuple(sorted(pending.union(other.pending))))
            return
    newest = max((ghost.state for ghost in ghosts), key=lambda state: state.last_sent)
    kept.append(SourceSubscription(replace(newest, client_id=b""), tuple(sorted(pending))))


def _with(subscription: SourceSubscription, state: SubState) -> SourceSubscription:
    return replace(subscription, state=state)


def _note(channel: SourceChannel, text: str) -> Finding:
    return Finding(Severity.NOTE, f"{channel.shown}/subs.dat", f"{text}; left out, as the server does")


def _text(name: bytes) -> str:
    return repr(name.decode("utf-8", "backslashreplace"))
