/**
 * The JetStream API as functions, of the account and of streams: a request each, its answer as an object. Durations are
 * nanoseconds, times RFC 3339, as on the wire. Source: jetstream specification; the ADRs of NATS.
 * Never here: consumers (consumers.js), messages (stored.js), what a page makes of it.
 */

import { checked, readJson } from "./answers.js";
import { noted } from "./own_actions.js";

/** @typedef {import("./link.js").Link} Link */

/**
 * @typedef {Record<string, any> & { name: string, subjects?: string[], retention?: string, storage?: string, max_msgs?: number,
 *   max_bytes?: number, max_age?: number, max_msgs_per_subject?: number, num_replicas?: number, allow_direct?: boolean,
 *   deny_delete?: boolean, deny_purge?: boolean, sealed?: boolean, metadata?: Record<string, string> }} StreamConfig
 * @typedef {{ messages: number, bytes: number, first_seq: number, first_ts: string, last_seq: number, last_ts: string,
 *   consumer_count: number, num_subjects?: number, num_deleted?: number, subjects?: Record<string, number> }} StreamState
 * @typedef {{ name: string, lag: number, active: number, external?: object, error?: { description: string }, filter_subject?: string }} SourceInfo
 * @typedef {{ name?: string, leader?: string, replicas?: { name: string, current: boolean, active: number, lag?: number, offline?: boolean }[] }} ClusterInfo
 * @typedef {{ config: StreamConfig, state: StreamState, created: string, ts?: string, mirror?: SourceInfo, sources?: SourceInfo[],
 *   cluster?: ClusterInfo, domain?: string, total?: number, offset?: number, limit?: number }} StreamInfo
 * @typedef {Record<string, any> & { durable_name?: string, name?: string, filter_subject?: string, filter_subjects?: string[],
 *   ack_policy?: string, deliver_policy?: string, deliver_subject?: string, paused_until?: string, pause_until?: string, max_deliver?: number }} ConsumerConfig
 * @typedef {{ consumer_seq: number, stream_seq: number, last_active?: string }} Position
 * @typedef {{ stream_name: string, name: string, created: string, config: ConsumerConfig, delivered: Position, ack_floor: Position,
 *   num_ack_pending: number, num_redelivered: number, num_waiting: number, num_pending: number, push_bound?: boolean, paused?: boolean,
 *   pause_remaining?: number, cluster?: ClusterInfo, priority_groups?: object[], ts?: string }} ConsumerInfo
 * @typedef {{ memory: number, storage: number, streams: number, consumers: number, limits: Record<string, number>, domain?: string,
 *   api: { total: number, errors: number }, tiers?: Record<string, any> }} AccountInfo
 * @typedef {{ subject: string, sequence: number, time: string, headers: [string, string][], data: Uint8Array, pending?: number }} StoredMessage
 */

export const API = "$JS.API";
/** Names and infos come by so many. */
export const PAGE = 256;

/** @param {Link} link @returns {Promise<AccountInfo>} */
export function accountInfo(link) {
  return link.askJson(`${API}.INFO`);
}

/**
 * Streams by their names, a page of them with their state.
 * @param {Link} link
 * @param {{ offset?: number, subject?: string }} [options]
 * @returns {Promise<{ streams: StreamInfo[] | null, total: number, offset: number, limit: number }>}
 */
export function streams(link, { offset = 0, subject } = {}) {
  return link.askJson(`${API}.STREAM.LIST`, subject ? { offset, subject } : { offset });
}

/**
 * The names of all streams, page after page.
 * @param {Link} link
 * @returns {Promise<string[]>}
 */
export async function streamNames(link) {
  const names = /** @type {string[]} */ ([]);
  for (let total = 1; names.length < total; ) {
    const answer = /** @type {{ streams: string[] | null, total: number }} */ (
      await link.askJson(`${API}.STREAM.NAMES`, { offset: names.length })
    );
    if (!answer.streams?.length) break;
    names.push(...answer.streams);
    total = answer.total;
  }
  return names;
}

/**
 * @param {Link} link
 * @param {string} name
 * @param {{ subjects_filter?: string, offset?: number, deleted_details?: boolean }} [options]
 * @returns {Promise<StreamInfo>}
 */
export function streamInfo(link, name, options) {
  return link.askJson(`${API}.STREAM.INFO.${name}`, options);
}

/** @param {Link} link @param {StreamConfig} config @returns {Promise<StreamInfo>} */
export function createStream(link, config) {
  return noted(link, "streamCreate", [config.name], link.askJson(`${API}.STREAM.CREATE.${config.name}`, config));
}

/** @param {Link} link @param {StreamConfig} config @returns {Promise<StreamInfo>} */
export function updateStream(link, config) {
  return noted(link, "streamUpdate", [config.name], link.askJson(`${API}.STREAM.UPDATE.${config.name}`, config));
}

/** @param {Link} link @param {string} name @returns {Promise<{ success: boolean }>} */
export function deleteStream(link, name) {
  return noted(link, "streamDelete", [name], link.askJson(`${API}.STREAM.DELETE.${name}`));
}

/**
 * @param {Link} link
 * @param {string} name
 * @param {{ filter?: string, seq?: number, keep?: number }} [options]
 * @returns {Promise<{ purged: number }>}
 */
export function purgeStream(link, name, options) {
  return link.askJson(`${API}.STREAM.PURGE.${name}`, options, { timeout: 30_000 });
}

/** Have another server lead a stream. @param {Link} link @param {string} stream @returns {Promise<{ success: boolean }>} */
export function stepDown(link, stream) {
  return noted(link, "stepDown", [stream], link.askJson(`${API}.STREAM.LEADER.STEPDOWN.${stream}`));
}

/**
 * The stream that takes a subject, or null.
 * @param {Link} link
 * @param {string} subject
 * @returns {Promise<string | null>}
 */
export async function streamOf(link, subject) {
  const answer = /** @type {{ streams: string[] | null }} */ (await link.askJson(`${API}.STREAM.NAMES`, { subject }));
  return answer.streams?.[0] ?? null;
}

/**
 * Publish to a stream and wait for its answer. Raises: Refused with the stream's words.
 * @param {Link} link
 * @param {string} subject
 * @param {Uint8Array | string} data
 * @param {[string, string][]} [lines] of headers
 * @returns {Promise<{ stream: string, seq: number, duplicate?: boolean }>}
 */
export async function publishStored(link, subject, data, lines = []) {
  /** @type {Record<string, string[]>} */
  const headers = {};
  for (const [name, value] of lines) (headers[name] ??= []).push(value);
  return /** @type {any} */ (checked(readJson(await link.ask(subject, data, { headers }))));
}
