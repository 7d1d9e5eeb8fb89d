/** The map as SVG: boxes, discs and lines, each with its words. The table beside it says the same to everybody. */

import { h, svg, visible } from "../../dom/element.js";
import { byteRate, compact, duration, rate } from "../../format.js";
import { text } from "../../text/map.js";
import { to } from "../../app.js";
import { DISC_RADIUS, MOST_ON_RING, layout, lineBetween } from "./layout.js";

/** @typedef {import("../../nats/topology.js").Topology} Topology */
/** @typedef {import("../../nats/topology.js").Edge} Edge */
/** @typedef {import("../../nats/topology.js").Node} Node */
/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Point} Point */
/** @typedef {Edge & { rates: { msgs: number, bytes: number } | null }} RatedEdge */
/** @typedef {"near" | "far" | "distant" | "broken" | "unknown"} Distance */

const MARGIN = 16;
/** Room for links that go round at the right. */
const SIDE = 32;
const NAME = 16;
/** The width of a letter, about. */
const LETTER = 6.6;
/** The width of what a link at the right may say. */
const SIDE_WORDS = 48;
const DOWN_WORDS = 160;
/** In clusters of more servers the words of routes would lie on each other: they are in the table, and where one hovers. */
const MOST_WITH_WORDS = 4;
/** Round trips in seconds from which a link is far, and distant. */
const FAR = 0.005;
const DISTANT = 0.05;

/**
 * @param {Topology} topology
 * @param {RatedEdge[]} edges
 * @param {number} width
 */
export function drawing(topology, edges, width) {
  const plan = layout(topology, Math.max(296, width - 2 * MARGIN - SIDE));
  const boxes = new Map(plan.boxes.map((box) => [`cluster ${box.name}`, box]));
  const [above, right] = /** @type {const} */ (["top", "right"]).map((side) => MARGIN + Math.max(0, ...[...plan.arches.values()].map((arch) => (arch.side === side ? arch.out : 0))));
  const [allWidth, allHeight] = [plan.width + MARGIN + right, plan.height + above + MARGIN];
  const shownLeafs = new Set(plan.leafs.map((leaf) => leaf.key));
  const drawn = edges.filter((edge) => plan.places.has(edge.from) && plan.places.has(edge.to) && isDrawn(edge, topology));
  return svg(
    "svg",
    { class: "map", viewBox: `${-MARGIN} ${-above} ${allWidth} ${allHeight}`, width: allWidth, height: allHeight, role: "group", "aria-label": text.drawing(topology.nodes.length, edges.length) },
    plan.boxes.map(clusterBox),
    drawn.map((edge) => line(edge, plan, boxes, hasWords(edge, topology))),
    plan.leafs.filter((leaf) => leaf.count > 1).map((leaf) => restLine(leaf, plan)),
    topology.nodes.map((node) => disc(node, /** @type {Point} */ (plan.places.get(node.id)))),
    plan.leafs.filter((leaf) => shownLeafs.has(leaf.key)).map((leaf) => leafShape(leaf, /** @type {Point} */ (plan.places.get(leaf.key)))),
  );
}

/**
 * False for a route between servers of a large cluster that is as it should be: a mesh has too many.
 *
 * @param {Edge} edge
 * @param {Topology} topology
 */
function isDrawn(edge, topology) {
  return edge.kind !== "route" || ["broken", "distant"].includes(distanceOf(edge)) || serversAround(edge, topology) <= MOST_ON_RING;
}

/**
 * @param {Edge} edge
 * @param {Topology} topology
 */
function hasWords(edge, topology) {
  return edge.kind !== "route" || edge.state === "broken" || serversAround(edge, topology) <= MOST_WITH_WORDS;
}

/**
 * @param {Edge} route
 * @param {Topology} topology
 */
function serversAround(route, { nodes }) {
  const cluster = nodes.find((node) => node.id === route.from)?.cluster;
  return nodes.filter((node) => node.cluster === cluster).length;
}

/** @param {import("./layout.js").Box} box */
function clusterBox(box) {
  return svg(
    "g",
    { class: `map-cluster ${box.isKnown ? "" : "is-silent"}` },
    svg("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 10 }),
    svg("text", { x: box.x + 14, y: box.y + 22 }, short(box.name || text.noCluster, Math.floor(box.width / 8) - 3), svg("title", {}, visible(box.name || text.noCluster))),
    !box.isKnown && svg("text", { x: box.x + 14, y: box.y + 44, class: "map-small" }, text.noServerAnswers),
  );
}

/**
 * @param {RatedEdge} edge
 * @param {Layout} plan
 * @param {Map<string, import("./layout.js").Box>} boxes
 * @param {boolean} isTold
 */
function line(edge, plan, boxes, isTold) {
  const arch = plan.arches.get(edge.key);
  const [fromBox, toBox] = [boxes.get(edge.from), boxes.get(edge.to)];
  const { path: d, label, room } = arch && fromBox && toBox ? round(fromBox, toBox, arch) : straight(/** @type {Point} */ (plan.places.get(edge.from)), /** @type {Point} */ (plan.places.get(edge.to)), fromBox, toBox);
  const path = svg("path", { d });
  path.style.setProperty("stroke-width", `${widthOf(edge)}`);
  const words = isTold && lineWords(edge).find((one) => one.length * LETTER < room);
  return svg("g", { class: `map-line ${distanceOf(edge)}` }, svg("title", {}, edgeWords(edge)), path, words && svg("text", { ...label, "text-anchor": "middle" }, words));
}

/**
 * What a line says, from the most to the least that has to fit.
 * @param {RatedEdge} edge
 */
function lineWords(edge) {
  if (edge.state === "broken") return [text.states.broken];
  const far = edge.rtt === null ? "" : duration(edge.rtt);
  const much = edge.rates?.msgs ? rate(edge.rates.msgs) : "";
  return [[far, much].filter(Boolean).join(" · "), far || much].filter(Boolean);
}

/**
 * @param {Point} from
 * @param {Point} to
 * @param {import("./layout.js").Box | undefined} fromBox
 * @param {import("./layout.js").Box | undefined} toBox
 */
function straight(from, to, fromBox, toBox) {
  const [a, b] = lineBetween(from, to, fromBox, toBox);
  return { path: `M${at(a)}L${at(b)}`, label: { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 - 7 }, room: Math.hypot(b.x - a.x, b.y - a.y) };
}

/**
 * A way from a box to another round those between them: over their tops, down to the next row, or at their right.
 *
 * @param {import("./layout.js").Box} one
 * @param {import("./layout.js").Box} other
 * @param {import("./layout.js").Arch} arch
 */
function round(one, other, arch) {
  if (arch.side === "top") {
    const [a, b] = [one, other].map((box) => ({ x: box.x + box.width / 2, y: box.y }));
    const middle = { x: (a.x + b.x) / 2, y: Math.min(a.y, b.y) - arch.out };
    const corners = [a, b].map((end) => at({ x: end.x, y: middle.y }));
    return { path: `M${at(a)}C${corners[0]} ${corners[0]} ${at(middle)}S${corners[1]} ${at(b)}`, label: { x: middle.x, y: middle.y - 6 }, room: Math.abs(a.x - b.x) };
  }
  if (arch.side === "down") {
    const [upper, lower] = one.y < other.y ? [one, other] : [other, one];
    const [a, b] = [{ x: upper.x + upper.width / 2, y: upper.y + upper.height }, { x: lower.x + lower.width / 2, y: lower.y }];
    const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    return { path: `M${at(a)}C${at({ x: a.x, y: middle.y })} ${at({ x: b.x, y: middle.y })} ${at(b)}`, label: middle, room: DOWN_WORDS };
  }
  const [a, b] = [one, other].map((box) => ({ x: box.x + box.width, y: box.y + box.height / 2 }));
  const middle = { x: Math.max(a.x, b.x) + arch.out, y: (a.y + b.y) / 2 };
  const corners = [a, b].map((end) => at({ x: middle.x, y: end.y }));
  return { path: `M${at(a)}C${corners[0]} ${corners[0]} ${at(middle)}S${corners[1]} ${at(b)}`, label: { x: middle.x - 20, y: middle.y }, room: SIDE_WORDS };
}

/** @param {Point} point */
function at(point) {
  return `${point.x.toFixed(1)},${point.y.toFixed(1)}`;
}

/**
 * @param {import("./layout.js").LeafPlace} leaf
 * @param {Layout} plan
 */
function restLine(leaf, plan) {
  const [a, b] = lineBetween(/** @type {Point} */ (plan.places.get(leaf.at)), /** @type {Point} */ (plan.places.get(leaf.key)));
  return svg("g", { class: "map-line unknown" }, svg("path", { d: `M${at(a)}L${at(b)}`, "stroke-width": 1 }));
}

/**
 * @param {Node} node
 * @param {Point} point
 */
function disc(node, point) {
  const words = node.isAnswering ? [node.name, node.version, node.connections === null ? "" : text.clients(node.connections)].filter(Boolean).join(" · ") : text.silent(node.name);
  const figure = svg(
    "g",
    { class: `map-server ${node.isAnswering ? "" : "is-silent"}`, transform: `translate(${point.x.toFixed(1)},${point.y.toFixed(1)})` },
    svg("circle", { r: DISC_RADIUS }),
    node.isAnswering && svg("text", { y: 5, "text-anchor": "middle", class: "map-count", "aria-hidden": "true" }, node.connections === null ? "?" : compact(node.connections)),
    !node.isAnswering && svg("text", { y: 5, "text-anchor": "middle", class: "map-count", "aria-hidden": "true" }, "?"),
    svg("text", { y: DISC_RADIUS + NAME, "text-anchor": "middle", "aria-hidden": "true" }, short(node.name, 15)),
  );
  return svg("a", { href: to("server", [node.id]) }, svg("title", {}, visible(words)), figure);
}

/**
 * @param {import("./layout.js").LeafPlace} leaf
 * @param {Point} point
 */
function leafShape(leaf, point) {
  const name = leaf.count > 1 ? text.moreLeafs(leaf.count) : leaf.name || text.unreachableHub;
  return svg(
    "g",
    { class: `map-leaf ${leaf.name || leaf.count > 1 ? "" : "is-silent"}`, transform: `translate(${point.x.toFixed(1)},${point.y.toFixed(1)})` },
    svg("title", {}, visible(name)),
    svg("rect", { x: -15, y: -15, width: 30, height: 30, rx: 8, transform: "rotate(45)" }),
    svg("text", { y: 36, "text-anchor": "middle" }, short(name, 15)),
  );
}

/** @param {Edge} edge @returns {Distance} */
export function distanceOf(edge) {
  if (edge.state === "broken") return "broken";
  if (edge.rtt === null) return "unknown";
  return edge.rtt < FAR ? "near" : edge.rtt < DISTANT ? "far" : "distant";
}

/** @param {RatedEdge} edge */
function widthOf(edge) {
  return edge.rates ? 1.5 + Math.min(4.5, Math.log10(1 + edge.rates.msgs)) : 1.5;
}

/** @param {RatedEdge} edge */
function edgeWords(edge) {
  const state = edge.state === "broken" ? `${text.states.broken}: ${text.why[edge.why](edge.note)}` : text.distance[distanceOf(edge)];
  const rates = edge.rates ? `${rate(edge.rates.msgs)}, ${byteRate(edge.rates.bytes)}` : "";
  return visible([`${text.kinds[edge.kind]} ${edge.fromName} – ${edge.toName || text.unreachableHub}`, state, edge.rtt === null ? "" : `RTT ${duration(edge.rtt)}`, rates].filter(Boolean).join(" · "));
}

/**
 * @param {string} name
 * @param {number} most
 */
function short(name, most) {
  const shown = [...visible(name)];
  return shown.length > most ? `${shown.slice(0, Math.max(1, most - 1)).join("")}…` : shown.join("");
}

/** What lines and shapes mean, in words. */
export function legend() {
  const sample = (/** @type {string} */ name, /** @type {string} */ words) =>
    h("li", {}, svg("svg", { class: "map", viewBox: "0 0 36 10", width: 36, height: 10, "aria-hidden": "true" }, svg("g", { class: `map-line ${name}` }, svg("path", { d: "M2,5L34,5", "stroke-width": 2.5 }))), words);
  return h(
    "ul",
    { class: "map-legend" },
    /** @type {const} */ (["near", "far", "distant", "broken"]).map((name) => sample(name, name === "broken" ? text.states.broken : text.distance[name])),
    h("li", { class: "muted" }, text.legend),
  );
}
