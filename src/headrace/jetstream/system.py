"""JetStream of one server: what its accounts share, and which accounts there are.

The owner hosts each account's service, opens and closes the stores, and tells of new limits. What an account
does is `account`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import LogError
from headrace.jetstream.advisories import Advisories
from headrace.jetstream.limits import ApiCounters, Held, Inflight
from headrace.jetstream.refusing import RefusingService, SystemRequests
from headrace.jetstream.service import AccountService
from headrace.log.committer import InlineCommitter
from headrace.log.port import SyncPolicy
from headrace.log.store import MemoryStore

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

    from headrace.core.service import Host
    from headrace.jetstream.limits import AccountLimits, ServerSettings
    from headrace.log.committer import Committer
    from headrace.log.store import LogStore
    from headrace.protocol.jetstream.configs import Storage


class JetStreamSystem:
    """The part of JetStream that all accounts of a server share.

    `file` and `memory` have the logs of all accounts: `<account>/streams/<stream>`, `<account>/state`.
    """

    def __init__(
        self,
        settings: ServerSettings,
        file: LogStore,
        memory: LogStore,
        committer: Committer,
        *,
        sync: SyncPolicy,
        log: logging.Logger,
    ) -> None:
        self.settings = settings
        self.file = file
        self.memory = memory
        self.committer = committer
        self.sync = sync
        self.note = log
        self.accounts: dict[str, AccountService] = {}
        self.adopted: frozenset[bytes] = frozenset()
        """Names of logs that are there before their streams: those will be made after the start."""
        self.api = ApiCounters()
        self.advise: Callable[..., object] = _heard_by_nobody
        """Publishes an advisory in the system account: `Advisories.advise`, once that account is served."""
        self.held = Held()
        self.batches = Inflight(settings.batches)

    @classmethod
    def idle(cls, settings: ServerSettings, log: logging.Logger) -> JetStreamSystem:
        """JetStream that is not served here: there are no accounts and no logs."""
        return cls(settings, MemoryStore(), MemoryStore(), InlineCommitter(), sync=SyncPolicy.GROUP, log=log)

    def add_account(self, name: str, tiers: Mapping[str, AccountLimits]) -> AccountService:
        """The service of an account that has JetStream; starting it brings back what it had before.

        `tiers`: its limits by name (`R1`, `R3`), or all of them as `UNTIERED`.
        """
        account = AccountService(name, self, dict(tiers))
        self.accounts[name] = account
        return account

    def remove_account(self, name: str) -> None:
        """The account's service was stopped; what it stored stays."""
        self.accounts.pop(name, None)

    def update_limits(self, name: str, tiers: Mapping[str, AccountLimits]) -> None:
        """Use these limits from now on; streams and consumers that are there stay. Raises: KeyError."""
        self.accounts[name].set_limits(dict(tiers))

    def refusing_service(self) -> RefusingService:
        """The service of an account that has no JetStream on a server that has it."""
        return RefusingService()

    def system_requests(self, hand_over: Callable[[str], bool] | None = None) -> SystemRequests:
        """The service of the system account. `hand_over`: as `SystemRequests` has it."""
        return SystemRequests(self.purge_account, hand_over, self._system_account_starts)

    def _system_account_starts(self, host: Host) -> None:
        """Tell of what happens here in the system account, and first that this server leads."""
        self.advise = Advisories(host, self.settings.domain).advise
        if self.settings.leadership is not None:
            from headrace.jetstream.leadership import domain_election  # most servers are the only one

            fields = domain_election(self.settings.leadership())
            self.advise("DOMAIN.LEADER_ELECTED", "domain_leader_elected", **fields)

    def purge_account(self, name: str, done: Callable[[LogError | None], None]) -> None:
        """Remove all streams of an account, also of one that is not here any more; `done` is called then."""
        account = self.accounts.get(name)
        streams = 0 if account is None else len(account.streams)
        self.note.info(
            "Purge request for account %s (streams: %d, hasAccount: %s)", name, streams, account is not None
        )
        if account is not None:
            account.purge(done)
            return
        try:
            for log in self.file.names():
                if log.startswith(f"{name}/".encode()):
                    self.file.remove(log)
        except LogError as error:
            done(error)
            return
        done(None)

    def reserved(self, storage: Storage) -> int:
        """Bytes that the streams of all accounts may grow to, as far as they are bounded."""
        return sum(account.reserved_of(storage) for account in self.accounts.values())


def _heard_by_nobody(*_advisory: object, **_fields: object) -> None:
    """Do nothing: the system account is not served."""
