/** Search in the contents of a stream, newest first, without a consumer: nothing is taken from a work queue. */

import { decode } from "../ui/payload.js";
import { readRange } from "./browse.js";
import { readExactly } from "./exact_json.js";

/** @typedef {import("../nats/link.js").Link} Link */
/** @typedef {import("../nats/jetstream.js").StreamConfig} StreamConfig */
/** @typedef {import("../nats/jetstream.js").StoredMessage} StoredMessage */
/** @typedef {{ sequence: number, read: number, found: number, rate: number }} Progress sequence: how far back it is; rate: messages a second */

/** So many sequences are read at once, where messages are small; after stretches without a message more. */
const STEP = 512;
const LARGEST_STEP = 8_192;
const STEP_BYTES = 8 * 1_048_576;
/** After so many found messages the search ends: a person looks for one. */
export const MOST_FOUND = 500;

/**
 * Search backwards from `before`; every message that matches goes to `take`.
 *
 * @param {Link} link
 * @param {StreamConfig} config
 * @param {{ state: { messages: number, bytes: number, first_seq: number }, before: number, subject?: string, matches: (message: StoredMessage) => boolean,
 *   take: (message: StoredMessage) => void, progress: (progress: Progress) => void, signal: AbortSignal }} options
 * @returns {Promise<Progress>}
 */
export async function search(link, config, { state, before, subject, matches, take, progress, signal }) {
  const began = performance.now();
  const widest = Math.max(16, Math.min(LARGEST_STEP, Math.floor(STEP_BYTES / Math.max(1, state.bytes / Math.max(1, state.messages)))));
  let step = Math.min(STEP, widest);
  const now = { sequence: before, read: 0, found: 0, rate: 0 };
  while (now.sequence > state.first_seq && now.found < MOST_FOUND && !signal.aborted) {
    const from = Math.max(state.first_seq, now.sequence - step);
    const { found } = await readRange(link, config, { from, before: now.sequence, most: Infinity, subject, signal });
    if (signal.aborted) break;
    let last = from;
    for (const message of found.reverse()) {
      if (now.found >= MOST_FOUND || !matches(message)) continue;
      now.found += 1;
      last = message.sequence;
      take(message);
    }
    now.read += found.length;
    now.sequence = now.found < MOST_FOUND ? from : last;
    now.rate = (now.read / Math.max(1, performance.now() - began)) * 1_000;
    step = found.length < step / 4 ? Math.min(widest, step * 2) : Math.max(Math.min(STEP, widest), Math.floor(step / 2));
    progress({ ...now });
  }
  return { ...now };
}

const CONDITION = /^([A-Za-z_][\w.-]*)\s*(!=|<=|>=|=|<|>)\s*(.*)$/;

/**
 * The test for what a person typed: a text anywhere in subject, headers or payload, or a condition on a JSON payload
 * such as `customer.name=ann` or `total>100`.
 *
 * @param {string} typed
 * @returns {(message: StoredMessage) => boolean}
 */
export function matcher(typed) {
  const condition = CONDITION.exec(typed.trim());
  if (condition) return byCondition(condition[1].split("."), condition[2], condition[3].trim());
  const wanted = typed.trim().toLowerCase();
  return (message) =>
    message.subject.toLowerCase().includes(wanted) ||
    decode(message.data).toLowerCase().includes(wanted) ||
    message.headers.some(([name, value]) => `${name}: ${value}`.toLowerCase().includes(wanted));
}

/**
 * @param {string[]} path
 * @param {string} operator
 * @param {string} wanted
 * @returns {(message: StoredMessage) => boolean}
 */
function byCondition(path, operator, wanted) {
  const text = wanted.replace(/^"(.*)"$/, "$1");
  const number = wanted === "" ? NaN : Number(wanted);
  return (message) => {
    const value = valueAt(message.data, path);
    if (value === undefined) return false;
    if (operator === "=" || operator === "!=") return (String(value) === text || (typeof value === "number" && value === number)) === (operator === "=");
    const isNumber = typeof value === "number" || typeof value === "bigint";
    const [left, right] = isNumber && !Number.isNaN(number) ? [value, number] : [String(value), text];
    return operator === "<" ? left < right : operator === "<=" ? left <= right : operator === ">" ? left > right : left >= right;
  };
}

/**
 * The value at a path of a JSON payload; undefined where there is none, or where it is no JSON.
 * @param {Uint8Array} data
 * @param {string[]} path
 */
function valueAt(data, path) {
  /** @type {any} */
  let value;
  try {
    value = readExactly(decode(data));
  } catch {
    return undefined;
  }
  for (const step of path) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, step)) return undefined;
    value = value[step];
  }
  return value;
}
