"""The hubs of a server: one for each account that has had a client over MQTT.

Here lives which account has one, and with which settings. Never lives here: what a hub does
(`headrace.mqtt`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace import limits
from headrace.mqtt.hub import MqttHub
from headrace.mqtt.settings import MOST_REPLICAS, HubSettings
from headrace.server.monitor.source import MqttSnapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from headrace.conf.options import Options
    from headrace.core.account import Account
    from headrace.core.service import Service
    from headrace.server.auth import Authenticator
    from headrace.server.listener import ListenerHost
    from headrace.server.services import ServiceHost
    from headrace.server.tls_contexts import ServerTLS

    class HubsServer(ListenerHost, Protocol):
        """A server, as its MQTT port and the hubs see it."""

        @property
        def tls(self) -> ServerTLS: ...

        def start_service(self, service: Service, account: Account, *, maps: bool = True) -> ServiceHost:
            """Start a service in an account."""

        def stop_services(self, hosts: Sequence[ServiceHost], *, at_once: bool = False) -> None:
            """Stop services while the server goes on."""


class Hubs:
    """The hubs of one server, by account. They go with their accounts."""

    def __init__(self, server: HubsServer) -> None:
        self._server = server
        self._hubs: Final[dict[Account, MqttHub]] = {}
        self._hosts: Final[dict[Account, ServiceHost]] = {}
        server.accounts.follow(self._follow)

    def of(self, account: Account) -> MqttHub:
        """Return the hub of an account, which is made for its first client."""
        hub = self._hubs.get(account)
        if hub is None:
            server = self._server
            hub = MqttHub(settings_of(server.options, server.name), account.name, server.log)
            self._hosts[account] = server.start_service(hub, account, maps=False)
            self._hubs[account] = hub
        return hub

    def snapshot(self) -> MqttSnapshot:
        """Count the clients and the retained messages of all hubs."""
        hubs = self._hubs.values()
        return MqttSnapshot(sum(len(hub.sessions) for hub in hubs), sum(len(hub.retained) for hub in hubs))

    def reload(self) -> None:
        """Take over the options of the server as they are now."""
        settings = settings_of(self._server.options, self._server.name)
        for hub in self._hubs.values():
            hub.use(settings)

    def judge_retained(self, authenticator: Authenticator) -> None:
        """Forget retained messages of users who may not publish them any more."""
        for hub in self._hubs.values():
            hub.judge_retained(authenticator.may_publish)

    def _follow(self) -> None:
        present = {id(account) for account in self._server.accounts}
        for account in [account for account in self._hubs if id(account) not in present]:
            del self._hubs[account]
            self._server.stop_services([self._hosts.pop(account)])


def settings_of(options: Options, server_name: str) -> HubSettings:
    """Return the settings of hubs, by the options of the server."""
    block = options.mqtt
    assert block is not None, "there is an MQTT port"
    routes = len(options.cluster.routes) if options.cluster is not None else 0
    expiry = block.max_session_expiry
    return HubSettings(
        server_name=server_name,
        ack_wait_ns=round((block.ack_wait or limits.MQTT_ACK_WAIT) * 1e9),
        max_ack_pending=block.max_ack_pending or limits.MQTT_MAX_ACK_PENDING,
        api_timeout=block.js_api_timeout,
        domain=block.js_domain or "",
        own_domain=options.jetstream.domain if options.jetstream is not None else "",
        replicas=min(block.stream_replicas or max(routes, 1), MOST_REPLICAS),
        consumer_memory_storage=block.consumer_memory_storage,
        consumer_inactive_threshold_ns=round(block.consumer_inactive_threshold * 1e9),
        rejects_qos2=block.reject_qos2_publish,
        downgrades_qos2=block.downgrade_qos2_subscribe,
        max_session_expiry=None if expiry is None else int(expiry),
    )
