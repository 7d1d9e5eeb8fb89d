/** Checks of who gets in: authentication, TLS, certificates. Texts are in text/findings.js. */

import { duration, time } from "../../format.js";
import { to } from "../../app.js";
import { found as words } from "../../text/findings.js";

/** @typedef {import("../evidence.js").Evidence} Evidence */
/** @typedef {import("../findings.js").Check} Check */
/** @typedef {import("../findings.js").Symptom} Symptom */

/** A certificate ends soon where it has no more than this, ms. */
const SOON_MS = 30 * 86_400_000;
const BLOCKS = ["cluster", "gateway", "leaf", "websocket", "mqtt"];

/** @type {Check[]} */
export const accessChecks = [
  { id: "no-authentication", severity: "danger", look: noAuthentication },
  { id: "certificate-ended", severity: "danger", look: (evidence) => certificates(evidence, (left) => left <= 0) },
  { id: "no-tls", severity: "warning", look: noTls },
  { id: "certificate-ends-soon", severity: "warning", look: (evidence) => certificates(evidence, (left) => left > 0 && left <= SOON_MS) },
];

/**
 * True if other machines may reach a port at an address: it is not one of its own machine only.
 * @param {string | undefined} host
 */
export function isPublic(host) {
  if (!host) return true;
  const name = host.replace(/^\[|\]$/g, "").toLowerCase().replace(/\.$/, "");
  return !(/^127(\.\d+){3}$/.test(name) || name === "::1" || name === "localhost");
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function noAuthentication({ servers }) {
  return servers
    .filter(({ varz }) => isPublic(varz.host) && !varz.auth_required && !varz.tls_verify)
    .map(({ id, name, varz }) => ({ place: name, words: words.open(`${varz.host}:${varz.port}`), href: to("server", [id]) }));
}

/** @param {Evidence} evidence @returns {Symptom[]} */
function noTls({ servers }) {
  return servers
    .filter(({ varz }) => isPublic(varz.host) && varz.auth_required && !varz.tls_required)
    .map(({ id, name, varz }) => ({ place: name, words: words.plain(`${varz.host}:${varz.port}`), href: to("server", [id]) }));
}

/**
 * @param {Evidence} evidence
 * @param {(left: number) => boolean} isMeant left: ms
 * @returns {Symptom[]}
 */
function certificates({ now, servers }, isMeant) {
  return servers.flatMap((server) =>
    ["", ...BLOCKS].flatMap((block) => {
      const told = /** @type {{ tls_cert_not_after?: string } | undefined} */ (block ? server.varz[block] : server.varz)?.tls_cert_not_after;
      if (!told || told.startsWith("0001-")) return [];
      const left = Date.parse(told) - now;
      if (Number.isNaN(left) || !isMeant(left)) return [];
      const what = words.listeners[block];
      return [{ place: server.name, href: to("server", [server.id]), words: left <= 0 ? words.ended(what, time(told)) : words.ends(what, duration(left / 1_000), time(told)) }];
    }),
  );
}
