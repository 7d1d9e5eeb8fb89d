"""Rules over all accounts: whose users are whose, who may import what, and that nothing goes in circles.

Here lives what needs more than one account to be judged; `server.server` asks too, for options that were not
read from a file. Never lives here: reading (`accounts`, `exports`).
Source: the Go server 2.15.1; a subject that two imports of one account share is an error here too where it
lets the second one win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from headrace.conf.account_options import DEFAULT_SYSTEM_ACCOUNT, GLOBAL_ACCOUNT
from headrace.conf.problems import shown
from headrace.subjects import grammar
from headrace.subjects.imports import BadImport, ImportedSubject, SingleSubject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.conf.account_options import AccountOptions, ExportOptions, ImportOptions, UserOptions
    from headrace.conf.options import Options


class ProblemPlace(NamedTuple):
    """The place of a problem: the account, "account", "export" or "import", and the number of the export or
    import.
    """

    account: str
    kind: str = "account"
    number: int = 0


Found = tuple[str, ProblemPlace | None]


def account_problems(options: Options) -> Iterator[Found]:
    """All that is wrong between accounts, each problem with its place (None: the accounts as a whole)."""
    accounts = {account.name: account for account in options.accounts}
    if len(accounts) < len(options.accounts) or GLOBAL_ACCOUNT in accounts:
        yield "every account needs a name of its own, which is not $G", None
        return
    yield from _user_problems(options)
    known = {*accounts, GLOBAL_ACCOUNT, DEFAULT_SYSTEM_ACCOUNT}
    if options.system_account is not None and options.system_account not in known:
        yield f"the system account {shown(options.system_account)} is not among the accounts", None
    for account in options.accounts:
        yield from _export_problems(account, known)
        sound = [item for item in _import_problems(account, accounts) if isinstance(item, tuple)]
        yield from sound
        if not sound:
            yield from _cycle_problems(account, accounts)


def sound_imports(
    account: AccountOptions, accounts: Mapping[str, AccountOptions]
) -> tuple[tuple[ImportOptions, ...], tuple[str, ...]]:
    """An account's imports without those that break a rule, and what is wrong with these."""
    known = {**accounts, account.name: account}
    found = list(_import_problems(account, known))
    bad = {place.number for _, place in found if place is not None}
    good = replace(
        account, imports=tuple(item for index, item in enumerate(account.imports) if index not in bad)
    )
    circles = list(_cycle_problems(good, {**known, account.name: good}))
    bad = {place.number for _, place in circles if place is not None}
    sound = tuple(item for index, item in enumerate(good.imports) if index not in bad)
    return sound, tuple(message for message, _ in (*found, *circles))


def stream_subjects(item: ImportOptions) -> ImportedSubject:
    """The subjects of an imported stream. Raises: BadImport if they do not fit together."""
    return ImportedSubject(item.subject.encode(), item.local.encode())


def service_subjects(item: ImportOptions) -> ImportedSubject | SingleSubject:
    """The subjects of an imported service. Raises: BadImport if they do not fit together."""
    exported, local = item.subject.encode(), item.local.encode()
    if grammar.is_literal(exported) and grammar.has_wildcard(local):
        return SingleSubject(exported, local)
    return ImportedSubject(exported, local)


def export_for(item: ImportOptions, importer: str, exporter: AccountOptions) -> ExportOptions | None:
    """The export that permits an import: its own subject, or the first that contains it; None: none."""
    kin = [export for export in exporter.exports if export.is_service == item.is_service]
    # Of a subject that is exported twice the last one counts.
    exact = [export for export in kin if export.subject == item.subject]
    for export in exact[-1:] or kin:
        if grammar.is_subset(item.subject.encode(), export.subject.encode()) and _permits(
            export, item.subject, importer
        ):
            return export
    return None


def _permits(export: ExportOptions, subject: str, importer: str) -> bool:
    if export.token_position:  # which then decides alone
        tokens = subject.split(".")
        place = export.token_position - 1
        return place < len(tokens) and tokens[place] == importer
    return export.accounts is None or importer in export.accounts


def _user_problems(options: Options) -> Iterator[Found]:
    seen: set[str] = set()
    authorization = options.authorization
    listed: list[tuple[ProblemPlace | None, Sequence[UserOptions]]] = [(None, authorization.users)]
    listed += [(ProblemPlace(account.name), account.users) for account in options.accounts]
    for place, users in listed:
        for user in users:
            name = user.nkey or user.user or ""
            if name in seen:
                yield f"duplicate user {shown(name)}", place
            seen.add(name)
    if authorization.token is not None and any(account.users for account in options.accounts):
        yield "a token cannot stand together with users of accounts", None


def _export_problems(account: AccountOptions, known: set[str]) -> Iterator[Found]:
    for index, export in enumerate(account.exports):
        for name in export.accounts or ():
            if name not in known:
                yield f"account {shown(name)} is not defined", ProblemPlace(account.name, "export", index)


def _import_problems(account: AccountOptions, accounts: Mapping[str, AccountOptions]) -> Iterator[Found]:
    taken: set[tuple[bool, object]] = set()
    for index, item in enumerate(account.imports):
        place = ProblemPlace(account.name, "import", index)
        kind = "service" if item.is_service else "stream"
        exporter = accounts.get(item.account)
        if exporter is None:
            yield f"account {shown(item.account)} is not defined", place
            continue
        if export_for(item, account.name, exporter) is None:
            yield f"{kind} import of {shown(item.subject)} is not authorized", place
            continue
        try:
            local = _local(item)
        except BadImport as error:
            yield f"{kind} import of {shown(item.subject)} as {shown(item.local)}: {error}", place
            continue
        # A service has one answer, so a local subject is one service; of a stream the same is taken once.
        key: object = (item.account, local) if item.is_service else (item.account, item.subject)
        if (item.is_service, key) in taken:
            yield f"duplicate {kind} import of {shown(item.subject)}", place
        taken.add((item.is_service, key))


def _cycle_problems(account: AccountOptions, accounts: Mapping[str, AccountOptions]) -> Iterator[Found]:
    for index, item in enumerate(account.imports):
        if item.account != account.name and _returns(account.name, item, accounts):
            message = f"import of {shown(item.subject)} from {shown(item.account)} forms a cycle"
            yield message, ProblemPlace(account.name, "import", index)


def _returns(origin: str, item: ImportOptions, accounts: Mapping[str, AccountOptions]) -> bool:
    """True if what is imported can itself come from the importing account, over any number of accounts."""
    waiting = [(item.account, item.subject)]
    seen = set(waiting)
    while waiting:
        name, subject = waiting.pop()
        for further in _importing(accounts[name].imports, subject, is_service=item.is_service):
            if further.account == origin and grammar.overlaps(further.subject.encode(), _pattern(item)):
                return True
            step = (further.account, further.subject)
            if further.account in accounts and step not in seen:
                seen.add(step)
                waiting.append(step)
    return False


def _importing(
    imports: Iterable[ImportOptions], subject: str, *, is_service: bool
) -> Iterator[ImportOptions]:
    for item in imports:
        if item.is_service == is_service and grammar.overlaps(_pattern(item), subject.encode()):
            yield item


def _local(item: ImportOptions) -> bytes:
    return service_subjects(item).local if item.is_service else stream_subjects(item).local


def _pattern(item: ImportOptions) -> bytes:
    """The local subject of an import as a pattern; nothing overlaps with one that is malformed."""
    try:
        return _local(item)
    except BadImport:
        return b""
