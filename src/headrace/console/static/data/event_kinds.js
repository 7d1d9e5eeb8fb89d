/**
 * What an event of a server or of JetStream is: its kind, how bad it is, what it is about, and what it is grouped by.
 * Source: jetstream specification, 6; events of nats-server 2.15.1.
 * Never here: words for people (text/alerts.js), who listens (alerts.js).
 */

/** @typedef {"clients" | "delivery" | "leaders" | "limits" | "servers" | "changes" | "metrics" | "other"} Kind */
/** @typedef {import("../ui/blocks.js").Tone} Tone */

/**
 * @typedef {object} Told
 * @property {Kind} kind
 * @property {Tone} tone
 * @property {string} what a key of the texts, or the subject where it is unknown
 * @property {string[]} about a stream, a consumer of it, a client, a server
 * @property {string} reason in the server's own words
 * @property {string} [href] the page of what it is about
 */

/** @typedef {Record<string, any>} Document the JSON of an event */

/** Kinds in the order in which a person wants them. @type {Kind[]} */
export const KINDS = ["servers", "leaders", "limits", "clients", "delivery", "changes", "metrics", "other"];

/** Advisories by the beginning of what stands behind `$JS.EVENT.ADVISORY.`. @type {Record<string, [Kind, Tone]>} */
const ADVISORIES = {
  "API.LIMIT_REACHED": ["limits", "bad"],
  "CONSUMER.CREATED": ["changes", "info"],
  "CONSUMER.DELETED": ["changes", "info"],
  "CONSUMER.LEADER_ELECTED": ["leaders", "info"],
  "CONSUMER.MAX_DELIVERIES": ["delivery", "warn"],
  "CONSUMER.MSG_NAKED": ["delivery", "info"],
  "CONSUMER.MSG_TERMINATED": ["delivery", "warn"],
  "CONSUMER.PAUSE": ["changes", "info"],
  "CONSUMER.PINNED": ["changes", "info"],
  "CONSUMER.QUORUM_LOST": ["leaders", "bad"],
  "CONSUMER.UNPINNED": ["changes", "info"],
  "DOMAIN.LEADER_ELECTED": ["leaders", "info"],
  "SERVER.META_RESCUE": ["leaders", "warn"],
  "SERVER.OUT_OF_STORAGE": ["limits", "bad"],
  "SERVER.REMOVED": ["servers", "warn"],
  "STREAM.BATCH_ABANDONED": ["delivery", "warn"],
  "STREAM.CREATED": ["changes", "info"],
  "STREAM.DELETED": ["changes", "warn"],
  "STREAM.LEADER_ELECTED": ["leaders", "info"],
  "STREAM.QUORUM_LOST": ["leaders", "bad"],
  "STREAM.RESTORE_COMPLETE": ["changes", "info"],
  "STREAM.RESTORE_CREATE": ["changes", "info"],
  "STREAM.SNAPSHOT_COMPLETE": ["changes", "info"],
  "STREAM.SNAPSHOT_CREATE": ["changes", "info"],
  "STREAM.UPDATED": ["changes", "info"],
};

/** Ends of connections that somebody should know of, by the beginning of the server's reason. @type {[string, string, Kind, Tone][]} */
const ENDS = [
  ["Slow Consumer", "SLOW_CONSUMER", "clients", "bad"],
  ["Stale Connection", "STALE", "clients", "warn"],
  ["Maximum", "CLIENT_LIMIT", "limits", "warn"],
  ["Authentication Expired", "EXPIRED", "clients", "warn"],
  ["Credentials Revoked", "EXPIRED", "clients", "warn"],
  ["Protocol Violation", "PROTOCOL", "clients", "warn"],
  ["TLS Handshake", "TLS", "clients", "warn"],
  ["Kicked", "KICKED", "clients", "info"],
];

/**
 * What an event tells, or null for one that nobody has to know of: a client that came, or went by itself.
 *
 * @param {string} subject
 * @param {Document} document
 * @returns {Told | null}
 */
export function told(subject, document) {
  if (subject.startsWith("$JS.EVENT.ADVISORY.")) return ofAdvisory(subject.slice("$JS.EVENT.ADVISORY.".length), document);
  if (subject.startsWith("$JS.EVENT.METRIC.")) return ofMetric(subject.slice("$JS.EVENT.METRIC.".length), document);
  if (subject.endsWith(".CLIENT.AUTH.ERR")) return { kind: "clients", tone: "warn", what: "AUTH_ERR", about: client(document), reason: words(document.reason) };
  if (subject.endsWith(".DISCONNECT")) return ofEnd(document);
  if (subject.endsWith(".LEAFNODE.CONNECT")) return { kind: "servers", tone: "info", what: "LEAF_CONNECT", about: [name(document.server), ...client(document)].filter(Boolean), reason: "" };
  if (subject.startsWith("$SYS.SERVER.")) return ofServer(subject.split(".").slice(3).join("."), document);
  return other(subject, document);
}

/**
 * The key of the group that an event belongs to.
 * @param {Told} event
 */
export function groupOf(event) {
  return JSON.stringify([event.what, ...event.about, event.reason]);
}

/**
 * @param {string} rest
 * @param {Document} document
 * @returns {Told | null}
 */
function ofAdvisory(rest, document) {
  const tokens = rest.split(".");
  const what = tokens.slice(0, 2).join(".");
  if (what === "API") return null; // the audit of requests, which the console itself makes most of
  const known = ADVISORIES[what];
  const [stream, consumer] = [words(document.stream) || (known ? tokens[2] : ""), words(document.consumer) || (tokens[0] === "CONSUMER" ? tokens[3] : "")];
  if (!known) return other(`$JS.EVENT.ADVISORY.${rest}`, document);
  const about = stream ? [stream, consumer].filter(Boolean) : [words(document.server) || words(document.leader) || words(document.account)].filter(Boolean);
  const href = stream ? `#/streams/${encodeURIComponent(stream)}` : undefined;
  return { kind: known[0], tone: known[1], what, about: /** @type {string[]} */ (about), reason: words(document.reason), href };
}

/**
 * @param {string} rest
 * @param {Document} document
 * @returns {Told}
 */
function ofMetric(rest, document) {
  const about = [words(document.stream), words(document.consumer)].filter(Boolean);
  if (rest.startsWith("CONSUMER.ACK.")) return { kind: "metrics", tone: "info", what: "ACK_SAMPLE", about, reason: "", href: about.length ? `#/streams/${encodeURIComponent(about[0])}` : undefined };
  return other(`$JS.EVENT.METRIC.${rest}`, document, "metrics");
}

/**
 * @param {Document} document
 * @returns {Told | null}
 */
function ofEnd(document) {
  const reason = words(document.reason);
  const found = ENDS.find(([begin]) => reason.startsWith(begin));
  return found ? { kind: found[2], tone: found[3], what: found[1], about: client(document), reason } : null;
}

/**
 * @param {string} what
 * @param {Document} document
 * @returns {Told | null}
 */
function ofServer(what, document) {
  const server = name(document.server) || words(document.name);
  if (what === "SHUTDOWN") return { kind: "servers", tone: "bad", what, about: [server], reason: words(document.reason) };
  if (what === "LAMEDUCK") return { kind: "servers", tone: "warn", what, about: [server], reason: "" };
  if (what.startsWith("OCSP.")) return { kind: "clients", tone: "warn", what: "OCSP", about: [server, words(document.peer?.subject)].filter(Boolean), reason: words(document.reason) };
  return null; // statistics and the like
}

/**
 * @param {string} subject
 * @param {Document} document
 * @param {Kind} [kind]
 * @returns {Told}
 */
function other(subject, document, kind = "other") {
  return { kind, tone: "info", what: subject, about: [], reason: words(document.reason) };
}

/** @param {Document} document */
function client(document) {
  const one = document.client ?? {};
  const who = [...new Set([words(one.user), words(one.name)])].filter(Boolean).join(", ");
  const account = words(one.acc) || words(one.account);
  return [who, one.host ? words(one.host) : "", account].filter(Boolean);
}

/** @param {unknown} server */
function name(server) {
  return words(/** @type {Document | undefined} */ (server)?.name);
}

/** @param {unknown} value */
function words(value) {
  return typeof value === "string" ? value : "";
}
