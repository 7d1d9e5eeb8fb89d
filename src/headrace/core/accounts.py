"""All accounts of one server, wired together as their exports and imports say.

Here lives the composition. Never lives here: the rules (`conf.account_rules`, asked before), how messages
pass from one account to another (`engine.stream_imports`, `engine.service_imports`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct, field

from headrace.conf.account_options import GLOBAL_ACCOUNT, AccountOptions, JetStreamAccountLimits
from headrace.conf.account_rules import export_for, service_subjects, stream_subjects
from headrace.core.account import Account
from headrace.core.account_defaults import with_domain, with_system_services
from headrace.core.mapping import Mappings
from headrace.engine.service_imports import ServiceImport
from headrace.engine.stream_imports import StreamImport, change_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.conf.account_options import ExportOptions, ImportOptions, LatencyOptions
    from headrace.conf.options import Options
    from headrace.engine.link import Router

_NS: Final = 1_000_000_000


class Meter(Protocol):
    """Takes the times of one exported service; `engine.service_imports` says how."""

    def begins(self, requestor: bytes | None, headers: bytes, /, *, has_reply: bool) -> Any: ...
    def close(self) -> None: ...


class _Wires(Struct):
    """The imports of one account, as the engine has them."""

    streams: dict[tuple[str, str, str], StreamImport] = field(default_factory=dict)
    services: dict[tuple[str, str, str], ServiceImport] = field(default_factory=dict)


class Accounts:
    """The accounts of a server.

    `$G`, the system account, and those that are configured; iterates over them.

    An import that no export permits (any more, or yet) is without effect.
    Raises: ConfigError for mappings that cannot be, BadImport for subjects that do not fit together.
    """

    def __init__(
        self,
        options: Options,
        router: Router,
        failed: Callable[[Exception], None],
        new_meter: Callable[[LatencyOptions, Account], Meter],
    ) -> None:
        self.system: Final = options.system_account
        self._followers: list[Callable[[], object]] = []
        self._domain = options.jetstream.domain if options.jetstream is not None else ""
        self._cluster = ""
        self._router = router
        self._failed = failed
        self._new_meter = new_meter
        self._meters: dict[tuple[str, ExportOptions], Meter] = {}
        self._wires: dict[str, _Wires] = {}
        self._accounts: dict[str, Account] = {}
        self.replace(all_accounts(options))

    def follow(self, follower: Callable[[], object]) -> None:
        """Call `follower` after each change of the accounts, as long as they are there."""
        self._followers.append(follower)

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts.values())

    def __contains__(self, name: object) -> bool:
        return name in self._accounts

    def __getitem__(self, name: str) -> Account:
        return self._accounts[name]

    @property
    def default(self) -> Account:
        """The account of clients that no configuration assigns to one."""
        return self._accounts[GLOBAL_ACCOUNT]

    def replace(self, changed: Iterable[AccountOptions], removed: Iterable[str] = ()) -> None:
        """Add accounts, give new options to those that are there, and end others.

        An account that stays keeps its subscriptions: they lose imported streams and get others at once.
        Requests to a service that is imported as before are answered, the others given up. The caller closes
        the clients of an account that ends, and tells the others their new limits.
        Cost: of the accounts concerned and of those that import from them, by their subscriptions.
        Raises: ConfigError for mappings that cannot be, BadImport, KeyError for the end of an account that is
        not there, ValueError for that of `$G` or the system account. Nothing is changed then.
        """
        given = (self._completed(options) for options in changed)
        new = [(options, Mappings(options.mappings, cluster=self._cluster)) for options in given]
        gone = set(removed)
        for options, _ in new:
            for item in options.imports:
                service_subjects(item) if item.is_service else stream_subjects(item)
        if gone & {GLOBAL_ACCOUNT, self.system}:
            raise ValueError("the default account and the system account cannot be removed")
        for name in sorted(gone):
            self._accounts[name]
        for name in gone:
            self._accounts.pop(name).close()
            self._wires.pop(name, None)
        for options, mappings in new:
            if options.name in self._accounts:
                self._accounts[options.name].change(options, mappings)
            else:
                self._accounts[options.name] = Account(options, self._router, self._failed, mappings)
        self._wire_all(gone.union(options.name for options, _ in new))
        for follower in self._followers:
            follower()

    def _completed(self, options: AccountOptions) -> AccountOptions:
        """Return the options of an account with what every account has."""
        return with_domain(with_system_services(options, self.system), self._domain, self.system)

    def use_cluster(self, name: str) -> None:
        """The server is of this cluster from now on ("": of none), which decides how it maps."""
        if name == self._cluster:
            return
        self._cluster = name
        for account in self:
            mappings = account.options.mappings
            if any(mapping.cluster for mapping in mappings):
                account.map(Mappings(mappings, cluster=name))

    def expire(self) -> None:
        """Give up responses of services that have not come in time."""
        now = self._router.now
        for account in self:
            account.link.expire(now)

    def close(self) -> None:
        for meter in self._meters.values():
            meter.close()
        self._meters.clear()
        self._wires.clear()
        for account in self:
            account.close()

    # -- wires ------------------------------------------------------------------------------------

    def _wire_all(self, concerned: set[str]) -> None:
        """Imports of these accounts, and from them, are made as the options say now."""
        for account in self:
            imports = account.options.imports
            if account.name in concerned or any(item.account in concerned for item in imports):
                self._wire(account)
        current = {
            (account.name, export)
            for account in self
            for export in account.options.exports
            if export.latency is not None
        }
        for key in self._meters.keys() - current:
            self._meters.pop(key).close()

    def _wire(self, importer: Account) -> None:
        before = self._wires.get(importer.name) or _Wires()
        wires = self._wires[importer.name] = _Wires()
        for item in importer.options.imports:
            exporter = self._accounts.get(item.account)
            export = None if exporter is None else export_for(item, importer.name, exporter.options)
            if exporter is None or export is None:
                continue
            key = (item.account, item.subject, item.local)
            if item.is_service:
                wires.services[key] = self._service(
                    item, export, importer, exporter, before.services.get(key)
                )
            else:
                stays = before.streams.get(key)
                if (
                    stays is None
                    or stays.exporter is not exporter.interest
                    or stays.traces != item.allow_trace
                ):
                    subjects = stream_subjects(item)
                    stays = StreamImport(exporter.interest, subjects, traces=item.allow_trace)
                wires.streams[key] = stays
        for service in {*before.services.values()} - {*wires.services.values()}:
            importer.link.remove(service)
        change_imports(importer.interest, tuple(wires.streams.values()))

    def _service(
        self,
        item: ImportOptions,
        export: ExportOptions,
        importer: Account,
        exporter: Account,
        before: ServiceImport | None,
    ) -> ServiceImport:
        """An import of a service: the one there was, under the rules of now, or a new one."""
        rules: dict[str, Any] = {
            "is_single": export.response_type == "singleton",
            "shares": item.share,
            "traces": export.allow_trace,
            "threshold_ns": round(export.response_threshold * _NS),
            "meter": self._meter_of(export, exporter),
        }
        if before is not None and before.exporter is exporter.link:
            before.change(export, **rules)
            return before
        subjects = service_subjects(item)
        made = ServiceImport(exporter.link, subjects, export, **rules)
        importer.link.add(subjects.local, made)
        return made

    def _meter_of(self, export: ExportOptions, exporter: Account) -> Meter | None:
        """One for all imports of an export whose latencies are published."""
        if export.latency is None:
            return None
        key = (exporter.name, export)
        if key not in self._meters:
            self._meters[key] = self._new_meter(export.latency, exporter)
        return self._meters[key]


def all_accounts(options: Options) -> list[AccountOptions]:
    """Return the options of all accounts.

    `$G` with what belongs to no account, those given, and the system account if it is not among them.

    Where nobody configured accounts `$G` has JetStream, without limits of its own.
    """
    is_alone = options.operator is None and all(a.name == options.system_account for a in options.accounts)
    jetstream = {"": JetStreamAccountLimits()} if is_alone and options.jetstream is not None else None
    found = [
        AccountOptions(GLOBAL_ACCOUNT, mappings=options.mappings, jetstream=jetstream),
        *options.accounts,
    ]
    if options.system_account is not None and options.system_account not in {a.name for a in found}:
        found.append(AccountOptions(options.system_account))
    return found
