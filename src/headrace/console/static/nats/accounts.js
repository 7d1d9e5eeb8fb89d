/**
 * Accounts as servers know them: names, figures, one account's exports, imports and limits, its token where a
 * resolver has it. For a user of the system account. Source: ACCOUNTZ, STATZ and claims of nats-server 2.15.1.
 */

import { NoAnswer, NoRight, NobodyThere, Refused } from "./errors.js";
import { good, jetstreamOfAll } from "./servers.js";
import { everyServer } from "./system.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./system.js").AccountStats} AccountStats */
/** @typedef {import("./servers.js").AccountDetail} AccountDetail */
/** @template T @typedef {import("./system.js").FromServer<T>} FromServer */

/**
 * @typedef {{ subject: string, name?: string, type: string, response_type?: string, token_req?: boolean, approved_accounts?: string[], revoked_act?: Record<string, string>,
 *   service_latency?: { sampling: number | string, results: string }, account_token_position?: number, advertise?: boolean }} Export
 * @typedef {{ subject: string, name?: string, account: string, to?: string, local_subject?: string, type: string, invalid?: boolean, share?: boolean, tracking?: boolean }} Import
 * @typedef {{ subject: string, weight: number, cluster?: string }} Destination
 * @typedef {{ account_name: string, name_tag?: string, update_time?: string, is_system?: boolean, expired: boolean, complete: boolean, jetstream_enabled: boolean,
 *   leafnode_connections: number, client_connections: number, subscriptions: number, exports?: Export[], imports?: Import[], mappings?: Record<string, Destination[]>,
 *   jwt?: string, issuer_key?: string, tags?: string[], decoded_jwt?: Claims, revoked_user?: Record<string, string> }} AccountInfo
 * @typedef {{ subs?: number, data?: number, payload?: number, imports?: number, exports?: number, wildcards?: boolean, conn?: number, leaf?: number,
 *   mem_storage?: number, disk_storage?: number, streams?: number, consumer?: number, max_ack_pending?: number, mem_max_stream_bytes?: number,
 *   disk_max_stream_bytes?: number, max_bytes_required?: boolean, tiered_limits?: Record<string, Tier> }} Limits
 * @typedef {{ mem_storage?: number, disk_storage?: number, streams?: number, consumer?: number, max_ack_pending?: number, mem_max_stream_bytes?: number,
 *   disk_max_stream_bytes?: number, max_bytes_required?: boolean }} Tier
 * @typedef {{ iss?: string, iat?: number, exp?: number, sub?: string, name?: string,
 *   nats?: { limits?: Limits, exports?: object[], imports?: object[], signing_keys?: (string | { key: string, role?: string })[], revocations?: Record<string, number>,
 *     description?: string, info_url?: string, tags?: string[], type?: string } }} Claims
 */

/**
 * The names of the accounts that servers have loaded, and those that only a resolver has.
 *
 * @param {Link} link
 * @param {number} [expected] servers
 * @returns {Promise<{ name: string, isLoaded: boolean, isSystem: boolean }[]>}
 */
export async function accountNames(link, expected = 0) {
  const [answers, resolver] = await Promise.all([
    everyServer(link, "ACCOUNTZ", undefined, { expected }),
    orNothing(link.askJson("$SYS.REQ.CLAIMS.LIST", undefined, { timeout: 2_000 })),
  ]);
  const found = good(/** @type {FromServer<{ system_account?: string, accounts: string[] }>[]} */ (answers));
  const system = new Set(found.map(({ data }) => data.system_account));
  const loaded = new Set(found.flatMap(({ data }) => data.accounts ?? []));
  const stored = /** @type {{ data?: string[] } | null} */ (resolver)?.data ?? [];
  return [...new Set([...loaded, ...stored])].map((name) => ({ name, isLoaded: loaded.has(name), isSystem: system.has(name) }));
}

/**
 * What accounts did, all servers together. An account that no server has is left out.
 *
 * @param {Link} link
 * @param {string[]} names
 * @returns {Promise<Map<string, AccountStats>>}
 */
export async function accountFigures(link, names) {
  /** @type {Map<string, AccountStats>} */
  const found = new Map();
  if (!names.length) return found;
  const answers = /** @type {{ data?: { account_statz?: AccountStats[] } }[]} */ (await link.askAll("$SYS.REQ.ACCOUNT.PING.STATZ", { accounts: names, include_unused: true }));
  for (const one of answers.flatMap((answer) => answer.data?.account_statz ?? [])) {
    const before = found.get(one.acc);
    found.set(one.acc, before ? sum(before, one) : one);
  }
  return found;
}

/**
 * @param {AccountStats} a
 * @param {AccountStats} b
 * @returns {AccountStats}
 */
function sum(a, b) {
  const both = (/** @type {"sent" | "received"} */ way) => ({ msgs: a[way].msgs + b[way].msgs, bytes: a[way].bytes + b[way].bytes });
  return {
    ...a, conns: a.conns + b.conns, leafnodes: a.leafnodes + b.leafnodes, total_conns: a.total_conns + b.total_conns,
    num_subscriptions: Math.max(a.num_subscriptions, b.num_subscriptions), slow_consumers: a.slow_consumers + b.slow_consumers, sent: both("sent"), received: both("received"),
  };
}

/** So many accounts with JetStream are asked for at once. */
const MOST_JETSTREAM = 1_024;

/**
 * What accounts have in JetStream, of the first `MOST_JETSTREAM`, by their names.
 *
 * In a cluster of nats-servers each server has a part of an account; limits are the same on all.
 *
 * @param {Link} link
 * @param {number} [expected]
 * @returns {Promise<Map<string, { storage: number, memory: number, most: number, mostMemory: number }>>}
 */
export async function jetstreamUse(link, expected = 0) {
  /** @type {Map<string, { storage: number, memory: number, most: number, mostMemory: number }>} */
  const found = new Map();
  for (const { data } of await jetstreamOfAll(link, { accounts: true, limit: MOST_JETSTREAM }, expected)) {
    for (const one of data?.account_details ?? []) {
      const before = found.get(one.id ?? one.name);
      found.set(one.id ?? one.name, {
        storage: one.storage + (before?.storage ?? 0), memory: one.memory + (before?.memory ?? 0), most: limit(one.reserved_storage), mostMemory: limit(one.reserved_memory),
      });
    }
  }
  return found;
}

/**
 * What is reserved for an account is its limit; all bits set: none.
 * @param {number | undefined} reserved
 */
export function limit(reserved) {
  return reserved === undefined || reserved > 2 ** 62 ? -1 : reserved;
}

/**
 * An account as the servers know it, the first that does; null where none has loaded it.
 *
 * @param {Link} link
 * @param {string} name
 * @param {number} [expected]
 * @returns {Promise<AccountInfo | null>}
 */
export async function accountDetail(link, name, expected = 0) {
  const answers = /** @type {FromServer<{ account_detail?: AccountInfo }>[]} */ (await everyServer(link, "ACCOUNTZ", { account: name }, { expected }));
  const right = answers.filter((answer) => !answer.error && answer.data?.account_detail);
  const other = answers.find((answer) => answer.error && !/does not exist|not found/i.test(answer.error.description));
  if (!right.length && other) throw new Refused(500, 0, other.error?.description ?? "");
  const whole = right.find((answer) => answer.data.account_detail?.complete) ?? right[0];
  if (!whole?.data.account_detail) return null;
  const details = right.flatMap(({ data }) => data.account_detail ?? []);
  return {
    ...whole.data.account_detail,
    client_connections: details.reduce((all, one) => all + one.client_connections, 0),
    leafnode_connections: details.reduce((all, one) => all + one.leafnode_connections, 0),
  };
}

/**
 * The claims of an account's token: as a server shows them, else as a resolver has the token; null where there is none.
 *
 * @param {Link} link
 * @param {string} name
 * @param {AccountInfo | null} detail
 * @returns {Promise<Claims | null>}
 */
export async function accountClaims(link, name, detail) {
  if (detail?.decoded_jwt) return detail.decoded_jwt;
  if (detail?.jwt) return readClaims(detail.jwt);
  if (!/^A[A-Z2-7]{55}$/.test(name)) return null; // tokens are of accounts that have a key for a name
  const answer = await orNothing(link.ask(`$SYS.REQ.ACCOUNT.${name}.CLAIMS.LOOKUP`, "", { timeout: 2_000 }));
  return answer ? readClaims(new TextDecoder().decode(answer.data)) : null;
}

/**
 * The claims of a token, which is not verified here: the server did. Null for what is none.
 * @param {string} token
 * @returns {Claims | null}
 */
export function readClaims(token) {
  const [, body = ""] = token.trim().split(".");
  try {
    const bytes = Uint8Array.from(atob(body.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes));
    return claims && typeof claims === "object" ? claims : null;
  } catch {
    return null;
  }
}

/**
 * Null where a server has no resolver, or the user no right to it.
 * @template T
 * @param {Promise<T>} answer
 * @returns {Promise<T | null>}
 */
async function orNothing(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NobodyThere || error instanceof NoAnswer || error instanceof NoRight || error instanceof Refused) return null;
    throw error;
  }
}
