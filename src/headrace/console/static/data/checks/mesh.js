/** Checks of servers together: how many there are, who sees whom, their versions. Texts are in text/findings.js. */

import { to } from "../../app.js";
import { product } from "../../nats/servers.js";
import { found as words } from "../../text/findings.js";

/** @typedef {import("../evidence.js").Evidence} Evidence */
/** @typedef {import("../evidence.js").ServerEvidence} ServerEvidence */
/** @typedef {import("../findings.js").Check} Check */
/** @typedef {import("../findings.js").Symptom} Symptom */

/** @type {Check[]} */
export const meshChecks = [
  { id: "mesh-incomplete", severity: "danger", look: incomplete },
  { id: "silent-server", severity: "danger", look: silent },
  { id: "cluster-of-two", severity: "warning", look: pairs },
  { id: "versions", severity: "warning", look: versions },
  { id: "nameless-server", severity: "hint", look: nameless },
];

/** @param {ServerEvidence} server */
const peers = (server) => new Set((server.routes?.routes ?? []).map((route) => route.remote_id));
/** @param {ServerEvidence} server */
const clusterOf = (server) => server.varz.cluster?.name ?? "";

/** @param {Evidence} evidence @returns {Symptom[]} */
function incomplete({ servers }) {
  return servers.flatMap((server) => {
    const seen = peers(server);
    const missing = servers.filter((other) => other.id !== server.id && clusterOf(other) && clusterOf(other) === clusterOf(server) && server.routes && !seen.has(other.id));
    return missing.length ? [{ place: server.name, words: words.noRoute(missing.map((other) => other.name).join(", ")), href: to("map") }] : [];
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function silent({ servers }) {
  const here = new Set(servers.map((server) => server.id));
  return servers.flatMap((server) => {
    const names = new Set((server.routes?.routes ?? []).filter((route) => route.remote_id && !here.has(route.remote_id)).map((route) => route.remote_name || route.remote_id));
    return names.size ? [{ place: server.name, words: words.silent([...names].join(", ")), href: to("map") }] : [];
  });
}

/**
 * Clusters of two nats-servers with JetStream. Headrace has no votes: each stream is on one server, or in a bucket.
 * @param {Evidence} evidence
 * @returns {Symptom[]}
 */
function pairs({ servers }) {
  /** @type {Set<string>} */
  const told = new Set();
  return servers.flatMap((server) => {
    const members = [server.id, ...peers(server)].sort().join(" ");
    if (server.isHeadrace || !server.varz.jetstream?.config || peers(server).size !== 1 || told.has(members)) return [];
    told.add(members);
    return [{ place: server.name, words: words.pair(clusterOf(server)), href: to("map") }];
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function versions({ servers }) {
  /** @type {Map<string, string[]>} */
  const names = new Map();
  for (const { name, varz } of servers) names.set(product(varz), [...(names.get(product(varz)) ?? []), name]);
  if (names.size < 2) return [];
  return [...names].sort().map(([version, those]) => ({ place: version, words: words.servers(those.sort().join(", ")), href: to("map") }));
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function nameless({ servers }) {
  return servers.filter((server) => clusterOf(server) && server.varz.server_name === server.id).map(({ id, name }) => ({ place: name, words: words.nameless, href: to("server", [id]) }));
}
