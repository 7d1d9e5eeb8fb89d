"""The frame of all pages: signing in as each kind of user, addresses, keys, what is kept where."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import WebSocketRoute

    from harness.browser import Console


def test_user_signs_in_and_sees_who_they_are(any_console: Console) -> None:
    page = any_console.open()
    page.get_by_label("User", exact=True).fill("app")
    page.get_by_label("Password", exact=True).fill("app")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".who")).to_contain_text("in APP · read and write")
    link = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Overview")
    expect(link).to_have_attribute("aria-current", "page")
    kept = page.evaluate("[JSON.stringify(localStorage), JSON.stringify(sessionStorage), location.href]")
    assert not any('"app"' in text for text in kept)


def test_wrong_password_is_told_and_the_next_attempt_waits(any_console: Console) -> None:
    any_console.watched.expected.append("WebSocket")
    page = any_console.open()
    page.get_by_label("User", exact=True).fill("app")
    page.get_by_label("Password", exact=True).fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").filter(has_text="refused")).to_be_visible()
    expect(page.get_by_role("button", name="Wait 1 s")).to_be_disabled()
    expect(page.get_by_role("button", name="Sign in")).to_be_enabled()


def test_system_user_becomes_the_operator(any_console: Console) -> None:
    page = any_console.open(account="sys")
    expect(page.locator(".who")).to_contain_text("Operator")
    page.goto(f"{any_console.url}#/streams")
    expect(page.get_by_role("heading", name="Sign in to an account")).to_be_visible()


@pytest.mark.parametrize("fragment", ["#/nowhere", "#/%", "#/streams/%E0%A4%A", "#//..//overview?x=%"])
def test_strange_addresses_break_nothing(console: Console, fragment: str) -> None:
    page = console.open(fragment, account="app")
    expect(page.locator("main")).not_to_be_empty()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("find")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_theme_is_kept_and_nothing_else(console: Console) -> None:
    page = console.open(account="app")
    page.get_by_role("button", name="Theme: as the system").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("JSON.stringify(localStorage)") == '{"headrace.theme":"dark"}'


NEXT_FORM: Final = """() => new Promise((resolve) => {
    const form = () => document.querySelector("button[type=submit]");
    const observer = new MutationObserver(() => {
        if (!form().textContent.startsWith("Wait")) return;
        observer.disconnect();
        const told = () => resolve([form().textContent.slice(0, 4), form().disabled]);
        window.addEventListener("hashchange", told);
        location.hash = "#/streams";
    });
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
    document.querySelector("form").requestSubmit();
})"""


def test_another_form_waits_after_a_refusal_too(console: Console) -> None:
    console.watched.expected.append("WebSocket")
    page = console.open()
    page.get_by_label("User", exact=True).fill("app")
    page.get_by_label("Password", exact=True).fill("wrong")
    assert page.evaluate(NEXT_FORM) == ["Wait", True]


def test_focus_goes_to_the_page_that_a_link_leads_to(console: Console) -> None:
    page = console.open(account="app")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Alerts").focus()
    page.keyboard.press("Enter")
    expect(page.locator('[data-page="alerts"]')).to_be_visible()
    expect(page.locator("#page")).to_be_focused()
    page.get_by_label("Find streams, connections, commands").fill("streams")
    field, chosen = page.get_by_role("combobox"), page.locator("#found [aria-selected=true]")
    expect(chosen).to_contain_text("Streams")
    assert field.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    page.keyboard.press("ArrowDown")
    assert field.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    page.keyboard.press("Escape")
    expect(field).not_to_have_attribute("aria-activedescendant", "found-0")


def test_outage_is_said_once_and_the_kept_login_outlives_it(console: Console) -> None:
    """What passes with each second is not read aloud; a tab that is loaded meanwhile signs in again later."""
    console.watched.expected.append("WebSocket")
    page = console.open()
    login = json.dumps({"kind": "password", "user": "app", "password": "app"})
    page.evaluate("(login) => sessionStorage.setItem('headrace.login.account', login)", login)
    sockets: list[WebSocketRoute] = []
    is_away = False

    def route(socket: WebSocketRoute) -> None:
        if is_away:
            socket.close()
            return
        socket.connect_to_server()
        sockets.append(socket)

    page.route_web_socket("**", route)
    page.reload()
    expect(page.locator(".who")).to_contain_text("APP")
    is_away = True
    for socket in sockets:
        socket.close()
    banner = page.locator(".banner")
    expect(banner).to_contain_text("Next attempt in")
    expect(banner.get_by_role("status")).to_have_text("The connection is gone.")
    page.reload()
    expect(page.get_by_role("heading", name="Sign in to an account")).to_be_visible()
    is_away = False
    page.reload()
    expect(page.locator(".who")).to_contain_text("APP")


DIALOGS: Final = """async () => {
    const { openDialog } = await import(`${location.pathname}ui/dialog.js`);
    const { h } = await import(`${location.pathname}dom/element.js`);
    openDialog("Late", { signal: AbortSignal.abort() });
    openDialog(h("span", {}, "A ", h("em", {}, "heading")), {}, h("p", {}, "Some words to select."));
}"""


def test_dialogs_have_names_and_stay_where_a_text_is_selected(console: Console) -> None:
    page = console.open(account="app")
    page.evaluate(DIALOGS)
    expect(page.get_by_role("dialog")).to_have_count(1)
    dialog = page.get_by_role("dialog", name="A heading")
    words = dialog.get_by_text("Some words to select.").bounding_box()
    assert words is not None
    page.mouse.move(words["x"] + 5, words["y"] + 5)
    page.mouse.down()
    page.mouse.move(5, 5)
    page.mouse.up()
    expect(dialog).to_be_visible()
    page.mouse.click(5, 5)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_user_without_rights_is_told_so_everywhere(any_console: Console) -> None:
    """The page does not say that all is well where nothing could be asked."""
    page = any_console.open(account="nobody")
    expect(page.locator(".who")).to_contain_text("limited rights")
    expect(page.get_by_text("The figures could not be asked for.")).to_be_visible()
    expect(page.get_by_text("your user may not see it")).to_be_visible()
    expect(page.get_by_text("$SYS.REQ.ACCOUNT.PING.STATZ")).to_be_visible()
    expect(page.get_by_text("$G")).to_have_count(0)
    page.goto(f"{any_console.url}#/alerts")
    expect(page.get_by_text("Your user may not publish to $SYS.REQ.ACCOUNT.PING.CONNZ")).to_be_visible()
    expect(page.get_by_text("look as they should")).to_have_count(0)


def test_what_is_missing_is_called_by_its_name(console: Console) -> None:
    page = console.open("#/keyvalue/nowhere", account="app")
    expect(page.get_by_text("There is no bucket with this name.")).to_be_visible()
    page.goto(f"{console.url}#/objects/nowhere")
    expect(
        page.locator('[data-page="objects"]').get_by_text("There is no bucket with this name.")
    ).to_be_visible()
    plain = console.open("#/streams", account="plain")
    expect(plain.locator("code", has_text="jetstream: enabled")).to_be_visible()
