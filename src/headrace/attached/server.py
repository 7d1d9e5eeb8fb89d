"""The stand-in for a server when NATS is elsewhere: monitoring and the service, no listener.

It is a `Server` so that signals, reload and monitoring find what they know; `/varz` shows no client and no
message, which all are at the other server. Source: nats-streaming-server's `-ns`.
"""

from __future__ import annotations

import asyncio
import logging
from time import time_ns
from typing import TYPE_CHECKING, Final

from headrace.attached.connection import Login
from headrace.attached.host import RemoteHost
from headrace.attached.identity import AttachedIdentity, tls_context
from headrace.client.address import Credentials, parse_addresses
from headrace.client.errors import AddressError, ConnectionLostError
from headrace.client.options import ConnectOptions
from headrace.core.service import memberships
from headrace.errors import StartError
from headrace.protocol.stan import ConnectRequest
from headrace.server import logs
from headrace.server.listeners import open_monitor
from headrace.server.preflight import announce
from headrace.server.server import Server
from headrace.streaming import error_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.conf.options import Options
    from headrace.conf.streaming_options import NATSServerOptions, StreamingOptions
    from headrace.core.service import Service

LOOK_FOR_OTHERS: Final = 1.0
"""Seconds that another streaming server has to answer; a NATS server that knows of nobody says so at once."""


class AttachedServer(Server):
    """A streaming service as a client of a NATS server elsewhere, with its monitoring.

    `start` raises StartError, with a line that begins as nats-streaming-server's.
    """

    def __init__(self, options: Options, services: Sequence[Service]) -> None:
        super().__init__(options, services=services)
        assert options.streaming is not None
        assert options.streaming.nats_server is not None
        self._streaming: StreamingOptions = options.streaming
        self._nats: NATSServerOptions = options.streaming.nats_server
        self._remote: list[RemoteHost] = []

    async def start(self) -> None:
        if self.options.jetstream is not None:
            raise StartError("JetStream cannot be here: streaming uses a NATS server elsewhere")
        self.loop = asyncio.get_running_loop()
        self.ticks.begin(self.loop, None)
        self.start_ns = self.config_load_ns = time_ns()
        announce(self)
        try:
            for service in self.services:
                await self._attach(service)
            for membership in memberships(self.services):
                await membership.join(self.name, "", is_alone=False)
            self.listeners.monitor = await open_monitor(self)
            if self.surroundings is not None:
                self.surroundings.before_clients()
        except BaseException:
            await self.stop()
            raise
        self.log.info("Server is ready")

    async def _attach(self, service: Service) -> None:
        try:
            host = self._host(service)
            self._remote.append(host)
            await host.connect()
            streaming = self._streaming
            if not (streaming.partitioning or streaming.ft_group or streaming.bucket is not None):
                await self._look_for_others(host)
        except (StartError, AddressError) as error:
            raise StartError(error_texts.failed_to_start(str(error))) from error
        try:
            await host.start()
        except ConnectionLostError as error:
            raise StartError(error_texts.failed_to_start(f"nats: {error}")) from error

    def _host(self, service: Service) -> RemoteHost:
        """Return the host of one service, not connected yet. Raises: StartError, AddressError."""
        addresses = parse_addresses(self._nats.url)
        identity = AttachedIdentity(self._nats, self.options.authorization)
        identity.check()
        in_url = next((address.credentials for address in addresses if address.credentials), None)
        login = Login(
            ConnectOptions(name=f"_NSS-{self._streaming.cluster_id}-general", tls=tls_context(self._nats)),
            identity,
            in_url or identity.plain or Credentials(),
            self._nats.server_name,
        )
        log = logging.getLogger(f"{logs.LOGGER_NAME}.streaming")
        proof = next((each.proven_until for each in memberships([service])), None)
        return RemoteHost(service, addresses, login, log, proof=proof)

    async def _look_for_others(self, host: RemoteHost) -> None:
        """Look for other servers with the cluster ID: two of them would both answer. Raises: StartError."""
        cluster = self._streaming.cluster_id
        subject = f"{self._streaming.discover_prefix}.{cluster}".encode()
        request = ConnectRequest(client_id=cluster.encode(), heartbeat_inbox=b"_INBOX." + cluster.encode())
        if await host.ask(subject, request.encode(), LOOK_FOR_OTHERS):
            raise StartError(error_texts.other_server(cluster))

    async def stop(self) -> None:
        """The service, its connection, monitoring. Safe to call twice."""
        for membership in memberships(self.services):
            await membership.part()
        remote, self._remote = self._remote, []
        for host in remote:
            host.stop()
            await host.close()
        await super().stop()
