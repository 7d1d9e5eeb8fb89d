/**
 * What servers say of themselves to a user of the system account: figures and options as they run, health, routes,
 * JetStream; and what they are told to do. Source: answers of nats-server 2.15.1 and of Headrace.
 * Never here: connections (connections.js), accounts (accounts.js).
 */

import { NobodyThere, Refused } from "./errors.js";
import { everyServer, oneServer } from "./system.js";
import { noted } from "./own_actions.js";

/** @typedef {import("./link.js").Link} Link */
/** @template T @typedef {import("./system.js").FromServer<T>} FromServer */

/**
 * @typedef {{ host?: string, port?: number, name?: string, tls_required?: boolean, tls_verify?: boolean, tls_cert_not_after?: string, [name: string]: unknown }} Listening
 * @typedef {{ max_memory: number, max_storage: number, store_dir?: string, sync_interval?: number, sync_always?: boolean, domain?: string, [name: string]: unknown }} JetStreamConfig
 * @typedef {{ memory: number, storage: number, reserved_memory?: number, reserved_storage?: number, accounts?: number, ha_assets?: number,
 *   api?: { level?: number, total: number, errors: number, inflight?: number } }} JetStreamStats
 * @typedef {Record<string, unknown> & { server_id: string, server_name: string, version: string, git_commit?: string, host?: string, port?: number,
 *   auth_required?: boolean, tls_required?: boolean, tls_verify?: boolean, tls_cert_not_after?: string, max_connections?: number, connections: number,
 *   total_connections?: number, max_payload?: number, max_pending?: number, slow_consumers?: number, start: string, now: string, uptime: string,
 *   mem: number, cores: number, cpu: number, config_load_time?: string, config_digest?: string, system_account?: string,
 *   cluster?: Listening, gateway?: Listening, leaf?: Listening, websocket?: Listening, mqtt?: Listening,
 *   jetstream?: { config?: JetStreamConfig, stats?: JetStreamStats, limits?: object } }} Varz
 * @typedef {{ status: string, status_code?: number, error?: string, errors?: { type: string, error: string, account?: string, stream?: string, consumer?: string }[],
 *   bucket?: Record<string, { commit: string, lag_seconds: number, lag_bytes: number }> }} Health
 * @typedef {{ remote_id: string, remote_name?: string, ip?: string, port?: number, rtt?: string }} Route
 * @typedef {{ server_id: string, num_routes: number, routes?: Route[] | null }} Routez
 */

/**
 * @typedef {{ url: string, shard: string, role: string, epoch: number, owner: string, number: number, snapshot: number, commit: string,
 *   lag_seconds: number, lag_bytes: number, behind: number, commits: { count: number, total_seconds: number, p50_seconds?: number, p99_seconds?: number },
 *   requests: { kind: string, outcome: string, count: number, sent_bytes: number, received_bytes: number }[], stored_bytes: number, cached_bytes: number,
 *   price_month_usd: number, standbys?: { server: string, behind: number, heard_seconds: number }[], trouble?: string, trouble_seconds?: number,
 *   last_error?: string }} BucketState
 * @typedef {{ name: string, created?: string, config?: import("./jetstream.js").StreamConfig, state: import("./jetstream.js").StreamState,
 *   cluster?: import("./jetstream.js").ClusterInfo, mirror?: import("./jetstream.js").SourceInfo, sources?: import("./jetstream.js").SourceInfo[],
 *   consumer_detail?: import("./jetstream.js").ConsumerInfo[] }} StreamDetail
 * @typedef {{ name: string, id?: string, memory: number, storage: number, reserved_memory: number, reserved_storage: number,
 *   api: { total: number, errors: number }, stream_detail?: StreamDetail[] }} AccountDetail
 * @typedef {{ memory: number, storage: number, reserved_memory?: number, reserved_storage?: number, accounts: number, streams: number, consumers: number,
 *   messages: number, bytes: number, disabled?: boolean, config?: JetStreamConfig, api?: JetStreamStats["api"], total?: number, account_details?: AccountDetail[] | null,
 *   meta_cluster?: { name?: string, leader?: string, peer?: string, cluster_size?: number, replicas?: { name: string, current: boolean, active: number, offline?: boolean, lag?: number }[] },
 *   bucket?: BucketState, archive?: ArchiveState }} Jsz
 * @typedef {{ to: string, rounds: number, rows: number, bytes: number, files: number, removed: number, failures: number, last?: string, last_error?: string }} ArchiveState
 * @typedef {{ accounts?: boolean, streams?: boolean, consumer?: boolean, config?: boolean, account?: string, offset?: number, limit?: number }} JszOptions
 */

/** @param {Link} link @param {number} [expected] @returns {Promise<FromServer<Varz>[]>} */
export function varz(link, expected = 0) {
  return everyServer(link, "VARZ", undefined, { expected });
}

/** @param {Link} link @param {string} server @returns {Promise<FromServer<Varz>>} */
export function varzOf(link, server) {
  return oneServer(link, server, "VARZ");
}

/** @param {Link} link @param {number} [expected] @returns {Promise<FromServer<Health>[]>} */
export function health(link, expected = 0) {
  return everyServer(link, "HEALTHZ", { details: true }, { expected });
}

/** @param {Link} link @param {string} server @returns {Promise<FromServer<Health>>} */
export function healthOf(link, server) {
  return oneServer(link, server, "HEALTHZ", { details: true });
}

/** @param {Link} link @param {number} [expected] @returns {Promise<FromServer<Routez>[]>} */
export function routes(link, expected = 0) {
  return everyServer(link, "ROUTEZ", undefined, { expected });
}

/** @param {Link} link @param {JszOptions} [options] @param {number} [expected] @returns {Promise<FromServer<Jsz>[]>} */
export function jetstreamOfAll(link, options = {}, expected = 0) {
  return everyServer(link, "JSZ", options, { expected, quiet: 500, timeout: 10_000 });
}

/** @param {Link} link @param {string} server @param {JszOptions} [options] @returns {Promise<FromServer<Jsz>>} */
export function jetstreamOf(link, server, options = {}) {
  return oneServer(link, server, "JSZ", options, { timeout: 10_000 });
}

/**
 * Have a server read its configuration again. Raises: Refused where the configuration is wrong.
 * @param {Link} link
 * @param {string} server
 */
export async function reload(link, server) {
  await noted(link, "reload", [server], oneServer(link, server, "RELOAD", undefined, { timeout: 30_000 }));
}

/**
 * @typedef {{ path: string, before: string | null, after: string | null, needs_restart: boolean, text: string }} Change
 * @typedef {{ file: string, digest: string, loaded_digest: string, differences: Change[], warnings: string[] }} ConfigDifference
 */

/**
 * What the configuration file of a server says now, and did not when the server read it; null where the server has
 * no such request: nats-server, and Headrace before 0.3. Raises: Refused where the file is wrong, or there is none.
 *
 * @param {Link} link
 * @param {string} server
 * @returns {Promise<ConfigDifference | null>}
 */
export async function configDifference(link, server) {
  try {
    const answer = /** @type {FromServer<ConfigDifference>} */ (await oneServer(link, server, "CONFIG.DIFF", undefined, { timeout: 10_000 }));
    return answer.data;
  } catch (error) {
    if (error instanceof NobodyThere) return null;
    throw error;
  }
}

/**
 * The version of Headrace that a server is, or "" for another program.
 * @param {{ git_commit?: string }} varz
 */
export function headraceVersion(varz) {
  return /^headrace-(.+)$/.exec(varz.git_commit ?? "")?.[1] ?? "";
}

/**
 * The name and version of a server's program.
 * @param {{ git_commit?: string, version: string }} varz
 */
export function product(varz) {
  const ours = headraceVersion(varz);
  return ours ? `Headrace ${ours}` : `nats-server ${varz.version}`;
}

/**
 * The answers without those that are errors. Raises: the first error where no server answered otherwise.
 *
 * @template T
 * @param {FromServer<T>[]} answers
 * @returns {FromServer<T>[]}
 */
export function good(answers) {
  const right = answers.filter((answer) => !answer.error);
  if (!right.length && answers.length) throw new Refused(500, 0, answers[0].error?.description ?? "");
  return right;
}
