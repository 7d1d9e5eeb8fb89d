"""What a link makes of nats-core: credentials as it wants them, its errors as ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.claims import user_token
from harness.keys import ACCOUNT, USER, key_pair

if TYPE_CHECKING:
    from harness.browser import Console

MODULE = "import('/console/nats/credentials.js')"


def test_credentials_file_signs_whether_or_not_its_last_line_ends(console: Console) -> None:
    user = key_pair(USER, "someone")
    token = user_token(key_pair(ACCOUNT, "somewhere"), user)
    text = (
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    )
    page = console.open()
    for written in (text, text.rstrip(), text.replace("\n", "\r\n"), f"\n{text}\n\n"):
        said = page.evaluate(
            f"async (text) => (await {MODULE}).authenticators({{ kind: 'creds', text }})[0]('a nonce')",
            written,
        )
        assert said["jwt"] == token
        assert said["nkey"] == user.public
        assert said["sig"]


def test_request_that_nobody_hears_is_told_as_such(any_console: Console) -> None:
    page = any_console.open()
    found = page.evaluate(
        """async (url) => {
            const { Link } = await import('/console/nats/link.js');
            const login = { kind: 'password', user: 'app', password: 'app' };
            const link = await Link.open({ url, login, role: 'account', tab: 'x' });
            try {
                await link.ask('nobody.hears.this');
            } catch (error) {
                return [error.constructor.name, error.subject];
            } finally {
                await link.close();
            }
        }""",
        any_console.socket,
    )
    assert found == ["NobodyThere", "nobody.hears.this"]
