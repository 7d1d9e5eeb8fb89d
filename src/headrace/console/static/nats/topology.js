/**
 * The servers and the links between them, by ROUTEZ, GATEWAYZ, LEAFZ and VARZ of all: clusters with their servers, a
 * link for each pair that has or should have connections.
 * Never here: where they are drawn (pages/map/layout.js).
 */

import { goSeconds } from "../format.js";
import { everyServer } from "./system.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./system.js").ServerIdentity} ServerIdentity */
/** @typedef {{ in_msgs: number, out_msgs: number, in_bytes: number, out_bytes: number, rtt?: string, pending_size?: number, pending_bytes?: number }} Traffic */
/** @typedef {Traffic & { rid: number, remote_id: string, remote_name: string, did_solicit: boolean, ip: string, port: number, compression?: string }} Route */
/** @typedef {{ configured: boolean, connection: Traffic & { cid: number, name?: string, ip: string, port: number } }} Gateway */
/** @typedef {Traffic & { id: number, name: string, is_spoke: boolean, account: string, ip: string, port: number, compression?: string }} Leaf */
/**
 * @typedef {{ connections?: number, version?: string, git_commit?: string, cluster?: { name?: string, urls?: string[] }, leafnodes?: number,
 *   gateway?: { name?: string, gateways?: { name: string, urls?: string[] }[] }, leaf?: { remotes?: { local_account?: string, urls?: string[], url?: string }[] } }} Varz
 */

/**
 * What one server said of itself; a part that did not come in time is missing.
 * @typedef {object} Said
 * @property {ServerIdentity} server
 * @property {Varz} [varz]
 * @property {Route[]} routes
 * @property {{ outbound_gateways?: Record<string, Gateway> | null, inbound_gateways?: Record<string, Gateway[]> | null }} gateways
 * @property {Leaf[]} leafs
 */

/** @typedef {"up" | "broken"} LinkState */

/**
 * @typedef {object} Edge
 * @property {string} key
 * @property {"route" | "gateway" | "leaf"} kind
 * @property {string} from a server's id, or `cluster NAME`
 * @property {string} to a server's id, `cluster NAME`, `leaf NAME`
 * @property {string} fromName
 * @property {string} toName
 * @property {LinkState} state
 * @property {string} why what is broken
 * @property {number | null} rtt seconds, of the quickest connection
 * @property {number} connections
 * @property {{ key: string, counters: { msgs: number, bytes: number } }[]} parts whose differences are its rates
 * @property {number} pending bytes
 * @property {string} note
 */

/** @typedef {{ id: string, name: string, cluster: string, isAnswering: boolean, version: string, connections: number | null, jetstream: boolean }} Node */
/** @typedef {{ key: string, name: string, at: string, account: string }} LeafNode a leaf node that does not answer here itself */
/** @typedef {{ nodes: Node[], leafs: LeafNode[], edges: Edge[] }} Topology */

/**
 * Ask all servers.
 *
 * @param {Link} link
 * @param {number} expected how many are known
 * @returns {Promise<Said[]>}
 */
export async function askTopology(link, expected) {
  const waiting = { expected, quiet: 400 };
  const [varz, routez, gatewayz, leafz] = await Promise.all([
    everyServer(link, "VARZ", undefined, waiting), everyServer(link, "ROUTEZ", undefined, waiting), everyServer(link, "GATEWAYZ", undefined, waiting),
    everyServer(link, "LEAFZ", undefined, waiting),
  ]);
  /** @type {Map<string, Said>} */
  const said = new Map();
  for (const { server } of [...varz, ...routez]) if (!said.has(server.id)) said.set(server.id, { server, routes: [], gateways: {}, leafs: [] });
  /** @param {import("./system.js").FromServer<any>[]} answers @param {(one: Said, data: any) => void} take */
  const each = (answers, take) => {
    for (const { server, data } of answers) {
      const one = said.get(server.id);
      if (one && data) take(one, data);
    }
  };
  each(varz, (one, data) => { one.varz = data; });
  each(routez, (one, data) => { one.routes = data.routes ?? []; });
  each(gatewayz, (one, data) => { one.gateways = data; });
  each(leafz, (one, data) => { one.leafs = data.leafs ?? []; });
  return [...said.values()];
}

/**
 * The topology that these answers describe, in the order of names: the same answers give the same drawing.
 *
 * @param {Said[]} said
 * @param {ServerIdentity[]} [before] servers that answered some minutes ago: those that do not now are shown as silent
 * @returns {Topology}
 */
export function topologyOf(said, before = []) {
  const nodes = nodesOf(said, before);
  const known = new Map(nodes.map((node) => [node.id, node]));
  const { edges: leafEdges, leafs } = leafLinks(said, nodes);
  const edges = [...routes(said, nodes, known), ...gateways(said, known), ...leafEdges];
  return { nodes, leafs, edges: edges.sort((a, b) => a.key.localeCompare(b.key)) };
}

/**
 * @param {Said[]} said
 * @param {ServerIdentity[]} before
 * @returns {Node[]}
 */
function nodesOf(said, before) {
  /** @type {Map<string, Node>} */
  const found = new Map();
  for (const { server, varz } of said) {
    const headrace = /^headrace-(.+)$/.exec(varz?.git_commit ?? "")?.[1];
    const version = headrace ? `Headrace ${headrace}` : `nats-server ${server.ver ?? varz?.version ?? ""}`;
    found.set(server.id, {
      id: server.id, name: server.name, cluster: server.cluster ?? "", isAnswering: true, version, connections: varz?.connections ?? null, jetstream: Boolean(server.jetstream),
    });
  }
  /** @param {string} id @param {string} name @param {string | undefined} cluster */
  const silent = (id, name, cluster) => {
    if (!found.has(id)) found.set(id, { id, name, cluster: cluster ?? "", isAnswering: false, version: "", connections: null, jetstream: false });
  };
  for (const { server, routes: listed } of said) for (const route of listed) silent(route.remote_id, route.remote_name, server.cluster);
  const names = new Set(said.map(({ server }) => server.name));
  for (const server of before) if (!names.has(server.name)) silent(server.id, server.name, server.cluster); // one that was started again has another id
  return [...found.values()].sort((a, b) => a.cluster.localeCompare(b.cluster) || a.name.localeCompare(b.name) || a.id.localeCompare(b.id));
}

/**
 * A link for each two servers of a cluster; one without a connection is broken, since a cluster is a full mesh.
 *
 * @param {Said[]} said
 * @param {Node[]} nodes
 * @param {Map<string, Node>} known
 */
function routes(said, nodes, known) {
  /** @type {Map<string, Edge>} */
  const found = new Map();
  for (const { server, routes: listed } of said) {
    for (const route of listed) {
      const [a, b] = [server.id, route.remote_id].sort();
      const edge = found.get(`${a} ${b}`) ?? newEdge(`route ${a} ${b}`, "route", a, b, known.get(a)?.name ?? "", known.get(b)?.name ?? "");
      found.set(`${a} ${b}`, edge);
      addTraffic(edge, `${server.id} r${route.rid}`, route, server.id === a || !known.get(a)?.isAnswering);
    }
  }
  for (const [place, one] of nodes.entries()) {
    for (const other of nodes.slice(place + 1)) {
      const [a, b] = [one.id, other.id].sort();
      if (one.cluster !== other.cluster || !one.cluster || !one.isAnswering || !other.isAnswering || found.has(`${a} ${b}`)) continue;
      found.set(`${a} ${b}`, { ...newEdge(`route ${a} ${b}`, "route", a, b, known.get(a)?.name ?? "", known.get(b)?.name ?? ""), state: "broken", why: "noRoute" });
    }
  }
  return [...found.values()];
}

/**
 * A link for each two clusters with gateways, broken where a server has no connection that its configuration names.
 *
 * @param {Said[]} said
 * @param {Map<string, Node>} known
 */
function gateways(said, known) {
  /** @type {Map<string, Edge>} */
  const found = new Map();
  /** @param {string} one @param {string} other */
  const edgeOf = (one, other) => {
    const [a, b] = [one, other].sort();
    const edge = found.get(`${a} ${b}`) ?? newEdge(`gateway ${a} ${b}`, "gateway", `cluster ${a}`, `cluster ${b}`, a, b);
    found.set(`${a} ${b}`, edge);
    return edge;
  };
  for (const { server, varz, gateways: listed } of said) {
    const own = varz?.gateway?.name ?? known.get(server.id)?.cluster ?? "";
    for (const [name, { connection }] of Object.entries(listed.outbound_gateways ?? {})) addTraffic(edgeOf(own, name), `${server.id} g${connection.cid}`, connection, true);
    for (const { name } of varz?.gateway?.gateways ?? []) {
      if (name === own || listed.outbound_gateways?.[name]) continue;
      const edge = edgeOf(own, name);
      edge.state = "broken";
      edge.why = "noGateway";
      edge.note = server.name;
    }
  }
  return [...found.values()];
}

/**
 * Leaf nodes: those that answer here are servers with a link to their hub; the others are known by their name alone.
 *
 * @param {Said[]} said
 * @param {Node[]} nodes
 */
function leafLinks(said, nodes) {
  /** @type {Map<string, Edge>} */
  const found = new Map();
  /** @type {Map<string, LeafNode>} */
  const leafs = new Map();
  const byName = new Map(nodes.filter((node) => node.isAnswering).map((node) => [node.name, node]));
  for (const { server, leafs: listed, varz } of said) {
    for (const leaf of listed) {
      const node = byName.get(leaf.name);
      if (leaf.is_spoke && node) continue; // its hub tells of it
      const to = node?.id ?? `leaf ${server.id} ${leaf.name}`;
      if (!node) leafs.set(to, { key: to, name: leaf.name, at: server.id, account: leaf.account });
      const key = `leaf ${server.id} ${to}`;
      const edge = found.get(key) ?? newEdge(key, "leaf", server.id, to, server.name, leaf.name);
      found.set(key, edge);
      edge.note = [...new Set([...edge.note.split(", ").filter(Boolean), leaf.account])].join(", ");
      addTraffic(edge, `${server.id} l${leaf.id}`, leaf, true);
    }
    const missing = (varz?.leaf?.remotes?.length ?? 0) - listed.filter((leaf) => leaf.is_spoke).length;
    if (missing > 0) {
      const to = `leaf ${server.id} -`;
      leafs.set(to, { key: to, name: "", at: server.id, account: "" });
      found.set(to, { ...newEdge(to, "leaf", server.id, to, server.name, ""), state: "broken", why: "noHub", note: String(missing) });
    }
  }
  return { edges: [...found.values()], leafs: [...leafs.values()].sort((a, b) => a.name.localeCompare(b.name)) };
}

/**
 * @param {string} key
 * @param {Edge["kind"]} kind
 * @param {string} from
 * @param {string} to
 * @param {string} fromName
 * @param {string} toName
 * @returns {Edge}
 */
function newEdge(key, kind, from, to, fromName, toName) {
  return { key, kind, from, to, fromName, toName, state: "up", why: "", rtt: null, connections: 0, parts: [], pending: 0, note: "" };
}

/**
 * Add one connection. A connection is seen from both ends: only one of them counts, so that nothing counts twice.
 *
 * @param {Edge} edge
 * @param {string} key
 * @param {Traffic} traffic
 * @param {boolean} counts
 */
function addTraffic(edge, key, traffic, counts) {
  const rtt = goSeconds(traffic.rtt);
  if (rtt !== null && (edge.rtt === null || rtt < edge.rtt)) edge.rtt = rtt;
  if (!counts) return;
  edge.connections += 1;
  edge.pending += traffic.pending_size ?? traffic.pending_bytes ?? 0;
  edge.parts.push({ key, counters: { msgs: traffic.in_msgs + traffic.out_msgs, bytes: traffic.in_bytes + traffic.out_bytes } });
}
