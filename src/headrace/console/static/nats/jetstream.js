/**
 * The JetStream API as functions: a request each, its answer as an object. Durations are nanoseconds, times RFC 3339,
 * as on the wire. Source: jetstream specification; the ADRs of NATS.
 * Never here: what a page makes of it.
 */

import { checked, isNobody, readJson } from "./answers.js";
import { Refused } from "./errors.js";
import { noted } from "./own_actions.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./link.js").Msg} Msg */

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

const API = "$JS.API";
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

/** @param {Link} link @param {string} name @param {number} sequence @returns {Promise<{ success: boolean }>} */
export function deleteMessage(link, name, sequence) {
  return noted(link, "messageDelete", [name, String(sequence)], link.askJson(`${API}.STREAM.MSG.DELETE.${name}`, { seq: sequence, no_erase: false }));
}

/**
 * Consumers of a stream with their state, a page of them.
 * @param {Link} link
 * @param {string} stream
 * @param {number} [offset]
 * @returns {Promise<{ consumers: ConsumerInfo[] | null, total: number, offset: number, limit: number }>}
 */
export function consumers(link, stream, offset = 0) {
  return link.askJson(`${API}.CONSUMER.LIST.${stream}`, { offset });
}

/** @param {Link} link @param {string} stream @param {string} name @returns {Promise<ConsumerInfo>} */
export function consumerInfo(link, stream, name) {
  return link.askJson(`${API}.CONSUMER.INFO.${stream}.${name}`);
}

/**
 * Make a consumer, or change it. Without an action both are fine.
 * @param {Link} link
 * @param {string} stream
 * @param {ConsumerConfig} config
 * @param {"create" | "update" | ""} [action]
 * @returns {Promise<ConsumerInfo>}
 */
export function createConsumer(link, stream, config, action = "") {
  const name = config.name ?? config.durable_name ?? "";
  const place = name ? `.${name}` : "";
  return link.askJson(`${API}.CONSUMER.CREATE.${stream}${place}`, { stream_name: stream, config, action });
}

/** @param {Link} link @param {string} stream @param {string} name @returns {Promise<{ success: boolean }>} */
export function deleteConsumer(link, stream, name) {
  return link.askJson(`${API}.CONSUMER.DELETE.${stream}.${name}`);
}

/**
 * Pause a consumer until a time, or resume it without one.
 * @param {Link} link
 * @param {string} stream
 * @param {string} name
 * @param {string} [until] RFC 3339
 * @returns {Promise<{ paused: boolean, pause_until?: string }>}
 */
export function pauseConsumer(link, stream, name, until) {
  return noted(link, until ? "consumerPause" : "consumerResume", [stream, name], link.askJson(`${API}.CONSUMER.PAUSE.${stream}.${name}`, until ? { pause_until: until } : {}));
}

/**
 * Let a consumer begin again, behind what was acknowledged or at a sequence.
 * @param {Link} link
 * @param {string} stream
 * @param {string} name
 * @param {number} [sequence]
 * @returns {Promise<ConsumerInfo & { reset_seq?: number }>}
 */
export function resetConsumer(link, stream, name, sequence) {
  return noted(link, "consumerReset", [stream, name], link.askJson(`${API}.CONSUMER.RESET.${stream}.${name}`, sequence === undefined ? undefined : { seq: sequence }));
}

/** Let another client of a priority group have the messages. @param {Link} link @param {string} stream @param {string} name @param {string} group */
export function unpinConsumer(link, stream, name, group) {
  return noted(link, "consumerUnpin", [stream, name, group], link.askJson(`${API}.CONSUMER.UNPIN.${stream}.${name}`, { group }));
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

/**
 * One stored message, by sequence or the last or next of a subject; null where there is none.
 *
 * By a direct get where the stream allows it, else by the API.
 *
 * @param {Link} link
 * @param {StreamConfig} config
 * @param {{ seq?: number, last_by_subj?: string, next_by_subj?: string, start_time?: string }} which
 * @returns {Promise<StoredMessage | null>}
 */
export async function storedMessage(link, config, which) {
  if (config.allow_direct) {
    const answer = await link.ask(`${API}.DIRECT.GET.${config.name}`, JSON.stringify(which));
    return answer.headers?.code === 404 ? null : fromDirect(answer);
  }
  try {
    const answer = /** @type {{ message: { subject: string, seq: number, time: string, hdrs?: string, data?: string } }} */ (
      await link.askJson(`${API}.STREAM.MSG.GET.${config.name}`, which)
    );
    return fromApi(answer.message);
  } catch (error) {
    if (error instanceof Refused && error.code === 404 && error.errorCode === 10037) return null;
    throw error;
  }
}

/**
 * Many stored messages in ascending order, each given to `take`, until it says false.
 *
 * By one batch of direct gets where the stream allows them, else one after the other. Gives true where the end of
 * the stream was reached.
 *
 * @param {Link} link
 * @param {StreamConfig} config
 * @param {{ from: number, subject?: string, count: number, take: (message: StoredMessage) => unknown, signal?: AbortSignal }} options
 * @returns {Promise<boolean>}
 */
export async function readForward(link, config, { from, subject = ">", count, take, signal }) {
  if (!config.allow_direct) return readSingly(link, config, { from, subject, count, take, signal });
  let isEnd = false;
  let refusal = /** @type {Refused | null} */ (null);
  await link.eachAnswer(`${API}.DIRECT.GET.${config.name}`, JSON.stringify({ seq: from, batch: count, max_bytes: 4_194_304, next_by_subj: subject }), {
    quiet: 5_000,
    signal,
    take: (answer) => {
      if (answer.headers?.code === 204) {
        isEnd = Number(answer.headers.get("Nats-Num-Pending") || 0) === 0;
        return false;
      }
      if (answer.headers?.code === 404) {
        isEnd = true;
        return false;
      }
      if (answer.headers && answer.headers.code >= 400) {
        refusal = new Refused(answer.headers.code, 0, answer.headers.description);
        return false;
      }
      return take(fromDirect(answer));
    },
  });
  if (refusal) throw refusal;
  return isEnd;
}

/**
 * @param {Link} link
 * @param {StreamConfig} config
 * @param {{ from: number, subject: string, count: number, take: (message: StoredMessage) => unknown, signal?: AbortSignal }} options
 */
async function readSingly(link, config, { from, subject, count, take, signal }) {
  let sequence = from;
  for (let read = 0; read < count && !signal?.aborted; read += 1) {
    const message = await storedMessage(link, config, { seq: sequence, next_by_subj: subject });
    if (!message) return true;
    sequence = message.sequence + 1;
    if (take(message) === false) return false;
  }
  return false;
}

/** @param {Msg} answer @returns {StoredMessage} */
function fromDirect(answer) {
  const lines = answer.headers;
  if (!lines || isNobody(answer)) throw new Refused(503, 0, "no responders");
  if (lines.code >= 400) throw new Refused(lines.code, 0, lines.description);
  const own = new Set(["Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence", "Nats-UpTo-Sequence"]);
  return {
    subject: lines.get("Nats-Subject"),
    sequence: Number(lines.get("Nats-Sequence")),
    time: lines.get("Nats-Time-Stamp"),
    headers: headerRows(lines).filter(([name]) => !own.has(name)),
    data: answer.data,
    pending: Number(lines.get("Nats-Num-Pending") || 0),
  };
}

/**
 * @param {{ subject: string, seq: number, time: string, hdrs?: string, data?: string }} message
 * @returns {StoredMessage}
 */
function fromApi(message) {
  return {
    subject: message.subject,
    sequence: message.seq,
    time: message.time,
    headers: message.hdrs ? headerLines(new TextDecoder().decode(fromBase64(message.hdrs))) : [],
    data: message.data ? fromBase64(message.data) : new Uint8Array(),
  };
}

/**
 * The headers of a message as rows, a name that came several times in as many rows.
 * @param {import("./link.js").MsgHdrs | undefined} lines
 * @returns {[string, string][]}
 */
export function headerRows(lines) {
  if (!lines) return [];
  return [...lines].flatMap(([name, values]) => values.map((value) => /** @type {[string, string]} */ ([name, value])));
}

/** @param {string} block @returns {[string, string][]} */
function headerLines(block) {
  return block.split("\r\n").slice(1).filter(Boolean).map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });
}

/** @param {string} text */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
