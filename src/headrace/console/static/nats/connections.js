/**
 * Connections of all servers, or of the account of a login, a page at a time in the servers' own order; one with its
 * subscriptions; and what an operator does to them. Source: CONNZ of nats-server 2.15.1.
 */

import { everyServer, oneServer } from "./system.js";
import { good } from "./servers.js";
import { noted } from "./own_actions.js";

/** @typedef {import("./link.js").Link} Link */
/** @template T @typedef {import("./system.js").FromServer<T>} FromServer */

/**
 * @typedef {{ subject: string, qgroup?: string, sid: string, msgs: number, max?: number, account?: string }} Subscription
 * @typedef {{ cid: number, kind?: string, type?: string, ip?: string, port?: number, start: string, last_activity?: string, stop?: string, reason?: string,
 *   rtt?: string, uptime?: string, idle?: string, pending_bytes: number, in_msgs: number, out_msgs: number, in_bytes: number, out_bytes: number,
 *   subscriptions: number, name?: string, lang?: string, version?: string, tls_version?: string, tls_cipher_suite?: string,
 *   tls_peer_certs?: { subject?: string, subject_pk_sha256?: string, cert_sha256?: string }[], tls_first?: boolean, authorized_user?: string, account?: string,
 *   name_tag?: string, issuer_key?: string, jwt?: string, tags?: string[], mqtt_client?: string, stalls?: number, nkey?: string, proxy?: { key?: string },
 *   subscriptions_list_detail?: Subscription[] }} Connection
 * @typedef {{ server_id: string, now: string, num_connections: number, total: number, offset: number, limit: number, connections: Connection[] | null }} Connz
 * @typedef {{ sort?: string, state?: 0 | 1 | 2, acc?: string, user?: string, filter_subject?: string, auth?: boolean, offset?: number, limit?: number,
 *   cid?: number, subscriptions_detail?: boolean }} ConnzOptions state: open, closed, all
 * @typedef {Connection & { server: import("./system.js").ServerIdentity, now: string }} Client a connection and its server
 */

/** So many connections come at once. */
export const PAGE = 256;
/** At most so many are closed or warned at once. */
export const MOST_AT_ONCE = 100;

/** How a page is put together: the place at each server that it begins at, by the server's id. @typedef {Record<string, number>} Offsets */

/**
 * One page of the connections of all servers: those that come first in the order, and where the next page begins.
 *
 * Each server gives its next ones in the order; of these the first `PAGE` of all are the page. A connection that
 * comes or goes meanwhile may be seen twice, or be passed over, as in any list by pages.
 *
 * @param {Link} link
 * @param {ConnzOptions} options
 * @param {{ offsets?: Offsets, compare: (a: Client, b: Client) => number, expected?: number }} place
 * @returns {Promise<{ clients: Client[], total: number, servers: number, next: Offsets | null }>}
 */
export async function clientsOfAll(link, options, { offsets, compare, expected = 0 }) {
  const asked = { auth: true, limit: PAGE, ...options };
  const answers = /** @type {FromServer<Connz>[]} */ (
    offsets
      ? await Promise.all(Object.entries(offsets).map(([id, offset]) => oneServer(link, id, "CONNZ", { ...asked, offset })))
      : await everyServer(link, "CONNZ", asked, { expected, quiet: 400 })
  );
  return merged(good(answers), compare);
}

/**
 * The same of the account of a login, which needs no right of an operator.
 *
 * @param {Link} link
 * @param {ConnzOptions} options
 * @param {{ offset?: number, compare: (a: Client, b: Client) => number }} place
 * @returns {Promise<{ clients: Client[], total: number, servers: number, next: Offsets | null }>}
 */
export async function clientsOfAccount(link, options, { offset = 0, compare }) {
  const asked = { auth: true, limit: PAGE, ...options, offset };
  const answers = /** @type {FromServer<Connz>[]} */ (await link.askAll("$SYS.REQ.ACCOUNT.PING.CONNZ", asked, { quiet: 400 }));
  const right = good(answers);
  const clients = right.flatMap(clientsIn).sort(compare);
  const isMore = right.some(({ data }) => data.offset + data.num_connections < data.total);
  return { clients, total: sum(right), servers: right.length, next: isMore ? { "": offset + PAGE } : null };
}

/**
 * @param {FromServer<Connz>[]} answers
 * @param {(a: Client, b: Client) => number} compare
 */
function merged(answers, compare) {
  const clients = answers.flatMap(clientsIn).sort(compare).slice(0, PAGE);
  /** @type {Offsets} */
  const next = {};
  let isMore = false;
  for (const { server, data } of answers) {
    const taken = clients.filter((client) => client.server.id === server.id).length;
    next[server.id] = data.offset + taken;
    if (data.offset + taken < data.total) isMore = true;
  }
  return { clients, total: sum(answers), servers: answers.length, next: isMore ? next : null };
}

/** @param {FromServer<Connz>[]} answers */
function sum(answers) {
  return answers.reduce((total, { data }) => total + data.total, 0);
}

/** @param {FromServer<Connz>} answer @returns {Client[]} */
function clientsIn({ server, data }) {
  return (data.connections ?? []).map((connection) => ({ ...connection, server, now: data.now }));
}

/**
 * One connection with its subscriptions, open or closed; null where its server has it no more.
 *
 * @param {Link} link
 * @param {string} server
 * @param {number} cid
 * @returns {Promise<Client | null>}
 */
export async function oneClient(link, server, cid) {
  const asked = { cid, auth: true, subscriptions_detail: true, state: 2 };
  if (link.role === "operator") return clientsIn(await oneServer(link, server, "CONNZ", asked))[0] ?? null;
  const answers = /** @type {FromServer<Connz>[]} */ (await link.askAll("$SYS.REQ.ACCOUNT.PING.CONNZ", asked, { quiet: 300 }));
  return good(answers).filter((answer) => answer.server.id === server).flatMap(clientsIn)[0] ?? null;
}

/**
 * Close a connection. Raises: Refused where it is gone already.
 * @param {Link} link
 * @param {string} server
 * @param {number} cid
 */
export async function kick(link, server, cid) {
  await noted(link, "kick", [server, String(cid)], oneServer(link, server, "KICK", { cid }));
}

/**
 * Tell a client that its server will stop, so that it goes to another one by itself. Raises: Refused where it is gone,
 * or its program does not know the message.
 *
 * @param {Link} link
 * @param {string} server
 * @param {number} cid
 */
export async function lameDuck(link, server, cid) {
  await noted(link, "lameDuck", [server, String(cid)], oneServer(link, server, "LDM", { cid }));
}
