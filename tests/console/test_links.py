"""What a link makes of nats-core: credentials as it wants them, its errors as ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.claims import user_token
from harness.javascript import evaluate
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


OUTAGES = """
    const sent = [];
    const sockets = [];
    const info = { user: "app", account: "APP", permissions: { publish: { allow: ["x"] } } };
    class Server {
        constructor() {
            sockets.push(this);
            this.round = sockets.length;
            this.readyState = 1;
            setTimeout(() => {
                this.onopen?.({});
                this.say('INFO {"version":"2.15.1","headers":true,"max_payload":200}\\r\\n');
            });
        }
        say(text) {
            setTimeout(() => this.onmessage?.({ data: new TextEncoder().encode(text).buffer }));
        }
        send(data) {
            for (const line of new TextDecoder().decode(data).split("\\r\\n")) {
                const words = line.split(" ");
                sent.push(line);
                if (words[0] === "SUB") this.sid = words[words.length - 1];
                if (words[0] === "PING") this.say("PONG\\r\\n");
                if (words[1] === "$SYS.REQ.USER.INFO") this.tell(words[2]);
            }
        }
        tell(reply) {
            const body = JSON.stringify({ data: info });
            const to = `${reply} ${this.sid}`;
            if (this.round === 1) this.say(`MSG ${to} ${body.length}\\r\\n${body}\\r\\n`);
            if (this.round === 2) this.say(`HMSG ${to} 16 16\\r\\nNATS/1.0 503\\r\\n\\r\\n\\r\\n`);
            if (this.round === 3) asked();
        }
        close() {
            this.readyState = 3;
            setTimeout(() => this.onclose?.({ wasClean: true }));
        }
    }
    let asked;
    const isAsked = new Promise((resolve) => { asked = resolve; });
    globalThis.WebSocket = Server;
    const login = { kind: "password", user: "app", password: "app" };
    const link = await it.Link.open({ url: "ws://nowhere", login, role: "account", tab: "x" });
    const state = (wanted) => new Promise((resolve) => {
        const look = () => { if (link.state === wanted) resolve(); };
        link.addEventListener("state", look);
        look();
    });
    const told = {};
    const signal = AbortSignal.abort();
    link.listen("left.page", () => {}, { signal });
    await link.eachAnswer("left.page", "", { take: () => true, signal });
    told.left = sent.filter((line) => line.includes("left.page")).length;
    const large = link.eachAnswer("x", "x".repeat(300), { take: () => true });
    told.large = await large.catch((error) => error.name);
    sockets[0].onclose({ wasClean: true });
    await state("reconnecting");
    await state("connected");
    told.who = link.who;
    sockets[1].onclose({ wasClean: true });
    await isAsked;
    await link.close();
    told.state = link.state;
    return told;
"""


def test_outages_leave_what_is_known_and_end_quietly() -> None:
    """A server that says no more who the user is, and a page left, or signed out of, while it asks."""
    told = evaluate("nats/link.js", OUTAGES)
    assert told["who"] == {"user": "app", "account": "APP", "permissions": {"publish": {"allow": ["x"]}}}
    assert told["left"] == 0
    assert told["large"] == "InvalidArgumentError"
    assert told["state"] == "closed"
