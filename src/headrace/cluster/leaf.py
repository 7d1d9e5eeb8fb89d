"""One connection between an account here and one of another server: handshake, permissions, liveness, errors.

The engine's link parses and writes messages and interest; it calls this session for every other line. A
session owns no socket and closes nothing itself: it dooms its link. What concerns more than this connection
is `leafs`'. Source: leaf node specification, sections 1, 4, 5, 7 and 10; fine points from nats-server 2.15.1.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from headrace import limits
from headrace.cluster.compression import NOT_SUPPORTED, OFF, CompressingSession
from headrace.conf.account_options import SubjectPermission
from headrace.core.leaf_permissions import LeafRules, domains
from headrace.core.permissions import PermissionSet
from headrace.core.tracing import ConnectionKind
from headrace.engine.leaf import LeafLink
from headrace.engine.reasons import CloseReason
from headrace.errors import ConfigError
from headrace.protocol.info import COMPATIBLE_VERSION
from headrace.protocol.peers import ROUTE_PROTOCOL, TRACE_PROTOCOL, LeafConnect, PeerInfo, PeerPermission
from headrace.protocol.seeds import SeedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.cluster.leaf_port import LeafGrant, LeafPort
    from headrace.cluster.port import Wire
    from headrace.conf.account_options import Permissions
    from headrace.conf.leaf_options import LeafNodeOptions, LeafRemote
    from headrace.conf.peer_options import PeerURL
    from headrace.core.permissions import ResponseTracker
    from headrace.core.service import Timer

_SAME_NAME: Final = "remote leafnode has same cluster name"
_TOO_OLD: Final = "connection rejected since minimum version required is"
_LOOP: Final = "Loop detected"
_SPACES: Final = "cluster name cannot contain spaces"


class ReachedHub(Protocol):
    """A hub, as one of the connections to it sees it."""

    delay: float
    """Seconds before the next attempt to reach it, beside the usual ones."""

    @property
    def options(self) -> LeafRemote:
        """Its options."""

    def user_of(self, url: PeerURL | None) -> tuple[str, str | None]:
        """User and password for the hub at this URL; without a password the user is a token."""

    def learn(self, info: PeerInfo) -> None:
        """Take over the addresses that a hub says of itself and of its cluster."""

    def reconnect(self, *, was_registered: bool) -> None:
        """Reach the hub again, after a connection is over."""


class AllLeafs(Protocol):
    """All leaf links of a server, as one of the connections sees them."""

    @property
    def port(self) -> LeafPort[LeafSession]:
        """The server of the leaf links."""

    @property
    def options(self) -> LeafNodeOptions:
        """The options that are in force now."""

    def info(self) -> PeerInfo:
        """This server's INFO for leaf nodes, as of now."""

    def loop_subject(self, account: str) -> bytes:
        """The subject by which a circle of leaf links is noticed: only this account subscribes to it."""

    def has_accepted(self, account: str, cluster: str) -> bool:
        """Return True when servers of that cluster are leaf nodes of this one in the account."""

    def is_current(self, session: LeafSession) -> bool:
        """Return True for a connection to a hub that the configuration still names."""

    def replace_duplicate(self, session: LeafSession) -> None:
        """Close the same server's older connection for the same two accounts."""

    def ended(self, session: LeafSession) -> None:
        """Forget a connection that is over."""


class LeafSession(CompressingSession):
    """A leaf link, from accept, or a successful dial, to the end.

    `remote`: what this server was to reach, with `url`; None: somebody connected. `account` is the one here,
    `remote_account` the one there, as far as they are known; `remote_name` the server's, `remote_cluster` its
    cluster's or its own. `is_spoke`: the hub is at the other end.
    """

    kind = "leaf node connection"
    title = "Leafnode"
    port_title = "leafnode"
    trace_kind = ConnectionKind.LEAF

    def __init__(
        self, leafs: AllLeafs, wire: Wire, remote: ReachedHub | None = None, url: PeerURL | None = None
    ) -> None:
        port = leafs.port
        super().__init__(port, wire)
        self.remote: Final = remote
        self.url: Final = url
        self.nonce: Final = port.new_nonce()
        self.account = remote.options.account if remote is not None else ""
        self.is_spoke = remote is not None and not remote.options.hub
        self.is_isolated = leafs.options.isolate or (remote is not None and remote.options.local_isolation)
        self.remote_name = ""
        self.remote_cluster = ""
        self.remote_account = ""
        self.remote_domain = ""
        self.compression = ""
        self.is_over_websocket = False  # which has a compression of its own
        self.user = ""
        self.is_registered = False
        self.is_greeted = False
        self.may_reconnect = True
        self._leafs = leafs
        self._hub: PeerInfo | None = None
        self._connect: LeafConnect | None = None
        self._permissions: Permissions | None = None
        self._imports: PeerPermission | None = None
        self._exports: PeerPermission | None = None
        self._responses: ResponseTracker | None = None
        self._rules: LeafRules | None = None
        self._denied: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._timer: Timer | None = None
        self.link: LeafLink = LeafLink(
            port.router,
            self,
            max_payload=port.max_payload,
            max_control_line=port.max_control_line * limits.ROUTE_CONTROL_LINES,
            must_connect=remote is None,
        )

    @property
    def _peer_protocol(self) -> int:
        said = self._connect.protocol if self._connect is not None else 0
        return self._hub.proto if self._hub is not None else said

    @property
    def trace_name(self) -> str:
        return self.remote_name

    def may_trace_to(self, dest: bytes) -> bool:
        """Return True when the peer may publish to that subject."""
        return self._rules is None or self._rules.receives is None or self._rules.receives(dest)

    def refuse_publish(self, dest: bytes) -> None:
        super().refuse_publish(dest)
        name = dest.decode("utf-8", "replace")
        self.link.send(f"-ERR 'Permissions Violation for Publish to \"{name}\"'\r\n".encode())
        self._leafs.port.wake()

    # -- opening ----------------------------------------------------------------------------------

    def greeting(self) -> bytes:
        """The first INFO of an accepted connection, for who sends it before TLS begins."""
        self.is_greeted = True
        return self._info().line()

    def _info(self) -> PeerInfo:
        said = self._said_compression
        return replace(
            self._leafs.info(),
            client_id=self.wire.number,
            nonce="" if self._has_dialed else self.nonce,
            compression="" if said == NOT_SUPPORTED or self.is_over_websocket else said,
        )

    def opened(self) -> None:
        """Introduce this server, and start the clocks: bytes flow."""
        if self.remote is None:
            if not self.is_greeted:
                self.link.send(self.greeting())
            self._demand_connect(self._leafs.options.auth_timeout)
            self.log(logging.INFO, "Leafnode connection created")
        else:
            if self._hub is None:
                self._arm(self.remote.options.first_info_timeout, self._info_due)
            self.log(logging.INFO, f"Leafnode connection created for account: {self.account}")
        self._leafs.port.wake()

    def _info_due(self) -> None:
        self.log(logging.DEBUG, "no INFO came in time")
        self.close(CloseReason.READ_ERROR)

    def _connect_due(self) -> None:
        self.log(logging.DEBUG, "Stale Leaf Node Connection - Closing")
        self.refuse("Stale Leaf Node Connection - Closing", CloseReason.STALE_CONNECTION)

    # -- called by the engine: who connected ------------------------------------------------------

    def connect(self, text: bytes) -> None:
        """Read CONNECT; whoever knows the users decides about it, and until then nothing more is read."""
        if self.remote is not None or self._connect is not None:
            self.violates("CONNECT where none is due")
            return
        given = self._read(LeafConnect.read, text)
        if given is None:
            return
        self._connect = given
        self._disarm_auth()
        self.link.hold()
        self._leafs.port.authenticate(self, text, given, partial(self._decided, given))

    def _decided(self, given: LeafConnect, grant: LeafGrant | None) -> None:
        if self.link.is_closing:
            return
        if grant is None:
            self.reject(given.nkey or given.user)
        elif self._is_acceptable(given, grant):
            self._accept(given, grant)
        self.link.release()
        self._leafs.port.wake()

    def _is_acceptable(self, given: LeafConnect, grant: LeafGrant) -> bool:
        """Return True for a leaf node that may be one here; another peer is told so, and closed."""
        port = self._leafs.port
        own_cluster, oldest = port.cluster_name, self._leafs.options.min_version
        if given.lang:
            self.refuse_loudly("attempted to connect to leaf node port", CloseReason.WRONG_PORT)
        elif " " in given.cluster:
            self.refuse_loudly(_SPACES, CloseReason.PROTOCOL_VIOLATION)
        elif own_cluster and given.cluster == own_cluster:
            self.refuse_loudly(_SAME_NAME, CloseReason.CLUSTER_NAMES_IDENTICAL)
        elif given.gateway:
            self._refuse_gateway(given.gateway)
        elif oldest and _version(given.version) < _version(oldest):
            self._send_account(grant.account)
            self.refuse_loudly(f'{_TOO_OLD} "{oldest}"', CloseReason.MINIMUM_VERSION_REQUIRED)
        elif not port.has_room(grant.account):
            text = "maximum account active connections exceeded"
            self.refuse_loudly(text, CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED)
        else:
            return True
        return False

    def _accept(self, given: LeafConnect, grant: LeafGrant) -> None:
        self.account = grant.account
        self.user = grant.user
        self.compression = self.compression or given.compress_mode or NOT_SUPPORTED
        self.remote_name = given.name
        self.remote_cluster = given.cluster
        self.remote_account = given.remote_account
        self.remote_domain = given.domain
        self.is_isolated = self.is_isolated or given.isolate
        self.is_spoke = given.is_hub
        self._permissions = grant.permissions
        self._leafs.replace_duplicate(self)
        denied = self._keep_domains_apart()
        permissions = grant.permissions
        try:
            self._restrict(
                LeafRules(
                    _answering(permissions),
                    permissions.subscribe if permissions is not None else None,
                    denied_inward=denied[0],
                    denied_outward=(*given.deny_pub, *denied[1]),
                    keeps_inward_denials=self.is_spoke,
                )
            )
        except ConfigError as problem:
            self.violates(f"deny_pub: {problem}")
            return
        if permissions is not None and permissions.allow_responses is not None:
            self._responses = PermissionSet(permissions).response_tracker(self._leafs.port.now_ns)
            self.link.track_replies(self._responses is not None)
        self._send_account(grant.account)
        self._open(has_headers=given.headers)

    def _send_account(self, account: str) -> None:
        """Read the second INFO: the account of this leaf node, and what it may do there."""
        permissions = self._permissions
        info = replace(
            self._info(),
            connect_info=True,
            remote_account=account,
            acc_is_sys=account == self._leafs.port.system_account,
            imports=_as_said(permissions.subscribe) if permissions is not None else None,
            exports=_as_said(_answering(permissions)) if permissions is not None else None,
        )
        self.link.send(info.line())

    # -- called by the engine: whom this server connected to --------------------------------------

    def peer_info(self, text: bytes) -> None:
        """Read INFO of a hub: first who it is, later the account it has found, or its other addresses."""
        info = self._read(PeerInfo.read, text)
        if info is None:
            return
        if self.remote is None:
            self._begins_to_compress(info.compression)
            return
        if self._hub is None and self._is_wrong_port(info):
            return
        if self._hub is None and self._begins_to_compress(info.compression):
            return
        if self._hub is None:
            self._first_info(info, self.remote)
        else:
            self.remote_account = info.remote_account or self.remote_account
        if self.link.is_closing:
            return
        self.remote.learn(info)
        if info.imports is not None or info.exports is not None:
            self._imports, self._exports = info.imports, info.exports
            if self.is_registered:
                self._restrict_to_hub()
        if not self.is_registered and (info.connect_info or not self._waits_for_account):
            self._register()

    @property
    def _waits_for_account(self) -> bool:
        return self._hub is not None and self._hub.info_on_connect

    def _is_wrong_port(self, info: PeerInfo) -> bool:
        """Return True for what no hub says; the connection is closed then."""
        if info.client_id and info.leafnode_urls:
            return False
        self.log(logging.ERROR, "attempted to connect to wrong port")
        self.close(CloseReason.WRONG_PORT)
        return True

    def _first_info(self, info: PeerInfo, remote: ReachedHub) -> None:
        if " " in info.cluster:
            self.refuse_loudly(_SPACES, CloseReason.PROTOCOL_VIOLATION)
            return
        self._hub = info
        self.remote_name = info.server_name or info.server_id
        self.remote_cluster = info.cluster
        self.remote_domain = info.domain
        try:
            proof = self._leafs.port.proof(remote.options, info.nonce)
        except SeedError as problem:
            self.log(logging.ERROR, str(problem))
            self.close(CloseReason.WRITE_ERROR)
            return
        self.link.send(self._introduction(remote, proof).line())
        self._arm(limits.LEAF_CONNECT_TIMEOUT, self._connect_due)
        self.log(logging.DEBUG, "Remote leafnode connect msg sent")

    def _introduction(self, remote: ReachedHub, proof: dict[str, str]) -> LeafConnect:
        own, options = self._leafs.port.identity(), remote.options
        user, password = remote.user_of(self.url)
        return LeafConnect(
            version=COMPATIBLE_VERSION,
            **proof,
            user=user,
            password=password or "",
            auth_token=user if password is None else "",
            server_id=own.server_id,
            domain=own.domain,
            name=own.server_name,
            is_hub=options.hub,
            cluster=self._leafs.port.cluster_name,
            headers=self._has_headers,
            jetstream=own.jetstream,
            deny_pub=options.deny_imports,
            isolate=options.request_isolation,
            compress_mode=self.compression,
            remote_account=self.account,
            protocol=ROUTE_PROTOCOL,
        )

    @property
    def _has_headers(self) -> bool:
        return self._leafs.port.has_headers and self._hub is not None and self._hub.headers

    def _register(self) -> None:
        """Let messages flow, since the hub has taken this leaf node in."""
        self._disarm()
        if not self._leafs.is_current(self):
            self.may_reconnect = False
            self.close(CloseReason.CLIENT_CLOSED)
        elif self.remote_cluster and self._leafs.has_accepted(self.account, self.remote_cluster):
            self.loop_detected()
        else:
            self._denied = self._keep_domains_apart()
            self._restrict_to_hub()
            self._open(has_headers=self._has_headers)

    def _restrict_to_hub(self) -> None:
        assert self.remote is not None, "only who has connected is told what it may do"
        options = self.remote.options
        try:
            self._restrict(
                LeafRules(
                    _as_given(self._imports),
                    _as_given(self._exports),
                    denied_inward=(*options.deny_imports, *self._denied[0]),
                    denied_outward=(*options.deny_exports, *self._denied[1]),
                    keeps_inward_denials=True,
                )
            )
        except ConfigError as problem:
            self.violates(f"permissions of the hub: {problem}")

    # -- both -------------------------------------------------------------------------------------

    def _keep_domains_apart(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The subjects that are denied to keep JetStream's domains apart: inward, outward."""
        port, open_api = self._leafs.port, self._leafs.options.open_api
        if self.account in open_api and self.account != port.system_account:
            return (), ()
        own = port.identity()
        names = (self.remote_name, self.remote_cluster)
        found = domains(
            local=own.domain,
            remote=self.remote_domain,
            has_jetstream=own.jetstream,
            is_system=self.account == port.system_account,
            has_system=port.system_account is not None,
            server="/".join(filter(None, names)),
            extends=not open_api,
        )
        for line in filter(None, found.notice.split("\n")):
            self.log(logging.INFO, line)
        return found.both, (*found.both, *found.outgoing)

    def _restrict(self, rules: LeafRules) -> None:
        self._rules = rules
        self.link.restrict(rules.tells, rules.sends, rules.receives)

    def _open(self, *, has_headers: bool) -> None:
        port = self._leafs.port
        interest = port.interest(self.account)
        if interest is None:
            self.log(logging.ERROR, f'Unable to lookup account "{self.account}": account missing')
            self.close(CloseReason.MISSING_ACCOUNT)
            return
        if self.link.is_closing:
            return
        self.is_registered = True
        self.link.open(
            interest,
            is_spoke=self.is_spoke,
            headers=has_headers and port.has_headers,
            origin=self.remote_cluster.encode("utf-8", "replace"),
            isolated=self.is_isolated,
            loop=self._leafs.loop_subject(self.account),
            always=port.always_wanted(self.account),
            traces=self._peer_protocol >= TRACE_PROTOCOL,
        )
        port.registered(self)
        self._begin_pings()
        port.wake()

    def loop_detected(self) -> None:
        """Close a connection over which this account's own interest has come back."""
        self._delay(limits.LEAF_RETRY_AFTER_LOOP)
        text = f'Loop detected for leafnode account="{self.account}". Delaying attempt to reconnect for 30s'
        self.refuse_loudly(text, CloseReason.PROTOCOL_VIOLATION)

    def interest_refused(self, subject: bytes) -> None:
        """Act on a subscription that the other side may not have."""
        self._refuse_to("Subscription", subject)

    def message_refused(self, subject: bytes) -> bool:
        """Judge a message that the other side may not send; True when it is a response that it may."""
        if self._responses is not None and self._responses.may_publish(subject):
            return True
        self._refuse_to("Publish", subject)
        return False

    def note_reply(self, reply: bytes) -> None:
        """Note that a message which goes there may be answered."""
        if self._responses is not None:
            self._responses.track(reply)

    def _refuse_to(self, action: str, subject: bytes) -> None:
        """Close the connection after a violation; one to a hub stays, as the hub is needed all the same."""
        if self.is_spoke:
            return
        self._delay(limits.LEAF_RETRY_AFTER_LOOP)
        name = subject.decode("utf-8", "replace")
        self.log(logging.ERROR, f'{action} Violation on "{name}" - Check other side configuration')
        self.refuse(f'Permissions Violation for {action} to "{name}"', CloseReason.PROTOCOL_VIOLATION)

    def subscriptions_exceeded(self) -> None:
        self.log(logging.ERROR, "maximum subscriptions exceeded")

    def peer_error(self, text: bytes) -> None:
        """Close the connection after -ERR; its text says when to try again."""
        said = text.decode("utf-8", "replace")
        self.log(logging.ERROR, f"Leafnode Error {said}")
        if _SAME_NAME in said:
            self._delay(limits.LEAF_RETRY_AFTER_LOOP)
            why = "with same cluster name error"
        elif _TOO_OLD in said:
            self._delay(limits.LEAF_RETRY_AFTER_VERSION)
            why = "due to minimum version requirement"
        elif _LOOP in said:
            self._delay(limits.LEAF_RETRY_AFTER_LOOP)
            why = "because of a loop"
        elif "Permissions Violation" in said:
            self._delay(limits.LEAF_RETRY_AFTER_LOOP)
            return
        else:
            return
        if self.remote is not None:
            self.log(logging.ERROR, f"Leafnode connection dropped {why}. Delaying attempt to reconnect")

    def _delay(self, seconds: float) -> None:
        if self.remote is not None:
            self.remote.delay = seconds

    def request_info(self, shares: bool, service: str | None, names_server: bool) -> bytes | None:
        """The `Nats-Request-Info` of requests that came over this connection; None: there is none."""
        return self._leafs.port.request_info(self, shares=shares, service=service, names_server=names_server)

    # -- compression ------------------------------------------------------------------------------

    @property
    def _compression_mode(self) -> str:
        if self.is_over_websocket:
            return OFF
        return self._leafs.options.compression if self.remote is None else self.remote.options.compression

    @property
    def _compression_rtts(self) -> Sequence[float]:
        return (self._leafs.options if self.remote is None else self.remote.options).compression_rtts

    @property
    def _has_dialed(self) -> bool:
        return self.remote is not None

    def _say_compression(self) -> None:
        self.link.send(self._info().line())

    # -- liveness ---------------------------------------------------------------------------------

    def pong(self) -> None:
        super().pong()
        if self._ping_sent_ns:
            self._fit_compression()

    def _ping_due(self) -> None:
        """Ping a hub always, and a leaf node only when nothing has come from it for an interval."""
        heard = self._port.now_ns() - self.link.last_activity < self._ping_interval * 1e9
        if self.is_spoke or not heard or not self.rtt_ns or self._pings_out:
            super()._ping_due()
        else:
            self._arm_ping(self._ping_interval)

    def _arm(self, seconds: float, due: Callable[[], object]) -> None:
        self._disarm()
        self._timer = self._port.call_later(seconds, due)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- closing ----------------------------------------------------------------------------------

    def ended(self, reason: CloseReason) -> None:
        """End the session; called once when the connection is over, before the link is detached."""
        self._disarm()
        super().ended(reason)

    def _forget(self) -> None:
        self._leafs.ended(self)


def _answering(permissions: Permissions | None) -> SubjectPermission | None:
    """The subjects that a user may publish to; one who may only answer has none, unless a list says so."""
    if permissions is None:
        return None
    if permissions.allow_responses is not None and (
        permissions.publish is None or not permissions.publish.allow
    ):
        return SubjectPermission((), permissions.publish.deny if permissions.publish is not None else ())
    return permissions.publish


def _as_said(given: SubjectPermission | None) -> PeerPermission | None:
    return None if given is None else PeerPermission(given.allow or (), given.deny)


def _as_given(said: PeerPermission | None) -> SubjectPermission | None:
    return None if said is None else SubjectPermission(said.allow or None, said.deny)


def _version(text: str) -> tuple[int, int, int]:
    """The three numbers of `2.10.0` or `v2.10.0-beta`; (0, 0, 0) for what is no version."""
    words = text.removeprefix("v").split("-")[0].split("+")[0].split(".")
    if len(words) != 3 or not all(word.isascii() and word.isdecimal() and len(word) < 7 for word in words):
        return 0, 0, 0
    return int(words[0]), int(words[1]), int(words[2])
