/** Messages that a stream has stored: read by direct gets where it allows them, else by the JetStream API; deleted. */

import { isNobody } from "./answers.js";
import { Refused } from "./errors.js";
import { API } from "./jetstream.js";
import { noted } from "./own_actions.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./link.js").Msg} Msg */
/** @typedef {import("./jetstream.js").StreamConfig} StreamConfig */
/** @typedef {import("./jetstream.js").StoredMessage} StoredMessage */

/** @param {Link} link @param {string} name @param {number} sequence @returns {Promise<{ success: boolean }>} */
export function deleteMessage(link, name, sequence) {
  return noted(link, "messageDelete", [name, String(sequence)], link.askJson(`${API}.STREAM.MSG.DELETE.${name}`, { seq: sequence, no_erase: false }));
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
