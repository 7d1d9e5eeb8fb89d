/**
 * What takes messages of a pull consumer away: one pull, and the answers to the message that came.
 */

import { Refused } from "./errors.js";
import { noted } from "./own_actions.js";
import { headerRows } from "./stored.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {{ subject: string, sequence: number, delivery: number, time: string, pending: number, headers: [string, string][], data: Uint8Array,
 *   reply: string }} Delivered */

/**
 * Pull one message; it is then waiting for its acknowledgement. Null where none came in time.
 *
 * Raises: Refused where the consumer does not serve this pull; NobodyThere where it is gone.
 *
 * @param {Link} link
 * @param {string} stream
 * @param {string} name
 * @param {{ waitMs?: number, group?: string }} [options] group: of a consumer with priority groups
 * @returns {Promise<Delivered | null>}
 */
export async function pullOne(link, stream, name, { waitMs = 1_000, group } = {}) {
  const body = JSON.stringify({ batch: 1, expires: waitMs * 1e6, ...(group ? { group } : {}) });
  const answers = /** @type {import("./link.js").Msg[]} */ ([]);
  // not by Link.ask: what comes has the subject of the stream, not that of the request's inbox
  await link.eachAnswer(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${name}`, body, { timeout: waitMs + 4_000, expected: 1, take: (answer) => answers.push(answer) });
  const [message] = answers;
  const code = message.reply ? 0 : (message.headers?.code ?? 0);
  if (code === 404 || code === 408) return null;
  if (code >= 400) throw new Refused(code, 0, message.headers?.description ?? "");
  const place = deliveryOf(message.reply ?? "");
  void noted(link, "messageTake", [stream, name, String(place.sequence)], Promise.resolve());
  return { ...place, subject: message.subject, headers: headerRows(message.headers), data: message.data, reply: message.reply ?? "" };
}

/**
 * The place of a delivered message, by the subject that its acknowledgement goes to.
 * @param {string} reply `$JS.ACK.<stream>.<consumer>.<delivery>.<stream sequence>.<consumer sequence>.<ns>.<pending>`, or with domain
 *   and account before the stream
 */
export function deliveryOf(reply) {
  const rest = reply.split(".").slice(isLong(reply) ? 6 : 4);
  const [delivery = 0, sequence = 0, , ns = 0, pending = 0] = rest.map(Number);
  return { delivery, sequence, time: new Date(ns / 1e6).toISOString(), pending };
}

/** Domain and account stand before the stream. @param {string} reply */
function isLong(reply) {
  return reply.split(".").length > 9;
}

/** Stream and consumer of a delivered message. @param {string} reply */
function placeOf(reply) {
  return reply.split(".").slice(isLong(reply) ? 4 : 2);
}

/**
 * Answer a message; done when the server has taken the answer.
 *
 * @param {Link} link
 * @param {string} reply
 * @param {"ack" | "nak" | "term" | "progress"} what
 * @param {{ delayNs?: number }} [options] delay: a refused message comes again after it
 */
export async function acknowledge(link, reply, what, { delayNs = 0 } = {}) {
  const words = { ack: "+ACK", nak: delayNs ? `-NAK ${JSON.stringify({ delay: delayNs })}` : "-NAK", term: "+TERM", progress: "+WPI" };
  const [stream, consumer] = placeOf(reply);
  await noted(link, "messageAnswer", [stream, consumer, String(deliveryOf(reply).sequence), what], link.ask(reply, words[what]));
}
