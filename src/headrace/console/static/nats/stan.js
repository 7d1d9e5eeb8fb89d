/**
 * NATS Streaming of Headrace by plain NATS requests: channels, their subscriptions, stored messages, and what
 * administration there is. Nothing of STAN's own protocol is spoken. Source: docs/streaming.md; protocol/admin.py.
 * Never here: what a page makes of it.
 */

import { Refused } from "./errors.js";
import { noted } from "./own_actions.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./jetstream.js").StoredMessage} StoredMessage */
/**
 * @typedef {{ client_id: string, durable_name: string, queue_name: string, is_offline: boolean, last_sent: number, pending_count: number }} Subscription
 * @typedef {{ name: string, msgs: number, bytes: number, first_seq: number, last_seq: number, last_time: string, subs_count: number,
 *   created: string, damaged: number, subscriptions?: Subscription[] }} Channel
 * @typedef {{ total: number, offset: number, channels: Channel[] }} ChannelPage
 */

/** The cluster ID of servers whose configuration names none. */
export const USUAL_CLUSTER = "test-cluster";
/** An answer is about 256 KiB: so many are asked for at most, one after the other. */
const MOST_PAGES = 200;

/** @typedef {"channels" | "report" | "purge" | "delete" | "adopt"} Verb */

/**
 * @param {string} cluster
 * @param {Verb} verb
 */
export function adminSubject(cluster, verb) {
  return `_STAN.admin.${cluster}.${verb}`;
}

/**
 * All channels, part after part; `report`: with their subscriptions.
 *
 * @param {Link} link
 * @param {string} cluster
 * @param {{ report?: boolean, channel?: string }} [options]
 * @returns {Promise<Channel[]>}
 */
export async function channels(link, cluster, { report = false, channel } = {}) {
  const found = /** @type {Channel[]} */ ([]);
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const answer = /** @type {ChannelPage} */ (await link.askJson(adminSubject(cluster, report ? "report" : "channels"), { ...(channel ? { channel } : {}), offset: found.length }));
    found.push(...answer.channels);
    if (!answer.channels.length || found.length >= answer.total) break;
  }
  return found;
}

/**
 * True if a server answers for this cluster ID. Raises: NobodyThere, NoRight and the like.
 * @param {Link} link
 * @param {string} cluster
 */
export async function ping(link, cluster) {
  await link.askJson(adminSubject(cluster, "channels"), { channel: "_headrace_console_asks" });
  return true;
}

/**
 * @param {Link} link
 * @param {string} cluster
 * @param {{ channel: string, before_sequence?: number, before_time?: string, keep?: number }} request
 * @returns {Promise<{ purged: number, channel: Channel }>}
 */
export function purgeChannel(link, cluster, request) {
  return noted(link, "channelPurge", [cluster, request.channel], link.askJson(adminSubject(cluster, "purge"), request, { timeout: 30_000 }));
}

/**
 * @param {Link} link
 * @param {string} cluster
 * @param {string} channel
 * @returns {Promise<{ deleted: boolean, messages: number, subscriptions: number }>}
 */
export function deleteChannel(link, cluster, channel) {
  return noted(link, "channelDelete", [cluster, channel], link.askJson(adminSubject(cluster, "delete"), { channel }, { timeout: 30_000 }));
}

/**
 * A durable subscription becomes a consumer of the channel's stream.
 *
 * @param {Link} link
 * @param {string} cluster
 * @param {{ channel: string, client_id?: string, durable: string, consumer?: string }} request
 * @returns {Promise<{ stream: string, consumer: string, pending: number }>}
 */
export function adoptDurable(link, cluster, request) {
  return noted(link, "durableAdopt", [cluster, request.channel, request.durable], link.askJson(adminSubject(cluster, "adopt"), request, { timeout: 30_000 }));
}

/**
 * Stored messages of a channel, oldest first, at most `count`. Gives what could not be read, in the server's words.
 *
 * @param {Link} link
 * @param {string} cluster
 * @param {{ channel: string, start_sequence?: number, end_sequence?: number, start_time?: string }} request
 * @param {{ count: number, take: (message: StoredMessage) => void, signal?: AbortSignal }} options
 * @returns {Promise<string>}
 */
export async function replay(link, cluster, request, { count, take, signal }) {
  let damaged = "";
  let refusal = /** @type {Refused | null} */ (null);
  await link.eachAnswer(`_STAN.replay.${cluster}`, JSON.stringify({ ...request, max_messages: count }), {
    quiet: 10_000,
    timeout: 10_000,
    signal,
    take: (answer) => {
      const lines = answer.headers;
      if (lines && lines.code >= 400) {
        refusal = new Refused(lines.code, 0, lines.description);
        return false;
      }
      if (!lines || lines.code === 204) {
        damaged = lines?.get("Nats-Damaged") ?? "";
        return false;
      }
      take({
        subject: lines.get("Nats-Subject"), sequence: Number(lines.get("Nats-Sequence")), time: lines.get("Nats-Time-Stamp"),
        headers: lines.get("Nats-Reply") ? [["Nats-Reply", lines.get("Nats-Reply")]] : [], data: answer.data,
      });
      return true;
    },
  });
  if (refusal) throw refusal;
  return damaged;
}
