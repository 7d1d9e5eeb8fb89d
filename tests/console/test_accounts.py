"""Accounts: all with their figures; one with its limits, what it shares, who is connected, its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from harness.claims import account_token
from harness.javascript import evaluate
from harness.keys import ACCOUNT, key_pair

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from harness.browser import Console


def row(page: Page, name: str) -> Locator:
    return page.locator("tr[data-key]", has=page.get_by_role("link", name=name, exact=True))


def test_operator_sees_accounts_with_their_figures_and_opens_one(any_console: Console) -> None:
    page = any_console.open("#/accounts", operator="sys")
    system = row(page, "SYS")
    expect(system).to_contain_text("system")
    expect(system).to_contain_text("/s")
    expect(row(page, "PLAIN")).to_contain_text("off")
    row(page, "APP").get_by_role("link").click()
    expect(page.get_by_role("heading", name="APP")).to_be_visible()
    expect(page.locator(".figure", has_text="Subscriptions").locator(".value")).not_to_have_text("–")
    expect(page.get_by_text("0 B, no limit").first).to_be_visible()
    page.go_back()
    expect(row(page, "PLAIN")).to_be_visible()


def test_parts_of_an_account_have_addresses_and_say_where_nothing_is(any_console: Console) -> None:
    page = any_console.open("#/accounts/PLAIN", operator="sys")
    expect(page.get_by_text("JetStream is not enabled in this account.")).to_be_visible()
    page.get_by_role("link", name="Exports and imports").click()
    expect(page.get_by_text("It exports nothing")).to_be_visible()
    page.get_by_role("button", name="that every account has of the system account").click()
    expect(page.get_by_text("$SYS.REQ.USER.PLAIN.INFO")).to_be_visible()
    page.get_by_role("link", name="Users", exact=True).click()
    expect(page.get_by_text("Nobody of this account is connected.")).to_be_visible()
    page.get_by_role("link", name="Streams", exact=True).last.click()
    expect(page.get_by_text("This account has no streams.")).to_be_visible()
    page.get_by_role("link", name="Token").click()
    expect(page.get_by_text("This account has no token.")).to_be_visible()


def test_users_are_those_of_the_connections_and_lead_to_them(any_console: Console) -> None:
    page = any_console.open("#/accounts/SYS/users", operator="sys")
    page.locator("tbody").get_by_role("link", name="sys").click()
    expect(page.get_by_role("textbox", name="Account")).to_have_value("SYS")
    expect(page.locator("tr[data-key]", has_text="headrace console (operator)").first).to_be_visible()


def test_account_that_is_not_there_is_told_as_such(any_console: Console) -> None:
    name = "<img src=x onerror=alert(1)>"
    page = any_console.open("#/accounts/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", operator="sys")
    expect(page.get_by_text("No server knows this account.")).to_be_visible()
    expect(page.get_by_role("heading", name=name)).to_be_visible()


def test_account_login_is_asked_for_the_operators(any_console: Console) -> None:
    page = any_console.open("#/accounts", account="app")
    expect(page.get_by_role("heading", name="Sign in as operator")).to_be_visible()


def test_claims_of_a_token_are_read_and_what_is_none_is_nothing() -> None:
    account = key_pair(ACCOUNT, "somewhere")
    token = account_token(subject=account, outer={"name": "Zürich €"})
    body = "return [it.readClaims(token)?.name, it.readClaims(token)?.sub]"
    assert evaluate("nats/accounts.js", body, token=token) == ["Zürich €", account.public]
    wrong = ["", "a", "a.b.c", f"{token[:40]}", "e30.bnVsbA.x", "..", "a.W10.b" * 3]
    found = evaluate("nats/accounts.js", "return wrong.map((one) => it.readClaims(one))", wrong=wrong)
    assert all(each is None or each == [] for each in found)


def test_limit_with_all_bits_set_is_none() -> None:
    body = "return [it.limit(undefined), it.limit(18446744073709551615), it.limit(1024)]"
    assert evaluate("nats/accounts.js", body) == [-1, -1, 1024]
