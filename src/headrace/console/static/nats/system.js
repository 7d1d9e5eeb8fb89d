/**
 * Questions to the system account, of an operator's login, and those about an account's own servers and connections.
 * Every answer of a server is `{ server, data }`. Source: client specification; answers of nats-server 2.15.1.
 */

/** @typedef {import("./link.js").Link} Link */
/** @typedef {{ id: string, name: string, host?: string, cluster?: string, domain?: string, ver?: string, jetstream?: boolean, time?: string, seq?: number }} ServerIdentity */
/** @template T @typedef {{ server: ServerIdentity, data: T, error?: { description: string } }} FromServer */

const ALL = "$SYS.REQ.SERVER.PING";

/**
 * Ask every server; each answers for itself.
 *
 * @template T
 * @param {Link} link
 * @param {string} kind VARZ, CONNZ, ROUTEZ, ...
 * @param {object} [options]
 * @param {{ expected?: number, timeout?: number, quiet?: number }} [waiting]
 * @returns {Promise<FromServer<T>[]>}
 */
export function everyServer(link, kind, options, waiting = {}) {
  return link.askAll(`${ALL}.${kind}`, options, waiting);
}

/**
 * Ask one server by its id.
 *
 * @template T
 * @param {Link} link
 * @param {string} server
 * @param {string} kind
 * @param {object} [options]
 * @param {import("./link.js").AskOptions} [waiting]
 * @returns {Promise<FromServer<T>>}
 */
export function oneServer(link, server, kind, options, waiting) {
  return link.askJson(`$SYS.REQ.SERVER.${server}.${kind}`, options, waiting);
}

/**
 * @typedef {{ start: string, mem: number, cores: number, cpu: number, connections: number, total_connections: number,
 *   active_accounts: number, subscriptions: number, sent: { msgs: number, bytes: number },
 *   received: { msgs: number, bytes: number }, slow_consumers: number, stale_connections?: number,
 *   routes?: object[], gateways?: object[], active_servers?: number,
 *   jetstream?: { config?: { max_memory?: number, max_storage?: number }, stats?: { memory: number, storage: number, api?: object } } }} ServerStats
 */

/**
 * @typedef {{ acc: string, name?: string, conns: number, leafnodes: number, total_conns: number, num_subscriptions: number,
 *   sent: { msgs: number, bytes: number }, received: { msgs: number, bytes: number }, slow_consumers: number }} AccountStats
 */

/**
 * The statistics of all servers.
 * @param {Link} link
 * @param {number} [expected]
 * @returns {Promise<{ server: ServerIdentity, statsz: ServerStats }[]>}
 */
export function serverStatistics(link, expected = 0) {
  return link.askAll(`${ALL}.STATSZ`, undefined, { expected, quiet: 250 });
}

/**
 * The statistics of the account of this login, from each server that has it.
 * @param {Link} link
 * @returns {Promise<AccountStats[]>}
 */
export async function accountStatistics(link) {
  const answers = await link.askAll("$SYS.REQ.ACCOUNT.PING.STATZ", undefined, { quiet: 250 });
  return answers.flatMap((answer) => {
    const data = /** @type {{ data?: { account_statz?: AccountStats[] } }} */ (answer).data;
    return data?.account_statz ?? [];
  });
}
