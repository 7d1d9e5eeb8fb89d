"""What accounts import from the system account without asking."""

from __future__ import annotations

from headrace.conf.account_options import AccountOptions, ExportOptions, ImportOptions
from headrace.conf.account_rules import export_for
from headrace.core.account_defaults import with_system_services


def names(account: AccountOptions) -> list[tuple[str, str, bool]]:
    return [(item.local, item.subject, item.share) for item in account.imports]


def test_account_can_ask_about_itself() -> None:
    account = with_system_services(AccountOptions("A"), "SYS")

    assert names(account) == [
        ("$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.ACCOUNT.A.CONNZ", False),
        ("$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.A.CONNZ", False),
        ("$SYS.REQ.ACCOUNT.PING.STATZ", "$SYS.REQ.ACCOUNT.A.STATZ", False),
        ("$SYS.REQ.USER.INFO", "$SYS.REQ.USER.A.INFO", True),
    ]
    assert account.exports == ()


def test_exports_permit_each_account_its_own_and_no_other() -> None:
    system = with_system_services(AccountOptions("SYS"), "SYS")
    account = with_system_services(AccountOptions("A"), "SYS")

    for item in account.imports:
        assert export_for(item, "A", system) is not None
        assert export_for(item, "B", system) is None


def test_narrower_export_of_the_configuration_takes_nothing_away() -> None:
    mine = ExportOptions("$SYS.REQ.ACCOUNT.*.CONNZ", is_service=True, accounts=("OTHER",))
    system = with_system_services(AccountOptions("SYS", exports=(mine,)), "SYS")
    (first, *_) = with_system_services(AccountOptions("A"), "SYS").imports

    assert export_for(first, "A", system) is not None


def test_system_account_imports_who_am_i_only() -> None:
    system = with_system_services(AccountOptions("SYS"), "SYS")

    assert names(system) == [("$SYS.REQ.USER.INFO", "$SYS.REQ.USER.SYS.INFO", True)]


def test_import_of_the_configuration_stays() -> None:
    mine = ImportOptions("X", "info", "$SYS.REQ.USER.INFO", is_service=True)
    account = with_system_services(AccountOptions("A", imports=(mine,)), "SYS")

    assert [item.account for item in account.imports if item.local == "$SYS.REQ.USER.INFO"] == ["X"]
    assert len(account.imports) == 4


def test_applied_twice_is_applied_once() -> None:
    for name in ("A", "SYS"):
        once = with_system_services(AccountOptions(name), "SYS")
        assert with_system_services(once, "SYS") == once


def test_names_that_are_no_token_and_servers_without_a_system_account_get_nothing() -> None:
    for name in ("a.b", "*", ">", "a b", ""):
        assert with_system_services(AccountOptions(name), "SYS") == AccountOptions(name)
    assert with_system_services(AccountOptions("A"), None) == AccountOptions("A")
