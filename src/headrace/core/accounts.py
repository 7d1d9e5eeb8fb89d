"""All accounts of one server, wired together as their exports and imports say.

Here lives the composition. Never lives here: the rules (`conf.account_rules`, asked before), how messages
pass from one account to another (`engine.shadows`, `engine.exchange`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.conf.account_rules import export_for, mapped_import
from headrace.conf.options import GLOBAL_ACCOUNT, AccountOptions
from headrace.core.account import Account
from headrace.core.mapping import Mappings
from headrace.engine.exchange import ServiceImport
from headrace.engine.shadows import StreamImport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.conf.options import ExportOptions, ImportOptions, LatencyOptions, Options
    from headrace.engine.link import Router
    from headrace.subjects.imports import ImportedSubject

_NS: Final = 1_000_000_000


class Meter(Protocol):
    """Takes the times of one exported service; `engine.exchange` says how."""

    def begins(self, requestor: bytes | None, headers: bytes, /, *, has_reply: bool) -> Any: ...
    def close(self) -> None: ...


class Accounts:
    """`$G`, the system account, and those that are configured; iterates over them.

    Raises: ConfigError for mappings that cannot be.
    """

    def __init__(
        self,
        options: Options,
        router: Router,
        failed: Callable[[Exception], None],
        new_meter: Callable[[LatencyOptions, Account], Meter],
    ) -> None:
        self.system: Final = options.system_account
        self._router = router
        self._new_meter = new_meter
        self._meters: dict[int, Meter] = {}
        self._accounts: dict[str, Account] = {}
        for account in _all(options):
            mappings = Mappings(account.mappings)
            self._accounts[account.name] = Account(account, router, failed, mappings)
        for importer in self:
            self._wire(importer)

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts.values())

    def __getitem__(self, name: str) -> Account:
        return self._accounts[name]

    @property
    def default(self) -> Account:
        """Where clients act that no configuration assigns."""
        return self._accounts[GLOBAL_ACCOUNT]

    def expire(self) -> None:
        """Give up responses of services that have not come in time."""
        now = self._router.now
        for account in self:
            account.link.expire(now)

    def close(self) -> None:
        for meter in self._meters.values():
            meter.close()
        self._meters.clear()
        for account in self:
            account.close()

    def _wire(self, importer: Account) -> None:
        streams = []
        for item in importer.options.imports:
            exporter = self._accounts[item.account]
            subjects = mapped_import(item)
            if item.is_service:
                importer.link.add(subjects.local, self._service(item, importer, exporter, subjects))
            else:
                streams.append(StreamImport(exporter.interest, subjects))
        importer.interest.imports = tuple(streams)

    def _service(
        self, item: ImportOptions, importer: Account, exporter: Account, subjects: ImportedSubject
    ) -> ServiceImport:
        export = export_for(item, importer.name, exporter.options)
        assert export is not None, "the rules have been asked"
        return ServiceImport(
            exporter.link,
            subjects,
            export,
            is_single=export.response_type == "singleton",
            shares=item.share,
            threshold_ns=round(export.response_threshold * _NS),
            meter=self._meter_of(export, exporter),
        )

    def _meter_of(self, export: ExportOptions, exporter: Account) -> Meter | None:
        """One for all imports of an export whose latencies are published."""
        if export.latency is None:
            return None
        if id(export) not in self._meters:  # the options hold it as long as this
            self._meters[id(export)] = self._new_meter(export.latency, exporter)
        return self._meters[id(export)]


def _all(options: Options) -> list[AccountOptions]:
    """`$G` with what belongs to no account, those given, and the system account if it is not among them."""
    found = [AccountOptions(GLOBAL_ACCOUNT, mappings=options.mappings), *options.accounts]
    if options.system_account is not None and options.system_account not in {a.name for a in found}:
        found.append(AccountOptions(options.system_account))
    return found
