/** The services page: all services of the account, `#/services`, and one of them, `#/services/NAME`. */

import { to } from "../app.js";
import { OFTEN, SELDOM, poll } from "../data/poll.js";
import { Rates } from "../data/series.js";
import { foreign, h, replace } from "../dom/element.js";
import { brief, count, duration, rate } from "../format.js";
import { serviceInfos, serviceStats } from "../nats/services.js";
import { text } from "../text/services.js";
import { card, commandLine, onCommandLine, pageHead, status } from "../ui/blocks.js";
import { empty, failure } from "../ui/empty.js";
import { Table } from "../ui/table.js";
import { inAddress } from "../ui/table_address.js";
import { ServicePage } from "./services/service.js";
import { told } from "./services/notes.js";
import { mean, services } from "./services/summary.js";

/** @typedef {import("./index.js").Place} Place */
/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {import("./services/summary.js").Service} Service */
/** @typedef {Service & { speed: number | null }} Row */

/** With more instances than this all are asked less often: each of them answers. */
const MANY = 200;

/** @param {Place} place */
export function show(place) {
  const link = /** @type {Link} */ (place.app.account);
  if (place.path[0] !== undefined) new ServicePage(place, link, place.path[0]);
  else showAll(place, link);
}

/**
 * @param {Place} place
 * @param {Link} link
 */
function showAll({ host, signal, go }, link) {
  const rates = new Rates();
  const notes = h("div", { class: "stack" });
  const body = h("div");
  const table = new Table(inAddress({
    name: "services",
    label: text.tableLabel,
    columns: COLUMNS,
    key: (/** @type {Row} */ row) => row.name,
    words: (row) => `${row.name} ${row.description}`,
    sorted: ["name", "up"],
    open: (row) => go(to("services", [row.name])),
  }));
  replace(host, pageHead(text.title, { sub: text.sub }), notes, body, onCommandLine("headrace micro ls", "headrace micro ping"));
  const list = card("", { flush: true }, table.element);
  poll({
    signal,
    every: (answer) => (answer && answer.infos.found.length > MANY ? SELDOM : OFTEN),
    ask: async () => ({ infos: await serviceInfos(link), stats: await serviceStats(link) }),
    show: ({ infos, stats }) => {
      const rows = services(infos.found, stats.found).map((service) => ({ ...service, speed: rates.of(service.name, Date.now() / 1_000, { requests: service.requests })?.requests ?? null }));
      replace(notes, told(infos.strange + stats.strange, infos.found.length));
      if (!rows.length) return replace(body, card("", {}, empty(text.none, h("p", {}, text.noneNext), commandLine(text.example))));
      if (list.parentElement !== body) replace(body, list);
      table.setRows(rows);
      return undefined;
    },
    failed: (error) => replace(body, card("", {}, failure(error))),
  });
}

/** @type {import("../ui/table.js").Column<Row>[]} */
const COLUMNS = [
  { name: "name", label: text.columns.name, sort: (row) => row.name, cell: (row) => h("a", { href: to("services", [row.name]) }, foreign(row.name)) },
  { name: "version", label: text.columns.version, sort: (row) => row.versions[0], cell: (row) => foreign(row.versions.join(", ")) },
  { name: "instances", label: text.columns.instances, number: true, sort: (row) => row.instances, cell: (row) => count(row.instances) },
  { name: "endpoints", label: text.columns.endpoints, number: true, sort: (row) => row.endpoints, cell: (row) => count(row.endpoints) },
  { name: "requests", label: text.columns.requests, number: true, sort: (row) => row.requests, cell: (row) => brief(row.requests) },
  { name: "rate", label: text.columns.rate, number: true, sort: (row) => row.speed, cell: (row) => rate(row.speed) },
  { name: "errors", label: text.columns.errors, number: true, sort: (row) => row.errors, cell: (row) => (row.errors ? status("bad", brief(row.errors)) : "0") },
  { name: "mean", label: text.columns.mean, number: true, hint: text.meanHint, sort: mean, cell: (row) => duration(mean(row)) },
  { name: "description", label: text.columns.description, sort: (row) => row.description, cell: (row) => foreign(row.description, "muted") },
];
