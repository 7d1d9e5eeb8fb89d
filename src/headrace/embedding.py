"""A server inside another program: its options are checked, its stores are opened and closed with it.

`headrace.Server` is this one. Never lives here: what a server does (`server.server`), the process (`app`).
"""

from __future__ import annotations

from contextlib import ExitStack
from time import time_ns
from typing import TYPE_CHECKING, Any, Self

from headrace.conf.checking import checked
from headrace.conf.options import Options
from headrace.server import server as inner
from headrace.server.preflight import hosted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from headrace.core.service import Service
    from headrace.log.filesystem import FileSystem
    from headrace.server.account_services import AccountServices


class Server(inner.Server):
    """A NATS server inside an asyncio program, with the JetStream and the streaming that its options ask for.

        async with Server(Options(host="127.0.0.1", port=-1)) as server:
            print(server.url)

    Everything runs on the event loop that called `start`. Stores are opened when it starts and closed when
    it has stopped, for whatever reason. `stopped` is set then, `failure` says why if it could not go on.
    `services` and `account_services`: others than those, which are the caller's to close. `filesystem`: of
    the stores; None: the system's.
    Raises: ConfigError with everything that is wrong with the options. `start` raises StartError.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        transport: str | None = None,
        services: Sequence[Service] = (),
        account_services: AccountServices | None = None,
        filesystem: FileSystem | None = None,
        **others: Any,
    ) -> None:
        options = Options() if options is None else checked(options)
        super().__init__(
            options, transport=transport, services=services, account_services=account_services, **others
        )
        self._stores = ExitStack()
        self._filesystem = filesystem

    @classmethod
    def from_config(cls, path: str | PathLike[str], **overrides: Any) -> Self:
        """A server as a configuration file describes it; it can be reloaded.

        `overrides` are fields of `Options`, which win over the file.
        Raises: ConfigError with everything that is wrong with the file.
        """
        from headrace.conf.binding import load_options

        return cls(load_options(str(path), overrides=overrides))

    async def start(self) -> None:
        """Open the stores and listen; when this returns clients can connect and the services answer.

        Raises: StartError when a port, a certificate or a store cannot be used, or a service cannot start.
        """
        self._open_stores()
        await super().start()

    def _open_stores(self) -> None:
        options = self.options
        is_given = bool(self.services) or self.account_services is not None
        if is_given or (options.streaming is None and options.jetstream is None):
            return
        if options.streaming is not None and options.streaming.nats_server is not None:
            return  # which `start` refuses
        from headrace.app import stored_services  # most servers have no stores

        opened = stored_services(
            options,
            lambda why: self.give_up(f"STREAM: Failed to start: {why}"),
            filesystem=self._filesystem,
            clock=time_ns if self.clock is None else self.clock.now_ns,
        )
        services, accounts = self._stores.enter_context(opened)
        self.services = tuple(services)
        self.account_services = hosted(self, accounts)

    @property
    def mqtt_port(self) -> int | None:
        """The MQTT port that is bound; None: there is none."""
        return self.listeners.mqtt_port

    @property
    def mqtt_url(self) -> str | None:
        """The URL for an MQTT client on this machine; None: there is no such port."""
        return self.listeners.mqtt_url

    async def _stop(self) -> None:
        try:
            await super()._stop()
        finally:
            self._stores.close()
