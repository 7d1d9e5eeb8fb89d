/** Checks of a server as a process: its limits, clock, health, clients that are too slow or refused. Texts are in text/findings.js. */

import { bytes, count, duration } from "../../format.js";
import { to } from "../../app.js";
import { found as words } from "../../text/findings.js";

/** @typedef {import("../evidence.js").Evidence} Evidence */
/** @typedef {import("../evidence.js").ServerEvidence} ServerEvidence */
/** @typedef {import("../../nats/connections.js").Connection} Connection */
/** @typedef {import("../findings.js").Check} Check */
/** @typedef {import("../findings.js").Symptom} Symptom */

/** The share of a limit from which on it is nearly reached. */
const FULL = 0.8;
/** The share of `max_pending` from which on a client is about to be closed, and its bytes where a server's limit is not told. */
const BEHIND = 0.25;
const BEHIND_BYTES = 16 << 20;
/** A clock may differ by so much, ms. */
const CLOCK_MS = 1_000;
const LARGE_PAYLOAD = 8 << 20;
/** So many clients are named. */
const NAMED = 3;

/** @type {Check[]} */
export const serverChecks = [
  { id: "unhealthy", severity: "danger", look: unwell },
  { id: "connections-nearly-full", severity: "warning", look: manyConnections },
  { id: "clock", severity: "warning", look: wrongClock },
  { id: "slow-consumers", severity: "warning", look: slowConsumers },
  { id: "slow-client", severity: "warning", look: slowClients },
  { id: "refused-clients", severity: "hint", look: refusedClients },
  { id: "large-payloads", severity: "hint", look: largePayloads },
];

/** @param {Evidence} evidence @returns {Symptom[]} */
function unwell({ servers }) {
  return servers
    .filter(({ health }) => health && health.status !== "ok")
    .map(({ id, name, health }) => ({ place: name, words: words.unwell(health?.status ?? "", reasonOf(health)), href: to("server", [id, "health"]) }));
}

/** @param {ServerEvidence["health"]} health */
function reasonOf(health) {
  return health?.error ?? health?.errors?.map((one) => one.error).join("; ") ?? "";
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function manyConnections({ servers }) {
  return servers.flatMap(({ name, varz }) => {
    const most = varz.max_connections ?? 0;
    return most > 0 && varz.connections >= most * FULL ? [{ place: name, words: words.connections(count(varz.connections), count(most)), href: to("connections") }] : [];
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function wrongClock({ servers }) {
  return servers
    .filter(({ clockAhead, clockError }) => Math.abs(clockAhead) - clockError > CLOCK_MS)
    .map(({ id, name, clockAhead }) => {
      const by = duration(Math.round(Math.abs(clockAhead) / 1_000));
      return { place: name, words: clockAhead > 0 ? words.ahead(by) : words.behind(by), href: to("server", [id]) };
    });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function slowConsumers({ servers }) {
  return servers
    .filter(({ varz }) => (varz.slow_consumers ?? 0) > 0)
    .map(({ name, varz, closed }) => ({
      place: name, href: to("connections", [], { state: "closed" }),
      words: words.slow(count(varz.slow_consumers), most(closed.filter((one) => one.reason?.startsWith("Slow Consumer")).map(nameOf))),
    }));
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function slowClients({ servers, clients }) {
  return clients.flatMap(({ server, connection }) => {
    const found = servers.find((one) => one.name === server);
    const limit = found?.varz.max_pending ?? 0;
    const line = limit > 0 ? limit * BEHIND : BEHIND_BYTES;
    if (connection.pending_bytes < line) return [];
    return [{ place: server, words: words.waits(bytes(connection.pending_bytes), limit > 0 ? bytes(limit) : "", nameOf(connection)), href: to("connections", [], { sort: "pending" }) }];
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function refusedClients({ servers }) {
  return servers.flatMap(({ name, closed }) => {
    const refused = closed.filter((one) => one.reason?.startsWith("Authentication"));
    return refused.length ? [{ place: name, words: words.refused(count(refused.length), most(refused.map((one) => one.ip ?? "?"))), href: to("connections", [], { state: "closed" }) }] : [];
  });
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function largePayloads({ servers }) {
  return servers
    .filter(({ varz }) => (varz.max_payload ?? 0) > LARGE_PAYLOAD)
    .map(({ id, name, varz }) => ({ place: name, words: words.payload(bytes(varz.max_payload)), href: to("server", [id, "options"]) }));
}

/**
 * What a connection is known by: its name, else its user, with its address.
 * @param {Connection} connection
 */
function nameOf(connection) {
  return words.client(connection.name || connection.authorized_user || `cid ${connection.cid}`, connection.ip ?? "?");
}

/**
 * Those that come most often, with how often.
 * @param {string[]} names
 */
function most(names) {
  /** @type {Map<string, number>} */
  const times = new Map();
  for (const name of names) times.set(name, (times.get(name) ?? 0) + 1);
  return [...times].sort((a, b) => b[1] - a[1]).slice(0, NAMED).map(([name, number]) => words.times(name, number)).join(", ");
}
