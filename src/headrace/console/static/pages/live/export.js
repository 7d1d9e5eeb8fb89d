/** Messages as JSON, with the keys that `headrace sub --json` has. */

import { toBase64 } from "../../ui/payload.js";

/** @typedef {import("../../nats/messages.js").Received} Received */

/**
 * @param {Received} message
 * @returns {Record<string, unknown>}
 */
export function document(message) {
  /** @type {Record<string, string[]>} */
  const headers = {};
  for (const [name, value] of message.headers) (headers[name] ??= []).push(value);
  const text = utf8(message.data);
  return {
    subject: message.subject,
    ...(message.reply && { reply: message.reply }),
    ...(message.headers.length && { headers }),
    ...(text === null ? { data_base64: toBase64(message.data) } : { data: text }),
    size_bytes: message.size,
    received: new Date(message.time).toISOString(),
  };
}

/**
 * Messages as JSON Lines, a line each.
 * @param {Received[]} messages
 * @returns {string[]}
 */
export function jsonLines(messages) {
  return messages.map((message) => `${JSON.stringify(document(message))}\n`);
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The text of bytes, or null where they are no UTF-8.
 * @param {Uint8Array} data
 */
export function utf8(data) {
  try {
    return strict.decode(data);
  } catch {
    return null;
  }
}
