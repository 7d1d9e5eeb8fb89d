/** Map: clusters, servers, and the routes, gateways and leaf nodes between them; drawn, and as a table. */

import { KEPT, SELDOM, poll } from "../data/poll.js";
import { Rates } from "../data/series.js";
import { foreign, h, replace } from "../dom/element.js";
import { useStyles } from "../dom/styles.js";
import { byteRate, bytes, count, duration, rate } from "../format.js";
import { askTopology, topologyOf } from "../nats/topology.js";
import { text } from "../text/map.js";
import { card, onCommandLine, pageHead, status } from "../ui/blocks.js";
import { empty, failure } from "../ui/empty.js";
import { Table } from "../ui/table.js";
import { inAddress } from "../ui/table_address.js";
import { distanceOf, drawing, legend } from "./map/drawing.js";

/** @typedef {import("./index.js").Place} Place */
/** @typedef {import("../nats/topology.js").Topology} Topology */
/** @typedef {import("./map/drawing.js").RatedEdge} RatedEdge */

const EVERY_MS = 5_000;
/** Of more servers the question is asked less often. */
const MANY = 50;

/** @param {Place} place */
export async function show({ host, app, signal }) {
  await useStyles("map");
  const link = /** @type {import("../nats/link.js").Link} */ (app.operator);
  const rates = new Rates();
  const sentence = h("p", { class: "sentence" });
  const box = h("div", { class: "map-box" });
  const table = new Table(inAddress(tableOptions()));
  replace(
    host,
    pageHead("Map", { sub: text.sub }),
    sentence,
    card("", { flush: true, class: "map-card" }, box, h("div", { class: "body" }, legend())),
    card(text.table, { flush: true }, table.element),
    onCommandLine("headrace server ls", "headrace server report routes", "headrace server report gateways", "headrace server report leafnodes"),
  );
  /** @type {{ topology: Topology, edges: RatedEdge[] } | null} */
  let shown = null;
  const draw = () => {
    if (shown && box.clientWidth) replace(box, drawing(shown.topology, shown.edges, box.clientWidth));
  };
  const observer = new ResizeObserver(draw);
  observer.observe(box);
  signal.addEventListener("abort", () => observer.disconnect());
  poll({
    every: (said) => ((said?.length ?? 0) > MANY ? SELDOM : EVERY_MS),
    signal,
    ask: () => askTopology(link, app.watch.servers.size),
    show: (said) => {
      const topology = topologyOf(said, app.watch.byName.map((known) => known.server));
      const edges = rated(topology, rates);
      shown = { topology, edges };
      replace(sentence, ...summary(topology));
      if (!box.contains(document.activeElement)) draw(); // who walks through it by keyboard keeps their place
      table.setRows(edges);
    },
    failed: (error) => {
      if (!shown) return replace(box, failure(error));
      return KEPT;
    },
  });
}

/**
 * @param {Topology} topology
 * @param {Rates} rates
 * @returns {RatedEdge[]}
 */
function rated(topology, rates) {
  const now = Date.now() / 1_000;
  return topology.edges.map((edge) => {
    let isKnown = edge.parts.length > 0;
    const sum = { msgs: 0, bytes: 0 };
    for (const part of edge.parts) {
      const found = rates.of(part.key, now, part.counters);
      if (!found) isKnown = false;
      else for (const name of /** @type {const} */ (["msgs", "bytes"])) sum[name] += found[name];
    }
    return { ...edge, rates: isKnown ? sum : null };
  });
}

/** @param {Topology} topology */
function summary({ nodes, edges }) {
  const silent = nodes.filter((node) => !node.isAnswering).length;
  const broken = edges.filter((edge) => edge.state === "broken").length;
  const clusters = new Set(nodes.map((node) => node.cluster).filter(Boolean)).size;
  return [status(silent ? "bad" : broken ? "warn" : "good", text.summary(nodes.length, clusters, edges.length, broken)), silent ? ` ${text.silentServers(silent)}` : ""];
}

/** @returns {import("../ui/table.js").TableOptions<RatedEdge>} */
function tableOptions() {
  const { columns } = text;
  return {
    name: "map",
    label: text.table,
    key: (edge) => edge.key,
    words: (edge) => [text.kinds[edge.kind], edge.fromName, edge.toName, edge.note, text.states[edge.state]].join(" "),
    empty: () => empty(text.alone, h("p", {}, text.aloneNext)),
    json: ({ parts: _, ...edge }) => edge,
    columns: [
      { name: "kind", label: columns.kind, cell: (edge) => text.kinds[edge.kind], sort: (edge) => text.kinds[edge.kind] },
      { name: "from", label: columns.from, cell: (edge) => foreign(edge.fromName), sort: (edge) => edge.fromName },
      { name: "to", label: columns.to, cell: (edge) => (edge.toName ? foreign(edge.toName) : h("span", { class: "muted" }, text.unreachableHub)), sort: (edge) => edge.toName },
      { name: "state", label: columns.state, cell: state, sort: (edge) => (edge.state === "broken" ? 0 : 1) },
      { name: "rtt", label: columns.rtt, number: true, cell: (edge) => duration(edge.rtt), sort: (edge) => edge.rtt },
      { name: "msgs", label: columns.msgs, number: true, cell: (edge) => rate(edge.rates?.msgs), sort: (edge) => edge.rates?.msgs },
      { name: "bytes", label: columns.bytes, number: true, cell: (edge) => byteRate(edge.rates?.bytes), sort: (edge) => edge.rates?.bytes },
      { name: "connections", label: columns.connections, number: true, hidden: true, cell: (edge) => count(edge.connections), sort: (edge) => edge.connections },
      { name: "pending", label: columns.pending, number: true, hidden: true, cell: (edge) => bytes(edge.pending), sort: (edge) => edge.pending },
      { name: "note", label: columns.note, cell: (edge) => (edge.kind === "leaf" && edge.state === "up" ? foreign(edge.note) : ""), sort: (edge) => edge.note },
    ],
  };
}

/** @param {RatedEdge} edge */
function state(edge) {
  if (edge.state === "broken") return status("bad", `${text.states.broken}: ${text.why[edge.why](edge.note)}`);
  const distance = distanceOf(edge);
  return status(distance === "distant" ? "warn" : "good", text.states.up);
}
