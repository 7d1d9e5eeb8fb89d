/** Tables: streams and channels that servers archive as Parquet tables, how far each is, and what went wrong. */

import { to } from "../app.js";
import { KEPT, SELDOM, poll } from "../data/poll.js";
import { foreign, h, replace } from "../dom/element.js";
import { asDate, brief, bytes, count } from "../format.js";
import { tableStates } from "../nats/tables.js";
import { text } from "../text/tables.js";
import { ago, card, figure, figures, onCommandLine, pageHead, status } from "../ui/blocks.js";
import { empty, failure } from "../ui/empty.js";
import { Table } from "../ui/table.js";
import { inAddress } from "../ui/table_address.js";

/** @typedef {import("./index.js").Place} Place */
/** @typedef {import("../nats/tables.js").TableState} TableState */
/** @typedef {import("../ui/blocks.js").Tone} Tone */

/** @param {Place} place */
export function show({ host, app, signal }) {
  const link = /** @type {import("../nats/link.js").Link} */ (app.operator);
  const sums = h("div");
  const body = h("div");
  const table = new Table(inAddress(tableOptions(app)));
  replace(host, pageHead("Tables", { sub: text.sub }), sums, body, onCommandLine("headrace tables list tables", "headrace tables verify tables"));
  poll({
    every: SELDOM,
    signal,
    ask: () => tableStates(link),
    show: (found) => {
      if (!found) return replace(body, card("", {}, empty(text.absent, h("p", {}, text.absentNext))));
      replace(sums, found.length > 0 && sumsOf(found));
      if (!table.element.isConnected) replace(body, card(text.table, { flush: true }, table.element));
      return table.setRows(found);
    },
    failed: (error) => {
      if (!table.element.isConnected) return replace(body, failure(error));
      return KEPT;
    },
  });
}

/** @param {TableState[]} found */
function sumsOf(found) {
  const sum = (/** @type {(one: TableState) => number} */ value) => found.reduce((total, one) => total + value(one), 0);
  return figures(
    figure(text.figures.tables, count(found.length)),
    figure(text.figures.failed, count(found.filter((one) => one.last_error).length)),
    figure(text.figures.behind, brief(sum(waiting))),
    figure(text.figures.files, brief(sum((one) => one.files))),
    figure(text.figures.bytes, bytes(sum((one) => one.bytes))),
  );
}

/** @param {TableState} one */
function waiting(one) {
  return one.last_sequence === null ? 0 : Math.max(0, one.last_sequence - (one.archived_sequence ?? 0));
}

/**
 * @param {TableState} one
 * @returns {[Tone, string]}
 */
function stateOf(one) {
  if (one.last_error) return ["bad", text.states.failed];
  if (one.last_sequence === null) return ["idle", text.states.gone];
  if (waiting(one)) return ["info", text.states.behind];
  return one.last ? ["good", text.states.good] : ["idle", text.states.waiting];
}

/**
 * A stream leads to its page where the account's login is one of its account.
 *
 * @param {TableState} one
 * @param {import("../app.js").App} app
 */
function nameOf(one, app) {
  const name = foreign(one.stream);
  return one.service === "jetstream" && one.account === app.account?.who.account ? h("a", { href: to("streams", [one.stream]) }, name) : name;
}

/**
 * @param {import("../app.js").App} app
 * @returns {import("../ui/table.js").TableOptions<TableState>}
 */
function tableOptions(app) {
  const { columns } = text;
  return {
    name: "tables",
    label: text.table,
    key: (one) => JSON.stringify([one.server, one.to]),
    words: (one) => [one.service, one.account, one.stream, one.to, one.last_error].join(" "),
    sorted: ["name", "up"],
    empty: () => empty(text.none, h("p", {}, text.noneNext)),
    columns: [
      { name: "name", label: columns.name, cell: (one) => nameOf(one, app), sort: (one) => one.stream },
      { name: "service", label: columns.service, cell: (one) => text.services[one.service] ?? foreign(one.service), sort: (one) => one.service },
      { name: "account", label: columns.account, cell: (one) => foreign(one.account || "–"), sort: (one) => one.account },
      { name: "kind", label: columns.kind, hidden: true, cell: (one) => text.kinds[one.kind] ?? foreign(one.kind), sort: (one) => one.kind },
      { name: "state", label: columns.state, cell: (one) => status(...stateOf(one)), sort: (one) => ["bad", "info", "idle", "good"].indexOf(stateOf(one)[0]) },
      { name: "behind", label: columns.behind, number: true, cell: (one) => count(waiting(one)), sort: waiting },
      { name: "archived", label: columns.archived, number: true, cell: (one) => count(one.archived_sequence), sort: (one) => one.archived_sequence },
      { name: "last", label: columns.last, number: true, hidden: true, cell: (one) => count(one.last_sequence), sort: (one) => one.last_sequence },
      { name: "rows", label: columns.rows, number: true, hidden: true, cell: (one) => count(one.rows), sort: (one) => one.rows },
      { name: "files", label: columns.files, number: true, cell: (one) => count(one.files), sort: (one) => one.files },
      { name: "bytes", label: columns.bytes, number: true, cell: (one) => bytes(one.bytes), sort: (one) => one.bytes },
      { name: "run", label: columns.run, number: true, cell: (one) => ago(one.last), sort: (one) => asDate(one.last)?.getTime() },
      { name: "error", label: columns.error, cell: (one) => foreign(one.last_error), sort: (one) => one.last_error },
      { name: "to", label: columns.to, hidden: true, cell: (one) => foreign(one.to), sort: (one) => one.to },
      { name: "server", label: columns.server, hidden: true, cell: (one) => foreign(one.server), sort: (one) => one.server },
    ],
  };
}
