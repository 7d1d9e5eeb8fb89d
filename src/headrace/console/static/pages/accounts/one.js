/** One account: its heading and parts, each with an address of its own. */

import { to } from "../../app.js";
import { OFTEN, SELDOM, poll } from "../../data/poll.js";
import { Rates } from "../../data/series.js";
import { foreign, h, replace } from "../../dom/element.js";
import { accountClaims, accountDetail, accountFigures } from "../../nats/accounts.js";
import { jetstreamOfAll } from "../../nats/servers.js";
import { text } from "../../text/accounts.js";
import { linkButton, onCommandLine, pageHead, shellWord, tabs } from "../../ui/blocks.js";
import { empty, failure } from "../../ui/empty.js";
import { showClaims } from "./claims.js";
import { drawOverview } from "./overview.js";
import { showSharing } from "./sharing.js";
import { showStreams } from "./streams.js";
import { showUsers } from "./users.js";

/** @typedef {import("../index.js").Place} Place */
/** @typedef {import("../../nats/link.js").Link} Link */
/** @typedef {import("../../nats/accounts.js").AccountInfo} AccountInfo */
/** @typedef {import("../../nats/accounts.js").Claims} Claims */
/** @typedef {{ name: string, detail: AccountInfo | null, claims: Claims | null }} Account */

/** @typedef {keyof typeof text.tabs} Part */
const PARTS = /** @type {Part[]} */ (Object.keys(text.tabs));

/**
 * @param {Place} place
 * @param {Link} link
 */
export function showAccount(place, link) {
  const { host, path, app, signal } = place;
  const [name, asked] = path;
  const part = PARTS.find((one) => one === asked) ?? "overview";
  const head = h("div");
  const body = h("div", { class: "stack" });
  const drawHead = (/** @type {Account | null} */ account) => {
    const title = account?.detail?.name_tag || account?.claims?.name || name;
    replace(
      head,
      pageHead(foreign(title), {
        crumb: { href: to("accounts"), label: text.toAll }, sub: title === name ? null : foreign(name, "mono"),
        actions: [linkButton(text.toConnections, to("connections", [], { account: name }), { icon: "connections" })],
      }),
      tabs(PARTS.map((one) => ({ href: to("accounts", one === "overview" ? [name] : [name, one]), label: text.tabs[one], current: one === part }))),
    );
  };
  drawHead(null);
  replace(host, head, body, onCommandLine(`headrace server account info ${shellWord(name)}`));
  const expected = () => app.watch.servers.size;
  const find = async () => {
    const detail = await accountDetail(link, name, expected());
    return { name, detail, claims: await accountClaims(link, name, detail) };
  };
  /** @param {(account: Account) => void} show */
  const follow = (show) => {
    poll({
      every: SELDOM,
      signal,
      ask: find,
      show: (account) => {
        drawHead(account);
        if (!account.detail && !account.claims) replace(body, empty(text.gone, text.goneNext, linkButton(text.toAll, to("accounts"))));
        else show(account);
      },
      failed: (error) => replace(body, failure(error)),
    });
  };
  if (part === "overview") followFigures(place, link, { name, body, follow });
  else if (part === "sharing") follow(showSharing(body));
  else if (part === "claims") follow((account) => showClaims(body, account));
  else {
    follow(() => {});
    (part === "users" ? showUsers : showStreams)(place, link, { name, body });
  }
}

/**
 * Limits change seldom, figures often: two questions, one page.
 *
 * @param {Place} place
 * @param {Link} link
 * @param {{ name: string, body: HTMLElement, follow: (show: (account: Account) => void) => void }} options
 */
function followFigures({ app, signal }, link, { name, body, follow }) {
  const rates = new Rates();
  /** @type {Account | null} */
  let account = null;
  /** @type {import("./overview.js").Figures} */
  let figures = { stats: null, rates: null, jetstream: [] };
  const draw = () => account && drawOverview(body, account, figures);
  follow((found) => { account = found; draw(); });
  poll({
    every: OFTEN,
    signal,
    ask: async () => {
      const [stats, answers] = await Promise.all([accountFigures(link, [name]), jetstreamOfAll(link, { account: name }, app.watch.servers.size)]);
      return { stats: stats.get(name) ?? null, jetstream: answers.flatMap(({ data }) => data?.account_details ?? []).filter((one) => (one.id ?? one.name) === name) };
    },
    show: ({ stats, jetstream }) => {
      const speed = stats && rates.of("it", Date.now() / 1_000, { from: stats.received.msgs, to: stats.sent.msgs });
      figures = { stats, jetstream, rates: speed ?? figures.rates };
      draw();
    },
    failed: (error) => replace(body, failure(error)),
  });
}
