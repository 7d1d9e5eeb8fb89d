/** Accounts: all of them with what they do now; one with its limits, what it shares, its users, streams and token. */

import { to } from "../app.js";
import { OFTEN, SELDOM, poll } from "../data/poll.js";
import { Rates } from "../data/series.js";
import { foreign, h, replace } from "../dom/element.js";
import { brief, bytes, count } from "../format.js";
import { accountFigures, accountNames, jetstreamUse } from "../nats/accounts.js";
import { text } from "../text/accounts.js";
import { card, meter, onCommandLine, pageHead, tag } from "../ui/blocks.js";
import { empty, failure } from "../ui/empty.js";
import { Table } from "../ui/table.js";
import { inAddress } from "../ui/table_address.js";
import { showAccount } from "./accounts/one.js";

/** @typedef {import("./index.js").Place} Place */
/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {{ name: string, isLoaded: boolean, isSystem: boolean, stats?: import("../nats/system.js").AccountStats, rates?: Record<string, number> | null,
 *   jetstream?: { storage: number, memory: number, most: number, mostMemory: number } }} Row */

/** Of so many accounts all figures are asked for; of more, those of the rows in view. */
const FEW = 256;

/** @param {Place} place */
export function show(place) {
  const link = place.app.operator;
  if (!link) return;
  if (place.path.length) showAccount(place, link);
  else showAll(place, link);
}

/**
 * @param {Place} place
 * @param {Link} link
 */
function showAll({ host, app, signal, go }, link) {
  const head = h("div", {}, pageHead(text.title));
  const problem = h("div");
  const rates = new Rates();
  /** @type {Map<string, Row>} */
  const rows = new Map();
  /** @type {string[]} */
  let inView = [];
  /** @type {Table<Row>} */
  const table = new Table(inAddress({
    name: "accounts", label: text.label, columns: columns(), sorted: ["name", "up"], key: (row) => row.name,
    words: (row) => `${row.name} ${row.stats?.name ?? ""}`,
    open: (row) => go(to("accounts", [row.name])),
    seen: (seen) => { inView = seen.map((row) => row.name); },
    json: ({ rates: _rates, ...row }) => row,
    empty: () => empty(text.none),
  }));
  replace(host, head, problem, card(null, { flush: true }, table.element), onCommandLine("headrace server report accounts", "headrace server request accountz"));

  const failed = (/** @type {unknown} */ error) => replace(problem, failure(error));
  const ask = async () => {
    const [names, used] = await Promise.all([accountNames(link, app.watch.servers.size), jetstreamUse(link, app.watch.servers.size)]);
    const known = new Set(names.map((one) => one.name));
    for (const name of rows.keys()) if (!known.has(name)) rows.delete(name);
    for (const one of names) rows.set(one.name, { ...rows.get(one.name), ...one, jetstream: used.get(one.name) });
    return rows.size;
  };
  const draw = () => {
    replace(problem);
    replace(head, pageHead(text.title, { sub: text.sub(count(rows.size)) }));
    table.setRows([...rows.values()]);
  };
  const figures = async () => {
    const names = rows.size <= FEW ? [...rows.keys()] : inView;
    const found = await accountFigures(link, names);
    const now = Date.now() / 1_000;
    for (const [name, stats] of found) {
      const row = rows.get(name);
      if (row) Object.assign(row, { stats, rates: rates.of(name, now, { from: stats.received.msgs, to: stats.sent.msgs }) ?? row.rates });
    }
    rates.keep(new Set(rows.keys()));
  };
  poll({ every: SELDOM, signal, ask, show: () => { draw(); refresh(); }, failed });
  const refresh = poll({ every: OFTEN, signal, ask: figures, show: () => (rows.size ? draw() : undefined), failed });
}

/** @returns {import("../ui/table.js").Column<Row>[]} */
function columns() {
  const { columns: labels, hints } = text;
  return [
    { name: "name", label: labels.name, cell: nameCell, sort: (row) => row.stats?.name || row.name },
    { name: "state", label: labels.state, cell: stateCell, sort: (row) => (row.isSystem ? 2 : Number(!row.isLoaded)) },
    { name: "conns", label: labels.conns, cell: (row) => count(row.stats?.conns), sort: (row) => row.stats?.conns, number: true },
    { name: "subs", label: labels.subs, cell: (row) => count(row.stats?.num_subscriptions), sort: (row) => row.stats?.num_subscriptions, number: true },
    { name: "from", label: labels.from, hint: hints.from, cell: (row) => rate(row, "from"), sort: (row) => row.rates?.from, number: true },
    { name: "to", label: labels.to, hint: hints.to, cell: (row) => rate(row, "to"), sort: (row) => row.rates?.to, number: true },
    { name: "storage", label: labels.storage, cell: (row) => share(row.jetstream?.storage, row.jetstream?.most), sort: (row) => row.jetstream?.storage, number: true },
    { name: "memory", label: labels.memory, cell: (row) => share(row.jetstream?.memory, row.jetstream?.mostMemory), sort: (row) => row.jetstream?.memory, number: true, hidden: true },
    { name: "leafs", label: labels.leafs, cell: (row) => count(row.stats?.leafnodes), sort: (row) => row.stats?.leafnodes, number: true, hidden: true },
    { name: "slow", label: labels.slow, hint: hints.slow, cell: (row) => count(row.stats?.slow_consumers), sort: (row) => row.stats?.slow_consumers, number: true },
    { name: "total", label: labels.total, hint: hints.slow, cell: (row) => count(row.stats?.total_conns), sort: (row) => row.stats?.total_conns, number: true, hidden: true },
  ];
}

/** @param {Row} row */
function nameCell(row) {
  const title = row.stats?.name && row.stats.name !== row.name ? row.stats.name : "";
  return h("a", { href: to("accounts", [row.name]), title: row.name }, foreign(title || row.name));
}

/** @param {Row} row */
function stateCell(row) {
  if (row.isSystem) return tag(text.system);
  return row.isLoaded ? null : h("span", { title: text.notLoadedHint }, tag(text.notLoaded));
}

/**
 * @param {Row} row
 * @param {string} name
 */
function rate(row, name) {
  return row.rates ? text.perSecond(brief(row.rates[name])) : "–";
}

/**
 * @param {number | undefined} used
 * @param {number | undefined} most
 */
function share(used, most = -1) {
  if (used === undefined) return h("span", { class: "muted" }, text.off);
  return most > 0 ? meter(used, most, text.of(bytes(used), bytes(most))) : bytes(used);
}
