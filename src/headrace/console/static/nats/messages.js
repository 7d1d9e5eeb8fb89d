/**
 * Messages of people: read from the wire, published, sent as requests with one answer or many.
 * Never here: the JetStream API, requests to servers.
 */

import { headers } from "../vendor/nats-core.js";
import { noted } from "./own_actions.js";

/** @typedef {import("./link.js").Link} Link */
/** @typedef {import("./link.js").Msg} Msg */
/** @typedef {[string, string][]} HeaderLines */

/**
 * A message that came. `status`: of a message that a server made, such as 503. `isOdd`: its headers could not be read.
 * @typedef {{ subject: string, reply: string, headers: HeaderLines, status: string, isOdd: boolean, data: Uint8Array, size: number, time: number }} Received
 */

/**
 * A message to be sent.
 * @typedef {{ subject: string, body: Uint8Array, headers: HeaderLines, reply?: string }} Draft
 */

/**
 * A message as it came, with bytes of its own: those of the wire are part of a larger block, which may then go.
 *
 * @param {Msg} message
 * @returns {Received}
 */
export function received(message) {
  const data = message.data.slice();
  const { lines, status, isOdd } = headersOf(message);
  const size = data.length + lines.reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0);
  return { subject: message.subject, reply: message.reply ?? "", headers: lines, status, isOdd, data, size, time: Date.now() };
}

/**
 * @param {Msg} message
 * @returns {{ lines: HeaderLines, status: string, isOdd: boolean }}
 */
function headersOf(message) {
  try {
    const found = message.headers;
    if (!found) return NO_HEADERS;
    const lines = found.keys().flatMap((name) => found.values(name).map((value) => /** @type {[string, string]} */ ([name, value])));
    return { lines, status: found.code ? `${found.code} ${found.description}`.trim() : "", isOdd: false };
  } catch {
    return { lines: [], status: "", isOdd: true };
  }
}

const NO_HEADERS = { lines: /** @type {HeaderLines} */ ([]), status: "", isOdd: false };

/**
 * Publish a message. Raises: NoRight, NotConnected.
 *
 * @param {Link} link
 * @param {Draft} draft
 */
export function publish(link, draft) {
  return noted(link, "publish", [draft.subject], link.publish(draft.subject, draft.body, { reply: draft.reply || undefined, headers: made(draft.headers) }));
}

/**
 * Send a request; gives each answer to `take`, until there were `most`, or no further one came for `quiet` ms.
 *
 * Raises: NobodyThere, NoAnswer, NoRight, NotConnected.
 *
 * @param {Link} link
 * @param {Draft} draft
 * @param {{ take: (answer: Received) => void, most?: number, timeout: number, quiet: number, signal?: AbortSignal }} options
 */
export function request(link, draft, { take, most = 0, timeout, quiet, signal }) {
  /** @type {Record<string, string[]>} */
  const lines = {};
  for (const [name, value] of draft.headers) (lines[name] ??= []).push(value);
  return noted(link, "ask", [draft.subject], link.eachAnswer(draft.subject, draft.body, {
    take: (answer) => {
      take(received(answer));
    },
    expected: most, timeout, quiet, headers: lines, signal,
  }));
}

/** @param {HeaderLines} lines */
function made(lines) {
  if (!lines.length) return undefined;
  const all = headers();
  for (const [name, value] of lines) all.append(name, value);
  return all;
}

/**
 * The lines of headers that a person typed, `Name: value` each. Raises: Error that names the line.
 *
 * @param {string} typed
 * @param {(line: string) => string} complaint
 * @returns {HeaderLines}
 */
export function readHeaders(typed, complaint) {
  return typed.split("\n").filter((line) => line.trim()).map((line) => {
    const found = /^([!-9;-~]+)\s*:\s*(.*)$/.exec(line.trim());
    if (!found) throw new Error(complaint(line.trim()));
    return [found[1], found[2].trim()];
  });
}
