"""What is asked for again and again: how seldom what is refused, what is forgotten of servers that went."""

from __future__ import annotations

from typing import Final

from harness.console_files import STATIC
from harness.javascript import evaluate

BROWSER: Final = """
    globalThis.window = globalThis;
    globalThis.document = { hidden: false, addEventListener() {} };
    const pauses = [];
    globalThis.setTimeout = (run, pause) => { pauses.push(pause); queueMicrotask(run); return 0; };
    const turns = async (count) => { for (let left = count; left > 0; left -= 1) await null; };
"""

REFUSED: Final = """
    const { NoRight } = await import(errors);
    const end = new AbortController();
    let asked = 0;
    it.poll({
        every: 2_000, signal: end.signal, show: () => {},
        ask: async () => {
            asked += 1;
            if (asked === 1) throw new Error("busy");
            if (asked === 2) throw new NoRight("$JS.API.INFO", "publish");
            if (asked === 4) end.abort();
        },
    });
    await turns(100);
    return pauses;
"""

SERVERS: Final = """
    let now = 1e12;
    let asked = 0;
    Date.now = () => now;
    const traffic = { msgs: 0, bytes: 0 };
    const operator = {
        askAll: async () => {
            asked += 1;
            if (asked > 40) return new Promise(() => {});
            now += 240_000;
            const server = { id: `S${Math.ceil(asked / 2)}`, name: "again" };
            const statsz = { sent: traffic, received: traffic, connections: 1, slow_consumers: asked };
            return [{ server, statsz }];
        },
    };
    const app = Object.assign(new EventTarget(), { operator, account: null });
    const watch = new it.Watch(app);
    await turns(2_000);
    const before = [asked > 40, watch.servers.size, watch.ofServer.size, watch.slow, watch.all.times.length];
    app.operator = null;
    app.dispatchEvent(new Event("links"));
    return [before, [watch.servers.size, watch.ofServer.size, watch.slow, watch.all.times.length]];
"""


def test_what_is_refused_is_asked_for_seldom() -> None:
    """A server writes each refusal into its log; an error of another kind may be over soon."""
    errors = (STATIC / "nats/errors.js").as_uri()
    pauses = evaluate("data/poll.js", BROWSER + REFUSED, errors=errors)
    assert pauses == [2_000, 60_000, 2_000]


def test_servers_that_went_are_forgotten() -> None:
    """A server that is started again has another id: a tab that is open for days would keep all of them."""
    before, after = evaluate("data/watch.js", BROWSER + SERVERS)
    assert before == [True, 2, 2, 20, 20]
    assert after == [0, 0, 0, 0], "the next operator's servers may be others"
