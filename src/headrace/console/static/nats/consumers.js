/**
 * Consumers of streams over the JetStream API: a request each, its answer as an object.
 * Never here: their messages (pulls.js, ordered.js).
 */

import { API } from "./jetstream.js";
import { noted } from "./own_actions.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./jetstream.js").ConsumerConfig} ConsumerConfig */
/** @typedef {import("./jetstream.js").ConsumerInfo} ConsumerInfo */

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
