/** Servers: all of them with what is wrong; one with its figures, health, options, storage and configuration. */

import { to } from "../app.js";
import { followFindings } from "../data/findings.js";
import { foreign, h, replace } from "../dom/element.js";
import { brief, bytes, count, duration } from "../format.js";
import { SILENT_MS } from "../data/watch.js";
import { text } from "../text/server.js";
import { text as findingText } from "../text/findings.js";
import { card, meter, onCommandLine, pageHead, status } from "../ui/blocks.js";
import { empty, failure } from "../ui/empty.js";
import { countedFindings, findingList } from "../ui/findings.js";
import { CHECKS } from "../data/findings.js";
import { Table } from "../ui/table.js";
import { inAddress } from "../ui/table_address.js";
import { showServer } from "./server/one.js";

/** @typedef {import("./index.js").Place} Place */
/** @typedef {import("../app.js").App} App */
/** @typedef {import("../data/watch.js").KnownServer & { series: import("../data/series.js").Series | undefined }} Row */

/** @param {Place} place */
export function show(place) {
  if (!place.app.operator) return;
  if (place.path.length) showServer(place, place.app.operator);
  else showAll(place);
}

/** @param {Place} place */
function showAll({ host, app, signal, go }) {
  const head = h("div", {}, pageHead(text.title));
  const table = serverTable((row) => go(to("server", [row.server.id])));
  const findings = findingsCard(app, signal);
  replace(host, head, card(null, { flush: true }, table.element), findings, onCommandLine("headrace server ls", "headrace doctor"));
  const draw = () => {
    const rows = app.watch.byName.map((known) => ({ ...known, series: app.watch.ofServer.get(known.server.id) }));
    replace(head, pageHead(text.title, { sub: text.sub(rows.filter((row) => !isSilent(row)).length) }));
    table.setRows(rows);
  };
  app.watch.addEventListener("change", draw, { signal });
  if (app.watch.servers.size) draw();
}

/**
 * What is wrong, of all servers.
 *
 * @param {App} app
 * @param {AbortSignal} signal
 */
function findingsCard(app, signal) {
  const box = h("div", {}, h("p", { class: "muted inset" }, "…"));
  const note = h("span", { class: "muted" });
  followFindings(app, {
    signal,
    show: ({ findings, unseen }) => {
      replace(note, countedFindings(findings));
      replace(
        box,
        findings.length ? findingList(findings, { leads: ({ account }) => account === undefined || app.account?.who.account === account }) : empty(findingText.none, findingText.looked(CHECKS.length)),
        findings.length > 0 && h("p", { class: "muted small inset" }, findingText.looked(CHECKS.length)),
        unseen > 0 && h("p", { class: "muted small inset" }, findingText.unseen(count(unseen))),
      );
    },
    failed: (error) => replace(box, failure(error)),
  });
  return card(findingText.title, { flush: true, actions: [note] }, box);
}

/** @param {Row} row */
function isSilent(row) {
  return Date.now() - row.seen > SILENT_MS;
}

/**
 * @param {(row: Row) => void} open
 * @returns {Table<Row>}
 */
function serverTable(open) {
  const { columns } = text;
  return new Table(inAddress({
    name: "servers", label: text.label, open, sorted: ["name", "up"],
    key: (row) => row.server.id,
    words: (row) => [row.server.name, row.server.cluster, row.server.ver, row.server.host].join(" "),
    json: ({ server, stats }) => ({ server, stats }),
    columns: [
      { name: "name", label: columns.name, cell: (row) => h("a", { href: to("server", [row.server.id]) }, foreign(row.server.name)), sort: (row) => row.server.name },
      { name: "state", label: columns.state, cell: (row) => (isSilent(row) ? status("bad", text.silent(duration(Math.floor((Date.now() - row.seen) / 1_000)))) : status("good", text.answers)), sort: (row) => row.seen },
      { name: "cluster", label: columns.cluster, cell: (row) => foreign(row.server.cluster), sort: (row) => row.server.cluster ?? null },
      { name: "uptime", label: columns.uptime, cell: (row) => duration(Math.floor((Date.now() - Date.parse(row.stats.start)) / 1_000)), sort: (row) => -Date.parse(row.stats.start), number: true },
      { name: "connections", label: columns.connections, cell: (row) => count(row.stats.connections), sort: (row) => row.stats.connections, number: true },
      { name: "cpu", label: columns.cpu, cell: (row) => text.percent(count(row.stats.cpu)), sort: (row) => row.stats.cpu, number: true },
      { name: "mem", label: columns.mem, cell: (row) => bytes(row.stats.mem), sort: (row) => row.stats.mem, number: true },
      { name: "from", label: columns.from, cell: (row) => rate(row.series?.last("msgs_in")), sort: (row) => row.series?.last("msgs_in"), number: true },
      { name: "to", label: columns.to, cell: (row) => rate(row.series?.last("msgs_out")), sort: (row) => row.series?.last("msgs_out"), number: true },
      { name: "storage", label: columns.storage, cell: storage, sort: (row) => row.stats.jetstream?.stats?.storage ?? null, number: true },
      { name: "slow", label: columns.slow, cell: (row) => count(row.stats.slow_consumers), sort: (row) => row.stats.slow_consumers, number: true },
    ],
    empty: () => empty(text.none, text.noneNext),
  }));
}

/** @param {number | null | undefined} value */
function rate(value) {
  return value === null || value === undefined ? "–" : text.perSecond(brief(value));
}

/** @param {Row} row */
function storage({ stats }) {
  const { config, stats: used } = stats.jetstream ?? {};
  if (!used) return h("span", { class: "muted" }, text.off);
  const most = config?.max_storage ?? 0;
  return most > 0 ? meter(used.storage, most, text.of(bytes(used.storage), bytes(most))) : bytes(used.storage);
}
