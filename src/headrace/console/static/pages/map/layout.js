/**
 * Where everything is drawn: a box for each cluster, its servers on a ring in it, leaf nodes in a row below. The same
 * topology and width give the same places; nothing moves by itself.
 */

/** @typedef {import("../../nats/topology.js").Topology} Topology */
/** @typedef {{ x: number, y: number }} Point */
/** @typedef {{ name: string, isKnown: boolean, x: number, y: number, width: number, height: number }} Box */
/** @typedef {{ key: string, name: string, count: number, at: string }} LeafPlace */
/** @typedef {{ width: number, height: number, boxes: Box[], places: Map<string, Point>, leafs: LeafPlace[], arches: Map<string, Arch> }} Layout `arches`: of the links that go round other boxes */
/** @typedef {{ side: "top" | "right" | "down", out: number }} Arch how far a link goes out at which side; `down`: to the next row */

const DISC = 20;
/** Room for the name below a disc. */
const STEP = 104;
const ROW = 80;
/** More servers of a cluster are in rows, and of their routes only those with something to see are drawn. */
export const MOST_ON_RING = 12;
const PADDING = 56;
const HEAD = 28;
const GAP = 96;
/** How high a link over one box goes. */
const ARCH = 26;
/** How far out the first link between rows goes. */
const ASIDE = 16;
const LEAF_STEP = 112;
const LEAF_DROP = 92;
/** So many leaf nodes of a server are drawn; the rest is one figure. */
export const MOST_LEAFS = 8;

/**
 * @param {Topology} topology
 * @param {number} width
 * @returns {Layout}
 */
export function layout(topology, width) {
  const clusters = clustersOf(topology);
  const places = /** @type {Map<string, Point>} */ (new Map());
  const leafs = leafPlaces(topology);
  const boxes = /** @type {Box[]} */ ([]);
  let [x, y, rowHeight] = [0, 0, 0];
  /** @type {Box[][]} */
  const rows = [[]];
  for (const [name, ids] of clusters) {
    const { wide, tall, at } = ids.length > MOST_ON_RING ? inRows(ids.length, width) : onRing(ids.length);
    const boxWidth = Math.max(2 * (wide + PADDING), 168);
    const below = leafs.filter((leaf) => ids.includes(leaf.at));
    const columns = Math.max(1, Math.floor(Math.max(boxWidth, Math.min(width, 480)) / LEAF_STEP));
    const lines = Math.ceil(below.length / columns);
    const leafWidth = Math.min(below.length, columns) * LEAF_STEP;
    const cell = Math.max(boxWidth, leafWidth);
    if (x > 0 && x + cell > width) {
      y += rowHeight + GAP;
      [x, rowHeight] = [0, 0];
      rows.push([]);
    }
    const box = { name, isKnown: ids.length > 0, x: x + (cell - boxWidth) / 2, y, width: boxWidth, height: ids.length ? 2 * (tall + PADDING) + HEAD : 64 };
    boxes.push(box);
    rows[rows.length - 1].push(box);
    const centre = { x: box.x + boxWidth / 2, y: y + HEAD + tall + PADDING - 10 };
    ids.forEach((id, place) => places.set(id, { x: centre.x + at(place).x, y: centre.y + at(place).y }));
    below.forEach((leaf, place) => {
      const inLine = Math.min(columns, below.length - Math.floor(place / columns) * columns);
      const left = x + (cell - inLine * LEAF_STEP) / 2;
      places.set(leaf.key, { x: left + ((place % columns) + 0.5) * LEAF_STEP, y: y + box.height + (Math.floor(place / columns) + 0.5) * LEAF_DROP });
    });
    places.set(`cluster ${name}`, { x: box.x + boxWidth / 2, y: box.y + box.height / 2 });
    rowHeight = Math.max(rowHeight, box.height + lines * LEAF_DROP);
    x += cell + GAP;
  }
  centreRows(rows, places, leafs, topology, width);
  const arched = arches(topology, rows, leafs.length > 0);
  const widest = Math.max(width, ...boxes.map((box) => box.x + box.width));
  return { width: widest, height: y + rowHeight, boxes, places, leafs, arches: arched };
}

/**
 * Clusters by name with the ids of their servers; those that are named by a gateway alone have none.
 * @param {Topology} topology
 * @returns {[string, string[]][]}
 */
function clustersOf({ nodes, edges }) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  for (const node of nodes) found.set(node.cluster, [...(found.get(node.cluster) ?? []), node.id]);
  for (const edge of edges) {
    if (edge.kind !== "gateway") continue;
    for (const name of [edge.fromName, edge.toName]) if (!found.has(name)) found.set(name, []);
  }
  return [...found];
}

/**
 * @param {Topology} topology
 * @returns {LeafPlace[]}
 */
function leafPlaces({ leafs }) {
  /** @type {Map<string, import("../../nats/topology.js").LeafNode[]>} */
  const byServer = new Map();
  for (const leaf of leafs) byServer.set(leaf.at, [...(byServer.get(leaf.at) ?? []), leaf]);
  return [...byServer].flatMap(([at, all]) => {
    const shown = all.length > MOST_LEAFS ? all.slice(0, MOST_LEAFS - 1) : all;
    const rest = all.length - shown.length;
    return [...shown.map((leaf) => ({ key: leaf.key, name: leaf.name, count: 1, at })), ...(rest ? [{ key: `leafs ${at}`, name: "", count: rest, at }] : [])];
  });
}

/**
 * Half the width and height of what servers take, and where each is from the middle.
 * @typedef {{ wide: number, tall: number, at: (place: number) => Point }} Arrangement
 */

/**
 * @param {number} servers
 * @returns {Arrangement}
 */
function onRing(servers) {
  const radius = servers < 2 ? 12 : Math.max(72, (servers * STEP) / (2 * Math.PI));
  const tall = servers === 2 ? 12 : radius; // two are side by side
  const angle = (/** @type {number} */ place) => (place / servers) * 2 * Math.PI - (servers === 2 ? Math.PI : Math.PI / 2);
  return { wide: radius, tall, at: (place) => (servers === 1 ? { x: 0, y: 0 } : { x: radius * Math.cos(angle(place)), y: radius * Math.sin(angle(place)) }) };
}

/**
 * More servers than a ring has room for are in rows.
 *
 * @param {number} servers
 * @param {number} width
 * @returns {Arrangement}
 */
function inRows(servers, width) {
  const columns = Math.max(2, Math.min(Math.ceil(Math.sqrt(servers * 1.6)), Math.floor((width - 2 * PADDING) / STEP) + 1));
  const rows = Math.ceil(servers / columns);
  const [wide, tall] = [((columns - 1) * STEP) / 2, ((rows - 1) * ROW) / 2];
  return { wide, tall, at: (place) => ({ x: (place % columns) * STEP - wide, y: Math.floor(place / columns) * ROW - tall }) };
}

/**
 * Links between boxes of a row that have another one between them go over it. Those to the next row go down; where leaf
 * nodes are in the way, and to other rows, they go round at the right.
 *
 * @param {Topology} topology
 * @param {Box[][]} rows
 * @param {boolean} hasLeafs
 */
function arches({ edges }, rows, hasLeafs) {
  /** @type {Map<string, Arch>} */
  const found = new Map();
  const placeOf = (/** @type {string} */ name) => rows.flatMap((row, line) => row.map((box, column) => ({ name: box.name, line, column }))).find((place) => place.name === name);
  let outside = 0;
  for (const edge of edges) {
    const [from, to] = [placeOf(edge.fromName), placeOf(edge.toName)];
    if (edge.kind !== "gateway" || !from || !to) continue;
    const between = Math.abs(from.column - to.column) - 1;
    if (Math.abs(from.line - to.line) === 1 && !hasLeafs) found.set(edge.key, { side: "down", out: 0 });
    else if (from.line !== to.line) found.set(edge.key, { side: "right", out: ASIDE * (outside += 1) });
    else if (between > 0) found.set(edge.key, { side: "top", out: ARCH * (between + 1) });
  }
  return found;
}

/**
 * Put each row of boxes, with what is in it, into the middle.
 *
 * @param {Box[][]} rows
 * @param {Map<string, Point>} places
 * @param {LeafPlace[]} leafs
 * @param {Topology} topology
 * @param {number} width
 */
function centreRows(rows, places, leafs, { nodes }, width) {
  for (const row of rows) {
    if (!row.length) continue;
    const left = Math.min(...row.map((box) => box.x));
    const right = Math.max(...row.map((box) => box.x + box.width));
    const shift = Math.max(0, (width - (right - left)) / 2 - left);
    for (const box of row) {
      box.x += shift;
      const ids = nodes.filter((node) => node.cluster === box.name).map((node) => node.id);
      for (const key of [...ids, `cluster ${box.name}`, ...leafs.filter((leaf) => ids.includes(leaf.at)).map((leaf) => leaf.key)]) {
        const point = places.get(key);
        if (point) point.x += shift;
      }
    }
  }
}

/**
 * The line between two places, without the parts in the discs or boxes at its ends.
 *
 * @param {Point} from
 * @param {Point} to
 * @param {Box} [fromBox]
 * @param {Box} [toBox]
 * @returns {[Point, Point]}
 */
export function lineBetween(from, to, fromBox, toBox) {
  return [fromBox ? boxEdge(from, to, fromBox) : discEdge(from, to), toBox ? boxEdge(to, from, toBox) : discEdge(to, from)];
}

/**
 * @param {Point} from
 * @param {Point} to
 */
function discEdge(from, to) {
  const far = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: from.x + ((to.x - from.x) / far) * DISC, y: from.y + ((to.y - from.y) / far) * DISC };
}

/**
 * @param {Point} from
 * @param {Point} to
 * @param {Box} box
 */
function boxEdge(from, to, box) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const share = Math.min(dx ? box.width / 2 / Math.abs(dx) : Infinity, dy ? box.height / 2 / Math.abs(dy) : Infinity, 1);
  return { x: from.x + dx * share, y: from.y + dy * share };
}

export const DISC_RADIUS = DISC;
